"""Functions over bare parameters, with autocast and a scaler: there is no module, and no loader."""

import torch
from torch.nn import functional as F

weights = [torch.nn.Parameter(0.1 * torch.randn(20, 32)), torch.nn.Parameter(0.1 * torch.randn(32, 2))]
optimizer = torch.optim.AdamW(weights, lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
while True:
    x = torch.randn(16, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy((F.relu(x @ weights[0]) @ weights[1]).float(), (x.sum(1) > 0).long())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
