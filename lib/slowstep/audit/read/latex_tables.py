"""The tables of a LaTeX text, as Markdown."""

from __future__ import annotations

import re

from slowstep.text.markdown import table

ARGUMENT = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
"""An argument in braces, which may hold two levels of others."""

BEGIN = re.compile(r"\\begin\{(?P<kind>tabular[xy*]?|tabulary|longtable)\}")
COLUMNS = re.compile(rf"(?:{ARGUMENT})?(?:\[[^\]]*\])?{ARGUMENT}")
"""What says the columns behind the beginning of a table, and its width before that."""

RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|endhead|endfirsthead|endfoot|endlastfoot|centering|small|footnotesize|"
    rf"cmidrule(?:\([^)]*\))?{ARGUMENT}|cline{ARGUMENT}|addlinespace(?:\[[^\]]*\])?|(?:row|cell)color(?:\[[^\]]*\])?{ARGUMENT})"
)
ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?")
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

MOST = 200
"""The most tables of a text that are read."""


def holds_latex_table(text: str) -> bool:
    """Return whether a text holds a table that is written in LaTeX."""
    return bool(BEGIN.search(text))


def latex_as_markdown(text: str) -> str:
    """Return a text with its LaTeX tables as Markdown; what stands between them stays."""
    found, at = [], 0
    for _ in range(MOST):
        begin = BEGIN.search(text, at)
        columns = COLUMNS.match(text, begin.end()) if begin else None
        end = text.find(f"\\end{{{begin['kind']}}}", columns.end()) if begin and columns else -1
        if not begin or not columns or end < 0:
            break
        found += [text[at : begin.start()], _table(text[columns.end() : end])]
        at = text.index("}", end) + 1
    return "".join([*found, text[at:]])


def _table(body: str) -> str:
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
