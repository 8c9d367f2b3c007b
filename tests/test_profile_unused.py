"""Results that nothing uses, as a profile shows them: told from those that are read, kept or gone back through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from test_profile_moves import profiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")


class Computes(nn.Module):
    """A layer, and what is computed from its output in some way."""

    def __init__(self, way: Callable[[Computes, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.heads = nn.Linear(40, 40), nn.ModuleList(nn.Linear(40, 40) for _ in range(4))
        self.norm, self.way, self.kept = nn.BatchNorm1d(40), way, list[object]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way(self, self.layer(x))


def all_heads(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """All heads run, and one is trained."""
    return [head(x) for head in model.heads][1]


def another_loss(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """A loss is made beside the one that is trained."""
    thrown = nn.functional.cross_entropy(model.heads[0](x), torch.zeros(60, dtype=torch.long))
    return model.heads[1](x) if thrown is not None else x


def compares_itself(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """What is computed in place is used by nothing, as is what it was computed from."""
    model.heads[0](x).relu_().mul_(2.0).sum()
    return x


def every_head(model: Computes, x: torch.Tensor) -> torch.Tensor:
    return torch.stack([head(x) for head in model.heads])


def as_target(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """No gradient goes through a target, which the loss reads."""
    return model.layer(x) - model.heads[0](x).exp().detach()


def as_number(model: Computes, x: torch.Tensor) -> torch.Tensor:
    model.heads[0](x).square().mean().item()
    return x


def as_array(model: Computes, x: torch.Tensor) -> torch.Tensor:
    model.heads[0](x).square().detach().numpy().mean()
    return x


def as_list(model: Computes, x: torch.Tensor) -> torch.Tensor:
    model.heads[0](x).square().tolist()
    return x


def kept(model: Computes, x: torch.Tensor) -> torch.Tensor:
    model.kept.append(model.heads[0](x).square().detach())
    return x


def used_later(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """Each step uses what the one before has computed."""
    now = model.heads[0](x).square()
    before, model.kept = model.kept, [now.detach()]
    return x + before[0] if before else x  # type: ignore[operator]


def of_statistics(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """What is computed changes statistics that stay."""
    model.norm(model.heads[0](x))
    return x


def without_gradients(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """Something may read this in a way that no look at operators sees."""
    with torch.no_grad():
        model.heads[0](x)
    return x


def checkpointed(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """The results of the first pass are thrown away, and computed once more."""
    return torch.utils.checkpoint.checkpoint(lambda given: model.heads[0](given).sin().exp(), x, use_reentrant=False)


def own_gradients(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """Gradients go on from what has been given some, whatever it was."""
    found = model.heads[0](x).sin()
    (gradient,) = torch.autograd.grad(found, x, torch.ones_like(found), create_graph=True)
    return x + gradient


@pytest.mark.parametrize("way", [all_heads, another_loss, compares_itself])
def test_results_that_nothing_uses_are_told_with_their_line(
    way: Callable[[Computes, torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    """Where every line of the program is needed for something else, the innermost one is told."""
    unused = profiled(Computes(way), torch.rand(60, 40), tmp_path).unused

    assert [line.rpartition(" ")[2] for line in unused] == [way.__name__] * len(unused)
    assert unused
    assert all(0 < share < 1 for share in unused.values())


@pytest.mark.parametrize(
    "way",
    [
        every_head,
        as_target,
        as_number,
        as_array,
        as_list,
        kept,
        used_later,
        of_statistics,
        without_gradients,
        checkpointed,
        own_gradients,
    ],
)
def test_results_that_something_uses_are_not_told(
    way: Callable[[Computes, torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    """An operator, a backward pass, Python or a later step may use them; what is kept may be used yet."""
    assert profiled(Computes(way), torch.rand(60, 40), tmp_path).unused == {}


def by_hook(model: Computes, x: torch.Tensor) -> torch.Tensor:
    """Statistics of what a layer makes are kept as numbers."""
    values = x.detach().abs()
    model.kept = [values.mean().item(), torch.histc(values, 9).tolist()]
    return x


@pytest.mark.parametrize("way", [by_hook, as_number, as_array, as_list])
def test_results_that_python_alone_reads_are_told_with_their_line(
    way: Callable[[Computes, torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    """They are for a log mostly."""
    read = profiled(Computes(way), torch.rand(60, 40), tmp_path).only_read

    assert [line.rpartition(" ")[2] for line in read] == [way.__name__] * len(read)
    assert read
    assert all(0 < share < 1 for share in read.values())


@pytest.mark.parametrize("way", [all_heads, every_head, as_target, kept, used_later, of_statistics, own_gradients])
def test_results_that_training_uses_are_not_only_read(
    way: Callable[[Computes, torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    """They are used, or nothing reads them."""
    assert profiled(Computes(way), torch.rand(60, 40), tmp_path).only_read == {}


class OnFrozen(nn.Module):
    """A trained head behind a frozen layer, with something between or beside."""

    def __init__(self, way: Callable[[OnFrozen, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.frozen, self.head = nn.Linear(40, 40).requires_grad_(False), nn.Linear(40, 40)
        self.norm, self.way = nn.BatchNorm1d(40).requires_grad_(False), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.way(self, x))


def features(model: OnFrozen, x: torch.Tensor) -> torch.Tensor:
    return model.frozen(x).relu()


def with_dropout(model: OnFrozen, x: torch.Tensor) -> torch.Tensor:
    """Each time it is something else."""
    return model.frozen(torch.dropout(x, 0.1, True))


def with_statistics(model: OnFrozen, x: torch.Tensor) -> torch.Tensor:
    """What a batch has changes what stays."""
    return model.frozen(model.norm(x))


def as_teacher(model: OnFrozen, x: torch.Tensor) -> torch.Tensor:
    """A layer that is trained runs without gradients."""
    with torch.no_grad():
        return model.head(x)


def averaged(model: OnFrozen, x: torch.Tensor) -> torch.Tensor:
    """Weights without gradients follow those that are trained."""
    with torch.no_grad():
        model.frozen.weight.lerp_(model.head.weight, 0.1)
    return model.frozen(x)


@pytest.mark.parametrize(
    ("way", "told"),
    [(features, True), (with_dropout, False), (with_statistics, False), (as_teacher, False), (averaged, False)],
)
def test_what_comes_of_data_and_frozen_weights_is_told_with_its_line(
    way: Callable[[OnFrozen, torch.Tensor], torch.Tensor], told: bool, tmp_path: Path
) -> None:
    """It is the same in each epoch."""
    found = profiled(OnFrozen(way), torch.rand(60, 40), tmp_path).of_data

    assert (sum(found.values()) > 0.1) == told
    assert not told or [line.rpartition(" ")[2] for line in found] == [way.__name__]


@pytest.mark.parametrize("layers", [nn.TransformerEncoderLayer(40, 4), nn.GRU(40, 40), nn.LSTM(40, 40, 2)])
def test_layers_of_torch_use_nearly_all_that_they_compute(layers: nn.Module, tmp_path: Path) -> None:
    """What they return beside their output may have no use, and takes little."""

    def way(_: Computes, x: torch.Tensor) -> torch.Tensor:
        found = layers(x[:, None])
        return found[0] if isinstance(found, tuple) else found

    record = profiled(Computes(way), torch.rand(60, 40), tmp_path)

    assert sum(record.unused.values()) < 0.1
