"""The probe's own cost: interleaved pairs of blocks, with the probe attached and without, of a bare Trainer and of a
plain loop.

One process, one model, one stream of batches; the probe is attached and detached between blocks, in random order
within a pair. So nothing but the probe differs between the two blocks of a pair. Where steps scatter, the interval of
its cost is as wide as they do. What it adds to the host's time shows in steps of a few milliseconds all the same.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slowstep.judgement.intervals import paired
from slowstep.settings import load, override

PAIRS = 150
STEPS = 5
"""The steps of a block of Trainer's that are timed."""

PLAIN_STEPS = 25
"""The steps of a plain loop's block that are timed."""

PLAIN_WIDTH = 1024
"""The width of the plain loop's layers, by which a step takes about 20 ms on one core."""

NARROW = 64
"""The width by which a step takes about 1 ms, most of it on the host."""

TINY = {
    "training_arguments.per_device_train_batch_size": 1,
    "dataset.max_length": 16,
    "model.config.hidden_size": 32,
    "model.config.intermediate_size": 32,
    "model.config.num_hidden_layers": 1,
}
"""What makes a step of Trainer's take about 5 ms, most of it on the host."""

FIRST_STEPS = 3
"""The steps of a block that are not timed: in them the probe looks for the model, which it does once in a run."""

QUICKEST = 0.1
"""The share of steps by which the host's time is told. Nothing holds these up but the program itself. On a shared
machine something else holds up most steps, by more than the probe takes."""

RESAMPLED = 2000
"""How many times pairs are drawn for an interval."""


class Block(NamedTuple):
    """The seconds of each step of a block, and whether the probe was attached."""

    attached: bool
    seconds: list[float]


def measure() -> dict[str, object]:
    """Return what `make bench` prints."""
    loops = {"Trainer": trainer(), "plain loop": plain_loop(PLAIN_WIDTH)}
    return {name: _shown(cost(blocks)) for name, blocks in loops.items()} | {n: round(us) for n, us in added().items()}


def _shown(found: dict[str, float]) -> dict[str, object]:
    return {
        "pairs": found["pairs"],
        "bare step, ms": round(1e3 * found["bare_step_seconds"], 1),
        "cost": f"{found['cost']:+.2%} [{found['cost_low']:+.2%}, {found['cost_high']:+.2%}]",
    }


def trainer(changed: dict[str, object] | None = None, steps: int = STEPS) -> list[Block]:
    """Train quick.yaml's run by a bare Trainer, with some settings changed, in blocks of so many steps."""
    from transformers import TrainerCallback

    from slowstep.workloads.finetune import FineTune
    from slowstep_probe import heap

    own = {"training_arguments.gradient_checkpointing": False, "dataset.padding": "max_length"}
    settings = override(load("params/quick.yaml").settings, own | (changed or {}))
    blocks: list[Block] = []

    class Alternate(TrainerCallback):
        """Attaches and detaches the probe between blocks of steps, and times their steps."""

        def __init__(self) -> None:
            self.plan, self.probe, self.began = _plan(), ExitStack(), []
            self.attached = False

        def on_step_begin(self, *_, **__):
            self.began.append(time.perf_counter())

        def on_step_end(self, args, state, control, **_):
            if len(self.began) <= FIRST_STEPS + steps:
                return
            if state.global_step > 2 * (FIRST_STEPS + steps):
                blocks.append(Block(self.attached, _timed(self.began)))
            self.probe.close()
            self.began, self.attached = [], next(self.plan)
            if self.attached:
                _attach(self.probe)
            control.should_training_stop = len(blocks) >= 2 * PAIRS

    heap.settle(settings.freed_memory)
    with tempfile.TemporaryDirectory() as folder:
        workload = FineTune(settings, Path(folder))
        workload.prepare_data()
        workload.build_model()
        workload.build_trainer()
        workload.trainer.add_callback(Alternate())
        workload.train()
    return blocks


def plain_loop(width: int) -> list[Block]:
    """Train a loop that a person wrote: a DataLoader, layers of a width, AdamW."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    samples, classes = 32, 10
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(4)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    count = samples * (FIRST_STEPS + PLAIN_STEPS + 1)
    data = TensorDataset(torch.randn(count, width), torch.randint(classes, (count,)))
    loader = DataLoader(data, batch_size=samples)
    blocks: list[Block] = []
    plan = _plan()
    while len(blocks) < 2 * (PAIRS + 1):
        attached, began = next(plan), []
        with ExitStack() as probe:
            if attached:
                _attach(probe)
            for inputs, labels in loader:
                began.append(time.perf_counter())
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
        blocks.append(Block(attached, _timed(began)))
    return blocks[2:]  # the first pair warms up


def _plan() -> Iterator[bool]:
    """Yield whether the probe is attached in the next block: once in each pair, in random order."""
    order = random.Random(0)
    while True:
        first = order.random() < 0.5
        yield from (first, not first)


def _attach(until: ExitStack) -> None:
    from slowstep_probe.probe.probe import Probe

    probe = Probe()
    until.enter_context(probe.attached())
    probe.open()


def _timed(began: list[float]) -> list[float]:
    return [b - a for a, b in pairwise(began)][FIRST_STEPS:]


def _pairs(blocks: list[Block]) -> Iterator[tuple[list[float], list[float]]]:
    """Yield the steps without the probe and with it, of each pair of `_plan`."""
    for one, other in zip(blocks[::2], blocks[1::2], strict=True):
        yield (other.seconds, one.seconds) if one.attached else (one.seconds, other.seconds)


def cost(blocks: list[Block]) -> dict[str, float]:
    """The probe's cost as a share of a step, with its 95 % interval: of the median pair where steps lie far out."""
    pairs = [(sum(bare), sum(probed), len(bare)) for bare, probed in _pairs(blocks)]
    ratios = [math.log(probed / bare) for bare, probed, _ in pairs]
    effect = paired(ratios, range(len(ratios)), 0.05)
    return {
        "pairs": effect.n,
        "bare_step_seconds": statistics.fmean(bare / steps for bare, _, steps in pairs),
        "cost": effect.ratio - 1,
        "cost_low": effect.low - 1,
        "cost_high": effect.high - 1,
    }


def added() -> dict[str, float]:
    """The microseconds that the probe adds to the host's time in a step, each with the ends of its 95 % interval."""
    loops = {"plain": plain_loop(NARROW), "trainer": trainer(TINY, PLAIN_STEPS)}
    found = {name: _added(list(_pairs(blocks))) for name, blocks in loops.items()}
    return {
        f"added_to_{name}_microseconds{end}": 1e6 * seconds
        for name, interval in found.items()
        for end, seconds in zip(("", "_low", "_high"), interval, strict=True)
    }


def _added(pairs: list[tuple[list[float], list[float]]]) -> tuple[float, float, float]:
    """Return the seconds by which the probe prolongs the quickest steps, with their interval by resampled pairs."""
    bare, probed = (np.array(side) for side in zip(*pairs, strict=True))
    drawn = np.random.default_rng(0).integers(len(bare), size=(RESAMPLED, len(bare)))
    resampled = [_longer(bare[those], probed[those]) for those in drawn]
    low, high = np.quantile(resampled, (0.025, 0.975))
    return _longer(bare, probed), float(low), float(high)


def _longer(bare: np.ndarray, probed: np.ndarray) -> float:
    return float(np.quantile(probed, QUICKEST) - np.quantile(bare, QUICKEST))
