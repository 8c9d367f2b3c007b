"""Comparisons measured by jobs of a real Slurm of one node, which `tests/slurm/start.sh` sets up where that can be."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import workloads_for_tests as w
from asking import compare
from slowstep.factors import Arm
from slowstep.judgement.stopping import StopRule
from slowstep.measure.measurer import ComparisonRequest
from slowstep.measure.slurm.jobs import NoNode
from slowstep.measure.slurm.measurer import SlurmMeasurer
from slowstep.records import Pair, Status
from slowstep.settings.schema import Budget
from slowstep.settings.slurm import Slurm

pytest.importorskip("submitit", reason="submitit is not installed (the extra slurm)")

SOON = 60.0
"""Seconds in which what has to happen has happened."""

Make = Callable[..., Arm]
SCRIPTS = Path(__file__).parent / "slurm"
CANNOT = 77
"""The exit status by which the script says that this machine can't run a Slurm."""

OTHER = {"training_arguments.seed": 1}


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a Slurm of one node, this machine."""
    folder = tmp_path_factory.mktemp("slurm")
    with (folder / "log").open("w") as log:  # the daemons keep it open
        code = subprocess.run(["sh", SCRIPTS / "start.sh", folder], stdout=log, stderr=log, check=False).returncode
    said = (folder / "log").read_text().strip()
    if code == CANNOT:
        pytest.skip(f"no Slurm can be set up here: {said}")
    assert code == 0, said
    before, os.environ["SLURM_CONF"] = os.environ.get("SLURM_CONF"), str(folder / "slurm.conf")
    try:
        yield folder
    finally:
        subprocess.run(["sh", SCRIPTS / "stop.sh", folder], check=True)
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


@pytest.fixture
def said() -> list[str]:
    """What the measurer says to its user."""
    return []


@pytest.fixture
def cluster(budget: Budget, tmp_path: Path, said: list[str]) -> Iterator[SlurmMeasurer]:
    """A measurer of the whole node."""
    with SlurmMeasurer(Slurm(partition="one", timeout_min=10), budget, tmp_path / "x", say=said.append) as measurer:
        yield measurer
    assert "" == squeue("%i")
    assert ["records"] == [path.name for path in (tmp_path / "x").iterdir()]
    assert {path.suffix for path in (tmp_path / "x" / "records" / "logs" / "slurm").iterdir()} <= {".out", ".err"}


def squeue(form: str) -> str:
    """What waits or runs in the queue, once those that end have ended."""
    for _ in range(100):
        found = subprocess.run(["squeue", "-h", "-o", f"%T {form}"], capture_output=True, text=True, check=True).stdout
        if "COMPLETING" not in found:
            break
        time.sleep(0.2)
    return "\n".join(line.split(" ", 1)[1] for line in found.splitlines())


@pytest.mark.exhaustive
def test_a_comparison_is_measured_on_a_node(cluster: SlurmMeasurer, arm: Make, said: list[str]) -> None:
    """Its record says the node, as Slurm calls it, and its pairs are told at home while it is measured."""
    told: list[int] = []
    record = compare(cluster, arm(w.Labours), arm(w.Labours, OTHER), pairs=20, on_pairs=lambda p: told.append(len(p)))

    assert (Status.OK, Status.OK, 20) == (record.baseline.status, record.treatment.status, len(record.pairs))
    assert subprocess.run(["hostname", "-s"], capture_output=True, text=True).stdout.strip() == record.node
    assert sorted(told) == told
    assert told[-1] > 0
    assert any(line.endswith(f"measures on node {record.node}") for line in said)
    assert (cluster.folder / "records" / "logs").is_dir()


def test_a_partition_that_is_not_there(budget: Budget, tmp_path: Path) -> None:
    """Slurm's own words are the message."""
    with (
        pytest.raises(NoNode, match=r"refuses the job: .*[Ii]nvalid partition.*nowhere"),
        SlurmMeasurer(Slurm(partition="nowhere"), budget, tmp_path / "x") as measurer,
    ):
        measurer.describe()
    assert [] == list((tmp_path / "x").glob("slowstep-*"))


def test_a_folder_that_nodes_do_not_see(slurm: Path, budget: Budget) -> None:
    """Nothing comes back from a job, and the message says why that may be and what to do."""
    if not (slurm / "hides").exists():
        pytest.skip("no folder can be hidden from the jobs here, since mounting is not allowed")
    with (
        pytest.raises(NoNode, match="that folder is not shared with the nodes; give one that is by --outputs"),
        SlurmMeasurer(Slurm(timeout_min=10), budget, slurm / "hidden" / "x", say=lambda line: None) as measurer,
    ):
        measurer.describe()


@pytest.mark.exhaustive
def test_jobs_end_with_the_program_that_asked(budget: Budget, tmp_path: Path, arm: Make) -> None:
    """SIGTERM to the program at home cancels its jobs, and nothing but records and logs is left of them."""
    task = tmp_path / "task"
    task.write_bytes(pickle.dumps((arm(w.Tiny), arm(w.Twin), budget, str(tmp_path / "x"), Slurm(timeout_min=10))))
    command = [sys.executable, "-m", "asking_jobs", str(task)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    home = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert "measuring" in home.stdout.readline()
    home.send_signal(signal.SIGTERM)

    assert 128 + signal.SIGTERM == home.wait(60)
    assert "" == squeue("%i")
    assert ["records"] == [path.name for path in (tmp_path / "x").iterdir()]


@pytest.mark.exhaustive
def test_a_preempted_job_begins_its_comparison_anew(cluster: SlurmMeasurer, arm: Make, tmp_path: Path) -> None:
    """Slurm ends the job for another one that is more urgent, and starts it again; no pair of before is kept."""

    def preempt(pairs: Sequence[Pair]) -> None:
        told.append(list(pairs))
        if pairs and len(told) > 1 and not done:
            done.append(cluster.jobs.members[0].job.job_id)
            urgent = ["sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null", "--wrap", "sleep 3"]
            subprocess.run(urgent, check=True, capture_output=True, cwd=tmp_path)

    told: list[list[Pair]] = []
    done: list[str] = []
    record = compare(cluster, arm(w.Labours), arm(w.Labours, OTHER), pairs=60, on_pairs=preempt)

    assert (Status.OK, 60) == (record.treatment.status, len(record.pairs))
    assert [f"start.{done[0]}-1", f"start.{done[0]}-2"] == [
        name for name in cluster.jobs.members[0].box.names() if name.startswith("start.")
    ]
    before = [pair for pairs in told[: told.index([], 1)] for pair in pairs]
    assert before
    assert not [pair for pair in before if pair in record.pairs]
    assert 0 < cluster.waited_seconds


@pytest.mark.exhaustive
def test_a_job_that_is_cancelled_fails_its_comparison(cluster: SlurmMeasurer, arm: Make) -> None:
    """The record holds what Slurm calls it, and the next comparison gets a job of its own."""

    def cancel(pairs: Sequence[Pair]) -> None:
        if pairs and not done:
            done.append(cluster.jobs.members[0].job.job_id)
            subprocess.run(["scancel", "--signal=KILL", done[0]], check=True)

    done: list[str] = []
    died = compare(cluster, arm(w.Tiny), arm(w.Twin), pairs=10**6, on_pairs=cancel)
    after = compare(cluster, arm(w.Tiny), arm(w.Twin), pairs=3)

    assert Status.CRASHED is died.baseline.status
    assert "FAILED" in died.baseline.reason or "CANCELLED" in died.baseline.reason
    assert (cluster.folder / "records" / "logs" / died.baseline.log).is_file()
    assert (Status.OK, 3) == (after.treatment.status, len(after.pairs))


@pytest.mark.exhaustive
def test_waiting_in_the_queue_is_told_and_counts_for_no_deadline(
    cluster: SlurmMeasurer, arm: Make, said: list[str], tmp_path: Path
) -> None:
    """While another job has the node, the reason is said; the deadline begins to run when a node is there."""
    other = ["sbatch", "--exclusive", "--output=/dev/null", "--wrap", "sleep 5"]
    subprocess.run(other, check=True, capture_output=True, cwd=tmp_path)
    cluster.deadline = time.monotonic() + 1
    record = compare(cluster, arm(w.Tiny), arm(w.Twin), stop=StopRule(max_pairs=10**6, looks=()))

    assert any("waiting for a node: job" in line and "PENDING" in line for line in said)
    assert Status.OK is record.treatment.status
    assert 3 <= len(record.pairs) < 10**6
    assert 1 < cluster.waited_seconds


@pytest.mark.exhaustive
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two jobs beside each other need two cores")
def test_comparisons_are_spread_over_jobs(budget: Budget, tmp_path: Path, arm: Make) -> None:
    """Each job measures a group with a baseline of its own, so both arms of every comparison are of one job."""
    shared = Slurm(partition="one", nodes=2, exclusive=False, cpus_per_task=1, timeout_min=10)
    treatments = [arm(w.Twin, {"training_arguments.seed": seed}) for seed in (1, 2, 3, 4)]
    rule = StopRule(max_pairs=4, looks=())
    asked = [ComparisonRequest(baseline=arm(w.Tiny), treatment=one, stop=rule) for one in treatments]
    with SlurmMeasurer(shared, budget, tmp_path / "x", say=lambda line: None) as cluster:
        cluster.jobs.fill(2)
        deadline = time.monotonic() + SOON
        while not all(member.ready for member in cluster.jobs.members):
            assert time.monotonic() < deadline, squeue("%i %T %r")
            cluster.jobs.refresh()
            time.sleep(0.1)
        found = dict(cluster.compare_together(asked, lambda number, pairs: None))

    assert [(Status.OK, 4)] * 4 == [(found[n].treatment.status, len(found[n].pairs)) for n in range(4)]
    baselines = [found[n].baseline.observed["pid"] for n in range(4)]
    assert baselines[0] == baselines[2] != baselines[1] == baselines[3]
    assert "" == squeue("%i")
