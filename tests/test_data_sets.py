"""A data set that workers could not share is handed to none: it holds an open file, or the program changes it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slowstep.command.resolve import resolve
from slowstep.environment.machine import this_machine
from slowstep.factors import check_levels, plan
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.settings import load, override

TRAINING = """
import io, numpy, os, random, sqlite3, time, torch, zipfile
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Sampler, Subset

DRAWS = random.Random(0)

TOTAL = 0

class Harder:
    given = 0
    def factor(self):
        return self.given // 64
    @property
    def level(self):
        return self.given // 64

def counting():
    count = 0
    def counted():
        nonlocal count
        count += 1
        return count
    return counted

class Weighted(Sampler):
    def __init__(self):
        self.weights = torch.ones(32)
    def __len__(self):
        return 32
    def __iter__(self):
        yield from (int(self.weights.argsort()[i]) for i in range(32))

class WeightedAtOnce(Weighted):
    def __iter__(self):
        return iter(self.weights.argsort().tolist())

sampler = Weighted()

class Rows(Dataset):
    def __init__(self):
        self.level, self.asked, self.rows = 0, 0, torch.randn(32, 4)
        self.text = io.BytesIO(b"in memory")
        BEGIN
    def __len__(self):
        return 32
    def __getitem__(self, i):
        self.asked += 1
        EACH
        return self.rows[i] * (1 + self.level)

def epochs(data, model, optimizer):
    for epoch in range(50):
        BEFORE
        for step, x in enumerate(DataLoader(WRAPPED, batch_size=8, MORE)):
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            WITHIN

model = torch.nn.Linear(4, 1)
epochs(Rows(), model, torch.optim.SGD(model.parameters(), lr=0.1))
"""

ITEM = "self.file = self.file or open(__file__)"
ARRAYS = "import numpy; numpy.savez('a.npz', x=1); self.x = numpy.load('a.npz')"
NUMPY = "self.rng = numpy.random.default_rng(0)"
OPEN = "self.file = open(__file__)"
CASES = {
    "nothing of the kind": ({}, True, True),
    "an open file": ({"BEGIN": OPEN}, False, True),
    "an open file of the module": (
        {"BEGIN": "global FILE; FILE = open(__file__, 'rb', buffering=0)", "EACH": "os.lseek(FILE.fileno(), i, 0)"},
        False,
        True,
    ),
    "an open file further in": ({"BEGIN": OPEN, "WRAPPED": "Subset(ConcatDataset([data]), range(32))"}, False, True),
    "an archive": (
        {"BEGIN": "zipfile.ZipFile('a.zip', 'w').close(); self.zip = [zipfile.ZipFile('a.zip')]"},
        False,
        True,
    ),
    "a generator": ({"BEGIN": NUMPY, "EACH": "self.rng.random()"}, False, True),
    "a generator of the module": ({"EACH": "DRAWS.random()"}, False, True),
    "PyTorch's generator, further in": (
        {"BEGIN": "self.own = [torch.Generator()]", "EACH": "torch.rand(2, generator=self.own[0])"},
        False,
        True,
    ),
    "a name of a generator of all": (
        {"BEGIN": "self.own = [random._inst, torch.default_generator]", "EACH": "random.random(); torch.rand(1)"},
        True,
        True,
    ),
    "a generator for the beginning": ({"BEGIN": NUMPY + "; self.x = self.rng.random()"}, True, True),
    "a generator that each worker seeds": (
        {"BEGIN": NUMPY, "EACH": "self.rng.random()", "MORE": "worker_init_fn=print"},
        True,
        True,
    ),
    "the generators of all": ({"EACH": "random.random(); torch.rand(1); numpy.random.rand()"}, True, True),
    "a file that was closed": ({"BEGIN": OPEN + "; self.file.close()"}, True, True),
    "a file that each worker opens": ({"BEGIN": OPEN, "MORE": "worker_init_fn=print"}, True, True),
    "a file that an item opens": ({"BEGIN": "self.file = None", "EACH": ITEM}, True, True),
    "a value that is none": ({"BEGIN": "self.level, self.none = 0, float('nan')"}, True, True),
    "an archive of arrays": ({"BEGIN": ARRAYS}, False, True),
    "changed between epochs": ({"BEFORE": "data.level = epoch"}, True, False),
    "changed in its place": ({"BEGIN": "self.list = [0] * 9", "WITHIN": "data.list[step] = step"}, False, False),
    "a count that items depend on": ({"EACH": "self.level = self.asked // 64"}, False, True),
    "a count further in": (
        {"BEGIN": "self.text = Harder()", "EACH": "self.text.given += 1; self.level = self.text.factor()"},
        False,
        True,
    ),
    "a time that is measured": (
        {"BEGIN": "self.spent = 0.0", "EACH": "self.spent = self.spent + time.perf_counter() % 0.01"},
        True,
        True,
    ),
    "the model itself": ({"EACH": "self.level = float(model(self.rows[:1]).detach())"}, False, True),
    "a count that a property tells": (
        {"BEGIN": "self.text = Harder()", "EACH": "self.text.given += 1; self.level = self.text.level"},
        False,
        True,
    ),
    "a statistic beside a method of its name": (
        {"BEGIN": "self.count = 0", "EACH": "self.count += 1; 'a,b'.count(',')"},
        True,
        True,
    ),
    "a place of a sampler": ({"MORE": "sampler=sampler", "WITHIN": "sampler.place = step"}, True, True),
    "a count of the module that nothing reads": ({"EACH": "global TOTAL; TOTAL += 1"}, True, True),
    "a count of the module": (
        {"EACH": "global TOTAL\n        TOTAL += 1\n        self.level = TOTAL // 64"},
        False,
        True,
    ),
    "a count within a function": (
        {"BEGIN": "self.text = counting()", "EACH": "self.level = self.text() // 64"},
        False,
        True,
    ),
    "another model": (
        {"BEGIN": "self.text = torch.nn.Linear(4, 1)", "EACH": "self.text(self.rows[:1])"},
        True,
        True,
    ),
    "a sampler that learns": (
        {"MORE": "sampler=sampler", "WITHIN": "sampler.weights[step] = step"},
        False,
        True,
    ),
    "a sampler that is told the epoch": (
        {"MORE": "sampler=sampler", "BEFORE": "sampler.epoch = epoch"},
        True,
        True,
    ),
    "a sampler that draws an epoch at once": (
        {
            "BEGIN": "global sampler; sampler = WeightedAtOnce()",
            "MORE": "sampler=sampler",
            "WITHIN": "sampler.weights[step] = step",
        },
        True,
        True,
    ),
    "a cache of items": ({"BEGIN": "self.kept = {}", "EACH": "self.kept.setdefault(i, self.rows[i])"}, False, True),
    "a cache with a place for each item": (
        {"BEGIN": "self.kept = [None] * 32", "EACH": "self.kept[i] = self.rows[i]"},
        False,
        True,
    ),
    "a cache of a function": (
        {"BEGIN": "import functools; global READ; READ = functools.cache(lambda i: i)", "EACH": "READ(i)"},
        False,
        True,
    ),
    "a cache of files": ({"BEGIN": "self.kept = {}", "EACH": "self.kept[i] = io.BytesIO()"}, True, True),
    "a history": ({"BEGIN": "self.list = []", "EACH": "self.list.append(i)"}, True, True),
    "a table of a few keys": ({"BEGIN": "self.kept = {}", "EACH": "self.kept[i % 4] = i"}, True, True),
    "changed within epochs": ({"WITHIN": "data.level = step"}, False, False),
}


@pytest.mark.trials
@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize(("parts", "workers", "persistent"), CASES.values(), ids=CASES)
def test_workers_are_tried_where_they_see_what_the_program_sees(
    parts: dict[str, str], workers: bool, persistent: bool, tmp_path: Path
) -> None:
    """What the data set changes itself, while it makes a batch, is its own affair, but for a count that it reads."""
    text = TRAINING
    for name, plain in {
        "BEGIN": "pass",
        "EACH": "pass",
        "BEFORE": "pass",
        "WITHIN": "pass",
        "WRAPPED": "data",
        "MORE": "",
    }.items():
        text = text.replace(name, parts.get(name, plain))
    (tmp_path / "train.py").write_text(text)
    command = resolve([sys.executable, "train.py"], tmp_path, os.environ)
    settings = load(write(survey(command, SurveyOrder(startup=120, seconds=60), os.environ), tmp_path / "out")).settings
    tried = {
        level.value
        for contrast in plan(settings, "data_loading", this_machine())
        for factor, level in contrast.levels
        if factor.name == "dataloader_num_workers" and not (contrast.untestable or contrast.unmet)
    }
    kept = override(settings, {"data_loading": {"dataloader_persistent_workers": [True]}})
    refused = [problem for problem in check_levels(kept, "train.yaml") if "would not see" in problem]

    assert bool(tried) is workers
    assert not refused if persistent else refused
