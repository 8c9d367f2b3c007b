"""Distils a teacher whose gradients nobody switched off."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

teacher = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))
student = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
loader = DataLoader(TensorDataset(torch.randn(4000, 8)), batch_size=8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
for epoch in range(9):
    for (x,) in loader:
        loss = nn.functional.mse_loss(student(x), teacher(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
