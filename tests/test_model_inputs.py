"""The numbers that a model is called with for each sample of the loader's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from slowstep_probe.observed import observed
from slowstep_probe.probe.probe import Probe


class Model(nn.Module):
    """A network that takes a batch among other things."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return self.layer(x)


@pytest.mark.parametrize(
    ("room", "more", "given"),
    [
        (8, {}, {"0": 16.0}),
        (2, {}, {"0": 4.0}),  # it trains on two of eight
        (8, {"grid": torch.zeros(3, 8), "names": ["a"]}, {"0": 16.0, "grid": 3.0}),
    ],
)
def test_the_model_is_seen_to_get_what_the_loader_gives(room: int, more: dict, given: dict) -> None:
    """The numbers of each argument are told for a sample that was loaded, whatever is cut before the model's call."""
    model, probe = Model(), Probe()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with probe.attached():
        for x in DataLoader(torch.randn(64, 16), batch_size=8):
            model(x[:room], **more).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    assert given == observed(probe)["numbers_of_sample"]
