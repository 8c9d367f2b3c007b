"""A loader whose batches are drawn by a sampler of the program's own: rows of like length together."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

rows = [torch.randn(length, 6) for length in range(1, 129)]


class ByLength(BatchSampler):
    def __iter__(self):
        for first in torch.randperm(len(rows) // self.batch_size).tolist():
            yield range(first * self.batch_size, (first + 1) * self.batch_size)


order = ByLength(SequentialSampler(rows), 4, drop_last=True)
loader = DataLoader(rows, batch_sampler=order, collate_fn=lambda batch: pad_sequence(batch, batch_first=True))
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1000):
    for x in loader:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
