"""The tests marked `gpu`, and the probe: its clock, its cost, and whether it makes the host wait."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
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
    "tests/test_profile_on_device.py",
    "tests/test_ranks.py",
)
"""The files with tests marked `gpu`. A test holds that there are no others."""

TESTS_TIMEOUT = 300.0

RESULT = re.compile(r"^tests/\S+::.* (PASSED|FAILED|SKIPPED|ERROR)\b", re.MULTILINE)
"""What stands in the line of a test that has ended."""


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
    """Run the tests marked `gpu`, and count them by their result. Without a device all are skipped.

    Those that have ended are counted, too, if the time is over before the others have; then a failure stands for these.
    """
    command = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", *FILES]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=TESTS_TIMEOUT
        )
        told, late = done.stdout, 0
    except subprocess.TimeoutExpired as over:
        told, late = over.stdout or b"", 1
    output = told.decode("utf-8", errors="replace")
    counts = counted(output)
    if not any(counts.values()):
        raise RuntimeError(f"pytest ran no test: {output[-1000:]}")
    failed = counts["failed"] + counts.pop("error") + late
    return counts | {"failed": failed, "output": output[-2000:].replace(str(ROOT), ".")}


def counted(output: str) -> dict[str, int]:
    """Return the number of tests by their result, as `pytest -v` prints one line for each."""
    results = Counter(RESULT.findall(output))
    return {name: results[name.upper()] for name in ("passed", "failed", "skipped", "error")}


def _inside(what: str, seconds: float, bench: Bench) -> Figures:
    return run_in_subprocess(f"{INSIDE}:{what}", bench.scale.width, seconds)


def _cost(seconds: float, pairs: int, bench: Bench) -> Figures:
    return run_in_subprocess(f"{INSIDE}:cost", bench.scale.width, seconds, pairs)
