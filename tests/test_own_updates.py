"""Updates of weights without an optimizer of PyTorch's: which passes they lie between, and which calls make them."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from slowstep_probe.looks import FAILED
from slowstep_probe.probe.own_updates import OwnUpdates
from slowstep_probe.probe.step_ends import StepEnds
from slowstep_probe.trial import update_calls
from slowstep_probe.trial.time_by_place import Places
from slowstep_probe.trial.update_calls import UpdateCalls

PASSES = 80


class Normalises(nn.Linear):
    """Normalises its weight at each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.div_(self.weight.norm() * (1 + torch.rand(())))
        return super().forward(x)


def follow(model: nn.Module, teacher: nn.Module) -> None:
    """The teacher goes a part of the way to the model, which it does not reach at once."""
    with torch.no_grad():
        for one, other in zip(teacher.parameters(), model.parameters(), strict=True):
            one.lerp_(other, 0.1)


def add_noise(model: nn.Module, _: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.01 * torch.randn_like(weight))


def nothing(*_: nn.Module) -> None:
    """Nothing changes within a step."""


def steps_ended(accumulate: int, kind: type[nn.Linear], beside: Callable[..., None], drop: Callable[..., Any]) -> int:
    """Train by hand; return how many of the passes were taken for steps."""
    torch.manual_seed(0)
    model, teacher, ends, found = kind(8, 4), nn.Linear(8, 4), StepEnds(), 0
    for number in range(1, PASSES + 1):
        loss = model(torch.randn(2, 8)).square().mean()
        ends.backward_begins()
        found += ends.passed(loss, False, [model, teacher])
        loss.backward()
        beside(model, teacher)
        if number % accumulate == 0:
            for weight in model.parameters():
                weight.data -= 0.1 * weight.grad
                drop(weight)
    return found


def to_none(weight: nn.Parameter) -> None:
    weight.grad = None


def to_zero(weight: nn.Parameter) -> None:
    weight.grad.zero_()


@pytest.mark.parametrize("drop", [to_none, to_zero])
@pytest.mark.parametrize(
    ("kind", "beside"),
    [(nn.Linear, nothing), (Normalises, nothing), (nn.Linear, follow), (nn.Linear, add_noise)],
)
def test_weights_that_change_within_a_step_end_none(kind: type[nn.Linear], beside: Callable, drop: Callable) -> None:
    """While gradients are accumulated, no micro-batch is a step, whatever changes the weights beside the update. Where
    each pass is followed by an update, it is one."""
    assert steps_ended(4, kind, beside, drop) == 0
    assert steps_ended(1, kind, beside, drop) >= PASSES - 4


@pytest.mark.parametrize("value", [1.0, float("nan")])
def test_weights_that_stay_end_no_step(value: float) -> None:
    """Gradients may be dropped without an update. A value that is no number is no change."""
    model, updates = nn.Linear(2, 2), OwnUpdates()
    nn.init.constant_(model.weight, value)

    assert not any(updates.pass_begins([model]) for _ in range(8))


def test_sparse_gradients_are_looked_at() -> None:
    """Those of an embedding hold no row that was not in the batch."""
    model, updates = nn.Embedding(9, 4, sparse=True), OwnUpdates()

    def passes(drops: bool) -> Iterator[bool]:
        for _ in range(6):
            yield updates.pass_begins([model])
            model(torch.tensor([7])).sum().backward()
            model.weight.data.add_(1)
            if drops:
                model.weight.grad = None

    failed = len(FAILED)
    assert not any(passes(drops=False))
    assert any(passes(drops=True))
    assert len(FAILED) == failed


class Sees(TorchDispatchMode):
    """Keeps what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_dispatch__(self, what: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(what)
        return what(*args, **(kwargs or {}))


class SeesFunctions(TorchFunctionMode):
    """Keeps what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_function__(self, what: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(what)
        return what(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Sees, SeesFunctions, FakeTensorMode])
def test_looks_stay_out_of_the_programs_modes(mode: type) -> None:
    """A mode is for the program's own operators, and a look works within it as ever."""
    model, updates, failed = nn.Linear(4, 4), OwnUpdates(), len(FAILED)

    def update(within: Any) -> bool:
        with within:
            places = Places(lambda: 0, lambda: list(model.parameters()))
            found = updates.pass_begins([model])
            places.look(sys._getframe(), 1000)
        model.weight.data += 1
        with within:
            places.look(sys._getframe(), 1000)
        assert id(update.__code__) in places.updates.found
        assert places.found.total() == 2000
        return found

    used = mode()
    assert [update(used) for _ in range(4)] == [False, False, False, True]
    assert getattr(used, "seen", []) == []
    assert len(FAILED) == failed


def test_a_look_at_weights_that_fails_keeps_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time there counts nevertheless."""

    def fails(*_: object) -> None:
        raise RuntimeError("no weights here")

    monkeypatch.setattr("slowstep_probe.looks.FAILED", [])
    places = Places(lambda: 0, lambda: [nn.Parameter(torch.zeros(4))])
    monkeypatch.setattr(places.updates, "look", fails)
    places.look(sys._getframe(), 1000)
    broken = Places(lambda: 0, fails)
    broken.look(sys._getframe(), 1000)

    assert places.found.total() == broken.found.total() == 1000


def helper(updates: UpdateCalls) -> None:
    updates.look([sys._getframe()], 0)


def test_a_call_after_another_is_not_taken_for_it() -> None:
    """A frame's memory is used again by the next call of the same function, which is another call."""
    weight = nn.Parameter(torch.zeros(4))
    updates = UpdateCalls(lambda: [weight])
    for _ in range(50):
        helper(updates)
        weight.data += 1

    assert not updates.found


class Held:
    """Something that a call holds."""


def test_calls_are_let_go_of() -> None:
    """A call that has ended lasts to the next look, or to the end of looking."""
    updates = UpdateCalls(lambda: [nn.Parameter(torch.zeros(4))])

    def called() -> weakref.ref:
        held = Held()
        updates.look([sys._getframe()], 0)
        return weakref.ref(held)

    first, second = called(), called()
    gc.collect()
    assert first() is None
    assert second() is not None
    updates.end()
    gc.collect()
    assert second() is None
    assert updates.look([sys._getframe()], 0) == ()


def test_the_end_of_looking_lets_go_of_calls() -> None:
    """It is the end of looks at the stack that ends those at weights."""
    places = Places(lambda: 0, lambda: [nn.Parameter(torch.zeros(4))])

    def called() -> weakref.ref:
        held = Held()
        places.look(sys._getframe(), 1)
        return weakref.ref(held)

    places.begin()
    held = called()
    places.stop([])
    gc.collect()
    assert held() is None


def in_place(weight: nn.Parameter) -> None:
    weight.data -= 1


def by_new_data(weight: nn.Parameter) -> None:
    weight.data = weight.data - 1


def as_a_part(weight: nn.Parameter) -> None:
    weight.data = torch.stack([weight.data, weight.data + 1])[1]


@pytest.mark.parametrize("change", [in_place, by_new_data, as_a_part])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_update_is_seen_however_it_is_written(change: Callable[..., None], dtype: torch.dtype) -> None:
    """Weights may get a new storage, or lie as a part of another tensor."""
    weight = nn.Parameter(torch.ones(4, dtype=dtype))
    updates = UpdateCalls(lambda: [weight])

    def update() -> None:
        updates.look([sys._getframe()], 0)
        change(weight)
        updates.look([sys._getframe()], 0)

    update()
    assert updates.found == {id(update.__code__)}


def test_only_the_bytes_of_a_weight_are_read() -> None:
    """What lies after a short weight in its storage is none of it, nor is there any in an empty one."""
    whole = torch.zeros(8)
    short, empty = nn.Parameter(whole[2:4]), nn.Parameter(torch.zeros(0))
    before = update_calls._all_bytes([short, empty])
    whole[4:] = 1

    assert update_calls._all_bytes([short, empty]) == before == [bytes(8), b""]
    whole[3] = 1
    assert update_calls._all_bytes([short, empty]) != before


def test_weights_that_are_more_than_their_bytes_are_left_alone() -> None:
    """Those of a class of their own, on a device, or without storage."""

    class Own(torch.Tensor):
        """A class of its own."""

    of_class = torch.zeros(4).as_subclass(Own).requires_grad_()
    sparse = torch.zeros(4).to_sparse().requires_grad_()
    nowhere = torch.zeros(4, device="meta").requires_grad_()

    assert UpdateCalls(lambda: [of_class, sparse, nowhere]).look([sys._getframe()], 0) == ()


def test_a_look_hashes_no_code() -> None:
    """The hash of a code object is made anew each time, which takes longer than all the rest of a look."""
    places = Places(lambda: 0, lambda: [nn.Parameter(torch.zeros(4))])
    places.look(sys._getframe(), 1)
    (seen,) = places.found

    assert seen.calls
    assert all(type(call) is int for call in seen.calls)
    assert id(sys._getframe().f_code) in seen.calls
