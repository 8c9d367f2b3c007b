"""Workloads that only the proof on a device needs: a limit of device memory, and host waits.

`Within24GiB` is the built-in fine-tune in a process that may take 24 GiB of the device, and so is any other number of
GiB (`Within12_5GiB`).
"""

from __future__ import annotations

import re
from typing import Any

import torch
from transformers import TrainerCallback

from slowstep.workloads.finetune import FineTune

GIB = 2**30
NAME = re.compile(r"Within(\d+)(?:_(\d+))?GiB")


class Limited(FineTune):
    """A fine-tune whose process may take only so much device memory. Without a device nothing is limited."""

    limit_gib = 0.0

    def build_model(self) -> None:
        if torch.cuda.is_available():
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.limit_gib * GIB / total))
        super().build_model()


def __getattr__(name: str) -> Any:
    """Return the workload of a name such as `Within24GiB`."""
    found = NAME.fullmatch(name)
    if not found:
        raise AttributeError(name)
    return type(name, (Limited,), {"limit_gib": float(f"{found[1]}.{found[2] or 0}")})


class HostWaits(FineTune):
    """After each micro-batch the norm of each gradient is read back to be looked at, and the host waits for each."""

    def build_trainer(self) -> None:
        super().build_trainer()
        self.trainer.add_callback(LooksAtGradients())


class LooksAtGradients(TrainerCallback):
    """The look of `HostWaits`. Whoever writes it believes that it costs nothing."""

    def on_substep_end(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        self.norms = [p.grad.norm().item() for p in model.parameters() if p.grad is not None]

    on_pre_optimizer_step = on_substep_end
