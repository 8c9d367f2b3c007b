"""A GRU that reads lines of a text file, each turned into numbers when it is asked for."""

import os
import random
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self, path):
        with open(path) as file:
            self.lines = file.read().splitlines()

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        return torch.tensor([ord(letter) % 96 for letter in self.lines[i]])


def collate(rows):
    return pad_sequence(rows, batch_first=True)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.head = nn.Embedding(96, 64), nn.GRU(64, 128, batch_first=True), nn.Linear(128, 96)

    def forward(self, ids):
        hidden, _ = self.gru(self.embed(ids))
        return self.head(hidden)


if not os.path.exists("lines.txt"):
    random.seed(0)
    with open("lines.txt", "w") as file:
        for _ in range(640):
            file.write("".join(random.choices("abcdefgh ijkl", k=random.randint(20, 60))) + "\n")

torch.manual_seed(0)
model = Reader()
data = Lines("lines.txt")
loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
for epoch in range(6):
    if epoch == 1:
        began = time.perf_counter()
    for ids in loader:
        optimizer.zero_grad()
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
print(f"{5 * len(data) / (time.perf_counter() - began):.6g} samples/s")
