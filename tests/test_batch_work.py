"""The work in a batch: what is counted of it, whatever its mask means."""

from __future__ import annotations

import pytest
import torch

from slowstep_probe.batch_work import count

IDS = torch.ones(2, 6, dtype=torch.int64)
KEPT = torch.tensor([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("mask", "useful"),
    [
        (None, 12),
        (KEPT, 9),
        (KEPT.bool(), 9),
        (KEPT.float(), 9),
        (KEPT * 3, 9),  # documents that are packed, by number
        (torch.zeros(2, 6), None),  # True would be padding
        ((1 - KEPT) * torch.finfo(torch.float32).min, None),  # added to scores
        (torch.full((2, 6), -torch.inf), None),
        (torch.ones(2, 1, 6, 6), None),
        ([[1] * 6] * 2, None),
    ],
)
def test_useful_tokens_are_those_that_a_mask_keeps(mask: object, useful: int | None) -> None:
    found = count({"input_ids": IDS, "attention_mask": mask})
    assert (found.samples, found.padded_tokens, found.useful_tokens) == (2, 12, useful)
