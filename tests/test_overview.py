"""What an investigation says at one glance: the overview, the summaries, the cards, the static drawings, the export."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import plotly.graph_objects as go
import pytest
import yaml
from nbconvert.filters import markdown2html
from plotly.offline import get_plotlyjs_version

from simulated_measurer import SHARES, SimulatedMeasurer, Truth
from slowstep.batch import investigations
from slowstep.batch.cleanup import forget_other_runs
from slowstep.batch.concluding import conclude_again
from slowstep.cli import export, load_and_check, report
from slowstep.cli.closing_lines import more_minutes, time_taken, unreached
from slowstep.cli.main import main
from slowstep.export.exported import Exported, exported, keys, metrics_of
from slowstep.factors import Arm
from slowstep.final.choice import choose
from slowstep.final.decision import decision_of
from slowstep.investigation import open_lab, read_investigation
from slowstep.investigation.lab import Lab
from slowstep.investigation.results import INTERRUPTED, UNDER_WAY, Decision, NotebookRun, Refused, Summary
from slowstep.judgement.intervals import Interval
from slowstep.judgement.verdict import Outcome, span
from slowstep.measure.measurer import ComparisonRequest, OnPairs
from slowstep.processes.lock import Busy, locked
from slowstep.records import ComparisonRecord, Environment, EventRecord, ObservationRecord, ProfileRecord, Status, Store
from slowstep.report import baseline_tables, tables
from slowstep.report.arm_charts import effects
from slowstep.report.cards import card
from slowstep.report.drawing import NARROW, svg
from slowstep.report.drawing.axes import nice
from slowstep.report.html import PLOTLY
from slowstep.report.index import page, write_index
from slowstep.report.overview_charts import step
from slowstep.report.prose import baseline_conclusion, conclusion, final_conclusion
from slowstep.report.read_overview import overview
from slowstep.report.summary import as_json, as_markdown, write_summary
from slowstep.settings import Loaded, Settings, override
from slowstep.settings.sections import SECTIONS
from slowstep.text.markdown import escape
from slowstep.text.numbers import signed
from slowstep.text.sentences import first_of
from slowstep.wording.causes import Cause, causes
from slowstep.wording.held_back import busy
from slowstep.wording.words import alone, duration, hours, not_measured_again
from slowstep_probe.profiled import no_profile

DOCS = Path(__file__).resolve().parents[1] / "docs"

ASKED = {
    "data_loading": {"tokenize": ["once"]},
    "gradient_checkpointing": {"gradient_checkpointing": [False], "per_device_train_batch_size": [8]},
    "sequence_length": {},
    "compute": {},
    "overheads": {"logging_steps": [100]},
    "job.epochs": 3,
    "job.price_per_hour": 2.0,
    "budget.find_batch": False,
}

HEALTHY = {"forward": 0.3, "backward": 0.6, "optimizer": 0.1}
"""The phases of a step that waits for nothing."""

Concluded = Callable[..., Path]


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, type], Path]:
    """What was concluded before, by what was asked."""
    return {}


@pytest.fixture
def concluded(
    quick: Settings,
    known: dict[tuple[str, type], Path],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Concluded:
    """Concludes an investigation over simulated trials of known gains, and returns its folder.

    What was concluded before in an empty folder is copied.
    """

    def make(
        gains: dict[str, float],
        phases: Mapping[str, float] = HEALTHY,
        growth: Mapping[str, float] = MappingProxyType({}),
        measurer: type[SimulatedMeasurer] = SimulatedMeasurer,
        **changes: object,
    ) -> Path:
        settings = override(quick, ASKED | changes)
        folder, asked = tmp_path / settings.name, (repr((gains, dict(phases), dict(growth), changes)), measurer)
        if (fresh := not folder.exists()) and asked in known:
            return Path(shutil.copytree(known[asked], folder))

        def gain(arm: Arm, purpose: str) -> float:
            return gains.get(arm.label, sum(gains.get(part, 0.0) for part in arm.label.split(" + ")))

        truth = Truth(gain=gain, phases=phases, growth=growth)

        def lab(notebook: str) -> Lab:
            loaded = Loaded(settings=settings, source="quick.yaml", places={})
            return open_lab(loaded, tmp_path, notebook, measurer(truth, settings.budget))

        baseline, final = lab("00_baseline"), lab("90_final_config")
        baseline.rank()
        baseline.conclude()
        final.conclude(decision=decision_of(choose(final)))
        for one in (baseline, final):
            run = NotebookRun(notebook=one.notebook, status="ok", report=f"{one.notebook}.html", machine="a machine")
            one.evidence.store.write(run, "notebooks", one.notebook)
        if fresh:
            known[asked] = Path(shutil.copytree(folder, tmp_path_factory.mktemp("concluded") / folder.name))
        return baseline.folder

    return make


def test_what_is_adopted_tells_what_it_still_loses(concluded: Concluded) -> None:
    """Its own waits are named as shares of its own time, in every form of the answer."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, {"data": 0.2, "forward": 0.2, "backward": 0.6})
    found = overview(folder)
    write_summary(folder, found)

    (one,) = found.remains
    assert one.startswith("Data wait takes 20 %")
    assert one.endswith("Without that time the run would be 25 % [25, 25] faster still.")
    assert one in (folder / "summary.md").read_text().replace("\\", "")
    assert [{"text": one, "phase": "data"}] == json.loads((folder / "summary.json").read_text())["remaining"]
    assert one in page([found]).replace("&nbsp;", " ")


def test_what_is_adopted_and_loses_nothing_says_nothing(concluded: Concluded) -> None:
    """That is known as far as its steps go, and no section of a report stands empty for it."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}, HEALTHY))

    assert found.decision.adopted
    assert [] == found.remains == as_json(found)["remaining"]
    assert "still lost" not in as_markdown(found) + page([found])
    assert "no phase of the run loses time that is worth a change; a stall rarer than one in " in found.confirmed


def test_what_pays_comes_first_and_what_is_not_allowed_says_how_to_allow_it(concluded: Concluded) -> None:
    """Allowed gains are things to do, the largest first; a larger batch is other training, which the file forbids."""
    gains = {"tokenize=once": 0.2, "gradient_checkpointing=false": 0.4, "per_device_train_batch_size=8": 0.6}
    found = overview(concluded(gains, SHARES, **{"allow.semantics": False}))

    assert ["training_arguments.gradient_checkpointing: false", "dataset.tokenize: once"] == [
        action.what for action in found.actions
    ]
    assert [("per_device_train_batch_size=8", "allow: {numerics: true, semantics: true}")] == [
        (r.verdict.name, r.remedy) for r in found.beyond
    ]
    assert {v.name for v in found.decision.parts} == set(found.decision.adopted.name.split(" + "))
    assert found.decision.after.seconds < found.decision.before.seconds
    assert "in place of" in found.answer
    assert "USD" in found.answer or found.decision.before.currency in found.answer


def test_a_step_before_and_after_is_of_the_same_samples(concluded: Concluded) -> None:
    """The ratio of both is the measured gain, whatever the batch: 40 % more throughput, so 1/1.4 of the time."""
    found = overview(concluded({"per_device_train_batch_size=8": 0.4}, **{"allow.semantics": True}))
    before, after = (sum(s.values()) for s in (found.decision.step_before, found.decision.step_after))

    assert before / after == pytest.approx(1.4, rel=0.03)


@pytest.mark.parametrize(
    ("longer", "said"), [(0.7, "in place of 1.0 s, 30 % less"), (1.04, "in place of 1.0 s, 4.0 % more")]
)
def test_a_drawn_step_says_whether_it_takes_less_time_or_more(longer: float, said: str, concluded: Concluded) -> None:
    """A few very long steps may make a step longer on the mean, while the pair in the middle has shown a gain."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    adopted = found.decision.adopted
    by_middle = replace(adopted, effect=replace(adopted.effect, median=True))
    sides = {"step_before": {"forward": 1.0}, "step_after": {"forward": longer}}
    told = step(replace(found, decided=replace(found.decision, adopted=by_middle, **sides))).description

    assert said in told
    assert f"the pair in the middle shows {span(adopted.effect)}" in told


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("data", "Data wait takes 28 % of a step, forward 35 % and backward 34 %."),
        ("", "Forward takes 35 % of a step, backward 34 % and data wait 28 %."),
    ],
)
def test_a_drawn_step_begins_with_what_the_headline_says(cause: str, said: str, concluded: Concluded) -> None:
    """Below "Data wait takes 28 %", that most of a step is something else would argue against it."""
    found = overview(concluded({}))
    shares = {"data": 0.28, "forward": 0.35, "backward": 0.34, "other": 0.03}
    causes = [Cause(factor=None, phase=cause, ratio=1.4, text="")] if cause else []

    assert said == step(replace(found, shares=shares, causes=causes, decided=Decision())).description


def test_what_to_do_says_what_it_is_now_and_what_becomes_of_the_memory(concluded: Concluded) -> None:
    """A reader knows what the run has today, and whether the change fits."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    found = overview(folder)

    assert ["now true; training stays the same"] == [action.kind for action in found.actions]
    assert found.memory == "The peak of memory on the host becomes 1.00 GiB (now 1.00 GiB; a trial may take 16.00 GiB)."
    assert found.memory in page([found])
    assert found.memory in as_markdown(found)
    assert as_json(found)["memory_bytes"] == {"before": 2**30, "after": 2**30}


def test_a_job_of_fewer_tokens_is_told_apart_from_a_faster_one(concluded: Concluded) -> None:
    """Its hours fall by both, and its throughput is that of a token."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    shorter = replace(found, decided=replace(found.decision, tokens=0.5))

    assert found.answer.startswith("With gradient_checkpointing=false, the job takes ")
    assert "each sample then has fewer tokens, so the job gets shorter by more than that" in shorter.answer


def test_the_answer_says_what_was_shown_and_may_not_be_adopted(concluded: Concluded) -> None:
    """That nothing was shown would not be true."""
    found = overview(concluded({"per_device_train_batch_size=8": 0.6}, **{"allow.semantics": False}))

    assert "throughput was shown with per_device_train_batch_size=8" in found.answer
    assert found.headline.endswith("which is not adopted.")
    assert found.beside.startswith("It changes training (")
    assert replace(found, causes=[]).answer == found.answer


def test_an_allowed_level_is_no_longer_refused(concluded: Concluded) -> None:
    """What the remedy names is what lets it in."""
    gains = {"per_device_train_batch_size=8": 0.6}
    (refused,) = overview(concluded(gains, **{"allow.semantics": False})).beyond
    remedy = yaml.safe_load(refused.remedy)
    allowed = overview(concluded(gains, **{f"allow.{key}": value for key, value in remedy["allow"].items()}))

    assert allowed.beyond == []
    assert ["training_arguments.per_device_train_batch_size: 8"] == [a.what.split(";")[0] for a in allowed.actions]


@pytest.mark.parametrize("failed", [1, 2, 3])
def test_the_answer_says_that_most_could_not_be_tested(failed: int, concluded: Concluded) -> None:
    """No cause was shown then, and the run is not known to be healthy. Where few could not, the list says so."""
    found = overview(concluded({}))
    known = [
        replace(v, outcome=Outcome.NOT_TESTABLE if i < failed else Outcome.REFUTED, reason="the trial failed: no disk")
        for i, v in enumerate([found.verdicts[0]] * 4)
    ]
    answer = replace(found, verdicts=known, causes=[], decided=Decision()).answer

    said = f"{failed} of 4 hypotheses could not be tested here (the trial failed: no disk)."
    assert (said in answer) is (failed >= 2)


def test_a_machine_that_does_something_else_is_called_busy(concluded: Concluded) -> None:
    """Who reads that little could be told learns why: most blocks were interrupted, by whom, and what would help."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, **{"allow.semantics": False})
    store = Store(folder / "records")
    quiet = overview(folder).certainty
    taken = "other processes took 48 % of the processor time"
    for name in store.names("comparisons"):
        kept = store.read(ComparisonRecord, "comparisons", name)
        disturbed = [replace(p, baseline=replace(p.baseline, interrupted=taken)) for p in kept.pairs]
        store.write(replace(kept, pairs=disturbed), "comparisons", name)
    told = overview(folder).certainty

    assert "processor time" not in quiet
    assert told.startswith(quiet)
    assert re.search(r"In \d+ of \d+ blocks other processes took part of the processor time", told)
    hot = "the device's clock was held down (thermal)"
    assert busy([SimpleNamespace(interrupted=why) for why in (hot, hot, hot, taken)]) == (
        f"In 3 of 4 blocks {hot}, and in 1 of 4 blocks other processes took part of the processor time: the same "
        "minutes show more where nothing else disturbs the run."
    )


def test_noise_that_leaves_all_open_is_part_of_the_answer(concluded: Concluded) -> None:
    """Whoever reads that nothing was shown learns beside it how large a gain had to be, and reads it once."""
    found = overview(concluded({}))
    noisy = replace(found, noise=7.0)
    said = "a few pairs show no gain below 600 %"

    assert said not in found.answer
    assert said in noisy.beside
    assert page([noisy]).replace("&nbsp;", " ").count(said) == as_markdown(noisy).count(said) == 1


def test_a_cause_says_that_fresh_pairs_did_not_confirm_it(concluded: Concluded) -> None:
    """The index and the page of its section doubt it beside its figure; neither says that it can be set as it is."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    (shown,) = found.decision.parts
    doubt = "fresh pairs did not confirm it (+7.5 % [-2.2, +17])"
    doubted = replace(shown, doubt=doubt)
    (cause,) = causes([doubted], [], 0.05)
    section = str(conclusion("Compute", [doubted]))

    assert "Fresh pairs did not confirm it" in cause.text
    assert "Fresh pairs did not confirm it" in section
    assert "can be set as it is" not in section
    assert doubt in page([replace(found, verdicts=[doubted])]).replace("&nbsp;", " ")


@pytest.mark.parametrize(("as_it_is", "changed", "told"), [(92, 0, True), (4, 96, False)])
def test_a_quota_that_stops_the_run_is_part_of_the_answer(
    as_it_is: int, changed: int, told: bool, concluded: Concluded
) -> None:
    """No change of the program would show it. It is told of the run as it is, and not of what was compared with it."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    store = Store(folder / "records")
    for name in store.names("comparisons"):
        kept = store.read(ComparisonRecord, "comparisons", name)
        stops = as_it_is if len(set(kept.arms)) == 1 else changed
        stopped = partial(replace, quota_periods=100, quota_used_up=stops)
        held = [replace(p, baseline=stopped(p.baseline), treatment=stopped(p.treatment)) for p in kept.pairs]
        store.write(replace(kept, pairs=held), "comparisons", name)
    found = overview(folder)

    assert ("is used up in 92 % of its periods" in found.answer) is told
    assert ("quota" in page([found])) is told


def test_a_level_that_brings_more_than_the_adopted_one_of_its_factor_is_named(concluded: Concluded) -> None:
    """Padding to the longest is allowed and adopted; packing, which brings more, is other training."""
    levels = {"data_loading": {"padding": ["longest", "packing"]}, "dataset.padding": "max_length"}
    gains = {"padding=longest": 0.11, "padding=packing": 0.6}
    found = overview(concluded(gains, SHARES, **levels, **{"allow.semantics": False}))

    assert ["padding=longest"] == [v.name for v in found.decision.parts]
    assert ["padding=packing"] == [r.verdict.name for r in found.beyond]


def test_levels_that_pay_only_together_are_named(concluded: Concluded) -> None:
    """A larger batch of shorter examples is faster, where neither is by itself; it is said what would let it in."""
    together = "max_length=96 + per_device_train_batch_size=16"
    matrix = {"sequence_length": {"max_length": [96], "per_device_train_batch_size": [16]}}
    levels = matrix | {"gradient_checkpointing": {}, "allow.semantics": False}
    found = overview(concluded({together: 0.4}, **levels))

    assert [(together, "allow: {numerics: true, semantics: true}")] == [
        (r.verdict.name, r.remedy) for r in found.beyond
    ]


def test_what_to_do_holds_all_that_is_adopted(concluded: Concluded) -> None:
    """A part that was not shown by itself is named, too, without a gain of its own."""
    known = overview(concluded({"gradient_checkpointing=false": 0.4}))
    more = known.decision.adopted.overrides | {"dataset.max_length": 96}
    decided = replace(known.decision, adopted=replace(known.decision.adopted, overrides=more))
    found = replace(known, decided=decided)

    assert known.single
    assert not found.single
    assert ["training_arguments.gradient_checkpointing: false", "dataset.max_length: 96"] == [
        action.what for action in found.actions
    ]
    assert [True, False] == [bool(action.gain) for action in found.actions]
    assert "`dataset.max_length: 96`: not shown to pay by itself" in as_markdown(found)
    assert "dataset.max_length: 96" in page([found])
    assert "All together" in as_markdown(found)


def test_what_to_do_never_asks_for_two_values_of_one_setting(concluded: Concluded) -> None:
    """What a change was measured beside gives way to what is adopted with it."""
    known = overview(concluded({"gradient_checkpointing=false": 0.4}))
    beside = {"training_arguments.tf32": False}
    parts = [replace(part, overrides=part.overrides | beside) for part in known.decision.parts]
    more = known.decision.adopted.overrides | {"training_arguments.tf32": True}
    decided = replace(known.decision, adopted=replace(known.decision.adopted, overrides=more), parts=parts)
    found = replace(known, decided=decided)

    assert ["training_arguments.gradient_checkpointing: false", "training_arguments.tf32: true"] == [
        action.what for action in found.actions
    ]


def test_lines_never_ask_for_two_values_of_one_argument(concluded: Concluded) -> None:
    """Neither on the page nor in its data: a line that is of the whole wins, and what only a part has stays."""
    known = overview(concluded({"gradient_checkpointing=false": 0.4}))
    place = "train.py:8 TrainingArguments(…)"
    adopted = replace(known.decision.adopted, lines=[f"{place}: torch_compile=True, tf32=True"])
    (part,) = known.decision.parts
    parts = [replace(part, lines=[f"{place}: torch_compile=True, tf32=False", "train.py:9: without autocast"])]
    found = replace(known, decided=replace(known.decision, adopted=adopted, parts=parts))

    assert [f"{place}: torch_compile=True; train.py:9: without autocast"] == [action.what for action in found.actions]
    assert [[f"{place}: torch_compile=True", "train.py:9: without autocast"]] == [
        one["where"] for one in as_json(found)["changes"]
    ]


def test_what_to_do_in_a_program_names_its_lines(concluded: Concluded) -> None:
    """What was not shown by itself has its place in the code, too."""
    known = overview(concluded({"gradient_checkpointing=false": 0.4}))
    more = known.decision.adopted.overrides | {"training_arguments.dataloader_pin_memory": True}
    lines = ["train.py:8 DataLoader(…): num_workers=4, pin_memory=True", "train.py:30: without autocast"]
    adopted = replace(known.decision.adopted, overrides=more, lines=lines)
    parts = [replace(part, lines=["train.py:8 DataLoader(…): num_workers=4"]) for part in known.decision.parts]
    found = replace(known, decided=replace(known.decision, adopted=adopted, parts=parts))

    assert [
        "train.py:8 DataLoader(…): num_workers=4",
        "train.py:8 DataLoader(…): pin_memory=True; train.py:30: without autocast",
    ] == [action.what for action in found.actions]


@pytest.mark.parametrize(("lost", "told"), [(0.7, True), (0.1, False)])
def test_more_time_lost_in_code_than_the_changes_bring_stands_in_the_answer(
    lost: float, told: bool, concluded: Concluded
) -> None:
    """Whoever reads one sentence must not take a small change of a setting for all there is."""
    known = overview(concluded({"gradient_checkpointing=false": 0.4}))
    share = Interval(mean=lost, lower=lost - 0.02, upper=lost + 0.02, p=0.0, n=50)
    cause = Cause(
        factor=None, phase="data", ratio=1 / (1 - lost), text="", share=share, headline="Data wait takes most."
    )
    found = replace(known, causes=[cause])

    below = Cause(factor="freed_memory", phase=None, ratio=1.9, text="")

    assert told == ("More is lost elsewhere: Data wait takes most." in found.answer)
    assert told == ("More is lost elsewhere" in replace(known, causes=[below, cause]).answer)


def test_levels_that_pay_by_themselves_are_not_named_together(concluded: Concluded) -> None:
    """A reader who allows both gets both."""
    matrix = {"sequence_length": {"max_length": [96], "per_device_train_batch_size": [16]}}
    levels = matrix | {"gradient_checkpointing": {}, "allow.semantics": False}
    found = overview(concluded({"max_length=96": 0.3, "per_device_train_batch_size=16": 0.4}, **levels))

    assert ["per_device_train_batch_size=16", "max_length=96"] == [r.verdict.name for r in found.beyond]


def test_a_change_with_its_condition_is_one_thing_to_do(concluded: Concluded) -> None:
    """A deeper queue exists only with workers: both are adopted as one change, and neither is refused."""
    levels = {"data_loading": {"dataloader_prefetch_factor": [4]}}
    found = overview(concluded({"dataloader_prefetch_factor=4": 0.3}, SHARES, **levels))
    (action,) = found.actions

    assert "dataloader_prefetch_factor: 4" in action.what
    assert "dataloader_num_workers" in action.what
    assert found.beyond == []
    assert "All together" not in as_markdown(found)
    assert "Measured once more, by" in as_markdown(found)


@pytest.mark.parametrize(
    ("drop", "said"),
    [
        (["summaries/90_final_config"], "Nothing is decided yet: 90_final_config has not run."),
        (
            ["summaries/90_final_config", "summaries/00_baseline"],
            "Nothing is known yet: the baseline was not measured.",
        ),
    ],
)
def test_an_unfinished_investigation_says_how_far_it_is(concluded: Concluded, drop: list[str], said: str) -> None:
    """It claims neither that nothing was found nor that nothing was trained; its page and its summary can be drawn."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    for name in drop:
        (folder / "records" / f"{name}.json").unlink()
        (folder / "records" / "notebooks" / f"{Path(name).name}.json").unlink()
    found = overview(folder)

    assert found.answer == said
    assert said in page([found])
    assert json.loads(json.dumps(as_json(found)))["answer"] == said


def test_an_investigation_under_way_is_told_to_be(concluded: Concluded) -> None:
    """Its notebooks are not interrupted while a process works in the folder, and are as soon as it has ended."""
    folder = concluded({})
    store = Store(folder / "records")
    for notebook in ("00_baseline", "90_final_config"):
        (folder / "records" / "summaries" / f"{notebook}.json").unlink()
        store.write(NotebookRun(notebook=notebook, status=INTERRUPTED), "notebooks", notebook)
    with locked(folder):
        found = overview(folder)
    after = overview(folder)

    assert {run.status for run in found.runs} == {UNDER_WAY}
    assert found.answer == "Nothing is known yet: the baseline is under way."
    assert UNDER_WAY in page([found])
    assert {run.status for run in after.runs} == {INTERRUPTED}
    assert after.answer == "Nothing is known yet: the baseline was not measured."


def test_a_notebook_that_failed_is_the_reason(concluded: Concluded) -> None:
    """Its own words stand in the answer."""
    folder = concluded({})
    for kind in ("summaries/00_baseline", "summaries/90_final_config"):
        (folder / "records" / f"{kind}.json").unlink()
    run = NotebookRun(notebook="00_baseline", status="failed", reason="the data is gone.")
    Store(folder / "records").write(run, "notebooks", "00_baseline")

    assert overview(folder).answer == "Nothing is known yet: 00_baseline failed: the data is gone."


def test_an_interval_without_end_is_drawn_and_told(concluded: Concluded) -> None:
    """A baseline of one pair has an infinite interval: the page is drawn, and the JSON stays JSON."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    found = overview(folder)
    jobs = {name: replace(getattr(found.decision, name), high=float("inf")) for name in ("before", "after")}
    endless = replace(found, decided=replace(found.decision, **jobs), noise=float("inf"))
    write_summary(folder, endless)

    assert "<svg" in page([endless])
    assert "nf %" not in page([endless])
    assert json.loads((folder / "summary.json").read_text(), parse_constant=pytest.fail)["detectable_ratio"] is None


@pytest.mark.parametrize(
    "edited",
    [
        {"training_arguments.gradient_checkpointing": False, "gradient_checkpointing": {"use_reentrant": [True]}},
        {"training_arguments.per_device_train_batch_size": 1},
        {"gradient_checkpointing": {}},
    ],
)
def test_what_was_concluded_of_another_run_is_not_told(
    concluded: Concluded, quick: Settings, edited: dict[str, object]
) -> None:
    """The file is edited, and a new run stops after its baseline: old sections say nothing of it, measured or asked."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES)
    old = overview(folder)
    _tested(override(quick, ASKED), folder, "20_gradient_checkpointing", "gradient_checkpointing")
    settings = override(quick, ASKED | edited)
    forget_other_runs(settings, Store(folder / "records"))
    _tested(settings, folder, "00_baseline")
    found = overview(folder)

    assert "gradient_checkpointing=false" in old.answer
    assert found.answer == "Nothing is decided yet: 90_final_config has not run."
    assert not found.actions
    assert not [v for v in found.verdicts if v.name == "gradient_checkpointing=false"]


def test_what_was_concluded_elsewhere_is_not_told_beside_what_is_measured_here(
    concluded: Concluded, quick: Settings
) -> None:
    """Summaries of the same run on another machine stay, and don't stand among those of this one."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES)
    _tested(override(quick, ASKED), folder, "00_baseline", measurer=OnAnotherMachine)

    assert overview(folder).answer == "Nothing is decided yet: 90_final_config has not run."


def test_what_another_version_concluded_is_concluded_again_where_reports_are_drawn(concluded: Concluded) -> None:
    """A page is drawn by the rules of today, so the index judges by them as well, from the same records."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES)
    store, name = Store(folder / "records"), "90_final_config"
    known, told = store.read(Summary, "summaries", name), overview(folder)
    before = [replace(v, outcome=Outcome.INCONCLUSIVE, reason="by other rules") for v in known.verdicts]
    old = replace(known, verdicts=before, decision=Decision(), code="of another version")
    store.write(old, "summaries", name)
    store.write(replace(known, notebook="later"), "comparisons", "later")  # no record that it looked at
    undecided = overview(folder)

    assert "Another version of slowstep has judged these records" in undecided.certainty
    assert "Another version" not in told.certainty
    assert undecided.answer != told.answer
    assert conclude_again(folder, SECTIONS) == {}
    assert store.read(Summary, "summaries", name) == known
    assert (overview(folder).answer, overview(folder).verdicts) == (told.answer, told.verdicts)


def test_what_cannot_be_concluded_again_stays_and_says_so(concluded: Concluded) -> None:
    """Its records are damaged, say. What was concluded of them is still worth reading."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES)
    store, name = Store(folder / "records"), "90_final_config"
    old = replace(store.read(Summary, "summaries", name), code="of another version")
    store.write(old, "summaries", name)
    for path in (folder / "records" / "comparisons").iterdir():
        path.write_text("{")
    failed = conclude_again(folder, SECTIONS)

    assert [section.notebook for section in failed] == [name]
    assert "was not measured" in str(*failed.values())
    assert store.read(Summary, "summaries", name) == old
    assert "Another version of slowstep has judged these records" in overview(folder).certainty


def test_what_is_asked_again_of_the_same_run_stays(concluded: Concluded, quick: Settings) -> None:
    """Nothing was edited, so what was concluded still holds."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES)
    old = overview(folder)
    forget_other_runs(override(quick, ASKED), Store(folder / "records"))

    assert overview(folder).answer == old.answer
    assert overview(folder).actions == old.actions


class OnAnotherMachine(SimulatedMeasurer):
    """Measures on a machine with more cores."""

    def describe(self) -> Environment:
        here = super().describe()
        return replace(here, machine=here.machine | {"cores": 64})


def _tested(
    settings: Settings,
    folder: Path,
    notebook: str,
    section: str = "",
    measurer: type[SimulatedMeasurer] = SimulatedMeasurer,
) -> None:
    """Conclude one notebook of an investigation over simulated trials that no change makes faster."""
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    lab = open_lab(loaded, folder.parent, notebook, measurer(Truth(), settings.budget))
    if section:
        lab.test(section)
    lab.conclude()


def test_what_is_decided_is_told_before_its_notebook_has_run(quick: Settings, tmp_path: Path) -> None:
    """Measuring was ended after the plan: each comparison that was decided stands in the index, and no other."""
    settings = override(quick, ASKED)
    truth = Truth(gain=lambda arm, purpose: 0.4 * (arm.label == "gradient_checkpointing=false"))
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    lab = open_lab(loaded, tmp_path, "00_baseline", SimulatedMeasurer(truth, settings.budget))
    lab.conclude()
    before = overview(lab.folder)
    lab.pursue()
    after = overview(lab.folder)

    assert "gradient_checkpointing=false" not in [v.name for v in before.verdicts]
    assert after.verdicts[0].name == "gradient_checkpointing=false"
    assert after.verdicts[0].outcome is Outcome.SUPPORTED
    assert not after.untried
    assert after.answer.startswith("Nothing is decided yet: 90_final_config has not run.")
    assert "tried so far" not in page([after])


class CrashesLater(SimulatedMeasurer):
    """Measures a run that crashes once two pairs are measured, in every comparison."""

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord:
        record = super().compare(request, on_pairs)
        crashed = replace(record.baseline, status=Status.CRASHED, reason="IndexError: index 5012 is out of bounds")
        return replace(record, baseline=crashed, pairs=record.pairs[:2])


class MeasuresNoEvent(SimulatedMeasurer):
    """Measures no saves and no evaluations."""

    def events(self, arm: Arm) -> EventRecord:
        return EventRecord(seconds={}, failed={"launch": "no time was left"})


def test_every_page_that_tells_the_job_says_what_it_leaves_out(concluded: Concluded) -> None:
    """A reader of the answer, of 00_baseline, of the summary or of the decision knows that no save is counted."""
    gains = {"gradient_checkpointing=false": 0.4}
    folder = concluded(gains, measurer=MeasuresNoEvent)
    found, baseline = overview(folder), read_investigation(folder, "00_baseline").baseline
    left_out = "saving, which could not be measured (no time was left)"

    assert f"The time of the job leaves out {left_out}." in found.beside
    assert left_out in as_markdown(found).replace("\\", "")
    assert left_out == as_json(found)["job"]["before"]["left_out"]
    assert left_out in str(baseline_conclusion(baseline, [], 0.05)).replace("\\", "")
    assert left_out in repr(baseline_tables.job(baseline))
    assert left_out in repr(baseline_tables.before_after(baseline, found.decision.after))
    assert "leaves out" not in overview(concluded(gains, **{"training_arguments.save_strategy": "no"})).answer


class CrashesBesideItself(CrashesLater):
    """Measures a run that crashes in the comparison with itself alone."""

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord:
        return (
            super().compare(request, on_pairs) if request.twin else SimulatedMeasurer.compare(self, request, on_pairs)
        )


class CrashesByItself(SimulatedMeasurer):
    """Measures a run that crashes when it trains for longer."""

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        record = super().observe(arm, steps, seconds)
        crashed = replace(record.trial, status=Status.CRASHED, reason="IndexError: index 5012 is out of bounds")
        return replace(record, trial=crashed)


@pytest.mark.parametrize("measurer", [CrashesLater, CrashesBesideItself, CrashesByItself])
def test_a_run_that_fails_later_is_said_to_first(
    concluded: Concluded, quick: Settings, measurer: type[SimulatedMeasurer]
) -> None:
    """The user learns that the run crashes, in the answer and in 00_baseline, and reads no job or noise without end."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES, measurer=measurer)
    found, baseline = overview(folder), read_investigation(folder, "00_baseline").baseline
    written = str(baseline_conclusion(baseline, [], 0.05))
    how = r"he run itself fails after about \d[\d,]* steps \(crashed: IndexError: index 5012 is out of bounds\)"

    assert re.match(f"T{how}\\. ", found.answer)
    assert re.match(rf"\*\*T{how}\.\*\* ", written)
    assert ("The real job takes" in written) is (measurer is CrashesByItself)
    assert not re.search(r"\binf\b|over \+", written + found.answer + as_markdown(found) + page([found]))
    assert (found.decision.adopted is None) is (measurer is CrashesLater)


def test_an_answer_says_that_the_run_failed_in_most_comparisons(concluded: Concluded) -> None:
    """Then it is not said that no change was shown to be faster, as if the changes had been tried."""
    folder = concluded({"gradient_checkpointing=false": 0.4}, SHARES, measurer=CrashesLater)
    found = overview(folder)
    compared = len([v for v in found.verdicts if v.status])

    assert (
        f"{compared} of {compared} comparisons say nothing of their change: the baseline itself failed" in found.answer
    )
    assert found.answer.endswith("No change can be shown to be faster before the run trains to the end.")
    assert "noise leaves undecided" not in str(final_conclusion(None, found.verdicts, [], []))


def test_a_run_without_a_cause_says_so(concluded: Concluded) -> None:
    """Nothing is proposed, and the time of a step is still shown."""
    folder = concluded({})
    found = overview(folder)

    assert found.answer.startswith("No cause was shown")
    assert "not profiled" not in found.answer
    assert found.actions == found.beyond == []
    assert "share of a step, %" in page([found])


class IsNotProfiled(SimulatedMeasurer):
    """Has no time left for a profile."""

    def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
        return no_profile("no time was left for it")


def test_a_run_without_a_profile_is_not_called_one_without_a_cause(concluded: Concluded) -> None:
    """What only a profile tells, a loop in a pass say, nobody has looked for: the answer says so and why."""
    found = overview(concluded({}, measurer=IsNotProfiled))
    told = "The run was not profiled (no time was left for it), so time that is lost within the passes could not be"

    assert told in found.answer
    assert told in as_markdown(found).replace("\\", "")


def test_a_change_that_was_shown_by_itself_is_never_said_to_be_unknown(concluded: Concluded) -> None:
    """It names no cause where it was compared beside what the run lacks; that is no reason to call it unknown."""
    change = "dataloader_prefetch_factor=8"
    asked = {"data_loading": {"dataloader_prefetch_factor": [8]}, "training_arguments.dataloader_num_workers": 0}
    found = overview(concluded({change: 0.3}, **{"gradient_checkpointing": {}} | asked))
    unknown = replace(found, decided=replace(found.decision, parts=[]))

    assert change in found.decision.adopted.name
    assert found.causes == []
    assert "No cause was shown" not in found.answer
    assert "No cause was shown: no single change is known to bring that." in unknown.answer


@pytest.mark.parametrize("gains", [{}, {"gradient_checkpointing=false": 0.4}])
@pytest.mark.parametrize(("factor", "how", "passes"), [(6.0, "longer", False), (1 / 6, "shorter", True)])
def test_a_run_without_one_pace_says_so_and_its_job_is_not_projected(
    concluded: Concluded, gains: dict[str, float], factor: float, how: str, passes: bool
) -> None:
    folder = concluded(gains, growth={"forward": factor})
    found = overview(folder)
    told = as_json(found)
    noted = [v for v in found.verdicts if any("falls by itself" in warning for warning in v.warnings)]

    assert found.answer.endswith(found.course)
    assert "Forward changes as training goes on" in found.answer
    assert f"{how}." in found.answer
    assert "the job takes" not in found.answer
    assert told["course"] == found.course
    assert told["job"] == {"before": None, "after": None}
    assert bool(noted) == passes
    assert ("With gradient_checkpointing=false" in found.answer) == bool(gains)


def test_a_run_of_one_pace_has_its_job_projected(concluded: Concluded) -> None:
    folder = concluded({"gradient_checkpointing=false": 0.4})
    found = overview(folder)

    assert found.course == ""
    assert as_json(found)["course"] is None
    assert "the job takes" in found.answer
    before, after = found.decision.before, found.decision.after
    assert f"takes {hours(alone(after), before)} in place of {duration(before.seconds)}" in found.answer
    summary = Store(folder / "records").read(Summary, "summaries", "00_baseline")
    assert summary is not None
    assert summary.courses == []


@pytest.mark.parametrize("gains", [{}, {"gradient_checkpointing=false": 0.4, "per_device_train_batch_size=8": 0.6}])
def test_the_summaries_say_what_the_overview_says(concluded: Concluded, gains: dict[str, float]) -> None:
    """The keys of the JSON are those that docs/summary.md describes; the Markdown begins with the answer."""
    folder = concluded(gains)
    found = overview(folder)
    write_summary(folder, found)
    told = json.loads((folder / "summary.json").read_text())
    described = re.findall(r"^\| (`.*?) \|", (DOCS / "summary.md").read_text(), re.M)
    keys = [key for cell in described for key in re.findall(r"`(\w+)`", cell)]
    verdict = told["hypotheses"][0]

    assert told.keys() | verdict.keys() == set(keys)
    assert told["answer"] == found.answer
    assert (folder / "summary.md").read_text().splitlines()[2] == f"**{escape(found.headline)}**"
    assert "summary.svg" in (folder / "summary.md").read_text()
    ElementTree.parse(folder / "summary.svg")


def test_the_index_begins_with_what_concluded_last(concluded: Concluded, tmp_path: Path) -> None:
    """Whoever has just measured something finds it first, whatever its name is."""
    folder = concluded({})
    for name, age in (("a_week_old", 604800), ("z_yesterday", 86400)):
        shutil.copytree(folder, tmp_path / name)
        for record in (tmp_path / name / "records" / "notebooks").iterdir():
            os.utime(record, (record.stat().st_mtime - age,) * 2)

    index = write_index(tmp_path, pytest.fail).read_text()
    assert [folder.name, "z_yesterday", "a_week_old"] == re.findall(r'class="investigation" id="(.*?)"', index)


def test_what_is_done_by_another_key_tells_the_name_it_was_tried_by(concluded: Concluded) -> None:
    """A chart calls it `larger_batches=4` and the file is given a batch size: the page says that these are one."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    (own,) = found.decision.parts
    assert not any("tried as" in action.kind for action in found.actions)
    other = replace(own, name="larger_batches=4", factor="larger_batches")
    renamed = replace(found, decided=replace(found.decision, parts=[other]))
    assert any(action.kind.startswith("tried as larger_batches=4; ") for action in renamed.actions)


def test_a_cause_begins_with_its_first_sentence_and_no_figure_is_explained_that_is_not_there(
    concluded: Concluded,
) -> None:
    """Whoever reads the bold words alone knows what the time goes to."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    (cause, *_) = found.causes
    first, rest = first_of(cause.text)
    told = page([found]).replace("&nbsp;", " ")
    unmeasured = replace(found, verdicts=[replace(v, effect=None, status=None) for v in found.verdicts])

    assert first.startswith("Computing the forward pass again in the backward pass costs 29 %")
    assert first.endswith(").")
    assert f"<b>{first}</b> {rest}".strip() in told
    assert "A point is the measured effect" in told
    assert "A point is the measured effect" not in page([unmeasured])


@pytest.mark.parametrize(("line", "shown"), [("+    every = 10 % n", True), ("+\tevery = n", False)])
def test_a_patch_stands_in_the_index_as_it_can_be_copied(line: str, shown: bool, concluded: Concluded) -> None:
    """What a page could not show as it is, such as a tab, it leaves to the file."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    patch = f"--- a/train.py\n+++ b/train.py\n@@ -1,1 +1,1 @@\n-    every = n\n{line}\n"
    (folder / "final").mkdir(exist_ok=True)
    (folder / "final" / "changes.patch").write_text(patch)
    told = page([overview(folder)])

    assert (f">{patch}</pre>" in told) is shown
    assert "changes.patch" in told
    assert ("+++ b/train.py" in told) is shown


def test_a_label_of_two_changes_has_a_line_for_each(concluded: Concluded) -> None:
    """Neither is shortened where its line has the room that it needs."""
    (one, *_) = overview(concluded({"per_device_train_batch_size=8": 0.6})).verdicts
    both = replace(one, name="gradient_checkpointing=false + per_device_train_batch_size=8")
    drawn = svg(effects([(both.title_in_full, both)], 0.05).json, "effects")

    assert ">gradient_checkpointing=false<" in drawn
    assert ">+ per_device_train_batch_size=8<" in drawn


@pytest.mark.parametrize("width", [760, NARROW])
def test_no_label_loses_what_distinguishes_it(width: int, concluded: Concluded) -> None:
    """Names of variables, paths and values differ anywhere. A label that is too wide goes on in the next line."""
    (one, *_) = overview(concluded({"per_device_train_batch_size=8": 0.6})).verdicts
    names = [
        f"MALLOC_{middle}_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0 in the environment of the command {'x' * 60}"
        for middle in ("TRIM", "TOP")
    ]
    drawn = ElementTree.fromstring(svg(effects([(name, one) for name in names], 0.05).json, "effects", width))
    texts = [e for e in drawn.iter() if e.tag.endswith("text")]
    shown = "".join("".join(e.text or e[0].tail for e in texts).split())

    assert all(name.replace(" ", "") in shown for name in names)
    assert "…" not in shown
    assert all(0 <= float(e.get("y")) <= float(drawn.get("viewBox").split()[3]) for e in texts)
    assert len({e.get("y") for e in texts if e.get("text-anchor") == ("end", "start")[width == NARROW]}) > 6
    assert all(any(e.find("{*}title").text.startswith(name) for e in texts if len(e)) for name in names)


def test_a_limit_is_called_one_where_changes_are_listed(concluded: Concluded) -> None:
    """Batches kept in memory are nothing to train with, however much faster they are."""
    found = overview(concluded({"cached_batches=200": 0.6}, SHARES, data_loading={"cached_batches": [200]}))
    (limit,) = [v for v in found.verdicts if v.factor == "cached_batches"]

    assert limit.outcome is Outcome.SUPPORTED
    assert "cached_batches=200 (a limit)" in tables.findings(found.verdicts).markdown
    assert "cached_batches=200 (a limit)" in page([found])


def test_the_index_holds_every_hypothesis_once_grouped_by_outcome(concluded: Concluded) -> None:
    """The refuted are folded with their count; no script is in the page, and nothing is fetched."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    html = page([found])
    refuted = found.of(Outcome.REFUTED)

    assert len(refuted) > 0
    assert f"<summary>{len(refuted)} refuted: " in html
    assert all(html.count(f"<td>{v.title_in_list}</td>") == 1 for v in found.verdicts)
    assert "<script" not in html
    assert not re.search(r"src=|url\(|https?:", re.sub(r'xmlns="[^"]*"', "", html))


def test_hostile_names_stay_text(concluded: Concluded) -> None:
    """A reason that holds markup is shown in page, Markdown and drawing as it stands."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    evil = "</svg><script>alert(1)</script><img src=x onerror=alert(1)>"
    worst = replace(found.verdicts[0], reason=evil, lines=[f"`{evil}`"])
    run = NotebookRun(notebook=evil, status="failed", reason=evil)
    decided = replace(found.decision, parts=[worst], refused=[Refused(verdict=worst, why=evil, remedy=evil)])
    hostile = replace(
        found, name=evil, machine=evil, largest=evil, runs=[run], verdicts=[worst], causes=[], decided=decided
    )
    figure = go.Figure()
    figure.add_bar(y=[evil], x=[1.0], orientation="h", text=[evil], textposition="outside")
    drawn = svg(json.loads(figure.to_json()), evil)

    assert "<script" not in page([hostile])
    assert "<img" not in page([hostile])
    assert not re.search("<script|<img", markdown2html(as_markdown(hostile)))
    assert as_json(hostile)["name"] == evil
    assert "<script" not in drawn
    assert evil in "".join(ElementTree.fromstring(drawn).itertext())


def test_of_a_change_in_two_families_the_first_verdict_counts(concluded: Concluded) -> None:
    """Holm's correction can part them, and the final choice goes by the first."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    store = Store(folder / "records")
    verdict = replace(overview(folder).verdicts[0], name="max_length=96")
    arm, sections = store.read(Summary, "summaries", "00_baseline").arm, ("10_data_loading", "30_sequence_length")
    for notebook, outcome in zip(sections, (Outcome.INCONCLUSIVE, Outcome.SUPPORTED), strict=True):
        told = Summary(notebook=notebook, arm=arm, verdicts=[replace(verdict, outcome=outcome)])
        store.write(told, "summaries", notebook)
    found = [v.outcome for v in overview(folder).verdicts if v.name == verdict.name]

    assert found == [Outcome.INCONCLUSIVE]


def test_objects_show_themselves_and_measure_nothing(quick: Settings, tmp_path: Path) -> None:
    """A verdict, a comparison, an arm and the lab have cards; showing the lab starts no trial."""
    settings = override(quick, ASKED)
    measurer = SimulatedMeasurer(Truth(gain=lambda arm, purpose: 0.3), settings.budget)
    lab = open_lab(Loaded(settings=settings, source="quick.yaml", places={}), tmp_path, "20_x", measurer)
    shown = lab._repr_html_()
    asked = list(measurer.asked)
    (verdict, *_) = lab.test("gradient_checkpointing")
    measured = lab.measured[0]

    assert settings.name in shown
    assert asked == []
    assert verdict.title_in_full in verdict._repr_html_()
    assert "<svg" in measured._repr_html_()
    assert "gradient_checkpointing" in measured.contrast.treatment._repr_html_()


# -- drawings --


def bars(figure: go.Figure, width: int = 760) -> list[tuple[float, float]]:
    """Left and right end of each box of a drawing."""
    drawn = ElementTree.fromstring(svg(json.loads(figure.to_json()), width=width))
    boxes = [e for e in drawn.iter() if e.tag.endswith("rect")]
    return [(float(b.get("x")), float(b.get("x")) + float(b.get("width"))) for b in boxes]


@pytest.mark.parametrize("width", [760, NARROW])
def test_the_lengths_of_bars_are_their_values(width: int) -> None:
    """One twice as long is twice as large, and a bar ends within the drawing with its text."""
    figure = go.Figure()
    figure.add_bar(y=["a", "b", "a long name of a row"], x=[1.0, 2.0, 4.0], orientation="h", text=["1", "2", "4"])
    ends = bars(figure, width)
    lengths = [right - left for left, right in ends]

    assert lengths == pytest.approx([lengths[0], 2 * lengths[0], 4 * lengths[0]], rel=0.01)
    assert max(right for _, right in ends) < width


def test_stacked_bars_lie_end_to_end() -> None:
    """The second part begins where the first ends, and the whole fits."""
    figure = go.Figure()
    for part in (3.0, 5.0):
        figure.add_bar(y=["now"], x=[part], orientation="h", name=str(part), marker={"color": "#009E73"})
    figure.update_layout(barmode="stack")
    (_, end), (start, last) = bars(figure)[-2:]

    assert start == pytest.approx(end, abs=0.2)
    assert last < 760


def test_intervals_stand_where_their_values_do() -> None:
    """The ends of an interval lie as far from the point as the errors say; one beyond the axis is cut off there."""
    figure = go.Figure()
    error = {"type": "data", "array": [10.0, 500.0], "arrayminus": [20.0, 5.0], "color": "#009E73"}
    figure.add_scatter(x=[0.0, 50.0], y=["a", "b"], mode="markers", error_x=error, marker={"color": "#009E73"})
    figure.update_xaxes(range=[-50, 100])
    drawn = ElementTree.fromstring(svg(json.loads(figure.to_json())))
    thick = [e for e in drawn.iter() if e.tag.endswith("line") and e.get("stroke-width") == "2"]
    level = [(float(e.get("x1")), float(e.get("x2"))) for e in thick if e.get("y1") == e.get("y2")]
    (low, high), (_, cut) = level
    points = [float(e.get("cx")) for e in drawn.iter() if e.tag.endswith("circle")]

    assert (points[0] - low) / (high - points[0]) == pytest.approx(2.0, rel=0.02)
    assert cut <= 760
    assert points[1] > points[0]


def test_ticks_are_round_and_within_the_axis() -> None:
    """At most seven steps of 1, 2 or 5 times a power of ten."""
    assert nice(0, 100) == [0, 20, 40, 60, 80, 100]
    assert nice(-0.013, 0.042) == [-0.01, 0.0, 0.01, 0.02, 0.03, 0.04]
    assert nice(5, 5) == [5]


def test_the_plotting_library_is_the_basic_bundle_of_plotlys_own_version() -> None:
    """It stands in the package with its licence, and is the version that the Python package draws for."""
    first = PLOTLY.read_text(encoding="utf-8")[:200]

    assert f"plotly.js (basic - minified) v{get_plotlyjs_version()}" in first
    assert "MIT" in first
    assert "MIT License" in (PLOTLY.parent / "LICENSE").read_text(encoding="utf-8")


# -- trackers --


@pytest.mark.exhaustive
def test_mlflow_gets_verdicts_effects_and_reports_once(
    concluded: Concluded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A real MLflow over SQLite holds the ratio, the outcome and the summary; a second export makes no second run."""
    mlflow = pytest.importorskip("mlflow")
    folder, uri = concluded({"gradient_checkpointing=false": 0.4}), f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.chdir(tmp_path)  # MLflow puts its artifacts there
    statuses = [main(["export", str(folder), "--mlflow", uri]) for _ in range(2)]
    client = mlflow.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("slowstep").experiment_id])

    assert statuses == [0, 0]
    assert "has it already" in capsys.readouterr().out
    assert run.data.metrics["throughput_ratio/gradient_checkpointing_false"] == pytest.approx(1.4, rel=0.05)
    assert run.data.tags["verdict.gradient_checkpointing_false"] == "supported"
    assert {"summary.json", "summary.md"} <= {f.path for f in client.list_artifacts(run.info.run_id)}


def test_what_a_tracker_gets_is_finite_and_the_kits_own(concluded: Concluded) -> None:
    """No infinite end of an interval; of final/ its own files, and nothing else of the folder to which a link leads."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    (folder / "final" / "files").mkdir(parents=True)
    (folder / "final" / "files" / "own.json").write_text("{}")
    (folder / "secret.json").write_text("{}")
    (folder / "final" / "files" / "secret.json").symlink_to(folder / "secret.json")
    (folder / "secret.html").symlink_to(folder / "secret.json")
    found = overview(folder)
    wide = [replace(v, effect=v.effect and replace(v.effect, upper=math.inf)) for v in found.verdicts]
    metrics = metrics_of(replace(found, verdicts=wide))

    shared = [path.name for path in exported(folder).files]
    assert "own.json" in shared
    assert [name for name in shared if "secret" in name] == []
    assert any(name.startswith("throughput_ratio_low/") for name in metrics)
    assert not any(name.startswith("throughput_ratio_high/") for name in metrics)


@pytest.mark.parametrize("place", ["final", "final/files/id", "notes.html", "summary.json"])
def test_nothing_is_exported_that_a_link_leads_to(place: str, concluded: Concluded, tmp_path: Path) -> None:
    """A folder that was sent may have links to what its reader keeps for himself. It is refused with the link's name,
    and what the link leads to stays as it is."""
    folder = concluded({})
    (outside := tmp_path / "private").mkdir()
    (outside / "id").write_text("key")
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).symlink_to(outside if place == "final" else outside / "id")

    with pytest.raises(Busy, match=f"{place}: is a symbolic link"):
        exported(folder)
    assert [path.read_text() for path in outside.iterdir()] == ["key"]


def test_every_level_has_a_key_that_trackers_take() -> None:
    """MLflow refuses a name that reads as a path with empty parts, and one of more than 250 characters."""
    names = ["data=/data//text", "data=_data_text", "optim=sgd", *(f"data={'x' * 300}{end}" for end in "ab"), "//"]
    found = keys(names)

    assert found["optim=sgd"] == "optim_sgd"
    assert len(set(found.values())) == len(names)
    assert all(re.fullmatch(r"[\w.\-]{1,200}", key) for key in found.values())


def test_wandb_gets_an_offline_run_once(concluded: Concluded, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A real offline run is written, nothing is sent, and a second export finds the first."""
    pytest.importorskip("wandb")
    folder, target = concluded({"gradient_checkpointing=false": 0.4}), tmp_path / "wb"
    statuses = [main(["export", str(folder), "--wandb", str(target)]) for _ in range(2)]
    runs = list((target / "wandb").glob("offline-run-*"))

    assert statuses == [0, 0]
    assert "has it already" in capsys.readouterr().out
    assert len(runs) == 1
    assert len(list(runs[0].glob("*.wandb"))) == 1


def test_an_export_says_that_nothing_is_decided(
    concluded: Concluded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Whoever compares runs in a tracker would take an unfinished one for one in which nothing was found."""
    folder = concluded({})
    monkeypatch.setattr(export, "to_wandb", lambda *_: "a run")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    words = ["export", "--wandb", "w", "--outputs", str(tmp_path)]

    assert (main(words), capsys.readouterr().out) == (0, f"{folder.name}: a run\n")
    for kind in ("summaries", "notebooks"):
        (folder / "records" / kind / "90_final_config.json").unlink()
    assert main(words) == 0
    assert capsys.readouterr().out.endswith("a run; nothing is decided in it: 90_final_config has not run\n")


def test_what_a_tracker_refuses_is_said_once(
    concluded: Concluded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """MLflow's refusal of a store fills six lines, and is the same for every investigation."""
    folder = concluded({})
    shutil.copytree(folder, folder.with_name("second"))
    shutil.copytree(folder, folder.with_name("third"))
    (folder.with_name("checked") / "records" / "checks").mkdir(parents=True)
    calls: list[str] = []

    def refuse(one: Exported, uri: str) -> str:
        calls.append(one.name)
        raise ValueError("of its own" if one.name == "third" else "no such store")

    monkeypatch.setattr(export, "to_mlflow", refuse)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)

    assert main(["export", "--mlflow", "x", "--outputs", str(tmp_path)]) == 1
    assert calls == [folder.name, "second", "third"]
    assert capsys.readouterr().err.splitlines() == [
        f"{folder.name}, second: mlflow refused them: ValueError: no such store",
        "third: mlflow refused it: ValueError: of its own",
    ]
    assert not (folder.with_name("checked") / "summary.json").exists()


@pytest.mark.parametrize("command", [["report"], ["export", "--wandb", "w"]])
def test_an_investigation_is_found_by_its_bare_name(
    command: list[str],
    concluded: Concluded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    """The name that reports show is that of a folder in the outputs. A mistyped one is answered with the nearest."""
    folder = concluded({})
    drawn: list[Path] = []
    monkeypatch.setattr(report, "draw", lambda found, *_: drawn.append(found) or [])
    monkeypatch.setattr(export, "to_wandb", lambda one, *_: str(drawn.append(one.folder)))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)

    assert main([*command, folder.name, "--outputs", str(tmp_path)]) == 0
    assert drawn == [folder.resolve()]
    assert main([*command, f"{folder.name}k", "--outputs", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"there is no such folder, here or in {tmp_path}" in told
    assert f"Did you mean '{folder.name}'?" in told


def test_a_folder_without_an_investigation_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Whoever names the folder of all results, or an empty one, reads which one is meant."""
    assert main(["report", str(tmp_path)]) == 2
    assert "name the folder of an investigation, outputs/NAME, or measure one" in capsys.readouterr().err


def test_the_answer_is_told_before_the_page(
    concluded: Concluded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Whoever sits at a terminal reads what was found, in lines of its width, and how long it took."""
    folder = concluded({"gradient_checkpointing=false": 0.4})
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(investigations, "diagnose", lambda *_: [])
    monkeypatch.setattr(load_and_check, "checked", lambda *_: [read_investigation(folder).loaded])

    assert main(["diagnose", "quick.yaml", "--outputs", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    took, answer, page = (told.index(text) for text in ("this call took", f"{folder.name}: ", "open "))
    answer = told.index(f"{folder.name}: ", took)
    assert took < answer < page
    assert max(map(len, told[answer:page].splitlines())) <= 70
    assert " ".join(told[answer:page].split()) == f"{folder.name}: {overview(folder).answer}"


def test_an_interrupted_run_leaves_an_index(
    concluded: Concluded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells what is known by then."""
    folder = concluded({"gradient_checkpointing=false": 0.4})

    def interrupted(*_: object) -> None:
        (folder / "records" / "summaries" / "90_final_config.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(investigations, "diagnose", interrupted)
    monkeypatch.setattr(load_and_check, "checked", lambda *_: [read_investigation(folder).loaded])

    assert main(["diagnose", "quick.yaml", "--outputs", str(tmp_path)]) == 130
    told = (tmp_path / "index.html").read_text()
    assert "Nothing is decided yet: 90_final_config has not run." in told
    assert "gradient_checkpointing=false" in told


def test_minutes_that_were_not_enough_say_how_to_go_on(concluded: Concluded) -> None:
    """They count all calls, so the same again would measure nothing; without minutes nothing was cut."""
    found = overview(concluded({}))
    untried = [replace(v, outcome=Outcome.INCONCLUSIVE, effect=None, status=None) for v in found.verdicts[:1]]
    late = Decision(refused=[Refused(verdict=found.verdicts[0], why=not_measured_again("once more"))])

    assert not unreached(found.verdicts, found.decision)
    assert unreached(untried, found.decision)
    assert unreached([], late)
    settings = read_investigation(concluded({})).settings
    assert "" == more_minutes(settings, 200.0)
    short = override(settings, {"budget.minutes": 2})
    assert more_minutes(short, 29.0).endswith("--minutes 4 (or budget.minutes=4) goes on")
    assert more_minutes(short, 300.0).endswith("--minutes 10 (or budget.minutes=10) goes on")
    assert "(it took 5.0 minutes: " in more_minutes(short, 300.0)
    assert "it took" not in more_minutes(short, 120.0)
    told = "took 5.7 minutes in all calls (budget.minutes: 2), of which 1.1 minutes (20 %) in measured blocks"
    assert time_taken(short, 344.0, 68.8) == f"{short.name}: {told}"


def test_an_export_without_tracker_or_investigation_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """In one line each, with what to do."""
    assert main(["export", str(tmp_path)]) == 2
    assert "--mlflow URI or by --wandb FOLDER" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--wandb", str(tmp_path / "w")]) == 2
    assert "there is no investigation" in capsys.readouterr().err


def test_what_no_time_was_left_for_is_not_called_inconclusive(concluded: Concluded) -> None:
    """It is counted by itself wherever hypotheses are counted, and no noise is blamed for it."""
    found = overview(concluded({"gradient_checkpointing=false": 0.4}))
    supported = found.of(Outcome.SUPPORTED)
    late = replace(
        supported[0], outcome=Outcome.INCONCLUSIVE, effect=None, status=None, reason="not reached within 3 minutes"
    )
    crashed = replace(late, status=Status.CRASHED, reason="the baseline itself failed")
    found = replace(found, verdicts=[*found.verdicts, late, crashed])

    assert [v for v in (late, crashed) if v in found.of(Outcome.INCONCLUSIVE)] == [crashed]
    assert found.untried == [late]
    assert "1 not reached in the time given" in as_markdown(found)
    rows = effects([("late", late), ("crashed", crashed)], 0.05).rows
    assert {"late": "– not reached", "crashed": "? inconclusive"} == {row["arm"]: row["verdict"] for row in rows}
    assert "inconclusive" not in card(late)
    assert 1 == page([found]).count("<td>? inconclusive</td>")
    assert "noise leaves undecided" not in final_conclusion(None, [late], [], []).markdown
    assert "no time was left" in final_conclusion(None, [late], [], []).markdown


def test_time_in_code_is_the_answer_where_no_setting_helps(concluded: Concluded) -> None:
    """The first sentence names the phase, the line and the most that it could bring, and not that nothing was found."""
    found = overview(concluded({}, SHARES | {"data": 0.5, "backward": 0.1}))

    assert found.causes[0].factor is None
    assert found.answer.startswith("Data wait takes 50 %")
    assert "faster" in found.answer


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (1.052, "+5.2"),
        (1.523, "+52"),
        (0.004, "-99.6"),
        (1e-9, "below -99.9"),
        (1e5, "over +10,000"),
        (math.nan, "unknown"),
    ],
)
def test_a_change_is_told_in_figures_that_can_be(ratio: float, said: str) -> None:
    """Nothing is slower by 100 %, and beyond a hundred times as fast nobody reads the digits."""
    assert signed(ratio) == said
