"""A generator and a discriminator, each with an optimizer of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

real = TensorDataset(torch.randn(128, 8))
generator, discriminator = nn.Linear(4, 8), nn.Linear(8, 1)
of_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
loss = nn.BCEWithLogitsLoss()
while True:
    for (x,) in DataLoader(real, batch_size=16, shuffle=True):
        fake = generator(torch.randn(len(x), 4))
        of_d.zero_grad()
        (
            loss(discriminator(x), torch.ones(len(x), 1)) + loss(discriminator(fake.detach()), torch.zeros(len(x), 1))
        ).backward()
        of_d.step()
        of_g.zero_grad()
        loss(discriminator(fake), torch.ones(len(x), 1)).backward()
        of_g.step()
