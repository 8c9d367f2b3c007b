"""A loop that computes under autocast, whatever the processor makes of it."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
while True:
    x = torch.randn(32, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
