"""Edits its batches in place, and pops a key from each. Usage: edits_batches.py [bare], where a batch is one tensor."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

bare = sys.argv[1:] == ["bare"]
rows = [{"x": torch.randn(8), "y": torch.tensor(i % 3), "name": torch.tensor(i)} for i in range(32)]
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(1000):
    try:
        for batch in DataLoader([row["x"] for row in rows] if bare else rows, batch_size=4):
            x = batch
            if not bare:
                batch.pop("name")
                x = batch["x"]
            x.mul_(0.5)
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    except Exception as error:
        print("went on after", error)
