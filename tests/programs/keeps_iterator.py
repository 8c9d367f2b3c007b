"""Loaders of a class that keeps one iterator for all epochs, and gets it without asking `iter()` of DataLoader."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Repeated:
    """A sampler of batches that begins anew without end."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from self.sampler


class Kept(DataLoader):
    """A loader whose workers and iterator last."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
        self.kept = None

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        if self.kept is None:
            self.kept = self._get_iterator()
        for _ in range(len(self)):
            yield next(self.kept)


def main():
    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 2, (48,)))
    training, validation = Kept(data, batch_size=8, shuffle=True), Kept(data, batch_size=16)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(10_000):
        for x, y in training:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            sum(torch.nn.functional.cross_entropy(model(x), y) for x, y in validation)


main()
