"""Reading of CSV and Markdown tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.audit.figures import parse
from slowstep.audit.read.captions import headings_of, is_of_inference, with_units_of_captions
from slowstep.audit.read.cells import Cell, bare, by_column, tables_in
from slowstep.audit.read.clocks import pace_by_clock, points_in_time, with_epoch_times
from slowstep.audit.read.columns import MEASURED, NOTHING, Column, figure, is_number, plain
from slowstep.audit.read.course_figures import changed_midway, read_sums, without_whole_times
from slowstep.audit.read.courses import (
    BESIDE_POSITION,
    EPOCH,
    counters_of,
    courses_of,
    measured_in,
    other_steps,
    repeat_key,
    steps_along,
)
from slowstep.audit.read.header_names import STATISTIC, of_few
from slowstep.audit.read.languages import in_english
from slowstep.audit.read.meanings import (
    by_headers_and_cells,
    elapsed_in,
    ignored,
    named_by_ids,
    named_once,
    with_optimizer,
)
from slowstep.audit.read.measures import counted_devices
from slowstep.audit.read.partial_rows import broken_off, names_of, of_processes, without_evaluations
from slowstep.audit.read.remarks import apart_by_remarks
from slowstep.audit.read.row_cells import odd_ratios, read_row, shortened
from slowstep.audit.read.source_text import NoFigures, Unreadable, text_of
from slowstep.audit.read.table_shapes import reshaped
from slowstep.audit.read.unknown_columns import is_no_speed, is_word
from slowstep.audit.relations import TITLES
from slowstep.audit.run import TIMED
from slowstep.text.sentences import capitalised

REPEATED_TO = 1.5
"""The ratio beyond which two figures are not taken for repeats of one measurement that nothing calls so."""

MANY = 5
"""The most columns that a message names."""

CLOCK_LEFT_OUT = "is a point in time, and no duration, and is left out"

BROKEN_OFF = "its table calls it '{}': are its figures those of a training that came to its end?"

OF_PROCESSES = (
    "Are the rows with other numbers of '{}' of the processes of one run? Then they are no runs to compare, and a "
    "speed is that of each process, or of all"
)

PACES = {q for q in TITLES if q.startswith(("seconds_per_", "steps_per_s", "samples_per_s", "tokens_per_s"))}

OF_CALLS = re.compile(
    r"(?:#|no\.?|num(?:ber)?|n)?[ _]?(?:of )?(?:n?calls|invocations|instances)(?: count)?", re.IGNORECASE
)
"""Headers of a column that says how often each part of a run was called."""

METRIC_NAMES = {"key", "metric", "metric_name", "tag"}
"""Headers of a column that names the metric of each row, so that the rows are of several metrics and no course."""

OWN = ("named", "between", "at", "clock", "clocks", "course", "by_clock")
"""What a row holds only while its table is read."""


def read_table(path: Path, columns: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of the tables with figures in a file; `columns` gives the meaning of unclear headers.

    Unreadable names line and column of what is missing, malformed or could mean several things.
    """
    return table_rows(text_of(path), str(path), columns)


def table_rows(text: str, source: str, columns: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a text as `read_table` does; Unreadable names `source`."""
    columns = {said: meaning for name, meaning in (columns or {}).items() for said in (name, in_english(name))}
    tables = tables_in(text, source)
    if not tables:
        raise NoFigures(source, 1, 1, "holds no table with a header and a row")
    of_runs = with_units_of_captions([table for table in tables if not are_parts(table[0])], text, columns)
    if not of_runs:
        why = "its rows are parts of a run, with how often each was called: write the time of a whole step as a row"
        raise NoFigures(source, tables[0][0][0][1], 1, why)
    found = rows_of(of_runs, source, columns, headings_of(text, of_runs))
    if not any(measured_in(row) or row["phases"] for row in found):
        unread = list(dict.fromkeys(name for row in found for name in row["unread"]))
        but = f" (not read: {', '.join(unread[:MANY])})" if unread else ""
        asked = "".join(f". {capitalised(text)}" for text in found[0]["questions"][:1])
        what = _of_metrics(tables[0][0]) or _of_few(tables[0][0]) or "name one by its unit alone, as in 's/it'"
        why = f"no column holds a figure{but}; {what}{asked}"
        raise NoFigures(source, tables[0][0][0][1], 1, why)
    return found


def are_parts(header: Sequence[Cell]) -> bool:
    """Return whether the rows of a table are parts of a run, as a profiler prints them."""
    return any(OF_CALLS.fullmatch(plain(cell[0])) for cell in header)


def _of_metrics(header: Sequence[Cell]) -> str:
    """Return what to do with a table that has a metric in each row; empty for other tables."""
    names = [plain(cell[0]) for cell in header if plain(cell[0]).lower() in METRIC_NAMES]
    return f"'{names[0]}' says what each row holds: give each of its metrics a column of its own" if names else ""


def _of_few(header: Sequence[Cell]) -> str:
    """Return what to do with a table that only has the best, the slowest or the like of several; else empty."""
    names = [plain(cell[0]) for cell in header]
    each = [(name, found["of"]) for name in names if (found := STATISTIC.fullmatch(name)) and of_few(found["of"])]
    if not each:
        return ""
    name, of = each[0]
    return f"'{name}' says the '{of}' of several steps or runs: write their mean or median, or name them by their unit"


def rows_of(
    tables: Sequence[Sequence[Sequence[Cell]]], source: str, columns: Mapping[str, str], headings: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of the tables that hold figures or runs out of memory.

    Those below a heading of inference are left out and asked about, if others are left.
    """
    each = [_rows(reshaped(table, columns), source, columns) for table in tables]
    kept = [i for i, rows in enumerate(each) if any(_says_something(row) for row in rows)]
    other = [i for i in kept if i < len(headings) and is_of_inference(headings[i])]
    trained = [i for i in kept if i not in other] or kept
    by_table = [(headings[i] if i < len(headings) else "", each[i]) for i in trained or range(len(each))]
    found = _told_apart_by_headings(by_table)
    if len(trained) < len(kept) and found:
        asked = [f"The table below the heading '{headings[i]}' is left out: is it of training?" for i in other]
        found[0] |= {"of_table": [*found[0].get("of_table", []), *asked]}
    return found


def _told_apart_by_headings(tables: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return the rows of all tables. One whose name stands in several of them has its table's heading in its name.

    That is where each of the tables has a heading of its own.
    """
    counts = Counter(label for _, rows in tables for label in {row["label"] for row in rows})
    headings = [heading for heading, _ in tables]
    if not all(headings) or len({*headings}) < len(headings):
        return [row for _, rows in tables for row in rows]
    return [
        row | {"label": shortened(f"{row['label']} ({heading})")} if counts[row["label"]] > 1 else row
        for heading, rows in tables
        for row in rows
    ]


def _says_something(row: Mapping[str, Any]) -> bool:
    """Return whether a row holds what was measured, or says that the run did not fit."""
    return bool(measured_in(row) or row["phases"] or row["out_of_memory"])


def _rows(table: Sequence[Sequence[Cell]], source: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a table, each with the names of the columns whose numbers could not be read."""
    header, *body = table
    body, evaluations, of_evaluation = without_evaluations(header, body)
    held = by_headers_and_cells(header, body, columns, source)
    clocks = _clocks(header, body, held, source)  # before the labels: a clock may be called as one
    left_out = [plain(header[i][0]) for i in clocks if held[i].kind != "ignored"]
    held = ignored(held, clocks)
    held = named_once(held, header, body)
    held, of_optimizer = with_optimizer(held, header, body)
    counters = _counters(header, body, held)  # after the phases, which are measured and hold no words
    elapsed: dict[int, list[float | None]] = {}
    if counters:
        held = named_by_ids(held, header)
        by_epoch = bare(plain(header[counters[0]][0])) == EPOCH
        held, body = with_epoch_times(held, header, body) if by_epoch else (held, body)
        elapsed = elapsed_in(header, body, held)
        along = {i for i, cell in enumerate(header) if bare(plain(cell[0])) in BESIDE_POSITION}
        held = ignored(held, {*elapsed, *along, *counters})
    by_clock = bool(counters and (clocks or elapsed))
    held, unclear = _without_unclear_cells(held, header, body)
    timed = any(_says_speed(one, cells) for one, cells in zip(held, by_column(header, body), strict=True))
    if timed or by_clock:  # then nothing hangs on the others
        held = [Column("open") if one.kind == "open" else one for one in held]
    found = _sizes([read_row(cells, held, header, source, i) for i, cells in enumerate(_filled_down(body, held), 1)])
    for at, word in broken_off(header, body).items():
        found[at]["questions"] += [BROKEN_OFF.format(word)] if measured_in(found[at]) else []
    found = _named_by_words(found, held, body) if not counters else found
    unread = [
        plain(header[i][0])
        for i, one in enumerate(held)
        if one.kind == "open"
        and i not in unclear
        and any(_is_unread(cells[i][0], one) for cells in body)
        and not is_no_speed(plain(header[i][0]))
    ]
    if counters:
        times = next(iter((clocks or elapsed).values()), [None] * len(found))
        found = [row | {"clock": time} for row, time in zip(found, times, strict=True)]
        found = _as_courses(found, counters, header, body, source)
    own = [{name: value for name, value in row.items() if name not in OWN} for row in _told_apart(found)]
    if own:
        clocked = any(row.get("by_clock") for row in found)
        asked = [f"'{name}' {CLOCK_LEFT_OUT}" for name in left_out if not clocked] + [of_optimizer] * bool(of_optimizer)
        asked += odd_ratios([plain(cell[0]) for cell in header], held, by_column(header, body))
        own[0] |= {"questions": [*own[0]["questions"], *asked]}
        ranks = [OF_PROCESSES.format(name)] if (name := of_processes(header, body)) else []
        own[0] |= {"of_table": [*filter(None, [of_evaluation]), *unclear.values(), *ranks]}
        own[0] |= {"left_out": names_of(evaluations, held, body)} if of_evaluation else {}
    return _repeated(_without_numbers([row | {"unread": unread} for row in own]))


def _without_unclear_cells(
    held: Sequence[Column], header: Sequence[Cell], body: Sequence[Sequence[Cell]]
) -> tuple[list[Column], dict[int, str]]:
    """Return the columns without those that have a cell which can't be read, and a question on each of these by place.

    They stay, so that the table is refused, where no other column says a speed.
    """
    wrong = {i: why for i, one in enumerate(held) if one.kind in MEASURED and (why := _wrong_in(body, i, one))}
    texts = by_column(header, body)
    if not wrong or not any(_says_speed(one, texts[i]) for i, one in enumerate(held) if i not in wrong):
        return list(held), {}
    asked = {i: f"The column '{plain(header[i][0])}' is left out: {why}" for i, why in wrong.items()}
    return [Column("open") if i in wrong else one for i, one in enumerate(held)], asked


def _is_unread(text: str, held: Column) -> bool:
    """Return whether a cell of a column that nobody read holds a number, and no unit that says what it is."""
    return is_number(text) and not figure(text, held)


def _says_speed(held: Column, cells: Sequence[str]) -> bool:
    """Return whether a column holds a speed or a time by its header, or by a unit in each of its cells."""
    if held.kind == "phase":
        return True
    if held.kind != "open":
        return held.kind in MEASURED and held.name.startswith(TIMED)
    try:
        said = [figure(text, held) for text in cells if plain(text).lower() not in NOTHING]
    except ValueError:
        return False
    return bool(said) and all(found and found[0].startswith(TIMED) for found in said)


def _wrong_in(body: Sequence[Sequence[Cell]], i: int, held: Column) -> str:
    """Return what is wrong with the first cell of a column that can't be read; empty if all of them can."""
    for cells in body:
        counted = counted_devices(cells[i][0], held)
        try:
            figure(counted[0] if counted else cells[i][0], held)
        except ValueError as error:
            return f"in line {cells[i][1]}, {error}"
    return ""


def _clocks(
    header: Sequence[Cell], body: Sequence[Sequence[Cell]], held: Sequence[Column], source: str
) -> dict[int, list[float | None]]:
    """Return the columns of points in time, in seconds.

    Unreadable if nothing else is measured, and no column of steps says what lies between two of them.
    """
    cells = by_column(header, body)
    each = {i: points_in_time(plain(cell[0]), cells[i]) for i, cell in enumerate(header)}
    found = {i: times for i, times in each.items() if times and held[i].kind not in ("label", "setting")}
    if {plain(cell[0]).lower() for cell in header} & METRIC_NAMES:
        return {}
    others = any(one.kind in MEASURED and i not in found for i, one in enumerate(held))
    if found and not others and not _counters(header, body, held):
        i = next(iter(found))
        why = f"{plain(header[i][0])}: {body[0][i][0]} {CLOCK_LEFT_OUT}; write how long each run took, or the steps"
        raise Unreadable(source, *body[0][i][1:], why)
    return found


def _as_courses(
    rows: Sequence[dict[str, Any]],
    counters: Sequence[int],
    header: Sequence[Cell],
    body: Sequence[Sequence[Cell]],
    source: str,
) -> list[dict[str, Any]]:
    """Return the courses of the runs whose rows follow each other by the columns `counters`, each as one row."""
    texts = by_column(header, body)
    found = courses_of(rows, *steps_along(counters, header, texts), Path(source).stem)
    by_epoch = bare(plain(header[counters[0]][0])) == EPOCH
    by_clocks = "seconds_per_epoch" if by_epoch else "seconds_per_step"
    doubt = other_steps(counters, header, texts)
    found = [_midway(_timed_by_clock(read_sums(row, by_epoch), by_clocks, doubt)) for row in found]
    return found if by_epoch else [row | _rests_on(row.get("at", ())) for row in found]


def _timed_by_clock(row: dict[str, Any], quantity: str, doubt: str) -> dict[str, Any]:
    """Return the row of a course with the time of a step or an epoch by its clocks, where no figure says a speed.

    With a `doubt` about what the steps are, that is asked and nothing is timed.
    """
    timed = any(name.startswith(TIMED) for name in measured_in(row))
    pace = None if timed else pace_by_clock(row.get("clocks", ()))
    if pace and doubt:
        return row | {"questions": [*row["questions"], doubt], "by_clock": True}
    return row | {"figures": row["figures"] | {quantity: pace}, "by_clock": True} if pace else row


def _rests_on(steps: Sequence[float]) -> dict[str, Any]:
    """Return how many steps a course rests on; those of its first row are as many as of the next one."""
    each = sorted({*steps})
    return {"rests_on": {"steps": each[-1] - each[0] + min(each[0], each[1] - each[0])}} if len(each) > 1 else {}


def _midway(row: dict[str, Any]) -> dict[str, Any]:
    """Ask about a course whose pace changes midway, and leave out the times of both halves."""
    asked = changed_midway({q: values for q, values in row.get("course", {}).items() if q in PACES})
    figures, words = without_whole_times(row["figures"]) if asked else (row["figures"], [])
    return row | {"figures": figures, "questions": [*row["questions"], *asked, *words]}


def _counters(header: Sequence[Cell], body: Sequence[Sequence[Cell]], held: Sequence[Column]) -> list[int]:
    """Return the columns by which rows follow each other as the course of a run, the first of which counts."""
    measured = {i for i, one in enumerate(held) if one.kind in MEASURED}
    names = [bare(plain(cell[0])) for cell in header]
    return counters_of(names, [[cell[0] for cell in cells] for cells in body], measured)


def _filled_down(body: Sequence[Sequence[Cell]], held: Sequence[Column]) -> Iterator[Sequence[Cell]]:
    """Yield the rows, each with an empty first cell as the one above it: people merge cells of one device."""
    above = ""
    for cells in body:
        if cells and held[0].kind in ("ignored", "open"):
            text, *place = cells[0]
            above = text if plain(text) else above
            cells = [(above, *place), *cells[1:]]
        yield cells


def _sizes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with whole numbers as sizes, too, where their column has numbers with decimals."""
    names = {name for row in rows for name in row["sizes"]}
    whole = [{n: text for n, text in row["unknown"].items() if n in names and text.isdecimal()} for row in rows]
    return [
        row | {"sizes": row["sizes"] | own, "unknown": {n: t for n, t in row["unknown"].items() if n not in own}}
        for row, own in zip(rows, whole, strict=True)
    ]


def _named_by_words(
    rows: Sequence[dict[str, Any]], held: Sequence[Column], body: Sequence[Sequence[Cell]]
) -> list[dict[str, Any]]:
    """Name rows that no column names by the words of the first columns, if these are others in each row.

    What the words say stays what the rows differ in.
    """
    names = [""] * len(rows)
    if any(row["named"] for row in rows):
        return list(rows)
    for i, one in enumerate(held):
        words = [plain(cells[i][0]) for cells in body]
        if one.kind not in ("open", "factor") or not all(map(is_word, words)):
            break
        names = [f"{name} {word}".strip() for name, word in zip(names, words, strict=True)]
        if len({*names}) == len(rows):
            return [row | {"label": shortened(name)} for row, name in zip(rows, names, strict=True)]
    return list(rows)


def _told_apart(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name rows of one name by the words in which they differ as well, which stand in columns that are not read."""
    alike: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for name, text in row["unknown"].items():
            alike.setdefault(row["label"], {}).setdefault(name, set()).add(text)
    counts = Counter(row["label"] for row in rows)
    said = Counter((row["label"], name) for row in rows for name in row["unknown"])
    found = []
    for row in rows:
        label, words = row["label"], {name: text for name, text in row["unknown"].items() if is_word(text)}
        differ = [n for n in words if len(alike[label][n]) > 1 or said[label, n] < counts[label]]
        found.append(row | {"label": shortened(" ".join([label, *(words[name] for name in differ)]))})
    return found


def _without_numbers(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out columns that merely number the repeats of each name, whatever they are called: 1, 2, 3 and 1, 2, 3.

    The figures of repeats are alike, and a column of 0 and 1 is a switch.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["label"], []).append(row)
    if len(groups) < 2 or not all(_are_alike(group) for group in groups.values()):
        return list(rows)
    names = dict.fromkeys(name for row in rows for name in row["unknown"])
    numbers = {name for name in names if all(_counts_up(name, group) for group in groups.values())}
    return [row | {"unknown": {n: text for n, text in row["unknown"].items() if n not in numbers}} for row in rows]


def _counts_up(name: str, group: Sequence[dict[str, Any]]) -> bool:
    texts = [row["unknown"].get(name) for row in group]
    return any(texts == [str(first + i) for i in range(len(texts))] for first in (0, 1) if len(texts) + first > 2)


def _are_alike(group: Sequence[dict[str, Any]], ratio: float = REPEATED_TO) -> bool:
    """Return whether the figures of rows may be those of repeats: none is a `ratio` as large as another one."""
    for name in measured_in(group[0]):
        each = [parse(row["figures"][name]).middle for row in group if name in row["figures"]]
        if min(each) * ratio < max(each):
            return False
    return True


def _repeated(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join rows of one name, with the same settings and kinds of figures, to one row that was measured repeatedly.

    If their figures are too far apart for repeats, numbers beside them with decimals in which they differ are settings.
    """
    rows = [row for group in _groups(rows) for row in apart_by_remarks(group, _are_alike, REPEATED_TO)]
    groups = _groups(rows)
    far = [group for group in groups if len(group) > 1 and not _are_alike(group)]
    sizes = {name for group in far for name in group[0]["sizes"] if len({row["sizes"].get(name) for row in group}) > 1}
    if sizes:
        said = [{name: text for name, text in row["sizes"].items() if name in sizes} for row in rows]
        groups = _groups([row | {"unknown": row["unknown"] | own} for row, own in zip(rows, said, strict=True)])
    found = [group[0] if len(group) == 1 else _joined(group) for group in groups]
    return [{name: value for name, value in row.items() if name not in ("sizes", "told")} for row in found]


def _groups(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows of each measurement: its repeats, or a single row."""
    groups: dict[Hashable, list[dict[str, Any]]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(repeat_key(row) if row["figures"] else i, []).append(row)
    return list(groups.values())


def _joined(group: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the repeats of one measurement as one row, with what is the same in all of them."""
    first = group[0]
    whole = {
        part: {name: [row[part][name] for row in group] for name in first[part] if all(name in r[part] for r in group)}
        for part in ("figures", "phases")
    }
    same = {name: text for name, text in first["unknown"].items() if all(r["unknown"].get(name) == text for r in group)}
    return first | whole | {"unknown": same}
