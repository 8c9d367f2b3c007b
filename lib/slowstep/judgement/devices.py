"""Peaks of devices, by the name that tools print. An unknown device is measured or left out, never guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowstep.judgement.data_sheets import SHEETS


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Dense bf16 TFLOP/s, memory bandwidth in GB/s and memory in GB, from the vendor's data sheet or measured here."""

    tflops: float
    bandwidth: float
    source: str
    memory: float | None = None
    threads: int | None = None
    """The threads of a processor that reached it; None for a device, and for a data sheet."""

    @property
    def most(self) -> float:
        """Return the FLOP/s that nothing exceeds: a data sheet's figure, or `MARGIN` times a measured one."""
        return self.tflops * 1e12 * (MARGIN if self.source.startswith(MEASURED) else 1.0)


MARGIN = 1.25
"""The factor by which a device's true peak may exceed a measured one, which may come from a busy moment."""

MEASURED = "measured here"
"""The first words of `source` for a peak that was measured and is in no data sheet."""

VENDORS = {"nvidia", "amd", "geforce", "tesla", "instinct", "r", "tm", "gpu", "corporation"}
"""Words of a name that distinguish no device from another."""

JOINED = re.compile(r"(?<=\d)\s+(?=gb\b)|(?<=\bsxm)\s+(?=\d\b)")
"""Spaces that some tools print inside `80 GB` and `SXM 5`."""

PEAKS = {
    names[0]: Peak(tflops=tflops, bandwidth=bandwidth, memory=memory, source=f"data sheet: {sheet}")
    for names, tflops, bandwidth, memory, sheet in SHEETS
}
"""The known devices by the name that their driver prints."""


def peak_of(name: str | None) -> Peak | None:
    """Return the peak of the device that a tool calls `name`; None where no device or several could be meant.

    Only the order of the words, and words that distinguish no device, may differ. `A10` is not `A10G`, and `H100`
    alone could be PCIe, SXM or NVL.
    """
    return KNOWN.get(_words(name)) if name else None


def family_of(name: str) -> list[str]:
    """Return the known devices whose names have all words of `name` and more: those that `H100` could be."""
    words = _words(name)
    return [names[0] for names, *_ in SHEETS if words and any(words < _words(n) for n in names)]


def _words(name: str) -> frozenset[str]:
    """Return the words of a name, whatever separates them: `A100-SXM4-40GB` has a100, sxm4 and 40gb."""
    text = JOINED.sub("", re.sub(r"[^a-z0-9]+", " ", name.lower()))
    text = re.sub(r"\brtx(?=\d)", "rtx ", text)
    return frozenset(word for word in text.split() if word not in VENDORS)


KNOWN = {
    words: PEAKS[names[0]]
    for names, _, _, memory, _ in SHEETS
    for name in names
    for words in (_words(name), _words(f"{name} {memory:g}GB"))
}
"""The known devices by their words, with the size of their memory and without it."""
