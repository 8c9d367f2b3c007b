"""`make diagnose` on quick.yaml as a whole: times, memory, and the share of wall time spent in measured blocks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from slowstep.processes.tree import host_memory
from slowstep.report.read_overview import overview

OUTPUTS = Path("outputs/bench")

LOOKS = 15.0
"""Seconds between two looks at the memory. A look takes a tenth of a second, in which pages of a trial must wait."""


def measure() -> dict[str, object]:
    """Run it from nothing and watch it; its reports stay in outputs/bench."""
    shutil.rmtree(OUTPUTS, ignore_errors=True)
    command = [sys.executable, "-m", "slowstep.cli", "diagnose", "params/quick.yaml", "--outputs", str(OUTPUTS)]
    began, first, peak, looked = time.time(), None, 0, 0.0
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while run.poll() is None:
        time.sleep(1)
        if time.time() - looked > LOOKS:
            peak, looked = max(peak, host_memory(run.pid)), time.time()
        if first is None and list(OUTPUTS.glob("quick/*.html")):
            first = time.time() - began
    whole = time.time() - began
    found = overview(OUTPUTS / "quick")
    return {
        "first report after, s": round(first or 0),
        "all after, s": round(whole),
        "peak memory, GiB": round(peak / 2**30, 2),
        "in measured blocks": f"{found.measured_seconds / whole:.0%}",
        "reports, s": {run.notebook: round(run.seconds) for run in found.runs},
        "exit status": run.returncode,
    }
