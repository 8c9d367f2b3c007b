"""Device memory told in three ways beside nvidia-smi, a fit by sizes, and an allocator that is short of memory.

The three ways: what PyTorch's allocator holds, what the CUDA driver says of the device (`mem_get_info`), and NVML.
On a CPU there is no device memory, so the figures of a dry run are None and the goals stay open.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pynvml
import torch

from bench.gpu.limits import within
from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, NotYet, Part
from bench.gpu.runs import LANGUAGE, settings_of_run
from bench.gpu.scale import Scale
from bench.gpu.trials import arm_of, measurer_of, once
from slowstep.measure.device_telemetry import known
from slowstep.records import Status
from slowstep.settings import Settings

GIB = 2**30
BYTES_OF_A_WEIGHT = 16
"""fp32 weight, its gradient, and AdamW's two states: what full training keeps of each parameter."""

SCARCE = (1.0, 0.9)
"""The limits under which the largest run is trained once more, as parts of what it allocated."""

CHECKPOINTING = "training_arguments.gradient_checkpointing"
BATCH = "training_arguments.per_device_train_batch_size"
RIVALS = "memory"


def parts(scale: Scale) -> list[Part]:
    """Return the part."""
    grid = [(batch, on) for on in (False, True) for batch in (scale.batch // 4, scale.batch // 2, scale.batch)]
    largest = _name(scale.batch, False)
    return [
        Part(
            name="memory",
            title="memory three ways beside nvidia-smi, a fit by sizes, an allocator that is short",
            cells=[
                *(Cell(name=_name(*asked), measure=partial(_told, *asked), minutes=0.7) for asked in grid),
                *(
                    Cell(name=f"{part:.0%} of what it takes", measure=partial(_scarce, largest, part), minutes=0.8)
                    for part in SCARCE
                ),
            ],
            goals=[
                Goal(
                    asked="NVML over the driver's own figure, worst",
                    wanted="within 2 %",
                    value=lambda cells: _worst(cells, "nvml", "device"),
                    holds=lambda off: abs(off) <= 0.02,
                ),
                Goal(
                    asked="nvidia-smi over NVML, worst",
                    wanted="within 1 %",
                    value=lambda cells: _worst(cells, "nvidia_smi", "nvml"),
                    holds=lambda off: abs(off) <= 0.01,
                ),
                Goal(
                    asked="peaks by the fit, worst error",
                    wanted="within 10 %",
                    value=lambda cells: max(abs(row["error"]) for row in fitted(cells)),
                    holds=lambda error: error <= 0.1,
                ),
                Goal(
                    asked="runs short of memory that were noticed: retries of the allocator, or out of memory",
                    wanted=f"all {len(SCARCE)}",
                    value=_noticed,
                    holds=lambda count: count == len(SCARCE),
                ),
            ],
        )
    ]


def fitted(cells: Cells) -> list[Figures]:
    """Return each measured peak beside the fit: what parameters keep, and bytes a token of a batch.

    The bytes a token are fitted with and without checkpointing, by least squares of the relative error. Two cells at
    least of a kind are needed, else it has no rows; ValueError if there are no rows at all.
    """
    rows: list[Figures] = []
    for on in (False, True):
        known = [f for f in cells.values() if f.get("checkpointing") is on and (f.get("memory") or {}).get("allocated")]
        if len(known) < 2:
            continue
        peaks = np.array([f["memory"]["allocated"] for f in known], dtype=float)
        kept = np.array([f["parameters"] * BYTES_OF_A_WEIGHT for f in known], dtype=float)
        tokens = np.array([f["tokens"] for f in known], dtype=float)
        share, rest = tokens / peaks, 1 - kept / peaks
        each = float(share @ rest / (share @ share))
        rows += [
            {
                "tokens": int(t),
                "checkpointing": on,
                "measured_gib": peak / GIB,
                "fit_gib": (k + each * t) / GIB,
                "bytes_a_token": each,
                "error": (k + each * t) / peak - 1,
            }
            for t, k, peak in zip(tokens, kept, peaks, strict=True)
        ]
    if not rows:
        raise ValueError("no device memory was measured")
    return rows


def _name(batch: int, checkpointing: bool) -> str:
    return f"batch {batch}, checkpointing {'on' if checkpointing else 'off'}"


def _settings(batch: int, checkpointing: bool, bench: Bench, more: dict[str, Any]) -> Settings:
    return settings_of_run(LANGUAGE, bench, {BATCH: batch, CHECKPOINTING: checkpointing, **more})


def _told(batch: int, checkpointing: bool, bench: Bench) -> Figures:
    """Measure a block, and ask NVML and nvidia-smi while the trial still holds its memory."""
    settings = _settings(batch, checkpointing, bench, {})
    with measurer_of(settings, bench, "memory") as measurer:
        found = once(measurer, arm_of(settings, _name(batch, checkpointing)), bench.scale.block_seconds / 4)
        outside = {"nvml": _nvml(), "nvidia_smi": _nvidia_smi()}
    parameters = (found.get("observed") or {}).get("trained_parameters")
    return found | {
        "checkpointing": checkpointing,
        "tokens": batch * settings.dataset.max_length,
        "parameters": parameters,
        "told": outside | {name: found["memory"][name] for name in ("allocated", "reserved", "device")},
    }


def _scarce(largest: str, part: float, bench: Bench) -> Figures:
    """Train the largest run with a part of the memory that it allocated, so that the allocator has to give back."""
    known = bench.known(RIVALS).get(largest)
    if known is None:
        raise NotYet(f"it needs the cell {largest!r}")
    memory = known["memory"]
    limit = part * (memory["allocated"] or memory["host"]) / GIB
    settings = _settings(bench.scale.batch, False, bench, {"workload": within(max(limit, 0.01))})
    with measurer_of(settings, bench, "memory") as measurer:
        found = once(measurer, arm_of(settings, f"within {limit:.2f} GiB"), bench.scale.block_seconds / 4)
    return found | {"limit_gib": limit}


def _noticed(cells: Cells) -> int:
    short = [figures for figures in cells.values() if "limit_gib" in figures]
    if len(short) < len(SCARCE) or all(figures["memory"]["reserved"] is None for figures in short):
        raise ValueError("not measured")
    return sum(f["status"] == Status.OUT_OF_MEMORY or bool(f["memory"]["retries"]) for f in short)


def _worst(cells: Cells, what: str, by: str) -> float:
    """Return the largest relative difference of two ways to tell the device's memory."""
    pairs: Sequence[tuple[Any, Any]] = [(f["told"][what], f["told"][by]) for f in cells.values() if "told" in f]
    return max((a / b - 1 for a, b in pairs if a and b), key=abs)


def _nvml() -> int | None:
    """Return the bytes of the device that are in use, by NVML; None without a device.

    The first version of the call counts what the driver keeps for itself, too: 0.5 GB on an H100.
    """
    if not torch.cuda.is_available():
        return None
    device = known(str(torch.cuda.get_device_properties(0).uuid))
    if device is None:
        return None
    return pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2).used


def _nvidia_smi() -> int | None:
    """Return the bytes of the device that are in use, by nvidia-smi; None where there is none."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return int(done.stdout.strip()) * 2**20
