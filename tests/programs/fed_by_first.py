"""Training in several processes of which only the first has a loader: the others get from it what they train on."""

import argparse

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="stream", choices=["stream", "broadcast", "pipeline"])
parser.add_argument("--steps", type=int, default=400)
args = parser.parse_args()
torch.manual_seed(0)


class Stream(IterableDataset):
    def __iter__(self):
        for number in range(16 * args.steps):
            yield torch.randn(64, generator=torch.Generator().manual_seed(number)), number % 10


class Examples(Dataset):
    def __len__(self):
        return 8 * args.steps

    def __getitem__(self, index):
        return torch.randn(64, generator=torch.Generator().manual_seed(index)), index % 10


def whole():
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def stream():
    """accelerate reads a stream in the first process, and hands on to each what it trains on."""
    accelerator = Accelerator()
    model = whole()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(Stream(), batch_size=8)
    )
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def received(batch):
    inputs, labels = batch if batch else (torch.empty(8, 64), torch.empty(8, dtype=torch.long))
    dist.broadcast(inputs, 0)
    dist.broadcast(labels, 0)
    return inputs, labels


def batches():
    if dist.get_rank() == 0:
        yield from DataLoader(Examples(), batch_size=8)
    else:
        yield from (None for _ in range(args.steps))


def broadcast():
    """All processes train on the same batches, as they do where each holds a part of each weight."""
    model = DistributedDataParallel(whole())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches():
        inputs, labels = received(batch)
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


def pipeline():
    """The first process computes the first layers, and the second one those after them, and the loss."""
    first = dist.get_rank() == 0
    stage = torch.nn.Linear(64, 256) if first else torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    for batch in batches():
        if first:
            inputs, labels = batch
            between = stage(inputs)
            dist.send(between.detach(), 1)
            dist.send(labels, 1)
            back = torch.empty_like(between)
            dist.recv(back, 1)
            torch.autograd.backward(tensors=[between], grad_tensors=[back])
        else:
            between, labels = torch.empty(8, 256), torch.empty(8, dtype=torch.long)
            dist.recv(between, 0)
            dist.recv(labels, 0)
            loss = torch.nn.functional.cross_entropy(stage(between.requires_grad_()), labels)
            torch.autograd.backward(tensors=loss)
            dist.send(between.grad, 0)
        optimizer.step()
        optimizer.zero_grad()


if args.how != "stream":
    dist.init_process_group("gloo")
{"stream": stream, "broadcast": broadcast, "pipeline": pipeline}[args.how]()
dist.destroy_process_group()
