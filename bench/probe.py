"""The probe's own cost: interleaved pairs of blocks of one bare Trainer, with the probe attached and without.

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


def measure() -> dict[str, object]:
    """For people: `make bench`."""
    found = cost()
    return {
        "pairs": found["pairs"],
        "bare step, ms": round(1e3 * found["bare_step_seconds"], 1),
        "cost": f"{found['cost']:+.2%} [{found['cost_low']:+.2%}, {found['cost_high']:+.2%}]",
        "marks of one step, µs": round(1e6 * found["marks_seconds"], 1),
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
    # pair up blocks that follow each other and differ in the probe
    ratios, step, i = [], [], 0
    while i + 1 < len(blocks):
        (a, s), (b, t) = blocks[i], blocks[i + 1]
        if a == b:
            i += 1
            continue
        bare, probed = (t, s) if a else (s, t)
        ratios.append(math.log(probed / bare))
        step.append(bare / STEPS)
        i += 2
    effect = paired(ratios, range(len(ratios)), 0.05)
    return {
        "pairs": effect.n,
        "bare_step_seconds": sum(step) / len(step),
        "cost": effect.ratio - 1,
        "cost_low": effect.low - 1,
        "cost_high": effect.high - 1,
        "marks_seconds": _marks(),
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
