"""An optimizer of its own, which goes over its parameters in Python."""

import torch
from torch import nn


class Signs(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                weight -= group["lr"] * weight.grad.sign() * min(1.0, weight.grad.norm().item())


model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(20)), nn.Linear(16, 4))
optimizer = Signs(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
while True:
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
