"""A regression on records that take a while to read, one by one, in the training process."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, count, milliseconds):
        self.count, self.seconds = count, milliseconds / 1e3

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        time.sleep(self.seconds)  # a disk far away
        generator = torch.Generator().manual_seed(i)
        x = torch.randn(256, generator=generator)
        return x, x.sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--milliseconds", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
    loader = DataLoader(Records(2000, given.milliseconds), batch_size=given.batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(given.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), f"epoch_{epoch}.pt")


if __name__ == "__main__":
    main()
