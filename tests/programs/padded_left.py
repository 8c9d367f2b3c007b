"""Trains a causal model on texts that are padded on the left to one length; its batches are tuples."""

import torch
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH = 96


def collate(rows):
    ids, mask = torch.zeros(2, len(rows), LENGTH, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, -len(row) :], mask[i, -len(row) :] = torch.tensor(row), 1
    return ids, mask, ids.masked_fill(mask == 0, -100)


texts = [[1 + (i + j) % 90 for j in range(5 + i % 12)] for i in range(4000)]
loader = DataLoader(texts, batch_size=8, shuffle=True, collate_fn=collate)
model = GPT2LMHeadModel(GPT2Config(vocab_size=99, n_positions=128, n_embd=32, n_layer=2, n_head=2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for epoch in range(9):
    for ids, mask, labels in loader:
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
