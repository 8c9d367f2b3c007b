"""The choice among several names under which the lines of a log say one quantity; what can't be chosen is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slowstep.audit.figures import parse
from slowstep.audit.read.courses import middle
from slowstep.audit.read.other_work import evaluates_last

AVERAGED = re.compile(r"avg|average|running|mean|smooth|ema\b|total|cumul|in brackets$", re.IGNORECASE)
"""Words of a speed that counts the start of the run, which one of single lines does not. In brackets behind the speed
of a line most logs write such an average."""

TOTAL = re.compile(r"total", re.IGNORECASE)
MEAN = re.compile(r"avg|average|running|mean|smooth|ema\b|cumul", re.IGNORECASE)
"""Words of a time that is the sum of its parts, and of what is no sum but a mean."""

PARTS = (
    r"(?:fwd|forward|bwd|backward|opt(?:im(?:i[sz]er)?)?|data|dataload\w*|load\w*|comm|communication|wait\w*|sampling|"
    r"sampler|generat\w*|rollouts?|sync\w*|h2d|copy|io)"
)
"""Words of what is only a part of a step."""

OF_A_PART = re.compile(
    rf"(?:^|[^a-z])(?:{PARTS}|read\w*|decod\w*|comput\w*|(?:pre)?fetch\w*|collect\w*)(?:[^a-z]|$)", re.IGNORECASE
)
"""Words of a speed that is of a part of a step, or may be of one, such as `compute`: where nothing else is said, that
counts."""

EXTREME = re.compile(r"peak|best|fastest|slowest|(?:^|[^a-z])(?:max|min)(?:[^a-z]|$)", re.IGNORECASE)
"""Words of a speed that is the largest or the smallest of several."""

APART = 0.02
"""The share by which the medians of one quantity under two names may differ without a question."""

SELDOM = 0.5
"""The share of the lines of the most frequent name below which another one is said only now and then."""

ABOVE = 1.5
"""How many times the only part that lines say a total is at least, which else may be a mean."""

OFF = 0.1
"""The share by which the medians of parts may be more than the median of their total."""

NEARER = 0.9
"""The ratio of two gaps from which on an average does not come nearer to the speeds of single lines."""

Values = Sequence[str]


def chosen(quantity: str, said: Mapping[str, Values]) -> tuple[str, str]:
    """Return the figure of a quantity that lines say under several names, and a question; one of them may be empty.

    An evaluation's speed never counts. Those of parts, such as `decode` and `compute`, and extremes count only where
    nothing else is said. Averages over the run count only where no line says its own speed; one that stays apart from
    those is asked about. A total time that stays above those of single lines is the sum of parts and counts first.
    Where two others that are said about as often differ, nothing is chosen, since nobody says which of them is that of
    training.
    """
    said = {name: values for name, values in said.items() if not evaluates_last(name)}
    if not said:
        return "", ""
    whole = {name: values for name, values in said.items() if not is_part(name)} or said
    single = {name: values for name, values in whole.items() if not AVERAGED.search(name)} or whole
    often = max(map(len, single.values()))
    total = _total_of_parts(quantity, whole, single)
    if total:
        return total, ""
    first, *others = ((n, middle(v)) for n, v in single.items() if len(v) > SELDOM * often)
    unlike = [other for other in others if _apart(other[1], first[1]) > APART]
    if unlike:
        return "", f"{_twice(quantity, first, unlike[0])}: which counts?"
    for name in (name for name in whole if name not in single and _stays_apart(whole[name], first[1])):
        both = _twice(quantity, first, (name, middle(whole[name])))
        return first[1], f"{both}: which counts? The first is taken here"
    return first[1], ""


def _total_of_parts(title: str, whole: Mapping[str, Values], single: Mapping[str, Values]) -> str:
    """Return the time that is called a total and stays above those of single lines, which are parts of it then.

    The mean of a run is called so, too, and comes nearer to the times of its lines.
    """
    times = sorted((middle(values) for values in single.values()), key=lambda value: parse(value).middle)
    single_times = [parse(time).middle for time in times]
    least = (1 - OFF) * sum(single_times) if len(times) > 1 else ABOVE * single_times[0]
    for values in (each for name, each in whole.items() if TOTAL.search(name) and not MEAN.search(name)):
        above = parse(middle(values)).middle >= least
        if title.startswith("s/") and above and _stays_apart(values, times[-1]):
            return middle(values)
    return ""


def is_part(name: str) -> bool:
    """Return whether a name is that of a part of a step, or of the fastest step."""
    return bool(OF_A_PART.search(name.replace("_", " ")) or EXTREME.search(name.replace("_", " ")))


def _apart(a: str, b: str) -> float:
    low, high = sorted(parse(value).middle for value in (a, b))
    return high / low - 1 if low > 0 else 0.0


def _stays_apart(average: Values, single: str) -> bool:
    """Return whether an average keeps its distance from a speed, which it would not if only the start were between."""
    half, last = (_apart(value, single) for value in (average[len(average) // 2], average[-1]))
    return last > APART and last >= NEARER * half


def _twice(quantity: str, *pairs: tuple[str, str]) -> str:
    said = " and ".join(f"{value} as '{name}'" for name, value in pairs)
    return f"its lines say {quantity} twice, {said}"
