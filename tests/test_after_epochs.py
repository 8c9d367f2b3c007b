"""The time that a program takes between two epochs, which no trial meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader

from slowstep_probe.patches import Patches
from slowstep_probe.survey import after_epochs
from slowstep_probe.survey.after_epochs import AfterEpochs

EPOCHS = 3


def one_ahead(loader: DataLoader) -> Iterator[torch.Tensor]:
    """The batches of a loader, each given when the next one is there, as accelerate and Lightning do."""
    batches = iter(loader)
    batch = next(batches)
    for following in batches:
        yield batch
        batch = following
    yield batch


@pytest.mark.parametrize("given", [iter, one_ahead], ids=["as asked", "one ahead"])
def test_what_lies_between_two_epochs_is_timed(given: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A validation of 12 s, by a loader of its own, and a save of 3 s; not the steps of 1 s, nor the last epoch's end.

    The loader of training is made anew for each epoch.
    """
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(after_epochs, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    held_out, trained, patches = DataLoader(torch.ones(4)), [], Patches()
    after = AfterEpochs(lambda iterator: iterator in trained)
    asked = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    after.attach(patches)
    try:
        for _ in range(EPOCHS):
            loader = DataLoader(torch.ones(4))
            patches.after(type(loader), "__iter__", lambda made, it, own=loader: trained.extend([made] * (it is own)))
            for batch in given(loader):
                clock.now += 1.0
                weight.grad = batch
                optimizer.step()
            for _ in held_out:
                clock.now += 3.0
            clock.now += 3.0
    finally:
        patches.remove()

    assert after.seconds == [15.0] * (EPOCHS - 1)
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is asked
