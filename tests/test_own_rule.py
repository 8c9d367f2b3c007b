"""A kernel in the place of an optimizer's own rule: where it stands in, and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe.changing.own_rule import OWN_RULE, KernelInItsPlace
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.observed import optimizer_facts
from slowstep_probe.patches import Patches


def rule() -> type[torch.optim.Optimizer]:
    """A class of its own, as each program defines one: PyTorch changes it when its first object is made."""

    class Descent(torch.optim.Optimizer):
        def __init__(self, params: object) -> None:
            super().__init__(params, {"lr": 0.1})  # type: ignore[arg-type]
            self.steps, self.calls = 0, 1

        @torch.no_grad()
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            self.steps += 1
            losses = [closure() for _ in range(self.calls)] if closure else [None]
            for weight in self.param_groups[0]["params"]:
                grad = weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
                weight -= 0.1 * grad
            return losses[-1]

    return Descent


@pytest.fixture
def wanted() -> Iterator[Wanted]:
    wanted, patches = Wanted({OWN_RULE: False}), Patches()
    KernelInItsPlace(wanted).attach(patches)
    yield wanted
    patches.remove()


def trained(optimizer: torch.optim.Optimizer) -> int:
    """Take two steps; return how many steps PyTorch's own hooks saw."""
    seen = list[int]()
    hook = register_optimizer_step_post_hook(lambda *_: seen.append(1))
    for _ in range(2):
        for weight in optimizer.param_groups[0]["params"]:
            weight.grad = torch.ones_like(weight)
        optimizer.step()
    hook.remove()
    return len(seen)


def test_a_kernel_updates_in_the_place_of_a_rule(wanted: Wanted) -> None:
    """Each step is seen once, the weights hardly move, and weights of two kinds have a kernel each."""
    weights = [nn.Parameter(torch.ones(3, dtype=kind)) for kind in (torch.float32, torch.float64)]
    optimizer = rule()(weights)

    assert optimizer_facts(optimizer)["own_rule"]
    assert trained(optimizer) == 2
    assert optimizer.steps == 0
    assert not optimizer_facts(optimizer)["own_rule"]
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
    assert optimizer_facts(optimizer)["own_rule"] == (calls > 1)


def test_sparse_gradients_are_left_to_the_rule(wanted: Wanted) -> None:
    """No kernel of AdamW takes them."""
    table = nn.Embedding(5, 2, sparse=True)
    optimizer = rule()(table.parameters())
    table(torch.tensor([1])).sum().backward()
    optimizer.step()

    assert (optimizer.steps, wanted.made) == (1, [])


def test_an_optimizer_of_pytorch_has_no_rule_of_its_own(wanted: Wanted) -> None:
    """Nor has a class of the program that inherits its update."""

    class Mine(torch.optim.SGD):
        """It changes nothing."""

    for kind in (torch.optim.AdamW, Mine):
        optimizer = kind([nn.Parameter(torch.ones(3))], lr=0.1)
        trained(optimizer)
        assert not optimizer_facts(optimizer)["own_rule"]
    assert not wanted.made


def test_everything_is_put_back() -> None:
    """A class that is made afterwards keeps its rule."""
    before, patches = torch.optim.Optimizer.profile_hook_step, Patches()
    KernelInItsPlace(Wanted({OWN_RULE: False})).attach(patches)
    patches.remove()
    optimizer = rule()([nn.Parameter(torch.ones(3))])
    trained(optimizer)

    assert torch.optim.Optimizer.profile_hook_step is before
    assert optimizer.steps == 2
