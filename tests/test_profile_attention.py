"""Attention that is written out, as a profile shows it: told from the fused one, and from other products of batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

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


class Attention(nn.Module):
    """One layer of attention, and a softmax over classes behind it."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.project, self.attend = nn.Linear(16, 48), attend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(*self.project(x).chunk(3, -1)).softmax(-1)


@pytest.mark.parametrize(
    ("attend", "there"),
    [(by_hand, True), (by_einsum, True), (fused, False), (fused_with_dropout, False), (two_products, False)],
)
def test_attention_that_is_written_out_is_told_with_its_way_back(attend: Attend, there: bool, tmp_path: Path) -> None:
    """The products themselves are needed in any case."""
    record = profiled(Attention(attend), INPUTS, tmp_path)

    assert record.attention.keys() == ({"forward", "backward"} if there else set())
    products = sum(o.seconds for o in record.by_phase["forward"] if o.name == "aten::bmm")
    assert sum(record.attention.values()) <= record.seconds - products
