"""Build a model's frozen base once for all trials that train over it, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from transformers import set_seed

from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep.workloads import frozen_base, model
from slowstep.workloads.finetune import training_arguments
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded


def main(wire: Wire, settings: dict[str, Any], arena: str) -> None:
    """Build the frozen base that the plain `settings` describe, write it to `arena`, and answer the seconds it took.

    The answer is None for a base that would lie on a device.
    """
    described, began = from_plain(Settings, settings), time.perf_counter()
    arguments = training_arguments(described, Path(arena).parent)
    if arguments.device.type != "cpu":
        wire.send(encoded(Answer(value=None)))
        return
    set_seed(arguments.seed)
    base = model.base(described, arguments.device).requires_grad_(False)
    seconds = time.perf_counter() - began
    frozen_base.write(base, Path(arena))
    wire.send(encoded(Answer(value=seconds)))
