"""What programs write out, as a profile shows it: attention told from the fused one, products told from single ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from slowstep_probe.probe.clock import HostClock
from slowstep_probe.profiled import ATTENTION, PRODUCT
from slowstep_probe.trial.profiling import Profiling
from test_profile_moves import profiled

INPUTS = torch.rand(2, 32, 16)

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As most programs write it, with a mask that is built anew."""
    scores = q @ k.transpose(-1, -2) / 4 + torch.triu(torch.full((32, 32), float("-inf")), 1)
    return F.dropout(scores.softmax(-1), 0.1) @ v


def by_einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bqk,bkd->bqd", torch.einsum("bqd,bkd->bqk", q, k).softmax(-1), v)


def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def fused_with_dropout(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """No kernel of a CPU has dropout: the operator is made of others there, and they are none of the program's."""
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)


def two_products(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """No softmax lies between them."""
    return (q @ k.transpose(-1, -2)).tanh() @ v


def gated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A gate chooses what a product of batches sums up."""
    gates = (q @ k.transpose(-1, -2)).softmax(-1)
    best = gates.topk(2, -1).indices
    return torch.zeros_like(gates).scatter(-1, best, 1.0) @ v


class Attention(nn.Module):
    """One layer of attention, and a softmax over classes behind it."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.project, self.attend = nn.Linear(16, 48), attend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(*self.project(x).chunk(3, -1)).softmax(-1)


@pytest.mark.parametrize(
    ("attend", "there"),
    [
        (by_hand, True),
        (by_einsum, True),
        (fused, False),
        (fused_with_dropout, False),
        (two_products, False),
        (gated, False),
    ],
)
def test_attention_that_is_written_out_is_told_with_its_way_back(attend: Attend, there: bool, tmp_path: Path) -> None:
    """The products themselves are needed in any case."""
    record = profiled(Attention(attend), INPUTS, tmp_path)

    assert record.written_out.get(ATTENTION, {}).keys() == ({"forward", "backward"} if there else set())
    products = sum(o.seconds for o in record.by_phase["forward"] if o.name == "aten::bmm")
    assert sum(record.written_out.get(ATTENTION, {}).values()) <= record.seconds - products


class Mixed(nn.Module):
    """A layer that multiplies by its weights in some way."""

    def __init__(self, multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.project, self.weight, self.multiply = nn.Linear(16, 16), nn.Parameter(torch.rand(16, 8)), multiply

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.multiply(self.project(x.flatten(0, 1)), self.weight)


@pytest.mark.parametrize(
    ("multiply", "there"),
    [
        (lambda x, w: (x[:, :, None] * w).sum(1), True),
        (lambda x, w: x @ w, False),
        (lambda x, w: (x * x.sigmoid()).tanh().sum(1), False),
        (lambda x, w: F.cosine_similarity(x, x.flip(0)), False),
        (lambda x, w: (x * x.flip(0)).sum(1), False),  # each element meets one other
    ],
)
def test_a_product_that_is_written_out_is_told_with_its_way_back(
    multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], there: bool, tmp_path: Path
) -> None:
    """Elements that are multiplied and summed at once."""
    record = profiled(Mixed(multiply), INPUTS, tmp_path)

    assert record.written_out.keys() == ({PRODUCT} if there else set())
    assert all(seconds.keys() == {"forward", "backward"} for seconds in record.written_out.values())


def test_a_batch_that_is_fetched_between_the_passes_is_of_no_earlier_step(tmp_path: Path) -> None:
    """Many loops fetch the next batch while a device computes, so a step's end lies between its passes."""
    model = nn.Linear(16, 16)
    profiling = Profiling(HostClock(), 3, phase=lambda: "forward")
    profiling.step_ends()
    profiling.step_ends()
    while not profiling.ended:
        loss = model(INPUTS).sum()
        profiling.step_ends()
        if not profiling.ended:
            loss.backward()

    assert profiling.read(tmp_path / "trace.json.gz").earlier == 0


@pytest.mark.parametrize("detached", [True, False])
def test_a_state_that_is_kept_with_its_graph_is_told(detached: bool, tmp_path: Path) -> None:
    """Each step goes back through those before it; one that detaches its state does not, and leaves are of no step."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.state = nn.Linear(16, 16), torch.zeros(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = self.state.detach() if detached else self.state
            self.state = self.cell(x.mean((0, 1)) + before).tanh()
            return self.state

    record = profiled(Recurrent(), INPUTS, tmp_path, retain_graph=True)

    assert (record.earlier > 0) is not detached
