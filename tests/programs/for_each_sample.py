"""A gradient for each sample, clipped by itself, as private training has it: torch.func, and an optimizer."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def loss(parameters, x, y):
    return (functional_call(model, parameters, (x[None],)) - y).square().mean()


for step in range(2000):
    x, y = torch.randn(16, 32), torch.randn(16, 1)
    gradients = vmap(grad(loss), in_dims=(None, 0, 0))(dict(model.named_parameters()), x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    for name, p in model.named_parameters():
        p.grad = (gradients[name] / norms.clamp(min=1.0).view(-1, *[1] * p.dim())).mean(0)
    optimizer.step()
