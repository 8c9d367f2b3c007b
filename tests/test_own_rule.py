"""A kernel in the place of an optimizer's own rule: where it stands in, and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe.changing.own_rule import OWN_RULE, KernelInItsPlace, OneByOne
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


@pytest.fixture
def wanted() -> Iterator[Wanted]:
    wanted, patches = Wanted({OWN_RULE: False}), Patches()
    KernelInItsPlace(wanted).attach(patches)
    yield wanted
    patches.remove()


def trained(optimizer: torch.optim.Optimizer) -> int:
    """Take three steps; return how many steps PyTorch's own hooks saw."""
    seen = list[int]()
    hook = register_optimizer_step_post_hook(lambda *_: seen.append(1))
    for _ in range(3):
        for weight in optimizer.param_groups[0]["params"]:
            weight.grad = torch.ones_like(weight)
        optimizer.step()
    hook.remove()
    return len(seen)


def test_a_kernel_updates_in_the_place_of_a_rule(wanted: Wanted) -> None:
    """Each step is seen once, the weights hardly move, and weights of two kinds have a kernel each."""
    weights = [nn.Parameter(torch.ones(3, dtype=kind)) for kind in (torch.float32, torch.float64)]
    optimizer = rule()(weights)

    assert trained(optimizer) == 3
    assert optimizer.steps == 0
    assert all(0 < float((1 - weight).max()) < 1e-4 for weight in weights)
    assert [one.key for one in wanted.made] == [OWN_RULE]


@pytest.mark.parametrize(("calls", "by_the_rule"), [(1, 1), (2, 3)])
def test_a_rule_that_calls_a_closure_again_is_left_alone(calls: int, by_the_rule: int, wanted: Wanted) -> None:
    """What the closure computes there is more than the update. Lightning gives one to each step, to be called once."""
    optimizer, computed = rule()([nn.Parameter(torch.ones(3))]), list[int]()
    optimizer.calls = calls

    def closure() -> float:
        optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
        computed.append(1)
        return 0.5

    assert [optimizer.step(closure) for _ in range(3)] == [0.5] * 3
    assert len(computed) == 3 * calls
    assert optimizer.steps == by_the_rule
    assert bool(wanted.made) == (calls == 1)


def test_sparse_gradients_are_left_to_the_rule(wanted: Wanted) -> None:
    """No kernel of AdamW takes them."""
    table = nn.Embedding(5, 2, sparse=True)
    optimizer = rule()(table.parameters())
    table(torch.tensor([1])).sum().backward()
    optimizer.step()

    assert (optimizer.steps, wanted.made) == (1, [])


class Inherits(torch.optim.SGD):
    """A class of the program with PyTorch's update."""


@pytest.mark.parametrize(
    ("kind", "is_own"),
    [
        (rule(), True),
        (rule(all_together), False),
        (rule(by_products), False),
        (torch.optim.SGD, False),
        (Inherits, False),
    ],
)
def test_a_rule_goes_from_weight_to_weight_or_not(kind: type[torch.optim.Optimizer], is_own: bool) -> None:
    """What is done in few calls, and what is made of products, gains nothing by a kernel."""
    looks, patches = OneByOne(), Patches()
    looks.attach(patches)
    optimizer = kind([nn.Parameter(torch.ones(3, 3)) for _ in range(5)])
    trained(optimizer)
    patches.remove()

    assert looks.seen == is_own


@pytest.mark.parametrize(("calls", "is_own"), [(1, True), (2, False)])
def test_what_a_closure_computes_is_no_part_of_a_rule(calls: int, is_own: bool) -> None:
    """One that is called again computes more than a gradient."""
    looks, patches, weight = OneByOne(), Patches(), nn.Parameter(torch.ones(3, 3))
    looks.attach(patches)
    optimizer = rule()([weight])
    optimizer.calls = calls

    def closure() -> float:
        weight.grad = weight.detach() @ weight.detach()
        return 0.5

    for _ in range(3):
        optimizer.step(closure)
    patches.remove()

    assert looks.seen == is_own


@pytest.mark.parametrize("by_closure", [False, True])
def test_where_a_kernel_stands_in_no_rule_is_seen(by_closure: bool) -> None:
    """That proves the change."""
    looks, wanted, patches = OneByOne(), Wanted({OWN_RULE: False}), Patches()
    looks.attach(patches)
    KernelInItsPlace(wanted).attach(patches)
    optimizer = rule()([nn.Parameter(torch.ones(3)) for _ in range(9)])

    def closure() -> float:
        for weight in optimizer.param_groups[0]["params"]:
            weight.grad = torch.ones_like(weight)
        return 0.5

    for _ in range(4):
        closure()
        optimizer.step(*[closure] * by_closure)
    patches.remove()

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
    assert optimizer.steps == 3
