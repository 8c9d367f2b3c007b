"""Models that are split over devices: by tensor, pipeline, context or model parallelism.

Each copy of a model trains on a batch of its own. So a step has a batch for each copy, and not for each device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from slowstep.audit.figures import Figure, exact
from slowstep.settings.reported import Row

KINDS = {
    "tp": r"tp|tensor(?: model)? parallel\w*",
    "pp": r"pp|pipeline(?: model)? parallel\w*",
    "cp": r"cp|context parallel\w*",
    "mp": r"mp|model parallel\w*",
    "dp": r"dp|data parallel\w*",
}
"""Ways to split a model, and the number of its copies (`dp`), as headers call them."""

HEADERS = {kind: re.compile(rf"(?:{words})(?: (?:world )?(?:size|degree|ways?|dim))?") for kind, words in KINDS.items()}

SEVERAL = re.compile(r"\s?[/×,|]\s?|\s?\bx\b\s?")
"""What parts the ways in one header, `TP/PP`, and their sizes in its cells, `8/4`."""

UNSPLIT = re.compile(r"|-|–|—|n/?a|no(?:ne)?|off|false|[01]", re.IGNORECASE)
"""Cells that say that nothing is split."""

OF_ANY_WAY = re.compile(r"(?:\dd )?parallel\w*(?: (?:strategy|config\w*|mode|type|setup|plan|layout))?")
SPLIT = re.compile(
    r"\d ?[x×/,] ?\d|tensor|pipeline|model|context|sequence|ulysses|megatron|\b(?:3d|[tpcs]p)\b", re.IGNORECASE
)
"""Headers of columns that may name any way, and words and numbers in their cells of ways that split a model."""

OF_SAMPLES = re.compile(r"(?:sp|ulysses|sequence parallel\w*)(?: (?:size|degree))?")
"""Headers of a way that may split samples. Megatron's is only switched on, and takes no devices of its own."""

SAID = re.compile(r"(?<![a-z])(tp|pp|dp)[ _=:-]?([1-9]\d{0,4})(?=x|[tpcd]p|[^a-z\d.%]|$)", re.IGNORECASE)
"""A way in the name of a row, with its size: `tp8`, `TP=8 PP=2`."""

UNSAID = re.compile(r"\b(?:tensor|pipeline|context|model)[ _-]?(?:model[ _-])?parallel", re.IGNORECASE)
"""Words of a way without a size."""

LARGEST = 4096
"""The size from which on a number under such a header is another thing: `TP` may stand for throughput."""

NO_SIZE = re.compile(r"yes|y|true|on|✓|✔|\d*\.\d*[1-9]\d*", re.IGNORECASE)
"""Cells under a header of two letters that say no size: they make another thing of it, or have all devices copy."""

UNSAID_WAY = "unsaid"
"""A way that such words name, in place of `tp` and the like."""

UNKNOWN = 0
"""The size of a way that is named without one."""


def copies_of(row: Row, devices: Figure | None) -> Figure | None:
    """Return how many copies of the model of a row train, on so many devices; None where that is not known.

    Where the `devices` were not counted, one is assumed, as for all that is reckoned by devices.
    """
    sizes = _sizes(row, devices)
    copies = sizes.pop("dp", None)
    if sizes.keys() & {"tp", "pp"} or (devices.middle if devices else 0) < sizes.get("mp", 0):
        sizes.pop("mp", None)  # it is the product of both, or the bits of mixed precision
    parts = prod(sizes.values())
    if UNKNOWN in (parts, copies):
        return None
    if devices is None:
        return None if parts > 1 and not copies else exact(copies or 1)
    if copies is None:
        return devices / parts if parts == 1 or _divides(parts, devices) else None
    fits = devices.meets(exact(copies * parts)) if sizes else _divides(copies, devices)
    return exact(copies) if fits else None


def names_a_way(header: str) -> bool:
    """Return whether a header names ways to split a model whose sizes are read."""
    names = SEVERAL.split(_bare(header))
    return all(any(words.fullmatch(name) for words in HEADERS.values()) for name in names)


def _sizes(row: Row, devices: Figure | None) -> dict[str, int]:
    """Return the size of each way that a row says: by its columns, or else by its words."""
    by_column = dict(_in_columns(row, devices.middle if devices else LARGEST))
    by_words: dict[str, set[int]] = {}
    for kind, size in _in_words(row):
        by_words.setdefault(kind, set()).add(size)
    if by_column:
        by_words.pop(UNSAID_WAY, None)
    return {kind: min(each) if len(each) == 1 else UNKNOWN for kind, each in by_words.items()} | by_column


def _divides(part: int, devices: Figure) -> bool:
    return devices.middle % part == 0


def _in_columns(row: Row, largest: float) -> Iterator[tuple[str, int]]:
    """Yield the ways that columns of a row name, each with its size. Sizes above the largest are of something else."""
    said: Mapping[str, object] = {**row.beside, **row.unknown, **row.settings}
    for header, value in said.items():
        name, text = _bare(header), str(value).strip()
        names, cells = SEVERAL.split(name), SEVERAL.split(text)
        kinds = [kind for part in names for kind, words in HEADERS.items() if words.fullmatch(part)]
        if len(kinds) == len(names):
            each = [_size(cell) for cell in cells] if len(cells) == len(names) else [UNKNOWN] * len(names)
            sizes = zip(kinds, each, strict=True)
            other = len(name) == 2 and NO_SIZE.fullmatch(text)  # CP may be checkpointing, and DP a rate of dropping
            yield from (
                (kind, size) for kind, size in sizes if size <= largest and (size or name != "mp") and not other
            )
        elif _splits_somehow(name, text):
            yield name, UNKNOWN


def _splits_somehow(name: str, text: str) -> bool:
    """Return whether a column says that a model, or samples, are split in a way that is not understood."""
    if OF_SAMPLES.fullmatch(name):
        return bool(re.search(r"[2-9]|\d\d", text))
    return bool(OF_ANY_WAY.fullmatch(name) and SPLIT.search(text) and not SAID.search(text))


def _size(cell: str) -> int:
    """Return the size of a way that a cell says: `8`, `8-way`, `TP8`; 1 if it says that nothing is split."""
    found = re.fullmatch(r"[a-z =:]{0,5}(\d{1,6})(?:\.0+)?[ -]?(?:way|x)?", cell, re.IGNORECASE)
    if found:
        return max(1, int(found[1]))
    return 1 if UNSPLIT.fullmatch(cell) else UNKNOWN


def _in_words(row: Row) -> Iterator[tuple[str, int]]:
    """Yield the ways that the name and the words of a row say, each with its size."""
    for text in (row.label, *row.unknown.values()):
        sizes = [(kind.lower(), int(size)) for kind, size in SAID.findall(text)]
        yield from sizes
        if not sizes and UNSAID.search(text):
            yield UNSAID_WAY, UNKNOWN


def _bare(header: str) -> str:
    """Return a header in lower case, without brackets and signs between its words."""
    return re.sub(r"[\s_-]+", " ", re.sub(r"\s*[(\[].*", "", header)).strip().lower()
