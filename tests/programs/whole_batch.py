"""LBFGS over the whole of the data: no loader, and the model is called within the closure alone."""

import torch

x = torch.linspace(-1, 1, 256)[:, None]
y = torch.sin(6 * x)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=1, max_eval=1)


def closure():
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    return loss


while True:
    optimizer.step(closure)
