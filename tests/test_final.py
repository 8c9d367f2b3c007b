"""The search for the final configuration, and the script that trains with it."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset, load_from_disk

from simulated import around, contrast, pairs, record
from simulated_measurer import SimulatedMeasurer, Truth
from slowstep import report
from slowstep.environment.machine import this_machine
from slowstep.factors import Arm, Contrast, Meaning, combine, in_code, label
from slowstep.final.alternatives import options
from slowstep.final.choice import Choice, choose, profiles
from slowstep.final.combinations import Candidate, clashes, finalists, ranked
from slowstep.final.decision import decision_of
from slowstep.final.decision_record import decision
from slowstep.final.script import script, why_not
from slowstep.final.search import head_to_head, may_be_redundant, missed, without_redundant
from slowstep.investigation import Measured, open_lab, read_investigation
from slowstep.investigation.lab import Lab
from slowstep.investigation.permission import allowed_by
from slowstep.investigation.results import NotebookRun
from slowstep.judgement.intervals import Interval
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.measure.local import LocalMeasurer
from slowstep.records import ComparisonRecord, Memory, Status, TrialRecord
from slowstep.report.prose import conclusion, final_conclusion
from slowstep.report.read_overview import overview
from slowstep.settings import Loaded, Settings, override

GIB = 2**30
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def supported(quick: Settings) -> Callable[..., Measured]:
    """A change that was measured: `supported(0.2, 3, optim="sgd")` brings 20 % and takes 3 GiB more."""

    def make(gain: float, gibibytes: float, **levels: object) -> Measured:
        made = contrast(quick, **levels)
        found = record(pairs(around(gain)), observed=made.expects)
        with_memory = ComparisonRecord(
            baseline=trial(found.baseline, 10), treatment=trial(found.treatment, 10 + gibibytes), pairs=found.pairs
        )
        verdict = judge(before_trial(made, None, 0.05, None), made, with_memory, 0.05, "cuda")
        return Measured(contrast=made, verdict=verdict, record=with_memory)

    def trial(of: TrialRecord, gibibytes: float) -> TrialRecord:
        return replace(of, memory=Memory(reserved=int(gibibytes * GIB), limit=24 * GIB))

    return make


def labels(candidates: Sequence[Candidate]) -> list[str]:
    return [label(candidate.picks) for candidate in candidates]


def test_gains_multiply_until_they_are_measured_together(supported: Callable[..., Measured]) -> None:
    """Two changes whose combination was measured to bring less than each other's product stand by what was measured."""
    apart = [supported(0.2, 0, gradient_checkpointing=False), supported(0.3, 0, per_device_train_batch_size=8)]
    together = supported(0.25, 0, gradient_checkpointing=False, per_device_train_batch_size=8)
    both = "gradient_checkpointing=false + per_device_train_batch_size=8"

    assert labels(ranked(apart, apart, 14 * GIB))[0] == both
    assert labels(ranked([*apart, together], [*apart, together], 14 * GIB)) == [
        "per_device_train_batch_size=8",
        both,
        "gradient_checkpointing=false",
    ]


def test_changes_that_want_the_same_memory_are_not_combined(supported: Callable[..., Measured]) -> None:
    """Each fits beside the baseline, both together do not: the search takes the better one, with what still fits."""
    found = [
        supported(0.3, 9, gradient_checkpointing=False),
        supported(0.2, 9, per_device_train_batch_size=16),
        supported(0.1, 1, optim="adamw_bnb_8bit"),
    ]
    best = ranked(found, found, 12 * GIB)[0]

    assert labels([best]) == ["gradient_checkpointing=false + optim=adamw_bnb_8bit"]
    assert len(ranked(found, found, 100 * GIB)[0].picks) == 3


def test_a_level_seen_only_with_another_is_not_taken_alone(supported: Callable[..., Measured]) -> None:
    """What a batch of 16 brings without checkpointing says nothing of it with checkpointing."""
    cell = supported(0.4, 0, gradient_checkpointing=False, per_device_train_batch_size=16)

    assert labels(ranked([cell], [cell], 100 * GIB)) == [
        "gradient_checkpointing=false + per_device_train_batch_size=16"
    ]


def test_what_was_measured_has_shown_that_it_fits(supported: Callable[..., Measured]) -> None:
    """A batch that needs checkpointing is a candidate with it, and not alone. A device that is full speaks against
    neither."""
    batch = supported(0.3, 0, per_device_train_batch_size=16)
    alone = replace(batch, verdict=replace(batch.verdict, effect=None, status=Status.OUT_OF_MEMORY))
    cell = supported(0.3, 13.5, gradient_checkpointing=False, per_device_train_batch_size=16)
    workers = supported(0.2, 0, dataloader_num_workers=2)
    found = labels(ranked([cell, workers], [alone, cell, workers], 13 * GIB))

    both = "gradient_checkpointing=false + per_device_train_batch_size=16"
    assert found == [both, "dataloader_num_workers=2"]
    assert f"dataloader_num_workers=2 + {both}" in labels(ranked([workers, cell], [alone, cell, workers], 14 * GIB))


def test_of_too_many_combinations_those_of_the_best_levels_are_left(supported: Callable[..., Measured]) -> None:
    found = [supported(0.1 + n / 1e5, 0, dataloader_num_workers=n + 1) for n in range(70)]
    found += [supported(0.2 + n / 1e5, 0, per_device_train_batch_size=n + 3) for n in range(70)]

    assert labels(ranked(found, found, math.inf)) == [
        "dataloader_num_workers=70 + per_device_train_batch_size=72",
        "per_device_train_batch_size=72",
        "dataloader_num_workers=70",
    ]


def test_finalists_are_real_alternatives(supported: Callable[..., Measured]) -> None:
    """A combination with a gain left out challenges no one, nor does one that is much slower; another level does."""
    found = [
        supported(0.3, 0, dataloader_num_workers=1),
        supported(0.29, 0, dataloader_num_workers=2),
        supported(0.12, 0, dataloader_num_workers=3),
        supported(0.1, 0, gradient_checkpointing=False),
    ]

    assert labels(finalists(ranked(found, found, 100 * GIB))) == [
        "dataloader_num_workers=1 + gradient_checkpointing=false",
        "dataloader_num_workers=2 + gradient_checkpointing=false",
    ]


def test_levels_that_contradict_each_other_are_not_combined(
    supported: Callable[..., Measured], quick: Settings
) -> None:
    """A batch of 16, and the effective batch of 4 in two parts of 2, can't both be; either can with something else."""
    found = [
        supported(0.3, 0, per_device_train_batch_size=16),
        supported(0.2, 0, gradient_accumulation_steps=2),
        supported(0.1, 0, gradient_checkpointing=False),
    ]
    candidates = ranked(found, found, 100 * GIB, clashes(quick, found, this_machine()))

    assert 2 == max(len(c.picks) for c in candidates)
    assert 5 == len(candidates)


def test_what_was_measured_together_in_vain_is_remembered(supported: Callable[..., Measured]) -> None:
    """A cell that brought nothing does not lead the ranking because its parts did; one that did not fit is left out."""
    parts = [supported(0.2, 0, gradient_checkpointing=False), supported(0.3, 0, per_device_train_batch_size=16)]
    vain = supported(0.01, 0, gradient_checkpointing=False, per_device_train_batch_size=16)
    full = replace(vain, verdict=replace(vain.verdict, effect=None, status=Status.OUT_OF_MEMORY))

    assert labels(ranked(parts, [*parts, vain], 100 * GIB))[0] == "per_device_train_batch_size=16"
    assert len(ranked(parts, [*parts, full], 100 * GIB)) == 2


def test_what_exists_only_beside_another_is_known_with_it(supported: Callable[..., Measured], quick: Settings) -> None:
    """Persistent workers bring 10 % beside workers that bring 20 %: together 32 %, and not those workers' 20 % twice.
    Beside another number of workers it is that number that counts."""
    beside = supported(0.1, 0, dataloader_persistent_workers=True)
    (count,) = beside.contrast.held_constant.values()
    workers, more = (supported(0.2, 0, dataloader_num_workers=n) for n in (count, count + 1))
    whole = supported(0.3, 0, dataloader_persistent_workers=True)
    whole_alone = frozenset({whole.verdict.name})

    found = {c.names: c for c in ranked([workers, more, whole], [workers, more, whole], math.inf, conditional=[beside])}
    both = found[frozenset({workers.verdict.name, whole.verdict.name})]
    other = found[frozenset({more.verdict.name, whole.verdict.name})]
    made = combine(quick, other.picks, this_machine()).treatment.settings

    gains = [math.exp(c.gain) for c in (both, other, found[whole_alone])]
    assert gains == pytest.approx([1.32, 1.32, 1.3], abs=0.01)
    assert made.training("dataloader_num_workers") == count + 1
    assert made.training("dataloader_persistent_workers") is True
    assert [[], []] == [clashes(quick, [number, whole], this_machine()) for number in (workers, more)]


def test_what_a_level_keeps_meets_a_condition(supported: Callable[..., Measured]) -> None:
    """Dynamic shapes exist beside compiling, which keeps the precision of products: compiling counts once."""
    beside, whole = (supported(gain, 0, torch_compile_dynamic=True) for gain in (0.1, 0.3))
    compiled = supported(0.2, 0, torch_compile=True)
    assert compiled.contrast.levels[0][1].keeps.items() <= beside.contrast.held_constant.items()

    best = ranked([compiled, whole], [compiled, whole], math.inf, conditional=[beside])[0]

    assert len(best.picks) == 2
    assert math.exp(best.gain) == pytest.approx(1.2 * 1.1, abs=0.01)


def test_one_condition_is_met_once(supported: Callable[..., Measured]) -> None:
    """Two levels that exist beside the same workers: the second brings what it does beside them."""
    names = ("dataloader_persistent_workers", "dataloader_prefetch_factor")
    wholes = [supported(0.3, 0, **{name: value}) for name, value in zip(names, (True, 4), strict=True)]
    beside = [supported(0.1, 0, **{name: value}) for name, value in zip(names, (True, 4), strict=True)]

    best = ranked(wholes, wholes, math.inf, conditional=beside)[0]

    assert len(best.picks) == 2
    assert math.exp(best.gain) == pytest.approx(1.3 * 1.1, abs=0.01)


def test_what_the_rest_needs_is_not_redundant(quick: Settings, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Persistent workers bring as many workers as were chosen beside them: there is nothing to measure, neither head
    to head nor in leaving one out, and the workers stay under their name."""
    lab = bench(lambda names: 0.3)
    (count,) = contrast(quick, dataloader_persistent_workers=True).held_constant.values()
    both = contrast(quick, dataloader_num_workers=count, dataloader_persistent_workers=True).levels
    monkeypatch.setattr(lab, "compare", None)

    assert missed(lab, both, both[:1])
    assert head_to_head(lab, [Candidate(picks=p, gain=0.3) for p in (both[1:], both)]) == (both[1:], [])


def test_a_condition_is_told_with_the_change(supported: Callable[..., Measured]) -> None:
    """What was measured beside workers that the run lacks is no advice for the run."""
    measured = supported(0.2, 0, dataloader_persistent_workers=True).verdict
    verdict = replace(measured, outcome=Outcome.SUPPORTED)
    text = str(conclusion("Data loading", [verdict]))

    assert "both arms with dataloader_num_workers=" in text
    assert "can be set as it is" not in text


def test_a_gain_below_the_minimum_effect_is_not_told_as_none(supported: Callable[..., Measured]) -> None:
    """+3 % [1, 4] is refuted as a gain of 5 %, beside another level that helps and beside none."""
    measured = replace(supported(0.2, 0, optim="sgd").verdict, outcome=Outcome.SUPPORTED)
    effect = replace(measured.effect, mean=0.03, lower=0.01, upper=0.04)
    small = replace(measured, name="optim=other", outcome=Outcome.REFUTED, effect=effect)
    none = replace(small, name="optim=third", effect=replace(effect, mean=0.0, lower=-0.03, upper=0.03))
    alone, beside = (str(conclusion("Compute", v)) for v in ([small, none], [measured, small, none]))

    for text in (alone, beside):
        assert "A gain, but below the minimum effect: optim=other" in text
        assert "No gain" not in text
    assert "Not the cause: optim=third" in alone
    assert "Below the minimum effect: optim=third" in beside


@pytest.mark.parametrize(
    ("never", "level"),
    [
        ("torch_compile", {"torch_compile": True}),
        ("torch_compile", {"torch_compile_mode": "reduce-overhead"}),
        ("per_device_train_batch_size", {"gradient_accumulation_steps": 2}),
        ("dataloader_num_workers", {"dataloader_persistent_workers": True}),
    ],
)
def test_what_is_never_to_be_changed_is_not_changed_by_another_name(
    never: str, level: dict, supported: Callable[..., Measured], quick: Settings
) -> None:
    """A mode of compiling compiles, and parts of a batch are smaller batches."""
    change = supported(0.3, 0, **level)
    anything = override(quick, {"allow.numerics": True, "allow.semantics": True})

    assert allowed_by(change, anything)
    assert not allowed_by(change, override(anything, {"allow.never": [never]}))


Bench = Callable[[Callable[[set[str]], float]], Lab]


@pytest.fixture
def bench(quick: Settings, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Makes a lab in which the gain of a combination is a function of the names of what it changes."""

    def names(arm: Arm) -> set[str]:
        changed = {k for k in arm.settings.training_arguments if arm.settings.training(k) != quick.training(k)}
        return changed | ({"tokenize"} if arm.settings.dataset.tokenize != quick.dataset.tokenize else set())

    def make(gain: Callable[[set[str]], float]) -> Lab:
        truth = Truth(gain=lambda arm, purpose: math.exp(gain(names(arm))) - 1, noise=0.001)
        loaded = Loaded(settings=quick, source="quick.yaml", places={})
        outputs = tmp_path_factory.mktemp("outputs")
        return open_lab(loaded, outputs, "test", SimulatedMeasurer(truth, quick.budget))

    return make


def chosen_of(lab: Lab, **levels: object) -> tuple[str, list[str]]:
    """The levels that stay, and those that go, of a combination whose single gains are 0.3 each, as log-ratios."""
    whole = lab.compare(contrast(lab.settings, **levels), "all")
    gains = {label([pick]): math.exp(0.3) for pick in whole.contrast.levels}
    reduced = without_redundant(lab, whole, gains)
    return reduced.chosen.verdict.name, reduced.dropped


def test_a_choice_is_the_same_when_asked_again_and_elsewhere(quick: Settings, tmp_path: Path) -> None:
    """What was confirmed is not among what was tested the second time. A copy of the records is enough for the whole
    last notebook, with the profile of what was adopted."""
    truth = Truth(
        gain=lambda arm, purpose: 0.0 if arm.settings.training("gradient_checkpointing") else 0.4, noise=0.001
    )
    settings = replace(quick, data_loading={}, sequence_length={}, compute={}, overheads={})
    settings = override(settings, {"gradient_checkpointing": {"gradient_checkpointing": [False]}})
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    lab = open_lab(loaded, tmp_path, "90_final_config", SimulatedMeasurer(truth, settings.budget))
    first, again = choose(lab), choose(lab)
    asked = list(lab.measurer.asked)
    profiles(lab, first)
    lab.conclude(decision=decision_of(first))
    home = read_investigation(shutil.copytree(lab.folder, tmp_path / "copy"), "90_final_config")
    copied = choose(home)

    assert first.adopted
    assert first.verdicts == again.verdicts == copied.verdicts
    assert asked == lab.measurer.asked
    assert profiles(home, copied).keys() == {"baseline", "final"}


@pytest.mark.parametrize("limit", [None, 1e4], ids=["no limit", "minutes"])
def test_a_report_decides_as_the_measuring_did(limit: float | None, quick: Settings, tmp_path: Path) -> None:
    """Also where the best combination can't be trained, and the next is adopted in its place."""

    def changes(arm: Arm) -> tuple[bool, bool]:
        run = arm.settings
        return not run.training("gradient_checkpointing"), run.training("dataloader_num_workers") == 2

    truth = Truth(
        gain=lambda arm, purpose: 0.4 * changes(arm)[0] + 0.2 * changes(arm)[1],
        noise=0.001,
        fails=lambda arm: "misaligned address" if all(changes(arm)) else None,
    )
    settings = replace(quick, data_loading={}, sequence_length={}, compute={}, overheads={}, gradient_checkpointing={})
    asked = {
        "gradient_checkpointing": {"gradient_checkpointing": [False]},
        "data_loading": {"dataloader_num_workers": [2]},
        "budget.minutes": limit,
    }
    loaded = Loaded(settings=override(settings, asked), source="quick.yaml", places={})
    lab = open_lab(loaded, tmp_path, "90_final_config", SimulatedMeasurer(truth, loaded.settings.budget))
    measured = choose(lab)
    lab.conclude(decision=decision_of(measured))
    reported = choose(read_investigation(lab.folder, "90_final_config"))

    assert measured.adopted
    assert measured.verdict.name == "gradient_checkpointing=false"
    assert (reported.verdict, reported.left_out) == (measured.verdict, measured.left_out)
    assert [m.verdict for m in reported.head_to_heads] == [m.verdict for m in measured.head_to_heads]


def faster_without_checkpointing(
    quick: Settings, outputs: Path, minutes: float, measurer: type[SimulatedMeasurer]
) -> Lab:
    """The last notebook of a run that is 40 % faster without checkpointing, and asks nothing else."""
    truth = Truth(gain=lambda arm, purpose: 0.0 if arm.settings.training("gradient_checkpointing") else 0.4)
    settings = replace(quick, data_loading={}, sequence_length={}, compute={}, overheads={})
    given = {"gradient_checkpointing": {"gradient_checkpointing": [False]}, "budget.minutes": minutes}
    loaded = Loaded(settings=override(settings, given), source="quick.yaml", places={})
    return open_lab(loaded, outputs, "90_final_config", measurer(truth, loaded.settings.budget))


class WithoutConfirmation(SimulatedMeasurer):
    """Has no time left to measure anything once more."""

    def compare(self, request: Any, *args: Any) -> ComparisonRecord | None:
        return None if request.purpose == "confirmation" else super().compare(request, *args)


def test_what_no_time_was_left_to_confirm_was_not_measured_again(quick: Settings, tmp_path: Path) -> None:
    """It may yet be confirmed, and nowhere is it said that fresh pairs have spoken against it."""
    lab = faster_without_checkpointing(quick, tmp_path, 1e4, WithoutConfirmation)
    choice = choose(lab)
    (refused,) = decision_of(choice).refused
    told = str(final_conclusion(choice.verdict, choice.verdicts, choice.left_out, []))

    assert not choice.adopted
    assert [] == choice.left_out
    for said in (refused.why, told):
        assert "no time was left to measure it once more" in said
        assert "confirmed:" not in said.replace("may confirm it", "")
        assert "measured once more in fresh pairs" not in said


def test_a_profile_that_no_time_is_left_for_is_left_out(quick: Settings, tmp_path: Path) -> None:
    """It shows where the time goes, and no verdict rests on it."""
    lab = faster_without_checkpointing(quick, tmp_path, 1e3, SimulatedMeasurer)
    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lab, "is_time_to_profile", lambda self: False)
        choices = [choose(lab)]
    began = lab.spending.began
    # three seconds are left, and a look at some steps takes four
    for at, moved in (("late", -1e6), ("short", 3 - 60e3), ("early", 0.0), ("afterwards", -1e6)):
        lab.spending.began = began + moved
        choices.append(choose(lab))
        seen[at] = profiles(lab, choices[-1]).keys()

    assert all(choice.adopted for choice in choices)
    assert seen["late"] == seen["short"] == {"baseline"}
    assert seen["early"] == seen["afterwards"] == {"baseline", "final"}
    assert [choice.remaining is None for choice in choices] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("together", "start", "once_more", "adopted", "said"),
    [
        (2.4, 90.0, 1.0, "dataloader_num_workers=2", "it was not shown to bring anything beside what is adopted"),
        (2.2, 60.0, 1.0, "dataloader_num_workers=2", "beside what is adopted, the job would not end sooner with it"),
        (2.4, 20.0, 1.0, "dataloader_num_workers=2 + gradient_checkpointing=false", None),
        (None, 90.0, 0.88, "", "the job would not end sooner with it"),
    ],
    ids=["expected so", "found when measured together", "earned back", "found when measured once more"],
)
def test_what_is_adopted_has_no_part_with_which_the_job_ends_sooner(
    together: float | None,
    start: float,
    once_more: float,
    adopted: str,
    said: str | None,
    quick: Settings,
    tmp_path: Path,
) -> None:
    """A job of 600 s: workers halve its steps, and another change makes them 1.3 times as fast and starts later. What a
    late start takes need not be less than what is left to be saved beside the workers, or what fresh pairs show."""

    def late(arm: Arm) -> bool:
        return not arm.settings.training("gradient_checkpointing")

    def gain(arm: Arm, purpose: str) -> float:
        workers = arm.settings.training("dataloader_num_workers") == 2
        ratio = together if workers and late(arm) else 2.0 if workers else 1.3 if late(arm) else 1.0
        return ratio * (once_more if purpose and late(arm) else 1.0) - 1

    truth = Truth(gain=gain, startup=lambda arm: {"model": 10.0 + start * late(arm)}, noise=0.001)
    settings = replace(quick, data_loading={}, sequence_length={}, compute={}, overheads={}, gradient_checkpointing={})
    asked = {
        "gradient_checkpointing": {"gradient_checkpointing": [False]},
        "data_loading": {"dataloader_num_workers": [2]} if together else {},
        "job": {"samples": 24_000, "epochs": 1.0},
    }
    loaded = Loaded(settings=override(settings, asked), source="quick.yaml", places={})
    lab = open_lab(loaded, tmp_path, "90_final_config", SimulatedMeasurer(truth, loaded.settings.budget))
    choice = choose(lab)
    decision = decision_of(choice)
    lab.conclude(decision=decision)
    reported = choose(read_investigation(lab.folder, "90_final_config"))
    told = str(final_conclusion(choice.verdict, choice.verdicts, choice.left_out, []))

    assert adopted == (decision.adopted.name if decision.adopted else "")
    assert not decision.after or decision.after.seconds < decision.before.seconds
    assert (reported.verdict, reported.left_out) == (choice.verdict, choice.left_out)
    assert [one.why for one in decision.refused] == ([said] if said else [])
    assert adopted in told if adopted else "Change nothing." in told


def test_of_two_changes_that_do_the_same_one_stays(bench: Bench) -> None:
    """Workers and tokenising once each end the wait for data: one is no longer missed, and never both go."""

    def gain(names: set[str]) -> float:
        waits = not names & {"dataloader_num_workers", "tokenize"}
        return (0.0 if waits else 0.3) + (0.3 if "gradient_checkpointing" in names else 0.0)

    kept, dropped = chosen_of(bench(gain), dataloader_num_workers=2, tokenize="once", gradient_checkpointing=False)

    assert len(dropped) == 1
    assert "gradient_checkpointing=false" in kept
    assert ("dataloader_num_workers=2" in kept) != ("tokenize=once" in kept)


def test_small_gains_are_not_lost_one_by_one(bench: Bench) -> None:
    """Three changes that bring 4 % each are each below the minimum effect, and together they are not: all stay."""

    def gain(names: set[str]) -> float:
        return 0.04 * len(names)

    levels = {"dataloader_num_workers": 2, "tokenize": "once", "gradient_checkpointing": False}

    assert ("all", []) == chosen_of(bench(gain), **levels)


def test_a_redundant_change_goes(bench: Bench) -> None:
    """A change that brings nothing beside the others is left out, and the rest stays."""

    def gain(names: set[str]) -> float:
        return 0.3 * ("gradient_checkpointing" in names)

    found = chosen_of(bench(gain), dataloader_num_workers=2, gradient_checkpointing=False)

    assert found == ("gradient_checkpointing=false", ["dataloader_num_workers=2"])


class WithoutTimeForParts(SimulatedMeasurer):
    """Has no time left to measure a combination against a part of it."""

    def compare(self, request: Any, *args: Any) -> ComparisonRecord | None:
        is_run = request.baseline.settings.training_arguments == self.own
        return super().compare(request, *args) if is_run else None


def test_a_part_that_was_not_shown_to_help_beside_the_others_is_told(quick: Settings, tmp_path: Path) -> None:
    """Workers bring 80 % and another change 10 %, and both together no more than workers. There was no time to see
    whether the other is needed: it stays, and every page says so."""

    def gain(arm: Arm, purpose: str) -> float:
        workers = arm.settings.training("dataloader_num_workers") == 2
        return 0.8 if workers else 0.1 * (not arm.settings.training("gradient_checkpointing"))

    settings = replace(quick, data_loading={}, sequence_length={}, compute={}, overheads={}, gradient_checkpointing={})
    asked = {
        "gradient_checkpointing": {"gradient_checkpointing": [False]},
        "data_loading": {"dataloader_num_workers": [2]},
        "budget.minutes": 1e4,
    }
    loaded = Loaded(settings=override(settings, asked), source="quick.yaml", places={})
    measurer = WithoutTimeForParts(Truth(gain=gain, noise=0.001), loaded.settings.budget)
    measurer.own = loaded.settings.training_arguments
    open_lab(loaded, tmp_path, "00_baseline", measurer).conclude()
    lab = open_lab(loaded, tmp_path, "90_final_config", measurer)
    choice = choose(lab)
    lab.conclude(decision=decision_of(choice))
    for name in ("00_baseline", "90_final_config"):
        lab.evidence.store.write(NotebookRun(notebook=name, status="ok"), "notebooks", name)
    told = final_conclusion(choice.verdict, choice.verdicts, choice.left_out, [], choice.unshown)
    said = "Whether gradient_checkpointing=false brings anything beside the rest was not shown."

    assert choice.verdict.name == "dataloader_num_workers=2 + gradient_checkpointing=false"
    for page in (overview(lab.folder).confirmed, decision(lab, choice), str(told)):
        assert said in page.replace("\\", "")
    assert choose(read_investigation(lab.folder, "90_final_config")).unshown == choice.unshown


def test_noise_does_not_hide_a_redundant_change(quick: Settings, bench: Bench) -> None:
    """Where the combination is known so badly that a change of 6 % may bring nothing in it, that is looked at; the one
    of 30 % can't be missed."""
    levels = contrast(quick, dataloader_num_workers=2, gradient_checkpointing=False)
    gains = {"dataloader_num_workers=2": 1.06, "gradient_checkpointing=false": 1.3}
    found = bench(lambda names: 0.3).compare(levels, "all")

    def suspected(low: float, high: float) -> list[str]:
        effect = Interval(mean=math.log(low * high) / 2, lower=math.log(low), upper=math.log(high), p=0.001, n=5)
        whole = replace(found, verdict=replace(found.verdict, effect=effect))
        return [label([pick]) for pick in may_be_redundant(whole, gains)]

    assert ["dataloader_num_workers=2"] == suspected(1.25, 1.45)
    assert [] == suspected(1.35, 1.4)


def test_what_was_chosen_is_weighed_by_what_confirmed_it(supported: Callable[..., Measured], quick: Settings) -> None:
    """The pairs that chose a change flatter it; the table of options has the figure that the decision rests on, and
    what the parameter file does not allow beside it."""
    chose, confirmed = supported(0.3, 1, dataloader_num_workers=2), supported(0.1, 1, dataloader_num_workers=2)
    other = supported(0.2, 1, gradient_checkpointing=False)
    barred = supported(0.08, 1, per_device_train_batch_size=16)
    choice = Choice(
        tested=[chose, other, barred],
        allowed=[chose, other],
        head_to_heads=[],
        confirmed=[confirmed],
        chosen=confirmed,
        left_out=[],
        settings=quick,
        before=None,
        after=None,
    )
    baseline = SimpleNamespace(projection=None, record=chose.record)
    evidence = SimpleNamespace(projected=lambda change: None)
    found = options(SimpleNamespace(baseline=baseline, evidence=evidence), choice)

    assert ["gradient_checkpointing=false", "dataloader_num_workers=2", "per_device_train_batch_size=16"] == [
        o.name for o in found[:-1]
    ]
    assert [False, True, False, False] == [o.chosen for o in found]
    assert [False, False, True, False] == [o.barred for o in found]
    assert found[1].saved == pytest.approx(1 - math.exp(-0.1), rel=0.05)


def refusal(found: Measured, again: Measured, settings: Settings) -> tuple[str, str]:
    """Return what the decision and the report say of a change that was measured `again`, and is not adopted."""
    choice = Choice(
        tested=[found],
        allowed=[found],
        head_to_heads=[],
        confirmed=[again],
        chosen=again,
        left_out=[],
        settings=settings,
        before=None,
        after=None,
    )
    (refused,) = decision_of(choice).refused
    return refused.why, str(final_conclusion(again.verdict, [found.verdict], [], []))


def test_a_gain_that_new_pairs_do_not_confirm_is_told_with_what_they_said(
    supported: Callable[..., Measured], quick: Settings
) -> None:
    """Nothing is adopted then, so nothing is said of what else is adopted. The report names no combination of one."""
    found = supported(0.3, 0, gradient_checkpointing=False)
    again = supported(0.02, 0, gradient_checkpointing=False)
    wide = Interval(mean=0.025, lower=-0.3, upper=0.35, p=0.8, n=7)
    undecided = replace(again.verdict, outcome=Outcome.INCONCLUSIVE, effect=wide, reason="too noisy to tell")
    again = replace(again, verdict=undecided)
    refused, told = refusal(found, again, quick)

    assert re.fullmatch(r".*fresh pairs, it was not confirmed: \+2\.\d % \[.*\], too noisy to tell", refused)
    assert "not confirmed. Too noisy to tell" in told
    assert "together" not in told


def test_a_change_is_not_held_against_what_nobody_adopts(supported: Callable[..., Measured], quick: Settings) -> None:
    """Another one was tried in fresh pairs, and not confirmed: of this one that says nothing."""
    found = supported(0.3, 0, gradient_checkpointing=False)
    again = supported(0.02, 0, per_device_train_batch_size=16)
    again = replace(again, verdict=replace(again.verdict, outcome=Outcome.INCONCLUSIVE, reason="too noisy to tell"))

    assert refusal(found, again, quick)[0] == "it was not measured once more in fresh pairs"


def test_what_pays_only_beside_other_settings_is_not_called_forbidden(supported: Callable[..., Measured]) -> None:
    """No permission would let it in, and the job's length is no reason: the run lacks what it was held beside."""
    own = supported(0.3, 0, gradient_checkpointing=False).verdict
    beside = replace(own, held_constant={"training_arguments.dataloader_num_workers": 2})
    told, forbidden = (str(final_conclusion(None, [one], [], [])) for one in (beside, own))

    assert "Supported beside settings that this run lacks" in told
    assert "not allowed by the parameter file" not in told
    assert "not allowed by the parameter file" in forbidden


@pytest.mark.parametrize("levels", [{}, {"per_device_train_batch_size": 16}], ids=["alone", "together"])
@pytest.mark.parametrize("failed", [Outcome.NOT_TESTABLE, Outcome.INCONCLUSIVE])
def test_what_could_not_be_measured_again_is_not_said_to_be(
    failed: Outcome, levels: dict, supported: Callable[..., Measured], quick: Settings
) -> None:
    """A combination that takes too much memory, or whose baseline failed, has no fresh pairs that speak against it."""
    found = supported(0.3, 0, gradient_checkpointing=False)
    again = supported(0.3, 0, gradient_checkpointing=False, **levels)
    lost = {"outcome": failed, "effect": None, "status": Status.OUT_OF_MEMORY, "reason": "out of memory: 20 GiB"}
    again = replace(again, verdict=replace(again.verdict, **lost))
    refused, told = refusal(found, again, quick)

    for said in (refused, told):
        assert "could not be measured" in said
        assert "out of memory: 20 GiB" in said.lower().replace("gib", "GiB")
        assert "not confirmed" not in said


OPEN = {
    "run_failed": "failed while",
    "in_noise": "noise",
    "other_losses": "say nothing of the change",
    "too_few": "say nothing of the change",
    "untried": "no time was left",
    "untestable": "be tested here",
}
"""What a headline says of a verdict that leaves its question open."""


def left_open(measured: Verdict) -> dict[str, Verdict]:
    """Return a verdict in each state that leaves its question open, under names of their own, with their reasons."""
    none = replace(measured, effect=None)
    found = {
        "run_failed": replace(none, outcome=Outcome.INCONCLUSIVE, status=Status.CRASHED),
        "in_noise": replace(measured, outcome=Outcome.INCONCLUSIVE, status=Status.OK),
        "other_losses": replace(measured, outcome=Outcome.INCONCLUSIVE, status=Status.OK, tells=False),
        "too_few": replace(none, outcome=Outcome.INCONCLUSIVE, status=Status.OK),
        "untried": replace(none, outcome=Outcome.INCONCLUSIVE, status=None),
        "untestable": replace(none, outcome=Outcome.NOT_TESTABLE, status=Status.OUT_OF_MEMORY),
    }
    return {state: replace(v, name=f"{state}=true", reason=f"since {state}") for state, v in found.items()}


@pytest.mark.parametrize("states", [s for n in (1, 2, 3) for s in itertools.combinations(["refuted", *OPEN], n)])
def test_a_headline_says_not_the_cause_of_what_was_tested_alone(
    states: tuple, supported: Callable[..., Measured]
) -> None:
    """A question of which any part is open is not answered; of which all is, nothing is known."""
    measured = supported(0.0, 0, optim="sgd").verdict
    verdicts = {"refuted": replace(measured, outcome=Outcome.REFUTED)} | left_open(measured)
    headline = str(conclusion("Compute", [verdicts[state] for state in states])).partition("\n")[0]

    limit = replace(verdicts["refuted"], meaning=Meaning.DIAGNOSTIC)
    with_limit = str(conclusion("Compute", [limit, *(verdicts[state] for state in states)])).partition("\n")[0]

    assert "not what limits" not in headline
    assert ("not what limits" in with_limit) == (states == ("refuted",))
    assert any(OPEN[state] in headline for state in states if state in OPEN) == (states != ("refuted",))
    one_way = "refuted" not in states and len({OPEN[state] for state in states}) == 1
    assert ("all of it" in headline) == one_way


@pytest.mark.parametrize(
    ("subject", "phase", "rank", "cleared"),
    [
        ("Data loading", "data", None, False),
        ("Overheads", "other", None, False),
        ("Overheads", "backward", None, True),
        ("Several processes", "other", 0, False),
        ("Several processes", "other", None, True),
    ],
)
def test_a_page_does_not_clear_what_it_asks_about_where_that_loses_time(
    subject: str, phase: str, rank: int | None, cleared: bool, supported: Callable[..., Measured]
) -> None:
    """Nothing that could be tried acts between the phases, and a third of the time may be lost there."""
    limit = supported(0.0, 0, optim="sgd").verdict
    refuted = replace(limit, outcome=Outcome.REFUTED, meaning=Meaning.DIAGNOSTIC)
    share = Interval(mean=0.31, lower=0.3, upper=0.32, p=0.0, n=9)
    lost = Suspect(phase=phase, share=share, why="it trains nothing", rank=rank)
    headline = str(conclusion(subject, [refuted], [lost])).partition("\n")[0]

    assert ("not what limits" in headline) == cleared
    assert ("31 % [30, 32]" in headline) != cleared


@pytest.fixture
def choice_of(quick: Settings) -> Callable[..., Choice]:
    """Makes a choice of what was tested: `choice_of([one, other], chosen=one)`."""

    def make(tested: Sequence[Measured], **about: Any) -> Choice:
        known = {"allowed": [], "head_to_heads": [], "confirmed": [], "chosen": None, "left_out": []}
        return Choice(tested=list(tested), settings=quick, before=None, after=None, **known | about)

    return make


@pytest.fixture
def decided(quick: Settings, supported: Callable[..., Measured]) -> Callable[[Choice], str]:
    """Writes decision.md of a choice, in a run that loses no time in any phase."""
    trial = supported(0.0, 0, optim="sgd").record
    facts = SimpleNamespace(throughput=SimpleNamespace(samples_per_second=1.0), observed={}, first_reads=None)
    lab = SimpleNamespace(
        settings=quick,
        machine="a machine",
        suspects=[],
        evidence=SimpleNamespace(projected=lambda change: None),
        baseline=SimpleNamespace(projection=None, unprojected="", courses=[], record=trial, facts=facts),
    )
    return lambda choice: decision(lab, choice).replace("\\", "")


def test_each_question_is_open_for_its_own_reason(
    supported: Callable[..., Measured], choice_of: Callable[..., Choice], decided: Callable[[Choice], str]
) -> None:
    """More pairs and a quieter machine are asked for where noise leaves a question open. Of any other the reason is
    told, and what no time was left for is not called inconclusive."""
    measured = supported(0.1, 0, optim="sgd")
    states = left_open(measured.verdict)
    choice = choice_of([replace(measured, verdict=v) for v in states.values()])
    written, told = decided(choice), str(final_conclusion(None, choice.verdicts, [], []))
    quieter, otherwise = (
        next(line for line in written.splitlines() if begins in line)
        for begins in ("on a quieter machine", "other than noise")
    )
    shown = str(conclusion("Compute", choice.verdicts))

    assert ["in_noise"] == [state for state in states if state in quieter]
    assert ["run_failed", "other_losses", "too_few"] == [state for state in states if f"since {state}" in otherwise]
    assert "Not reached in the time given: untried=true." in written
    assert not re.search(r"untried=true.*inconclusive", written)
    assert "This machine's noise leaves undecided: in_noise=true." in told
    assert "of their change: other_losses=true (since other_losses); too_few=true (since too_few)." in told
    assert all(f"since {state}" in shown for state in states if state != "in_noise")


def test_what_was_compared_beside_others_says_with_what(
    supported: Callable[..., Measured], choice_of: Callable[..., Choice]
) -> None:
    """In a sentence of its own, which has nothing of what else was asked of the change."""
    beside = supported(0.5, 0, dataloader_persistent_workers=True)
    beside = replace(beside, verdict=replace(beside.verdict, outcome=Outcome.SUPPORTED))
    asked = replace(beside, verdict=replace(beside.verdict, least=0.2))
    (count,) = beside.contrast.held_constant.values()

    for one in (beside, asked):
        (refused,) = decision_of(choice_of([one])).refused
        assert f"it was compared with dataloader_num_workers={count} in both arms, which this run lacks" == refused.why


@pytest.mark.parametrize("state", ["untried", "too_few", "in_noise", "run_failed", "untestable"])
@pytest.mark.parametrize("levels", [{}, {"per_device_train_batch_size": 16}], ids=["alone", "together"])
def test_what_is_not_confirmed_is_told_once(
    state: str,
    levels: dict,
    supported: Callable[..., Measured],
    choice_of: Callable[..., Choice],
    decided: Callable[[Choice], str],
) -> None:
    """The decision names what was chosen and why it is not adopted, in sentences, and repeats it under no other
    heading; a level that was not part of it has a line with a reason of its own."""
    found = supported(0.3, 0, gradient_checkpointing=False)
    barred = supported(0.2, 0, lora_r=8)
    chosen = supported(0.3, 0, gradient_checkpointing=False, **levels)
    verdict = replace(left_open(chosen.verdict)[state], name=chosen.verdict.name)
    chosen = replace(chosen, verdict=verdict)
    written = decided(choice_of([found, barred], allowed=[found], confirmed=[chosen], chosen=chosen))
    section = written.partition("## Decision\n\n")[2].partition("\n\n##")[0]
    said, *lines = section.split("\n")

    assert said.startswith(f"Change nothing yet. {chosen.verdict.name}")
    assert said.endswith(".")
    assert ("no time was left to measure it" in said) == (state == "untried")
    assert 1 == section.count("gradient_checkpointing=false")
    assert "left out" not in section
    assert [True] == [
        "lora_r=8" in line and "does not allow; `allow: {numerics: true, semantics: true}`" in line
        for line in lines
        if line
    ]


class Surveyed(dict):
    """The values of a run that makes no object."""

    objects = ()


def test_variables_that_are_left_out_are_named() -> None:
    """A program has no line for those that its command's environment holds."""
    run = Surveyed({"process.debug_environment": "CUDA_LAUNCH_BLOCKING=1 NCCL_DEBUG=INFO"})

    assert ["without CUDA_LAUNCH_BLOCKING=1 NCCL_DEBUG=INFO in the environment"] == in_code.words(
        {"process.debug_environment": False}, run
    )


def test_keeping_freed_memory_is_written_as_its_user_would_write_it() -> None:
    """A program has no line for it, and nobody knows the kit's own key: the variables of glibc are named."""
    run = Surveyed({"freed_memory": "returned"})
    kept, returned = (in_code.words({"freed_memory": one}, run) for one in ("kept", "returned"))

    assert ["MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0 in the environment of the command"] == kept
    assert [f"without {kept[0]}"] == returned


def test_nothing_shown_is_not_nothing_there(supported: Callable[..., Measured]) -> None:
    """Where noise leaves changes undecided, or the fast one is not allowed, the report does not say that none pays."""
    pays = supported(0.3, 0, per_device_train_batch_size=16).verdict
    unknown = replace(supported(0.0, 0, optim="sgd").verdict, outcome=Outcome.INCONCLUSIVE)

    refused, open_one = (str(final_conclusion(None, [v], [], [])) for v in (pays, unknown))

    assert "not allowed by the parameter file" in refused
    assert "Change nothing yet" in open_one
    assert "undecided: optim=sgd" in open_one


def test_a_challenger_is_judged_by_all_in_which_they_differ(quick: Settings) -> None:
    """An exact change against one in other arithmetic need not train the same: no loss speaks against it."""
    exact, rounded = contrast(quick, tokenize="once"), contrast(quick, precision="bf16")
    rival = Contrast(levels=exact.levels, against=rounded.levels, baseline=rounded.treatment, treatment=exact.treatment)

    assert (exact.meaning, rival.meaning) == (Meaning.EXACT, Meaning.NUMERICS)


def test_a_finalist_of_a_program_is_told_with_its_opponent(
    quick: Settings, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a program name one of the two alone, so the row of a head-to-head comparison has the names."""
    lab = bench(lambda names: 0.3)
    compare = lab.compare

    def of_a_program(*asked: Any) -> Measured:
        found = compare(*asked)
        return replace(found, verdict=replace(found.verdict, lines=["train.py:8 DataLoader(…): num_workers=2"]))

    monkeypatch.setattr(lab, "compare", of_a_program)
    rivals = [contrast(quick, dataloader_num_workers=n).levels for n in (1, 2)]
    _, found = head_to_head(lab, [Candidate(picks=picks, gain=0.3) for picks in rivals])

    assert ["dataloader_num_workers=2 against dataloader_num_workers=1"] == [m.verdict.title_in_full for m in found]


@pytest.mark.parametrize("levels", [{}, {"per_device_train_batch_size": 16}])
def test_how_the_choice_was_measured_is_told_as_it_was(supported: Callable[..., Measured], levels: dict) -> None:
    """One change is measured once more; only of several is it said that gains don't add. What was left out may not
    have been confirmed, which is no word on what it brings."""
    chosen = supported(0.3, 0, gradient_checkpointing=False, **levels).verdict
    told = str(final_conclusion(chosen, [chosen], ["optim=sgd (too noisy to tell)"], []))

    assert ("measured together" in told) == ("since gains don't add" in told) == bool(levels)
    assert ("measured once more in fresh pairs" in told) == (not levels)
    assert (
        "not missed beside the rest, not confirmed, or not paying in this job: optim=sgd (too noisy to tell)." in told
    )
    assert "brought nothing" not in told


def test_the_last_notebook_draws_a_change_in_two_families_once(quick: Settings, tmp_path: Path) -> None:
    """And beside it what fresh pairs said of it."""
    levels = {"per_device_train_batch_size": [16]}
    settings = replace(quick, data_loading={}, gradient_checkpointing=levels, sequence_length=levels)
    settings = override(replace(settings, compute={}, overheads={}), {"allow.semantics": True})
    truth = Truth(gain=lambda arm, purpose: 0.4 * (arm.label != "baseline"), noise=0.001)
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    lab = open_lab(loaded, tmp_path, "90_final_config", SimulatedMeasurer(truth, settings.budget))
    choice = choose(lab)
    cells = json.loads((ROOT / "notebooks" / "90_final_config.ipynb").read_text(encoding="utf-8"))["cells"]
    (source,) = (text for cell in cells if "report.intervals" in (text := "".join(cell["source"])))
    chart = eval(source, {"report": report, "lab": lab, "choice": choice})

    assert ["per_device_train_batch_size=16", "per_device_train_batch_size=16, in fresh pairs"] == sorted(
        row["arm"] for row in chart.rows
    )


JOB = {"job.samples": 64, "job.epochs": 1.0, "training_arguments.eval_strategy": "no"}
RUNS = {
    "LoRA with checkpointing": {"training_arguments.gradient_checkpointing_kwargs": {"every_n_layers": 2}},
    "tokenised once, padded": {
        "dataset.tokenize": "once",
        "dataset.padding": "max_length",
        "dataset.storage": "in_memory",
    },
    "packed": {"dataset.tokenize": "once", "dataset.padding": "packing", "dataset.max_length": 128},
    "grouped by length": {
        "dataset.tokenize": "once",
        "training_arguments.train_sampling_strategy": "group_by_length",
    },
    "whole model in bf16": {"peft": None, "training_arguments.bf16": True, "model.sdpa_backend": "math"},
    "own optimizer": {"optimizer_kwargs": {"foreach": True}, "dataset.batched_fetching": True},
    "one by one": {"dataset.tokenize": "once", "dataset.batched_fetching": False},
    "as a graph for any shape": {  # what is traced grows with the layers and with what is computed again
        "model.config.num_hidden_layers": 1,
        "peft": None,
        "training_arguments.gradient_checkpointing": False,
        "training_arguments.torch_compile": True,
        "training_arguments.torch_compile_backend": "eager",
        "model.torch_compile_dynamic": True,
    },
}
FOUR_BIT = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": "float32"}


def trained(settings: Settings, folder: Path, *launcher: str) -> list[float]:
    """The losses that the script of `settings` logs in its first four steps."""
    command = [sys.executable, *launcher, *words_of(settings, folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-20_000:]  # a launcher says more at the end than the rank that failed
    return losses_in(done.stdout)


def words_of(settings: Settings, folder: Path) -> list[str]:
    """The words of a command for Python that trains four steps by the script of `settings`, which is written."""
    path = folder / "train.py"
    path.write_text(script(settings), encoding="utf-8")
    return [str(path), "--max_steps", "4", "--output_dir", str(folder / "out")]


def losses_in(printed: str) -> list[float]:
    """The losses that Trainer logs."""
    return [float(found) for found in re.findall(r"'loss': '?([\d.]+)", printed)]


FORKS = """
import json, os, runpy, sys, traceback
import datasets, peft, torch, transformers.trainer
for line in sys.stdin:
    words, folder, printed = json.loads(line)
    if not (child := os.fork()):
        try:
            os.chdir(folder)
            out = os.open(printed, os.O_WRONLY | os.O_CREAT)
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs each script that it is told in a process of its own, forked from one that has imported what all of them need."""


@pytest.fixture(scope="module")
def trained_soon() -> Iterator[Callable[[Settings, Path], list[float]]]:
    """As `trained`, in an interpreter that is warm: it takes ten seconds less."""
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:

        def losses(settings: Settings, folder: Path) -> list[float]:
            printed = folder / "printed"
            forks.stdin.write(json.dumps([words_of(settings, folder), str(folder), str(printed)]) + "\n")
            forks.stdin.flush()
            assert forks.stdout.readline() == "0\n", printed.read_text()[-20_000:]
            return losses_in(printed.read_text())

        yield losses


OFTEN = ("LoRA with checkpointing",)
"""The runs that are trained by every test run; the others are for `make test-all`."""

ANEW = (*OFTEN, "as a graph for any shape")
"""The runs whose script is started in an interpreter of its own, as its user starts it."""


@pytest.mark.parametrize(
    "changes",
    [pytest.param(c, id=n, marks=() if n in OFTEN else pytest.mark.exhaustive) for n, c in RUNS.items()],
)
def test_the_script_trains_as_the_trial_did(
    changes: dict, smoke: Settings, measurer: LocalMeasurer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """final/train.py, run by itself, has the losses of the trial that chose it, and ends with a saved model."""
    train = trained if changes in [RUNS[name] for name in ANEW] else request.getfixturevalue("trained_soon")
    settings = override(smoke, JOB | {"training_arguments.logging_steps": 1, "name": "own"} | changes)
    try:  # the trial first, since the script reads the tokenizer that it makes
        trial = measurer.pool.launch(Arm(label="trial", settings=settings), "script").record
    finally:
        measurer.pool.end("script")
    losses = train(settings, tmp_path)

    assert len(losses) == 4
    assert losses == pytest.approx(trial.losses[:4], rel=1e-3)
    assert list((tmp_path / "out").glob("*.safetensors"))


@pytest.mark.exhaustive
def test_the_script_trains_random_weights_in_four_bits(
    smoke: Settings, tmp_path: Path, trained_soon: Callable[[Settings, Path], list[float]]
) -> None:
    """What was measured on random weights can be trained on them: they are stored, and quantised when loaded."""
    run = {"training_arguments.logging_steps": 1, "quantization": FOUR_BIT}
    losses = trained_soon(override(smoke, JOB | run), tmp_path)

    assert [loss == pytest.approx(math.log(512), rel=0.2) for loss in losses] == [True] * 4
    assert list((tmp_path / "out").glob("adapter_model.safetensors"))


def test_the_script_trains_as_many_samples_as_the_job_has(smoke: Settings, tmp_path: Path) -> None:
    """Where the data holds fewer than the job, it is met more often."""
    run = {"job.samples": 800, "job.epochs": 0.5, "training_arguments.logging_steps": 1}
    text = script(override(smoke, run))

    assert "args.num_train_epochs = 0.5 * 800 / len(raw)" in text


@pytest.mark.exhaustive
def test_one_of_several_processes_copies_the_data(smoke: Settings, tmp_path: Path) -> None:
    """The others read the copy once it is whole, and none writes over what another one reads."""
    data = tmp_path / "data"
    Dataset.from_list([{"text": f"the number {i} is a number"} for i in range(64)]).save_to_disk(data)
    run = {"dataset.name_or_path": str(data), "dataset.text_field": "text", "dataset.storage": "local_copy"}
    settings = override(smoke, JOB | run | {"processes": 2, "training_arguments.logging_steps": 1})
    losses = trained(settings, tmp_path, "-m", "torch.distributed.run", "--nproc-per-node", "2")

    assert len(losses) == 2 * 4  # each process prints those of both
    assert len(load_from_disk(tmp_path / "dataset")) == 64


def test_a_script_that_cannot_be_written_is_missed_with_a_reason(smoke: Settings) -> None:
    """Options by which processes exchange gradients have no argument of Trainer's each."""
    assert why_not(smoke) == ""
    assert "all of ddp, which the parameter file does" in why_not(override(smoke, {"ddp.bucket_cap_mb": 100}))


def test_the_script_is_plain(smoke: Settings) -> None:
    """It imports nothing of the kit, and no line of it is needlessly long."""
    text = script(smoke)
    modules = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}

    assert not any(module.startswith("slowstep") for module in modules)
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.exhaustive
def test_the_script_sets_its_process_as_the_trial_did(smoke: Settings) -> None:
    """Each setting of the section `process` has its line, and a script without any has none of them."""
    changes = {
        "process.num_threads": "torch.set_num_threads(2)",
        "process.detect_anomaly": "torch.autograd.set_detect_anomaly(False)",
        "process.deterministic_algorithms": "torch.use_deterministic_algorithms(False)",
        "process.cudnn_benchmark": "torch.backends.cudnn.benchmark = False",
        "process.expandable_segments": "expandable_segments:False",
        "process.garbage_collection": "gc.freeze()",
    }
    values = dict.fromkeys(changes, False) | {"process.num_threads": 2, "process.garbage_collection": "frozen"}
    text, plain = script(override(smoke, values)), script(smoke)

    assert all(line in text and line not in plain for line in changes.values())


@pytest.mark.exhaustive
def test_the_script_keeps_what_a_step_frees(smoke: Settings, tmp_path: Path) -> None:
    """As the trials do: even where glibc is told to give all of it back, a settled step takes no new pages."""
    (tmp_path / "train.py").write_text(script(smoke), encoding="utf-8")
    asking = """if True:
        import resource, torch, train
        def steps(count):
            for _ in range(count):
                tensors = [torch.ones(2**22) for _ in range(5)]
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        print(-steps(10) + steps(10))
        train.keep_freed_memory()
        print(-steps(10) + steps(10))
    """
    giving_back = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**17), "MALLOC_TRIM_THRESHOLD_": "0"}
    said = subprocess.check_output([sys.executable, "-c", asking], cwd=tmp_path, env=giving_back, text=True)
    left, kept = map(int, said.split())

    pages = 10 * 5 * 2**24 // resource.getpagesize()
    assert left > 0.9 * pages
    assert kept < 0.2 * pages  # a tensor finds no gap of its size now and then
