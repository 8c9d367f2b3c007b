"""Sizes of samples that rows say in their names or in columns that were not read: lengths, resolutions, frames.

A sample of 512 tokens is less work than one of 1024, so that samples, steps and epochs of the two are no equal work.
The audit reads a length where a column says it without doubt (`seq len`). What stands elsewhere (`seq 512`, `224px`)
may be something else: it is not reckoned with, and leaves a comparison open.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from slowstep.audit.read.header_names import without_statistic
from slowstep.audit.read.unknown_columns import WORD
from slowstep.audit.run import ReportedRun

OTHER_SAMPLES = "a sample may be other work"

WHERE = r"(?:max|train|training|sample|input|output|source|target|text|prompt|completion|token|model|n|num|avg|mean)"
COLUMNS = {
    "length": rf"(?:{WHERE} )*(?:(?:seq(?:uence)?|ctx|context)(?: (?:len(?:gth)?|size|window))?|seqlen|len(?:gth)?)",
    "resolution": rf"(?:(?:{WHERE}|image|img|video|crop) )*(?:resolutions?|res|pixels?|px|imgsz|imgsize|crop|"
    r"(?:image|img|crop|input|picture|video)(?: (?:size|dims?|shape|hw|height|width|side)))",
    "number of frames": r"(?:(?:n|num|number of|clip|max|video) )*(?:frames?|clip (?:len(?:gth)?|size))"
    r"(?: per (?:clip|video|sample))?",
}
"""Headers of columns that may say the size of a sample, by what of it they say."""

BEGIN, END = r"(?<![A-Za-z0-9.])", r"(?![A-Za-z0-9%/]|\.\d)"
NAMED = r"[ _=:-]{0,2}"
LENGTH = (
    r"(?:(?:max[ _-]?)?(?:seq(?:uence)?|ctx|context|n_ctx)(?:[ _-]?(?:len(?:gth)?|size|window))?|"
    r"(?:max[ _-]?)?len(?:gth)?|block[ _-]size)"
)
SAID = {
    "length": (
        rf"{BEGIN}{LENGTH}{NAMED}(\d{{1,3}}[kK]|[1-9]\d{{1,6}}){END}",
        rf"{BEGIN}(\d{{1,3}}[kK]|[1-9]\d{{2,6}})[ _-]?(?:seq(?:uence)?(?:[ _-]?len(?:gth)?)?|ctx|context){END}"
        r"(?![ _=:-]{0,2}\d)",
    ),
    "resolution": (
        rf"{BEGIN}(\d{{2,4}} ?(?:px|pixels?|²|\^2)|\d{{3,4}}p){END}",
        rf"{BEGIN}(?:resolution|imgsz|(?:img|image|crop)(?:[ _-]?size)?|res(?==)){NAMED}"
        rf"([1-9]\d{{1,3}}(?:[x×]\d{{2,4}})?){END}",
        rf"{BEGIN}(\d{{3,4}} ?[x×] ?\d{{3,4}}){END}",
        rf"{BEGIN}((?P<side>[3-9]\d) ?[x×] ?(?P=side)){END}",
        rf"(?<=\w)@(\d{{3,4}}){END}(?! ?[A-Za-z])",
        rf"patch\d{{1,2}}[_-](\d{{3}}){END}",
    ),
    "number of frames": (
        rf"{BEGIN}(\d{{1,4}})[ _-]?frames?{END}",
        rf"{BEGIN}(?:num[ _-]?)?frames?{NAMED}(\d{{1,4}}){END}",
    ),
}
"""Sizes of samples in the names and the words of rows: `seq 1024`, `ctx4k`, `224px`, `512x512`, `16 frames`."""

LEAST = {"length": 16, "resolution": 32, "number of frames": 1}
"""The smallest sizes that count, since `seq 2` or `len 3` may be the number of something."""

ALIKE = 0.1
"""The share by which sizes may differ that are about the same: 4k and 4096 tokens, or lengths that were measured."""

COUNTS = {"length": "tokens", "resolution": "pixels", "number of frames": "frames"}
"""What a second holds more of, the more equal work it counts."""

PATTERNS = {
    kind: re.compile(rf"{pattern}(?: ?[(\[](?:tokens?|tok|px|pixels?)[)\]])?") for kind, pattern in COLUMNS.items()
}
IN_WORDS = {kind: [re.compile(each, re.IGNORECASE) for each in patterns] for kind, patterns in SAID.items()}


def is_length(header: str) -> bool:
    """Return whether a header may say the most tokens of a sample."""
    return _says("length", header)


def other_samples(a: ReportedRun, b: ReportedRun, unit: str) -> str:
    """Return a doubt if rows that were compared in a `unit` say unlike sizes of a sample, or one of them says one.

    Tokens count equal work whatever the size.
    """
    _, said = _unlike(a, b)
    return f"{OTHER_SAMPLES}: {said}" if said and not unit.startswith("tokens") else ""


def question_of_sizes(a: ReportedRun, b: ReportedRun) -> str:
    """Return the question whose answer decides a comparison of samples of unlike sizes."""
    counted = COUNTS[_unlike(a, b)[0]]
    padding = ", and what share of these is padding" if counted == "tokens" else ""
    return f"How many {counted} a second do '{a.label}' and '{b.label}' train on{padding}?"


def lengths_say_why(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether the tokens of a sample differ in two rows as the lengths do that they say."""
    said = [[_sides(text)[0] for text in _in_columns("length", r).values()] or _in_words("length", r) for r in (a, b)]
    tokens = [r.solved.known.get("tokens_per_sample") for r in (a, b)]
    if None in tokens or [len(each) for each in said] != [1, 1] or said[0] == said[1]:
        return False
    filled = [each / size[0][0] for each, size in zip(tokens, said, strict=True)]
    return filled[0].gap(filled[1]) <= ALIKE


def _unlike(a: ReportedRun, b: ReportedRun) -> tuple[str, str]:
    """Return what of a sample is unlike in two rows, or is said by one of them alone, and in words what they say.

    Both are empty where nothing is. A column that says a size goes before words.
    """
    for kind in COLUMNS:
        if kind == "length" and a.length and b.length:
            continue
        before, after = (_in_columns(kind, run) for run in (a, b))
        for name in dict.fromkeys((*before, *after)):
            sizes = [_sides(cells.get(name, "")) for cells in (before, after)]
            if not _are_alike(*sizes) and max(max(size) for size in sizes[0] + sizes[1]) >= LEAST[kind]:
                shown = ", ".join(cells.get(name, "none") for cells in (before, after))
                return kind, f"the two differ in {name} ({shown}), which was not read"
        said = _in_words_of_both(kind, a, b)
        if not before and not after and not _are_alike(*said):
            both = zip((a, b), said, strict=True)
            return kind, " and ".join(f"'{run.label}' says {_shown(kind, sizes)}" for run, sizes in both)
    return "", ""


def _are_alike(before: list[tuple[int, ...]], after: list[tuple[int, ...]]) -> bool:
    """Return whether the sizes of two rows are about the same, one by one."""
    if list(map(len, before)) != list(map(len, after)):
        return False
    pairs = (pair for one, other in zip(before, after, strict=True) for pair in zip(one, other, strict=True))
    return all(max(pair) <= (1 + ALIKE) * min(pair) for pair in pairs)


def _shown(kind: str, said: list[tuple[int, ...]]) -> str:
    sizes = ["x".join(map(str, size)) for size in said]
    return f"a {kind} of {' and '.join(sizes)}" if sizes else "none"


def _in_columns(kind: str, run: ReportedRun) -> dict[str, str]:
    """Return the sizes of a sample that columns say which were not read, by their headers."""
    cells = run.unknown | {name: f"{value:g}" for name, value in run.beside.items() if name not in run.unknown}
    return {name: text for name, text in cells.items() if _says(kind, name) and _sides(text)}


def _in_words_of_both(kind: str, a: ReportedRun, b: ReportedRun) -> list[list[tuple[int, ...]]]:
    """Return the sizes of a sample that the words of two rows say. A remark on one alone may be on another run."""
    with_remarks = all(_said(kind, " ".join(run.remarks)) for run in (a, b))
    return [_in_words(kind, run, run.remarks if with_remarks else ()) for run in (a, b)]


def _in_words(kind: str, run: ReportedRun, remarks: Iterable[str] = ()) -> list[tuple[int, ...]]:
    """Return the sizes of a sample that the name and the words of a row say, each by its sides."""
    words = (run.label, *run.unknown.values(), *remarks)
    return sorted({size for text in words for size in _said(kind, text) if min(size) >= LEAST[kind]})


@functools.lru_cache(maxsize=4096)
def _says(kind: str, header: str) -> bool:
    """Return whether a column may say the size of a sample by its header."""
    header = without_statistic(header)
    if header == "T":  # as beside B in code
        return kind == "length"
    return bool(PATTERNS[kind].fullmatch(re.sub(r"[\s_./-]+", " ", WORD.sub(" ", header)).strip().lower()))


@functools.lru_cache(maxsize=4096)
def _said(kind: str, text: str) -> tuple[tuple[int, ...], ...]:
    """Return the sizes that words say."""
    each = (one for pattern in IN_WORDS[kind] for one in pattern.finditer(text))
    return tuple(size for found in each for size in _sides(found[1]))


def _sides(text: str) -> list[tuple[int, ...]]:
    """Return a size by its sides, of which equal ones count once: `224x224` is 224; [] if a text is no size."""
    found = re.fullmatch(
        r"(\d[\d,]{0,8})(k?)(?:[x×](\d{1,5}))?(?:px|p|²|\^2|tokens|tok)?", re.sub(r"\s", "", text.lower())
    )
    if not found:
        return []
    first = int(found[1].replace(",", "")) * (1024 if found[2] else 1)
    return [(first,) if found[3] in (None, str(first)) else (first, int(found[3]))]
