"""No loader: batches are cut from an array by random indices, as small GPT trainers do."""

import numpy as np
import torch
from torch import nn

tokens = np.random.default_rng(0).integers(0, 64, 20_000)
model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch(size=8, length=24):
    starts = torch.randint(len(tokens) - length - 1, (size,))
    x = torch.stack([torch.from_numpy(tokens[s : s + length]) for s in starts])
    y = torch.stack([torch.from_numpy(tokens[s + 1 : s + 1 + length]) for s in starts])
    return x, y


while True:
    for _ in range(2):  # two micro-batches
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
