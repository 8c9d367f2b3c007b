"""A GPT on random characters, in plain PyTorch, on a GPU where there is one."""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

width, depth, heads, length, batch_size = 1024, 12, 16, 512, 16
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
device = "cuda" if torch.cuda.is_available() else "cpu"


class Characters(Dataset):
    def __init__(self):
        self.text = torch.randint(256, (1_000_000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    def __len__(self):
        return len(self.text) // length - 1

    def __getitem__(self, i):
        piece = self.text[i * length : (i + 1) * length + 1].long()
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in self.qkv(self.one(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.two(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(width, 256)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batches(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Characters(), batch_size=batch_size, shuffle=True, num_workers=2, pin_memory=True, drop_last=True
    )
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    began = 0.0
    for step, (ids, targets) in enumerate(batches(loader)):
        if step == steps // 4:
            if device == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
        if step == steps:
            break
        ids, targets = ids.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        with torch.autocast(device, torch.bfloat16):
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{(steps - steps // 4) * batch_size / (time.perf_counter() - began):.6g} samples/s")


if __name__ == "__main__":
    main()
