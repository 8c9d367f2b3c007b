"""A loader that is given whole batches of indices, and fetches each of them at once."""

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

data = TensorDataset(torch.randn(256, 6), torch.randn(256, 1))
order = BatchSampler(RandomSampler(data), 4, drop_last=True)
loader = DataLoader(data, sampler=order, batch_size=None)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1000):
    for x, y in loader:
        (model(x) - y).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
