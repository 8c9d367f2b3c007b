"""`make diagnose` on quick.yaml as a whole: times, memory, and the share of wall time spent in measured blocks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slowstep.records import Store
from slowstep.summary import NotebookRun
from slowstep.trials.process import host_memory


def measure() -> dict[str, object]:
    """Run it in an empty folder and watch it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "slowstep.cli", "diagnose", "params/quick.yaml", "--outputs", folder]
        began, first, peak = time.time(), None, 0
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while run.poll() is None:
            time.sleep(2)
            peak = max(peak, host_memory(run.pid))
            if first is None and list(Path(folder).glob("quick/*.html")):
                first = time.time() - began
        whole = time.time() - began
        store = Store(Path(folder) / "quick" / "records")
        runs = [store.read(NotebookRun, "notebooks", p.stem) for p in sorted(Path(folder).glob("quick/*.html"))]
    measured = sum(r.measured_seconds for r in runs)
    return {
        "first report after, s": round(first or 0),
        "all after, s": round(whole),
        "peak memory, GiB": round(peak / 2**30, 2),
        "in measured blocks": f"{measured / whole:.0%}",
        "by notebook, s (of which measured)": {r.notebook: f"{r.seconds:.0f} ({r.measured_seconds:.0f})" for r in runs},
        "exit status": run.returncode,
    }
