"""Trains on 8 samples a step, beside a process that is forked and evaluates, or in one. Usage: beside_a_child.py KIND."""

import multiprocessing
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

kind = sys.argv[1]
model = torch.nn.Linear(16, 4)
data = TensorDataset(torch.randn(2048, 16))


def evaluate(asked):
    """Looks at all batches whenever it is asked to."""
    while asked.get() is not None:
        with torch.no_grad():
            for (x,) in DataLoader(data, 32):
                model(x)


def train(asked=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(1000):
        for step, (x,) in enumerate(DataLoader(data, 8)):
            if asked is not None and step % 50 == 0:
                asked.put(epoch)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    if kind == "evaluated":
        asked = fork.Queue()
        fork.Process(target=evaluate, args=(asked,), daemon=True).start()
        asked.put(-1)
        train(asked)
    else:
        print(next(iter(DataLoader(data, 8)))[0].shape)
        child = fork.Process(target=train)
        child.start()
        child.join()
