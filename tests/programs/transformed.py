"""Gradients by torch.func; the parameters are a dictionary, and the update is the program's own."""

import torch
from torch import nn
from torch.func import functional_call, grad_and_value

model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
inputs, targets = torch.randn(512, 32), torch.randn(512, 1)


def loss(parameters, x, y):
    return (functional_call(model, parameters, (x,)) - y).square().mean()


for step in range(2000):
    rows = torch.randint(0, len(inputs), (16,))
    gradients, value = grad_and_value(loss)(parameters, inputs[rows], targets[rows])
    parameters = {name: p - 0.01 * gradients[name] for name, p in parameters.items()}
