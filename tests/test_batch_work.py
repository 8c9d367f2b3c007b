"""The work in a batch: what is counted of it, whatever its mask means."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from slowstep_probe.measured import Work
from slowstep_probe.probe.batch_work import UNKNOWN, count, count_inputs, total
from slowstep_probe.probe.drawn import Examples

IDS = torch.ones(2, 6, dtype=torch.int64)
KEPT = torch.tensor([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("mask", "useful"),
    [
        (None, 12),
        (KEPT, 9),
        (KEPT.bool(), 9),
        (KEPT.float(), 9),
        (KEPT * 3, 9),  # documents that are packed, by number
        (torch.zeros(2, 6), None),  # True would be padding
        ((1 - KEPT) * torch.finfo(torch.float32).min, None),  # added to scores
        (torch.full((2, 6), -torch.inf), None),
        (torch.ones(2, 1, 6, 6), None),
        ([[1] * 6] * 2, None),
    ],
)
def test_useful_tokens_are_those_that_a_mask_keeps(mask: object, useful: int | None) -> None:
    found = count({"input_ids": IDS, "attention_mask": mask})
    assert (found.samples, found.padded_tokens, found.useful_tokens) == (2, 12, useful)


@dataclass
class Parts:
    """A batch as a dataclass."""

    inputs: torch.Tensor
    targets: torch.Tensor


@dataclass
class Graphs:
    """A batch of graphs, as PyTorch Geometric has them: all nodes are in one tensor."""

    num_graphs: int
    x: torch.Tensor = torch.zeros(40, 2)


IMAGES = tuple(torch.zeros(3, 8 + i, 8) for i in range(16))
TARGETS = tuple({"boxes": torch.zeros(i % 4, 4), "labels": torch.zeros(i % 4)} for i in range(16))


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ((IMAGES, TARGETS), 16),  # as tuple(zip(*examples)) leaves them
        ({"images": IMAGES, "targets": list(TARGETS)}, 16),
        ([{"input_ids": torch.zeros(7)} for _ in range(4)], 4),
        ([torch.zeros(n) for n in (7, 5, 9)], 3),
        ((torch.zeros(40, 2), torch.zeros(90, 2)), 40),  # nodes and edges
        ((torch.zeros(32, 3, 8, 8), torch.zeros(32)), 32),
        (((torch.zeros(32, 5), torch.zeros(32, 9)), torch.zeros(32)), 32),
        (({"image": torch.zeros(32, 3)}, {"label": torch.zeros(32)}), 32),
        ({"pixel_values": torch.zeros(8, 3, 4, 4), "labels": torch.zeros(8)}, 8),
        ([torch.zeros(6, 2)], 6),
        ([torch.zeros(3, 8, 8) for _ in range(16)], 16),
        ((torch.zeros(16, 3, 8), torch.zeros(16, 3, 8)), 16),
        (Graphs(num_graphs=5), 5),
        (Parts(inputs=torch.zeros(9, 2), targets=torch.zeros(9)), 9),
    ],
)
def test_examples_that_nobody_stacked_are_counted_one_by_one(batch: object, samples: int) -> None:
    """A detector's images come as a tuple, each of 3 channels: the batch is as many as there are, and not 3."""
    assert count(batch).samples == samples


SOURCES, TARGETS_OF_THEM = torch.zeros(21, 16), torch.zeros(19, 16)


@pytest.mark.parametrize(
    ("batch", "drawn", "samples"),
    [
        ((SOURCES, TARGETS_OF_THEM), Examples(16, at_most=False), 16),
        ((torch.zeros(40, 2), torch.zeros(90, 2)), Examples(5, at_most=False), 5),
        ((torch.zeros(40, 2), torch.zeros(90, 2)), Examples(1, at_most=False), 1),
        ({"input_ids": torch.zeros(1, 90)}, Examples(8, at_most=False), 8),  # packed into one sequence
        (IMAGES, Examples(16, at_most=False), 16),
        (Graphs(num_graphs=5), Examples(6, at_most=False), 5),
        ((torch.zeros(7, 3), torch.zeros(7)), Examples(16, at_most=True), 7),  # the data ended
        (IMAGES, Examples(32, at_most=True), 16),
        ((SOURCES, TARGETS_OF_THEM), Examples(32, at_most=True), 32),
        ((torch.zeros(7, 16), torch.zeros(7, 16)), Examples(16, at_most=True), 16),
        ({"input_ids": torch.zeros(1, 90)}, Examples(8, at_most=True), 8),
    ],
)
def test_what_was_drawn_for_a_batch_are_its_examples(batch: object, drawn: Examples, samples: int) -> None:
    """Its shapes may say anything, and only the end of an iterable data set makes it smaller."""
    assert count(batch, drawn).samples == samples


def test_the_arguments_of_a_model_are_no_list_of_examples() -> None:
    assert count_inputs((SOURCES, TARGETS_OF_THEM, TARGETS_OF_THEM), {}).samples == 21
    assert count_inputs(([torch.zeros(n) for n in (7, 5, 9)],), {}).samples == 3


@pytest.mark.parametrize(
    ("inputs", "samples"),
    [
        (torch.zeros(7, 4, 5), 4),
        (nn.utils.rnn.pack_sequence([torch.zeros(n, 5) for n in (7, 4, 2)]), 3),
    ],
    ids=["padded", "packed"],
)
def test_sequences_may_come_length_first(inputs: object, samples: int) -> None:
    """A recurrent module that is the whole model is called with (length, batch, width) unless it says otherwise."""
    assert count_inputs((inputs,), {}, nn.LSTM(5, 3)).samples == samples
    assert count_inputs((torch.zeros(7, 4, 5),), {}, nn.LSTM(5, 3, batch_first=True)).samples == 7


def test_nothing_is_read_of_a_batch_on_a_device_while_it_is_trained_on() -> None:
    """To read it would make the program wait for all that it has launched. A meta tensor can't be read at all."""
    found = count({"input_ids": IDS.to("meta"), "attention_mask": KEPT.to("meta"), "labels": IDS.to("meta")})

    assert (found.samples, found.padded_tokens) == (2, 12)


@pytest.mark.parametrize(("counts", "useful"), [((9, 3), 12), ((9, UNKNOWN), None)])
def test_counts_on_a_device_are_read_when_a_block_has_ended(counts: tuple[int, int], useful: int | None) -> None:
    """One that is not known in a batch is not known in the block."""
    works = [Work(samples=2, useful_tokens=torch.tensor(one)) for one in counts]

    assert Work(samples=4, useful_tokens=useful) == total(works)
