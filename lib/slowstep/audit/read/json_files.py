"""Reading of JSON: trainer states, what scripts of Trainer save at their end, and lists of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowstep.audit.read.columns import Unreadable, text_of
from slowstep.audit.read.tables import rows_of
from slowstep.audit.read.trainer_state import read_trainer_state
from slowstep.text.sentences import capitalised


def read_json(path: Path, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a JSON file, or of one with an object a line; Unreadable if it holds none.

    A list of objects is a table, as are lines of objects. An object is what Trainer wrote.
    """
    if path.suffix.lower() == ".json":
        try:
            held = json.loads(text_of(path), parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            held = None
        if not (held and isinstance(held, list) and all(isinstance(each, dict) for each in held)):
            return [read_trainer_state(path)]
        objects = [(each, 1) for each in held]
    else:
        objects = [(_object(line, i, path), i) for i, line in enumerate(text_of(path).split("\n"), 1) if line.strip()]
    for each, line in objects:
        if not isinstance(each, dict):
            raise Unreadable(str(path), line, 1, "expected an object with figures by name, one a line")
    header = list(dict.fromkeys(name for each, _ in objects for name in each))
    table = [[(name, 1, i) for i, name in enumerate(header, 1)]]
    table += [[(_text(each.get(name)), line, i) for i, name in enumerate(header, 1)] for each, line in objects]
    found = rows_of([table], str(path), columns)
    if any(row["figures"] for row in found):
        return found
    asked = "".join(f". {capitalised(text)}" for text in found[0]["questions"][:1])
    raise Unreadable(str(path), 1, 1, f"no name of its objects is a figure, such as seconds_per_step{asked}")


def _object(line: str, number: int, path: Path) -> Any:
    try:
        return json.loads(line, parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(path), number, 1, f"is no JSON: {str(error).split(':')[0]}") from None


def _text(value: Any) -> str:
    """Return a value as the text of a cell; nested ones hold no figure."""
    if isinstance(value, dict | list) or value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
