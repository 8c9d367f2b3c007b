"""What devices can do, by the name that tools print; an unknown device is measured or left aside, never guessed."""

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

    @property
    def most(self) -> float:
        """FLOP/s that nothing exceeds: a data sheet's figure as it is, and more than was measured in a busy moment."""
        return self.tflops * 1e12 * (MARGIN if self.source.startswith(MEASURED) else 1.0)


MARGIN = 1.25
"""A peak that was measured may lie so much below what the device can do."""

MEASURED = "measured here"
"""How the source of a peak begins that no data sheet says."""

VENDORS = {"nvidia", "amd", "geforce", "tesla", "instinct", "r", "tm", "gpu", "corporation"}
"""Words of a name that tell no device from another."""

JOINED = re.compile(r"(?<=\d)\s+(?=gb\b)|(?<=\bsxm)\s+(?=\d\b)")
"""Spaces that some tools print inside `80 GB` and `SXM 5`."""

PEAKS = {
    names[0]: Peak(tflops=tflops, bandwidth=bandwidth, memory=memory, source=f"data sheet: {sheet}")
    for names, tflops, bandwidth, memory, sheet in SHEETS
}
"""The known devices by the name that their driver prints."""


def peak_of(name: str | None) -> Peak | None:
    """The peak of the device that a tool calls `name`, None where no device or several could be meant.

    Only the order of the words, and words that tell no device from another, may differ: `A10` is no `A10G`, and `H100`
    alone is PCIe, SXM or NVL.
    """
    return KNOWN.get(_words(name)) if name else None


def family_of(name: str) -> list[str]:
    """The known devices whose name has all words of a shorter one: the several that `H100` could be."""
    words = _words(name)
    return [names[0] for names, *_ in SHEETS if words and any(words < _words(n) for n in names)]


def _words(name: str) -> frozenset[str]:
    """The words that make up a name, however they are parted: `A100-SXM4-40GB` has a100, sxm4 and 40gb."""
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
