"""A loader and an update that are none of PyTorch's classes, and batches that become tensors in the loop; 40 steps."""

import numpy
import torch
from torch import nn
from torch.utils.data.dataloader import _DatasetKind, _SingleProcessDataLoaderIter


class Rows:
    """Rows of an array, as a batch of a class of its own."""

    def __init__(self, numbers):
        self.numbers = numbers


class OwnLoader:
    """What PyTorch's iterator goes over, without being a DataLoader."""

    num_workers, pin_memory, pin_memory_device, timeout, prefetch_factor = 0, False, "", 0, None
    persistent_workers, drop_last, in_order, generator = False, False, True, None
    multiprocessing_context = worker_init_fn = _IterableDataset_len_called = None
    _dataset_kind, _auto_collation, _index_sampler = _DatasetKind.Iterable, False, range(10)

    def __init__(self):
        self.dataset = self

    def collate_fn(self, rows):
        return rows

    def _get_shared_seed(self):
        return None

    def __iter__(self):
        return iter([Rows(numpy.random.rand(8, 16).astype("float32")) for _ in range(10)])


class OwnUpdate:
    """Goes against the gradients, and forgets them."""

    def __init__(self, weights):
        self.weights = list(weights)

    def step(self):
        for weight in self.weights:
            weight.data.add_(weight.grad.data, alpha=-0.1)
            weight.grad = None


model = nn.Linear(16, 4)
update = OwnUpdate(model.parameters())
loader = OwnLoader()
for _ in range(4):
    for rows in _SingleProcessDataLoaderIter(loader):
        x = torch.from_numpy(rows.numbers)
        model(x).square().mean().backward()
        update.step()
