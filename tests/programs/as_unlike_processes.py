"""Training in two processes with functions of their own, beside one with the same function that trains nothing.

What the program does when all are started lets them begin, and it doesn't wait for them: an interpreter does.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(go, batches, rank, size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12357"
    go.wait()
    dist.init_process_group("gloo", rank=rank, world_size=size)
    model = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = [batches.get() for _ in range(4)]
    for step in range(100_000):
        loss = torch.nn.functional.cross_entropy(model(kept[step % 4]), torch.randint(0, 10, (16,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def learn(go, batches, rank, size):
    if rank is None:
        return
    train(go, batches, rank, size)


def act(go, batches, rank, size):
    train(go, batches, rank, size)


if __name__ == "__main__":
    size = int(sys.argv[1])
    context = mp.get_context("fork")
    go, batches = context.Event(), context.Queue()
    for function, rank in ((learn, None), (learn, 0), (act, 1)):
        context.Process(target=function, args=(go, batches, rank, size)).start()
    for _ in range(8):
        batches.put(torch.randn(16, 64))
    go.set()
