"""The tests marked `gpu`, and the probe: its clock, its cost, and whether it makes the host wait."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

from bench.gpu.part import Bench, Cell, Figures, Goal, Part
from bench.gpu.scale import Scale
from slowstep.environment.home import ROOT
from slowstep.launch.run_in_subprocess import run_in_subprocess

INSIDE = "bench.gpu.inside"
FILES = (
    "tests/test_workload.py",
    "tests/test_probe.py",
    "tests/test_frozen_base.py",
    "tests/test_weights_on_device.py",
    "tests/test_profile.py",
    "tests/test_ranks.py",
)
"""The files with tests marked `gpu`. A test holds that there are no others."""

TESTS_TIMEOUT = 300.0


def parts(scale: Scale) -> list[Part]:
    """Return the parts of the tests and of the probe."""
    short, _ = scale.step_seconds
    costs = {
        f"cost, {1e3 * seconds:g} ms": (seconds, pairs)
        for seconds, pairs in zip(scale.step_seconds, scale.probe_pairs, strict=True)
    }
    return [
        Part(
            name="tests",
            title="the tests marked gpu",
            cells=[Cell(name="tests", measure=gpu_tests, minutes=3.0)],
            goals=[
                Goal(
                    asked="tests that failed or were skipped",
                    wanted="0",
                    value=lambda cells: cells["tests"]["failed"] + cells["tests"]["skipped"],
                    holds=lambda count: count == 0,
                )
            ],
        ),
        Part(
            name="probe",
            title="the probe: events against the host's clock, phases, cost, hidden synchronisation",
            cells=[
                Cell(name="clock", measure=partial(_inside, "clock", short), minutes=0.5),
                Cell(name="synchronisations", measure=partial(_inside, "synchronisations", short), minutes=0.5),
                *(Cell(name=name, measure=partial(_cost, *asked), minutes=1.2) for name, asked in costs.items()),
            ],
            goals=[
                Goal(
                    asked="events against the host's clock",
                    wanted="within 1 %",
                    value=lambda cells: cells["clock"]["off"],
                    holds=lambda off: abs(off) <= 0.01,
                ),
                Goal(
                    asked="phases sum to the block",
                    wanted="within 0.1 %",
                    value=lambda cells: cells["clock"]["sum_off"],
                    holds=lambda off: abs(off) <= 0.001,
                ),
                *(
                    Goal(
                        asked=f"{name}: upper end of its interval",
                        wanted="below 1 %",
                        value=lambda cells, name=name: cells[name]["high"],
                        holds=lambda high: high < 0.01,
                    )
                    for name in costs
                ),
                Goal(
                    asked="waits of the host that the probe adds",
                    wanted="0",
                    value=lambda cells: cells["synchronisations"]["probed"] - cells["synchronisations"]["bare"],
                    holds=lambda added: added == 0,
                ),
            ],
        ),
    ]


def gpu_tests(bench: Bench) -> Figures:
    """Run the tests marked `gpu`, and count them by their result. Without a device all are skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TESTS_TIMEOUT)
    output = done.stdout + done.stderr
    counts = {name: _count(output, name) for name in ("passed", "failed", "skipped", "error")}
    if not any(counts.values()):
        raise RuntimeError(f"pytest ran no test: {output[-1000:]}")
    return counts | {"failed": counts["failed"] + counts["error"], "output": output[-2000:].replace(str(ROOT), ".")}


def _count(output: str, name: str) -> int:
    found = re.search(rf"(\d+) {name}s?\b", output.strip().splitlines()[-1])
    return int(found[1]) if found else 0


def _inside(what: str, seconds: float, bench: Bench) -> Figures:
    return run_in_subprocess(f"{INSIDE}:{what}", bench.scale.width, seconds)


def _cost(seconds: float, pairs: int, bench: Bench) -> Figures:
    return run_in_subprocess(f"{INSIDE}:cost", bench.scale.width, seconds, pairs)
