"""What the validation measures, part by part. Each says what its figures rest on: nothing else asks for them again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import probe
from bench.validation import (
    attribution,
    calibration,
    diagnosed,
    identical,
    prediction,
    price,
    results,
    shares,
    truth,
)
from bench.validation.scenarios import Scenario, scenarios
from slowstep.environment.machine import this_machine, versions
from slowstep.investigation import ROOT
from slowstep.records import identity
from slowstep.records.store import write_atomically
from slowstep.settings.convert import to_plain

OUTPUTS = ROOT / "outputs" / "validation"

BUILDS = ("lib/slowstep/settings/*.py", "lib/slowstep/workloads/**/*.py")
TRAINS = (
    *BUILDS,
    "lib/slowstep_probe/**/*.py",
    *(f"lib/slowstep/{room}/*.py" for room in ("factors", "launch", "measure")),
)
"""The catalogue's entries are not among them: another entry, or other words in one, change no arm that was measured."""

JUDGES = ("lib/slowstep/judgement/*.py",)
PLANTED = "bench/validation/planted.py"
CHILD = (
    "lib/slowstep_probe/heap.py",
    "lib/slowstep_probe/processes/server.py",
    *(f"lib/slowstep/launch/{name}.py" for name in ("run_in_subprocess", "warm_interpreter", "environment")),
)
BARE = ("bench/validation/bare.py", PLANTED, *CHILD, *BUILDS)
CATALOGUE = "lib/slowstep/factors/catalogue/**/*.py"

QUICK: Path = ROOT / "params" / "quick.yaml"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something to measure, named `room/what` or `what`."""

    name: str
    measure: Callable[[], dict[str, Any]]
    sources: Sequence[str]
    """Patterns of the files that train, time and, where that can't be done again from records, judge."""
    cases: Sequence[Scenario] = ()
    needs: Sequence[str] = ()
    """Parts that it is judged by."""
    judge: Callable[[dict[str, Any], bool], dict[str, Any]] = lambda figures, at_hand: figures
    """What is shown: from the records in outputs/validation/ where they are at hand, else from the figures known."""
    tell: Callable[[dict[str, Any]], str] = lambda figures: "measured"
    """What came out, in a few words."""

    def key(self) -> str:
        """The same for everything that would be measured alike."""
        cases = [(c.data, c.cure) for c in self.cases]
        return identity(_contents(self.sources), cases, to_plain(this_machine()), versions())

    def measured(self) -> dict[str, Any]:
        """Figures measured now; `judged` makes of them what is shown. They lie beside their records as well."""
        self._of.unlink(missing_ok=True)
        figures = to_plain(self.measure())
        write_atomically(self._of, json.dumps({"of": self._identity(), "figures": figures}))
        return figures

    def recorded(self) -> dict[str, Any] | None:
        """Return the figures of a measurement whose records lie in outputs/validation/; None if there is none."""
        found = json.loads(self._of.read_text(encoding="utf-8")) if self._of.is_file() else {}
        return found["figures"] if found.get("of") == self._identity() else None

    def judged(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Return the figures as today's code judges them, as far as the records of this measurement still lie."""
        return self.judge(figures, self.recorded() is not None)

    @property
    def _of(self) -> Path:
        return OUTPUTS / "records of" / f"{self.name}.json"

    def _identity(self) -> str:
        return identity(self.key(), _contents([CATALOGUE]))


def _contents(patterns: Sequence[str]) -> list[str]:
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    return [identity(path.read_text(encoding="utf-8")) for path in found]


def parts() -> dict[str, Part]:
    """All of them by name, in the order in which they are measured."""
    cases = scenarios()
    every = [
        *(_truth(case) for kind in ("planted", "healthy") for case in cases[kind] if case.cure),
        *(_scenario(kind, case) for kind in ("planted", "healthy") for case in cases[kind]),
        *(_job(case) for case in cases["jobs"]),
        Part(
            name="aa",
            measure=partial(identical.measure, cases["identical"], OUTPUTS),
            sources=("bench/validation/identical.py", PLANTED, *TRAINS, *JUDGES),
            cases=cases["identical"],
        ),
        Part(
            name="probe",
            measure=lambda: attribution.measure() | probe.cost(probe.trainer()) | probe.added(),
            sources=("bench/probe.py", "bench/validation/attribution.py", "params/quick.yaml", *TRAINS),
        ),
        Part(name="price", measure=_diagnosed, judge=_price, sources=("params/quick.yaml", *TRAINS, *JUDGES)),
        Part(
            name="shares",
            measure=shares.measure,
            sources=("bench/validation/shares.py", *JUDGES),
        ),
        Part(
            name="calibration",
            measure=calibration.measure,
            sources=("bench/validation/calibration.py", "bench/validation/regimes.py", *JUDGES),
        ),
    ]
    return {part.name: part for part in every}


def _truth(case: Scenario) -> Part:
    """How large a planted cause is."""
    return Part(
        name=f"truth/{case.name}",
        measure=lambda: to_plain(truth.truth(*case.arms(OUTPUTS / "params"))),
        sources=("bench/validation/truth.py", *BARE),
        cases=[case],
        tell=lambda figures: "{ratio:.2f} times [{low:.2f}, {high:.2f}] as fast without it".format(**figures),
    )


def _scenario(kind: str, case: Scenario) -> Part:
    """A cause to be found, or nothing: diagnosed as a user would."""
    params, outputs = OUTPUTS / "params", OUTPUTS / "diagnosed"
    needs = [f"truth/{case.name}"] if case.cure else []

    def measure() -> dict[str, Any]:
        shutil.rmtree(outputs / case.name, ignore_errors=True)
        diagnosed.diagnose(case.write(params), outputs)
        return {}

    def judge(figures: dict[str, Any], at_hand: bool) -> dict[str, Any]:
        known = results.read()
        size = next((truth.Truth(**known[need]["figures"]) for need in needs), None)
        if at_hand:
            diagnosed.diagnose(case.write(params), outputs)  # draws what is up to date from its records
            scored = diagnosed.score(case, outputs, size)
        else:
            scored = diagnosed.rescored(figures, size)
        return to_plain(scored) | {"correct": scored.correct}

    def tell(figures: dict[str, Any]) -> str:
        return f"{figures['found']} ({'right' if figures['correct'] else 'WRONG'}), {figures['seconds']:.0f} s"

    return Part(
        name=f"{kind}/{case.name}",
        measure=measure,
        sources=(PLANTED, *TRAINS),
        cases=[case],
        needs=needs,
        judge=judge,
        tell=tell,
    )


def _job(case: Scenario) -> Part:
    return Part(
        name=f"prediction/{case.name}",
        measure=partial(prediction.measure, case, OUTPUTS),
        sources=("bench/validation/prediction.py", *BARE, *TRAINS, *JUDGES),
        cases=[case],
        tell=lambda figures: f"{figures['error']} of {figures['trained, s']} s",
    )


def _diagnosed() -> dict[str, Any]:
    shutil.rmtree(OUTPUTS / "diagnosed" / QUICK.stem, ignore_errors=True)
    diagnosed.diagnose(QUICK, OUTPUTS / "diagnosed", "budget.minutes=null")  # a grid leaves nothing out, either
    return {}


def _price(figures: dict[str, Any], at_hand: bool) -> dict[str, Any]:
    return price.measure(QUICK, OUTPUTS / "diagnosed") if at_hand else figures
