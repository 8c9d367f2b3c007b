"""The workloads beside the fine-tune by Trainer: a loop written by hand, and records in a memory-mapped file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recording import record
from slowstep.environment.machine import this_machine
from slowstep.factors import Arm, combine
from slowstep.factors.catalogue import CATALOGUE
from slowstep.measure.local import LocalMeasurer
from slowstep.records import TrialRecord
from slowstep.settings import Settings, load, override
from slowstep.workloads.memory_mapped import MemoryMappedWorkload, Records, Stack
from slowstep.workloads.plain_loop import PlainLoop

PARAMS = Path(__file__).resolve().parents[1] / "params"


@pytest.fixture(scope="module")
def loop(smoke: Settings) -> Settings:
    return override(smoke, {"workload": "plain_loop"})


@pytest.fixture(scope="module")
def records() -> Settings:
    small = {"dataset.num_samples": 600, "job.samples": 600, "training_arguments.per_device_train_batch_size": 16}
    return override(load(PARAMS / "case_004_small.yaml").settings, small)


def trial(measurer: LocalMeasurer, settings: Settings) -> TrialRecord:
    """A trial of the settings, once it is warm."""
    try:
        return measurer.pool.launch(Arm(label="only", settings=settings), "only").record
    finally:
        if "only" in measurer.pool.live:
            measurer.pool.end("only")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataloader_num_workers", 1),
        ("dataloader_persistent_workers", True),
        ("tokenize", "once"),
        ("precision", "bf16"),
        ("optim", "adamw_torch_fused"),
        ("gradient_checkpointing", False),
        ("per_device_train_batch_size", 8),
        ("gradient_accumulation_steps", 2),
        ("cached_batches", 20),
    ],
)
def test_a_plain_loop_takes_the_factors_effect(
    loop: Settings, measurer: LocalMeasurer, name: str, value: object
) -> None:
    """What the level expects is what the loop really has."""
    factor = CATALOGUE[name]
    made = combine(loop, [(factor, factor.level(value, loop.run))], this_machine())
    seen = trial(measurer, made.treatment.settings).observed

    assert made.expects == {fact: seen.get(fact) for fact in made.expects}


def test_a_plain_loop_is_measured_by_its_phases(loop: Settings, tmp_path: Path) -> None:
    """Data, forward, backward and optimizer are told apart, and every sample is counted."""
    workload = PlainLoop(override(loop, {"training_arguments.gradient_accumulation_steps": 2}), tmp_path)
    workload.prepare_data()
    workload.build_model()
    workload.build_trainer()
    block = record(workload.train, 3).block

    assert block.work.samples == 3 * 2 * 4
    assert all(block.phases[phase] > 0 for phase in ("data", "forward", "backward", "optimizer"))


def test_a_plain_loop_learns(loop: Settings, measurer: LocalMeasurer) -> None:
    """Its loss is that of a model that guesses, and then less."""
    seen = trial(measurer, override(loop, {"training_arguments.learning_rate": 1e-2, "peft": None})).losses

    assert seen[0] == pytest.approx(np.log(512), rel=0.1)
    assert seen[-1] < seen[0]


def test_records_are_read_alike_one_by_one_and_together(records: Settings, tmp_path: Path) -> None:
    """In whatever order a batch is asked for, and twice the same index too."""
    workload = MemoryMappedWorkload(records, tmp_path)
    workload.prepare_data()
    source: Records = workload.source
    indices = [7, 3, 3, 599, 0]
    one, together = Stack()([source[i] for i in indices]), Stack()(source.__getitems__(indices))

    assert all(torch.equal(one[key], together[key]) for key in one)
    assert one["pixel_values"].shape == (5, 24, 9, 9)


def test_a_batch_of_records_has_samples_and_no_tokens(records: Settings, tmp_path: Path) -> None:
    """So its speed is samples a second."""
    workload = MemoryMappedWorkload(records, tmp_path)
    workload.prepare_data()
    workload.build_model()
    workload.build_trainer()
    block = record(workload.train, 2).block

    assert (32, None) == (block.work.samples, block.work.useful_tokens)


@pytest.mark.parametrize(("name", "value"), [("batched_fetching", True), ("dataloader_num_workers", 2)])
def test_records_take_the_factors_effect(records: Settings, measurer: LocalMeasurer, name: str, value: object) -> None:
    """Of how they are read."""
    factor = CATALOGUE[name]
    made = combine(records, [(factor, factor.level(value, records.run))], this_machine())
    seen = trial(measurer, made.treatment.settings).observed

    assert made.expects == {fact: seen.get(fact) for fact in made.expects}
    assert made.expects != {fact: trial(measurer, records).observed.get(fact) for fact in made.expects}


SMALL_DECODER = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
}
SMALL_NETWORK = {"num_channels": 104, "embedding_size": 8, "hidden_sizes": [8], "depths": [1], "num_labels": 16}
TEXTS = {"dataset.max_length": 32, "dataset.num_samples": 200, "training_arguments.dataloader_num_workers": 0}
SCALED_DOWN = {
    "case_000": TEXTS
    | {"model.config": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1024}}
    | {"training_arguments.deepspeed": None},  # which takes its own package
    "case_001": TEXTS | {"model.config": SMALL_DECODER},
    "case_002": TEXTS | {"model.config": SMALL_DECODER},
    "case_003": TEXTS | {"model.config": SMALL_DECODER, "training_arguments.tf32": False},
    "case_004": {
        "model.config": SMALL_NETWORK,
        "dataset.num_samples": 2000,
        "training_arguments.per_device_train_batch_size": 32,
    },
}


@pytest.mark.parametrize("name", SCALED_DOWN)
def test_a_whole_case_trains_once_its_model_is_small(name: str, measurer: LocalMeasurer) -> None:
    """Workload, data, quantisation and arguments of the five investigations, with the size alone taken away."""
    settings = override(load(PARAMS / f"{name}.yaml").settings, SCALED_DOWN[name])
    record = trial(measurer, settings)
    asked = ("per_device_train_batch_size", "gradient_accumulation_steps", "dataloader_num_workers")
    bits = 4 if settings.quantization else {"float32": 32, "bfloat16": 16}[settings.model.dtype]

    assert {n: settings.training(n) for n in asked} == {n: record.observed[n] for n in asked}
    assert bits == record.observed["weight_bits"]
    assert record.losses
