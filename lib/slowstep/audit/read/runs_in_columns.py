"""Tables with a column for each of several runs, `V100 (img/s)`, or repeats, `run 1 (s/it)`, as a row for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slowstep.audit.figures import parse
from slowstep.audit.read.before_and_after import OF_CHANGES, are_changes
from slowstep.audit.read.cells import Cell, Table, by_column
from slowstep.audit.read.columns import DESCRIBED, LABELS, MEASURED, TIMED_WORDS, Column, column, figure, plain
from slowstep.audit.read.header_names import END, MIDDLE, PERCENTILE, SPREAD
from slowstep.audit.read.line_sources import OF_A_PART
from slowstep.audit.read.other_work import OF_EVALUATION
from slowstep.audit.run import TIMED

NAMES = "column"
"""The header of the column that names the runs of a row."""

NO_RUN = re.compile(
    rf"(?<![^\W_])(?:{MIDDLE}|{PERCENTILE}|{END}|{SPREAD}|min|(?<!\d )[cg]pu|cuda|env|per|warm\w*|cold|"
    r"first|last|epoch|useful|real|local|micro|non|un?pad\w*|padd?ed|active|generated|theoretical|expected|ideal|target|achieved)(?![^\W_])",
    re.IGNORECASE,
)
"""Words before a speed that say what part or which statistic of one run it is of."""

OF_THE_SPEED = re.compile(
    rf"(?:[\s_]+(?:{'|'.join(map(re.escape, sorted({'per', *DESCRIBED, *TIMED_WORDS})))}))+$", re.IGNORECASE
)
"""Words before a unit that are of the speed, and not of the run: `A100 time (s/it)`."""

OF_PARTS = re.compile(
    r"(?:stage|phase|part|component|op|operation|operator|layer|module|function|section)s?", re.IGNORECASE
)
"""Headers of a column whose rows are parts of one run."""

LONGEST = 100
"""The most characters of such a header."""


WHICH = r"(?:run|rep(?:eat|etition)?|trial|seed|try|attempt)s?[ _]?#?\d{1,6}"
FIRST = re.compile(rf"{WHICH}[\s:,-]*(?P<what>\S.*)", re.IGNORECASE)
LAST = re.compile(rf"(?P<what>.*\S)[\s:,-]+[(\[]?{WHICH}[)\]]?", re.IGNORECASE)


def with_row_each(
    header: Sequence[Cell], body: Table, single: Sequence[int], groups: Mapping[str, Sequence[int]], called: str
) -> Table:
    """Return a table with a row for each group of columns of each row, and its name in a column that is `called` so.

    Each group has the headers of the first one, and those `single` columns stand in each row.
    """
    place = header[0][1:]
    name = [(called, *place)] * bool(called)
    found = [[*(header[i] for i in single), *name, *(header[i] for i in next(iter(groups.values())))]]
    for row in body:
        for group, at in groups.items():
            own = [(group, *row[0][1:])] * bool(called)
            found.append([*(row[i] for i in single), *own, *(row[i] for i in at)])
    return found


def with_runs_in_rows(table: Table) -> Table:
    """Return a table whose columns measure the same of several runs with a row for each; any other table as it is.

    A column of ratios belongs to the faster one of two runs, and is left out beside more.
    """
    header, *body = table
    if any(len(row) != len(header) for row in body) or OF_PARTS.fullmatch(plain(header[0][0])):
        return table
    split = {i: own for i, (name, *_) in enumerate(header) if i and (own := _split(plain(name)))}
    groups: dict[str, list[int]] = {}
    for i, (run, _) in split.items():
        groups.setdefault(run, []).append(i)
    held = [column(plain(name), set()) for name, *_ in header]
    single = [i for i in range(len(header)) if i not in split]
    measured = {what.name for _, what in split.values()}
    if len(groups) < 2 or len({tuple(split[i][1] for i in at) for at in groups.values()}) > 1:
        return table
    if any(map(is_no_run, groups)) or any(held[i].name in measured for i in single):
        return table
    texts = by_column(header, body)
    ratios = [i for i in single if i and (held[i].kind == "stated" or are_changes(header[i][0], texts[i]))]
    single = [i for i in single if i not in ratios]
    names = [(_what(plain(name[0])) if i in split else name[0], *name[1:]) for i, name in enumerate(header)]
    if len(groups) != 2 or len(ratios) != 1:
        return with_row_each(names, body, single, groups, NAMES)
    first, last = groups
    if _is_faster(texts[groups[first][0]], texts[groups[last][0]], split[groups[first][0]][1]):
        first, last = last, first
    names = [*names, ("", *header[0][1:])]
    body = [[*row, ("-", *row[0][1:])] for row in body]
    ordered = {first: [*groups[first], len(header)], last: [*groups[last], *ratios]}
    names[len(header)] = names[ratios[0]]
    return with_row_each(names, body, single, ordered, NAMES)


def _split(header: str) -> tuple[str, Column] | None:
    """Return the run and the speed that a header names; None for another header."""
    found = parted(header)
    return (found[0], column(found[1], set())) if found else None


def _what(header: str) -> str:
    found = parted(header)
    return found[1] if found else header


def parted(header: str) -> tuple[str, str] | None:
    """Return the words of a run before or in brackets behind a speed, and the speed; None for another header."""
    if len(header) > LONGEST:
        return None
    words = re.split(r"([\s_]+)", header)
    each = [("".join(words[:at]), "".join(words[at + 1 :])) for at in range(len(words) - 2, 0, -2)]
    each = [(OF_THE_SPEED.sub("", run), what) for run, what in each]
    behind = re.fullmatch(r"(?P<what>.*\S)\s*\((?P<run>[^()]+)\)", header)
    each += (
        [(behind["run"], behind["what"])] if behind and column(header, set()) == column(behind["what"], set()) else []
    )
    return next(((run, what) for run, what in each if _is_speed(column(what, set()))), None)


def _is_speed(held: Column) -> bool:
    return held.kind in MEASURED and held.name.startswith(TIMED) and "_per_" in held.name


def is_no_run(words: str) -> bool:
    """Return whether words before a speed say which part of one run it is of, or nothing."""
    said = re.sub(r"[_\W]+", " ", words.lower()).strip()
    others = (NO_RUN, OF_EVALUATION, OF_A_PART, OF_CHANGES)
    is_speed = column(words, set()).kind != "open" or bool(re.search(r"/|\bper\b", words))
    return not said or bool(DESCRIBED & {*said.split()}) or is_speed or any(one.search(words) for one in others)


def _is_faster(first: Sequence[str], last: Sequence[str], held: Column) -> bool:
    """Return whether the first of two runs is the faster one in most rows."""
    faster = 0
    for pair in zip(first, last, strict=True):
        try:
            found = [figure(text, held) for text in pair]
        except ValueError:
            continue
        if None not in found:
            a, b = (parse(one[1]).middle for one in found if one)
            faster += (a > b) - (a < b)
    return (faster > 0) == held.name.endswith(("_per_second", "_per_device")) and faster != 0


def with_repeats_in_rows(table: Table) -> Table:
    """Return a table whose columns repeat one measurement with a row for each; any other table as it is.

    The rows of one name are repeats then. Where no column names them, they are called by the first one, or numbered.
    """
    header, *body = table
    if any(len(row) != len(header) for row in body):
        return table
    called = {i: what for i, (name, *_) in enumerate(header) if (what := _repeated(plain(name)))}
    if len(called) < 2 or len({what.lower() for what in called.values()}) > 1:
        return table
    others = [i for i in range(len(header)) if i not in called]
    named = any(plain(header[i][0]).lower() in LABELS for i in others)
    names = [plain(row[0][0]) if 0 in others else "" for row in body]
    first, behind = next(iter(called)), len(header)
    header = [*((called[first] if i in called else name, *place) for i, (name, *place) in enumerate(header))]
    header = [*header, ("run", *header[0][1:])]
    body = [
        [*row, (name or f"row {at}", *row[0][1:])] for at, (row, name) in enumerate(zip(body, names, strict=True), 1)
    ]
    return with_row_each(header, body, [*([] if named else [behind]), *others], {str(i): [i] for i in called}, "")


def _repeated(header: str) -> str:
    """Return what is measured by a header that says which repeat it is of; empty for another header."""
    match = (FIRST.fullmatch(header) or LAST.fullmatch(header)) if len(header) < LONGEST else None
    what = re.sub(r"^[(\[](.*)[)\]]$", r"\1", match["what"].strip()) if match else ""
    return what if what and column(what, set()).kind in MEASURED else ""
