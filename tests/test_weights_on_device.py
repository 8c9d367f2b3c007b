"""A frozen base that is held on a device: who maps it has no copy, and it is let go where it is in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from slowstep.factors import Arm
from slowstep.launch import frozen_bases
from slowstep.launch.trial_process import TrialEnded
from slowstep.measure.pool import TrialPool
from slowstep.settings import Settings, override
from slowstep.settings.schema import Budget
from slowstep_probe.weights import arena, on_device

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, torch.nn.Module]:
    """An arena, and the model that lies in it: one with tied weights, a buffer and numbers of several sizes."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3).bfloat16())
    model.add_module("tied", torch.nn.Linear(3, 5))
    model.tied.weight = model[0].weight
    arena.write(model.requires_grad_(False), tmp_path / "base")
    arena.written_of(tmp_path / "base").rename(arena.structure_of(tmp_path / "base"))
    return tmp_path / "base", model


@pytest.fixture
def mapped(written: tuple[Path, torch.nn.Module], monkeypatch: pytest.MonkeyPatch) -> on_device.Mapped:
    """Bytes of that arena that stand for those on a device."""
    values = torch.frombuffer(bytearray(written[0].read_bytes()), dtype=torch.uint8)
    held = on_device.Mapped(values, on_device.checksum(values))
    monkeypatch.setattr(on_device, "_mapped", {(written[0], "cpu"): held})
    return held


def test_tensors_lie_in_what_is_held(written: tuple[Path, torch.nn.Module], mapped: on_device.Mapped) -> None:
    """They have the values of those written, none is a copy, and each can be saved without the others."""
    path, model = written
    read = arena.read(path)

    assert all(torch.equal(x, y) for x, y in zip(arena.tensors_of(model), arena.tensors_of(read), strict=True))
    low, high = mapped.edges
    assert all(low <= one.data_ptr() < high for one in arena.tensors_of(read))
    assert all(one.untyped_storage().nbytes() == one.numel() * one.element_size() for one in arena.tensors_of(read))
    assert read.tied.weight.data_ptr() == read[0].weight.data_ptr()


def test_who_maps_tells_how_much_and_whether_somebody_wrote(
    written: tuple[Path, torch.nn.Module], mapped: on_device.Mapped
) -> None:
    read = arena.read(written[0])
    before = arena.facts([read])
    mapped.values[17] += 1  # another process

    parameters = {p.data_ptr(): p.numel() * p.element_size() for p in read.parameters()}
    assert before == {
        "frozen_bytes_shared": sum(parameters.values()),
        "frozen_bytes_own": 0,
        "frozen_bytes_written": 0,
        "frozen_bytes_written_on_device": 0,
    }
    after = arena.facts([read])
    assert after["frozen_bytes_written"] == mapped.values.numel() == on_device.size()
    assert after["frozen_bytes_written_on_device"] == on_device.size()


def test_a_handle_that_can_not_be_opened_leaves_a_copy(written: tuple[Path, torch.nn.Module]) -> None:
    path, model = written
    on_device.handle_of(path).write_bytes(b"of no device")
    read = arena.read(path)

    assert torch.equal(read[0].weight, model[0].weight)
    assert on_device.size() == 0


@pytest.fixture
def pool(budget: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrialPool]:
    """A pool whose bases are held, as on a device, by a process whose handle can't be opened here."""
    monkeypatch.setattr(frozen_bases, "SMALL", 0.0)
    monkeypatch.setattr(frozen_bases, "HOLD", "holders:main")
    made = TrialPool(budget, tmp_path)
    made._bases._can_be_held = True
    yield made
    made.close()


def handles(pool: TrialPool) -> int:
    """The number of bases that trials find on the device."""
    return len(list(pool._bases.folder.glob(f"*{on_device.HANDLE}")))


@pytest.mark.trials
def test_a_base_is_held_for_trials_that_live_together(smoke: Settings, pool: TrialPool) -> None:
    """It is let go where a trial needs the device alone, or none maps it; then it is not in another arm's way."""
    one, two = (Arm(label=name, settings=smoke) for name in ("one", "two"))
    pool.launch(one, "one")
    pool.launch(two, "two")
    assert handles(pool) == 1
    (process, _), *_ = pool._bases._held.values()

    pool.keep_only(set())
    pool.launch(one, "one", alone=True)
    assert (handles(pool), process.has_ended()) == (0, True)

    pool.keep_only(set())
    pool.launch(two, "two")
    assert handles(pool) == 1  # the base was built once, and is held again
    pool.keep_only(set())
    pool.launch(Arm(label="own", settings=override(smoke, {"peft": None})), "own")
    assert handles(pool) == 0


@pytest.mark.trials
def test_a_trial_that_finds_no_memory_is_launched_again_without_what_is_held(
    smoke: Settings, pool: TrialPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds a base takes up memory that the real job has. What fails even so is the trial's own failure."""
    short = "workloads_on_a_base:ShortOfMemory"
    monkeypatch.setattr(frozen_bases, "WORKLOADS", (*frozen_bases.WORKLOADS, short))
    with pytest.raises(TrialEnded, match="out of memory"):
        pool.launch(Arm(label="short", settings=override(smoke, {"workload": short})), "short")

    assert pool.launches == 2
    assert not pool._bases._held


@pytest.mark.gpu
@needs_cuda
def test_two_processes_have_one_base_on_the_device(
    smoke: Settings, budget: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both map it, neither has its own, and their losses are those of trials that copy it."""
    monkeypatch.setattr(frozen_bases, "SMALL", 0.0)
    arm, pool = Arm(label="one", settings=smoke), TrialPool(budget, tmp_path)
    try:
        both = [pool.launch(arm, name).record for name in ("one", "two")]
        held = [(record.observed["frozen_bytes_shared"], record.observed["frozen_bytes_written"]) for record in both]
        pool.keep_only(set())
        alone = pool.launch(arm, "alone", alone=True).record
    finally:
        pool.close()

    assert all(shared > 0 and written == 0 for shared, written in held)
    assert alone.observed["frozen_bytes_shared"] == 0
    losses = [record.losses for record in (*both, alone)]
    common = min(map(len, losses))  # what is warm later has trained more steps
    assert losses[0][:common] == losses[1][:common] == losses[2][:common] != []
    assert abs(alone.memory.allocated - both[0].memory.allocated) < 0.05 * alone.memory.allocated
