"""Peaks of devices from their vendors' documents: dense bf16 with 32-bit accumulation, as PyTorch computes.

Five rules decide which figure stands in a row:

- A rate with sparsity is halved, because many documents print only that one.
- A GeForce card has the rate for 32-bit accumulation, which is half of the rate for 16-bit accumulation. Where a
  document prints neither, the rate follows from cores and boost clock: 512 FLOPs a clock and SM, as for the RTX 4090.
- A device that knows no bf16 (V100, T4, Turing) has its fp16 rate.
- A module whose halves a driver lists as two devices (MI250X) has one half of every figure.
- Where documents of a vendor disagree on bandwidth or memory, the higher figure stands, because nothing may exceed it.

A device is left out if no document is known, if its rates are in dispute, or if one name stands for several devices:
H800 (SXM or PCIe), RTX 2080 Ti (two clocks), RTX PRO 6000 Server and Max-Q, MI100 (its bf16 is half of its fp16).
"""

from __future__ import annotations

import csv
from pathlib import Path

Sheet = tuple[tuple[str, ...], float, float, float, str]
"""Names (the driver's first), TFLOP/s, GB/s of memory bandwidth, GB of memory as the vendor counts, and the document.

Vendors print 80 GB for 80 GiB. Where one name covers two sizes of memory, the larger stands.
"""


def _read(table: Path) -> tuple[Sheet, ...]:
    with table.open(encoding="utf-8", newline="") as lines:
        _, *rows = csv.reader(lines)
    return tuple(
        (tuple(names.split("; ")), float(tflops), float(bandwidth), float(memory), document)
        for names, tflops, bandwidth, memory, document in rows
    )


SHEETS = _read(Path(__file__).with_suffix(".csv"))
"""The known devices: of data centres, of workstations and of consumers, a line each."""
