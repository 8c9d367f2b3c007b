"""One real `slowstep diagnose` on the smoke file, killed in the middle and started again; many tests look at it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from family import descendants, living, words

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 180.0


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """What was seen of the kill, and where the finished run lies."""

    outputs: Path
    family: list[int]
    survivors: list[str]
    kept: dict[Path, tuple[str, int]]
    """Comparison records at the kill: content and time of change."""
    status: int


def run_interrupted(outputs: Path) -> Interrupted:
    """Diagnose, SIGKILL the run once two comparisons are finished, and diagnose again to the end."""
    command = [sys.executable, "-m", "slowstep.cli", "diagnose", "params/smoke.yaml", "--outputs", str(outputs)]
    comparisons = outputs / "smoke" / "records" / "comparisons"
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait(lambda: len(list(comparisons.glob("[0-9a-f]*.json"))) >= 2)
    family: list[psutil.Process] = []
    while len(family) < 4 and run.poll() is None:  # trials live only now and then
        family = descendants(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    _wait(lambda: not living(family), 30.0)
    kept = {p: (p.read_text(), p.stat().st_mtime_ns) for p in comparisons.glob("[0-9a-f]*.json")}
    survivors = [command[:120] for process in living(family) if (command := words(process))]
    return Interrupted(
        outputs=outputs,
        family=[p.pid for p in family],
        survivors=survivors,
        kept=kept,
        status=subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode,
    )


def _wait(condition: object, patience: float = PATIENCE) -> bool:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False
