"""The probe's own cost: interleaved pairs of blocks, with the probe attached and without, of a bare Trainer and of a
plain loop.

One process, one model, one stream of batches; the probe is attached and detached between blocks, in random order
within a pair. So nothing but the probe differs between the two blocks of a pair.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from pathlib import Path

from slowstep.judgement.intervals import paired
from slowstep.settings import load, override

PAIRS = 150
STEPS = 5
PLAIN_STEPS = 25
"""The steps of a plain loop's block."""

PLAIN_WIDTH = 1024
"""The width of the plain loop's layers, by which a step takes about 20 ms on one core."""


def measure() -> dict[str, object]:
    """For people: `make bench`."""
    found, plain = cost(), plain_cost()
    return {
        **_shown(found),
        "marks of one step, µs": round(1e6 * found["marks_seconds"], 1),
        "plain loop": _shown(plain),
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
    return _paired(blocks, STEPS) | {"marks_seconds": _marks()}


def plain_cost() -> dict[str, float]:
    """The same for a loop that a person wrote: a DataLoader, layers, AdamW, steps of about 20 ms."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from slowstep_probe.probe import Probe

    torch.manual_seed(0)
    samples, classes = 32, 10
    layers = [torch.nn.Sequential(torch.nn.Linear(PLAIN_WIDTH, PLAIN_WIDTH), torch.nn.ReLU()) for _ in range(4)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(PLAIN_WIDTH, classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    count = samples * (PLAIN_STEPS + 1)
    data = TensorDataset(torch.randn(count, PLAIN_WIDTH), torch.randint(classes, (count,)))
    loader = DataLoader(data, batch_size=samples)

    def block() -> float:
        """Train over the loader once, and return the seconds of all steps but the first."""
        began = 0.0
        for i, (inputs, labels) in enumerate(loader):
            if i == 1:
                began = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        return time.perf_counter() - began

    order = random.Random(0)
    blocks: list[tuple[bool, float]] = []
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
    return _paired(blocks, PLAIN_STEPS)


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


def _marks() -> float:
    """Seconds that the probe's own calls take in a step of the built-in workload: what it does, without the noise."""
    import torch

    from slowstep_probe import batch_work
    from slowstep_probe.probe import Probe

    probe = Probe()
    batch = {"input_ids": torch.ones(4, 192, dtype=torch.long), "attention_mask": torch.ones(4, 192, dtype=torch.long)}
    batch["labels"] = batch["input_ids"]
    probe.open()
    began = time.perf_counter()
    for _ in range(1000):
        for phase in ("data", "host_to_device", "forward", "backward", "optimizer", "optimizer", "optimizer", "other"):
            probe._enter(phase)
            probe._leave()
        batch_work.count(batch)
    return (time.perf_counter() - began) / 1000
