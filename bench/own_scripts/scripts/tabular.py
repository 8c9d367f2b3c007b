"""A wide network on rows of a table, with embeddings of categories of which a step looks up about a quarter."""

import time

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CATEGORIES, COLUMNS = 4_000, 8


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.categories = nn.EmbeddingBag(CATEGORIES, 256, mode="mean")
        self.net = nn.Sequential(nn.Linear(256 + 24, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, categories, numbers):
        return self.net(torch.cat([self.categories(categories), numbers], 1)).squeeze(1)


def main():
    torch.manual_seed(0)
    rows = 12_800
    data = TensorDataset(torch.randint(0, CATEGORIES, (rows, COLUMNS)), torch.randn(rows, 24), torch.randn(rows))
    order = BatchSampler(RandomSampler(data), 128, drop_last=False)
    loader = DataLoader(data, sampler=order, batch_size=None)
    model = Table()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(11):
        if epoch == 1:
            began = time.perf_counter()
        for categories, numbers, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(categories, numbers), target)
            loss.backward()
            optimizer.step()
    print(f"{10 * rows / (time.perf_counter() - began):.6g} samples/s")


main()
