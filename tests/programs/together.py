"""Training in several processes by DistributedDataParallel, with one cause of slowness if it is asked for."""

import argparse
import gc
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--cause", default="", type=lambda name: name.replace("_", " "))
parser.add_argument("--seconds", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--dies-after", type=int, default=0)
parser.add_argument("--by-hand", action="store_true", help="make batches without a loader")
args = parser.parse_args()

dist.init_process_group("gloo")
rank = dist.get_rank()


class Examples(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if args.cause == "slow data" and rank == 1:
            time.sleep(args.seconds / 16)
        if args.cause == "slow part" and index % 2:
            time.sleep(args.seconds / 16)
        generator = torch.Generator().manual_seed(index)
        return torch.randn(64, generator=generator), index % 10


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
if args.cause == "slow forward" and rank == 1:
    model[0].register_forward_pre_hook(lambda *_: time.sleep(args.seconds))
if args.cause == "hangs within the pass" and rank == 1:
    model[2].weight.register_hook(lambda gradient: time.sleep(1000) if trained == args.dies_after else None)
model = DistributedDataParallel(model, find_unused_parameters=args.cause == "search")


def slow_exchange(state, bucket):
    time.sleep(args.seconds)
    return allreduce_hook(None, bucket)


if args.cause == "slow exchange":
    model.register_comm_hook(None, slow_exchange)


def validate():
    """Goes over other data in the first rank, while the others wait."""
    if rank == 0:
        model.eval()
        for inputs, _ in DataLoader(
            range(256), batch_size=64, collate_fn=lambda some: (torch.randn(len(some), 64), some)
        ):
            with torch.no_grad():
                model.module(inputs)
        model.train()
    dist.barrier()


data = Examples()
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data, shuffle=args.cause != "slow part"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
trained = 0
for _ in range(args.epochs):
    batches = ((torch.randn(16, 64), torch.randint(10, (16,))) for _ in range(128)) if args.by_hand else loader
    for number, (inputs, labels) in enumerate(batches):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        (loss / args.accumulate).backward()
        if (number + 1) % args.accumulate:
            continue
        optimizer.step()
        optimizer.zero_grad()
        trained += 1
        if args.cause == "validates apart" and trained % 3 == 0:
            validate()
        if trained == args.dies_after and rank == 1 and args.cause != "hangs within the pass":
            if args.cause == "killed":
                os.kill(os.getpid(), 9)
            if args.cause == "hangs":
                time.sleep(1000)
            raise RuntimeError("a fault of its own")
if rank == 0:
    print(f"{dist.get_world_size()} ranks trained {trained} steps")
# A thread of gloo may still hold the last exchange when Python ends, which aborts a process in torch 2.13 once in three
# runs. It is joined where nobody holds the process group any more.
del model
gc.collect()
dist.destroy_process_group()
