"""Training in which an epoch of a loader is a part of something larger, which says so each time it comes round."""

import itertools
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))


def made(seed: int) -> DataLoader:
    """Four batches of eight samples."""
    chance = torch.Generator().manual_seed(seed)
    samples = (torch.randn(32, 16, generator=chance), torch.randn(32, 1, generator=chance))
    return DataLoader(TensorDataset(*samples), batch_size=8)


def gradients(loader: DataLoader) -> torch.Tensor:
    """Those of a whole epoch, added up."""
    for p in model.parameters():
        p.grad = None
    whole = torch.zeros(())
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        whole += loss.detach()
    return whole


def epoch(loader: DataLoader, optimizer: torch.optim.Optimizer) -> None:
    """Four ordinary steps."""
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def whole_gradient() -> None:
    """Updates once an epoch."""
    loader, optimizer = made(0), torch.optim.SGD(model.parameters(), 0.01)
    for _ in itertools.count():
        gradients(loader)
        optimizer.step()
        print("round", flush=True)


def closure() -> None:
    """Goes over the whole data whenever the optimizer asks for it."""
    loader, optimizer = made(0), torch.optim.LBFGS(model.parameters(), 0.01, max_iter=2)
    for _ in itertools.count():
        optimizer.step(lambda: gradients(loader))
        print("round", flush=True)


def rollouts() -> None:
    """Collects new samples for each epoch, as reinforcement learning does."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for number in itertools.count():
        epoch(made(number), optimizer)
        print("round", flush=True)


def clients() -> None:
    """Trains on the data of several clients by turns, as federated learning does."""
    loaders, optimizer = [made(number) for number in range(3)], torch.optim.SGD(model.parameters(), 0.01)
    for _ in itertools.count():
        for loader in loaders:
            epoch(loader, optimizer)
        print("round", flush=True)


{one.__name__: one for one in (whole_gradient, closure, rollouts, clients)}[sys.argv[1]]()
