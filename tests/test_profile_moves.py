"""Operators that only move numbers, as a profile shows them: told from what computes, and from casts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import record_function

from slowstep_probe.probe.clock import HostClock
from slowstep_probe.profiled import ProfileRecord
from slowstep_probe.trial import losses
from slowstep_probe.trial.profiled_steps import ANNOTATION
from slowstep_probe.trial.profiling import Profiling

IMAGES, TOKENS = torch.rand(8, 8, 48, 48), torch.randint(0, 100_000, (64,))


class Unfolded(nn.Module):
    """A convolution that lays out its windows as columns first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8, 8, 3, 3))
        self.before = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight.flatten(1) @ nn.functional.unfold(self.before(x), 3, padding=1)


class ByPosition(nn.Module):
    """Takes the positions of a sequence apart, and puts them together again."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.project(x)
        return torch.cat([x[..., at, :] for at in range(x.shape[-2])], -1)


def phase_by_nodes() -> str:
    """The phase, by whether a backward pass is at a node."""
    return "forward" if torch._C._current_autograd_node() is None else "backward"


def profiled(
    model: nn.Module,
    inputs: torch.Tensor,
    folder: Path,
    retain_graph: bool = False,
    loss_of: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> ProfileRecord:
    """The profile of three steps of a model. `loss_of` makes the loss between the phases."""
    profiling = Profiling(HostClock(), 3, phase=phase_by_nodes)
    profiling.step_ends()
    profiling.step_ends()
    while not profiling.ended:
        with record_function(f"{ANNOTATION}forward"):
            found = model(inputs).float()
            loss = found if loss_of else found.square().sum()
        loss = loss_of(found) if loss_of else loss
        with record_function(f"{ANNOTATION}backward"):
            loss.backward(retain_graph=retain_graph)
        model.zero_grad()
        profiling.step_ends()
    return profiling.read(folder / "trace.json.gz")


@pytest.mark.parametrize(
    ("model", "inputs", "forward", "backward"),
    [
        (Unfolded, IMAGES, "aten::im2col", "aten::col2im in Im2ColBackward0"),
        (lambda: nn.Embedding(100_000, 64), TOKENS, None, "aten::fill_ in EmbeddingBackward0"),
        (ByPosition, IMAGES, "aten::cat", "aten::fill_ in SelectBackward0"),
    ],
)
def test_what_only_moves_numbers_is_told_with_what_called_it(
    model: Callable[[], nn.Module], inputs: torch.Tensor, forward: str | None, backward: str, tmp_path: Path
) -> None:
    """Columns of windows, gradients that are mostly zeros, and tensors that are taken apart."""
    record = profiled(model(), inputs, tmp_path)

    assert forward is None or forward in [o.name for o in record.moves["forward"]]
    assert backward in [o.name for o in record.moves["backward"]]
    assert all(o.seconds > 0 for moved in record.moves.values() for o in moved)


def test_casts_are_no_moves(tmp_path: Path) -> None:
    """Mixed precision casts weights and inputs again and again."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.layers(x)

    record = profiled(Mixed(), torch.rand(8, 256), tmp_path)

    calls = {o.name: o.calls for o in record.by_phase["forward"]}
    assert calls["aten::_to_copy"] >= 3 * 4
    moved = sum(o.calls for o in record.moves["forward"] if o.name.startswith("aten::copy_"))
    assert moved == calls["aten::copy_"] - calls["aten::_to_copy"]


def of_counts(found: torch.Tensor) -> torch.Tensor:
    """A loss that PyTorch makes of simple operators."""
    return nn.functional.poisson_nll_loss(found, torch.ones_like(found))


def with_a_metric(found: torch.Tensor) -> torch.Tensor:
    """A metric that trains nothing, and takes far longer than the loss."""
    for _ in range(20):
        found.detach().exp().sub(1).sum()
    return found.sum()


def by_rows(found: torch.Tensor) -> torch.Tensor:
    """A loss in a loop takes hardly more than its calls."""
    return torch.stack([row[:4].exp().sum() for row in found.flatten(1).unbind()]).sum()


@pytest.mark.parametrize(
    ("loss_of", "short", "trains"),
    [(of_counts, losses.SHORT, True), (with_a_metric, losses.SHORT, False), (by_rows, 1.0, False)],
)
def test_a_loss_between_the_phases_is_training(
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    short: float,
    trains: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A backward pass goes back through its operators, and these take longer than a call, of whatever length one is."""
    monkeypatch.setattr(losses, "SHORT", short)
    record = profiled(nn.Conv2d(8, 8, 1), IMAGES.repeat(4, 1, 1, 1), tmp_path, loss_of=loss_of)
    between = sum(o.seconds for o in record.by_phase["other"])

    assert (record.losses > 0.5 * between) is trains
