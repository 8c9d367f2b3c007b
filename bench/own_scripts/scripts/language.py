"""A small transformer on token sequences of many lengths, two batches an update."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS, LONGEST, ACCUMULATE = 500, 64, 2


class Texts(Dataset):
    def __init__(self, count):
        draw = torch.Generator().manual_seed(0)
        lengths = torch.randint(16, LONGEST, (count,), generator=draw)
        self.texts = [torch.randint(1, WORDS, (int(n),), generator=draw) for n in lengths]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {"input_ids": self.texts[i]}


def collate(examples):
    longest = max(len(e["input_ids"]) for e in examples)
    ids = torch.zeros(len(examples), longest, dtype=torch.long)
    for row, example in zip(ids, examples, strict=True):
        row[: len(example["input_ids"])] = example["input_ids"]
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)

    def forward(self, hidden, mask):
        return self.layer(hidden, src_key_padding_mask=mask)


class Model(nn.Module):
    def __init__(self, width=96, depth=3):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, WORDS)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids)
        for block in self.blocks:
            hidden = block(hidden, attention_mask == 0)
        return self.head(hidden)


def train(epochs=6):
    torch.manual_seed(0)
    model, data = Model(), Texts(640)
    loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(epochs):
        if epoch == 1:
            began = time.perf_counter()
        for i, batch in enumerate(loader, 1):
            logits = model(**batch)
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten())
            (loss / ACCUMULATE).backward()
            if i % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
    print(f"{(epochs - 1) * len(data) / (time.perf_counter() - began):.6g} samples/s")


train()
