"""Programs that train in several processes, by their commands: real launchers, ranks, exchanges and failures."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asking import compare
from forked_surveys import forked
from slowstep.command.resolve import resolve
from slowstep.environment.machine import this_machine
from slowstep.factors import Arm, comparison_family
from slowstep.final.code_changes import changes_record
from slowstep.judgement.comparison import change
from slowstep.judgement.ranks import moves_with_data, skew
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.measure.local import LocalMeasurer
from slowstep.records import Status
from slowstep.settings import Settings, load, override
from slowstep.settings.command import CHANGES
from slowstep.settings.schema import Budget
from slowstep_probe.processes.tree import descendants
from slowstep_probe.trial.messages import BlockDone, Observe, Profile, TrainBlock

PROGRAMS = Path(__file__).resolve().parent / "programs"
SCRIPTS = Path(sys.executable).parent
SOON = 120.0

TORCHRUN = ("torchrun", "--nproc-per-node", "2")
AS_PROCESSES = "as_processes.py"
AS_PROCESSES_RUN = {
    "fork": '{"__main__.train": [0, 1]}',
    "forkserver": '{"__main__.train": [0, 1]}',
    "class": '{"__main__.Training.run": [0, 1]}',
    "beside": '{"__main__.train": [1]}',
}
"""How the program starts its processes, with the function that they run and the ranks that they are."""

UNLIKE = "as_unlike_processes.py"


pytestmark = pytest.mark.trials


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with the programs in it."""
    folder = tmp_path_factory.mktemp("home")
    for name in (
        "together.py",
        "fed_by_first.py",
        "sharded.py",
        "sharded_by_wrapping.py",
        "spawned.py",
        AS_PROCESSES,
        UNLIKE,
        "at_a_port.py",
        "with_accelerate.py",
    ):
        shutil.copy(PROGRAMS / name, folder)
    return folder


@pytest.fixture(scope="module")
def seen(home: Path) -> Callable[..., SurveyRecord]:
    """Surveys a command once."""
    known: dict[tuple[str, ...], SurveyRecord] = {}

    def look(*words: str) -> SurveyRecord:
        if words not in known:
            own = [str(SCRIPTS / words[0]), *words[1:]] if (SCRIPTS / words[0]).is_file() else list(words)
            command = resolve(own, home, os.environ)
            # what a program starts anew imports PyTorch in any case
            with forked() if words[0] == "torchrun" else contextlib.nullcontext():
                known[words] = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)
        return known[words]

    return look


@pytest.fixture(scope="module")
def surveyed(seen: Callable[..., SurveyRecord], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Settings]:
    """Returns the settings of a command's investigation."""
    outputs = tmp_path_factory.mktemp("outputs")
    known: dict[tuple[str, ...], Settings] = {}

    def settings(*words: str) -> Settings:
        if words not in known:
            known[words] = load(write(seen(*words), outputs / f"run_{len(known)}")).settings
        return known[words]

    return settings


def with_options(settings: Settings, *options: str) -> Settings:
    """The settings of a program with more options, which the survey has not seen."""
    return override(settings, {"command.arguments": [*settings.command.arguments, *options]})


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with what it holds."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


def block(trial: TrialProcess, steps: int = 4) -> BlockDone:
    """A block of steps after the first one."""
    trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=1), SOON)
    return trial.ask(TrainBlock(steps=steps), SOON)


@pytest.mark.parametrize(
    ("words", "launcher", "samples"),
    [
        ((*TORCHRUN, "together.py"), "torchrun", 32),
        ((sys.executable, "spawned.py"), "spawn", 32),
        ((sys.executable, AS_PROCESSES, "spawn"), 'process:{"__main__.train": [0, 1]}', 32),
        (
            (sys.executable, UNLIKE, "2"),
            'process:{"__main__.learn": [null, 0], "__main__.act": [1]}',
            32,
        ),
        *(
            pytest.param((sys.executable, AS_PROCESSES, how), f"process:{run}", 32, marks=pytest.mark.exhaustive)
            for how, run in AS_PROCESSES_RUN.items()
        ),
        pytest.param(
            (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "with_accelerate.py"),
            "torchrun",
            32,
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            ("accelerate", "launch", "--multi_gpu", "--num_processes", "2", "together.py"),
            "torchrun",
            32,
            marks=pytest.mark.exhaustive,
        ),
        pytest.param((*TORCHRUN, "sharded.py"), "torchrun", 32, marks=pytest.mark.exhaustive),
    ],
)
def test_launchers_are_seen_through(
    words: tuple[str, ...], launcher: str, samples: int, seen: Callable[..., SurveyRecord]
) -> None:
    """The survey says how many processes train together, and tells the program's own options and the work of all."""
    told = seen(*words)

    assert (told.command.processes, told.command.launcher) == (2, launcher)
    assert told.training["work"]["samples"] == samples * len(told.training["step_seconds"])
    assert set(told.training["ranks"]) == {"0", "1"}
    assert not any(name.startswith("--nproc") for name in told.options)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_launcher_that_starts_a_launcher_is_seen_through(
    ranks: int, tmp_path: Path, started: Callable[..., TrialProcess]
) -> None:
    """As the command `deepspeed` does, for one process too: it is surveyed, and trained in a trial."""
    package = tmp_path / "home" / "deepspeed" / "launcher"
    package.mkdir(parents=True)
    shutil.copy(PROGRAMS / "launcher.py", package / "launch.py")
    for name in ("starts_a_launcher.py", "together.py"):
        shutil.copy(PROGRAMS / name, tmp_path / "home")
    words = [sys.executable, "starts_a_launcher.py", str(ranks), "together.py"]
    told = survey(resolve(words, tmp_path / "home", os.environ), SurveyOrder(startup=120, seconds=60), os.environ)
    measured = block(started(load(write(told, tmp_path / "run")).settings))

    assert (told.command.processes, told.command.launcher) == (ranks, "subprocess")
    assert measured.block.work.samples == 4 * 16 * ranks


def test_threads_of_a_rank_are_those_that_its_launcher_sets(seen: Callable[..., SurveyRecord]) -> None:
    """torchrun gives each of several processes one thread where nobody says otherwise, and so do the trials."""
    told = seen(*TORCHRUN, "together.py")

    assert told.training["facts"]["num_threads"] == int(os.environ.get("OMP_NUM_THREADS", 1))


def test_ranks_train_the_same_steps_and_leave_nothing(
    surveyed: Callable[..., Settings],
    started: Callable[..., TrialProcess],
    home: Path,
    alive: Callable[[list[int]], list[int]],
) -> None:
    """Blocks hold the work of both ranks, the program finds its group, the user's folder stays, no process is left.

    A block that is asked for in samples has as many steps as both ranks need for them.
    """
    before = content(home)
    trial = started(surveyed(*TORCHRUN, "together.py"))
    measured = block(trial, 6)
    in_samples = trial.ask(TrainBlock(samples=10 * 32), SOON)
    facts = trial.ask(Observe(), SOON).facts
    processes = descendants(trial.guard)
    trial.end()

    assert measured.block.steps == 6
    assert measured.block.work.samples == 6 * 32
    assert len(measured.block.ranks) == 2
    assert in_samples.block.steps == 10
    assert (facts["world_size"], facts["parallelism"]) == (2, "DDP")
    assert "unlike_ranks" not in facts
    assert content(home) == before
    assert not alive(processes)
    collected = time.monotonic() + SOON  # a rank that was killed is collected once its last thread has ended
    while (left := [pid for pid in processes if Path(f"/proc/{pid}").exists()]) and time.monotonic() < collected:
        time.sleep(0.05)
    assert not left


@pytest.mark.parametrize("more", [(), pytest.param(("--by-hand",), marks=pytest.mark.exhaustive)])
def test_a_rank_may_validate_by_itself(
    more: tuple[str, ...], surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """The others wait for it meanwhile, so it must not stand still where only it comes by."""
    trial = started(surveyed(*TORCHRUN, "together.py", "--cause", "validates_apart", *more))
    blocks = [block(trial, 2), *(trial.ask(TrainBlock(steps=steps), SOON) for steps in (3, 4))]

    assert [one.block.steps for one in blocks] == [2, 3, 4]
    assert [one.block.work.samples for one in blocks] == [64, 96, 128]


@pytest.mark.parametrize(
    ("how", "samples"),
    [
        ("stream", 16),
        pytest.param("broadcast", 16, marks=pytest.mark.exhaustive),
        pytest.param("pipeline", 16, marks=pytest.mark.exhaustive),
    ],
)
def test_one_rank_alone_may_have_a_loader(
    how: str, samples: int, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """The others wait for what it hands on, so it must not stand still where it asks its loader."""
    trial = started(surveyed(*TORCHRUN, "fed_by_first.py", "--how", how))
    blocks = [block(trial, 2), *(trial.ask(TrainBlock(steps=steps), SOON) for steps in (3, 4))]

    assert [one.block.steps for one in blocks] == [2, 3, 4]
    assert [one.block.work.samples for one in blocks] == [samples * one.block.steps for one in blocks]


@pytest.mark.parametrize(
    ("words", "samples"),
    [
        ((sys.executable, "spawned.py"), 32),
        pytest.param((sys.executable, AS_PROCESSES, "spawn"), 32, marks=pytest.mark.exhaustive),
        pytest.param((sys.executable, UNLIKE, "2"), 32, marks=pytest.mark.exhaustive),
        pytest.param(("torchrun", "--nproc-per-node", "1", "at_a_port.py"), 16, marks=pytest.mark.exhaustive),
        pytest.param((sys.executable, "at_a_port.py"), 16, marks=pytest.mark.exhaustive),
    ],
)
def test_two_arms_stand_beside_each_other(
    words: tuple[str, ...], samples: int, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """They name the same address and port, and still meet their own ranks alone; what they start besides runs."""
    settings = surveyed(*words)
    one, other = started(settings), started(settings)

    assert [block(each).block.work.samples for each in (one, other)] == [4 * samples] * 2
    assert one.ask(TrainBlock(steps=2), SOON).block.steps == 2


def test_a_rank_can_be_profiled(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess], tmp_path: Path
) -> None:
    """The others train as far, and go on afterwards."""
    trial = started(surveyed(*TORCHRUN, "together.py"))
    block(trial)
    trace = trial.folder / "trace.json"
    found = trial.ask(Profile(steps=3, trace=str(trace), looks=5), SOON)

    assert found.record.steps == 3
    assert trace.is_file()
    assert trial.ask(TrainBlock(steps=2), SOON).block.steps == 2


OF_THE_EXCHANGE = [
    ("together.py", {"ddp__comm_hook": "none", "ddp__bucket_cap_mb": 100.0, "ddp__gradient_as_bucket_view": True}),
    ("together.py", {"processes": 1}),
]
WRAPPING = "sharded_by_wrapping.py"
MORE_OF_THE_EXCHANGE = [
    ("together.py", {"ddp__comm_hook": "fp16", "ddp__static_graph": True, "ddp__broadcast_buffers": False}),
    ("together.py", {"ddp__comm_hook": "powersgd"}),
    ("together.py --cause search", {"ddp__find_unused_parameters": False}),
    ("together.py --cause slow_exchange", {"ddp__comm_hook": "allreduce"}),
    ("together.py --accumulate 4", {"ddp__sync_each_batch": False}),
    ("sharded.py", {"fsdp__reshard_after_forward": False, "fsdp__forward_prefetch": True}),
    (
        WRAPPING,
        {
            "fsdp__sharding_strategy": "SHARD_GRAD_OP",
            "fsdp__backward_prefetch": "none",
            "fsdp__forward_prefetch": True,
            "fsdp__limit_all_gathers": False,
        },
    ),
]
FACTS = {"processes": "world_size", "fsdp.reshard_after_forward": "reshard_after_forward"}
"""The facts by which changes are seen that have other names than these."""


@pytest.mark.parametrize(
    ("program", "changes"),
    [*OF_THE_EXCHANGE, *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in MORE_OF_THE_EXCHANGE)],
)
def test_changes_of_the_exchange_are_seen_in_effect(
    program: str, changes: dict[str, Any], surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """Each is made where the object is made, and observed there; without the change it is not observed.

    Changes that do not meet are seen in one trial.
    """
    settings = surveyed(*TORCHRUN, *program.split())
    trial = started(settings, **changes)
    block(trial)
    facts = trial.ask(Observe(), SOON).facts
    asked = {name.replace("__", "."): value for name, value in changes.items()}

    assert {name: facts.get(FACTS.get(name, name)) for name in asked} == asked
    seen = {name: settings.surveyed.values.get(name) for name in asked}
    assert [] == [name for name, found in seen.items() if found is not None and found.value == asked[name]]


def test_fewer_processes_train_than_a_program_spawns(
    surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """It asks for three, and the two that the arm has go on as its ranks. It starts no others."""
    spawning = {"command.arguments": ["spawned.py", "3"], "command.processes": 3}
    trial = started(override(surveyed(sys.executable, "spawned.py"), spawning), processes=2)

    assert block(trial).block.work.samples == 4 * 32
    assert trial.ask(Observe(), SOON).facts["world_size"] == 2


def failed(settings: Settings, started: Callable[..., TrialProcess]) -> TrialEnded:
    """The end of a trial that fails after some steps. What it started ends soon: the kernel takes its time."""
    trial = started(settings)
    with pytest.raises(TrialEnded) as ended:
        block(trial, 20)
    deadline = time.monotonic() + 10
    while descendants(trial.guard) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not descendants(trial.guard)
    return ended.value


@pytest.mark.parametrize(
    ("cause", "status", "said"),
    [
        ("raises", Status.CRASHED, "rank 1: RuntimeError: a fault of its own"),
        ("killed", Status.OUT_OF_MEMORY, "rank 1: killed by SIGKILL"),
    ],
)
def test_one_rank_ends_all_and_is_named(
    cause: str,
    status: Status,
    said: str,
    surveyed: Callable[..., Settings],
    started: Callable[..., TrialProcess],
) -> None:
    """The reason is that of the rank that failed, not of those whose connection to it broke."""
    settings = surveyed(*TORCHRUN, "together.py")
    ended = failed(with_options(settings, "--cause", cause, "--dies-after", "6"), started)

    assert ended.failed.status is status
    assert ended.failed.reason.startswith(said)


@pytest.mark.parametrize("cause", ["hangs", "hangs_within_the_pass"])
def test_a_rank_that_hangs_is_named(
    cause: str, surveyed: Callable[..., Settings], started: Callable[..., TrialProcess]
) -> None:
    """The others wait for it in their backward pass, which is no fault of theirs, though it may stand there itself."""
    settings = surveyed(*TORCHRUN, "together.py")
    trial = started(with_options(settings, "--cause", cause, "--dies-after", "4"))
    trial.ask(None, SOON)
    with pytest.raises(TrialEnded) as ended:
        trial.ask(TrainBlock(steps=20), 6.0)

    assert ended.value.failed.status is Status.TIMED_OUT
    assert "rank 1 keeps the others waiting" in ended.value.failed.reason


@pytest.mark.exhaustive
def test_a_slow_exchange_is_what_training_without_it_gains(
    surveyed: Callable[..., Settings], tmp_path: Path, budget: Budget
) -> None:
    """An exchange made longer by a known time, in calls that nothing hides, is found with that time."""
    settings = with_options(surveyed(*TORCHRUN, "together.py", "--cause", "slow_exchange"), "--seconds", "0.06")
    treated = override(settings, {"ddp.comm_hook": "none"})
    with LocalMeasurer(budget, tmp_path) as measurer:
        record = compare(measurer, Arm(label="base", settings=settings), Arm(label="none", settings=treated), pairs=3)

    assert record.treatment.observed["ddp.comm_hook"] == "none"
    steps = sum(pair.baseline.steps for pair in record.pairs)
    saved = sum(p.baseline.seconds - p.treatment.seconds for p in record.pairs) / steps
    assert saved > 0.05
    assert change(record.pairs).ratio > 1


@pytest.mark.parametrize(("cause", "by_data"), [("slow part", True), ("slow data", False)])
@pytest.mark.exhaustive
def test_the_slow_rank_is_found_and_whether_it_is_its_data(
    cause: str, by_data: bool, surveyed: Callable[..., Settings], tmp_path: Path, budget: Budget
) -> None:
    """By the blocks of real ranks: the one with slow examples; it is another one if those go with the data."""
    settings = with_options(surveyed(*TORCHRUN, "together.py"), "--cause", cause, "--seconds", "0.1")
    arm = Arm(label="base", settings=settings)
    other = Arm(label="swapped", settings=override(settings, {"ddp.rank_data": "swapped"}))
    with LocalMeasurer(budget, tmp_path) as measurer:
        record = compare(measurer, arm, other, pairs=4)
    found = skew([pair.baseline for pair in record.pairs], least=0.02)

    assert (found.rank, found.phase) == (1, "data")
    assert record.treatment.observed["ddp.rank_data"] == "swapped"
    assert record.baseline.observed["ddp.rank_data"] == "own"
    assert moves_with_data(found, [pair.treatment for pair in record.pairs], least=0.02) is by_data


def test_what_is_tried_by_itself(surveyed: Callable[..., Settings]) -> None:
    """The exchange, its pieces and fewer processes; nothing of it where one process trains."""
    settings = surveyed(*TORCHRUN, "together.py")
    names = {contrast.name for contrast in comparison_family(settings, "parallelism", this_machine())}

    assert {"ddp_comm_hook=none", "ddp_bucket_cap_mb=100", "processes=1"} <= names
    alone = override(settings, {"processes": 1})
    assert not comparison_family(alone, "parallelism", this_machine())


@pytest.mark.exhaustive
def test_ranks_run_for_real_with_the_changes(home: Path, surveyed: Callable[..., Settings], tmp_path: Path) -> None:
    """Each of them, to the program's own end; what was changed is said once, and a rank that fails ends the run."""
    settings = override(surveyed(*TORCHRUN, "together.py"), {"ddp.gradient_as_bucket_view": True})
    (tmp_path / CHANGES).write_text(json.dumps(changes_record(settings)), encoding="utf-8")
    words = [sys.executable, "-m", "slowstep.cli", "run", "--with", str(tmp_path), "--", str(SCRIPTS / "torchrun")]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        program = ["--nproc-per-node", "2", "together.py", *options]
        return subprocess.run([*words, *program], cwd=home, capture_output=True, text=True, check=False)

    done = run("--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ddp.gradient_as_bucket_view was False, is True") == 1
    assert done.stdout.splitlines() == ["2 ranks trained 128 steps"]
    ended = run("--cause", "raises", "--dies-after", "3")
    assert ended.returncode in {1, 128 + signal.SIGABRT}  # a thread of gloo may abort a process that ends by an error
    assert "a fault of its own" in ended.stderr
