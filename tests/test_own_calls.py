"""Modules whose class answers calls by itself, as those of gpytorch do, make passes like any other."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from recording import HandClock, record
from slowstep_probe.changing.models import BY_ITSELF, COMPILE, ModelChanges
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.probe.own_calls import answers_by_itself, takes_hooks
from slowstep_probe.probe.probe import Probe
from slowstep_probe.survey.seen_training import _holder, _model_of, _of_model


class Answers(nn.Module):
    """The base of such a library's modules."""

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.forward(*inputs, **kwargs)


class Process(Answers):
    """A model that needs a second for its own work, and calls a part of PyTorch's within it."""

    def __init__(self, clock: HandClock | None = None):
        super().__init__()
        self.scale, self.positive, self.clock = nn.Linear(3, 1), nn.Softplus(), clock

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.clock is not None:
            self.clock.pass_second()
        return super().__call__(inputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.positive(self.scale(inputs))


class Likelihood(Answers):
    """A loss that holds its model."""

    def __init__(self, model: nn.Module, clock: HandClock | None = None):
        super().__init__()
        self.model, self.clock = model, clock

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        if self.clock is not None:
            self.clock.pass_second()
        return outputs.square().mean()


class Steps(Process):
    """A model whose call is the whole step."""

    def __call__(self, inputs: torch.Tensor) -> None:
        loss = super().__call__(inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.clock.pass_second()


class HandsOn(nn.Module):
    """It adds something to PyTorch's way."""

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().__call__(inputs) + 1

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs


def test_the_model_and_its_loss_are_passes_and_not_their_parts() -> None:
    """What is found without: PyTorch's own module within is taken for the model, and the rest is nobody's time."""
    clock = HandClock()
    model = Process(clock)
    loss_of = Likelihood(model, clock)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(steps: float = math.inf) -> None:
        for _ in itertools.takewhile(lambda step: step < steps, itertools.count()):
            loss_of(model(torch.randn(7, 3))).backward()
            optimizer.step()
            optimizer.zero_grad()

    with Probe(clock).attached() as probe:
        Process(), Likelihood(model)  # their classes are met where one is made
        train(steps=3)
        found = probe.models

    assert found == [model, loss_of]
    assert _model_of(found) is model

    def make_and_train() -> None:
        Process(), Likelihood(model)
        train()

    block = record(make_and_train, 6, clock).block

    assert block.phases["forward"] == sum(block.step_seconds) == 12
    assert block.work.samples == 6 * 7


def test_a_call_that_is_a_whole_step_is_a_pass_until_it_trains() -> None:
    clock = HandClock()

    def train() -> None:
        model = Steps(clock)
        model.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        while True:
            model(torch.randn(7, 3))

    found = record(train, 6, clock).block

    assert len(found.step_seconds) == 6
    assert found.phases["other"] == 6


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        (Answers, Answers),
        (Process, Process),
        (Likelihood, Answers),
        (HandsOn, None),
        (nn.Linear, None),
        (torch.jit.ScriptModule, None),
    ],
)
def test_what_hands_its_calls_on_to_pytorch_takes_hooks(kind: type, owner: type | None) -> None:
    assert answers_by_itself(kind) is owner
    assert takes_hooks(kind) is (owner is None)


def test_graphs_of_modules_take_hooks() -> None:
    assert takes_hooks(type(torch.fx.symbolic_trace(HandsOn())))


class Mixin:
    """What is no module may answer calls in the same way."""

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)


class Mixed(Mixin, nn.Linear):
    """A module whose calls are answered by a class that is none."""


class Plain(Mixin):
    """No module at all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.square()


class Static(nn.Module):
    """Its call is no method."""

    @staticmethod
    def __call__(x: torch.Tensor, *, original: torch.Tensor, module: int = 0) -> torch.Tensor:
        return x - original


class Named(nn.Module):
    """Its call has arguments of any name."""

    def __call__(self, x: torch.Tensor, *, original: torch.Tensor, module: int = 0) -> torch.Tensor:
        return x - original


class Deep(nn.Module):
    """It hands its calls on from within a function of its own."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        def within() -> torch.Tensor:
            return super(Deep, self).__call__(x)

        return within()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Compiled(nn.Module):
    """Its call is compiled."""

    @torch.compile(backend="eager")
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_whatever_answers_calls_answers_them_as_before() -> None:
    """Objects that are no modules, calls that are no methods, and arguments of any name."""
    x = torch.ones(2, 2)
    with Probe().attached():
        mixed, plain, static, named, deep = Mixed(2, 2), Plain(), Static(), Named(), Deep()
        assert mixed(x).shape == (2, 2)
        assert torch.equal(plain(x), x)
        assert torch.equal(static(x, original=x, module=1), x - x)
        assert torch.equal(named(x, original=x, module=1), x - x)
        assert torch.equal(deep(x), x)
    assert [takes_hooks(kind) for kind in (Mixed, Static, Named, Deep, Compiled)] == [True, True, False, True, True]


def test_a_class_that_is_pickled_with_all_that_stands_on_it_carries_nothing() -> None:
    """Libraries that send work elsewhere pickle classes of the program itself by value, and those made in functions."""

    class Local(nn.Module):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

    before = vars(Local)["__call__"]
    with Probe().attached():
        Local()
        assert vars(Local)["__call__"] is before


def test_a_class_is_gone_when_the_program_lets_go_of_it() -> None:
    """A program may make one for each of its runs, each with data of its own."""
    with Probe().attached():
        made = type("Made", (Answers,), {})
        made(), takes_hooks(made)
        gone = weakref.ref(made)
        del made
        gc.collect()
        assert gone() is None


def test_classes_have_their_own_calls_back_afterwards() -> None:
    kept = vars(Process)["__call__"], vars(Answers)["__call__"], nn.Module.__init__
    with Probe().attached():
        Process(), Likelihood(nn.Linear(1, 1))
        assert vars(Process)["__call__"] is not kept[0]

    assert (vars(Process)["__call__"], vars(Answers)["__call__"], nn.Module.__init__) == kept


def test_what_is_changed_around_calls_has_no_place_in_them() -> None:
    """It is said so, and not left to be looked for."""
    assert ModelChanges(Wanted({COMPILE: True})).settle([Process()], by_trainer=False) == [BY_ITSELF]


def test_the_model_is_the_one_that_a_loss_called_after_it_holds() -> None:
    model = nn.Linear(100, 100)
    loss = Likelihood(model)
    loss.noise = nn.Parameter(torch.zeros(1))

    assert _model_of([model, loss]) is model
    assert _model_of([loss]) is loss
    assert _model_of([loss, model]) is loss  # one that calls a part of itself beforehand
    assert _model_of([]) is None


def test_a_model_whose_methods_call_its_parts_is_the_model() -> None:
    """Its parts are called outermost, each for itself; what holds more than them is none, and neither is a part, nor a
    network that no optimizer updates."""
    model = nn.ModuleDict({"entities": nn.Embedding(9, 2), "relations": nn.Embedding(3, 2)})
    holds_all = nn.ModuleList([model, nn.Linear(1, 1)])
    parts = [model["entities"], model["relations"], nn.Softplus()]

    target, apart = nn.Linear(1, 1), nn.Linear(1, 1)
    weights = {id(one) for one in (*holds_all.parameters(), *apart.parameters())}

    assert _holder(parts, weights) is model
    assert _holder([*parts, target], weights) is model
    assert _holder([*parts, holds_all], weights) is None
    assert _holder(parts[:1], weights) is None
    assert _holder([*parts, apart], weights) is None
    assert _holder([target], weights) is None


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_scripted_model_has_the_name_of_its_class() -> None:
    """TorchScript makes all models of one class of its own."""
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2)))

    assert _of_model(scripted, None)["name"].endswith(".Sequential")
