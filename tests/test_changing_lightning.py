"""Lightning's Trainer in a trial: it trains without end, in the processes that the trial has."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from slowstep_probe.changing.lightning import LightningEnds
from slowstep_probe.changing.schedules import Schedules
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.ranks.rank import Group, Rank


class Trainer:
    """As Lightning's, where torchrun has started its processes (TorchElasticEnvironment.validate_settings)."""

    def __init__(self, *, devices: Any = "auto", num_nodes: int = 1, world: int = 1, **others: Any):
        self.given = others
        if devices != "auto" and devices * num_nodes != world:
            raise ValueError(f"{devices} devices on {num_nodes} nodes, and {world} processes")


def ranks(*on_nodes: int) -> list[Rank]:
    """The ranks of several nodes."""
    return [r for node in range(len(on_nodes)) for r in Group(on_nodes=list(on_nodes), node=node).own]


@pytest.mark.parametrize(
    ("on_nodes", "given"),
    [([8, 8], {"devices": 8, "num_nodes": 2}), ([8], {"devices": 8, "num_nodes": 2}), ([1], {"devices": 2}), ([], {})],
    ids=["two nodes", "one node alone of two", "one process alone of two", "no ranks"],
)
def test_its_devices_are_the_ranks_of_a_node(
    on_nodes: list[int], given: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It multiplies them by its nodes, and refuses another number of processes than there are."""
    module = types.ModuleType("lightning.pytorch.trainer.trainer")
    module.Trainer = type("Trainer", (Trainer,), {"__init__": Trainer.__init__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for rank in ranks(*on_nodes) or [None]:
        patches = Patches()
        LightningEnds(Schedules(lambda _: -1), rank).attach(patches, LateImports())
        made = module.Trainer(max_epochs=1, world=sum(on_nodes) or 1, **given)
        patches.remove()

        assert made.given["max_epochs"] == -1
