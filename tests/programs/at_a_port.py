"""Training in one process that makes a group of its own, at a port that it names; and a helper it starts by the way."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29533", rank=0, world_size=1)
told = os.environ | {"LOCAL_RANK": os.environ.get("LOCAL_RANK", "0"), "WORLD_SIZE": "1"}
print(subprocess.run([sys.executable, "-c", "print('a helper')"], env=told, capture_output=True, text=True).stdout)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100_000):
    loss = model(torch.randn(16, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
