"""A policy that acts for a while, and is then trained for many steps on what came of it, which a critic has judged."""

import torch
from torch import nn


class Judges(nn.Module):
    """It has no weights of its own; those of the critic stand still meanwhile."""

    def forward(self, states):
        critic.requires_grad_(False)
        values = critic(states)
        critic.requires_grad_(True)
        return states.sum(1, keepdim=True) - values


ACTS, UPDATES = 64, 30
policy = nn.Linear(4, 1)
critic = nn.Linear(4, 1)
judges = Judges()
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()])
while True:
    with torch.no_grad():
        states = torch.cat([state + policy(state) for state in torch.randn(ACTS, 1, 4)])
    for update in range(UPDATES):
        if update % 10 == 0:
            advantages = judges(states)
        chosen = torch.randint(ACTS, (16,))
        loss = (policy(states[chosen]) - advantages[chosen]).square().mean()
        loss = loss + (critic(states[chosen]) - states[chosen].sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
