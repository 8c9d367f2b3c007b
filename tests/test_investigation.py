"""The order in which a budget is spent, and what the final choice rests on, over comparisons whose outcome is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from simulated import SHARES, around, block, pairs, profiled, record, steps_of
from slowstep.factors import CATALOGUE, Arm
from slowstep.final.choice import choose
from slowstep.investigation import Investigation
from slowstep.judgement.verdict import Outcome
from slowstep.environment.machine import this_machine, versions
from slowstep.records import (
    ComparisonRecord,
    EventRecord,
    ObservationRecord,
    Pair,
    ProfileRecord,
    Status,
    TrialRecord,
    identity,
)
from slowstep.settings import Loaded, Settings, override
from slowstep.settings.convert import to_plain

HERE = to_plain(this_machine())

RUN = {
    "device": "cpu",
    "gradient_checkpointing": True,
    "dataloader_num_workers": 0,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "max_length": 192,
}
ASKED = {
    "data_loading": {"tokenize": ["once"]},
    "gradient_checkpointing": {"gradient_checkpointing": [False]},
    "sequence_length": {},
    "compute": {},
    "overheads": {"max_grad_norm": [0.5], "logging_steps": [100], "include_num_input_tokens_seen": ["all"]},
}
FACTORS = [CATALOGUE[name] for section in ASKED.values() for name in section]


class Trials:
    """In place of a session: each comparison brings what the levels' names and its purpose say."""

    def __init__(self, gain: Callable[[str, str], float], shares: Mapping[str, float], stall_every: int = 0):
        self.gain, self.shares, self.stall_every = gain, dict(shares), stall_every
        self.asked: list[tuple[str, str]] = []
        self.measured_seconds, self.steps = 0.0, 0

    def compare(
        self,
        baseline: Arm,
        treatment: Arm,
        most: int,
        enough: Callable[[list[Pair]], bool],
        twin: bool = False,
        purpose: str = "",
        *rest: object,
    ) -> ComparisonRecord:
        """Pairs a little apart from each other, until they are enough."""
        self.asked.append((treatment.label, purpose))
        gain = 0.0 if twin else self.gain(treatment.label, purpose) - self.gain(baseline.label, purpose)
        made = [
            replace(p, baseline=block([0.1] * 5, shares=self.shares))
            for p in pairs(around(gain, n=most), shares=self.shares)
        ]
        taken = next((made[:n] for n in range(1, most) if enough(made[:n])), made)
        found = record(taken, observed=seen(treatment))
        arms = [identity(arm.determinants()) for arm in (baseline, treatment)]
        return replace(
            found,
            arms=arms,
            machine=HERE,
            versions=versions(),
            baseline=replace(found.baseline, observed=seen(baseline)),
        )

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        """As many steps as are asked for, with a stall in one of so many, if there are stalls."""
        blocks = [block([0.1] * 5, shares=self.shares)]
        found = steps_of(blocks, steps)
        if self.stall_every:
            data = [s + 3.0 * (i % self.stall_every == 0) for i, s in enumerate(found.phases["data"])]
            found = replace(found, phases=found.phases | {"data": data})
        found = replace(found, position=[1000 + p for p in found.position])
        trial = TrialRecord(arm="baseline", status=Status.OK, steps=[found])
        return ObservationRecord(arm=identity(arm.determinants()), trial=trial, machine=HERE, versions=versions())

    def profile(self, arm: Arm, trace: Path) -> ProfileRecord:
        """Nothing that stands out."""
        return profiled()

    def occasional(self, arm: Arm) -> EventRecord:
        """Saving and evaluating take no time."""
        return EventRecord(seconds={})

    def close(self) -> None:
        """Nothing to end."""


def seen(arm: Arm) -> dict[str, object]:
    """What a trial of the arm observes of the factors asked."""
    levels = [f.level(f.current(arm.settings), arm.settings) for f in FACTORS]
    return RUN | {key: value for level in levels for key, value in level.expects.items()}


@pytest.fixture
def opened(quick: Settings, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Investigation]:
    """An investigation of few levels over such trials, with records of its own."""

    def make(
        gain: Callable[[str, str], float],
        shares: Mapping[str, float] = SHARES,
        stall_every: int = 0,
        **budget: object,
    ) -> Investigation:
        settings = override(quick, ASKED | {f"budget.{k}": v for k, v in ({"find_batch": False} | budget).items()})
        made = Investigation(
            Loaded(settings=settings, source="quick.yaml", places={}), tmp_path_factory.mktemp("outputs"), "test"
        )
        made._session, made.peak = Trials(gain, shares, stall_every), None
        return made

    return make


def measured(inv: Investigation) -> list[str]:
    """The comparisons that trials were run for, beside that of the baseline with itself."""
    return [name for name, purpose in inv.session.asked if name != "baseline"]


@pytest.mark.parametrize("shares", [(0.3, 0.2, 0.1), (0.1, 0.2, 0.3), (0.2, 0.3, 0.1)])
def test_what_could_bring_most_is_measured_first(opened: Callable[..., Investigation], shares: tuple) -> None:
    """Each of three levels can only remove the time of one phase; the budget goes to the largest first."""
    names = {"other": "include_num_input_tokens_seen=all", "optimizer": "max_grad_norm=0.5", "log": "logging_steps=100"}
    phases = dict(zip(names, shares, strict=True))
    inv = opened(lambda name, purpose: 0.0, {"forward": 0.4} | phases)

    inv.test("overheads")

    assert [names[phase] for phase in sorted(phases, key=lambda p: -phases[p])] == measured(inv)


def test_what_can_bring_too_little_is_measured_only_if_all_is(opened: Callable[..., Investigation]) -> None:
    """A level that could remove one hundredth of the step is refuted by that; `budget.exhaustive` measures it, too."""
    phases = {"forward": 0.5, "other": 0.3, "optimizer": 0.19, "log": 0.01}
    thrifty, thorough = (opened(lambda name, purpose: 0.0, phases, exhaustive=all_of_it) for all_of_it in (False, True))

    verdicts = {v.name: v for v in thrifty.test("overheads")}
    thorough.test("overheads")

    assert "logging_steps=100" not in measured(thrifty)
    assert verdicts["logging_steps=100"].outcome is Outcome.REFUTED
    assert "logging_steps=100" in measured(thorough)


def test_the_winner_is_confirmed_by_pairs_that_did_not_choose_it(opened: Callable[..., Investigation]) -> None:
    """A gain that chance gave the pairs that chose is not there in those that confirm, and nothing is adopted."""
    gains = {"tokenize=once": 0.2, "gradient_checkpointing=false": 0.3}

    real = choose(opened(lambda name, purpose: sum(gains.get(part, 0.0) for part in name.split(" + "))))
    lucky = opened(lambda name, purpose: 0.0 if purpose else gains.get(name, 0.0))
    by_luck = choose(lucky)

    assert real.adopted
    assert {"tokenize=once", "gradient_checkpointing=false"} == set(real.verdict.name.split(" + "))
    assert not by_luck.adopted
    assert [Outcome.SUPPORTED] * 2 == [m.verdict.outcome for m in by_luck.allowed]
    assert any(purpose for _, purpose in lucky.session.asked)
    assert by_luck.settings.training("gradient_checkpointing") is True


def test_a_comparison_is_measured_once(opened: Callable[..., Investigation]) -> None:
    """What two notebooks ask is measured once, and its record serves both; another purpose takes new pairs."""
    inv = opened(lambda name, purpose: 0.3)
    first, second = (inv.test("gradient_checkpointing") for _ in range(2))
    inv.judge([m.contrast for m in inv.measured[:1]], "again", purpose="confirmation")

    assert first == second
    assert ["", "confirmation"] == [purpose for name, purpose in inv.session.asked if name == first[0].name]
    assert measured(inv) == [first[0].name] * 2


def test_rare_stalls_are_seen_before_anything_is_refuted(opened: Callable[..., Investigation]) -> None:
    """The pairs of the A/A meet no stall and show a wait of 1 %; the observation meets those of every 60th step, and
    data loading is no longer refuted by its bound."""
    quiet = {"data": 0.01, "forward": 0.4, "optimizer": 0.1, "other": 0.05}
    healthy, stalls = (opened(lambda name, purpose: 0.0, quiet, stall_every=n) for n in (0, 60))

    assert Outcome.REFUTED == healthy.test("data_loading")[0].outcome
    assert [] == measured(healthy)
    stalls.test("data_loading")

    assert ["tokenize=once"] == measured(stalls)
    assert ["data"] == [s.phase for s in stalls.suspects]
    assert 0.25 < stalls.baseline.facts.share("data") < 0.4
    assert re.search(r"one step in (5|6)\d is a long one", stalls.suspects[0].why)


def test_too_short_an_observation_refutes_no_wait(opened: Callable[..., Investigation]) -> None:
    """Where stalls as rare as the file asks about could have been missed, the wait is tried and not refuted."""
    inv = opened(lambda name, purpose: 0.0, {"data": 0.01, "forward": 0.4}, rarest_stall=10**6)
    inv._session.observe = lambda arm, steps, seconds: ObservationRecord(
        arm="", trial=TrialRecord(arm="baseline", status=Status.OK)
    )
    inv.test("data_loading")

    assert ["tokenize=once"] == measured(inv)


def test_later_steps_of_the_baseline_correct_the_first(opened: Callable[..., Investigation]) -> None:
    """What later comparisons see of the baseline counts the next time that the investigation is opened."""
    inv = opened(lambda name, purpose: 0.0, {"data": 0.01, "forward": 0.4}, stall_every=0)
    before = inv.baseline.facts.share("data")
    blocks = [block([0.1] * 5, shares={"data": 0.5})]
    own = identity(inv.arm.determinants())
    late = replace(steps_of(blocks, 2000), position=list(range(10**6, 10**6 + 2000)))
    found = record(pairs([0.0] * 3), arms=[own, "another"], machine=HERE, versions=versions())
    inv.store.write(replace(found, baseline=replace(found.baseline, steps=[late])), "comparisons", "later")
    again = Investigation(inv.loaded, inv.folder.parent, "again")
    again._session, again.peak = inv._session, None

    assert before < 0.02 < 0.2 < again.baseline.facts.share("data")
