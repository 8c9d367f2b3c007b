"""A GPT on characters in a memory-mapped file, batches drawn by index, in the manner of nanoGPT."""

import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

block_size, batch_size, width, depth, max_iters = 64, 12, 96, 3, 440


def get_batch():
    data = np.memmap("characters.bin", dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x, y


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention()
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.one(x))
        return x + self.mlp(self.two(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(128, width), nn.Embedding(block_size, width)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(width, 128)

    def forward(self, idx, targets):
        x = self.embed(idx) + self.place(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


if not os.path.exists("characters.bin"):
    np.random.default_rng(0).integers(0, 128, 200_000).astype(np.uint16).tofile("characters.bin")
torch.manual_seed(0)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
iter_num = 0
while True:
    if iter_num == 40:
        began = time.perf_counter()
    x, y = get_batch()
    logits, loss = model(x, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > max_iters:
        break
print(f"{(max_iters - 40) * batch_size / (time.perf_counter() - began):.6g} samples/s")
