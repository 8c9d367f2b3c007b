"""Tables in the markups of wikis and documentation, and reports of benchmarking tools, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable

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
