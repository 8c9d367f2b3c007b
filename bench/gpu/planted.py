"""Causes planted on a device, and healthy runs: each is diagnosed blind, and held against its size without the kit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, Part
from bench.gpu.scale import Scale
from bench.gpu.trials import investigated, with_minutes
from bench.validation.agreement import agree
from bench.validation.truth import Truth
from slowstep.launch.run_in_subprocess import run_in_subprocess
from slowstep.settings import Settings, override
from slowstep.settings.load import validate

FILE = Path(__file__).with_suffix(".yaml")
TRUTH = ("expect", "follows", "cure")
"""Keys that the kit never sees."""

SCALES = ("real", "dry")
LEAST_NAMED = 7
"""The fewest causes to be named, of eight."""

TRUTH_TIMEOUT = 120.0
NOTHING = "nothing"
DIAGNOSED = "diagnosed"
SIZE = "size"


def parts(scale: Scale) -> list[Part]:
    """Return the parts: two causes each, and the healthy runs."""
    known = scenarios(scale)
    causes, runs = (list(known[kind])[: scale.of_a_kind] for kind in ("planted", "healthy"))
    planted = {f"planted-{1 + i // 2}": causes[i : i + 2] for i in range(0, len(causes), 2)}
    healthy = {"healthy": runs}
    goals = [
        Goal(
            asked=f"causes named first, with a size that agrees, of {len(causes)}",
            wanted=f"at least {LEAST_NAMED}",
            value=partial(_right, causes),
            holds=lambda count: count >= LEAST_NAMED,
        ),
    ]
    left_alone = Goal(
        asked=f"healthy runs left alone, of {len(runs)}",
        wanted="all",
        value=partial(_right, runs),
        holds=lambda count: count == len(runs),
    )
    return [
        Part(
            name=name,
            title=", ".join(cause.replace("_", " ") for cause in held),
            cells=[cell for cause in held for cell in _cells(cause, known, scale)],
            goals=[left_alone] if name == "healthy" else goals,
            room=() if name == "healthy" else tuple(planted),
        )
        for name, held in (planted | healthy).items()
    ]


def scenarios(scale: Scale) -> dict[str, dict[str, dict[str, Any]]]:
    """Return `planted` and `healthy`, by name, with the sizes of this scale."""
    given = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    base = given.pop("base")
    return {
        kind: {name: _merged(_sized(base, scale), _sized(own, scale)) for name, own in cases.items()}
        for kind, cases in given.items()
    }


def settings_of_scenario(name: str, data: dict[str, Any], scale: Scale) -> Settings:
    """Return the settings of a scenario, without a word of the truth."""
    shown = {"name": name} | {key: value for key, value in data.items() if key not in TRUTH}
    shown["budget"] = {"block_seconds": scale.block_seconds / 4, "minimum_effect": 0.05} | scale.budget
    return with_minutes(validate(shown, name), scale.short_minutes)


def expected(data: dict[str, Any]) -> str:
    """Return what must stand first: a factor, `unexplained: phase`, or nothing."""
    expect = data.get("expect", NOTHING)
    return f"unexplained: {expect['unexplained']}" if isinstance(expect, dict) else expect


def _sized(data: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """Return a scenario with what stands under this scale's name merged in, and the other scale's left out."""
    rest = {key: value for key, value in data.items() if key not in SCALES}
    if set(cure := rest.get("cure", {})) & set(SCALES):
        rest["cure"] = cure[scale.name]
    return _merged(rest, data.get(scale.name, {}))


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    replaced = {"config", "cure"}  # another architecture has other keys, and a cure is a whole
    both = {
        key: _merged(base[key], own[key])
        for key in base.keys() & own.keys() - replaced
        if isinstance(own[key], dict) and isinstance(base[key], dict)
    }
    return base | own | both


def _cells(name: str, known: dict[str, dict[str, dict[str, Any]]], scale: Scale) -> list[Cell]:
    data = known["planted"].get(name) or known["healthy"][name]
    cells = [Cell(name=f"{name}, {DIAGNOSED}", measure=partial(_diagnosed, name, data), minutes=2.75)]
    if "cure" in data:
        cells.append(Cell(name=f"{name}, {SIZE}", measure=partial(_size, name, data), minutes=1.2))
    return cells


def _diagnosed(name: str, data: dict[str, Any], bench: Bench) -> Figures:
    found = investigated(settings_of_scenario(name, data, bench.scale), bench)
    first = found["causes"][0]["name"] if found["causes"] else NOTHING
    return {"first": first, "expected": expected(data), "follows": data.get("follows", []), **found}


def _size(name: str, data: dict[str, Any], bench: Bench) -> Figures:
    """Train with the cause and without it, by turns, without the kit."""
    settings = settings_of_scenario(name, data, bench.scale)
    arms = (settings, override(settings, data["cure"]))
    target = "bench.gpu.alone:train"
    run = partial(run_in_subprocess, target, timeout=TRUTH_TIMEOUT)
    return gains_of(bench.scale.turns, *(partial(run, arm, *bench.scale.truth_steps) for arm in arms))


def gains_of(turns: int, before: Callable[[], float], after: Callable[[], float]) -> Figures:
    """Return what the second of two runs brings over the first, trained by so many turns for its samples a second."""
    paces: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            paces[i].append((before, after)[i]())
    gains = [faster / slower for slower, faster in zip(*paces, strict=True)]
    return {
        "ratio": math.prod(gains) ** (1 / len(gains)),
        "low": min(gains),
        "high": max(gains),
        "pairs": turns,
        "samples_per_second": paces,
    }


def _right(names: list[str], cells: Cells) -> int:
    """Return how many of these are right: named first with a size that agrees, or nothing where there is nothing."""
    return sum(_is_right(name, cells) for name in names)


def _is_right(name: str, cells: Cells) -> bool:
    found = cells[f"{name}, {DIAGNOSED}"]
    if said_first(found) != found["expected"]:
        return False
    return found["expected"] == NOTHING or size_agrees(found, cells[f"{name}, {SIZE}"])


def said_first(found: Figures) -> str | None:
    """Return what is named first; None where a section failed or nothing was decided, so that it says nothing."""
    return found["first"] if found["decided"] and not found["failed"] else None


def size_agrees(found: Figures, size: Figures) -> bool:
    """Return whether the first cause is told with the size that `gains_of` has found."""
    first = found["causes"][0]
    truth = Truth(**{name: size[name] for name in ("ratio", "low", "high", "pairs")})
    return agree((first["ratio"], first["low"], first["high"]), truth)
