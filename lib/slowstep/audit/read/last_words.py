"""Trainer's last words on a training, as figures: printed by Python or as JSON, or as a list of metrics."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slowstep.audit.figures import figure
from slowstep.audit.read.durations import seconds_of
from slowstep.audit.read.progress_bars import Said
from slowstep.audit.read.trainer_state import FIGURES, refuse_odd


def samples_of(end: dict[str, Any]) -> dict[str, Any]:
    """Return the samples a step. Speeds over the whole time include evaluations and saves, but their ratio does not."""
    try:
        step = figure(end["samples_per_second"]) / figure(end["steps_per_second"])
    except (KeyError, ValueError):
        return {}
    return {"samples_per_step": f"{step.low:.6g} - {step.high:.6g}"} if step.bounded else {}


def steps_of(end: dict[str, Any]) -> float:
    """Return the steps of a training by Trainer's last words."""
    try:
        return figure(end["steps_per_second"]).middle * figure(end["seconds"]).middle
    except (KeyError, ValueError):
        return -math.inf


def counts_as_many(end: dict[str, Any], total: int, of_epoch: bool, off: float) -> bool:
    """Return whether Trainer's last words count as many steps as a bar goes up to, or as several bars of an epoch do.

    They are not said to count others where they say no steps. `off` is the share by which a count may be off.
    """
    try:
        steps = figure(end["steps_per_second"]) * figure(end["seconds"])
    except (KeyError, ValueError):
        return True
    bars = max(1, round(steps.middle / total)) if of_epoch and total else 1
    return steps.low * (1 - off) - 1 <= bars * total <= steps.high * (1 + off) + 1


def last_words(said: Said, path: Path) -> tuple[int, dict[str, Any]]:
    """Return Trainer's last words on a training, over all of its time, as figures, with their place in the log."""
    try:
        held = _block(said.text) if said.text.startswith("*") else ast.literal_eval(_as_python(said.text))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return said.at, {}
    if not isinstance(held, dict):  # a set of names, as a warning prints it
        return said.at, {}
    for name in FIGURES.keys() & held.keys():
        before = said.text[: max(0, said.text.find(name) - 1)]
        line, column = said.line + before.count("\n"), len(before) - before.rfind("\n")
        refuse_odd(name, held[name], path, (line, column if "\n" in before else said.column + len(before)))
    return said.at, {ours: str(held[name]) for name, ours in FIGURES.items() if name in held}


def told_once(ends: Sequence[tuple[int, dict[str, Any]]], bars: Sequence[int]) -> list[tuple[int, dict[str, Any]]]:
    """Return Trainer's last words without those that say the same again, as a script that prints what `train` returns.

    They are others if a bar begins between them; `bars` are the places where bars begin.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    for at, figures in ends:
        before, last = found[-1] if found else (at, {})
        said = [(figure(last[name]), figure(figures[name])) for name in last.keys() & figures.keys()]
        same = "seconds" in last.keys() & figures.keys() and all(a.meets(b) or a == b for a, b in said)
        if same and not any(before < bar < at for bar in bars):
            exacter = {name: max(last[name], figures[name], key=len) for name in last.keys() & figures.keys()}
            found[-1] = (before, figures | last | exacter)
        else:
            found.append((at, figures))
    return found


def _as_python(text: str) -> str:
    """Return a dictionary that Python or JSON wrote, with its words and numpy's numbers as Python's literals."""
    text = re.sub(r"\bnp\.\w+\(([^()]*)\)", r"\1", text)
    text = re.sub(
        r"(?<=: )(-?(?:nan|inf|infinity))\b", r"'\1'", text, flags=re.IGNORECASE
    )  # as of a loss that diverged
    words = {"null": "None", "true": "True", "false": "False"}
    return re.sub(r"(?<=: )(null|true|false)\b", lambda found: words[found[1]], text)


def _block(text: str) -> dict[str, Any]:
    """Return the names and values of Trainer's metrics, `train_runtime = 0:20:34.56`, with times in seconds."""
    pairs = (line.split("=", 1) for line in text.splitlines()[1:])
    return {name.strip(): (seconds_of(value.strip()) or (value.strip(), ""))[0].split(" ±")[0] for name, value in pairs}
