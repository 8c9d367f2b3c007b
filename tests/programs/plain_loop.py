"""A loop written by hand: token sequences as dictionaries, padding, accumulation, a validation now and then."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        length = 8 + i % 9
        ids = torch.arange(16) % 50 * (torch.arange(16) < length)
        return {"input_ids": ids, "attention_mask": (torch.arange(16) < length).long(), "labels": ids}


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(50, width), nn.Linear(width, width), nn.Linear(width, 50)

    def forward(self, input_ids, attention_mask=None, labels=None):
        logits = self.head(torch.relu(self.body(self.embed(input_ids))))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("-b", "--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--log", default="")
    given = parser.parse_args()
    model = Model(32)
    loader = DataLoader(Texts(400), batch_size=given.batch_size, shuffle=True)
    held_out = DataLoader(Texts(8), batch_size=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr)
    for _ in range(given.epochs):
        for i, batch in enumerate(loader, 1):
            (model(**batch) / given.accumulate).backward()
            if i % given.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        with torch.no_grad():
            losses = [float(model(**batch)) for batch in held_out]
        if given.log:
            with open(given.log, "a") as log:
                log.write(f"{sum(losses)}\n")


if __name__ == "__main__":
    main()
