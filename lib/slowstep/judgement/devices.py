"""What devices can do. Names are matched exactly: an A10G is not an A10. An unknown device is measured, not guessed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Dense bf16 TFLOP/s, memory bandwidth in GB/s and memory in GB, from the vendor's data sheet or measured here."""

    tflops: float
    bandwidth: float
    source: str
    memory: float | None = None

    @property
    def most(self) -> float:
        """FLOP/s that nothing exceeds: a data sheet's figure as it is, and more than was measured in a busy moment."""
        return self.tflops * 1e12 * (1.0 if self.source == SHEET else MARGIN)


MARGIN = 1.25
"""A peak that was measured may lie so much below what the device can do."""

SHEET = "the vendor's data sheet, dense bf16"

PEAKS = {
    "NVIDIA A10": Peak(tflops=125, bandwidth=600, memory=24, source=SHEET),
    "NVIDIA GeForce RTX 4090": Peak(tflops=165, bandwidth=1008, memory=24, source=SHEET),
    "NVIDIA A100-SXM4-80GB": Peak(tflops=312, bandwidth=2039, memory=80, source=SHEET),
    "NVIDIA H100 80GB HBM3": Peak(tflops=989, bandwidth=3350, memory=80, source=SHEET),
    "NVIDIA H100 PCIe": Peak(tflops=756, bandwidth=2000, memory=80, source=SHEET),
    "NVIDIA H200": Peak(tflops=989, bandwidth=4800, memory=141, source=SHEET),
}
