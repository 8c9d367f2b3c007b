"""The parts, in the order in which they prove the most for their time."""

from __future__ import annotations

from bench.gpu import cases, commands, compiling, identical, job, matrix, memory, planted, probe, residency, telemetry
from bench.gpu.part import Part
from bench.gpu.scale import Scale


def parts(scale: Scale) -> list[Part]:
    """Return all parts at a scale."""
    return [
        *probe.parts(scale),
        *identical.parts(scale),
        *matrix.parts(scale),
        *job.parts(),
        *cases.parts(scale),
        *memory.parts(scale),
        *residency.parts(),
        *telemetry.parts(),
        *commands.parts(scale),
        *planted.parts(scale),
        *compiling.parts(scale),
    ]
