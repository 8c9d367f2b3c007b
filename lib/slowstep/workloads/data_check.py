"""A look at the examples before anything is trained. What is damaged is reported with its file and line, or its row."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.settings import Settings

LOOKING_SECONDS = 5.0
"""The seconds after which a file's other lines are not looked at. A file of 26 MB took 0.3 s on two CPU cores."""

ROWS = 500
"""The number of rows, spread over all, that are looked at in data that lies in no JSON file."""

LABELLED = 64
"""The number of examples that are encoded to find one with a label in it."""

MORE = 'each line of a .jsonl file is one JSON object, {"prompt": "…", "response": "…"}'


class Damaged(ValueError):
    """The error of damaged data. Its text says what is wrong, for the person whose data it is."""


def columns(settings: Settings) -> tuple[str, ...]:
    """Return the names of the columns that are read."""
    d = settings.dataset
    return (d.text_field,) if d.text_field else (d.prompt_field, d.response_field)


def check_file(path: Path, settings: Settings) -> None:
    """Look at a .jsonl or .json file; Damaged says which line can't be trained on, and why."""
    if path.stat().st_size == 0:
        raise Damaged(f"{path}: the file is empty; {MORE}.")
    _check(_objects(path), settings, str(path))


def check_rows(raw: Any, settings: Settings) -> None:
    """Look at rows spread over a dataset that lies in no JSON file; Damaged says which row can't be trained on."""
    if not len(raw):
        raise Damaged(f"{settings.dataset.name_or_path}: holds no example.")
    step = max(1, len(raw) // ROWS)
    rows = ((f"row {i}", raw[i]) for i in range(0, len(raw), step))
    _check(rows, settings, settings.dataset.name_or_path)


def no_label(examples: Sequence[dict[str, Any]], settings: Settings, ignored: int) -> str:
    """Return why no loss can be computed, or nothing. It can't if `max_length` leaves only prompts of the examples.

    The first position of a sequence is predicted by nothing, so its label does not count.
    """
    for i in range(0, len(examples), max(1, len(examples) // LABELLED)):
        example = examples[i]
        if not isinstance(example, Mapping) or "labels" not in example:
            return ""  # it is made of something else, in the collator
        if any(label != ignored for label in example["labels"][1:]):
            return ""
    if not len(examples):
        return ""
    return (
        f"no label is left in the loss: prompts fill max_length={settings.dataset.max_length}, and responses begin "
        "beyond it; raise dataset.max_length, or shorten the prompts"
    )


def _check(rows: Iterable[tuple[str, Any]], settings: Settings, source: str) -> None:
    wanted, began, seen = columns(settings), time.monotonic(), 0
    filled: set[str] = set()
    for where, row in rows:
        seen += 1
        if not isinstance(row, dict):
            raise Damaged(f"{source}: {where}: found {_shown(row)}; {MORE}.")
        for name in wanted:
            if name not in row:
                raise Damaged(
                    f"{source}: {where}: no column '{name}'; it has {', '.join(map(str, row))[:200] or 'none'}. Name "
                    "the columns by dataset.text_field, or prompt_field and response_field."
                )
            if not isinstance(row[name], str):
                raise Damaged(f"{source}: {where}: column '{name}' holds {_shown(row[name])}; a text is needed.")
            if row[name].strip():
                filled.add(name)
        if time.monotonic() - began > LOOKING_SECONDS:
            break
    if not seen:
        raise Damaged(f"{source}: holds no example; {MORE}.")
    empty = [name for name in wanted if name not in filled]
    if empty and wanted[-1] in empty:  # prompts may be empty; what is learnt may not
        raise Damaged(f"{source}: column '{wanted[-1]}' is empty in all {seen} rows looked at.")


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield what a file holds, each with its place. The file holds one object a line, or one list of all."""
    with path.open("rb") as file:
        while (first := file.read(1)).isspace():
            pass
        whole = first == b"["
        file.seek(0)
        for number, line in enumerate([file.read()] if whole else file, 1):
            try:
                data = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8")) if line.strip() else None
            except UnicodeDecodeError as error:
                number += line.count(b"\n", 0, error.start) if whole else 0
                byte = line[error.start]
                raise Damaged(f"{path}: line {number}: the byte 0x{byte:02x} is no UTF-8; save it as UTF-8.") from None
            except json.JSONDecodeError as error:
                number += error.lineno - 1 if whole else 0
                raise Damaged(f"{path}: line {number}: no JSON ({error.msg}, column {error.colno}); {MORE}.") from None
            except (RecursionError, ValueError) as error:
                raise Damaged(f"{path}: line {number}: no JSON that can be read ({error}).") from None
            if whole:
                yield from ((f"row {i}", row) for i, row in enumerate(data))
            elif line.strip():
                yield f"line {number}", data


def _shown(value: Any) -> str:
    kinds = {type(None): "null", dict: "an object", list: "a list", bool: "true or false", str: "a text"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
