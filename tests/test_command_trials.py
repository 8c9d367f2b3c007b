"""Trials of programs that know nothing of the kit: measured, changed from outside, and nothing is left behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from slowstep.command.resolve import resolve
from slowstep.environment.machine import this_machine
from slowstep.factors import CATALOGUE, Arm, in_code, plan
from slowstep.judgement.course import courses, placed
from slowstep.judgement.stopping import StopRule
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyRecord
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import Status
from slowstep.settings import LEVEL_SECTIONS, Settings, load, override
from slowstep.settings.command import CHANGES, Command
from slowstep_probe.probe.graphs import graph_facts
from slowstep_probe.trial.messages import BlockDone, Observe, PeriodicEvent, TrainBlock

PROGRAMS = Path(__file__).resolve().parent / "programs"
SOON = 120.0

pytestmark = pytest.mark.trials


@pytest.fixture(scope="module")
def surveyed(seen: Callable[..., SurveyRecord], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Settings]:
    """Returns the settings of a command's investigation."""
    outputs, known = tmp_path_factory.mktemp("outputs"), {}

    def settings(*arguments: str) -> Settings:
        if arguments not in known:
            known[arguments] = load(write(seen(*arguments), outputs / f"run_{len(known)}")).settings
        return known[arguments]

    return settings


def block(trial: TrialProcess, steps: int) -> BlockDone:
    """A block of steps after the first one."""
    trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=1), SOON)
    return trial.ask(TrainBlock(steps=steps), SOON)


def printed(trial: TrialProcess) -> str:
    """All that a trial printed, after its end. Until then what it printed last may be on the way to the log."""
    trial.end()
    return trial.log.read_text()


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder, by a hash of what it holds."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    ("command", "samples"),
    [
        (("plain_loop.py", "--epochs", "1", "-b", "40"), 40),
        pytest.param(("with_trainer.py", "out"), 8, marks=pytest.mark.exhaustive),
        pytest.param(("evaluates_and_saves.py",), 8, marks=pytest.mark.exhaustive),
        pytest.param(("tuples.py",), 16, marks=pytest.mark.exhaustive),
        pytest.param(("with_accelerate.py",), 16, marks=pytest.mark.exhaustive),
    ],
)
def test_a_program_trains_beyond_its_own_end(
    command: tuple[str, ...], samples: int, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Blocks are served for longer than the program would train, and their work is counted."""
    measured = block(started(surveyed(*command)), 60)

    assert measured.block.steps == 60
    assert measured.block.work.samples == pytest.approx(60 * samples, rel=0.05)


def test_a_trainers_learning_rate_is_that_of_its_job(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """A trial has no end, and a warm-up that is a share of the steps is one of those that the program takes."""
    program = (home / "with_trainer.py").read_text()
    (home / "warms_up.py").write_text(program.replace("num_train_epochs=50", "num_train_epochs=2, warmup_steps=0.5"))
    found = block(started(surveyed("warms_up.py", "out")), 23)

    job = [step / 8 for step in range(8)] + [step / 8 for step in range(8, 0, -1)]
    assert found.learning_rates == pytest.approx(job + job[-1:] * 8)
    assert len(found.learning_rates) == len(found.losses)


@pytest.mark.parametrize("kind", ["evaluated", "in a child"])
def test_one_process_is_measured_whatever_is_forked(
    kind: str, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """A child that looks at batches does not speak for its program, and one that the program waits for does."""
    measured = block(started(surveyed("beside_a_child.py", kind)), 120)

    assert measured.block.steps == 120
    assert measured.block.work.samples == 8 * 120


def test_an_epoch_that_is_kept_and_repeated_is_loaded_once(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """What `itertools.cycle` asks for ends as it does without the kit; an endless one would fill the memory."""
    trial = started(surveyed("cycled.py"))
    measured = block(trial, 60)

    assert measured.block.steps == 60
    assert {"asked 40 times"} == set(re.findall(r"asked \d+ times", printed(trial)))


@pytest.mark.parametrize(
    ("kind", "steps_a_round", "samples_a_step"),
    [("whole_gradient", 1, 32), ("closure", 1, 64), ("rollouts", 4, 8), ("clients", 12, 8)],
)
def test_an_epoch_within_something_larger_ends(
    kind: str,
    steps_a_round: int,
    samples_a_step: int,
    surveyed: Callable[..., Settings],
    started: Callable[..., TrialProcess],
) -> None:
    """Else the update after it, or the collecting of new samples, would vanish from what is measured."""
    trial = started(surveyed("epochs_within.py", kind))
    measured = block(trial, 24)

    assert measured.block.steps == 24
    assert measured.block.work.samples == 24 * samples_a_step
    assert printed(trial).split().count("round") >= 24 // steps_a_round


def test_batches_in_memory_end_where_their_loader_would(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """An update after each epoch is made with them, too; where each epoch has a loader of its own, none are kept."""
    cached = {"dataset.cached_batches": 50}
    trial = started(override(surveyed("epochs_within.py", "whole_gradient"), cached))
    measured = block(trial, 24)

    assert measured.block.work.samples == 24 * 32
    assert trial.ask(Observe(), SOON).facts["cached_batches"] == 50
    assert printed(trial).split().count("round") >= 24
    tried = {
        kind: {
            factor.name
            for made in plan(surveyed("epochs_within.py", kind), "data_loading", this_machine())
            for factor, _ in made.levels
        }
        for kind in ("whole_gradient", "rollouts")
    }
    assert tried["whole_gradient"] - tried["rollouts"] == {"cached_batches"}


def test_a_trial_starts_with_what_its_program_sets_before_imports(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter is warm, and has imported what the program will. The first variable is read by PyTorch, the other
    by the Hub's library."""
    for name in ("OMP_NUM_THREADS", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    trial = started(surveyed("sets_variables.py"))
    block(trial, 5)

    assert "threads 1 home models" in printed(trial)


def test_what_makes_batches_beside_the_training_waits_with_it(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Threads and processes of the program's own fill no queue while another arm is measured, and then go on."""
    trial = started(surveyed("makes_batches_beside.py"))
    block(trial, 5)

    def said() -> dict[str, int]:
        lines = trial.log.read_text().split()
        return {name: lines.count(name) for name in ("thread", "process", "orphan")}

    def goes_on(before: dict[str, int]) -> dict[str, int]:
        """Train until each of them has said more than before: on a busy machine one may get no turn in five steps."""
        for _ in range(20):
            trial.ask(TrainBlock(steps=5), SOON)
            after = settled(said)
            if all(after[name] > before[name] for name in before):
                return after
        raise AssertionError(f"{before} before, {after} after")

    goes_on(goes_on(settled(said)))


def test_a_dataset_that_asks_another_process_is_looked_at(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """While a trial waits, that process stands still with it; who looks at the dataset then would wait for ever."""
    trial = started(surveyed("list_in_another_process.py"))
    block(trial, 5)

    assert trial.ask(Observe(), SOON).facts["examples"] == 64
    assert trial.ask(TrainBlock(steps=5), SOON).block.steps == 5


def settled(look: Callable[[], Any]) -> Any:
    """What is seen as soon as it stays the same for a while; an error if it never does."""
    for _ in range(40):
        seen = look()
        time.sleep(0.3)
        if look() == seen:
            return seen
    raise AssertionError(f"it goes on: {seen}")


def test_nothing_of_the_users_is_changed(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """A program that writes beside itself and saves its whole model: all of it is thrown away."""
    before = content(home)
    settings = surveyed("evaluates_and_saves.py")
    trial = started(settings)
    measured = block(trial, 30)
    folder = trial.folder
    trial.end()

    assert measured.block.phases["save"] > 0  # it did write
    assert measured.block.phases["evaluate"] > 0
    assert before == content(home)
    assert not folder.exists()
    assert "whole.pt" in Path(settings.surveyed.record).read_text(encoding="utf-8")  # the survey says what it writes


TRACKS = """
import os, sqlite3
import torch
place = os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///")
sqlite3.connect(place).execute("create table runs (name)")  # which it can't if another one has done so
print("tracks in", place, flush=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_tracker_has_a_database_of_its_own_in_each_trial(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Nobody else may enter its folder, so no other user can be in its way; it is thrown away, the survey's too."""
    (home / "tracks.py").write_text(TRACKS)
    settings = surveyed("tracks.py")
    (of_survey,) = re.findall("tracks in (.*)", json.loads(Path(settings.surveyed.record).read_text())["output"])
    trials, places = [], []
    for _ in range(2):
        trials.append(started(settings))
        block(trials[-1], 2)
        places.append(Path(re.findall("tracks in (.*)", settled(trials[-1].log.read_text))[-1]))

    assert len({Path(of_survey), *places}) == 3
    assert [place.parent for place in places] == [trial.folder for trial in trials]
    assert all(place.is_file() and not place.parent.stat().st_mode & 0o077 for place in places)
    for trial in trials:
        trial.end()
    assert not any(place.exists() for place in (Path(of_survey), *places))


PLAIN = ("plain_loop.py", "--lr", "0.01")
TRAINER = ("with_trainer.py", "out")
DEBUG = ("debug_left_on.py",)
EXPERTS = ("experts.py",)


@dataclass(frozen=True)
class Change:
    """A change, the fact by which it is seen, and words of the line that it changes (empty: it changes none)."""

    key: str
    value: Any
    fact: str
    line: str = ""


@pytest.fixture(scope="module")
def untreated(surveyed: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict]:
    """Returns what is observed of a command without any change; its trial runs once."""
    known: dict[tuple[str, ...], dict] = {}

    def facts(command: tuple[str, ...]) -> dict:
        if command not in known:
            settings, folder = surveyed(*command), tmp_path_factory.mktemp("untreated")
            arm = Arm(label="trial", settings=settings)
            trial = TrialProcess(arm, folder / "log", settings.budget, folder / "cache")
            try:
                block(trial, 40)
                known[command] = trial.ask(Observe(), SOON).facts
            finally:
                trial.end()
        return known[command]

    return facts


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        pytest.param(
            PLAIN,
            [
                Change("training_arguments.dataloader_num_workers", 1, "dataloader_num_workers", "loader = DataLoader"),
                Change("training_arguments.optim", "adamw_torch_fused", "fused", "AdamW("),
                Change("training_arguments.bf16", True, "autocast", "(model(**batch) / given.accumulate).backward()"),
            ],
            id="loader, optimizer, autocast",
        ),
        pytest.param(
            PLAIN,
            [
                Change("optimizer_kwargs.foreach", True, "foreach", "AdamW("),
                Change("dataset.cached_batches", 20, "cached_batches"),
                Change("freed_memory", "kept", "freed_memory"),
            ],
            id="batches, memory",
        ),
        pytest.param(
            ("two_optimizers.py",),
            [Change("optimizer_kwargs.fused", True, "fused", "optim.Adam(")],
            id="Adam",
        ),
        pytest.param(
            ("padded.py",),
            [Change("dataset.trim_padding", True, "padded_columns", "loader = DataLoader(")],
            id="padding",
        ),
        pytest.param(
            ("padded_left.py",),
            [Change("dataset.trim_constant_columns", True, "constant_columns", "loader = DataLoader(")],
            id="columns of one value",
        ),
        pytest.param(
            ("distils.py",),
            [Change("model.idle_gradients", False, "idle_gradients", "optimizer.step()")],
            id="idle gradients",
        ),
        pytest.param(
            ("own_rule.py",),
            [Change("model.own_rule", False, "own_rule", "@torch.no_grad()")],
            id="own rule",
        ),
        pytest.param(
            ("traced.py",),
            [Change("process.tracing", False, "tracing", "profiler.enable()")],
            id="tracing",
        ),
        pytest.param(
            ("debugs.py",),
            [Change("process.debug_environment", False, "debug_environment", "CUDA_LAUNCH_BLOCKING")],
            id="variables that debug",
        ),
        pytest.param(
            ("mixed.py",),
            [Change("training_arguments.bf16", False, "autocast", "torch.autocast(")],
            id="autocast switched off",
        ),
        pytest.param(
            ("from_numpy.py",),
            [Change("model.double_precision", False, "double_precision", "model(x)")],
            id="double precision",
        ),
        *(
            pytest.param(
                (program,),
                [Change("training_arguments.per_device_train_batch_size", 16, "per_device_train_batch_size", line)],
                id=f"batch size, {program}",
            )
            for program, line in (
                ("padded.py", "loader = DataLoader("),
                ("draws_batches.py", "BatchSampler(RandomSampler"),
                ("with_accelerate.py", "DataLoader(data"),
            )
        ),
        pytest.param(
            DEBUG,
            [
                Change("process.num_threads", 2, "num_threads", "set_num_threads"),
                Change("process.detect_anomaly", False, "detect_anomaly", "detect_anomaly"),
                Change(
                    "process.deterministic_algorithms",
                    False,
                    "deterministic_algorithms",
                    "use_deterministic_algorithms",
                ),
                Change("process.garbage_collection", "frozen", "garbage_collection"),
                Change("model.memory_format", "channels_last", "memory_format"),
            ],
            id="process, memory format",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            EXPERTS,
            [
                Change("model.experts_implementation", "grouped_mm", "experts_implementation"),
                Change("peft.use_dora", False, "use_dora", "LoraConfig("),
            ],
            id="experts, adapter",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            TRAINER,
            [
                Change("training_arguments.gradient_checkpointing", False, "gradient_checkpointing", "Training"),
                Change("training_arguments.dataloader_num_workers", 1, "dataloader_num_workers", "Training"),
                Change("training_arguments.logging_steps", 50, "logging_steps", "Training"),
                Change("model.attn_implementation", "eager", "attn_implementation"),
            ],
            id="Trainer",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_changes_take_effect_and_name_their_lines(
    command: tuple[str, ...],
    changes: list[Change],
    surveyed: Callable[..., Settings],
    untreated: Callable[..., dict],
    started: Callable[..., TrialProcess],
) -> None:
    """Seen in the live objects of the treated trial, and not in the untreated one; with the place in the program."""
    trial = started(surveyed(*command), **{change.key: change.value for change in changes})
    block(trial, 40)
    facts, before = trial.ask(Observe(), SOON).facts, untreated(command)
    rows = (PROGRAMS / command[0]).read_text(encoding="utf-8").splitlines()
    places = {made["key"]: made["place"]["line"] - 1 for made in facts["changes"]}

    assert before["changes"] == []
    for change in changes:
        wanted = SEEN.get((change.fact, change.value), change.value)
        assert facts[change.fact] == wanted != before.get(change.fact), change.key
        if change.line:
            at = places[change.key]
            assert change.line in "".join(rows[max(0, at - 4) : at + 1]), change.key
    asked = {change.key for change in changes}
    new = {f"{m['argument']}={m['after']!r}" for m in facts["changes"] if m["argument"] and m["key"] in asked}
    assert not new & {*in_code.replaced(facts["changes"])}


@pytest.mark.exhaustive
def test_only_arguments_that_a_trainer_holds_are_changed_and_known(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """A library makes others, to know the defaults: their values are not the run's, they name no place, and that they
    can't be made with a change is no matter."""
    settings = surveyed("arguments_beside.py")
    trial = started(settings, training_arguments__dataloader_num_workers=1)
    block(trial, 20)
    facts = trial.ask(Observe(), SOON).facts
    rows = (PROGRAMS / "arguments_beside.py").read_text(encoding="utf-8").splitlines()

    assert settings.run["logging_steps"] == 7
    assert facts["dataloader_num_workers"] == 1
    assert ["arguments = Arguments("] == [rows[one["place"]["line"] - 1][:22] for one in facts["changes"]]


def test_a_part_that_is_compiled_counts() -> None:
    """A loss that is called in the model's place holds the compiled model, and is none itself."""
    plain, whole = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    whole[1].compile()

    assert graph_facts(plain)["compiled"] is False
    assert graph_facts(plain, whole)["compiled"] is True


SEEN = {
    ("fused", "adamw_torch_fused"): True,
    ("autocast", True): "bf16",
    ("autocast", False): "no",
    ("padded_columns", True): False,
    ("constant_columns", True): False,
}
"""What is observed, by fact and value that was asked for, where it is not that value."""


@pytest.mark.parametrize(
    ("command", "name", "value", "before", "after"),
    [
        (("plain_loop.py", "-b4"), "--batch-size", 8, 4, 8),
        pytest.param(("plain_loop.py", "--batch-size=4"), "--batch-size", 2, 4, 2, marks=pytest.mark.exhaustive),
        (("with_config.py", "own.json"), "own.json:train.samples_at_once", 16, 4, 16),
        pytest.param(
            ("with_config.py", "own.json", "samples_at_once=8"),
            "samples_at_once",
            32,
            8,
            32,
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_value_that_the_command_is_given_is_seen_in_the_program(
    command: tuple[str, ...],
    name: str,
    value: Any,
    before: int,
    after: int,
    home: Path,
    surveyed: Callable[..., Settings],
    started: Callable[..., TrialProcess],
) -> None:
    """By an option, a file, or a word: the program holds it and trains with it, and the user's file stays."""
    (home / "own.json").write_text('{"train": {"lr": 0.1, "samples_at_once": 4}, "model": {"layers": [{"width": 9}]}}')
    was = content(home)
    settings, samples, held = surveyed(*command), [], []
    for given in ({}, {f"given[{name}]": value}):
        trial = started(settings, **given)
        samples.append(block(trial, 12).block.work.samples / 12)
        held.append(trial.ask(Observe(), SOON).facts.get(f"given[{name}]"))
        trial.end()

    assert samples == [before, after]
    assert held == [None, value]
    assert was == content(home)


def test_a_value_that_the_program_does_not_take_is_not_seen(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """A word that the program does not look at is in nothing that it holds. An option it refuses ends the trial."""
    trial = started(surveyed(*DEBUG), **{"given[--width]": 8})
    block(trial, 12)

    assert trial.ask(Observe(), SOON).facts["given[--width]"] is None
    trial.end()
    with pytest.raises(TrialEnded, match="unrecognized arguments: --width 8"):
        block(started(surveyed(*PLAIN), **{"given[--width]": 8}), 12)


def test_a_trainer_is_made_to_save_and_nothing_comes_of_it(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """It saves every 500 steps, which no trial meets. Made to happen, it is timed, and training goes on."""
    was = content(home)
    trial = started(surveyed(*TRAINER))
    ready = trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=2), SOON)
    saved = trial.ask(PeriodicEvent(event="save"), SOON)
    after = trial.ask(TrainBlock(steps=3), SOON)

    assert ready.periodic_events == ["save"]
    assert saved.bytes > 10_000
    assert after.block.steps == 3
    assert was == content(home)


def test_a_trainer_does_nothing_by_itself_that_is_measured_on_its_own(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """It evaluates every 30 steps and saves every 10: 70 steps hold saves and no evaluation, which happens when asked.

    What a callback of the program asks for happens all the same, at the 35th step.
    """
    program = (home / "with_trainer.py").read_text()
    program = program.replace("logging_steps=5", 'logging_steps=5, eval_strategy="steps", eval_steps=30, save_steps=10')
    program = program.replace(
        "train_dataset=Texts()", "train_dataset=Texts(), eval_dataset=Texts(), callbacks=[Asks()]"
    )
    program = program.replace("import LlamaConfig", "import TrainerCallback, LlamaConfig")
    program = program.replace("shape = {", f"{ASKS}\n\nshape = {{", 1)
    (home / "evaluates.py").write_text(program)
    settings = surveyed("evaluates.py", "out")
    trial = started(settings)
    ready = trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=1), SOON)
    steps = trial.ask(TrainBlock(steps=70), SOON).steps
    asked = trial.ask(PeriodicEvent(event="evaluate"), SOON)

    assert settings.run["eval_steps"] == 30
    assert ready.periodic_events == ["evaluate"]
    assert sum(s > 0 for s in steps.phases["save"]) == 7
    assert sum(s > 0 for s in steps.phases["evaluate"]) == 1
    assert asked.samples == 64
    assert asked.seconds > asked.fixed


def test_an_evaluation_that_is_made_to_happen_tells_its_lines(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Its slow metric is among them. The line that calls `train` is none: that is beside what happens."""
    program = (home / "with_trainer.py").read_text()
    program = program.replace("logging_steps=5", 'logging_steps=5, eval_strategy="epoch"')
    program = program.replace("train_dataset=Texts()", "train_dataset=Texts(), eval_dataset=Texts(), **METRIC")
    program = program.replace("shape = {", f"{METRIC}\n\nshape = {{", 1)
    (home / "slow_metric.py").write_text(program)
    trial = started(surveyed("slow_metric.py", "out"))
    trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=2), SOON)
    looked = trial.ask(PeriodicEvent(event="evaluate", looks=True), SOON)
    plain = trial.ask(PeriodicEvent(event="evaluate"), SOON)

    own = [place for place in looked.places if place.own]
    assert {place.within: place.together for place in own}["slow_metric.py in slow_metric"] > 0.1
    assert not [place.where for place in own if place.where.endswith("in <module>")]
    assert plain.places == []


METRIC = """
def slow_metric(prediction):
    return {"sum": sum(i % 7 for i in range(10_000_000))}


METRIC = {"compute_metrics": slow_metric}
"""
"""A metric that takes some tenths of a second in Python."""


ASKS = """
class Asks(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 35:
            control.should_evaluate = True
        return control
"""
"""A callback that asks for an evaluation at a time of its own."""


@pytest.mark.parametrize("kind", [[], ["bare"]], ids=["mappings", "tensors"])
def test_a_change_that_can_not_be_made_is_told(
    kind: list[str], surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Batches that the loop edits can't be used again. The program, which catches everything, can't go on either."""
    with pytest.raises(TrialEnded) as ended:
        block(started(surveyed("edits_batches.py", *kind), dataset__cached_batches=4), 40)

    assert ended.value.failed.status is Status.NOT_TESTABLE
    assert "in place" in ended.value.failed.reason


@pytest.mark.parametrize(
    ("last", "how"),
    [
        pytest.param("", "the program came to its end", marks=pytest.mark.exhaustive),
        ("import os; os._exit(0)", "the program called os._exit(0)"),
    ],
)
def test_training_that_can_not_be_lengthened_says_where_it_ended(
    last: str, how: str, home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """A loop that counts its own steps ends, and the reason names how many there were.

    Some programs end their process at once, so that nothing is waited for which may hang.
    """
    program = f"ends_{bool(last):d}.py"
    (home / program).write_text((PROGRAMS / "ends_early.py").read_text() + last)
    with pytest.raises(TrialEnded) as ended:
        block(started(surveyed(program)), 100)

    assert ended.value.failed.status is Status.ENDED
    assert re.match(rf"after \d+ steps: {re.escape(how)}", ended.value.failed.reason)


def counting(folder: Path, steps: int) -> Path:
    """A program that trains so many steps of 2 ms and more, counted by itself, and then ends."""
    path = folder / f"counts_{steps}.py"
    path.write_text(
        "import time, torch\nfrom torch import nn\nmodel = nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nstep = 0\nwhile True:\n"
        "    optimizer.zero_grad()\n    model(torch.randn(4, 8)).sum().backward()\n    time.sleep(0.002)\n"
        f"    optimizer.step()\n    step += 1\n    if step == {steps}:\n        break\n"
    )
    return path


def five_pairs(settings: Settings) -> ComparisonRequest:
    """A comparison of kept and returned memory."""
    arms = [Arm(label=kept, settings=override(settings, {"freed_memory": kept})) for kept in ("returned", "kept")]
    return ComparisonRequest(baseline=arms[0], treatment=arms[1], stop=StopRule(max_pairs=5))


SHORT = {"budget.block_seconds": 0.15, "budget.max_pairs": 5}


@pytest.mark.exhaustive
def test_training_that_is_too_short_for_any_block_is_said_to_be(
    home: Path, surveyed: Callable[..., Settings], tmp_path: Path
) -> None:
    """It ends before one is measured, however often it is launched: 4 steps of warm-up, 1 discarded and 4 are 9."""
    settings = override(surveyed(counting(home, 8).name), SHORT)
    with LocalMeasurer(settings.budget, tmp_path / "logs") as measurer:
        record = measurer.compare(five_pairs(settings))

    assert Status.ENDED in (record.baseline.status, record.treatment.status)


@pytest.mark.exhaustive
def test_training_that_counts_its_steps_is_launched_again(
    home: Path, surveyed: Callable[..., Settings], tmp_path: Path
) -> None:
    """Blocks, observation and profile go on over several lives."""
    settings = override(surveyed(counting(home, 200).name), SHORT)
    request = five_pairs(settings)
    with LocalMeasurer(settings.budget, tmp_path / "logs") as measurer:
        record = measurer.compare(request)
        observed = measurer.observe(request.baseline, 400, 60.0)
        profile = measurer.profile(request.baseline, tmp_path / "trace.json.gz")

    assert (record.baseline.status, record.treatment.status) == (Status.OK, Status.OK)
    assert len(record.pairs) == 5
    assert record.pairs[-1].launch > 0
    assert sum(len(steps) for steps in observed.trial.steps) >= 390
    assert observed.trial.status is Status.OK
    assert not profile.failed


GROWING = """
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = torch.zeros(0, 64)
for _ in range(10_000):
    x = torch.randn(32, 64)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    seen = torch.cat([seen, x])[-3000:]
    spread = torch.cdist(seen, seen).mean()
"""
"""Its steps grow with the square of their number, some ten times from the first third to the last. So a test beside
this one can't hide that, also if it slows the first third alone several times. One thread waits for no other one."""


def test_steps_that_grow_longer_are_told_with_their_line(
    home: Path, surveyed: Callable[..., Settings], tmp_path: Path
) -> None:
    (home / "growing.py").write_text(GROWING)
    arm = Arm(label="as it is", settings=surveyed("growing.py"))
    with LocalMeasurer(arm.settings.budget, tmp_path / "logs") as measurer:
        observed = measurer.observe(arm, 90, 60.0)
        assert (observed.trial.status, sum(map(len, observed.trial.steps))) == (Status.OK, 90)
        (found,) = courses(observed.trial.steps, 0.05)
        profile = measurer.profile(arm, tmp_path / "trace.json.gz", start=max(observed.trial.steps[0].position))

    assert (found.phase, found.grows) == ("other", True)
    assert found.change > 2
    line = next(n for n, text in enumerate(GROWING.splitlines(), 1) if text.startswith("    spread = "))
    assert placed(found, profile).where == f"growing.py:{line} in <module>"


def test_batches_of_a_trainer_with_several_devices_are_those_of_each(
    home: Path, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Its loader gives the batches of all devices at once. Four times as many samples in each are not sixteen times."""
    program = (home / "with_trainer.py").read_text().replace("OwnLoss(model", "arguments._n_gpu = 2\nOwnLoss(model")
    (home / "two_devices.py").write_text(program.replace("gradient_accumulation_steps=2, ", ""))
    settings = surveyed("two_devices.py", "out")
    (made,) = (c for c in plan(override(settings, LARGER), "gradient_checkpointing", this_machine()) if c.levels)
    trial = started(settings, **made.overrides)
    measured = block(trial, 8)
    observed = trial.ask(Observe(), SOON).facts

    assert (settings.run["per_device_train_batch_size"], measured.block.work.samples) == (4, 8 * 32)
    assert made.expects.items() <= observed.items()


LARGER = {"gradient_checkpointing": {"larger_batches": [4]}}


def test_only_what_the_program_has_is_proposed(surveyed: Callable[..., Settings]) -> None:
    """A loop that makes its batches itself has no loader; one without an optimizer of PyTorch's has no fused one."""
    machine = this_machine()

    def proposed(*command: str) -> set[str]:
        found = surveyed(*command)
        assert [] == [c.name for section in LEVEL_SECTIONS for c in plan(found, section, machine) if c.untestable]
        return {f.name for section in LEVEL_SECTIONS for c in plan(found, section, machine) for f, _ in c.levels}

    assert {"dataloader_num_workers", "cached_batches", "optim", "foreach"} <= proposed(*PLAIN)
    assert not {"dataloader_num_workers", "cached_batches"} & proposed("index_sampling.py")
    assert not {"optim", "foreach", "fused"} & proposed("own_update.py")
    assert {"fused", "foreach"} <= proposed("two_optimizers.py")
    accumulates = proposed("plain_loop.py", "--lr", "0.01", "--accumulate", "2")
    assert {"larger_micro_batches"} == {"larger_micro_batches", "gradient_accumulation_steps"} & accumulates
    assert "larger_micro_batches" not in proposed(*PLAIN) | proposed(*TRAINER)
    assert "larger_batches" in proposed("draws_batches.py") & proposed(*PLAIN) & proposed("distils.py")
    none = accumulates | proposed("index_sampling.py") | proposed("whole_batch.py") | proposed("own_order.py")
    assert "larger_batches" not in none
    by_questions = plan(surveyed(*PLAIN), "gradient_checkpointing", machine)
    assert {CATALOGUE[f.name].least for c in by_questions for f, _ in c.levels} == {c.least for c in by_questions}
    assert {"trim_padding"} == {"trim_padding", "double_precision"} & proposed("padded.py")
    assert {"trim_constant_columns"} == {"trim_padding", "trim_constant_columns"} & proposed("padded_left.py")
    assert {"double_precision"} == {"trim_padding", "double_precision", "precision"} & proposed("from_numpy.py")
    assert "idle_gradients" in proposed("distils.py")
    assert "tracing" in proposed("traced.py")
    assert "debug_environment" in proposed("debugs.py")
    assert "own_rule" in proposed("own_rule.py")
    commands_own = {
        "trim_padding",
        "trim_constant_columns",
        "double_precision",
        "idle_gradients",
        "own_rule",
        "tracing",
        "debug_environment",
    }
    assert not commands_own & proposed(*PLAIN)
    assert "fused" not in proposed(*PLAIN)  # AdamW's is a level of optim
    assert {"logging_steps", "gradient_checkpointing"} <= proposed(*TRAINER)
    assert not {"logging_steps", "lora_r", "save_steps"} & proposed(*PLAIN)


def test_a_program_runs_for_real_with_the_changes(
    home: Path, surveyed: Callable[..., Settings], tmp_path: Path
) -> None:
    """Its own output and files are as ever; what was changed is said at the end, with places.

    What was found for another program is said to be."""
    settings = override(surveyed(*PLAIN), {"training_arguments.optim": "adamw_torch_fused"})
    changes = {"values": settings.changes, "feeding": settings.surveyed.feeding, "given": {}, "freed_memory": "kept"}
    changes |= {"program": "train.py in elsewhere"}
    (tmp_path / CHANGES).write_text(json.dumps(changes), encoding="utf-8")
    words = [sys.executable, "-m", "slowstep.cli", "run", "--with", str(tmp_path), "--"]
    program = [sys.executable, "plain_loop.py", "--epochs", "1", "--log", str(tmp_path / "losses.txt")]
    done = subprocess.run([*words, *program], cwd=home, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "losses.txt").read_text().splitlines()) == 1
    rows = (PROGRAMS / "plain_loop.py").read_text(encoding="utf-8").splitlines()
    line = next(i for i, row in enumerate(rows, 1) if "AdamW(" in row)
    assert f"plain_loop.py:{line}: torch.optim.AdamW" in done.stderr
    assert f"found for train.py in elsewhere; in {home.resolve() / 'plain_loop.py'} those" in done.stderr


@pytest.mark.parametrize("writes", [True, False])
def test_what_a_run_writes_beside_a_changed_configuration_stays(writes: bool, home: Path, tmp_path: Path) -> None:
    """The place is told. Where nothing was written, nothing is left; the user's own file is as it was."""
    changes = {"values": {}, "feeding": [], "given": {"own.json:a": 2}, "freed_memory": "returned"}
    (tmp_path / CHANGES).write_text(json.dumps(changes))
    (home / "own.json").write_text('{"a": 1}')
    program = "import json, sys, pathlib\nfile = pathlib.Path(sys.argv[1])\nprint(json.loads(file.read_text()))\n"
    program += "file.with_name('trained.txt').write_text('weights')\n" * writes
    (home / "beside.py").write_text(program)
    words = [sys.executable, "-m", "slowstep.cli", "run", "--with", str(tmp_path), "--", sys.executable]
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    words += ["beside.py", "own.json"]
    done = subprocess.run(words, cwd=home, env=env, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "{'a': 2}\n"), done.stderr
    left = [path for path in tmp_path.rglob("*.txt") if not path.is_symlink()]
    assert [path.read_text() for path in left] == ["weights"] * writes
    assert all(str(path) in done.stderr for path in left)
    assert bool(list(tmp_path.glob("cache/slowstep/run-*"))) == writes
    assert (home / "own.json").read_text() == '{"a": 1}'


UPLOADS = """
import json, os, pathlib, subprocess, sys, time
print(json.loads(pathlib.Path(sys.argv[1]).read_text()), flush=True)
folder, fails, silent = pathlib.Path(sys.argv[2]), sys.argv[3:], subprocess.DEVNULL
if os.environ["RANK"] == "0":
    own = [sys.executable, "upload.py", str(os.getppid()), str(folder / "uploaded")]
    (folder / "half").write_text(str(subprocess.Popen(own, stdout=silent, stderr=silent).pid))
    (folder / "half").rename(folder / "upload")
elif fails:
    while not (folder / "upload").exists():
        time.sleep(0.02)
    sys.exit(3)
"""
UPLOAD = """
import pathlib, sys, time
while pathlib.Path("/proc", sys.argv[1]).exists():
    time.sleep(0.02)
pathlib.Path(sys.argv[2]).touch()
"""


@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_what_ranks_of_a_run_leave_running_goes_on_if_all_succeed(
    fails: bool, home: Path, tmp_path: Path, alive: Callable[[list[int]], list[int]]
) -> None:
    """An upload outlives the program, as it would without the kit, and ends with a rank that fails. No copy is left."""
    changes = {"values": {}, "feeding": [], "given": {"own.json:a": 2}, "freed_memory": "returned"}
    (tmp_path / CHANGES).write_text(json.dumps(changes | {"processes": 2, "launcher": "environment"}))
    (home / "own.json").write_text('{"a": 1}')
    (home / "uploads.py").write_text(UPLOADS)
    (home / "upload.py").write_text(UPLOAD)
    words = [sys.executable, "-m", "slowstep.cli", "run", "--with", str(tmp_path), "--", sys.executable]
    words += ["uploads.py", "own.json", str(tmp_path), *["fails"] * fails]
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(words, cwd=home, env=env, capture_output=True, text=True, check=False)
    upload = int((tmp_path / "upload").read_text())

    assert (done.returncode, done.stdout) == (3 if fails else 0, "{'a': 2}\n" * 2), done.stderr
    assert not list(tmp_path.glob("cache/slowstep/run-*"))
    if fails:
        assert not alive([upload])
    else:
        deadline = time.monotonic() + SOON
        while alive([upload]) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (tmp_path / "uploaded").exists()


def test_a_program_that_fails_with_the_changes_fails_as_it_would(home: Path, tmp_path: Path) -> None:
    """Its exit status and its words are its own. Nothing is said of the program that the changes were found for."""
    changes = {"values": {}, "feeding": [], "given": {}, "freed_memory": "kept"}
    changes |= {"program": str(home.resolve() / "fails.py")}
    (tmp_path / CHANGES).write_text(json.dumps(changes))
    (home / "fails.py").write_text("import sys\nprint('so far')\nsys.exit(7)\n")
    words = [sys.executable, "-m", "slowstep.cli", "run", "--with", str(tmp_path), "--", sys.executable, "fails.py"]
    done = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (7, "so far\n", "")


def test_a_change_at_several_lines_is_told_with_all_of_them() -> None:
    """Those of one file stand together, and one that has no line stands alone."""
    cast = {"key": "training_arguments.bf16", "argument": "", "before": False, "after": True, "name": "Model"}
    threads = {"key": "process.num_threads", "argument": "", "before": 1, "after": 2, "name": ""}
    made = [cast | {"place": {"file": "/p/train.py", "line": line}} for line in (7, 9, 7)]
    made += [cast | {"place": {"file": "/p/more.py", "line": 3}}, threads | {"place": {"file": "", "line": 0}}]

    assert in_code.lines(made, Command(words=[], python="python", arguments=["train.py"], folder="/p")) == [
        "train.py:7, 9: with torch.autocast(…, torch.bfloat16)",
        "more.py:3: with torch.autocast(…, torch.bfloat16)",
        "the process: torch.set_num_threads(2)",
    ]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"argument": "num_workers", "key": "training_arguments.dataloader_num_workers", "before": 0}, "was 0"),
        ({"argument": "pin_memory", "key": "training_arguments.dataloader_pin_memory", "before": False}, "was false"),
        ({"argument": "", "key": "process.num_threads", "before": 1}, "was 1"),
        ({"argument": "", "key": "process.deterministic_algorithms", "before": False}, ""),
        ({"argument": "", "key": "training_arguments.bf16", "before": False}, ""),
        ({"argument": "", "key": "deepspeed.overlap_comm", "before": False}, "was false"),
    ],
)
def test_a_change_tells_what_it_replaces(made: dict[str, Any], said: str) -> None:
    """A line that is new, or taken away, replaces nothing."""
    assert in_code.was(made) == said


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["python", "train.py", "--config", "other.py"], "train.py"),
        (["python", "./train.py"], "train.py"),
        (["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py", "other.py"], "train.py"),
    ],
)
def test_a_program_is_known_by_its_file(words: list[str], program: str, tmp_path: Path) -> None:
    """However it is started, and from wherever."""
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text("")
    command = resolve([sys.executable, *words[1:]], tmp_path, os.environ)

    assert command.program == str(tmp_path.resolve() / program)
