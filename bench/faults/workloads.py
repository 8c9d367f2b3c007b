"""What is trained under a fault."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from slowstep.settings import Settings

MIB = 2**20


class Wide:
    """A linear model on samples of a MiB each, so that batches of loader workers fill a small /dev/shm."""

    device = "cpu"
    compiled = False

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder

    def prepare_data(self) -> None:
        self.data = TensorDataset(torch.ones(64, MIB // 4), torch.ones(64, 1))

    def build_model(self) -> None:
        self.model = torch.nn.Linear(MIB // 4, 1)
        if self.compiled:
            self.model = torch.compile(self.model)

    def build_trainer(self) -> None:
        workers = self.settings.training("dataloader_num_workers")
        self.loader = DataLoader(self.data, batch_size=8, num_workers=workers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-9)

    def train(self) -> None:
        while True:
            for x, y in self.loader:
                self.during()
                torch.nn.functional.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    def during(self) -> None:
        """What else happens in a step."""

    def observe(self) -> dict[str, Any]:
        return {}

    def periodic_events(self) -> dict[str, Any]:
        return {}


class Compiled(Wide):
    """The same, compiled."""

    compiled = True


class Eats(Wide):
    """Takes two GiB of memory in a step."""

    def during(self) -> None:
        held = [torch.ones(32 * MIB, dtype=torch.uint8) for _ in range(64)]
        time.sleep(0.1 * len(held))
