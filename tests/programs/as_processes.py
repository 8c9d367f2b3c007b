"""Training in two processes that the program starts one by one, beside one that prints what they say."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def print_all(said):
    for text in iter(said.get, None):
        print(text)


def train(rank, size, said):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12356"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    model = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100_000):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            said.put(f"rank {rank}, step {step}")


class Training(mp.get_context("spawn").Process):
    def __init__(self, *arguments):
        super().__init__()
        self.arguments = arguments

    def run(self):
        train(*self.arguments)


if __name__ == "__main__":
    how = sys.argv[1]
    context = mp.get_context(how if how in mp.get_all_start_methods() else "spawn")
    said = context.Queue()
    printing = context.Process(target=print_all, args=(said,))
    printing.start()
    if how == "class":
        ranks = [Training(rank, 2, said) for rank in range(2)]
    else:  # the program may be a rank itself, beside those that it starts
        ranks = [context.Process(target=train, args=(rank, 2, said)) for rank in range(how == "beside", 2)]
    for one in ranks:
        one.start()
    if how == "beside":
        train(0, 2, said)
    for one in ranks:
        one.join()
    said.put(None)
    printing.join()
