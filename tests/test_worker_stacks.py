"""The lines of a loader's workers: found in real workers."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from slowstep_probe.probe.loader_workers import Workers
from slowstep_probe.profiled import Place
from slowstep_probe.trial.time_by_place import AT_WORKER
from slowstep_probe.trial.worker_stacks import ENOUGH, SIGNAL, WorkerStacks, of_waiting


class Records(Dataset):
    """Records that are read slowly and then decoded in a tenth of that time."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, i: int) -> torch.Tensor:
        return decoded(read(i))


def read(i: int) -> float:
    time.sleep(0.01)
    return float(i)


def decoded(value: float) -> torch.Tensor:
    time.sleep(0.001)
    return torch.tensor(value)


def waits() -> torch.Tensor:
    time.sleep(0.01)
    return torch.zeros(())


@pytest.fixture
def stacks() -> Iterator[WorkerStacks]:
    before = {number: signal.getsignal(number) for number in (SIGNAL, ENOUGH)}
    yield WorkerStacks()
    for number, handler in before.items():
        signal.signal(number, handler)


def workers_of(iterator: object) -> Workers:
    workers = Workers()
    workers.belong_to(iterator)
    return workers


def test_the_lines_that_make_batches_are_found_in_workers(stacks: WorkerStacks) -> None:
    """By the share of the time that they take there, and under the names of their functions."""
    iterator = iter(DataLoader(Records(), batch_size=4, num_workers=2))
    next(iterator)
    stacks.begin(workers_of(iterator).pids)
    for _ in range(30):
        next(iterator)
    found = stacks.end()
    in_function = Counter[str]()
    for (where, own), count in found.items():
        in_function[where.rpartition(" in ")[2] if own else "of a library"] += count

    assert in_function["read"] > 3 * in_function["decoded"] > 0
    assert next(iterator) is not None  # they go on
    assert workers_of(iterator).number == 2


class Deaf(Records):
    """Its workers, forked where `ENOUGH` is blocked, hear of the end of a look once the file is away. They do something
    else before."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.file.exists():
            return waits()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ENOUGH})
        return super().__getitem__(i)


def test_a_late_answer_is_none_to_the_next_question(stacks: WorkerStacks, tmp_path: Path) -> None:
    """What a worker saw at an earlier time would count for what it does now."""
    file = tmp_path / "deaf"
    file.touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, {ENOUGH})  # for all threads that a library starts after a fork, too
    iterator = iter(DataLoader(Deaf(file), batch_size=4, num_workers=1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {ENOUGH})

    def look() -> set[str]:
        stacks.begin(workers_of(iterator).pids)
        for _ in range(20):
            next(iterator)
        return {where.rpartition(" in ")[2] for (where, own), _ in stacks.end().items() if own}

    next(iterator)
    assert look() == look() == set()
    file.unlink()
    for _ in range(20):
        next(iterator)
    seen = look()

    assert "read" in seen
    assert seen <= {"read", "decoded", "__getitem__"}


def test_a_worker_that_waits_for_an_order_is_not_seen_at_work(stacks: WorkerStacks) -> None:
    """Its queue is full: the training waits for nothing that it does."""
    iterator = iter(DataLoader(Records(), batch_size=2, num_workers=1, prefetch_factor=2))
    next(iterator)
    time.sleep(0.5)
    stacks.begin(workers_of(iterator).pids)
    time.sleep(0.5)

    assert stacks.end() == Counter()


def test_a_worker_that_would_end_by_the_signal_gets_none(stacks: WorkerStacks) -> None:
    """One that was started as a new interpreter has no handler for it."""
    iterator = iter(DataLoader(torch.arange(100.0), batch_size=2, num_workers=1, multiprocessing_context="spawn"))
    next(iterator)
    stacks.begin(workers_of(iterator).pids)

    assert stacks.end() == Counter()
    assert workers_of(iterator).number == 1
    assert next(iterator) is not None


def test_a_wait_for_data_is_what_the_workers_do_meanwhile() -> None:
    """The loop that asks for a batch makes none. What else is seen of the trial stays."""
    loop = Place(phase="data", where="train.py:9 in main" + AT_WORKER, own=True, share=0.4)
    other = Place(phase="other", where="train.py:12 in main", own=True, share=0.3)
    seen = Counter({("data.py:3 in read", True): 30, ("torch/utils/data/collate.py:7 in collate", False): 10})

    assert [(p.phase, p.where, p.own, round(p.share, 3)) for p in of_waiting([loop, other], seen)] == [
        ("data", "data.py:3 in read, in a loader's worker", True, 0.3),
        ("other", "train.py:12 in main", True, 0.3),
        ("data", "torch/utils/data/collate.py:7 in collate, in a loader's worker", False, 0.1),
    ]
    assert [p.where for p in of_waiting([loop, other], Counter())] == ["train.py:9 in main", "train.py:12 in main"]
    begins = replace(loop, where="train.py:9 in main")  # workers are started, and nothing is waited for
    assert of_waiting([begins], seen) == [begins]
    twins = [replace(loop, where=loop.where.removesuffix(AT_WORKER)), loop]
    assert len({p.where for p in of_waiting(twins, Counter())}) == len(twins)
