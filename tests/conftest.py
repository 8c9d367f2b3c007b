"""Fixtures that several files share."""

from __future__ import annotations

import compileall
import functools
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from xdist.scheduler import LoadFileScheduling

from diagnosis import Interrupted, run_interrupted
from forked_surveys import forked
from shared_interpreters import shared_interpreters
from slowstep.cli.main import main
from slowstep.command.resolve import resolve
from slowstep.environment.imports import without_address_grammar
from slowstep.factors import Arm
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.launch.trial_process import TrialProcess
from slowstep.measure.local import LocalMeasurer
from slowstep.settings import Settings, load, override
from slowstep.settings.schema import Budget
from slowstep_probe import looks

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "programs"


TRAINS = {"measurer", "interrupted", "diagnosed"}
"""Fixtures that start trials."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, which programs of the tests inherit
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # the same of nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

PROCESSES = {
    *("test_trials.py", "test_leftovers.py", "test_system_errors.py", "test_probe.py", "test_audit_command.py"),
    *("test_guard.py", "test_script_guard.py", "test_survey.py", "test_command_trials.py", "test_workload.py"),
    *("test_workloads_beside.py", "test_final.py", "test_untrusted_text.py", "test_notebook_process.py"),
    *("test_damaged_inputs.py", "test_rank_trials.py", "test_node_trials.py", "test_slurm.py", "test_slurm_cluster.py"),
}
"""Files whose tests start trials, commands or notebooks by themselves, or train in the process of the tests."""

SHARING = {"diagnosis": ("test_notebooks.py", "test_reports.py", "test_resume.py", "test_travel.py")}
"""Files that share one whole diagnosis. It takes minutes, so one process of a run gets all of them, first."""

LONGEST = ("test_rank_trials.py", "test_command_trials.py", "test_gpu_bench.py", "test_trials.py")
"""Files that take minutes each. They begin next, so that no process of a run is left alone with one at its end."""


without_address_grammar()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of nothing but trials where those are not wanted: what they import takes seconds."""
    wanted = config.getoption("markexpr")
    return True if "not trials" in wanted and collection_path.name in PROCESSES else None


def pytest_configure(config: pytest.Config) -> None:
    """Let test processes beside each other use one thread each: threads that wait for cores cost twelve times that.

    Where Python may keep no compiled modules, hundreds of processes would compile the kit anew.
    """
    if hasattr(config, "workerinput"):
        os.environ["OMP_NUM_THREADS"] = "1"
    elif sys.dont_write_bytecode:
        compileall.compile_dir(ROOT / "lib", quiet=2)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Give each file to one process, since its tests share trials."""
    return Files(config, log)


class Files(LoadFileScheduling):
    """Files are given out in the order in which they stand, and those that share something as one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((kind for kind, files in SHARING.items() if Path(file).name in files), file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start trials, by their fixtures; those that do so by themselves are marked where they are.

    What takes longest comes first.
    """
    for item in items:
        if TRAINS & set(getattr(item, "fixturenames", ())) or item.path.name in PROCESSES:
            item.add_marker(pytest.mark.trials)
    long = {item.path for item in items if item.get_closest_marker("trials")}
    first = [*(file for files in SHARING.values() for file in files), *LONGEST]
    items.sort(
        key=lambda item: (
            first.index(item.path.name) if item.path.name in first else len(first),
            item.path not in long,
        )
    )


@pytest.fixture(autouse=True)
def no_look_fails() -> Iterator[None]:
    """No look of the kit at an object of a test goes wrong, unless the test takes what went wrong from the list."""
    looks.FAILED.clear()
    yield
    assert looks.FAILED == []


@pytest.fixture(scope="session", autouse=True)
def trials_share_interpreters() -> Iterator[None]:
    """Trials of commands are forked from a few interpreters, and not each command's from its own."""
    with shared_interpreters():
        yield


@pytest.fixture(scope="session")
def quick() -> Settings:
    """The embedded default, but for its minutes: simulated trials keep no clock."""
    return load(ROOT / "params" / "quick.yaml", ["budget.minutes=null"]).settings


@pytest.fixture(scope="session")
def smoke() -> Settings:
    """The smallest settings that train the built-in workload."""
    return load(ROOT / "params" / "smoke.yaml").settings


@pytest.fixture(scope="session")
def arm(smoke: Settings) -> Callable[..., Arm]:
    """Makes an arm: `arm(Workload, {"section.key": value})`, of the built-in workload where none is given."""

    def make(workload: type | None = None, changes: dict[str, object] | None = None) -> Arm:
        name = f"{workload.__module__}:{workload.__qualname__}" if workload else "finetune"
        label = workload.__qualname__ if workload else "finetune"
        return Arm(label=label, settings=override(smoke, {"workload": name} | (changes or {})))

    return make


@pytest.fixture(scope="session")
def budget() -> Budget:
    """Blocks of four steps, whatever they take; a busy machine is no reason to repeat one."""
    return Budget(
        block_seconds=1e-6, block_steps_min=4, redo_blocks=0, startup_timeout_seconds=120, step_timeout_seconds=40
    )


@pytest.fixture(scope="module")
def measurer(budget: Budget, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMeasurer]:
    """A measurer whose resident baseline the tests of one file share."""
    with LocalMeasurer(budget, tmp_path_factory.mktemp("logs")) as measurer:
        yield measurer


@pytest.fixture(scope="session")
def alive() -> Callable[[list[int]], list[int]]:
    """Which of some processes still run; one that only waits to be collected has ended."""

    def running(pids: list[int]) -> list[int]:
        found = []
        for pid in pids:
            try:
                if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    found.append(pid)
            except psutil.NoSuchProcess:
                continue
        return found

    return running


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., TrialProcess]]:
    """Starts a trial of a command with changes, and ends it with the test."""
    trials = []

    def start(settings: Settings, **changes: Any) -> TrialProcess:
        changed = override(settings, {key.replace("__", "."): value for key, value in changes.items()})
        arm = Arm(label="trial", settings=changed)
        trials.append(TrialProcess(arm, tmp_path / "log", settings.budget, tmp_path / "cache"))
        return trials[-1]

    yield start
    for trial in trials:
        trial.end()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with the programs in it."""
    folder = tmp_path_factory.mktemp("home")
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, folder)
    return folder


@pytest.fixture(scope="session")
def seen(home: Path) -> Callable[..., SurveyRecord]:
    """Surveys a program of that folder, once: `seen("plain_loop.py", "--lr", "0.01")`."""

    @functools.cache
    def surveyed(*arguments: str, **order: float) -> SurveyRecord:
        command = resolve([sys.executable, *arguments], home, os.environ)
        with forked():
            return survey(command, SurveyOrder(**{"startup": 120, "seconds": 60} | order), os.environ)

    return surveyed


@pytest.fixture
def forked_surveys() -> Iterator[None]:
    """Surveys in this test are forked from a warm interpreter."""
    with forked():
        yield


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A whole diagnosis of the smoke file, killed in the middle and started again."""
    return run_interrupted(tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="session")
def diagnosed(interrupted: Interrupted) -> Path:
    """The outputs folder of that diagnosis."""
    return interrupted.outputs


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of `slowstep audit` over a case and over a table by itself."""
    outputs = tmp_path_factory.mktemp("audits")
    table = outputs / "speeds.csv"
    table.write_text("run,per_device_train_batch_size,s/it\nsmall,32,2.13\nlarge,96,6.33\n", encoding="utf-8")
    for given in (ROOT / "params" / "case_001.yaml", table):
        assert main(["audit", str(given), "--outputs", str(outputs)]) == 0
    return outputs


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test of this process has compiled anything: some things are not watched where something was compiled."""
    for name in ("frames", "stats", "graph_break"):
        monkeypatch.delitem(importlib.import_module("torch._dynamo.utils").counters, name, raising=False)
