"""Seed 001 at its real size: Mistral-7B by QLoRA, cell by cell. A cell that runs out of memory is a result.

Each cell is one launch with one block. Limits of 24 and 80 GiB are those of the trial's process on the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.gpu.cases import investigation
from bench.gpu.limits import within
from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, Part
from bench.gpu.scale import Scale
from bench.gpu.trials import arm_of, measurer_of, once, settings_of
from slowstep.environment.machine import this_machine
from slowstep.judgement.devices import peak_of
from slowstep.measure.local import LocalMeasurer
from slowstep.records import Status
from slowstep.settings import Settings
from slowstep.settings.convert import to_plain

FILE = "params/case_001.yaml"
SMALL_LIMIT, LARGE_LIMIT = 24, 80
LEAST_GAIN = 1.5

CHECKPOINTING = "training_arguments.gradient_checkpointing"
BATCH = "training_arguments.per_device_train_batch_size"

VARIANTS: Mapping[str, dict[str, Any]] = {
    "as it is": {},
    "16-bit weights": {"quantization": None},
    "torch AdamW": {"training_arguments.optim": "adamw_torch_fused"},
    "8-bit AdamW, not paged": {"training_arguments.optim": "adamw_8bit"},
    "eager attention": {"model.attn_implementation": "eager"},
    "math attention": {"model.sdpa_backend": "math"},
    "efficient attention": {"model.sdpa_backend": "efficient"},
    "cudnn attention": {"model.sdpa_backend": "cudnn"},
    "flash attention 2": {"model.attn_implementation": "flash_attention_2"},
}
"""What is changed one by one, at the middle length and batch."""

EXPECTED_ENDS = {Status.OK, Status.OUT_OF_MEMORY, Status.NOT_TESTABLE}


def parts(scale: Scale) -> list[Part]:
    """Return a part for each length, one for single changes, and the whole investigation of the seed."""
    lengths = [_of_length(length, scale) for length in scale.lengths]
    middle = scale.lengths[len(scale.lengths) // 2], scale.batches[len(scale.batches) // 2]
    variants = Part(
        name="seed001-variants",
        title="seed 001: weights, optimizers and attention, one by one",
        cells=[
            Cell(name=name, measure=partial(cell, *middle, LARGE_LIMIT, changes), minutes=0.8)
            for name, changes in VARIANTS.items()
        ],
        goals=[_no_crash()],
    )
    whole = Part(
        name="seed001-final",
        title="seed 001: the whole investigation, its final configuration, and the ceiling of products",
        cells=[
            Cell(name="ceiling", measure=ceiling, minutes=0.3),
            Cell(name="investigation", measure=partial(investigation, "001"), minutes=7.5),
        ],
        goals=[
            Goal(
                asked="final configuration over the baseline, useful tokens a second",
                wanted=f"at least {LEAST_GAIN} times",
                value=lambda cells: cells["investigation"]["final"]["ratio"],
                holds=lambda ratio: ratio >= LEAST_GAIN,
            ),
            Goal(
                asked="highest MFU of a cell, by the measured ceiling",
                wanted="above 0 and below 1",
                value=lambda cells: _most_flops(cells) / (1e12 * cells["ceiling"]["tflops"]),
                holds=lambda mfu: 0 < mfu < 1,
            ),
        ],
        room=(*(part.name for part in lengths), "seed001-final"),
    )
    return [*lengths, variants, whole]


def settings_of_cell(length: int, batch: int, limit: int, changes: Mapping[str, Any], bench: Bench) -> Settings:
    """Return the settings of a cell: packed sequences, so that each position is a useful token."""
    return settings_of(
        FILE,
        {
            "workload": within(limit),
            "model.config": bench.scale.mistral,
            "dataset.max_length": length,
            "dataset.padding": "packing",
            "dataset.tokenize": "once",
            "dataset.num_samples": 4000,
            BATCH: batch,
            "budget.memory_limit_gib": bench.scale.host_limit_gib[limit],
            "compute": {},  # a cell tries no levels, and those of the file don't fit all cells
            "sequence_length": {},
            **changes,
        },
        bench,
    )


def cell(length: int, batch: int, limit: int, changes: Mapping[str, Any], bench: Bench) -> Figures:
    """Measure one cell."""
    settings = settings_of_cell(length, batch, limit, changes, bench)
    with measurer_of(settings, bench, "seed001") as measurer:
        found = once(measurer, arm_of(settings, f"{length} x {batch} within {limit} GiB"), bench.scale.block_seconds)
    return found | {"length": length, "batch": batch, "limit_gib": limit}


def ceiling(bench: Bench) -> Figures:
    """Measure what the device reaches in products of matrices, beside its data sheet."""
    with LocalMeasurer(settings_of(FILE, {}, bench).budget, bench.work / "logs") as measurer:
        peak = measurer.peak(bench.scale.dtype)
    sheet = peak_of(this_machine().gpu)
    if peak is None:
        raise RuntimeError("the product of two matrices could not be measured")
    return to_plain(peak) | {"data_sheet_tflops": sheet.tflops if sheet else None}


def _of_length(length: int, scale: Scale) -> Part:
    large = scale.batches[-2:]
    cells = {f"batch {batch}": (batch, LARGE_LIMIT, {}) for batch in scale.batches}
    cells |= {f"batch {batch} within {SMALL_LIMIT} GiB": (batch, SMALL_LIMIT, {}) for batch in large}
    middle = scale.batches[len(scale.batches) // 2]
    for limit in (SMALL_LIMIT, LARGE_LIMIT):
        cells[f"batch {middle} without checkpointing within {limit} GiB"] = (middle, limit, {CHECKPOINTING: False})
    named = {f"{length}, {name}": asked for name, asked in cells.items()}
    return Part(
        name=f"seed001-{length}",
        title=f"seed 001: length {length}, batch sizes, limits of memory",
        cells=[
            Cell(name=name, measure=partial(cell, length, *asked), minutes=0.6 + asked[0] * length / 2**17)
            for name, asked in named.items()
        ],
        goals=[
            _no_crash(),
            Goal(
                asked=f"cells out of memory within {SMALL_LIMIT} GiB or {LARGE_LIMIT} GiB, kept as results",
                wanted="1 or more",
                value=lambda cells: sum(figures["status"] == Status.OUT_OF_MEMORY for figures in cells.values()),
                holds=lambda count: count >= 1,
            ),
        ],
    )


def _no_crash() -> Goal:
    return Goal(
        asked="cells that ended in another way than trained, out of memory, or not testable here",
        wanted="0",
        value=lambda cells: sum(figures["status"] not in EXPECTED_ENDS for figures in cells.values()),
        holds=lambda count: count == 0,
    )


def _most_flops(cells: Cells) -> float:
    """Return the most FLOP/s that the useful tokens of a cell needed."""
    known = [figures.get("needed_flops_per_second") for figures in cells.values()]
    return max(flops for flops in known if flops)
