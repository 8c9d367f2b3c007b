"""What a trial starts, takes and prints: nothing outlives it, its limit holds at all times, its log stays small."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import workloads_that_misbehave as w
from family import descendants, living, wait, words
from slowstep.factors import Arm
from slowstep.launch import guarded_process
from slowstep.launch.probe_entry import LIBRARY
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.launch.warm_interpreter import Interpreter, NotStarted, WarmInterpreter, environment
from slowstep.records import Status
from slowstep.settings.schema import Budget
from slowstep_probe.processes import process_mark
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.log import CappedLog, log_tail
from slowstep_probe.processes.wire import wait as receivable
from slowstep_probe.trial.messages import Failed, Observe, TrainBlock

Make = Callable[..., Arm]
SOON = 60.0
MIB, GIB = 2**20, 2**30
WORKERS = {"training_arguments.dataloader_num_workers": 2}


@pytest.fixture
def started(budget: Budget, tmp_path: Path) -> Iterator[Callable[..., TrialProcess]]:
    """Starts a trial of an arm, and ends it with the test."""
    trials = []

    def start(arm: Arm, limit: float | None = None) -> TrialProcess:
        allowed = replace(budget, memory_limit_gib=limit)
        trials.append(TrialProcess(arm, tmp_path / "log", allowed, cache=tmp_path / "cache"))
        return trials[-1]

    yield start
    for trial in trials:
        trial.end()


def fate(trial: TrialProcess, steps: int = 6) -> Failed:
    """How a trial ended that was asked for some steps."""
    try:
        trial.ask(None, SOON)
        for _ in range(steps):
            trial.ask(TrainBlock(steps=1), SOON)
    except TrialEnded as ended:
        return ended.failed
    raise AssertionError("the trial goes on")


def of(trial: TrialProcess) -> list[psutil.Process]:
    """Every process that a trial has started, wherever it stands."""
    return descendants(trial.guard)


# -- nothing outlives a trial --


@pytest.mark.parametrize("workload", [w.StartsOthers, w.StartsOthersForEver])
def test_what_escapes_from_its_group_ends_with_the_trial(
    workload: type, started: Callable[..., TrialProcess], arm: Make
) -> None:
    """Processes in sessions of their own, double-forked ones, and one that forks without end: all are gone."""
    trial = started(arm(workload))
    trial.ask(None, SOON)
    family = of(trial)
    trial.end()

    assert len(family) >= 2  # the trial and what it started
    assert [] == living(family)
    assert [] == [p for p in psutil.process_iter(["cmdline"]) if marked(p, trial) and living([p])]


def marked(process: psutil.Process, trial: TrialProcess) -> bool:
    """Whether it is one of those that try to outlive this trial."""
    told = process.info["cmdline"] or []
    return w.ESCAPED in told and str(trial.folder) in told


def test_what_escapes_ends_with_a_trial_that_crashes(started: Callable[..., TrialProcess], arm: Make) -> None:
    """The kernel gives the orphans of a trial that is gone to its guard, which ends them."""
    trial = started(arm(w.StartsOthersAndDies))
    trial.ask(None, SOON)
    family = of(trial)
    failed = fate_of_asked(trial)

    assert "SIGSEGV" in failed.reason
    assert len(family) >= 5
    assert [] == living(family)


def fate_of_asked(trial: TrialProcess) -> Failed:
    """How a trial that is ready ends."""
    with pytest.raises(TrialEnded) as ended:
        trial.ask(TrainBlock(steps=10), SOON)
    return ended.value.failed


@pytest.mark.parametrize("victim", ["the trial", "the guard"])
def test_what_escapes_ends_when_somebody_is_killed(
    victim: str, started: Callable[..., TrialProcess], arm: Make
) -> None:
    """Trial or guard, whichever is killed from outside: the next question finds it, and nothing is left."""
    trial = started(arm(w.StartsOthers, WORKERS))
    trial.ask(None, SOON)
    family = of(trial)
    os.kill(trial.pid if victim == "the trial" else trial.guard, signal.SIGKILL)
    failed = fate_of_asked(trial)

    assert failed.status in (Status.OUT_OF_MEMORY, Status.CRASHED)
    assert wait(lambda: not living(family))
    assert not trial.folder.exists()


def test_a_trial_that_is_interrupted_as_it_begins_is_ended_by_its_guard(
    arm: Make, budget: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard has said which process it guards, and nobody has heard it yet: it is told to end all the same."""
    without_guard: list[int] = []
    forked: list[int] = []
    fork = WarmInterpreter.fork

    @contextlib.contextmanager
    def interrupted() -> Iterator[None]:
        yield
        time.sleep(0.5)  # the guard has spoken by then
        raise KeyboardInterrupt

    monkeypatch.setattr(guarded_process, "held", interrupted)
    monkeypatch.setattr(WarmInterpreter, "fork", lambda *given: forked.append(fork(*given)) or forked[-1])
    monkeypatch.setattr(WarmInterpreter, "end_orphans", lambda _, guard: without_guard.append(guard))
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    with pytest.raises(KeyboardInterrupt):
        TrialProcess(arm(), tmp_path / "log", budget, cache=tmp_path / "cache")

    assert not without_guard
    assert len(forked) == 1
    assert wait(lambda: not psutil.pid_exists(forked[0]) or not living([psutil.Process(forked[0])]))
    assert not list(own.iterdir())


def test_a_temporary_folder_that_nobody_knows_is_removed_at_exit(tmp_path: Path) -> None:
    """A signal may come when a folder is made and no variable holds it. Those of others stay."""
    code = (
        "import tempfile; from slowstep_probe.processes import scratch\n"
        "tempfile.mkdtemp(prefix=scratch.folder_prefix('trial'))\nraise KeyboardInterrupt"
    )
    theirs = tmp_path / f"slowstep-trial-{process_mark.mark()}-abcdefgh"  # of the process of this test
    theirs.mkdir()
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
        check=False,
    )

    assert done.returncode
    assert [theirs] == list(tmp_path.iterdir())


OPENS_A_DEVICE = """
import os
from pathlib import Path
from slowstep_probe.processes import server
server.DEVICES = ("/dev/full",)  # there need be no device on this machine
opened = open("/dev/full", "w")
Path(__file__).with_name("seen").write_text(str(os.getpid()))
"""


INITIALISES_A_DEVICE = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
sys.modules["torch"] = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
Path(__file__).with_name("seen").write_text(str(os.getpid()))
"""


@pytest.mark.parametrize("code", [OPENS_A_DEVICE, INITIALISES_A_DEVICE], ids=["opens", "initialises"])
def test_an_interpreter_in_which_an_import_opened_a_device_is_replaced(code: str, tmp_path: Path) -> None:
    """No process that is forked from it could use the device. The next one imports what came before, and no more."""
    (tmp_path / "opens_a_device.py").write_text(code)
    (tmp_path / "comes_later.py").write_text(f"open({str(tmp_path / 'later')!r}, 'w')")
    env = environment(os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(LIBRARY)])})
    modules = ("json", "opens_a_device", "comes_later")
    interpreter = WarmInterpreter(Interpreter(python=sys.executable, preload=modules, env=env))
    try:
        found, pid = interpreter.preloaded, interpreter.process.pid
    finally:
        interpreter.close()

    assert (found.opened, found.failed) == ("", {})
    assert int((tmp_path / "seen").read_text()) != pid
    assert not (tmp_path / "later").exists()


def test_an_import_sees_the_words_of_the_program(tmp_path: Path) -> None:
    """Some packages read `sys.argv` when they are imported, or keep it (Ultralytics), and the program has it later."""
    (tmp_path / "reads.py").write_text("import sys\nraise RuntimeError(' '.join(sys.argv))\n")
    env = environment(os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(LIBRARY)])})
    words = ("train.py", "--lr", "1")
    interpreter = WarmInterpreter(Interpreter(python=sys.executable, preload=("reads",), env=env, argv=words))
    try:
        failed = interpreter.preloaded.failed
    finally:
        interpreter.close()

    assert failed == {"reads": "RuntimeError: train.py --lr 1"}


def test_what_imports_print_stays_off_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Warnings, and what C and child processes write. An interpreter that an import ends has last words."""
    lines = ("import os, warnings", "warnings.warn('old')", "os.system('echo by a child')", "os.write(2, b'made; ')")
    (tmp_path / "prints.py").write_text("\n".join(lines))
    (tmp_path / "ends.py").write_text("import os\nprint('no licence', flush=True)\nos._exit(3)\n")
    env = environment(os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(LIBRARY)])})
    said = []
    for modules in (("prints",), ("prints", "ends")):
        interpreter = WarmInterpreter(Interpreter(python=sys.executable, preload=modules, env=env))
        try:
            with contextlib.suppress(EOFError):
                assert interpreter.preloaded.failed == {}
        finally:
            interpreter.close()
        said.append(interpreter.last_words)

    assert said == ["made;", "made; no licence"]
    assert capfd.readouterr() == ("", "")


NO_MORE = "import os\ndef refuse():\n    raise BlockingIOError(11, 'no more processes')\nos.fork = refuse\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (NO_MORE, r"the system refuses it: \[Errno 11\] no more processes"),
        (
            "import os\nprint('no licence', flush=True)\nos._exit(3)\n",
            "while it made its imports; its last words: no licence",
        ),
        ("import os\nos.fork = lambda: os._exit(3)\n", "the interpreter that forks it has ended"),
    ],
)
def test_a_process_that_can_not_be_forked_says_why(code: str, expected: str, tmp_path: Path) -> None:
    """And its folder is gone."""
    (tmp_path / "own").mkdir()
    (tmp_path / "refuses.py").write_text(code)
    env = environment(os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(LIBRARY)])})
    interpreter = WarmInterpreter(Interpreter(python=sys.executable, preload=("refuses",), env=env))
    try:
        with pytest.raises(NotStarted, match=expected):
            guarded_process.Guarded(interpreter, Order(target="os:getpid", folder=str(tmp_path / "own")))
    finally:
        interpreter.close()

    assert not (tmp_path / "own").exists()


def test_what_escapes_ends_when_the_kit_is_killed(arm: Make, budget: Budget, tmp_path: Path) -> None:
    """SIGKILL of the process that measures: what its trials had started in sessions of their own is gone, too."""
    launch = tmp_path / "launch.pickle"
    launch.write_bytes(pickle.dumps(([arm(w.StartsOthers)], budget, str(tmp_path), 2)))
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    owner = subprocess.Popen(
        [sys.executable, "-m", "holding", str(launch)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        family = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        escaped = [p for p in family if w.ESCAPED in words(p).split()]
    finally:
        owner.kill()
        owner.wait()

    assert len(escaped) >= 4
    assert wait(lambda: not living(family))
    assert wait(lambda: not list(tmp_path.glob("slowstep-[tc]*")))  # nor the trial's folder, nor the caches


# -- memory --


@pytest.mark.parametrize("workload", [w.Hoards, w.HoardsInAStep, w.HoardsInAWorker])
def test_memory_taken_for_a_moment_counts(workload: type, started: Callable[..., TrialProcess], arm: Make) -> None:
    """In start-up, in a step or by another process, and given back before anybody looked: out of memory."""
    failed = fate(started(arm(workload), limit=0.75))

    assert Status.OUT_OF_MEMORY is failed.status
    assert 0.75 * GIB == failed.memory.limit < failed.memory.host
    assert "0.75 GiB are allowed" in failed.reason


def test_memory_taken_between_blocks_counts(started: Callable[..., TrialProcess], arm: Make) -> None:
    """A trial that waits for its turn is watched as one that trains."""
    trial = started(arm(w.HoardsWhileIdle), limit=1.0)
    trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=1), SOON)
    trial.ask(Observe(), SOON)
    gone = wait(lambda: receivable([trial.guarded._report], 0))  # the guard says that it has ended the trial
    failed = fate_of_asked(trial)

    assert gone
    assert Status.OUT_OF_MEMORY is failed.status
    assert failed.memory.limit < failed.memory.host


def test_a_limit_that_imports_alone_exceed_is_told(started: Callable[..., TrialProcess], arm: Make) -> None:
    """0.05 GiB are less than PyTorch takes by itself: no trial is healthy under it."""
    failed = fate(started(arm(w.Tiny), limit=0.05))

    assert Status.OUT_OF_MEMORY is failed.status
    assert "0.05 GiB are allowed" in failed.reason


def test_a_file_that_is_mapped_takes_no_memory(started: Callable[..., TrialProcess], arm: Make) -> None:
    """As much data as there is memory can be read through a mapping: the kernel takes its pages back."""
    trial = started(arm(w.ReadsAMappedFile), limit=0.75)
    trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=3), SOON)
    failed = fate(started(arm(w.MapsAFileAndFails), limit=0.75))

    assert trial.host_peak() <= 0.75 * GIB
    assert failed.status is Status.CRASHED  # whichever way it ends
    assert "its own reason" in failed.reason
    assert failed.memory.host <= failed.memory.limit


def test_memory_that_is_shared_counts_once(started: Callable[..., TrialProcess], arm: Make) -> None:
    """Loader workers share what the trial holds; eight of them are no reason to end it."""
    trial = started(arm(w.Tiny, {"training_arguments.dataloader_num_workers": 8}), limit=1.2)
    trial.ask(None, SOON)
    for _ in range(3):
        trial.ask(TrainBlock(steps=50), SOON)

    assert trial.host_peak() < 1.2 * GIB


# -- logs --


def test_a_log_stays_small(started: Callable[..., TrialProcess], arm: Make) -> None:
    """20 MiB printed by Python, by the trial's descriptors and by another program: first and last words are kept,
    with a line that says how much is left out, and the stack of the crash."""
    trial = started(arm(w.Babbles))
    failed = fate(trial)
    log = trial.log.read_bytes()

    assert "SIGSEGV" in failed.reason
    assert len(log) < 5 * MIB
    assert log.startswith(b"the first words")
    assert b"MiB of output left out here" in log
    assert b"the last words" in log
    assert "in fail" in log_tail(trial.log)


@pytest.mark.parametrize("portion", [7, 1000, 65536])
@pytest.mark.parametrize("size", [0, 999, 2000, 2001, 3500, 100_000])
def test_a_capped_log_is_its_beginning_and_its_end(portion: int, size: int, tmp_path: Path) -> None:
    """Whatever the portions; and what is left out is as much as the line says."""
    text = b"".join(b"%06d\n" % n for n in range(size // 7 + 1))[:size]
    log = CappedLog(str(tmp_path / "log"), kept=1000)
    for begin in range(0, size, portion):
        log.write(text[begin : begin + portion])
        assert os.path.getsize(tmp_path / "log") < 5000
    log.close()
    found = (tmp_path / "log").read_bytes()
    head, _, tail = found.partition(b"... ")

    assert text.startswith(head)
    if tail:
        kept = tail.partition(b"\n")[2]
        assert text.endswith(kept)
        assert min(len(head), len(kept)) >= 740
        assert size - len(head) - len(kept) == log.left_out
    else:
        assert text == found


def test_a_log_is_never_written_through_a_link(tmp_path: Path) -> None:
    """What a link at the log's place leads to is left alone."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "log").symlink_to(tmp_path / "precious")
    log = CappedLog(str(tmp_path / "log"))
    log.write(b"overwritten")
    log.close()

    assert (tmp_path / "precious").read_text() == "kept"


# -- the true reason --


@pytest.mark.parametrize(
    ("workload", "status", "expected"),
    [
        (w.WorkerRaises, Status.CRASHED, ["ValueError: row ", "has no text", "loader worker", "in raises"]),
        (w.WorkerRaisesKey, Status.CRASHED, ["KeyError: 'text'", "in raises_key"]),
        (w.WorkerChains, Status.CRASHED, ["LookupError: the column is not there", "in chained"]),
        (w.WorkersKilled, Status.OUT_OF_MEMORY, ["loader worker was killed by SIGKILL", "dataloader_num_workers"]),
        (w.WorkerBusError, Status.CRASHED, ["shared memory", "/dev/shm has", "--shm-size"]),
        (w.WorkerFullDisk, Status.CRASHED, ["OSError: [Errno 28]", "disk is full", "TMPDIR"]),
        (w.WorkerFiles, Status.CRASHED, ["OSError: [Errno 24]", "ulimit -n"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_worker_is_heard(
    workload: type, status: Status, expected: list[str], started: Callable[..., TrialProcess], arm: Make
) -> None:
    """A loader worker's own last line is the reason, with its place; a worker that was killed is said to be."""
    trial = started(arm(workload, WORKERS))
    failed = fate(trial, steps=10)

    assert status is failed.status
    assert [] == [word for word in expected if word not in failed.reason]
    assert "Traceback" in trial.log.read_text(encoding="utf-8")


def test_many_workers_that_die_at_once_hide_no_reason(started: Callable[..., TrialProcess], arm: Make) -> None:
    """Each one's end makes the loader raise again, while the first is told: the first is the reason every time."""
    lost = arm(w.LosesItsWorkers, {"training_arguments.dataloader_num_workers": 6})
    reasons = {fate(started(lost)).status for _ in range(4)}

    assert {Status.OUT_OF_MEMORY} == reasons


def test_a_clock_that_jumps_back_makes_nothing_negative(started: Callable[..., TrialProcess], arm: Make) -> None:
    """The wall clock of a trial is set back by a day: no block, and no part of the start, lasts less than nothing."""
    trial = started(arm(w.ClockJumpsBack))
    startup = trial.ask(None, SOON).startup
    blocks = [trial.ask(TrainBlock(steps=3), SOON).block for _ in range(3)]

    assert min(startup.values()) >= 0
    assert all(0 < block.seconds < 3600 and min(block.phases.values()) >= 0 for block in blocks)
