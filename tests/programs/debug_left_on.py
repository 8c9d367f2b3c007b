"""A small convolutional network in a loop, with everything switched on that somebody needed once to find a fault."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
)
data = TensorDataset(torch.randn(64, 3, 12, 12), torch.randint(0, 3, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(20):
    for images, labels in loader:
        with torch.autograd.detect_anomaly(check_nan=False):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
