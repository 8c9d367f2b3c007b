"""Reading of `trainer_state.json`, which Trainer writes beside each checkpoint."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from slowstep.audit.read.source_text import Unreadable, text_of

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
    try:
        state = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(str(path), error.lineno, error.colno, f"is no JSON: {error.msg}") from None
    except ValueError as error:
        raise Unreadable(str(path), 1, 1, f"holds a number that no run has: {str(error).split(';')[0]}") from None
    except RecursionError:
        raise Unreadable(str(path), 1, 1, "is nested too deeply") from None
    if isinstance(state, dict) and HISTORY not in state and FIGURES.keys() & state.keys():
        state = {"epoch": state.get("epoch"), HISTORY: [state]}  # what a script saves at its end (`save_metrics`)
    if not isinstance(state, dict) or not isinstance(state.get(HISTORY), list):
        why = "is no trainer state: it has no log_history, and no figure of Trainer such as train_runtime"
        raise Unreadable(str(path), 1, 1, why)
    figures: dict[str, Any] = {}
    for ours, theirs in (("steps", "global_step"), ("epochs", "epoch")):
        if _number(state.get(theirs)):
            figures[ours] = state[theirs]
    for entry in state[HISTORY]:
        if isinstance(entry, dict):
            said = {name: entry[name] for name in FIGURES if name in entry}
            for name, value in said.items():
                at = max(0, text.rfind(f'"{name}"'))
                refuse_odd(name, value, path, (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)))
            figures |= {FIGURES[name]: value for name, value in said.items() if _number(value)}
    if _number(state.get("max_steps")) and figures.get("steps", 0) < state["max_steps"]:
        figures = {name: value for name, value in figures.items() if not name.endswith("_per_second")}
    if not FIGURES.values() & figures.keys():
        raise Unreadable(
            str(path),
            1,
            1,
            "holds no speed: training had not ended (no train_runtime in its log_history). Trainer writes one with it "
            "in the output folder, if asked (trainer.save_state()); a console log of the run has speeds, too",
        )
    # its train_batch_size is that of one process, and it does not say how many processes or parts there were
    return {"label": path.parent.name or path.stem, "figures": figures, "place": str(path)}


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
