"""What the driver tells of each block: power, clock, throttling, temperature, others; and energy a useful token.

A second process keeps the device busy (without a device: the cores) during the second cell, so that blocks are marked
and measured again. Heat can't be planted: if the clock is held down, the cells show it, and nothing here causes it.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench.gpu.part import Bench, Cell, Figures, Goal, Part
from bench.gpu.runs import LANGUAGE, settings_of_run
from bench.gpu.trials import arm_of, compared_figures, measurer_of
from slowstep.environment.home import ROOT
from slowstep.judgement.stopping import StopRule
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import Pair

BUSY_SECONDS = 240.0
"""The most seconds that the second process works; it is ended before."""

TOLD = ("watts", "sm_mhz", "celsius")


def parts() -> list[Part]:
    """Return the part."""
    return [
        Part(
            name="telemetry",
            title="power, clock, throttling, temperature and others in each block; energy a useful token",
            cells=[
                Cell(name="alone", measure=lambda bench: _measured(bench, shared=False), minutes=1.5),
                Cell(name="shared", measure=lambda bench: _measured(bench, shared=True), minutes=3.0),
            ],
            goals=[
                Goal(
                    asked="blocks with power, clock and temperature",
                    wanted="all",
                    value=lambda cells: cells["alone"]["told"],
                    holds=lambda share: share == 1,
                ),
                Goal(
                    asked="joules a useful token, median block alone",
                    wanted="a figure",
                    value=lambda cells: cells["alone"]["joules_a_token"],
                    holds=lambda joules: joules > 0,
                ),
                Goal(
                    asked="pairs measured again beside a second process",
                    wanted="1 or more",
                    value=lambda cells: len(cells["shared"]["redone"]),
                    holds=lambda count: count >= 1,
                ),
            ],
        )
    ]


def _measured(bench: Bench, shared: bool) -> Figures:
    """Compare a run with itself; from the first pair on beside a second process, if it is `shared`."""
    settings = settings_of_run(LANGUAGE, bench)
    arm, stop = arm_of(settings, LANGUAGE), StopRule(max_pairs=bench.scale.pairs)
    with contextlib.ExitStack() as other, measurer_of(settings, bench, "telemetry") as measurer:

        def tell(pairs: Sequence[Pair]) -> None:
            if shared and len(pairs) == 1:
                command = [sys.executable, "-m", "bench.gpu.busy", str(BUSY_SECONDS)]
                process = subprocess.Popen(command, cwd=ROOT)
                other.callback(process.wait)
                other.callback(process.kill)

        request = ComparisonRequest(baseline=arm, treatment=arm, stop=stop, twin=True, purpose=f"shared {shared}")
        found = compared_figures(measurer.compare(request, tell))
    blocks = [t or {} for t in found.get("telemetry", [])]
    rows = list(zip(blocks, found.get("block_lengths", []), found.get("useful_tokens", []), strict=True))
    joules = [t["watts"] * seconds / tokens for t, seconds, tokens in rows if t.get("watts") and tokens]
    return found | {
        "told": sum(all(t.get(name) is not None for name in TOLD) for t in blocks) / len(blocks) if blocks else None,
        "joules_a_token": statistics.median(joules) if joules else None,
        "throttled": sorted({reason for t in blocks for reason in t.get("throttled", [])}),
    }
