"""A loader has the place where the program makes it: behind a class of its own, and where a library makes it again."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from slowstep.cli.survey_lines import lines
from slowstep.command.resolve import resolve
from slowstep.final.patch import edit
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep_probe.changing.loaders import LoaderArguments
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace

WORKERS = "training_arguments.dataloader_num_workers"

CLASSES = {
    "hands_on": """
class Loader(DataLoader):
    def __init__(self, data, **more):
        super().__init__(data, **more)
""",
    "by_position": """
class Loader(DataLoader):
    def __init__(self, data, num_workers=0, batch_size=8):
        super().__init__(data, batch_size, False, None, None, num_workers)
""",
    "fixed": """
class Loader(DataLoader):
    def __init__(self, data, batch_size=8):
        self.build(data, batch_size)

    def build(self, data, size):
        super().__init__(data, batch_size=size)
""",
    "inherits": """
class Loader(DataLoader):
    pass
""",
}
"""Subclasses of DataLoader, by how they come to its arguments."""

CALLS = """
train = Loader(range(8), batch_size=4)
check = Loader(range(8), batch_size=4)
"""


@pytest.mark.parametrize("kind", CLASSES)
def test_a_loader_of_ones_own_class_has_the_place_of_its_call(kind: str, tmp_path: Path) -> None:
    """Of two such loaders one alone is changed, and the patch changes its call where its class takes the argument."""
    source = f"from torch.utils.data import DataLoader\n{CLASSES[kind]}{CALLS}"
    (program := tmp_path / "train.py").write_text(source)
    call = next(i for i, line in enumerate(source.splitlines(), 1) if line.startswith("train"))
    wanted, patches, asked, held = Wanted({WORKERS: 2}), Patches(), list[CodePlace](), dict[str, object]()

    def feeds(place: CodePlace) -> bool:
        asked.append(place)
        return place.line == call

    LoaderArguments(wanted, feeds).attach(patches)
    try:
        exec(compile(source, str(program), "exec"), held)
    finally:
        patches.remove()
    (made,) = wanted.made
    patched, left = edit(source, [asdict(made)])

    assert [call, call + 1] == [place.line for place in asked]
    assert (2, 0) == (held["train"].num_workers, held["check"].num_workers)
    if kind == "fixed":  # the line that has to be edited is in the class
        assert ("super().__init__(data", [asdict(made)]) == (
            source.splitlines()[made.place.line - 1].strip()[:21],
            left,
        )
    else:
        assert ("Loader", call, []) == (made.name.rpartition(".")[2], made.place.line, left)
        assert (
            "train = Loader(range(8), batch_size=4, num_workers=2)\ncheck = Loader(range(8), batch_size=4)" in patched
        )


LIBRARY = """
from torch.utils.data import DataLoader


class Prepared(DataLoader):
    pass


def prepare(loader):
    return Prepared(loader.dataset, batch_sampler=loader.batch_sampler)
"""

PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from library import prepare


class Loader(DataLoader):
    def __init__(self, data, size):
        super().__init__(data, batch_size=size)


check = Loader(TensorDataset(torch.randn(64, 3)), 4)
train = Loader(TensorDataset(torch.randn(640, 3)), 4)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in prepare(train):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.trials
def test_a_loader_that_a_library_makes_again_is_told_once(tmp_path: Path) -> None:
    """As accelerate does of each that it prepares. What is told of it stands where the program made it."""
    (packages := tmp_path / "site-packages").mkdir()
    (packages / "library.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(PROGRAM)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])}
    words = [f"PYTHONPATH={env['PYTHONPATH']}", sys.executable, "train.py"]
    seen = survey(resolve(words, tmp_path, env), SurveyOrder(startup=300), env)
    told = [line for line in lines(seen) if line.startswith("loader")]
    at = {
        name: PROGRAM.splitlines().index(line) + 1
        for line in PROGRAM.splitlines()
        if (name := line[:5]) in ("check", "train")
    }

    assert 2 == len(told), told
    assert f"train.py:{at['check']} " in told[0]
    assert f"train.py:{at['train']} " in told[1]
    assert told[1].endswith(", which feeds the training")
    assert f"{tmp_path / 'train.py'}:{at['train']}" in seen.training["feeding"]
    assert f"{tmp_path / 'train.py'}:{at['check']}" not in seen.training["feeding"]
