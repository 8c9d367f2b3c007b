"""A small convolutional network on images that lie on disk as arrays."""

import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, folder):
        self.files = sorted(os.path.join(folder, name) for name in os.listdir(folder))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        image = np.load(self.files[i])
        if i % 2:
            image = image[:, :, ::-1].copy()
        return torch.from_numpy(image), i % 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Linear(256, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def make(folder, count=256):
    os.makedirs(folder, exist_ok=True)
    random = np.random.default_rng(0)
    for i in range(count):
        np.save(os.path.join(folder, f"{i:04}.npy"), random.normal(size=(3, 32, 32)).astype(np.float32))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="images")
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=32)
    given = parser.parse_args()
    if not os.path.isdir(given.data):
        make(given.data)
    torch.manual_seed(0)
    loader = DataLoader(Images(given.data), batch_size=given.batch_size, shuffle=True)
    model = Net().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps = 0
    for epoch in range(given.epochs):
        if epoch == 1:
            began = time.perf_counter()
        for images, labels in loader:
            images = images.to(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
                loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            steps += epoch > 0
    print(f"{steps * given.batch_size / (time.perf_counter() - began):.6g} samples/s")


if __name__ == "__main__":
    main()
