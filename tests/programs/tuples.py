"""Images and labels as tuples, a scheduler, evaluation before training."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(96, 3, 8, 8), torch.randint(0, 10, (96,)))
train, test = DataLoader(data, batch_size=16, shuffle=True, drop_last=True), DataLoader(data, batch_size=32)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
criterion = nn.CrossEntropyLoss()


def evaluate():
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in test)
    model.train()
    return right


evaluate()
for epoch in range(1000):
    for x, y in train:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    schedule.step()
    evaluate()
