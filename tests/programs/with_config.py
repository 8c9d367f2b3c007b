"""A program that reads a file of settings, by a name that stands on its command line; words like `lr=0.1` override."""

import json
import sys
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def settings(words):
    with open(words[0]) as file:
        read = json.load(file)
    for word in words[1:]:
        name, value = word.split("=")
        read["train"][name] = json.loads(value)
    return SimpleNamespace(**read["train"]), read["model"]


def main():
    train, model = settings(sys.argv[1:])
    net = nn.Sequential(nn.Linear(8, model["layers"][0]["width"]), nn.ReLU(), nn.LazyLinear(3))
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    net(torch.randn(2, 8))
    optimizer = torch.optim.SGD(net.parameters(), lr=train.lr)
    for _ in range(50):
        for x, y in DataLoader(data, batch_size=train.samples_at_once):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()


main()
