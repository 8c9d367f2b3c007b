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

OF_NO_MEANING = {"metrics", "results", "result", "config", "params", "parameters", "args", "settings", "performance"}
"""Names of nested objects that change nothing about what they hold."""


def read_json(path: Path, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a JSON file, or of one with an object a line; Unreadable if it holds none.

    A list of objects is a table, as are lines of objects and an object of objects, which has a run by each name. Any
    other object is what Trainer wrote.
    """
    if path.suffix.lower() == ".json":
        try:
            held = json.loads(text_of(path), parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            held = None
        if isinstance(held, dict) and len(held) > 1 and all(isinstance(each, dict) for each in held.values()):
            held = [{"run": name, **each} for name, each in held.items()]
        if not (held and isinstance(held, list) and all(isinstance(each, dict) for each in held)):
            return [read_trainer_state(path)]
        objects = [(each, 1) for each in held]
    else:
        objects = [(_object(line, i, path), i) for i, line in enumerate(text_of(path).split("\n"), 1) if line.strip()]
    for each, line in objects:
        if not isinstance(each, dict):
            raise Unreadable(str(path), line, 1, "expected an object with figures by name, one a line")
    objects = [(_flat(each), line) for each, line in objects]
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


def _flat(held: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return an object with what nested ones hold, called by the path to it: `validation/samples_per_second`.

    What a name such as `metrics` holds is called by its own name alone, unless the object has that already.
    """
    found: dict[str, Any] = {}
    for name, value in held.items():
        if isinstance(value, dict):
            inner = _flat(value, path if name.lower() in OF_NO_MEANING else f"{path}{name}/")
            found |= {f"{name}/{key}" if key in found or key in held else key: each for key, each in inner.items()}
        else:
            found[f"{path}{name}"] = value
    return found


def _text(value: Any) -> str:
    """Return a value as the text of a cell; lists hold no figure."""
    if isinstance(value, list) or value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
