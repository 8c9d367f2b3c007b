"""Tables in LaTeX, in the markups of wikis, in aligned columns and in reports of tools, as Markdown.

pandas, `tabulate` and profilers print columns that stand below each other, or are parted by bars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slowstep.audit.read.columns import is_number
from slowstep.text.markdown import table

ARGUMENT = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
"""An argument in braces, which may hold two levels of others."""

BEGIN = re.compile(r"\\begin\{(?P<kind>tabular[xy*]?|tabulary|longtable)\}")
COLUMNS = re.compile(rf"(?:{ARGUMENT})?(?:\[[^\]]*\])?{ARGUMENT}")
"""What says the columns behind the beginning of a table, and its width before that."""

RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|endhead|endfirsthead|endfoot|endlastfoot|centering|small|footnotesize|"
    rf"cmidrule(?:\([^)\n]{{0,100}}\))?{ARGUMENT}|cline{ARGUMENT}|addlinespace(?:\[[^\]\n]{{0,100}}\])?|(?:row|cell)color(?:\[[^\]\n]{{0,100}}\])?{ARGUMENT})"
)
ROW_END = re.compile(r"\\\\(?:\[[^\]\n]{0,100}\])?")
COMMENT = re.compile(r"(?<!\\)%.*")
SPANS = re.compile(rf"\\multicolumn\{{(?P<many>\d{{1,2}})\}}{ARGUMENT}(?P<text>{ARGUMENT})")
OF_ROWS = re.compile(rf"\\multirow(?:\[[^\]]*\])?{ARGUMENT}{ARGUMENT}(?P<text>{ARGUMENT})")
NOTES = re.compile(rf"\\(?:cite[pt]?|footnote(?:mark)?|tnote|textsuperscript|ref){ARGUMENT}|\^(?:{ARGUMENT}|\\\w+)")
"""What stands beside a text and is no part of it."""

SIGNS = {
    r"\times": "×",
    r"\pm": "±",
    r"\uparrow": "↑",
    r"\downarrow": "↓",
    r"\rightarrow": "→",
    r"\to": "→",
    r"\Delta": "Δ",
    r"\mu": "µ",
    r"\sim": "~",
    r"\approx": "~",
    **dict.fromkeys((r"\,", r"\;", r"\ ", "~"), " "),
    "{,}": ",",
    **{rf"\{sign}": sign for sign in "%$#_&"},
}
"""Commands and signs, each with the character that is printed."""

SIGN = re.compile("|".join(re.escape(sign) + r"(?![a-z])" * sign[-1].isalpha() for sign in SIGNS))
OF_SIUNITX = {
    **{
        rf"\{name}": sign
        for name, sign in (("milli", "m"), ("micro", "µ"), ("kilo", "k"), ("mega", "M"), ("giga", "G"))
    },
    **{rf"\{name}": sign for name, sign in (("second", "s"), ("minute", "min"), ("hour", "h"), ("byte", "B"))},
    r"\per": "/",
    r"\percent": "%",
    r"\watt": "W",
}
"""Commands of units in the package siunitx, each with its sign."""

QUANTITY = re.compile(r"\\(?:SI|qty)\{([^{}]*)\}\{([^{}]*)\}")
UNIT = re.compile(r"\\(?:si|unit)\{([^{}]*)\}")
OF_A_UNIT = re.compile("|".join(re.escape(name) + r"(?![a-z])" for name in OF_SIUNITX))

MATH = re.compile(r"(?<!\\)\$")
COMMAND = re.compile(r"\\[A-Za-z]+\*?\s?|[{}]")
"""What only says how a text is set. What stands in its braces is printed."""

MOST_TABLES = 200
"""The most tables of a text that are read."""


# a body holds no line that begins a table, so that each line is looked at once, however many tables have no end
MEDIAWIKI = re.compile(r"^\{\|.*\n(?P<body>(?:(?!\{\||\|\}).*\n)*)\|\}", re.MULTILINE)
ASCIIDOC = re.compile(r"^(?:\[(?P<given>.*)\]\n)?\|===\n(?P<body>(?:(?!\|===).*\n)*)\|===", re.MULTILINE)
LIST_TABLE = re.compile(
    r"^(?P<indent>[ ]*)\.\. list-table::.*\n(?P<body>(?:(?P=indent)[ ]+.*\n?|[ ]*\n)+)", re.MULTILINE
)

HYPERFINE = re.compile(
    r"^(?:Benchmark (?:#?\d+: )?.*\n[ ]+Time \(.*\n(?:[ ]+Range .*\n)?(?:[ ]+Warning.*\n)*\s*)+", re.MULTILINE
)
BENCHMARK = re.compile(
    r"^Benchmark (?:#?\d+: )?(?P<run>.+)\n[ ]+Time \(.*?\):\s+(?P<time>[\d.]+ \w+(?: ±\s+[\d.]+ \w+)?)", re.MULTILINE
)
TIMES_FASTER = re.compile(r"(?<![\d.])(\d[\d.]{0,20}) ± [\d.]{1,20} (?=times (?:faster|slower))")
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
    for begins, text in re.findall(r"^[ \t]+(\*[ \t]+)?-(?:[ \t]+(.*))?$", found["body"], re.MULTILINE):
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


def holds_latex_table(text: str) -> bool:
    """Return whether a text holds a table that is written in LaTeX."""
    return bool(BEGIN.search(text))


def latex_as_markdown(text: str) -> str:
    """Return a text with its LaTeX tables as Markdown; what stands between them stays."""
    found, at = [], 0
    for _ in range(MOST_TABLES):
        begin = BEGIN.search(text, at)
        columns = COLUMNS.match(text, begin.end()) if begin else None
        end = text.find(f"\\end{{{begin['kind']}}}", columns.end()) if begin and columns else -1
        if not begin or not columns or end < 0:
            break
        found += [text[at : begin.start()], _latex_table(text[columns.end() : end])]
        at = text.index("}", end) + 1
    return "".join([*found, text[at:]])


def _latex_table(body: str) -> str:
    body = RULES.sub(" ", COMMENT.sub("", body))
    rows = [[cell for part in re.split(r"(?<!\\)&", row) for cell in _cells(part)] for row in ROW_END.split(body)]
    rows = [row for row in rows if any(row)]
    if not rows:
        return ""
    return "\n".join(["\n", table(rows), "\n"])


def _cells(part: str) -> list[str]:
    """Return the text of a cell, once for each column that it spans."""
    spans = SPANS.search(part)
    text = OF_ROWS.sub(lambda found: found["text"], spans["text"] if spans else part)
    text = UNIT.sub(
        lambda found: OF_A_UNIT.sub(lambda own: OF_SIUNITX[own[0]], found[1]), QUANTITY.sub(r"\1 \\si{\2}", text)
    )
    drawn = SIGN.sub(lambda found: SIGNS[found[0]], MATH.sub("", NOTES.sub("", text)))
    said = " ".join(COMMAND.sub("", drawn).split()).replace("|", "\\|")
    return [said] * (int(spans["many"]) if spans else 1)
