"""What the validation measures, part by part. Each says what its figures rest on: nothing else asks for them again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import probe
from bench.validation import attribution, calibration, diagnosed, identical, prediction, price
from bench.validation.scenarios import Scenario, scenarios
from slowstep.investigation import ROOT
from slowstep.machine import this_machine, versions
from slowstep.records import identity
from slowstep.records.store import write_atomically
from slowstep.settings.convert import to_plain

OUTPUTS = ROOT / "outputs" / "validation"

TRAINS = tuple(f"lib/slowstep/{room}/*.py" for room in ("settings", "factors", "trials", "workloads"))
"""The catalogue's entries are not among them: what one changes is in its arm, and records are kept by their arms."""

JUDGES = ("lib/slowstep/judgement/*.py",)
BARE = ("bench/validation/bare.py", "bench/validation/planted.py")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something to measure, named `room/what` or `what`."""

    name: str
    measure: Callable[[], dict[str, Any]]
    sources: Sequence[str]
    """Patterns of the files that train, time and, where that can't be done again from records, judge."""
    cases: Sequence[Scenario] = ()
    judge: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """The figures judged by today's code, from the records in outputs/validation/; None: `measure` does it."""
    tell: Callable[[dict[str, Any]], str] = lambda figures: "measured"
    """What came out, in a few words."""

    def key(self) -> str:
        """The same for everything that would be measured alike."""
        found = sorted({path for pattern in self.sources for path in ROOT.glob(pattern)})
        sources = [identity(path.read_text(encoding="utf-8")) for path in found]
        return identity(sources, [(c.data, c.cure) for c in self.cases], to_plain(this_machine()), versions())

    def figures(self, known: dict[str, Any] | None) -> dict[str, Any]:
        """Measured, or, if they are `known`, judged again where their records are still at hand."""
        of = OUTPUTS / "records of" / self.name
        if known is None:
            known = to_plain(self.measure())
            write_atomically(of, self.key())
        if self.judge and of.is_file() and of.read_text(encoding="utf-8") == self.key():
            return self.judge(known)
        return known


def parts() -> dict[str, Part]:
    """All of them by name, in the order in which they are measured."""
    cases = scenarios()
    every = [
        *(_scenario(kind, case) for kind in ("planted", "healthy") for case in cases[kind]),
        *(_job(case) for case in cases["jobs"]),
        Part(
            name="aa",
            measure=partial(identical.measure, cases["identical"], OUTPUTS),
            sources=("bench/validation/identical.py", *BARE[1:], *TRAINS, *JUDGES),
            cases=cases["identical"],
        ),
        Part(
            name="probe",
            measure=lambda: attribution.measure() | probe.cost(),
            sources=("bench/probe.py", "bench/validation/attribution.py", "params/quick.yaml", *TRAINS),
        ),
        Part(name="price", measure=_price, sources=("params/quick.yaml", *TRAINS, *JUDGES)),
        Part(
            name="calibration",
            measure=calibration.measure,
            sources=("bench/validation/calibration.py", "bench/validation/processes.py", *JUDGES),
        ),
    ]
    return {part.name: part for part in every}


def _scenario(kind: str, case: Scenario) -> Part:
    """A cause to be found, or nothing: diagnosed as a user would, and its size measured without the kit."""
    params, outputs = OUTPUTS / "params", OUTPUTS / "diagnosed"

    def measure() -> dict[str, Any]:
        shutil.rmtree(outputs / case.name, ignore_errors=True)
        diagnosed.diagnose(case.write(params), outputs)
        return {"truth": to_plain(diagnosed.truth(case, params)) if case.cure else None}

    def judge(figures: dict[str, Any]) -> dict[str, Any]:
        diagnosed.diagnose(case.write(params), outputs)  # draws what is up to date from its records
        size = diagnosed.Truth(**figures["truth"]) if figures["truth"] else None
        scored = diagnosed.score(case, outputs, size)
        return to_plain(scored) | {"correct": scored.correct}

    def tell(figures: dict[str, Any]) -> str:
        return f"{figures['found']} ({'right' if figures['correct'] else 'WRONG'}), {figures['seconds']:.0f} s"

    name, sources = f"{kind}/{case.name}", (*BARE, *TRAINS)
    return Part(name=name, measure=measure, sources=sources, cases=[case], judge=judge, tell=tell)


def _job(case: Scenario) -> Part:
    return Part(
        name=f"prediction/{case.name}",
        measure=partial(prediction.measure, case, OUTPUTS),
        sources=(*BARE, "bench/validation/prediction.py", *TRAINS, *JUDGES),
        cases=[case],
        tell=lambda figures: f"{figures['error']} of {figures['trained, s']} s",
    )


def _price() -> dict[str, Any]:
    quick: Path = ROOT / "params" / "quick.yaml"
    shutil.rmtree(OUTPUTS / "diagnosed" / quick.stem, ignore_errors=True)
    diagnosed.diagnose(quick, OUTPUTS / "diagnosed")
    return price.measure(quick, OUTPUTS / "diagnosed")
