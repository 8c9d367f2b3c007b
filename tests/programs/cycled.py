"""Trains on the batches of one epoch again and again, which itertools keeps. It prints how often a sample was asked for."""

import itertools

import torch
from torch.utils.data import DataLoader, Dataset


class Asked(Dataset):
    times = 0

    def __len__(self):
        return 40

    def __getitem__(self, number):
        Asked.times += 1
        return torch.randn(16)


def main():
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = itertools.cycle(DataLoader(Asked(), 8))
    for step in range(10_000):
        x = next(batches)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"asked {Asked.times} times", flush=True)


main()
