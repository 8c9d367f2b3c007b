"""Build a model's frozen base once for all trials that train over it, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from transformers import set_seed

from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep.workloads import model
from slowstep.workloads.finetune import training_arguments
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded
from slowstep_probe.weights import arena


def main(wire: Wire, settings: dict[str, Any], path: str) -> None:
    """Build the frozen base that the plain `settings` describe, and write it to the arena at `path`.

    The answer is the seconds that building took, None for a base that the disk has no room for.
    """
    described, began = from_plain(Settings, settings), time.perf_counter()
    arguments = training_arguments(described, Path(path).parent)
    set_seed(arguments.seed)
    base = model.base(described, arguments.device).requires_grad_(False)
    if not described.quantization:
        base = base.to(arguments.device)  # as Trainer would do with it, so that trials find it there
    seconds = time.perf_counter() - began
    if not arena.fits(base, Path(path).parent):
        wire.send(encoded(Answer(value=None)))
        return
    arena.write((base, arena.draws()), Path(path))
    arena.written_of(Path(path)).rename(arena.structure_of(Path(path)))
    wire.send(encoded(Answer(value=seconds)))
