"""Console logs of Trainer and tqdm."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path
from typing import Any

from slowstep.audit.figures import figure
from slowstep.audit.read.units import Unreadable

BAR = re.compile(r"(\d+)/(\d+) \[(?:\d+:)?\d+:\d+<[^,\]]*,\s*(\d+(?:\.\d+)?)\s*(s/it|it/s)[,\]]")
"""A bar of tqdm: 120/2000 [04:15<1:06:41, 2.13s/it]."""

ENDS = re.compile(r"\{[^{}]*'train_runtime'[^{}]*\}")
"""What Trainer prints when training ends."""

NAMES = {
    "train_runtime": "seconds",
    "train_samples_per_second": "samples_per_second",
    "train_steps_per_second": "steps_per_second",
}

SETTLED = 0.5
"""Of the bars only the later half counts: the first ones hold the start."""


def read_log(path: Path) -> dict[str, Any]:
    """One row: the median speed of the later bars, or what Trainer said at the end where there are none.

    Where there are both, the end tells how many samples make a step.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error}") from None
    bars, end = _from_bars(text), _from_the_end(text)
    figures = bars | _samples(end) if bars else end
    if not figures:
        lines = text.count("\n") + 1
        raise Unreadable(str(path), lines, 1, "holds no bar of tqdm and no train_runtime, so it says no speed")
    return {"label": path.stem, "figures": figures, "place": str(path)}


def _from_bars(text: str) -> dict[str, Any]:
    """The speed of the steps themselves: start, evaluations and saves are in the time of the whole, not in it."""
    bars = [m for line in re.split(r"[\r\n]", text) for m in BAR.finditer(line)]
    longest = max((int(m[2]) for m in bars), default=0)  # an evaluation has a bar of its own, over fewer batches
    own = [m for m in bars if int(m[2]) == longest and float(m[3]) > 0]
    if not own:
        return {}
    later = own[int(SETTLED * len(own)) :]
    seconds = [float(m[3]) if m[4] == "s/it" else 1 / float(m[3]) for m in later]
    return {"seconds_per_step": f"{statistics.median(seconds):.3g}", "steps": longest}


def _samples(end: dict[str, Any]) -> dict[str, Any]:
    """Samples a step and the whole time: speeds over all of it hold evaluations and saves too, their ratio does not."""
    try:
        step = figure(end["samples_per_second"]) / figure(end["steps_per_second"])
    except (KeyError, ValueError, ZeroDivisionError):
        return {}
    return {"samples_per_step": f"{step.low:.6g} - {step.high:.6g}", "seconds": end["seconds"]} if step.low > 0 else {}


def _from_the_end(text: str) -> dict[str, Any]:
    """What Trainer said when training ended, over all of its time."""
    figures: dict[str, Any] = {}
    for found in ENDS.finditer(text):
        try:
            said = ast.literal_eval(found[0])
        except (ValueError, SyntaxError, RecursionError):
            continue
        if isinstance(said, dict):
            figures |= {ours: str(said[name]) for name, ours in NAMES.items() if name in said}
    return figures
