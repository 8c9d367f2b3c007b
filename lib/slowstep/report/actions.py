"""What to do after an investigation: each adopted change as it is written in the code or in the parameter file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slowstep.factors import Meaning
from slowstep.judgement.verdict import Verdict, span

KINDS = {
    Meaning.EXACT: "training stays the same",
    Meaning.NUMERICS: "other rounding: compare the loss",
    Meaning.SEMANTICS: "other training",
    Meaning.DIAGNOSTIC: "a limit, nothing to train with",
}
"""The classes of changes in words that need no explanation."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """Something to do."""

    what: str
    """The place in the code with the new value, or the key of the parameter file with it."""
    gain: str
    """What it brings by itself, with its interval; empty if that was not shown."""
    kind: str
    """What it does to training."""


def actions(adopted: Verdict | None, parts: Sequence[Verdict], now: Mapping[str, object]) -> list[Action]:
    """Return what to do, the largest gain first, and last what is adopted without having been shown by itself.

    Args:
        adopted: All that is adopted; None for nothing.
        parts: The changes of it that were shown by themselves.
        now: The run's own values of the settings that they change.
    """
    found = [_action(v, now) for v in parts]
    rest = _rest(adopted, parts)
    kind = "not shown to pay by itself; part of what was measured together"
    return found + [Action(what=rest, gain="", kind=kind)] * bool(rest)


def within(whole: Verdict, part: Verdict) -> Verdict:
    """Return a change that is part of a whole, with the values that the whole has.

    What a part was measured beside, or kept as it was, may be otherwise in the whole.
    """

    def as_adopted(values: Mapping[str, object]) -> dict[str, object]:
        given = whole.overrides
        return {key: value for key, value in values.items() if key not in given or given[key] == value}

    return replace(
        part,
        overrides=as_adopted(part.overrides),
        held_constant=as_adopted(part.held_constant),
        lines=_lines_within(whole.lines, part.lines),
    )


def _action(v: Verdict, now: Mapping[str, object]) -> Action:
    before = v.replaces or [_plain(now[key]) for key in v.overrides if key in now and not v.lines]
    was = f"now {', '.join(before)}; " if before else ""
    return Action(what=what(v), gain=span(v.effect), kind=f"{_tried_as(v)}{was}{KINDS[v.meaning]}")


def _tried_as(v: Verdict) -> str:
    """Return the name that a change of other keys has everywhere else, as a clause; empty if it has its own keys'."""
    keys = {key.rpartition(".")[2] for key in v.overrides}
    named = {level.partition("=")[0] for level in v.name.split(" + ")}
    return "" if v.lines or not keys or named & keys else f"tried as {v.name}; "


def _rest(adopted: Verdict | None, parts: Sequence[Verdict]) -> str:
    """Return what is adopted beside the parts that were shown by themselves, as it is written; empty if nothing is."""
    known = {key for v in parts for key in v.overrides | v.held_constant}
    rest = {key: value for key, value in (adopted.overrides if adopted else {}).items() if key not in known}
    if not rest:
        return ""
    shown = {piece for v in parts for piece in _pieces(v.lines)}
    places: dict[str, list[str]] = {}
    for place, said in _pieces(adopted.lines):
        if (place, said) not in shown:
            places.setdefault(place, []).append(said)
    return "; ".join(f"{place}: {', '.join(said)}" for place, said in places.items()) or _keys(rest)


def _lines_within(whole: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return lines of a part without the arguments that have other values in the lines of the whole."""
    pieces = _pieces(whole)
    given = {(place, said.partition("=")[0]) for place, said in pieces}
    found = []
    for line in lines:
        here = _pieces([line])
        kept = [(at, said) for at, said in here if (at, said) in pieces or (at, said.partition("=")[0]) not in given]
        if kept:
            found.append(line if kept == here else f"{kept[0][0]}: {', '.join(said for _, said in kept)}")
    return found


def _pieces(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return each argument of lines like `train.py:8 DataLoader(…): num_workers=4, pin_memory=True` with its place."""
    parted = [line.partition(": ") for line in lines]
    return [(place, said) for place, _, all_said in parted for said in all_said.split(", ")]


def what(v: Verdict) -> str:
    """Return a change as it is written: a place in the code with its new value, or keys of the parameter file."""
    if v.lines:
        return "; ".join(v.lines)
    return _keys(v.overrides | v.held_constant) or v.name


def _keys(overrides: Mapping[str, object]) -> str:
    return "; ".join(f"{key}: {_plain(value)}" for key, value in overrides.items())


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
