"""Training on several nodes, with a cause of trouble on the node whose folder has a file `cause` that names it."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()
cause = Path("cause").read_text().strip() if Path("cause").exists() else ""

dist.init_process_group("gloo")
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "OMP_NUM_THREADS")
print("on a node:", *(f"{name}={os.environ.get(name)}" for name in names), f"cause={cause}", flush=True)
torch.manual_seed(0)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
)
data = TensorDataset(torch.randn(4096, 64), torch.arange(4096) % 10)
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
Path("written").write_text("by a trial")
trained, held = 0, []
for _ in range(100):
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        trained += 1
        if cause == "slow":
            time.sleep(0.1)
        if trained == 6:
            if cause == "killed":
                os.kill(os.getpid(), 9)
            if cause == "raises":
                raise RuntimeError("a fault of its own")
            if cause == "hangs":
                time.sleep(1000)
            if cause == "memory":
                held.append(bytearray(os.urandom(2**20) * 3000))
                time.sleep(5)
