"""What is known of objects of a program ends with them, and takes no other object for one that is gone."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from slowstep_probe.by_identity import HELD, ByIdentity, identity
from slowstep_probe.changing.padding import PaddedColumns
from slowstep_probe.patches import Patches
from slowstep_probe.probe.probe import Probe
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.survey.survey import Survey


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Leave no workers to the tests that follow."""
    yield
    gc.collect()


class Equal:
    """Objects that are all equal to each other, and that have no hash."""

    def __eq__(self, other: object) -> bool:
        return True


def test_what_is_known_of_an_object_is_known_of_no_other() -> None:
    """Whatever it is equal to, and also when another one lies at its address."""
    known = ByIdentity[int]()
    one, other = Equal(), Equal()
    known[one], number = 1, identity(one)

    assert (known.get(one), known.get(other), len(known)) == (1, None, 1)

    del one

    assert len(known) == 0
    for fresh in (Equal() for _ in range(100)):
        assert fresh not in known
        assert identity(fresh) != number


def test_few_objects_are_kept_that_have_no_weak_references() -> None:
    """A list of rollouts may be all that fits into memory."""
    known = ByIdentity[int]()
    for i in range(5):
        known[[torch.zeros(1)]] = i

    assert [*known.values()] == [*range(5)][-HELD:]


class Rollouts(Dataset):
    """What a policy did, which is made anew for each epoch."""

    def __init__(self) -> None:
        self.inputs = torch.randn(6, 3)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.inputs[i]


EPOCHS = 6


def loader_of_each_epoch(options: dict[str, Any]) -> Iterator[Any]:
    for _ in range(EPOCHS):
        yield DataLoader(Rollouts(), batch_size=2, **options)


def iterated_at_once(options: dict[str, Any]) -> Iterator[Any]:
    """Iterators of loaders that the program does not keep."""
    for _ in range(EPOCHS):
        yield iter(DataLoader(Rollouts(), batch_size=2, **options))


@pytest.mark.parametrize("epochs", [loader_of_each_epoch, iterated_at_once])
@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_loaders_of_earlier_epochs_are_gone_with_data_and_workers(
    epochs: Callable[[dict[str, Any]], Iterator[Any]], options: dict[str, Any]
) -> None:
    """Of those that a program makes anew for each epoch; what is trained on stays known, and where it was made.

    Beside those of the program itself, two are alive at most. None waits for Python's garbage collector.
    """
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made, alive = list[weakref.ref[Any]](), list[int]()
    patches, survey, probe, looks = Patches(), Survey(Launchers()), Probe(), PaddedColumns()
    patches.after(DataLoader, "__init__", lambda _, loader, *a, **k: made.append(weakref.ref(loader.dataset)))

    def train() -> None:
        for loader in epochs(options):
            for inputs in itertools.islice(loader, 2):
                model(inputs).square().mean().backward()
                optimizer.step()
            del loader
            alive.append(sum(of() is not None for of in made))

    survey.attach()
    looks.attach(patches)
    gc.collect()
    gc.disable()
    try:
        with probe.attached():
            train()
    finally:
        gc.enable()
        survey._patches.remove()
        survey._late.remove()
        patches.remove()

    assert max(alive) <= 3
    assert probe.loader.dataset is made[-1]()
    assert [place.rpartition(":")[0].endswith("test_by_identity.py") for place in survey.feeding(probe.fetched.feeding)]
