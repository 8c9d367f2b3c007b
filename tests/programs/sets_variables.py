"""Sets variables before its imports, as many scripts begin, and others that it needs later."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HOME", "models")
os.environ["MASTER_PORT"] = "29876"

import huggingface_hub.constants
import torch
from torch import nn

os.environ["TOKENIZERS_PARALLELISM"] = "false"

print("threads", torch.get_num_threads(), "home", huggingface_hub.constants.HF_HOME, flush=True)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(100_000):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
