"""Reading of JSON: trainer states, what scripts of Trainer save at their end, and lists of rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.audit.read.cells import bare
from slowstep.audit.read.columns import MEASURED, OUT_OF_MEMORY, column
from slowstep.audit.read.measures import number
from slowstep.audit.read.source_text import Unreadable, text_of
from slowstep.audit.read.tables import MANY, rows_of
from slowstep.audit.read.trainer_state import HISTORY, read_trainer_state
from slowstep.text.sentences import capitalised

OF_NO_MEANING = {"metrics", "results", "result", "config", "params", "parameters", "args", "settings", "performance"}
"""Names of nested objects that change nothing about what they hold."""

OF_MLFLOW = ("info", "data")
"""The parts of a run as MLflow's server answers."""

OF_A_PART = re.compile(
    r"train(?:ing)?|eval(?:uation)?|val(?:idation)?|test|model|warm-?_?up|system|hardware", re.IGNORECASE
)
"""Names of objects that are of a part of one run, or of what it ran with."""

COUNTED = re.compile(r"(?P<what>(?:global_)?step|iter(?:ation)?|epoch)s?[ _-]?(?P<at>\d+)", re.IGNORECASE)
"""Names of objects of one run at several of its steps."""


def read_json(path: Path, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a JSON file, or of one with an object a line; Unreadable if it holds none.

    A list of objects is a table, as are lines of objects and an object of objects, which has a run by each name, or is
    one run in parts. Any other object is what Trainer wrote.
    """
    if path.suffix.lower() == ".json":
        try:
            held = _with_named_values(json.loads(text_of(path), parse_float=str, parse_int=str))
        except (ValueError, RecursionError):
            held = None
        only = next(iter(held.items())) if isinstance(held, dict) and len(held) == 1 else ("", None)
        if only[1] and only[0] != HISTORY and _are_objects(only[1]):
            held = only[1]  # the one list that an answer of a server holds
        if isinstance(held, dict) and len(held) > 1 and all(isinstance(each, dict) for each in held.values()):
            held = _rows_by_name(held, path.stem)
        if not (held and _are_objects(held)):
            return [read_trainer_state(path)]
        objects = [(each, 1) for each in held]
    else:
        objects = [(_object(line, i, path), i) for i, line in enumerate(text_of(path).split("\n"), 1) if line.strip()]
    for each, line in objects:
        if not isinstance(each, dict):
            raise Unreadable(str(path), line, 1, "expected an object with figures by name, one a line")
    flat = [(dict(_flat(each)), line) for each, line in objects]
    names = _names(list(dict.fromkeys(path for each, _ in flat for path in each)))
    table = [[(name, 1, i) for i, name in enumerate(names.values(), 1)]]
    table += [[(_text(each.get(path)), line, i) for i, path in enumerate(names, 1)] for each, line in flat]
    found = rows_of([table], str(path), columns)
    if any(row["figures"] for row in found):
        return found
    asked = "".join(f". {capitalised(text)}" for text in found[0]["questions"][:1])
    unread = list(dict.fromkeys(name for row in found for name in row["unread"]))
    but = f" (not read: {', '.join(unread[:MANY])})" if unread else ""
    raise Unreadable(str(path), 1, 1, f"no name of its objects is a figure, such as seconds_per_step{but}{asked}")


def _are_objects(held: Any) -> bool:
    return isinstance(held, list) and all(isinstance(each, dict) for each in held)


def _with_named_values(held: Any) -> Any:
    """Return what JSON holds with lists of `key` and `value` as objects, and with MLflow's runs as one object each.

    A list that says one key several times is a history, and stays.
    """
    if isinstance(held, dict):
        each = {name: _with_named_values(value) for name, value in held.items()}
        parts = [each.get(name) for name in OF_MLFLOW]
        return {**parts[0], **parts[1]} if all(isinstance(part, dict) for part in parts) else each
    if not isinstance(held, list):
        return held
    pairs = [each for each in held if isinstance(each, dict) and {"key", "value"} <= each.keys()]
    keys = [str(each["key"]) for each in pairs]
    if held and len(pairs) == len(held) and len({*keys}) == len(keys):
        return dict(zip(keys, (each["value"] for each in pairs), strict=True))
    return [_with_named_values(each) for each in held]


def _object(line: str, line_number: int, path: Path) -> Any:
    try:
        return json.loads(line, parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(path), line_number, 1, f"is no JSON: {str(error).split(':')[0]}") from None


def _rows_by_name(held: Mapping[str, Mapping[str, Any]], file: str) -> list[dict[str, Any]]:
    """Return the objects of an object as rows: a run by each name, or one run at its steps or in parts.

    One in parts is called as its `file`. Runs hold numbers by the same names, or are out of memory. Settings beside
    results, and an evaluation beside training, are parts of one.
    """
    counted = [COUNTED.fullmatch(name) for name in held]
    if all(counted) and len({found["what"].lower() for found in counted if found}) == 1:
        return [
            {found["what"]: found["at"], **each} for found, each in zip(counted, held.values(), strict=True) if found
        ]
    whole = [each for each in held.values() if not OUT_OF_MEMORY.search(str(each))]
    numbers = [{path for path, value in _flat(each) if number(_text(value)) is not None} for each in whole]
    in_parts = any(name.lower() in OF_NO_MEANING or OF_A_PART.fullmatch(name) for name in held)
    if in_parts or not numbers or not set.intersection(*numbers):
        return [{"run": file, **held}]
    return [{"run": name, **each} for name, each in held.items()]


Names = tuple[str, ...]
"""The names that lead to a value."""


def _flat(held: Mapping[str, Any], path: Names = ()) -> Iterator[tuple[Names, Any]]:
    """Yield what an object and those in it hold, each with the path to it."""
    for name, value in held.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value


def _names(paths: Sequence[Names]) -> dict[Names, str]:
    """Return the names of paths, `validation/samples_per_second`.

    Names such as `metrics`, which mean nothing by themselves, are left out where no other path is called so then, and
    before figures: which of two figures of one name counts is asked.
    """
    short = {
        path: "/".join((*(part for part in path[:-1] if part.lower() not in OF_NO_MEANING), path[-1])) for path in paths
    }
    counts = Counter(short.values())
    figures = {name for name in counts if column(bare(name), set()).kind in MEASURED}
    return {path: name if counts[name] == 1 or name in figures else "/".join(path) for path, name in short.items()}


def _text(value: Any) -> str:
    """Return a value as the text of a cell; lists hold no figure."""
    if isinstance(value, list) or value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
