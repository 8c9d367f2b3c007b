"""Objects that answer in ways of their own: what can't be told of them is left out, and all else is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from forked_surveys import forked
from slowstep.command.resolve import resolve
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.settings import load
from slowstep_probe.changing.effects import Effects
from slowstep_probe.looks import FAILED, UNSEEN


class Secretive(torch.nn.Linear):
    """A module whose configuration can't be asked for."""

    @property
    def config(self) -> None:
        raise RuntimeError("not now")


def test_a_module_that_raises_hides_no_other_fact() -> None:
    """What needs its configuration is missing, and what does not is there."""
    found = Effects().facts([Secretive(2, 1)], None)

    assert {"memory_format", "double_precision", "tf32", "autocast", "detect_anomaly"} <= found.keys()
    assert not {"dropout", "experts_implementation", "attn_implementation"} & found.keys()
    assert 3 == len(FAILED)
    FAILED.clear()


@pytest.mark.parametrize("number", [[4, 8], "8", None, True])
def test_experts_are_counted_by_numbers_alone(number: object, capsys: pytest.CaptureFixture) -> None:
    """A program may call what it likes by that name."""
    model = torch.nn.Linear(2, 1)
    model.config = SimpleNamespace(num_experts=number, _experts_implementation="eager")

    assert Effects().facts([model], None)["experts_implementation"] is None
    assert UNSEEN not in capsys.readouterr().err


ODD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Linear):
    @property
    def config(self):
        raise RuntimeError("not now")


model = Model(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer.state["n"] = 3
for (x,) in DataLoader(TensorDataset(torch.randn(400, 4)), batch_size=8):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.trials
def test_a_program_with_odd_objects_is_diagnosed(tmp_path: Path) -> None:
    """An optimizer that keeps a number of its own among its states, and a model that raises when it is asked."""
    (tmp_path / "odd.py").write_text(ODD)
    with forked():
        seen = survey(resolve([sys.executable, "odd.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)

    assert seen.training, seen.ended
    assert seen.training["facts"]["optimizer"] == "torch.SGD"
    assert "optimizer" in load(write(seen, tmp_path / "made")).settings.surveyed.objects
