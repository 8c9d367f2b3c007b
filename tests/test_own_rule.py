"""A kernel in the place of an optimizer's own rule: where it stands in, and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe.changing.own_rule import LOOKED_AT, OWN_RULE, KernelInItsPlace, OneByOne
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches


def rule(update: Callable[[list[torch.Tensor]], None] | None = None) -> type[torch.optim.Optimizer]:
    """A class of its own, as each program defines one: PyTorch changes it when its first object is made."""

    class Descent(torch.optim.Optimizer):
        def __init__(self, params: object) -> None:
            super().__init__(params, {"lr": 0.1})  # type: ignore[arg-type]
            self.steps, self.calls = 0, 1

        @torch.no_grad()
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            self.steps += 1
            losses = [closure() for _ in range(self.calls)] if closure else [None]
            (update or one_by_one)(self.param_groups[0]["params"])
            return losses[-1]

    return Descent


def one_by_one(weights: list[torch.Tensor]) -> None:
    """Go from weight to weight."""
    for weight in weights:
        weight -= 0.1 * (weight.grad.to_dense() if weight.grad.is_sparse else weight.grad)


def all_together(weights: list[torch.Tensor]) -> None:
    """Go over all of them in one call."""
    torch._foreach_add_(weights, [weight.grad for weight in weights], alpha=-0.1)


def by_products(weights: list[torch.Tensor]) -> None:
    """Make each gradient orthogonal, by products of matrices that no kernel does without."""
    for weight in weights:
        weight -= 0.1 * weight.grad @ weight.grad.T @ weight.grad


def by_name() -> type[torch.optim.Optimizer]:
    """A class whose step takes its closure by name alone."""

    class Named(rule()):  # type: ignore[misc]
        def step(self, *, closure: Callable[[], float] | None = None) -> float | None:
            return super().step(closure)

    return Named


@pytest.fixture
def looks(nothing_compiled: None) -> Iterator[OneByOne]:
    looks, patches = OneByOne(), Patches()
    looks.attach(patches)
    yield looks
    patches.remove()


@pytest.fixture
def wanted(looks: OneByOne) -> Iterator[Wanted]:
    wanted, patches = Wanted({OWN_RULE: False}), Patches()
    KernelInItsPlace(wanted).attach(patches)
    yield wanted
    patches.remove()


BY_THE_RULE, STEPS = LOOKED_AT[0], LOOKED_AT[-1] + 1
"""The steps until a kernel stands in, and those of a test."""


def trained(optimizer: torch.optim.Optimizer) -> int:
    """Take some steps; return how many of them PyTorch's own hooks saw."""
    seen = list[int]()
    hook = register_optimizer_step_post_hook(lambda one, *_: seen.append(one is optimizer))
    for _ in range(STEPS):
        for weight in optimizer.param_groups[0]["params"]:
            weight.grad = torch.ones_like(weight)
        optimizer.step()
    hook.remove()
    return sum(seen)


def test_a_kernel_updates_in_the_place_of_a_rule(wanted: Wanted) -> None:
    """Each step is seen once, the weights hardly move any more, and weights of two kinds have a kernel each."""
    weights = [nn.Parameter(torch.ones(3, dtype=kind)) for kind in (torch.float32, torch.float64) for _ in range(5)]
    optimizer = rule()(weights)

    assert trained(optimizer) == STEPS
    assert optimizer.steps == BY_THE_RULE
    assert all(0 < float((1 - 0.1 * BY_THE_RULE - weight).max()) < 1e-4 for weight in weights)
    assert [one.key for one in wanted.made] == [OWN_RULE]


def test_weights_of_another_kind_get_another_state(wanted: Wanted) -> None:
    """A program may cast its model once it has trained for a while: the parameters stay the same objects."""
    layer = nn.Sequential(*(nn.Linear(3, 3) for _ in range(5)))
    optimizer = rule()(layer.parameters())
    trained(optimizer)
    layer.to(torch.bfloat16)
    trained(optimizer)

    assert optimizer.steps == BY_THE_RULE


@pytest.mark.parametrize(("calls", "by_the_rule"), [(1, BY_THE_RULE), (2, STEPS)])
def test_a_rule_that_calls_a_closure_again_is_left_alone(
    calls: int, by_the_rule: int, looks: OneByOne, wanted: Wanted
) -> None:
    """What the closure computes there is more than the update. Lightning gives one to each step, to be called once."""
    weights = [nn.Parameter(torch.ones(3, 3)) for _ in range(9)]
    optimizer, computed = rule()(weights), list[int]()
    optimizer.calls = calls

    def closure() -> float:
        for weight in weights:
            weight.grad = weight.detach() @ weight.detach()
        computed.append(1)
        return 0.5

    assert [optimizer.step(closure) for _ in range(STEPS)] == [0.5] * STEPS
    assert len(computed) == STEPS * calls
    assert optimizer.steps == by_the_rule
    assert bool(wanted.made) == (calls == 1)
    assert not looks.seen


@pytest.mark.parametrize("there_is_a_kernel", [True, False])
def test_a_closure_is_given_as_the_program_gave_it(there_is_a_kernel: bool, wanted: Wanted) -> None:
    """By name, if a rule takes it by name alone: when it is looked at, and where no kernel stands in."""
    weights = [nn.Parameter(torch.ones(3, 3)) for _ in range(9)]
    optimizer, computed = by_name()(weights), list[int]()

    def closure() -> float:
        computed.append(1)
        for weight in weights:
            gradient = torch.ones(3, 3)
            late = len(computed) > BY_THE_RULE and not there_is_a_kernel
            weight.grad = gradient.to_sparse() if late else gradient
        return 0.5

    assert [optimizer.step(closure=closure) for _ in range(STEPS)] == [0.5] * STEPS
    assert len(computed) == STEPS
    assert optimizer.steps == (BY_THE_RULE if there_is_a_kernel else STEPS)


def test_sparse_gradients_are_left_to_the_rule(wanted: Wanted) -> None:
    """No kernel of AdamW takes them."""
    table = nn.Embedding(5, 2, sparse=True)
    optimizer = rule()(table.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        table(torch.tensor([1])).sum().backward()
        optimizer.step()

    assert (optimizer.steps, wanted.made) == (STEPS, [])


def test_each_optimizer_is_judged_by_itself(wanted: Wanted) -> None:
    """One that multiplies matrices keeps its rule beside one that goes from weight to weight."""
    multiplies, goes = (
        rule(way)([nn.Parameter(torch.ones(3, 3)) for _ in range(9)]) for way in (by_products, one_by_one)
    )
    trained(multiplies)
    trained(goes)

    assert (multiplies.steps, goes.steps) == (STEPS, BY_THE_RULE)


class Inherits(torch.optim.SGD):
    """A class of the program with PyTorch's update."""


class Clips(torch.optim.SGD):
    """A class of the program that calls PyTorch's update."""

    def step(self, closure: Callable[[], float] | None = None) -> None:
        for weight in self.param_groups[0]["params"]:
            weight.grad.clamp_(-1, 1).mul_(1.0).add_(0.0)
        super().step(closure)


class Wraps(torch.optim.Optimizer):
    """A class of the program with an optimizer of PyTorch's inside."""

    def __init__(self, params: list[torch.Tensor]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.inner = torch.optim.AdamW(params)

    def step(self) -> None:
        self.inner.step()


@pytest.mark.parametrize(
    ("kind", "is_own"),
    [
        (rule(), True),
        (rule(all_together), False),
        (rule(by_products), False),
        (torch.optim.SGD, False),
        (Inherits, False),
        (Clips, False),
        (Wraps, False),
    ],
)
def test_a_rule_goes_from_weight_to_weight_or_not(
    kind: type[torch.optim.Optimizer], is_own: bool, looks: OneByOne
) -> None:
    """What is done in few calls, and what is made of products or by PyTorch, gains nothing by a kernel."""
    optimizer = kind([nn.Parameter(torch.ones(3, 3)) for _ in range(9)])
    trained(optimizer)

    assert looks.seen == is_own


def test_where_a_kernel_stands_in_no_rule_is_seen(looks: OneByOne, wanted: Wanted) -> None:
    """That proves the change."""
    optimizer = rule()([nn.Parameter(torch.ones(3)) for _ in range(9)])
    trained(optimizer)

    assert optimizer.steps == BY_THE_RULE
    assert wanted.made
    assert not looks.seen


def test_everything_is_put_back() -> None:
    """A class that is made afterwards keeps its rule."""
    before, patches = torch.optim.Optimizer.profile_hook_step, Patches()
    KernelInItsPlace(Wanted({OWN_RULE: False})).attach(patches)
    patches.remove()
    optimizer = rule()([nn.Parameter(torch.ones(3))])
    trained(optimizer)

    assert torch.optim.Optimizer.profile_hook_step is before
    assert optimizer.steps == STEPS
