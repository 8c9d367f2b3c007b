"""Tables in the markups of wikis and documentation, in aligned columns, and in reports of tools, as Markdown.

pandas, `tabulate` and profilers print columns that stand below each other, or are parted by bars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slowstep.audit.read.columns import is_number
from slowstep.audit.read.latex_tables import holds_latex_table, latex_as_markdown
from slowstep.text.markdown import table

MEDIAWIKI = re.compile(r"^\{\|.*?\n(?P<body>.*?)^\|\}", re.MULTILINE | re.DOTALL)
ASCIIDOC = re.compile(r"^(?:\[(?P<given>.*)\]\n)?\|===\n(?P<body>.*?)^\|===", re.MULTILINE | re.DOTALL)
LIST_TABLE = re.compile(
    r"^(?P<indent>[ ]*)\.\. list-table::.*\n(?P<body>(?:(?P=indent)[ ]+.*\n?|[ ]*\n)+)", re.MULTILINE
)

HYPERFINE = re.compile(
    r"^(?:Benchmark (?:#?\d+: )?.*\n[ ]+Time \(.*\n(?:[ ]+Range .*\n)?(?:[ ]+Warning.*\n)*\s*)+", re.MULTILINE
)
BENCHMARK = re.compile(
    r"^Benchmark (?:#?\d+: )?(?P<run>.+)\n[ ]+Time \(.*?\):\s+(?P<time>[\d.]+ \w+(?: ±\s+[\d.]+ \w+)?)", re.MULTILINE
)
TIMES_FASTER = re.compile(r"(\d[\d.]*) ± [\d.]+ (?=times (?:faster|slower))")
"""A size that hyperfine says with its spread."""

DEEPSPEED = re.compile(r"^-+ ?DeepSpeed Flops Profiler ?-+\n(?P<body>(?:.*\n?)*)", re.MULTILINE)
OF_DEEPSPEED = {
    "GPUs": r"world size",
    "MP": r"model parallel size",
    "batch size per GPU": r"batch size per GPU",
    "forward (ms)": r"fwd latency",
    "backward (ms)": r"bwd latency",
    "optimizer (ms)": r"step latency",
    "step time": r"iter latency",
    "TFLOPS/GPU": r"FLOPS per GPU = [^:\n]* iter latency",
    "samples/s": r"samples/second",
}
"""What the lines of DeepSpeed's profiler hold, each as a header would say it. Its `step` is the optimizer's."""


RULER = frozenset("-=+_|~: \t")
"""The signs of a line that is drawn between the rows of a table, or around them."""

DRAWN = re.compile(r"[-=~]{2,}")
"""What a ruler shows of one column."""

MOST = 2_000
"""The most lines of a text that are looked at."""

TITLE_LINES = 2
"""The lines above a header, without an empty one between them, that may be its title."""


def holds_markup(text: str) -> bool:
    """Return whether a text holds a table in one of these markups, or such a report."""
    return holds_latex_table(text) or any(pattern.search(text) for pattern, _ in MARKUPS)


def as_markdown_tables(text: str) -> str:
    """Return a text with such tables as Markdown; what stands between them stays."""
    text = latex_as_markdown(text) if holds_latex_table(text) else text
    for pattern, rows_of in MARKUPS:
        text = pattern.sub(lambda found, rows_of=rows_of: _drawn(rows_of(found), found[0]), text)
    return TIMES_FASTER.sub(r"\1 ", text)


def _drawn(rows: list[list[str]], text: str) -> str:
    return f"\n{table(rows)}\n\n" if rows and rows[0] else text


def _of_mediawiki(found: re.Match[str]) -> list[list[str]]:
    """Return the rows of `{| ... |}`. Attributes of a cell stand before a bar."""
    rows = []
    for part in re.split(r"^\|-.*$", found["body"], flags=re.MULTILINE):
        lines = re.sub(r"^\|\+.*$", "", part, flags=re.MULTILINE).replace("\n!", "!!").replace("\n|", "||")
        cells = [cell.rpartition("|")[2].strip() for cell in re.split(r"!!|\|\|", lines)[1:]]
        rows += [cells] if cells else []
    return rows


def _of_asciidoc(found: re.Match[str]) -> list[list[str]]:
    """Return the rows of `|===`. Its first line, or `cols`, says how many cells a row has."""
    cells = [cell.strip() for cell in found["body"].split("|")[1:]]
    given = re.search(r'cols="?(?:(?P<many>\d+)\*|(?P<each>[^"\]]+))', found["given"] or "")
    wide = next((line.count("|") for line in found["body"].split("\n") if "|" in line), 1)
    if given:
        wide = int(given["many"]) if given["many"] else given["each"].count(",") + 1
    return [cells[at : at + wide] for at in range(0, len(cells), wide)]


def _of_list_table(found: re.Match[str]) -> list[list[str]]:
    """Return the rows of reStructuredText's `list-table`: a list of lists of cells."""
    rows: list[list[str]] = []
    for begins, text in re.findall(r"^\s+(\*\s+)?-(?:\s+(.*))?$", found["body"], re.MULTILINE):
        rows += [[]] if begins or not rows else []
        rows[-1].append(text.strip())
    return rows


def _of_hyperfine(found: re.Match[str]) -> list[list[str]]:
    """Return the commands that hyperfine ran, each with its time."""
    return [["run", "total time"], *([one["run"], one["time"]] for one in BENCHMARK.finditer(found[0]))]


def _of_deepspeed(found: re.Match[str]) -> list[list[str]]:
    """Return the report of DeepSpeed's profiler as one run. Its times are those of a micro-batch."""
    said = {
        header: re.search(rf"^{line}:\s+(\S.*?)\s*$", found["body"], re.MULTILINE)
        for header, line in OF_DEEPSPEED.items()
    }
    cells = {header: one[1].removesuffix(" TFLOPS") for header, one in said.items() if one}
    rows = [["run", "accumulation steps", *cells], ["profile", "1", *cells.values()]]
    return rows if "step time" in cells else []


MARKUPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[list[str]]]], ...] = (
    (MEDIAWIKI, _of_mediawiki),
    (ASCIIDOC, _of_asciidoc),
    (LIST_TABLE, _of_list_table),
    (HYPERFINE, _of_hyperfine),
    (DEEPSPEED, _of_deepspeed),
)
"""What each such table or report looks like, and what reads its rows, the header first."""


def aligned_as_markdown(text: str) -> str:
    """Return the tables of a text as Markdown; empty if it holds none."""
    blocks: list[list[str]] = [[]]
    for line in text.replace("\r\n", "\n").split("\n")[:MOST]:
        if not line.strip():
            blocks.append([])
        else:
            blocks[-1].append(line)
    return "\n".join(_below_ruler(block) or _table(_parted(block)) for block in blocks)


def _parted(block: Sequence[str]) -> list[list[str]]:
    """Return the fields of each line but those that are drawn."""
    return [_fields(line) for line in block if not RULER.issuperset(line)]


def _below_ruler(block: Sequence[str]) -> str:
    """Return the table of a block whose ruler shows where its columns begin: cells of several lines are joined then.

    A line with words in its first column alone goes on with the one above it. Empty for another block.
    """
    rulers = [i for i, line in enumerate(block) if RULER.issuperset(line) and len(DRAWN.findall(line)) > 1]
    if not rulers or "|" in block[rulers[0]]:
        return ""
    begins = [found.start() for found in DRAWN.finditer(block[rulers[0]])]
    ends = [*begins[1:], MOST]
    each = [[line[a:b].strip() for a, b in zip(begins, ends, strict=True)] for line in block]
    first = rulers[1] if rulers[0] == 0 and len(rulers) > 1 else rulers[0]
    above = [each[i] for i in range(first) if i not in rulers]
    header = [" ".join(filter(None, words)) for words in zip(*above, strict=True)]
    rows: list[list[str]] = []
    for i in range(first + 1, len(block)):
        if i in rulers:
            continue
        if rows and each[i][0] and not any(each[i][1:]):
            rows[-1][0] += f" {each[i][0]}"
        else:
            rows.append(each[i])
    fits = bool(above) and len(above) <= TITLE_LINES + 1 and bool(rows) and not any(map(is_number, header))
    return table([header, *rows]) + "\n" if fits and all(any(map(is_number, row)) for row in rows) else ""


def _fields(line: str) -> list[str]:
    """Return the fields of a line: between bars, or else between two spaces or a tab."""
    said = line.strip()
    return [cell.strip() for cell in re.split(r"\|+", said.strip("|"))] if "|" in said else re.split(r"\s{2,}|\t", said)


def _table(lines: Sequence[list[str]]) -> str:
    """Return the first table of some lines: a header of words, and the lines behind it with as many fields.

    Numbers that merely count the lines have no header.
    """
    for at, header in enumerate(lines[: min(TITLE_LINES + 1, len(lines) - 1)]):
        rows = lines[at + 1 :]
        counted = all(len(row) == len(header) + 1 and row[0] == str(i) for i, row in enumerate(rows))
        rows = [row[1:] for row in rows] if counted else rows
        fits = len(header) > 1 and not any(map(is_number, header)) and all(len(row) == len(header) for row in rows)
        if fits and all(any(map(is_number, row)) for row in rows):
            return table([header, *rows]) + "\n"
    return ""
