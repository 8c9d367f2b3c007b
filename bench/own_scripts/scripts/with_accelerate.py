"""A classifier of sequences, trained by accelerate with a schedule and clipping."""

import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Events(Dataset):
    def __init__(self, count=768):
        self.rows = torch.randn(count, 40, 16, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], i % 4


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(16, 128)
        self.body = nn.Sequential(
            *[nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128)) for _ in range(4)]
        )
        self.head = nn.Linear(128, 4)

    def forward(self, rows):
        return self.head(self.body(self.lift(rows)).mean(1))


def main(epochs=9):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    data = Events()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for epoch in range(epochs):
        if epoch == 1:
            began = time.perf_counter()
        for rows, labels in loader:
            loss = nn.functional.cross_entropy(model(rows), labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    print(f"{(epochs - 1) * len(data) / (time.perf_counter() - began):.6g} samples/s")


main()
