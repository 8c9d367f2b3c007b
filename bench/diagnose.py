"""`make diagnose` on quick.yaml as a whole: times, memory, and the share of wall time spent in measured blocks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from slowstep.investigation.results import NotebookRun
from slowstep.processes.tree import host_memory
from slowstep.records import Store

OUTPUTS = Path("outputs/bench")


def measure() -> dict[str, object]:
    """Run it from nothing and watch it; its reports stay in outputs/bench."""
    shutil.rmtree(OUTPUTS, ignore_errors=True)
    command = [sys.executable, "-m", "slowstep.cli", "diagnose", "params/quick.yaml", "--outputs", str(OUTPUTS)]
    began, first, peak = time.time(), None, 0
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while run.poll() is None:
        time.sleep(2)
        peak = max(peak, host_memory(run.pid))
        if first is None and list(OUTPUTS.glob("quick/*.html")):
            first = time.time() - began
    whole = time.time() - began
    store = Store(OUTPUTS / "quick" / "records")
    runs = [store.read(NotebookRun, "notebooks", p.stem) for p in sorted(OUTPUTS.glob("quick/*.html"))]
    measured = sum(r.measured_seconds for r in runs)
    return {
        "first report after, s": round(first or 0),
        "all after, s": round(whole),
        "peak memory, GiB": round(peak / 2**30, 2),
        "in measured blocks": f"{measured / whole:.0%}",
        "by notebook, s (of which measured)": {r.notebook: f"{r.seconds:.0f} ({r.measured_seconds:.0f})" for r in runs},
        "exit status": run.returncode,
    }
