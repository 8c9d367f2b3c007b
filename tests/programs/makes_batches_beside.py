"""Batches come from a thread and from a process of the program's own, each through a queue; both say what they do, and
so does a process whose parent has ended."""

import multiprocessing
import queue
import subprocess
import threading
import time

import torch
from torch import nn


def make(name, put):
    while True:
        time.sleep(0.002)
        print(name, flush=True)
        put(torch.randn(16, 32))


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    near, far = queue.Queue(), multiprocessing.Queue()
    multiprocessing.Process(target=make, args=("process", lambda x: far.put(x.tolist())), daemon=True).start()
    subprocess.run("while true; do echo orphan; sleep 0.01; done &", shell=True)
    threading.Thread(target=make, args=("thread", near.put), daemon=True).start()
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        loss = model(near.get() + torch.tensor(far.get())).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
