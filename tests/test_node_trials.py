"""A command that trains on two nodes: two folders and two endpoints on this machine, and where it can, two networks."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from asking import compare
from family import wait
from slowstep.command.resolve import resolve
from slowstep.factors import Arm
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.measure.local import LocalMeasurer
from slowstep.nodes.current import end_session
from slowstep.nodes.key import made_key
from slowstep.nodes.listening import Listening, listen_at
from slowstep.records import Status
from slowstep.settings import Settings, load, override
from slowstep.settings.schema import Budget
from slowstep_probe.processes.tree import descendants
from slowstep_probe.trial.messages import BlockDone, Observe, Profile, TrainBlock

PROGRAM = Path(__file__).resolve().parent / "programs" / "on_nodes.py"
TORCHRUN = str(Path(sys.executable).parent / "torchrun")
LIBRARY = str(Path(__file__).resolve().parents[1] / "lib")
SOON, ENDED_SOON = 120.0, 20.0

pytestmark = pytest.mark.trials


@dataclass
class Nodes:
    """Two nodes: a folder each, and the process that joins from the second one."""

    folders: tuple[Path, Path]
    key: Path
    port: int
    joined: subprocess.Popen[str]
    seen: SurveyRecord
    settings: Settings

    def cause(self, node: int, name: str) -> None:
        """Let trials have trouble on a node from now on; none if it has no name."""
        (self.folders[node] / "cause").write_text(name)

    def of_second(self) -> set[int]:
        """The processes of the second node, but for the one that joins and its warm interpreter."""
        warm = [child.pid for child in psutil.Process(self.joined.pid).children()]
        return {pid for each in warm for pid in descendants(each)}


def words(node: int) -> list[str]:
    """The command of a node, as torchrun wants it."""
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(node), "--master-addr", "127.0.0.1"]
    return [TORCHRUN, *options, "on_nodes.py", "--lr", "0.01"]


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start_join(folder: Path, session: str, key: Path, command: list[str], *within: str) -> subprocess.Popen[str]:
    """A second node that joins; `within` is put before its command."""
    own = [sys.executable, "-m", "slowstep.cli", "join", session, "--key-file", str(key)]
    return subprocess.Popen(
        [*within, *own, "--", *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": LIBRARY},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@contextmanager
def a_session(
    tmp_path_factory: pytest.TempPathFactory,
    host: str = "127.0.0.1",
    of_node: Callable[[int], list[str]] = words,
    within: Sequence[str] = (),
) -> Iterator[Nodes]:
    """A surveyed command, and both nodes in one session, of which the second reaches the first at `host`."""
    folders = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    for folder in folders:
        shutil.copy(PROGRAM, folder)
    key, port = tmp_path_factory.mktemp("key") / "key", free_port()
    made_key(str(key))
    listen_at(Listening(port=port, key_file=str(key), seconds=SOON))
    joined = start_join(folders[1], f"{host}:{port}", key, of_node(1), *within)
    try:
        command = resolve(of_node(0), folders[0], os.environ)
        seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)
        settings = load(write(seen, tmp_path_factory.mktemp("outputs") / "nodes")).settings
        yield Nodes(folders, key, port, joined, seen, settings)
    finally:
        end_session()
        try:
            joined.wait(ENDED_SOON)
        finally:
            joined.kill()
            listen_at(Listening())


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two endpoints on this machine."""
    with a_session(tmp_path_factory) as found:
        yield found


@pytest.fixture
def started(nodes: Nodes, tmp_path: Path) -> Iterator[Callable[..., TrialProcess]]:
    """Starts a trial on the nodes with changes, and ends it with the test."""
    trials = []

    def start(**changes: Any) -> TrialProcess:
        changed = override(nodes.settings, {key.replace("__", "."): value for key, value in changes.items()})
        trials.append(TrialProcess(Arm(label="t", settings=changed), tmp_path / "log", changed.budget, tmp_path / "c"))
        return trials[-1]

    yield start
    for trial in trials:
        trial.end()
    nodes.cause(0, "")
    nodes.cause(1, "")


def block(trial: TrialProcess, steps: int = 4) -> BlockDone:
    """A block of steps after the first one."""
    trial.ask(None, SOON)
    trial.ask(TrainBlock(steps=1), SOON)
    return trial.ask(TrainBlock(steps=steps), SOON)


@pytest.mark.exhaustive
def test_a_survey_reaches_over_nodes(nodes: Nodes) -> None:
    """It says how many processes train on each, and tells the ranks of all."""
    assert (nodes.seen.command.processes, nodes.seen.command.nodes) == (2, [1, 1])
    assert set(nodes.seen.training["ranks"]) == {"0", "1"}
    assert nodes.seen.training["facts"]["world_size"] == 2


def test_ranks_on_two_nodes_train_the_same_steps_and_leave_nothing(
    nodes: Nodes, started: Callable[..., TrialProcess]
) -> None:
    """A block holds the work of both, each rank finds its place, and no process and no file stays on either node."""
    trial = started()
    measured = block(trial, 6)
    facts = trial.ask(Observe(), SOON).facts
    here, there = descendants(trial.guard), nodes.of_second()
    trial.end()
    log = trial.log.read_text()

    assert (measured.block.steps, measured.block.work.samples, len(measured.block.ranks)) == (6, 6 * 32, 2)
    assert (facts["world_size"], facts["parallelism"], facts["node"]) == (2, "DDP", 0)
    assert "unlike_ranks" not in facts
    assert "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 GROUP_RANK=0" in log
    assert "RANK=1 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 GROUP_RANK=1" in log
    assert there
    assert wait(lambda: not [pid for pid in (*here, *there) if psutil.pid_exists(pid)])
    assert all({path.name for path in folder.iterdir()} <= {"on_nodes.py", "cause"} for folder in nodes.folders)


def test_two_arms_stand_beside_each_other(started: Callable[..., TrialProcess]) -> None:
    """Both meet their own ranks alone, at ports of their own."""
    one, other = started(), started()

    assert [block(each).block.work.samples for each in (one, other)] == [4 * 32] * 2
    assert one.ask(TrainBlock(steps=2), SOON).block.steps == 2


@pytest.mark.parametrize(
    ("cause", "status", "said"),
    [
        ("raises", Status.CRASHED, "RuntimeError: a fault of its own"),
        ("killed", Status.OUT_OF_MEMORY, "killed by SIGKILL"),
    ],
)
def test_a_rank_on_another_node_ends_all_and_is_named(
    cause: str, status: Status, said: str, nodes: Nodes, started: Callable[..., TrialProcess]
) -> None:
    """The reason is that of the rank that failed, with its node; what it printed last stands in the log here."""
    nodes.cause(1, cause)
    trial = started()
    with pytest.raises(TrialEnded) as ended:
        block(trial, 20)

    assert ended.value.failed.status is status
    assert ended.value.failed.reason.startswith(f"rank 1 on node 1 ({socket.gethostname()}): {said}")
    assert f"cause={cause}" in trial.log.read_text()
    assert wait(lambda: not nodes.of_second() and not descendants(trial.guard))


def test_the_rank_that_is_waited_for_is_profiled_there(nodes: Nodes, started: Callable[..., TrialProcess]) -> None:
    """Its trace comes here, and all ranks go on afterwards."""
    nodes.cause(1, "slow")
    trial = started()
    block(trial)
    trace = trial.folder / "trace.json.gz"
    found = trial.ask(Profile(steps=3, trace=str(trace), looks=5), SOON)

    assert (found.record.steps, found.record.trace) == (3, trace.name)
    assert b"traceEvents" in gzip.decompress(trace.read_bytes())
    assert trial.ask(TrainBlock(steps=2), SOON).block.steps == 2


@pytest.mark.exhaustive
def test_a_rank_that_hangs_on_another_node_is_named(nodes: Nodes, started: Callable[..., TrialProcess]) -> None:
    """The others wait for it where ranks wait."""
    nodes.cause(1, "hangs")
    trial = started()
    trial.ask(None, SOON)
    with pytest.raises(TrialEnded) as ended:
        trial.ask(TrainBlock(steps=20), 6.0)

    assert ended.value.failed.status is Status.TIMED_OUT
    assert f"rank 1 on node 1 ({socket.gethostname()}) keeps the others waiting" in ended.value.failed.reason
    assert wait(lambda: not nodes.of_second())


def test_memory_that_runs_out_on_another_node_is_told(nodes: Nodes, started: Callable[..., TrialProcess]) -> None:
    """Each node holds its part to the limit, and says by how much it was exceeded."""
    nodes.cause(1, "memory")
    trial = started(budget__memory_limit_gib=2.0)
    with pytest.raises(TrialEnded) as ended:
        block(trial, 20)

    assert ended.value.failed.status is Status.OUT_OF_MEMORY
    assert f"node 1 ({socket.gethostname()}): its part of the trial took" in ended.value.failed.reason
    assert wait(lambda: not nodes.of_second())


def test_a_node_is_held_against_another(
    nodes: Nodes, started: Callable[..., TrialProcess], tmp_path: Path, budget: Budget
) -> None:
    """Each trains alone, by turns; only the one that waits 100 ms in each step shows it."""
    nodes.cause(1, "slow")
    apart = override(nodes.settings, {"nodes.apart": True})
    other = override(apart, {"nodes.number": 1})
    with LocalMeasurer(budget, tmp_path) as measurer:
        record = compare(measurer, Arm(label="node 0", settings=apart), Arm(label="node 1", settings=other), pairs=3)

    assert [trial.observed["node"] for trial in (record.baseline, record.treatment)] == [0, 1]
    assert [trial.observed["world_size"] for trial in (record.baseline, record.treatment)] == [1, 1]
    waits = 0.1  # in each step: no noise of the machine makes it shorter
    assert all(pair.treatment.seconds / pair.treatment.steps >= waits for pair in record.pairs)
    assert min(pair.baseline.seconds / pair.baseline.steps for pair in record.pairs) < waits
    assert [node.processes for node in record.environment.nodes] == [1, 1]


def test_a_node_that_dies_ends_the_trial(nodes: Nodes, started: Callable[..., TrialProcess]) -> None:
    """Nothing of it is left there, its name is in the reason, and the next trial says that it has left."""
    trial = started()
    block(trial)
    left = nodes.of_second()
    os.kill(nodes.joined.pid, signal.SIGKILL)
    with pytest.raises(TrialEnded) as ended:
        trial.ask(TrainBlock(steps=100_000), SOON)

    assert f"node 1 ({socket.gethostname()})" in ended.value.failed.reason
    assert wait(lambda: not [pid for pid in left if psutil.pid_exists(pid)])
    with pytest.raises(TrialEnded, match="has left the session"):
        started()


@pytest.fixture
def far_network() -> Iterator[tuple[str, str, list[str]]]:
    """A network of its own for the second node: the address of the first one there, its interface, and a prefix."""
    name, here, there = f"slowstep-{os.getpid()}", f"sa{os.getpid()}", f"sb{os.getpid()}"
    inside = ["ip", "netns", "exec", name]
    steps = (
        ["ip", "netns", "add", name],
        ["ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name],
        ["ip", "addr", "add", "10.231.17.1/30", "dev", here],
        ["ip", "link", "set", here, "up"],
        [*inside, "ip", "addr", "add", "10.231.17.2/30", "dev", there],
        [*inside, "ip", "link", "set", there, "up"],
        [*inside, "ip", "link", "set", "lo", "up"],
    )
    try:
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False) if shutil.which("ip") else None
            if done is None or done.returncode:
                pytest.skip(f"no network of its own can be made here: {done.stderr.strip() if done else 'no ip'}")
        yield "10.231.17.1", here, inside
    finally:
        for step in (["ip", "link", "del", here], ["ip", "netns", "del", name]):
            if shutil.which("ip"):
                subprocess.run(step, capture_output=True, check=False)


@pytest.mark.exhaustive
def test_two_networks_train_together_until_the_connection_is_cut(
    far_network: tuple[str, str, list[str]], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Nothing is said over the cut connection, so its silence ends the trial; both sides end what they run."""
    address, interface, inside = far_network

    def of_node(node: int) -> list[str]:
        return ["env", f"GLOO_SOCKET_IFNAME={interface.replace('sa', 'sb') if node else interface}", *words(node)]

    with a_session(tmp_path_factory, address, of_node, inside) as both:
        trial = TrialProcess(
            Arm(label="t", settings=both.settings), tmp_path / "log", both.settings.budget, tmp_path / "cache"
        )
        try:
            assert block(trial, 6).block.work.samples == 6 * 32
            subprocess.run(["ip", "link", "set", interface, "down"], check=True)
            with pytest.raises(TrialEnded) as ended:
                trial.ask(TrainBlock(steps=100_000), SOON)
        finally:
            trial.end()
        assert f"node 1 ({socket.gethostname()})" in ended.value.failed.reason
        assert wait(lambda: both.joined.poll() is not None)
