"""What Trainer says of a training: in `trainer_state.json`, and in its last words (Python, JSON, a list of metrics)."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slowstep.audit.figures import figure
from slowstep.audit.read.progress_bars import Said
from slowstep.audit.read.source_text import Unreadable, text_of
from slowstep.audit.read.unit_grammar import seconds_of

FIGURES = {
    "train_samples_per_second": "samples_per_second",
    "train_steps_per_second": "steps_per_second",
    "train_runtime": "seconds",
}
"""Trainer's names for the figures that it logs when training ends, with ours. Its speed is only there."""


HISTORY = "log_history"
"""The name of the list of what Trainer logged."""


def read_trainer_state(path: Path) -> dict[str, Any]:
    """Return one row: steps, epochs and, where training came to its end, time and speeds; Unreadable without a speed.

    Trainer computes speeds as if all planned steps were taken. So if a training stopped early, only its time counts.
    """
    text = text_of(path)
    state = _state(text, path)
    counts = (("steps", "global_step"), ("epochs", "epoch"))
    figures = {ours: state[theirs] for ours, theirs in counts if _number(state.get(theirs))}
    for entry in (each for each in state[HISTORY] if isinstance(each, dict)):
        said = {name: entry[name] for name in FIGURES if name in entry}
        for name, value in said.items():
            at = max(0, text.rfind(f'"{name}"'))
            refuse_odd(name, value, path, (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)))
        figures |= {FIGURES[name]: value for name, value in said.items() if _number(value)}
    if _number(state.get("max_steps")) and figures.get("steps", 0) < state["max_steps"]:
        figures = {name: value for name, value in figures.items() if not name.endswith("_per_second")}
    if not FIGURES.values() & figures.keys():
        why = (
            "holds no speed: training had not ended (no train_runtime in its log_history). Trainer writes one with it "
            "in the output folder, if asked (trainer.save_state()); a console log of the run has speeds, too"
        )
        raise Unreadable(str(path), 1, 1, why)
    # its train_batch_size is that of one process, and it does not say how many processes or parts there were
    return {"label": path.parent.name or path.stem, "figures": figures, "place": str(path)}


def _state(text: str, path: Path) -> dict[str, Any]:
    """Return a trainer state, or what a script saves at its end (`save_metrics`) as one; Unreadable for other texts."""
    try:
        state = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(str(path), error.lineno, error.colno, f"is no JSON: {error.msg}") from None
    except ValueError as error:
        raise Unreadable(str(path), 1, 1, f"holds a number that no run has: {str(error).split(';')[0]}") from None
    except RecursionError:
        raise Unreadable(str(path), 1, 1, "is nested too deeply") from None
    if isinstance(state, dict) and HISTORY not in state and FIGURES.keys() & state.keys():
        return {"epoch": state.get("epoch"), HISTORY: [state]}
    if isinstance(state, dict) and isinstance(state.get(HISTORY), list):
        return state
    why = "is no trainer state: it has no log_history, and no figure of Trainer such as train_runtime"
    raise Unreadable(str(path), 1, 1, why)


def refuse_odd(name: str, value: Any, path: Path, place: tuple[int, int]) -> None:
    """Raise Unreadable, with line and column, if a figure of Trainer is no number or negative; 0.0 may be rounded."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise Unreadable(str(path), *place, f"{name}: expected a number, 0 or more, found {value!r}")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value and value > 0


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
