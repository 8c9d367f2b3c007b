"""Interference with a block while it is measured: by other processes, here and on other nodes, and on the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from slowstep.measure import device_telemetry, on_other_nodes, other_processes
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.pool import TrialPool
from slowstep.processes.cpu_times import CpuTimes
from slowstep.processes.tree import process_tree
from slowstep.records import Block


class Interference:
    """What interferes with one block of a live trial, from the moment that this object is made."""

    def __init__(self, pool: TrialPool):
        self._pool = pool
        self._before, self._before_elsewhere = self._read(), on_other_nodes.read()

    @contextmanager
    def watched(self, trial: LiveTrial) -> Iterator[None]:
        """Watch while the block is measured in the `with` block."""
        with device_telemetry.watched(self._own_processes, trial.devices) as self._device:
            yield
        self._after = self._read()

    def annotated(self, block: Block) -> Block:
        """Return the block with what happened beside it, and beside the events that were made to happen after it."""
        # a long save must not hide what disturbed a short block
        found = other_processes.between(self._before, self._after) or other_processes.between(
            self._before, self._read()
        )
        after_elsewhere, before_elsewhere = on_other_nodes.read(), self._before_elsewhere
        found = found or on_other_nodes.interrupted(before_elsewhere, after_elsewhere)
        stops = [
            self._after.stops_since(self._before),
            *(
                after_elsewhere[node].stops_since(before_elsewhere[node])
                for node in after_elsewhere.keys() & before_elsewhere
            ),
        ]
        periods, used_up = max(stops, key=lambda one: one[1])
        return replace(
            block,
            interrupted=block.interrupted or found or self._device.interrupted,
            telemetry=self._device.telemetry,
            quota_periods=periods,
            quota_used_up=used_up,
        )

    def _read(self) -> CpuTimes:
        """Return the processor times of this machine, with those that all live trials have used so far."""
        return other_processes.read(sum(trial.process.cpu_seconds() for trial in self._pool.live.values()))

    def _own_processes(self) -> set[int]:
        """Return the numbers of all processes that the live trials have."""
        return {process.pid for guard in self._pool.guards for process in process_tree(guard)}
