"""Hold a frozen base on a device for all trials that map it, in a process of its own that lives as long as they do."""

from __future__ import annotations

import os
from pathlib import Path

from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded
from slowstep_probe.weights import on_device

ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Options of PyTorch's allocator. Segments that expand can't be mapped by others everywhere."""


def main(wire: Wire, path: str) -> None:
    """Hold the arena at `path` until the process is ended. The answer is the file by which others map it."""
    for option in ALLOCATOR:
        os.environ.pop(option, None)
    held = on_device.hold(Path(path))  # for as long as this name lives
    wire.send(encoded(Answer(value=str(on_device.handle_of(Path(path))))))
    wire.receive()  # nothing comes: it waits for its end
    del held
