"""The samples of steps that take no new batch from a loader, or one that shows no samples by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from recording import record

BATCH, BATCHES, STEPS = 4, 10, 20


def loader() -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(BATCH * BATCHES, 3)), batch_size=BATCH)


class Training:
    """A model of one layer that counts what it is trained on."""

    def __init__(self) -> None:
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def update(self, *parts: torch.Tensor) -> None:
        for part in parts:
            self.model(part).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def again_and_again(self) -> None:
        """Each batch serves a hundred updates."""
        while True:
            for (inputs,) in loader():
                for _ in range(100):
                    self.update(inputs)

    def kept_in_memory(self) -> None:
        """The batches are made once, and two of them are accumulated."""
        kept = [inputs for (inputs,) in loader()]
        while True:
            for one, other in zip(kept[::2], kept[1::2], strict=True):
                self.update(one, other)


@pytest.mark.parametrize(("train", "of_update"), [("again_and_again", BATCH), ("kept_in_memory", 2 * BATCH)])
def test_updates_on_batches_that_were_taken_before_count_their_samples(train: str, of_update: int) -> None:
    """After some updates without a new batch each of them is a step, and so samples are no mixture of two units."""
    seen: list[int] = []
    training = Training()
    training.optimizer.register_step_post_hook(lambda *_: seen.append(of_update))
    block = record(getattr(training, train), STEPS).block

    after_the_first = of_update * (STEPS - 1)
    assert after_the_first < block.work.samples <= sum(seen)
    assert 0 == (block.work.samples - after_the_first) % of_update


class Sentences(IterableDataset):
    """Lists of sentences, which a program turns into tensors itself."""

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            yield ["so it goes"] * 3 * BATCH


def in_one_piece(sentences: list[str]) -> list[list[str]]:
    return [sentences]


def in_pieces(sentences: list[str]) -> list[list[str]]:
    return [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]


@pytest.mark.parametrize("split", [in_one_piece, in_pieces])
def test_all_parts_of_a_batch_without_tensors_are_counted(split: Callable) -> None:
    """A program may split such a batch into micro-batches: its samples are those of all of them."""
    training = Training()

    def train() -> None:
        for sentences in DataLoader(Sentences(), batch_size=None):
            training.update(*(torch.randn(len(part), 3) for part in split(sentences)))

    assert 5 * 3 * BATCH == record(train, 5).block.work.samples
