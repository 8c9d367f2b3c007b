"""Starting a trial: from the request to the first step ready, with the model's building named apart."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from slowstep.factors import Arm
from slowstep.launch.trial_process import TrialProcess
from slowstep.settings import load

TRIALS = 8


def measure() -> dict[str, object]:
    """Seconds of the first start (which imports everything) and of those after it."""
    settings = load("params/quick.yaml").settings
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TRIALS):
            process = TrialProcess(
                Arm(label="bench", settings=settings), Path(folder) / "log", settings.budget, Path(folder) / "cache"
            )
            starts.append(process.ask(None, 120).startup)
            process.end()
    apart = [sum(s.values()) - s["model"] - (s["imports"] if i else 0.0) for i, s in enumerate(starts)]
    later = starts[1:]
    return {
        "first, with imports, s": round(apart[0], 2),
        "after the first, model apart, s (median of 7)": round(statistics.median(apart[1:]), 3),
        "after the first, slowest, s": round(max(apart[1:]), 3),
        "parts of the median, s": {k: round(statistics.median(s[k] for s in later), 3) for k in later[0]},
    }
