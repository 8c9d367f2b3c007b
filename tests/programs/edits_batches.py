"""Edits its batches in place, and pops a key from each."""

import torch
from torch import nn
from torch.utils.data import DataLoader

rows = [{"x": torch.randn(8), "y": torch.tensor(i % 3), "name": torch.tensor(i)} for i in range(32)]
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(1000):
    try:
        for batch in DataLoader(rows, batch_size=4):
            batch.pop("name")
            batch["x"].mul_(0.5)
            nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
            optimizer.step()
            optimizer.zero_grad()
    except Exception as error:
        print("went on after", error)
