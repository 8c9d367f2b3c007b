"""A loop that splits texts, with what was once needed to find a leak and a slow function still switched on."""

import cProfile
import tracemalloc

import torch

tracemalloc.start(5)
profiler = cProfile.Profile()
words = {f"word{i}": i for i in range(500)}
text = " ".join(words)
model = torch.nn.Sequential(torch.nn.EmbeddingBag(500, 16), torch.nn.Linear(16, 500))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    profiler.enable()
    rows = torch.tensor([[words[word] for word in text.split()] for _ in range(8)])
    loss = torch.nn.functional.cross_entropy(model(rows), rows[:, 0])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    profiler.disable()
