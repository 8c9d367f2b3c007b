"""A loop that still debugs: the variable of a fault that was found long ago."""

import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(640, 32), torch.randint(4, (640,))), batch_size=8)
for epoch in range(100):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
