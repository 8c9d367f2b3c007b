"""What a column means by those beside it: a minimum, a part of a step, padded tokens, a change of what is measured."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from slowstep.audit.read.columns import MEASURED, OF_TEXT, Column, is_number, plain
from slowstep.audit.read.header_names import LESS, STATISTIC, changes_the_one
from slowstep.audit.read.stated_cells import is_base
from slowstep.audit.read.unit_grammar import TIMES

STATISTIC_BEHIND = re.compile(r"(?P<before>.*\w[)\]]?)[ _](?:avg|average|mean|med|median|max|std|p\d\d)")
MINIMUM = re.compile(r"(?P<before>.*\w[)\]]?)(?:[ _]min| ?[(\[]min[)\]])")
"""Headers of statistics. Beside `iter avg`, `iter min` is a minimum; by itself it would be minutes."""

OF_ROLLOUTS = re.compile(
    r"(?<![a-z])(?:generat\w*|gen|rollouts?|sampling|collect\w*|rewards?|advantages?|vllm|make_experience)(?![a-z])"
)
NAMES_A_TIME = re.compile(r"(?<![a-z])(?:tim(?:e|ing)|sec(?:onds)?|ms|s)(?![a-z])")
"""Words of a column that times what comes before an update in reinforcement learning."""

OF_AN_UPDATE = re.compile(r"(?<![a-z])(?:updat(?:e|ing)|train(?:ing)?|learn(?:ing)?|optimi[sz]e)(?![a-z])")


def by_those_beside(held: Sequence[Column], names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns with their meanings beside each other; `names` are their headers in lower case."""
    held = _without_padded(_without_updates(_without_minima(held, names), names))
    return _of_the_one_measured(held, names, cells)


def ignored(held: Sequence[Column], left_out: Collection[int]) -> list[Column]:
    """Return the columns with those at the places `left_out` as ignored ones."""
    return [Column("ignored") if i in left_out else one for i, one in enumerate(held)]


def _of_the_one_measured(held: Sequence[Column], names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns with a change beside one figure, and no other number but whole ones, as that figure's change.

    A change of a time has a sign, and so has a percentage of a speed. What is less of a time has none.
    """
    measured = [one for one in held if one.kind in MEASURED]
    changes = [i for i, name in enumerate(names) if held[i].kind == "open" and changes_the_one(name)]
    others = [texts for i, texts in enumerate(cells) if held[i].kind == "open" and i not in changes]
    measure = any(is_number(text) and not plain(text).isdigit() for texts in others for text in texts)
    if len(measured) != 1 or len(changes) != 1 or measure:
        return list(held)
    less = bool(LESS.fullmatch(names[changes[0]]))
    of_speed = "_per_second" in measured[0].name and not less
    fits = _are_percentages(cells[changes[0]], r"" if less else r"[-+−–]")
    if not fits or not (of_speed or measured[0].name.startswith("seconds")):
        return list(held)
    of_time = Column("stated", "time_left", percentage="saved" if less else "changed")
    stated = Column("stated", "speed_up") if of_speed else of_time
    return [stated if i == changes[0] else one for i, one in enumerate(held)]


def _are_percentages(cells: Sequence[str], sign: str) -> bool:
    """Return whether cells say percentages with such a sign, or nothing as for the row that they are to."""
    said = [plain(text) for text in cells if not is_base(text)]
    return bool(said) and all(re.fullmatch(rf"{sign}\d[\d.,]*\s?%", text) for text in said)


def _without_padded(held: Sequence[Column]) -> list[Column]:
    """Return the columns without tokens that may count padding, where another column has those that don't."""
    useful = {one.name for one in held if one.unit == OF_TEXT}
    return ignored(held, {i for i, one in enumerate(held) if one.name in useful and one.unit != OF_TEXT})


def _without_updates(held: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with the time of an update as an unclear one, where another is that of what is updated on.

    A step of reinforcement learning generates and scores as well, so that its update is a part of it.
    """
    if not any(OF_ROLLOUTS.search(name) and NAMES_A_TIME.search(name) for name in names):
        return list(held)
    return [
        Column("open", "time") if one.name == "seconds_per_step" and OF_AN_UPDATE.search(name) else one
        for one, name in zip(held, names, strict=True)
    ]


def _without_minima(held: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with minima, which stand beside another statistic of the same, as ones that nobody read."""
    each = [STATISTIC.fullmatch(name) or STATISTIC_BEHIND.fullmatch(name) for name in names]
    stems = {_without_units(found["before"]) for found in each if found}
    minima = [MINIMUM.fullmatch(name) for name in names]
    return [
        Column("open") if found and _without_units(found["before"]) in stems else one
        for found, one in zip(minima, held, strict=True)
    ]


def _without_units(name: str) -> str:
    """Return a header without units of time and brackets, so that `step time ms` and `step time` are the same."""
    return " ".join(word for word in re.split(r"[\s_()\[\]]+", name) if word and word not in TIMES)
