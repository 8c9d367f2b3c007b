"""Reading of reports (tables, logs, trainer states) as rows of the `reported` section."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slowstep.audit.read.cells import holds_table
from slowstep.audit.read.html_tables import as_markdown, holds_html_table, notebook_text
from slowstep.audit.read.json_files import read_json
from slowstep.audit.read.logs import read_log
from slowstep.audit.read.markups import aligned_as_markdown, as_markdown_tables, holds_markup
from slowstep.audit.read.page_logs import are_of_several_runs, fenced_blocks, labelled_rows, logs_in
from slowstep.audit.read.prose import claimed_sizes
from slowstep.audit.read.source_text import NoFigures, Unreadable, text_of
from slowstep.audit.read.summary_rows import without_summaries
from slowstep.audit.read.tables import read_table, table_rows
from slowstep.audit.read.text_files import LOG_LINE, beginning_of, boxed, looks_like_table, refuse_no_text
from slowstep.audit.read.trainer_state import read_trainer_state
from slowstep.audit.row_settings import without_overridden
from slowstep.audit.run import TIMED
from slowstep.settings import SettingsError
from slowstep.settings.errors import nearest
from slowstep.settings.reported import Reported, Row

__all__ = ["Unreadable", "read_file", "read_log", "read_table", "read_trainer_state", "rows"]

TABLES = (".csv", ".tsv")
PAGES = (".md", ".markdown", ".html", ".htm", ".ipynb", ".tex", ".adoc", ".wiki")
LOGS = (".log", ".txt", ".out", ".err", ".org", ".rst")

QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
"""What stands before a quoted line of Markdown."""

OTHER_KINDS = {
    (".xlsx", ".xls", ".ods"): "Save the sheet as CSV",
    (".gz", ".zip", ".zst", ".xz", ".bz2", ".tar", ".tgz"): "Unpack it first",
    (".pdf", ".docx"): "Save its table as CSV or Markdown",
}
"""Kinds of files that are not read, each with what to do."""

MOST_ROWS = 2_000
"""The most rows of one audit. Each is held against each other one in some way."""


def rows(reported: Reported) -> list[Row]:
    """Return the rows of the parameter file, of its table and of its files; SettingsError says what can't be read.

    A row of the parameter file adds to a row of the same name in a file or table.
    """
    problems: list[str] = []
    claimed = {label for claim in reported.claims for label in (claim.baseline, claim.treatment)}
    claimed |= {row.label for row in reported.rows}
    each = [_tried(lambda name=name: read_file(Path(name), reported.columns), problems) for name in reported.files]
    if reported.table:
        each.insert(0, _tried(lambda: table_rows(reported.table, "reported.table", reported.columns), problems))
    found = [row for several in each for row in without_summaries(several, claimed)]
    if len(found) > MOST_ROWS:
        where = ", ".join(dict.fromkeys(map(_file, found)))
        problems.append(
            f"{where}: found {len(found):,} rows that are no repeats of each other, and {MOST_ROWS:,} are compared at "
            "most. Leave out those that no claim is about."
        )
    if problems:
        raise SettingsError(problems)
    return _distinct(_completed(reported.rows, _distinct(found)))


def read_file(path: Path, columns: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a file of any known kind; Unreadable if it is of no known kind, or has no rows.

    A file that did not change is read once, since an audit asks for it several times, and logs may be large.
    """
    with contextlib.suppress(OSError):
        state = path.stat()
        said = tuple(sorted((columns or {}).items()))
        return copy.deepcopy(_read_once(path, said, state.st_size, state.st_mtime_ns))
    return _read(path, columns or {})


@functools.lru_cache(maxsize=32)
def _read_once(path: Path, columns: tuple[tuple[str, str], ...], size: int, changed: int) -> list[dict[str, Any]]:
    return _read(path, dict(columns))


def _read(path: Path, columns: dict[str, str]) -> list[dict[str, Any]]:
    kind = path.suffix.lower()
    if kind in (".json", ".jsonl", *TABLES, *PAGES, *LOGS):
        refuse_no_text(path)
    if kind in (".json", ".jsonl"):
        return read_json(path, columns)
    if kind in TABLES:
        return read_table(path, columns)
    if kind in PAGES:
        return _read_page(path, columns)
    if kind in LOGS:
        return _read_text(path, columns)
    known = ", ".join((".json", ".jsonl", *TABLES, *PAGES, *LOGS))
    advice = next((f" {advice}." for kinds, advice in OTHER_KINDS.items() if path.suffix.lower() in kinds), "")
    raise Unreadable(str(path), 1, 1, f"what kind of file is it?{advice} Known are {known}")


def _read_page(path: Path, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the tables of a page, or where these have no figures those of its logs, and what it claims.

    HTML and other markups are read as Markdown, so that lines are counted in that.
    """
    of_notebook = path.suffix.lower() == ".ipynb"
    text = notebook_text(path) if of_notebook else text_of(path)
    in_html = path.suffix.lower() in (".html", ".htm") or holds_html_table(text)
    text = as_markdown(text) if in_html else text
    text = text if in_html else QUOTED.sub("", text)
    in_markup = holds_markup(text)
    text = as_markdown_tables(text) if in_markup else text
    own = not (in_html or in_markup or of_notebook)
    source = str(path) if own else f"{path} (as Markdown)"
    found, refused = [], None
    try:
        found = table_rows(text, source, columns) if holds_table(text) else []
    except NoFigures as error:
        refused = error
    found = found or _logs_of_page(path, text, columns, own, bool(refused))
    if not found:
        what = "holds no table with a header and a row, and no log that says a speed; write its figures as a table"
        raise refused or Unreadable(str(path), 1, 1, what)
    found[0]["prose"] = claimed_sizes(text)
    return found


def _logs_of_page(
    path: Path, text: str, columns: dict[str, str], own: bool, beside_tables: bool
) -> list[dict[str, Any]]:
    """Return the rows of the logs of a page: of each of its blocks, or of all of it if it is one log.

    The page is its `own` text if nothing was turned into Markdown. Where it also holds no table, Unreadable says why it
    is no log.
    """
    logs = logs_in(fenced_blocks(text), path, columns)
    if are_of_several_runs(logs) or (logs and not own):
        return [row for rows in logs for row in rows]
    if not own:
        return []
    if beside_tables:
        return _log_beside_tables(path, columns)
    return labelled_rows(text, str(path), columns) or read_log(path, columns)


def _log_beside_tables(path: Path, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a log that stands beside tables without figures; none if there is no such log."""
    with contextlib.suppress(Unreadable):
        return read_log(path, columns, beside_box=True)
    return []


def _read_text(path: Path, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a text file: those of its table, or those of a log beside a box without speeds."""
    if holds_markup(beginning_of(path)):
        return _read_page(path, columns)
    if not looks_like_table(path):
        return _log_or_aligned(path, columns)
    try:
        found, refused = read_table(path, columns), None
    except NoFigures as error:
        found, refused = [], error
    if not any(name.startswith(TIMED) for row in found for name in (*row["figures"], *row["phases"])) and boxed(path):
        found = _log_beside_tables(path, columns) or found
    if refused and not found:
        raise refused
    found[0]["prose"] = claimed_sizes(beginning_of(path))
    return found


def _log_or_aligned(path: Path, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a log, or of the aligned tables of a text that is none; Unreadable says why it is no log.

    A short text may also tell a run in each line.
    """
    text = beginning_of(path)
    told = [] if LOG_LINE.search(text) else labelled_rows(text, str(path), columns)
    if not told:
        try:
            return read_log(path, columns)
        except Unreadable as refused:
            with contextlib.suppress(NoFigures):
                told = table_rows(aligned_as_markdown(text), f"{path} (as Markdown)", columns)
            if not told:
                raise refused from None
    told[0]["prose"] = claimed_sizes(text)
    return told


def _tried(read: Any, problems: list[str]) -> list[Row]:
    try:
        return [Row(**row) for row in read()]
    except Unreadable as error:
        problems.append(str(error))
        return []


def _completed(written: Sequence[Row], read: Sequence[Row]) -> list[Row]:
    """Return the rows that were read, each with what a written row of its name adds, and the other written rows.

    A written row may add settings that a log does not say. SettingsError where the two say different things, or where a
    written row without figures has no such partner.
    """
    said = Counter(row.label for row in written)
    partners = {row.label: row for row in read if said[row.label] == 1}
    problems = []
    for i, own in enumerate(written):
        other = partners.get(own.label)
        for name in own.figures.keys() & (other.figures.keys() if other else ()):
            found = f"found {own.figures[name]!r}, and {other.place} says {other.figures[name]!r}"
            if str(own.figures[name]) == str(other.figures[name]):
                continue
            problems.append(
                f"reported.rows[{i}].figures.{name}: {found}: which counts? Leave it out here, or rename the row."
            )
        empty = not (own.figures or own.phases or own.out_of_memory or other)
        if empty and read:
            near = nearest(own.label, [row.label for row in read])
            problems.append(
                f"reported.rows[{i}]: '{own.label}' has no figures, and no file or table has such a row.{near}"
            )
    if problems:
        raise SettingsError(problems)

    def completed(row: Row, own: Row) -> Row:
        row = replace(row, settings=without_overridden(row, own.settings))
        both = {part: getattr(row, part) | getattr(own, part) for part in ("settings", "figures", "phases")}
        failed = row.out_of_memory or own.out_of_memory
        return replace(row, projected=own.projected, out_of_memory=failed, **both)

    own = {row.label: row for row in written if row.label in partners}
    whole = [completed(row, own[row.label]) if row.label in own else row for row in read]
    return [*(row for row in written if row.label not in own), *whole]


def _distinct(found: list[Row]) -> list[Row]:
    """Give rows of the same name different names: by the folders of their files, or else by a number.

    Rows of the parameter file keep their names.
    """
    files: dict[str, set[str]] = {}
    for row in found:
        files.setdefault(row.label, set()).add(_file(row))
    named: list[Row] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for row in found:
        label = row.label
        if row.place and len(files[label]) > 1:
            label = "/".join(filter(None, (Path(row.place).parent.name, label)))
        if row.place:
            counted = itertools.count(numbers.get(label, 1))
            numbers[label] = next(n for n in counted if _numbered(label, n) not in taken)
            label = _numbered(label, numbers[label])
        named.append(replace(row, label=label))
        taken.add(label)
    return named


def _file(row: Row) -> str:
    return re.sub(r":\d+$", "", row.place)


def _numbered(label: str, number: int) -> str:
    return label if number == 1 else f"{label} ({number})"
