"""accelerate: prepared model, loader and optimizer; accumulation by its context."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
model, loader = nn.Linear(8, 3), DataLoader(data, batch_size=8, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters())
model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
for _ in range(10_000):
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
