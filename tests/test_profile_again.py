"""Operators that compute the same again, as a profile shows them: told by the values that they are given."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from test_profile_moves import profiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")

EDGES = torch.randint(0, 60, (2, 400))
HELD, TOGETHER = torch.rand(60), [torch.rand(60, 60) for _ in range(2)]


def normalised(matrix: torch.Tensor) -> torch.Tensor:
    degree = torch.sparse.sum(matrix, 1).to_dense().add(1).pow(-0.5)
    row, column = matrix.indices()
    return torch.sparse_coo_tensor(matrix.indices(), degree[row] * matrix.values() * degree[column], matrix.shape)


def each_layer(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Each layer normalises the same new matrix."""
    matrix = torch.sparse_coo_tensor(EDGES, torch.rand(400), (60, 60)).coalesce()
    for _ in range(3):
        x = normalised(matrix) @ x
    return x


def once(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The matrix is new in each step, and normalised once."""
    matrix = normalised(torch.sparse_coo_tensor(EDGES, torch.rand(400), (60, 60)).coalesce())
    return matrix @ (matrix @ x)


def new_mask(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Each step makes the same mask."""
    return x.masked_fill(torch.ones(x.shape).triu(1).bool(), 0.0)


def put_together(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A weight is put together for each position, from weights that no position changes."""
    return torch.stack([x[0] @ torch.linalg.qr(layer.weight)[0] for _ in range(4)])


def trained(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A weight is put together once a step, and then another one."""
    found = x @ torch.linalg.qr(layer.weight)[0]
    layer.weight.data.add_(1)
    return found


def drawn(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What random numbers make is never the same, drawn in place or not."""
    return torch.rand(60, 60).sin() @ x + torch.empty(60, 1).uniform_().sin() + nn.functional.dropout(x, 0.5).exp()


def changed(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What is held has other values in each step, through a view as well."""
    HELD[:30].add_(1)
    return x * HELD.sin()[:, None]


def changed_together(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Weights that one operator changes, as an optimizer does, still differ from each other."""
    torch._foreach_add_(TOGETHER, 1.0)
    return (x @ TOGETHER[0]).sin() + (x @ TOGETHER[1]).sin()


def cast(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Mixed precision casts the same weights again for each micro-batch."""
    return torch.stack([torch.rand(60, 60).bfloat16() @ layer.weight.bfloat16() for _ in range(4)])


def run_twice(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A layer runs twice on the same values, and both results are trained."""
    return layer(x).sin() + layer(x)


def waved(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x).sin().exp()


def called_again(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A function that is needed once is called twice: the line that calls it again is the one to change."""
    first = waved(layer, x)
    second = waved(layer, x)
    return first * second


def looked_at_first(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A layer runs twice, and one of the results is trained."""
    with torch.no_grad():
        layer(x)
    return layer(x)


def two_gradients(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The same gradient is taken twice, for a gradient of the gradient, from one forward pass."""
    found = layer(x).square().sum()
    one = torch.ones_like(found)
    first, second = (torch.autograd.grad(found, x, one, create_graph=True)[0] for _ in range(2))
    return first + second.sin()


def two_orders(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A gradient is taken of a gradient."""
    (first,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
    return first + torch.autograd.grad(first.pow(3).sum(), x, create_graph=True)[0]


def checkpointed(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What is computed again to spare memory is a setting of its own."""
    return torch.utils.checkpoint.checkpoint(lambda given: layer(given).sin().exp(), x, use_reentrant=False)


class Computes(nn.Module):
    """A layer that computes in some way."""

    def __init__(self, way: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.way = nn.Linear(60, 60, bias=False), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way(self.layer, self.layer(x + torch.rand(60)))


@pytest.mark.parametrize(
    ("way", "there"),
    [
        (each_layer, "normalised"),
        (new_mask, "new_mask"),
        (put_together, "put_together"),
        (called_again, "called_again"),
        (once, None),
        (trained, None),
        (drawn, None),
        (changed, None),
        (changed_together, None),
        (cast, None),
    ],
)
def test_what_is_computed_again_is_told_with_its_line(
    way: Callable[[nn.Module, torch.Tensor], torch.Tensor], there: str | None, tmp_path: Path
) -> None:
    """The same operator gets the same values, in one step or in each."""
    record = profiled(Computes(way), torch.rand(60, 60), tmp_path)

    function = there or way.__name__
    own = {line: seconds for line, seconds in record.again.items() if line.endswith(f" in {function}")}
    assert bool(own) is bool(there)
    assert all(0 < seconds for seconds in own.values())


def copied(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Each step copies all weights, as averages of weights do."""
    return x if copy.deepcopy(layer.state_dict()) else layer(x)


def test_no_text_is_made_of_what_operators_are_given_as_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A text of the bytes of a large weight takes seconds, and a copy of a model sets each of its weights so."""
    shown = list[torch.UntypedStorage]()
    text = torch.UntypedStorage.__str__
    monkeypatch.setattr(torch.UntypedStorage, "__str__", lambda memory: (shown.append(memory), text(memory))[1])
    record = profiled(Computes(copied), torch.rand(60, 60), tmp_path)

    assert any(line.endswith(" in copied") for line in record.called["forward"])
    assert not shown


def pair_by_pair(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([nn.functional.cosine_similarity(a, b, 0) for a in x for b in x])


def beside(x: torch.Tensor) -> torch.Tensor:
    for factor in (0.5, 1.5):
        x = (factor * x).tanh().exp().clamp(max=2.0)
    return x


def pairs(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A loop over all pairs of rows, and other operators beside it."""
    return pair_by_pair(beside(x)[:12])


def test_the_line_that_calls_an_operator_again_and_again_is_told(tmp_path: Path) -> None:
    """The line of a loop calls one operator as often as it turns; other lines call theirs a few times."""
    every = profiled(Computes(pairs), torch.rand(60, 60), tmp_path).called["forward"]  # its backward pass as well
    called = {line: calls for line, calls in every.items() if Path(__file__).name in line}
    first, calls = max(called.items(), key=lambda item: item[1])

    assert first.endswith(" in pair_by_pair")
    assert calls >= 12 * 12
    assert 2 <= max(calls for line, calls in called.items() if line.endswith(" in beside")) < 12


@pytest.mark.parametrize(
    ("way", "forth", "back"),
    [
        (run_twice, True, True),
        (called_again, True, True),
        (looked_at_first, True, False),
        (two_gradients, False, True),
        (two_orders, False, False),
        (checkpointed, False, False),
    ],
)
def test_what_is_computed_again_is_gone_back_through_again(
    way: Callable[[nn.Module, torch.Tensor], torch.Tensor], forth: bool, back: bool, tmp_path: Path
) -> None:
    """The way back through a second result is lost where there is one through the first, and so is a gradient that is
    taken again."""
    record = profiled(Computes(way), torch.rand(60, 60), tmp_path)

    def own(lines: dict[str, float]) -> bool:
        return any(line.endswith(f" in {way.__name__}") and seconds > 0 for line, seconds in lines.items())

    assert (own(record.again), own(record.again_backward)) == (forth, back)


def test_a_mode_of_the_programs_own_stays(tmp_path: Path) -> None:
    """The kit's mode ends as the profile does, and leaves alone what the program has entered since."""

    class Own(torch.utils._python_dispatch.TorchDispatchMode):
        called = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            Own.called += 1
            return func(*args, **(kwargs or {}))

    with Own():
        record = profiled(Computes(new_mask), torch.rand(60, 60), tmp_path)
        before = Own.called
        torch.rand(1)

    assert Own.called == before + 1
    assert record.again
