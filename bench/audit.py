"""`slowstep audit`: seconds until the first claim stands on the terminal, and logs of 50 MB: seconds and memory."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

STARTS = 7
SIZE = 50 * 2**20
STEPS = 200_000

READ = """
import json, resource, sys, time
from pathlib import Path
from slowstep.audit.read import read_file
began = time.perf_counter()
rows = read_file(Path(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - began, used.ru_utime, used.ru_maxrss / 1024, rows[0]["figures"]]))
"""


def measure() -> dict[str, object]:
    """Medians of several runs, a process each; with the user time, as the machine may be shared."""
    first = [_first_claim("params/case_000.yaml") for _ in range(STARTS)]
    figures: dict[str, object] = {
        f"case_000, until the first claim, s (median of {STARTS})": _median(seconds for seconds, _ in first),
        "case_000, slowest, s": round(max(seconds for seconds, _ in first), 2),
        "case_000, user time until then, s (median)": _median(user for _, user in first),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("lines", _lines), ("carriage returns, no line end", _returns)):
            path = Path(folder) / "train.log"
            write(path)
            read = [_read(path) for _ in range(3)]
            told = [_first_claim(str(path)) for _ in range(3)]
            figures |= {
                f"log of {path.stat().st_size / 2**20:.0f} MB, {name}, read, s (median of 3)": _median(
                    r[0] for r in read
                ),
                f"{name}: user time with the start, s (median)": _median(r[1] for r in read),
                f"{name}: peak memory, MB (most)": round(max(r[2] for r in read)),
                f"{name}: until the audit tells, s (median of 3)": _median(seconds for seconds, _ in told),
                f"{name}: figures": read[0][3],
            }
    return figures


def _median(values: Iterator[float]) -> float:
    return round(statistics.median(values), 2)


def _first_claim(path: str) -> tuple[float, float]:
    """Seconds, and user seconds, until `slowstep audit` has printed its first line; what it would do then is ended."""
    with tempfile.TemporaryDirectory() as outputs:
        began = time.perf_counter()
        command = [sys.executable, "-m", "slowstep.cli", "audit", path, "--outputs", outputs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - began
            user = psutil.Process(process.pid).cpu_times().user
            os.killpg(process.pid, signal.SIGKILL)
    if not line:
        raise RuntimeError(f"the audit of {path} told nothing")
    return seconds, user


def _read(path: Path) -> tuple[float, float, float, dict[str, object]]:
    """Seconds, user seconds and MB of a process that reads a log, and the figures in it."""
    found = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    return tuple(json.loads(found.stdout))


def _bar(step: int) -> str:
    pace = 2.13 + 0.04 * ((step * 7919) % 11 - 5) / 5
    done = 100 * step // STEPS
    clock = f"{step * 2 // 60}:{step * 2 % 60:02}<9:59:59"
    return f"{done:3}%|{'█' * (done // 10):<10}| {step}/{STEPS} [{clock},  {pace:.2f}s/it]"


def _write(path: Path, text: Callable[[int], str]) -> None:
    """Write what is logged at each step, over and over, until the file is large enough."""
    with path.open("w", encoding="utf-8", newline="") as log:
        written = step = 0
        while written < SIZE:
            step = min(step + 1, STEPS)
            written += log.write(text(step)) * 11 // 10  # a block character has three bytes
    with path.open("ab") as log:
        log.truncate(SIZE)


def _lines(path: Path) -> None:
    """A bar a line, and every ten steps what Trainer logs."""
    said = "{'loss': 1.2345, 'grad_norm': 0.98765, 'learning_rate': 1.9e-05, 'epoch': %.2f}\n"
    _write(path, lambda step: _bar(step) + "\n" + (said % (step / 1000) if step % 10 == 0 else ""))


def _returns(path: Path) -> None:
    """Bars drawn over each other: one line of 50 MB."""
    _write(path, lambda step: "\r" + _bar(step))
