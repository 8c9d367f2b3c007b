"""The probe's own cost: interleaved pairs of blocks, with the probe attached and without, of a bare Trainer and of a
plain loop.

One process, one model, one stream of batches; the probe is attached and detached between blocks, in random order
within a pair. So nothing but the probe differs between the two blocks of a pair.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from slowstep.judgement.intervals import paired
from slowstep.settings import load, override

PAIRS = 150
STEPS = 5
PLAIN_STEPS = 25
"""The steps of a plain loop's block."""

PLAIN_WIDTH = 1024
"""The width of the plain loop's layers, by which a step takes about 20 ms on one core."""

NARROW = 64
"""The width by which a step takes about 1 ms, most of it on the host: what the probe takes there shows in it."""

FIRST_STEPS = 3
"""The steps of a block that are not timed: in them the probe looks for the model, which it does once in a run."""


def measure() -> dict[str, object]:
    """For people: `make bench`."""
    plain = plain_loop(PLAIN_WIDTH)
    return {
        **_shown(cost()),
        "plain loop": _shown(_paired(_totals(plain), PLAIN_STEPS)),
        "added to a step of 1 ms, µs": added(),
    }


def _shown(found: dict[str, float]) -> dict[str, object]:
    return {
        "pairs": found["pairs"],
        "bare step, ms": round(1e3 * found["bare_step_seconds"], 1),
        "cost": f"{found['cost']:+.2%} [{found['cost_low']:+.2%}, {found['cost_high']:+.2%}]",
    }


def cost() -> dict[str, float]:
    """The probe's cost as a share of a step, with its 95 % interval: of the median pair where steps lie far out."""
    from transformers import TrainerCallback

    from slowstep.workloads.finetune import FineTune
    from slowstep_probe.probe import Probe
    from slowstep_probe.trial import heap

    base = load("params/quick.yaml").settings
    settings = override(base, {"training_arguments.gradient_checkpointing": False, "dataset.padding": "max_length"})
    order = random.Random(0)
    blocks: list[tuple[bool, float]] = []

    class Alternate(TrainerCallback):
        """Attaches and detaches the probe between blocks of steps, and times the blocks."""

        def __init__(self) -> None:
            self.plan: list[bool] = []
            self.scope, self.began, self.attached = None, 0.0, False

        def on_step_begin(self, args, state, control, **_):
            if state.global_step % (STEPS + 1) == 1:  # the first step after a change is not timed
                self.began = time.perf_counter()

        def on_step_end(self, args, state, control, **_):
            if state.global_step % (STEPS + 1):
                return
            if state.global_step > 2 * (STEPS + 1):
                blocks.append((self.attached, time.perf_counter() - self.began))
            if self.scope:
                self.scope.__exit__(None, None, None)
                self.scope = None
            if not self.plan:
                first = order.random() < 0.5
                self.plan = [first, not first]
            self.attached = self.plan.pop(0)
            if self.attached:
                probe = Probe()
                self.scope = probe.attached()
                self.scope.__enter__()
                probe.open()
            control.should_training_stop = len(blocks) >= 2 * PAIRS + 1

    heap.settle(settings.freed_memory)
    with tempfile.TemporaryDirectory() as folder:
        workload = FineTune(settings, Path(folder))
        workload.prepare_data()
        workload.build_model()
        workload.build_trainer()
        workload.trainer.add_callback(Alternate())
        workload.train()
    return _paired(blocks, STEPS)


def plain_loop(width: int) -> list[tuple[bool, list[float]]]:
    """Train a loop that a person wrote: a DataLoader, layers of a width, AdamW.

    Returns the seconds of each block's steps, and whether the probe was attached to it.
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from slowstep_probe.probe import Probe

    torch.manual_seed(0)
    samples, classes = 32, 10
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(4)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    count = samples * (PLAIN_STEPS + FIRST_STEPS)
    data = TensorDataset(torch.randn(count, width), torch.randint(classes, (count,)))
    loader = DataLoader(data, batch_size=samples)

    def block() -> list[float]:
        """Train over the loader once."""
        ended = [time.perf_counter()]
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            ended.append(time.perf_counter())
        return [b - a for a, b in pairwise(ended)][FIRST_STEPS:]

    order = random.Random(0)
    blocks: list[tuple[bool, list[float]]] = []
    for _ in range(3):
        block()
    for _ in range(PAIRS):
        first = order.random() < 0.5
        for attached in (first, not first):
            if not attached:
                blocks.append((False, block()))
                continue
            probe = Probe()
            with probe.attached():
                probe.open()
                blocks.append((True, block()))
    return blocks


def _totals(blocks: list[tuple[bool, list[float]]]) -> list[tuple[bool, float]]:
    return [(attached, sum(seconds)) for attached, seconds in blocks]


def added() -> dict[str, float]:
    """Return the microseconds that the probe adds to a median step: in the median pair of blocks, and the middle half.

    In a step of 1 ms what the host does shows, however noisy the machine is.
    """
    blocks = plain_loop(NARROW)
    medians = [(attached, statistics.median(seconds)) for attached, seconds in blocks]
    differences = [
        1e6 * ((b - a) if attached else (a - b))
        for (_, a), (attached, b) in zip(medians[::2], medians[1::2], strict=True)
    ]
    low, middle, high = statistics.quantiles(differences, n=4)
    return {"added_microseconds": middle, "added_low": low, "added_high": high}


def _paired(blocks: list[tuple[bool, float]], steps: int) -> dict[str, float]:
    """Return the cost by blocks that follow each other and differ in the probe, each of so many steps."""
    ratios, step, i = [], [], 0
    while i + 1 < len(blocks):
        (a, s), (b, t) = blocks[i], blocks[i + 1]
        if a == b:
            i += 1
            continue
        bare, probed = (t, s) if a else (s, t)
        ratios.append(math.log(probed / bare))
        step.append(bare / steps)
        i += 2
    effect = paired(ratios, range(len(ratios)), 0.05)
    return {
        "pairs": effect.n,
        "bare_step_seconds": sum(step) / len(step),
        "cost": effect.ratio - 1,
        "cost_low": effect.low - 1,
        "cost_high": effect.high - 1,
    }
