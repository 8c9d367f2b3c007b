"""Comparisons measured by jobs that submitit runs as processes of this machine, with real trials."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import workloads_for_tests as w
from asking import compare
from family import wait
from slowstep.factors import Arm
from slowstep.judgement.stopping import StopRule
from slowstep.measure.measurer import ComparisonRequest
from slowstep.measure.slurm import job_pool
from slowstep.measure.slurm.jobs import NoNode
from slowstep.measure.slurm.mailbox import HOME, Mailbox
from slowstep.measure.slurm.measurer import SlurmMeasurer
from slowstep.measure.slurm.messages import Request
from slowstep.measure.slurm.server import Server
from slowstep.records import Pair, Status
from slowstep.settings import SettingsError, load
from slowstep.settings.schema import Budget
from slowstep.settings.slurm import Slurm

pytest.importorskip("submitit", reason="submitit is not installed (the extra slurm)")

Make = Callable[..., Arm]
Alive = Callable[[list[int]], list[int]]

SOON = 60.0
"""Seconds in which a process that must go is gone; in practice it takes one or two."""

ROOT = Path(__file__).resolve().parents[1]


def descendants(*pids: int) -> list[int]:
    """The processes and all that they started."""
    every = [psutil.Process(pid) for pid in pids]
    return [p.pid for one in every for p in (one, *one.children(recursive=True))]


def look_until(pool: job_pool.JobPool, true: Callable[[], bool]) -> None:
    """Look at all jobs until something is true of them."""
    while not true():
        pool.refresh()
        time.sleep(0.1)


@pytest.fixture
def said() -> list[str]:
    """What the measurer says to its user."""
    return []


@pytest.fixture
def cluster(budget: Budget, tmp_path: Path, said: list[str]) -> Iterator[SlurmMeasurer]:
    """A measurer whose jobs, two at most, are processes of this machine."""
    folder = tmp_path / "investigation"
    with SlurmMeasurer(Slurm(cluster="local", nodes=2), budget, folder, say=said.append) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def said_of_job() -> list[str]:
    """What the measurer of one job says to its user."""
    return []


@pytest.fixture(scope="module")
def job(budget: Budget, tmp_path_factory: pytest.TempPathFactory, said_of_job: list[str]) -> Iterator[SlurmMeasurer]:
    """A measurer whose one job serves several tests: to start one takes ten seconds."""
    folder = tmp_path_factory.mktemp("investigation")
    with SlurmMeasurer(Slurm(cluster="local"), budget, folder, say=said_of_job.append) as measurer:
        yield measurer


def request(baseline: Arm, treatment: Arm, pairs: int) -> ComparisonRequest:
    return ComparisonRequest(baseline=baseline, treatment=treatment, stop=StopRule(max_pairs=pairs, looks=()))


def starts(measurer: SlurmMeasurer) -> dict[str, int]:
    """The process of each start of each job so far."""
    boxes = [m.box for m in (*measurer.jobs.members, *measurer.jobs.dismissed)]
    every = [box.take(name) for box in boxes for name in box.names() if name.startswith("start.")]
    return {start.name: start.pid for start in every}


def test_a_comparison_is_measured_by_a_job(job: SlurmMeasurer, arm: Make, said_of_job: list[str]) -> None:
    """Its record is that of a local measurer, and says the node. Its pairs are told while it is measured."""
    told: list[int] = []
    environment = job.describe()
    record = compare(job, arm(w.Tiny), arm(w.Twin), pairs=3, on_pairs=lambda pairs: told.append(len(pairs)))

    assert (Status.OK, Status.OK, 3) == (record.baseline.status, record.treatment.status, len(record.pairs))
    assert os.uname().nodename == record.node
    assert environment.determinants == record.environment.determinants
    assert sorted(told) == told
    assert job.steps > 0 < job.measured_seconds
    assert [f"measures on node {record.node}" in line for line in said_of_job] == [True]


def test_an_error_on_a_node_fails_what_it_had_and_no_more(job: SlurmMeasurer, arm: Make, tmp_path: Path) -> None:
    """As a full disk does: the records hold the error, and the job measures the next comparison."""
    job.describe()
    (started,) = starts(job)
    logs = job.folder / "records" / "logs" / started
    with contextlib.suppress(FileNotFoundError):
        logs.rename(tmp_path / "aside")
    logs.touch()  # a file is in the way of its logs
    failed = compare(job, arm(w.Tiny), arm(w.Twin), pairs=1)
    logs.unlink()
    after = compare(job, arm(w.Tiny), arm(w.Twin), pairs=1)

    assert (Status.CRASHED, []) == (failed.treatment.status, failed.pairs)
    assert failed.treatment.reason.startswith("FileExistsError: ")
    assert failed.treatment.reason.endswith(f"(on node {after.node})")
    assert "measure/local.py" in failed.treatment.log_tail  # the log says where it came from
    assert (Status.OK, 1) == (after.treatment.status, len(after.pairs))
    assert {started} == starts(job).keys()


@pytest.mark.exhaustive
def test_comparisons_are_spread_over_jobs(cluster: SlurmMeasurer, arm: Make) -> None:
    """Each job measures a group with a baseline of its own, so both arms of every comparison are of one job."""
    cluster.jobs.fill(2)
    look_until(cluster.jobs, lambda: all(member.ready for member in cluster.jobs.members))
    asked = [request(arm(w.Tiny), arm(w.Twin, {"training_arguments.seed": seed}), 4) for seed in (1, 2, 3, 4)]
    told: set[int] = set()
    found = dict(cluster.compare_together(asked, lambda number, pairs: told.add(number)))

    assert {0, 1, 2, 3} == found.keys() == told
    assert [(Status.OK, 4)] * 4 == [(found[n].treatment.status, len(found[n].pairs)) for n in range(4)]
    assert 2 == len(starts(cluster))
    by_job = [{found[n].baseline.observed["pid"] for n in group} for group in ((0, 2), (1, 3))]
    assert [1, 1] == [len(pids) for pids in by_job]
    assert by_job[0] != by_job[1]
    assert [r.treatment.arm for r in map(found.get, range(4))] == [a.treatment.label for a in asked]


@pytest.mark.exhaustive
def test_a_job_that_dies_fails_what_it_had(job: SlurmMeasurer, arm: Make, alive: Alive) -> None:
    """The record says why and where the log is, nothing of the job is left, and the next request finds a new job."""

    def kill(pairs: Sequence[Pair]) -> None:
        if pairs and not killed:
            killed.extend(descendants(*starts(job).values()))
            for pid in starts(job).values():
                os.kill(pid, signal.SIGKILL)

    killed: list[int] = []
    died = compare(job, arm(w.Tiny), arm(w.Twin), pairs=10**6, on_pairs=kill)
    after = compare(job, arm(w.Tiny), arm(w.Twin), pairs=3)

    assert (Status.CRASHED, Status.CRASHED, []) == (died.baseline.status, died.treatment.status, died.pairs)
    assert "ended" in died.baseline.reason
    assert (job.folder / "records" / "logs" / died.baseline.log).is_file()
    assert wait(lambda: not alive(killed))
    assert (Status.OK, 3) == (after.treatment.status, len(after.pairs))


def test_a_job_whose_node_does_not_see_the_folder_is_done_without(
    cluster: SlurmMeasurer, said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other one goes on; only where it is the only one does the investigation end."""
    pool = cluster.jobs
    pool.fill(2)
    good, bad = pool.members
    bad.log = tmp_path / "on another file system"
    bad.box = Mailbox(tmp_path / "so is this")
    look_until(pool, good.log.exists)  # a job is not seen before it opens its log
    monkeypatch.setattr(job_pool, "UNSEEN_SECONDS", 0.0)
    look_until(pool, lambda: good.ready and bad not in pool.members)

    assert [good] == pool.members
    assert 1 == pool.most
    assert any(f"job {bad.job.job_id} has run for" in line and "measure.slurm.exclude" in line for line in said)
    pool.members[0].start, pool.members[0].log = None, bad.log
    good.box = bad.box
    with pytest.raises(NoNode, match="not shared"):
        look_until(pool, lambda: False)


@pytest.mark.exhaustive
def test_a_job_that_is_not_requeued_at_its_time_limit_ends(budget: Budget, tmp_path: Path, arm: Make) -> None:
    """submitit ends it by an ordinary exception, which is no error of what is measured: nothing is answered."""
    import submitit

    box = Mailbox(tmp_path / "mail" / "0")
    box.open()
    (tmp_path / "mail" / HOME).touch()
    executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="local", local_max_num_timeout=0)
    executor.update_parameters(timeout_min=1)  # so that submitit takes each notice for that of the time limit
    job = executor.submit(Server(mailbox=box.folder, budget=budget, logs=tmp_path, idle_seconds=1e6))
    (start,) = [box.take(name) for name in appear(box, "start.")]
    asked = [request(arm(w.Tiny), arm(w.Twin), 10**6)]
    box.put(f"{start.name}.0001.request", Request(verb="compare_together", arguments=(asked,), left=1e6))
    assert appear(box, f"{start.name}.0001.told")
    os.kill(start.pid, signal.SIGUSR2)

    assert wait(lambda: not psutil.pid_exists(start.pid))
    assert not [name for name in box.names() if "answer" in name]
    assert "timed-out too many times" in str(job.exception())


def appear(box: Mailbox, beginning: str) -> list[str]:
    """The messages with names that begin so, as soon as there are any; none if that takes too long."""
    deadline = time.monotonic() + SOON
    while not (found := [name for name in box.names() if name.startswith(beginning)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@pytest.mark.exhaustive
def test_a_requeued_job_begins_its_comparison_anew(cluster: SlurmMeasurer, arm: Make) -> None:
    """After a preemption no pair of before is kept: all pairs are of the launches of the second start."""

    def preempt(pairs: Sequence[Pair]) -> None:
        told.append(list(pairs))
        if pairs and len(starts(cluster)) == 1:
            os.kill(*starts(cluster).values(), signal.SIGUSR2)
            time.sleep(1.0)

    told: list[list[Pair]] = []
    other = {"training_arguments.seed": 1}
    record = compare(cluster, arm(w.Labours), arm(w.Labours, other), pairs=40, on_pairs=preempt)

    assert (Status.OK, 40) == (record.treatment.status, len(record.pairs))
    assert 2 == len(starts(cluster))
    before = [pair for pairs in told[: told.index([], 1)] for pair in pairs]
    assert before
    assert not [pair for pair in before if pair in record.pairs]


@pytest.mark.exhaustive
def test_leaving_cancels_the_jobs(budget: Budget, tmp_path: Path, arm: Make, alive: Alive) -> None:
    """Jobs, their trials and the mailbox are gone when the measurer is closed, in whatever state they are."""
    with SlurmMeasurer(Slurm(cluster="local"), budget, tmp_path / "x", say=lambda line: None) as cluster:
        compare(cluster, arm(w.Tiny), arm(w.Twin), pairs=1)
        running = descendants(*[member.job._process.pid for member in cluster.jobs.members])

    assert len(running) > 3
    assert wait(lambda: not alive(running)), [" ".join(psutil.Process(p).cmdline())[:300] for p in alive(running)]
    assert ["records"] == [path.name for path in (tmp_path / "x").iterdir()]
    left = {path.suffix for path in (tmp_path / "x" / "records" / "logs" / "slurm").iterdir()}
    assert left <= {".out", ".err"}


def test_jobs_end_with_the_program_that_asked(budget: Budget, tmp_path: Path, arm: Make, alive: Alive) -> None:
    """SIGTERM ends a comparison that its home waits for, and every process of the job."""
    task = tmp_path / "task"
    task.write_bytes(pickle.dumps((arm(w.Tiny), arm(w.Twin), budget, str(tmp_path / "x"), Slurm(cluster="local"))))
    command = [sys.executable, "-m", "asking_jobs", str(task)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    home = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    home.stdout.readline()
    running = descendants(home.pid)
    home.send_signal(signal.SIGTERM)

    assert 128 + signal.SIGTERM == home.wait(SOON)
    assert len(running) > 4
    assert wait(lambda: not alive(running)), [" ".join(psutil.Process(p).cmdline())[:300] for p in alive(running)]
    assert ["records"] == [path.name for path in (tmp_path / "x").iterdir()]


@pytest.mark.exhaustive
def test_a_job_ends_when_home_is_silent(budget: Budget, tmp_path: Path, alive: Alive) -> None:
    """A home that was killed can't cancel its jobs, so they end by themselves."""
    import submitit

    box = Mailbox(tmp_path / "mail" / "0")
    box.open()
    (tmp_path / "mail" / HOME).touch()
    executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="local")
    server = Server(mailbox=box.folder, budget=budget, logs=tmp_path, idle_seconds=1e6, silent_seconds=2.0)
    job = executor.submit(server)

    assert wait(lambda: job._process.poll() is not None)
    assert [name.partition(".")[0] for name in box.names()] == ["start"]


@pytest.mark.exhaustive
def test_waiting_for_a_node_is_told_apart(cluster: SlurmMeasurer, arm: Make) -> None:
    """The time until a job runs is no time of measuring: a deadline that it would pass is still ahead."""
    cluster.deadline = time.monotonic() + 0.05  # less than any interpreter takes to start
    record = compare(cluster, arm(w.Tiny), arm(w.Twin), stop=StopRule(max_pairs=10**6, looks=()))

    assert 0.05 < cluster.waited_seconds
    assert Status.OK is record.treatment.status
    assert 3 <= len(record.pairs) < 10**6


def test_what_can_not_be_submitted_is_said_in_a_sentence(budget: Budget, tmp_path: Path, monkeypatch: Any) -> None:
    """A machine without sbatch is told so, with what to do."""
    monkeypatch.setenv("PATH", "/nonexistent")
    measurer = SlurmMeasurer(Slurm(), budget, tmp_path / "x")

    with pytest.raises(NoNode, match="has no sbatch; start slowstep on a machine that submits"):
        measurer.describe()


def test_nobody_else_can_change_what_jobs_run(budget: Budget, tmp_path: Path) -> None:
    """The investigation's folders are closed to others, who left nothing; an open folder of outputs is refused."""
    outputs = tmp_path / "outputs"
    mine = [outputs / "x" / name for name in (".", "records", "records/logs", "records/logs/slurm")]
    mine[-1].mkdir(parents=True)
    (mine[-1] / "1234_submitted.pkl").write_bytes(b"of somebody else")
    for folder in mine:
        folder.chmod(0o777)
    with SlurmMeasurer(Slurm(cluster="local"), budget, mine[0]) as measurer:
        folders = [*mine, measurer.jobs.root]
        modes = [stat.S_IMODE(folder.stat().st_mode) for folder in folders]
        left = list(mine[-1].iterdir())

    assert [0o755, 0o755, 0o755, 0o700, 0o700] == modes
    assert [] == left
    outputs.chmod(0o777)
    with pytest.raises(NoNode, match=r"others may write to .*outputs \(mode 777\).*`chmod \+t"):
        _ = SlurmMeasurer(Slurm(cluster="local"), budget, mine[0]).jobs
    outputs.chmod(0o1777)
    with SlurmMeasurer(Slurm(cluster="local"), budget, mine[0]) as measurer:
        assert measurer.jobs.root.is_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_a_folder_of_somebody_else_is_refused(budget: Budget, tmp_path: Path) -> None:
    """He could change what the jobs run, whatever the mode says."""
    (tmp_path / "x").mkdir(mode=0o755)
    os.chown(tmp_path / "x", 12345, -1)

    with pytest.raises(NoNode, match=r"x belongs to user 12345, who could .*; give a folder of your own by --outputs"):
        _ = SlurmMeasurer(Slurm(cluster="local"), budget, tmp_path / "x").jobs


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{nodes: 0}", "measure.slurm.nodes: found 0; it must be at least 1"),
        ("{partitions: gpu}", "measure.slurm.partitions: no such key. Did you mean 'partition'?"),
        ('{partition: "gpu\\nrm -rf x"}', "measure.slurm.partition: found a line end"),
        ("{nodes: four}", "measure.slurm.nodes: expected a whole number"),
        ("{cluster: lsf}", "measure.slurm.cluster: found 'lsf'"),
        ("{additional_parameters: {'a b': 1}}", "measure.slurm.additional_parameters: found the key 'a b'"),
    ],
)
def test_the_section_is_checked(section: str, message: str, tmp_path: Path) -> None:
    """A mistake is told with its line and its key before any job is submitted."""
    path = tmp_path / "run.yaml"
    path.write_text((ROOT / "params" / "smoke.yaml").read_text() + f"\nmeasure:\n  slurm: {section}\n")

    with pytest.raises(SettingsError) as error:
        load(path)
    assert message in str(error.value)
    assert f"{path}:" in str(error.value)
