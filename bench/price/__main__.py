"""`python -m bench.price`: what twelve verdicts cost, by the kit's pairs and by repeating runs one after the other.

The levels' truth is known, the machines are simulated (noise of 1, 3 and 7 %) or recorded: `--record MINUTES` trains
the smoke file's run, with batches that are all alike, and keeps the seconds of its steps. The runs that are repeated
may choose their length and their number, as nobody could who does not know the machine: the cheapest counts with
which as many true gains are supported and as many levels without a gain refuted (to within 1 %), and at most 5 % of
these supported. Each machine is met twice: once with launches that take three seconds whoever makes them, and once with
what they were measured to take, which `--launches` does first. The results are written to bench/results/price.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.price import launches
from bench.price.machines import Machine, Recorded
from bench.price.ways import REFUTED, SUPPORTED, Launches, Outcome, Repeated, kit, repeated
from bench.validation.results import here_and_now
from slowstep.environment.home import ROOT
from slowstep.factors import Arm
from slowstep.measure.local import LocalMeasurer
from slowstep.records.store import write_atomically
from slowstep.settings import load, override

RESULTS = ROOT / "bench" / "results" / "price.json"
RECORDED = ROOT / "bench" / "results" / "steps_here.json"
LAUNCHED = ROOT / "bench" / "results" / "launches_here.json"

ALIKE = Launches(kit=3.0, together=3.0, run=3.0)
"""Launches that take the same, whoever makes them. A run that is started by its command takes longer: it imports."""

GAINS = (0.0,) * 7 + (-0.1, 0.1, 0.15, 0.25, 0.5)
"""The true gains of the levels. A typical section: most bring nothing."""

SIMULATED = {
    f"noise of {noise:.0%}": Machine(mood=noise, step=2 * noise, launch=min(noise / 2, 0.01))
    for noise in (0.01, 0.03, 0.07)
}

LENGTHS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
"""The seconds of a run that repetition may choose from."""

ROUNDS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)
"""The numbers of runs of an arm that repetition may choose from. What needs more is said to need more."""

GRID_STEPS = 312
"""Steps of a run in the documented example of transformers' scripts/benchmark/trainer-benchmark.py."""

INVESTIGATIONS = 200
SLACK = 0.01
"""The share by which repetition may fall short of the kit in what it finds and refutes."""


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m bench.price", description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=float, metavar="MINUTES", help="record this machine's steps first")
    parser.add_argument("--launches", action="store_true", help="measure first what launches take here")
    given = parser.parse_args()
    if given.record:
        write_atomically(RECORDED, json.dumps(recorded(given.record) | here_and_now(), indent=1) + "\n")
    if given.launches:
        write_atomically(LAUNCHED, json.dumps(launches.measured() | here_and_now(), indent=1) + "\n")
    machines: dict[str, Machine | Recorded] = dict(SIMULATED)
    if RECORDED.is_file():
        machines["this machine"] = Recorded(steps=json.loads(RECORDED.read_text())["seconds"], launch=0.01)
    ways = {"launches alike": ALIKE}
    if LAUNCHED.is_file():
        ways["launches as measured"] = launches.of_record(json.loads(LAUNCHED.read_text()))
    rows: dict[str, dict[str, Any]] = {}
    for (name, machine), (said, taken) in itertools.product(machines.items(), ways.items()):
        row = priced(machine, taken)
        rows.setdefault(name, {})[said] = row
        print(json.dumps({f"{name}, {said}": row}, indent=1), flush=True)
    seconds = {said: dataclasses.asdict(taken) for said, taken in ways.items()}
    about = {"gains": GAINS, "investigations": INVESTIGATIONS, "launch_seconds": seconds}
    write_atomically(RESULTS, json.dumps(about | {"machines": rows} | here_and_now(), indent=1) + "\n")
    return 0


def recorded(minutes: float) -> dict[str, Any]:
    """The seconds of consecutive steps of one trial, all on batches of one shape."""
    alike = {"dataset.padding": "max_length", "model.config.hidden_size": 256, "model.config.intermediate_size": 512}
    settings = override(load(ROOT / "params" / "smoke.yaml").settings, alike)
    with tempfile.TemporaryDirectory() as logs, LocalMeasurer(settings.budget, Path(logs)) as measurer:
        seen = measurer.observe(Arm(label="as it is", settings=settings), 10**9, 60 * minutes)
    return {"seconds": [round(s, 5) for launch in seen.trial.steps for s in launch.seconds]}


def priced(machine: Machine | Recorded, taken: Launches) -> dict[str, Any]:
    """Both ways on one machine, and how many times as long repetition takes."""
    own = scored([kit(machine, np.random.default_rng(i), GAINS, taken) for i in range(INVESTIGATIONS)])
    found: dict[str, Any] = {"slowstep": own}
    for name, in_turn in (("rounds of all arms", True), ("each arm's runs together", False)):
        cheapest = None
        for seconds in LENGTHS:
            runs = [
                repeated(machine, np.random.default_rng(i), GAINS, seconds, ROUNDS[-1], in_turn, taken.run)
                for i in range(INVESTIGATIONS)
            ]
            row = _enough(runs, own, cheapest["minutes"] if cheapest else np.inf)
            cheapest = row or cheapest
        found[name] = cheapest or {"more than, minutes": _most_minutes(taken)}
        found[f"price: {name}"] = (cheapest["minutes"] if cheapest else _most_minutes(taken)) / own["minutes"]
    once = [
        repeated(machine, np.random.default_rng(i), GAINS, GRID_STEPS / 10, 1, False, taken.run)
        for i in range(INVESTIGATIONS)
    ]
    return found | {"one run each": by_size(once)}


def _enough(runs: Sequence[Repeated], own: dict[str, float], below: float) -> dict[str, Any] | None:
    """The fewest rounds with which these runs say as much as the kit did, if that takes less than `below` minutes."""
    for rounds in ROUNDS:
        row = scored([one.judged(rounds) for one in runs])
        if row["minutes"] >= below:
            return None
        as_much = row["found"] >= own["found"] - SLACK and row["refuted"] >= own["refuted"] - SLACK
        if as_much and row["false"] <= max(own["false"], 0.05):
            return row | {"run, s": runs[0].seconds, "runs of an arm": rounds}
    return None


def _most_minutes(taken: Launches) -> float:
    return (len(GAINS) + 1) * ROUNDS[-1] * (taken.run + LENGTHS[-1]) / 60


def scored(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Minutes, the share of true gains that is supported, of levels without a gain that is refuted, and supported."""
    kinds = [(gain, verdict) for one in outcomes for gain, verdict in zip(GAINS, one.verdicts, strict=True)]
    gains = [verdict for gain, verdict in kinds if gain > 0]
    nothing = [verdict for gain, verdict in kinds if gain <= 0]
    return {
        "minutes": float(np.mean([one.seconds for one in outcomes])) / 60,
        "found": gains.count(SUPPORTED) / len(gains),
        "refuted": nothing.count(REFUTED) / len(nothing),
        "false": nothing.count(SUPPORTED) / len(nothing),
    }


def by_size(once: Sequence[Repeated]) -> dict[str, float]:
    """One run of each arm, read by its size alone: a gain of the minimum effect and more is one."""
    gains = np.array([one.logs[0, 0] - one.logs[1:, 0] for one in once])
    said = gains >= np.log(1.05)
    true = np.array(GAINS) > 0
    return {
        "minutes": (len(GAINS) + 1) * (once[0].launch_seconds + once[0].seconds) / 60,
        "found": float(said[:, true].mean()),
        "false": float(said[:, ~true].mean()),
    }


if __name__ == "__main__":
    raise SystemExit(main())
