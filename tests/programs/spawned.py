"""Training in processes that the program spawns itself, two or as many as it is told, which meet at a port it names."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(rank, size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    model = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100_000):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    processes = int(sys.argv[1]) if sys.argv[1:] else 2
    mp.spawn(train, args=(processes,), nprocs=processes)
