"""What stands for the process that holds a base on a device, where there is none."""

from __future__ import annotations

from pathlib import Path

from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded
from slowstep_probe.weights.on_device import handle_of


def main(wire: Wire, path: str) -> None:
    """Leave a handle that can't be opened, and wait for the end."""
    handle = handle_of(Path(path))
    handle.write_bytes(b"of no device")
    wire.send(encoded(Answer(value=str(handle))))
    wire.receive()
