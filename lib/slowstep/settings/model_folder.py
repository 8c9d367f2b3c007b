"""Checks of a model's folder without loading its weights: is it whole or damaged?"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

LONGEST_HEADER = 100_000_000
"""The largest header of a file in bytes, as the safetensors library itself allows."""


def damaged(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the files of a model's folder."""
    config = folder / "config.json"
    try:
        if not isinstance(json.loads(config.read_text(encoding="utf-8")), dict):
            yield f"'{config}' holds no mapping of names to values, so it describes no model."
    except (ValueError, RecursionError) as error:
        yield f"'{config}' is no JSON: {' '.join(str(error).split())[:120]}; copy it anew."
    yield from _missing(folder)
    for path in sorted(folder.glob("*.safetensors")):
        stat = path.stat()
        if said := _damage(path, stat.st_size, stat.st_mtime_ns):
            yield f"'{path}' {said}; copy or download it anew."


def _missing(folder: Path) -> Iterator[str]:
    """Yield a message for each index that names files which are not there."""
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield f"'{index}' is no index of weights; copy it anew."
            continue
        lost = sorted(str(name) for name in named if not (folder / str(name)).is_file())
        if lost:
            yield f"'{index}' names files that are not there: {', '.join(lost[:5])}{', …' * (len(lost) > 5)}."


@functools.lru_cache(maxsize=1024)
def _damage(path: Path, size: int, changed: int) -> str:
    """Return the damage that shows in a file's header and size; empty if there is none.

    A header is its length in 8 bytes, then JSON with the places of the tensors.
    """
    with path.open("rb") as file:
        first = file.read(8)
        if first.startswith(b"version "):
            return "is a pointer of git-lfs and holds no weights: run `git lfs pull` there"
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > min(size, LONGEST_HEADER):
            return f"is damaged: its {size} bytes hold no header"
        try:
            header = json.loads(file.read(length))
            end = max((t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"), default=0)
            whole = 8 + length + int(end)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return "is damaged: its header is no list of tensors"
    return "" if whole == size else f"is damaged: it has {size} bytes, and its header speaks of {whole}"
