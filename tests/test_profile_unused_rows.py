"""Rows that a loss ignores, and rows of tables that no step looks up, as a profile shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from slowstep_probe.probe.clock import HostClock
from slowstep_probe.profiled import ProfileRecord, Unused
from slowstep_probe.trial.profiling import Profiling
from test_profile_moves import phase_by_nodes

pytestmark = pytest.mark.usefixtures("nothing_compiled")

WORDS, LENGTH, ROWS, WIDTH = 600, 32, 4, 24

Way = Callable[["Reader", torch.Tensor, torch.Tensor], torch.Tensor]


class Reader(nn.Module):
    """A model of words, whose loss is made in some way."""

    def __init__(self, way: Way, padded: int = 0) -> None:
        super().__init__()
        self.way, self.padded = way, padded
        self.words = nn.Embedding(WORDS, WIDTH)
        self.mixed = nn.Linear(LENGTH, LENGTH)
        self.inner, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """Each position knows of all others that are no padding."""
        real = self.words(ids)[:, : LENGTH - self.padded]
        x = F.pad(real, (0, 0, 0, self.padded))
        x = self.inner(x)
        return x + self.mixed(x.transpose(1, 2)).transpose(1, 2) if not self.padded else x

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(ids))

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.way(self, ids, labels)


def ignored(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Labels of -100 count for nothing."""
    return F.cross_entropy(model.logits(ids).flatten(0, 1), labels.flatten())


def masked(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A mask takes what the loss is of some positions away."""
    counts = labels >= 0
    losses = F.cross_entropy(model.logits(ids).flatten(0, 1), labels.clamp(min=0).flatten(), reduction="none")
    return (losses * counts.flatten()).sum() / counts.sum()


def picked(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The rows that count are picked after the product."""
    counts = labels >= 0
    return F.cross_entropy(model.logits(ids)[counts], labels[counts])


def last(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The last position answers for all."""
    return F.cross_entropy(model.logits(ids)[:, -1], ids[:, 0])


def dropped(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Random numbers lie between the model and its loss, and choose no rows."""
    logits = F.dropout(model.logits(ids), 0.3)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def picked_before(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The rows that count are picked before the product, as they should be."""
    counts = labels >= 0
    return F.cross_entropy(model.head(model.hidden(ids)[counts]), labels[counts])


def read_first(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A classifier reads the first position, and the last layer computes all of them."""
    return F.cross_entropy(model.head(F.linear(model.hidden(ids), model.inner.weight)[:, 0]), ids[:, 0])


def shifted(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """All positions but the last have a label."""
    return F.cross_entropy(model.logits(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def hinge(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """What is good enough counts for nothing, and that is known once it is computed."""
    scores = model.logits(ids)
    losses = scores.mean(-1) - scores.mean() + 0.01
    return F.relu(losses).sum()


def hardest(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The positions with the largest losses are chosen once these are computed."""
    losses = F.cross_entropy(model.logits(ids).flatten(0, 1), ids.flatten(), reduction="none")
    return losses.topk(8).values.sum()


def surest(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A mask that was computed from what the model says."""
    logits = model.logits(ids).flatten(0, 1)
    losses = F.cross_entropy(logits, ids.flatten(), reduction="none")
    return (losses * (losses.detach() > losses.detach().median()).float()).sum()


def matched(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The position of each sequence that fits best is chosen outside of PyTorch, as scipy matches boxes."""
    logits = model.logits(ids)
    best = torch.from_numpy(logits.detach().numpy().max(-1).argmax(-1))
    return logits[torch.arange(ROWS), best].square().mean()


def read_one_by_one(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Each loss is looked at in Python."""
    losses = F.cross_entropy(model.logits(ids).flatten(0, 1), ids.flatten(), reduction="none")
    return losses[[at for at in range(len(losses)) if losses[at].item() > losses.mean().item()]].mean()


def looked_at(model: Reader, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A pass without gradients has none in any row."""
    with torch.no_grad():
        model.logits(ids)
    return model.hidden(ids).square().mean()


def profile(model: nn.Module, *given: torch.Tensor, optimizer: torch.optim.Optimizer | None = None) -> ProfileRecord:
    """The profile of three steps of a model that gives its loss."""
    updating = []
    profiling = Profiling(HostClock(), 3, phase=lambda: "optimizer" if updating else phase_by_nodes())
    profiling.step_ends()
    profiling.step_ends()
    while not profiling.ended:
        model(*given).backward()
        updating.append(True)
        if optimizer:
            optimizer.step()
        updating.clear()
        model.zero_grad()
        profiling.step_ends()
    return profiling.profiled.record(Path("trace.json.gz"))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, WORDS, (ROWS, LENGTH))
    return ids, torch.where(torch.arange(LENGTH) % 4 == 0, ids, -100)


def at(lines: list[Unused], function: str) -> list[Unused]:
    return [line for line in lines if line.where.endswith(f" in {function}")]


@pytest.mark.parametrize(("way", "unused"), [(ignored, 0.75), (masked, 0.75), (picked, 0.75), (last, 31 / 32)])
def test_rows_that_a_loss_ignores_are_told_with_the_line_that_computes_them(way: Way, unused: float) -> None:
    """Labels, a mask or an index leave the gradients of all other rows zero."""
    record = profile(Reader(way), *batch())
    (line,) = at(record.ignored, "logits")

    assert line.share == pytest.approx(unused)
    assert line.seconds["forward"] > 0
    assert line.seconds["backward"] > 0
    assert not at(record.ignored, "hidden")


def test_random_numbers_choose_no_rows() -> None:
    """Dropout leaves numbers out, and no row."""
    (line,) = at(profile(Reader(dropped), *batch()).ignored, "logits")

    assert line.share == pytest.approx(0.75)


@pytest.mark.parametrize("way", [picked_before, read_first, shifted, looked_at])
def test_rows_that_a_loss_uses_are_no_loss(way: Way) -> None:
    """What the head computes is used, but for the last position, or is never gone back through."""
    assert not profile(Reader(way), *batch()).ignored


@pytest.mark.parametrize("way", [hinge, hardest, surest, matched, read_one_by_one])
def test_rows_that_are_chosen_by_what_was_computed_are_no_loss(way: Way) -> None:
    """They are known too late to be left out."""
    assert not profile(Reader(way), *batch()).ignored


def test_padding_is_told_elsewhere() -> None:
    """Rows whose gradients are zero down to the embedding are left out by other settings."""
    ids, _ = batch()
    labels = torch.where(torch.arange(LENGTH) < LENGTH // 2, ids, -100)

    assert not profile(Reader(ignored, padded=LENGTH // 2), ids, labels).ignored


def test_a_weight_as_large_as_the_rows_is_not_taken_for_their_gradient() -> None:
    """Where a layer has as many inputs as there are rows, its weight has the shape of its result."""
    square = nn.Sequential(nn.Linear(24, 24, bias=False), nn.Linear(24, 8))
    counts = torch.arange(24) < 12
    rows = torch.rand(24, 24)

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = square

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x)[counts].square().mean()

    (line,) = profile(Half(), rows).ignored

    assert line.share == pytest.approx(0.5)


class Looking(nn.Module):
    """A table and a layer above it."""

    def __init__(self, table: nn.Module, tied: bool = False) -> None:
        super().__init__()
        self.table, self.tied = table, tied
        self.layer = nn.Linear(16, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = self.layer(self.table(ids))
        return (found @ self.table.weight.T if self.tied else found).square().mean()


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("given", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_rows_of_a_table_that_no_step_looks_up_are_told(kind: type[nn.Module], given: dict[str, bool]) -> None:
    """Its gradient is dense, and the optimizer goes over all rows, however it goes about it."""
    model = Looking(kind(4000, 16))
    ids = torch.arange(40).view(8, 5)
    record = profile(model, ids, optimizer=torch.optim.Adam(model.parameters(), **given))
    (line,) = at(record.tables, "forward")

    assert line.share == pytest.approx(0.99)
    assert line.seconds["optimizer"] > 0
    assert line.seconds["backward"] > 0


@pytest.mark.parametrize(
    ("tied", "sparse", "ids"),
    [(True, False, torch.arange(40)), (False, True, torch.arange(40)), (False, False, torch.arange(4000))],
)
def test_a_table_whose_gradient_is_full_or_sparse_is_no_loss(tied: bool, sparse: bool, ids: torch.Tensor) -> None:
    """A table that is the last layer as well, one with sparse gradients, and one that is looked up as a whole."""
    model = Looking(nn.Embedding(4000, 16, sparse=sparse), tied)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    lines = profile(model, ids.view(8, -1), optimizer=optimizer).tables

    assert not lines
