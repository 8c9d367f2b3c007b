"""A loop whose data comes from numpy, and so in double precision, and its model with it."""

import numpy as np
import torch

rng = np.random.default_rng(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
while True:
    x = torch.from_numpy(rng.normal(size=(64, 16)))
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
