"""Training without the kit, for the size of a planted cause: no probe, no blocks, two readings of the clock."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep.workloads import load_workload
from slowstep_probe import heap
from slowstep_probe.probe.clock import CudaClock, HostClock
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

PATIENCE = 600.0
"""The most seconds for which a process waits, after its answer, to be ended."""


def train(wire: Wire, given: dict[str, Any], warm: int, steps: int) -> None:
    """Answer the samples a second of `steps` optimizer steps after `warm` others.

    Samples are counted, and not tokens: the cause and its cure train on samples of the same length, and to count
    tokens Trainer would wait for the device in each step.
    """
    settings = from_plain(Settings, given)
    clock = CudaClock() if torch.cuda.is_available() else HostClock()

    class Timer(TrainerCallback):
        began = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step not in (warm, warm + steps):
                return
            clock.synchronize()
            now = time.perf_counter()
            if state.global_step == warm:
                self.began = now
                return
            wire.send(encoded(Answer(value=steps * settings.effective_batch_size / (now - self.began))))
            time.sleep(PATIENCE)

    heap.settle(settings.freed_memory)
    with tempfile.TemporaryDirectory() as folder:
        workload = load_workload(settings.workload)(settings, Path(folder))
        workload.prepare_data()
        workload.build_model()
        workload.build_trainer()
        workload.trainer.add_callback(Timer())
        workload.train()
