"""What ranks say is told as one: the block of all, the cause of a failure, the rank that the others wait for."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.elastic.utils import macros

from slowstep.environment.machine import this_machine
from slowstep.factors import CATALOGUE
from slowstep.judgement.ranks import skew
from slowstep.settings.run import Origin, Run, Value
from slowstep_probe.measured import OWN_EXCHANGE, Block, Memory, OfRank, Status, Steps, Work
from slowstep_probe.patches import Patches
from slowstep_probe.probe.clock import CudaClock, HostClock
from slowstep_probe.probe.probe import Probe
from slowstep_probe.ranks import joined
from slowstep_probe.ranks.collectives import PHASE, Collectives
from slowstep_probe.ranks.failures import culprit, gone
from slowstep_probe.ranks.launchers import Launchers, Would
from slowstep_probe.ranks.rank import SPAWN, TORCHRUN, Rank
from slowstep_probe.ranks.standing import RankState, standing
from slowstep_probe.ranks.surveyed_together import _work_of_all
from slowstep_probe.trial.messages import BlockDone, Failed, Observed


def done(phases: dict[str, float], samples: int = 8, steps: int = 2) -> BlockDone:
    """The answer of a rank that spent so many seconds in each phase of a block."""
    seconds = sum(phases.values())
    return BlockDone(
        block=Block(
            steps=steps,
            seconds=seconds,
            phases=phases,
            step_seconds=[seconds / steps] * steps,
            work=Work(samples=samples, useful_tokens=10 * samples),
        ),
        memory=Memory(host=100),
        losses=[1.0, 2.0],
        trained=steps,
        position=samples,
        steps=Steps(position=[0, samples // steps], phases={p: [s / steps] * steps for p, s in phases.items()}),
    )


FAST = {"data": 0.1, "forward": 0.2, "backward": 0.7}
SLOW = {"data": 0.5, "forward": 0.2, "backward": 0.3}


def test_a_block_of_ranks_has_the_work_of_all_and_the_phases_of_the_awaited() -> None:
    """Its time is the slowest rank's, and what the others wait does not hide where the slow one spends its time."""
    slow = done(SLOW | {"other": 0.01})
    both = joined.block_done([done(FAST), slow])

    assert both.block.work == Work(samples=16, useful_tokens=160)
    assert both.block.seconds == pytest.approx(1.01)
    assert both.block.phases["data"] == 0.5
    assert sum(both.block.phases.values()) == pytest.approx(both.block.seconds)
    assert both.position == 16
    assert both.steps.position == [0, 8]
    assert [one.phases["data"] for one in both.block.ranks] == [0.1, 0.5]
    assert both.memory.host == 200


def test_ranks_that_trained_unlike_steps_are_no_block() -> None:
    """They have stopped apart, and would hang in their next collective."""
    with pytest.raises(ValueError, match=r"3 by rank 1"):
        joined.block_done([done(FAST), replace(done(SLOW), trained=3)])


def test_the_work_of_a_step_is_that_of_all_ranks() -> None:
    """Each may have batches of another size, and may have been seen for more steps than another one."""
    seen = [
        {"work": {"samples": 24 * 10, "useful_tokens": None}, "step_seconds": [0.1] * 10},
        {"work": {"samples": 8 * 12, "useful_tokens": None}, "step_seconds": [0.1] * 12},
    ]

    assert _work_of_all(seen, 12, 2) == {"samples": 32 * 12, "useful_tokens": None}
    assert _work_of_all(seen[:1], 10, 2)["samples"] == 48 * 10  # the other one was not seen


def test_facts_name_what_ranks_disagree_about() -> None:
    """A rank that trains with something else than the first is told."""
    facts = joined.observed([Observed(facts={"fused": True, "n": 1}), Observed(facts={"fused": False, "n": 1})]).facts

    assert (facts["fused"], facts["unlike_ranks"]) == (True, ["fused"])


RESET = Failed(status=Status.CRASHED, reason="RuntimeError: [gloo/transport/tcp/pair.cc] Connection reset by peer")
OWN = Failed(status=Status.CRASHED, reason="ValueError: a fault of its own")
BY_NAME = Failed(status=Status.CRASHED, reason="ValueError: a fault of its own (train_gloo.py:12 in with_NCCL)")
MEMORY = Failed(status=Status.OUT_OF_MEMORY, reason="CUDA out of memory")
OVER = Failed(status=Status.ENDED, reason="after 7 steps: the program came to its end")


@pytest.mark.parametrize(
    ("failures", "rank"),
    [
        ([(0, RESET), (1, OWN)], 1),
        ([(0, RESET), (1, BY_NAME)], 1),
        ([(0, RESET), (1, gone(-9))], 1),
        ([(0, OWN), (1, MEMORY)], 1),
        ([(0, OVER), (1, RESET)], 0),
        ([(0, OVER), (1, OWN)], 1),
        ([(2, RESET), (0, RESET)], 2),
    ],
)
def test_the_cause_among_failures_is_told(failures: list[tuple[int, Failed]], rank: int) -> None:
    """A survivor whose connection broke often speaks first, and is not the one that failed."""
    assert culprit(failures)[0] == rank


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({0: ("backward", 5, True), 1: ("forward", 5, False)}, "rank 1 keeps the others waiting"),
        ({0: ("backward", 5, True), 1: ("backward", 5, False)}, "rank 1 keeps the others waiting"),
        ({0: ("backward", 5, False), 1: ("forward", 5, False)}, "rank 1 keeps the others waiting"),
        ({0: ("forward", 5, True), 1: ("forward", 5, False)}, "rank 1 keeps the others waiting"),
        ({0: ("forward", 6, False), 1: ("backward", 5, False)}, "rank 1 keeps the others waiting"),
        ({0: ("backward", 5, True), 1: None}, "rank 1 keeps the others waiting"),
        ({0: ("backward", 5, True), 1: ("backward", 5, True)}, "no answer in time (rank 0 in backward after 5 steps"),
    ],
)
def test_a_hang_names_the_rank_that_stands_apart(places: dict, said: str) -> None:
    """If all stand where ranks wait for each other, none is accused."""
    states = {rank: place and RankState(*place) for rank, place in places.items()}

    assert said in standing(states, {rank: f"rank {rank}" for rank in places})


def blocks(excess: float, phase: str = "forward", noise: float = 0.02, number: int = 10) -> list[Block]:
    """Blocks of two ranks, of which the second takes a share `excess` of the time longer in a phase."""
    chance, found = random.Random(1), []
    for _ in range(number):
        own = {"data": 0.1, "forward": 0.3}
        slow = own | {phase: own.get(phase, 0.0) + excess + chance.gauss(0, noise)}
        ranks = [OfRank(seconds=1.0, phases=one | {"backward": 1.0 - sum(one.values())}) for one in ({**own}, {**slow})]
        found.append(
            Block(
                steps=5, seconds=1.0, phases={"forward": 1.0}, step_seconds=[0.2] * 5, work=Work(samples=1), ranks=ranks
            )
        )
    return found


@pytest.mark.parametrize("phase", ["data", "forward", "optimizer", "other"])
def test_the_rank_that_others_wait_for_is_found(phase: str) -> None:
    """With its phase, and with the share of the time that it takes longer there."""
    found = skew(blocks(0.2, phase), least=0.05)

    assert (found.rank, found.phase) == (1, phase)
    assert found.share.lower < 0.2 < found.share.upper
    assert found.covered == pytest.approx(1, abs=0.1)


def test_ranks_alike_are_not_accused() -> None:
    """Neither chance, nor a difference that is not worth having, nor one that nobody is seen to wait for."""
    assert skew(blocks(0.0), least=0.05) is None
    assert skew(blocks(0.02), least=0.05) is None
    assert skew([replace(b, ranks=[]) for b in blocks(0.5)], least=0.05) is None
    alone = [
        replace(b, ranks=[replace(one, phases=one.phases | {"backward": 0.3}) for one in b.ranks]) for b in blocks(0.2)
    ]
    assert skew(alone, least=0.05) is None


@pytest.mark.parametrize(("seen", "plain"), [(OWN_EXCHANGE, True), ("allreduce", False), ("fp16", False)])
def test_a_programs_own_exchange_is_tried_without_it(seen: str, plain: bool) -> None:
    """The plain exchange takes its place. One that the kit knows is nothing of the program's own."""
    values = {
        "ddp.comm_hook": Value(value=seen, origin=Origin.OBSERVED),
        "processes": Value(value=2, origin=Origin.OBSERVED),
    }
    factor, run = CATALOGUE["ddp_comm_hook"], Run(values=values, objects=frozenset({"DDP"}))
    level = factor.level("allreduce", run)

    assert ("allreduce" in factor.proposals(run, this_machine())) == plain
    assert ("of the program's own" in factor.cause_at(level, run)) == plain


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_wait_for_what_a_collective_began_is_communication(group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that waits for a slow one does so there, and not in the call that has returned before."""
    probe, patches, phases = Probe(), Patches(), []
    wait = dist.distributed_c10d.Work.wait

    def noted(work: Any) -> Any:
        phases.append(probe.phases.open)
        return wait(work)

    monkeypatch.setattr(dist.distributed_c10d.Work, "wait", noted)
    collectives = Collectives(probe)
    collectives.attach(patches)
    collectives.open()
    try:
        begun = dist.all_reduce(torch.ones(1), async_op=True)
        assert not phases
        begun.wait()
    finally:
        patches.remove()

    assert phases == [PHASE]
    assert set(collectives.close()) == {PHASE}
    assert dist.distributed_c10d.Work.wait is noted


def test_a_collective_is_timed_by_the_clock_of_training(group: None) -> None:
    """NCCL's calls return at once, and the device waits: that clock alone sees it, when the block has ended."""

    class Device(HostClock):
        now = 0.0

        def mark(self) -> float:  # type: ignore[override]
            self.now += 3.0
            return self.now

    probe, patches = Probe(Device()), Patches()
    collectives = Collectives(probe)
    collectives.attach(patches)
    try:
        dist.all_reduce(torch.ones(1))
        collectives.open()
        with probe.phases.within("forward"):
            dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(1))
    finally:
        patches.remove()

    assert collectives.close() == {"forward": 3.0, PHASE: 3.0}
    assert collectives.close() == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_wait_of_a_real_device_for_a_collective_is_communication() -> None:
    """The device's clock tells it, with the wait for what a call began."""
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    probe, patches = Probe(CudaClock()), Patches()
    collectives = Collectives(probe)
    collectives.attach(patches)
    values = torch.ones(1000, device="cuda")
    try:
        dist.all_reduce(values)  # the group begins here
        probe.clock.synchronize()
        collectives.open()
        dist.all_reduce(values)
        begun = dist.all_reduce(values, async_op=True)
        begun.wait()
        probe.clock.synchronize()
        (seconds,) = collectives.close().values()
    finally:
        patches.remove()
        dist.destroy_process_group()

    assert seconds > 0


def test_a_rank_finds_what_torchrun_tells_its_workers() -> None:
    """By its environment, and by its arguments where torch.distributed.launch hands it its number as an option."""
    launchers, ran = Launchers(Rank(number=3, size=4, first=2, beside=2), TORCHRUN), []
    launchers._run = lambda words, command: ran.append(words)  # type: ignore[method-assign]
    launch = SimpleNamespace(_config=SimpleNamespace(max_nodes=2, min_nodes=2), _entrypoint=sys.executable)
    with mock.patch.dict(os.environ):
        launchers._elastic(None, launch, "-u", "train.py", f"--local-rank={macros.local_rank}", "--cost=$5")
        told = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE")]

    assert ran == [["train.py", "--local-rank=1", "--cost=$5"]]
    assert told == ["3", "1", "2", "3", "4"]


def test_what_a_program_starts_when_it_has_trained_is_left_alone() -> None:
    """It evaluates in several processes, say; those that it starts before are told."""
    told: list[Would] = []
    started: list[object] = []
    launchers = Launchers(several=told.append)
    words = [sys.executable, "-m", "torch.distributed.run", "evaluate.py"]
    launchers.has_trained = lambda: True
    launchers._spawned(lambda *given: started.append(given), print, (), 2)
    launchers._subprocess(lambda *given: started.append(given), None, words)
    assert (len(started), told) == (2, [])

    launchers.has_trained = lambda: False
    launchers._spawned(lambda *given: started.append(given), lambda rank: None, (), 2)
    assert ([one.processes for one in told], len(started)) == ([2], 2)


def test_a_rank_that_would_spawn_other_numbers_of_processes_tells_it() -> None:
    """Those that were taken for ranks may prepare the data of those that train; what is known to is started."""
    told: list[Would] = []
    started: list[object] = []
    launchers = Launchers(Rank(number=0, size=4), SPAWN, told.append)
    for known in ([], [2]):
        launchers.no_ranks = known
        launchers._spawned(lambda *given: started.append(given), print, (), 2)

    assert [one.processes for one in told] == [2]
    assert len(started) == 2
