"""What the lines of a log that say one speed are of, and the choice among several names under which they say it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slowstep.audit.figures import parse, shown
from slowstep.audit.read.bar_names import number_before, process_of
from slowstep.audit.read.course_figures import FEWEST
from slowstep.audit.read.courses import middle
from slowstep.audit.read.other_work import evaluates_last

IN_WORDS = re.compile(
    r"(?<![\w.])(model|dtype|precision|amp|compile[d\w]*|torch_compile|attn\w*|attention|backend|optim(?:izer)?|config|"
    r"mode|variant|ckpt|checkpointing|gradient_checkpointing|device)\s?[=:]\s?['\"]?([A-Za-z][\w./-]{0,40}\b|[01](?![\w.]))",
    re.IGNORECASE,
)
"""Settings that a line says in words: `dtype=bf16`."""

IN_NUMBERS = re.compile(
    r"(?<![\w.])(bs|batch[_-]?size|micro[_-]?batch(?:[_-]?size)?|mbs|seq(?:[_-]?len(?:gth)?)?|ctx|gpus?|world[_-]?size|"
    r"(?:num[_-]?)?workers|accum\w*|grad[_-]?accum\w*)\s?[=:]\s?(\d{1,7})(?![\d.]|\s?(?:%|°|[CW]\b|m?s\b|[GM]i?B))",
    re.IGNORECASE,
)
"""Settings that it says in numbers. In a training they may change with each step."""

COUNTER = re.compile(
    r"(?<![a-z])(?:global[_ ]?)?(?:steps?|iter(?:ation)?s?|it|epoch|ep|batch|update)\W{0,3}(\d+)|"
    r"\[\s*(\d+)\s*/\s*\d+\s*\]",
    re.IGNORECASE,
)
"""What counts the steps of a training."""

MOST = 4
"""The most values of a setting that are kept."""

MOST_NUMBERS = 1_000
FEWEST_TURNS = 2
"""How many numbers before lines are kept, and how often one comes back at least if they are of processes."""

WORDS = re.compile(r"[^\W\d_]{2,}")

MOST_SHOWN = 40
"""The most characters of a line that are shown."""

APART = 1.5
"""The ratio beyond which the values of a few lines are not those of one training."""

OF_ALL_PROCESSES = ("samples_per_second", "tokens_per_second")
"""Speeds of all processes, of which each may say its own share. A step is one of all of them."""

STEP = re.compile(
    r"(?<![a-z])(?:global[_ ]?)?(?:steps?|iter(?:ation)?s?)\b\W{0,3}(\d[\d,]{0,14})(?!\d*\.\d|[\d,]*\s?(?:m?s\b|/s))",
    re.IGNORECASE,
)
"""The count of a step in a line: `step 10`, `iter: 30/1000`."""


ITERATION = re.compile(
    r"(?<![a-z/])(?:iter(?:ation)?|it|micro[_ -]?(?:batch|step))\b[\s:=#\[(]{0,3}(\d[\d,]{0,14})", re.IGNORECASE
)
OPTIMIZER_STEP = re.compile(
    r"(?<![a-z/])(?<!micro[_ -])(?:(?:global|optim\w{0,9})[_ ]?)?(?:step|updates?)\b[\s:=#\[(]{0,3}"
    r"(\d[\d,]{0,14})(?![\d,]*\.\d)",
    re.IGNORECASE,
)
"""The counts of a line that counts both: `iter 160 step 10`."""

FEWEST_STEPS = 3
"""The fewest steps by which iterations are counted."""


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

APART_BY_NAME = 0.02
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


@dataclass
class LineSources:
    """What is told by the lines that say a speed under one name."""

    processes: set[str] = field(default_factory=set)
    words: dict[str, dict[str, None]] = field(default_factory=dict)
    numbers: dict[str, dict[str, None]] = field(default_factory=dict)
    counts: set[str] = field(default_factory=set)
    """Up to two counts of steps."""
    beginnings: list[str] = field(default_factory=list)
    """The words that each line begins with, of up to one more than `FEWEST` lines."""
    numbers_before: list[str] = field(default_factory=list)
    """The numbers before the lines, each as often as it comes after another one."""

    def add(self, line: str, shown: str) -> None:
        """Add a line and the words in it that say its speed."""
        if len(self.beginnings) <= FEWEST:
            self.beginnings.append(_beginning(line, line.partition(shown)[0].strip(" :=|-")))
        if process := process_of(line):
            self.processes.add(process)
        before = number_before(line)
        if before not in ("", *self.numbers_before[-1:]) and len(self.numbers_before) < MOST_NUMBERS:
            self.numbers_before.append(before)
        for held, pattern in ((self.words, IN_WORDS), (self.numbers, IN_NUMBERS)):
            for found in pattern.finditer(line):
                values = held.setdefault(found[1].lower(), {})
                if len(values) < MOST:
                    values[found[2]] = None
        if len(self.counts) < 2:
            self.counts |= {found[1] or found[2] for found in COUNTER.finditer(line)}

    def question(self, quantity: str) -> str:
        """Return why these lines may not be of one training, as a question; empty where nothing says so."""
        held = self.words if len(self.counts) > 1 else self.words | self.numbers
        for name, values in held.items():
            if len(values) > 1:
                said = ", ".join(f"{name}={value}" for value in values)
                return f"are they of several configurations ({said})? Write each as a row"
        names = [*dict.fromkeys(filter(None, self.beginnings))]
        if len(self.counts) < 2 and len(names) > 1 and len(self.beginnings) <= FEWEST:
            return (
                f"are they of several runs ('{names[0][:MOST_SHOWN]}', '{names[1][:MOST_SHOWN]}')? Write each as a row"
            )
        turns = len(self.numbers_before) - len({*self.numbers_before})  # those of epochs don't come back
        processes = self.processes if len(self.processes) > 1 or turns < FEWEST_TURNS else {*self.numbers_before}
        if quantity in OF_ALL_PROCESSES and len(processes) > 1:
            return f"{len(processes)} processes say it: is it the speed of each of them, or of all?"
        return ""


@dataclass
class Count:
    """What lines have counted. Where a count falls, another epoch or run began."""

    counted: int = 0
    last: int = 0
    said: str = ""

    def add(self, text: str) -> None:
        """Add the number that a line says."""
        self.said, now = text, int(text.replace(",", ""))
        self.counted += now - self.last if now > self.last else now
        self.last = now


@dataclass
class StepCount:
    """How many steps the lines count that say a speed, and how many iterations beside them."""

    steps: Count = field(default_factory=Count)
    of_iterations: Count = field(default_factory=Count)
    iterations: Count = field(default_factory=Count)
    line: int = -1

    def add(self, line: str, at: int) -> None:
        """Add a line with its number, once."""
        found = STEP.search(line) if at != self.line else None
        if not found:
            return
        self.line = at
        self.steps.add(found[1])
        both = ITERATION.search(line), OPTIMIZER_STEP.search(line)
        if all(both):
            self.iterations.add(both[0][1])
        if all(both) and both[1][1] != self.of_iterations.said:  # the next iteration of a step is none of another
            self.of_iterations.add(both[1][1])

    @property
    def micro_batches(self) -> int:
        """Return how many iterations make a step where lines count both, as those of micro-batches; else 1."""
        steps = self.of_iterations.counted
        each = self.iterations.counted / steps if steps >= FEWEST_STEPS else 1
        return round(each) if each > 1 and abs(each / round(each) - 1) <= 1 / steps else 1


def _beginning(line: str, before: str) -> str:
    """Return the words of a line before its speed, which name a run where no other number has a name there."""
    return line_start(line) if re.search("[=:|]", before) else " ".join(WORDS.findall(before))


def line_start(line: str) -> str:
    """Return what a line holds before its first number, without signs."""
    return re.split(r"\d", line, maxsplit=1)[0].strip(" \t-*_:>`[(")


def far_apart(title: str, values: Sequence[str]) -> str:
    """Ask about the values of a few lines that are far apart. The first of them may hold the start."""
    few = values[1:] if 2 < len(values) < FEWEST else ()
    sizes = sorted(parse(value).middle for value in few)
    if len(few) < 2 or sizes[0] * APART >= sizes[-1]:
        return ""
    ends = f"from {shown(sizes[0])} to {shown(sizes[-1])}"
    return f"its lines say {ends} {title}: what changed? The middle of the later half counts"


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
    unlike = [other for other in others if _apart(other[1], first[1]) > APART_BY_NAME]
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
    return last > APART_BY_NAME and last >= NEARER * half


def _twice(quantity: str, *pairs: tuple[str, str]) -> str:
    said = " and ".join(f"{value} as '{name}'" for name, value in pairs)
    return f"its lines say {quantity} twice, {said}"
