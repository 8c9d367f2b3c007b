"""Frozen weights are built once for all trials, which train on them as on their own and can't disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slowstep.factors import Arm
from slowstep.judgement.comparison import result_of
from slowstep.judgement.notes import notes_on
from slowstep.judgement.stopping import StopRule
from slowstep.launch import frozen_bases
from slowstep.launch.frozen_bases import base_of, is_shared, parameters
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import TrialRecord
from slowstep.settings import Settings, override
from slowstep.settings.schema import Budget, Model

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

FOUR_BIT = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
FACTS = ("frozen_bytes_shared", "frozen_bytes_own", "frozen_bytes_written")

Launch = Callable[..., TrialRecord]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest model counts as one that is worth sharing."""
    monkeypatch.setattr(frozen_bases, "SMALL", 0.0)


@pytest.fixture(scope="module")
def launch(smoke: Settings, budget: Budget, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Launches a run of the smoke file with changes, and returns the record of its trial."""
    with LocalMeasurer(budget, tmp_path_factory.mktemp("logs")) as measurer:

        def launched(**changes: Any) -> TrialRecord:
            settings = override(smoke, {key.replace("__", "."): value for key, value in changes.items()})
            try:
                return measurer.pool.launch(Arm(label="trial", settings=settings), "trial").record
            finally:
                measurer.pool.keep_only(set())

        yield launched


@pytest.mark.trials
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"quantization": FOUR_BIT, "model__attn_implementation": "eager"},
        pytest.param({"quantization": {"load_in_8bit": True}}, marks=pytest.mark.exhaustive),
        pytest.param({"workload": "plain_loop", "model__dtype": "bfloat16"}, marks=pytest.mark.exhaustive),
        pytest.param({"peft__use_dora": True, "training_arguments__bf16": True}, marks=pytest.mark.exhaustive),
    ],
    ids=["32 bit", "4 bit, eager attention", "8 bit", "16 bit, a plain loop", "DoRA"],
)
def test_training_on_a_shared_base_is_the_same_training(
    changes: dict[str, Any], launch: Launch, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All losses agree in all digits, nothing of the base is the trial's own, and no page of it was written to.

    What the trial's start would have taken alone is told: the building of the base is part of it.
    """
    shared = launch(**changes)
    monkeypatch.setattr(frozen_bases, "is_shared", lambda settings: False)
    own = launch(**changes)
    common = min(len(shared.losses), len(own.losses))

    assert shared.losses[:common] == own.losses[:common] != []
    held, private, written = (shared.observed[fact] for fact in FACTS)
    assert (held > 0, private, written) == (True, 0, 0)
    assert not own.observed.keys() & set(FACTS)
    assert shared.observed.get("attn_implementation") == own.observed.get("attn_implementation")
    assert shared.startup["base"] > 0
    assert "base" not in own.startup


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("quantization", [None, FOUR_BIT, {"load_in_8bit": True}], ids=["plain", "4 bit", "8 bit"])
def test_a_base_is_copied_to_a_device_as_it_would_be_built_there(
    quantization: dict[str, Any] | None, launch: Launch, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All losses agree in all digits. The trial that builds its own says by its start that it does."""
    copied = launch(quantization=quantization)
    monkeypatch.setattr(frozen_bases, "is_shared", lambda settings: False)
    own = launch(quantization=quantization)
    common = min(len(copied.losses), len(own.losses))

    assert copied.observed["device"] == "cuda"
    assert copied.losses[:common] == own.losses[:common] != []
    assert "base" in copied.startup.keys() - own.startup.keys()


@pytest.mark.trials
def test_a_trial_that_writes_to_the_base_disturbs_no_other(
    launch: Launch, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a copy of the pages that it writes to, and that is told. The others' losses stay as they are."""
    before = launch()
    name = "workloads_on_a_base:MergesItsAdapter"
    monkeypatch.setattr(frozen_bases, "WORKLOADS", (*frozen_bases.WORKLOADS, name))
    writes, after = launch(workload=name), launch()
    common = min(len(before.losses), len(after.losses))

    assert writes.observed["frozen_bytes_written"] > 0
    assert after.losses[:common] == before.losses[:common]
    assert after.observed["frozen_bytes_written"] == 0


@pytest.mark.trials
def test_what_is_written_after_the_warm_up_is_told(
    smoke: Settings, budget: Budget, tmp_path: Path, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base is looked at again when a comparison ends, and its reader is told."""
    name = "workloads_on_a_base:MergesItLate"
    monkeypatch.setattr(frozen_bases, "WORKLOADS", (*frozen_bases.WORKLOADS, name))
    arm = Arm(label="late", settings=override(smoke, {"workload": name}))
    with LocalMeasurer(replace(budget, launches=1), tmp_path) as measurer:
        record = measurer.compare(
            ComparisonRequest(baseline=arm, treatment=arm, stop=StopRule(max_pairs=12), twin=True)
        )
        before = measurer.pool.launch(arm, "another").record

    assert before.observed["frozen_bytes_written"] == 0
    assert record.baseline.observed["frozen_bytes_written"] > 0
    notes = notes_on(record, result_of(record.pairs), None, exact=False)
    assert sum("of the frozen weights that trials share" in note for note in notes) == 2


@pytest.mark.trials
def test_a_base_counts_once_beside_a_trial_that_maps_it(launch: Launch, large: None, smoke: Settings) -> None:
    shared = override(smoke, {"peft.lora_alpha": 64})
    assert base_of(shared) == base_of(smoke) is not None
    assert base_of(override(smoke, {"model.dtype": "bfloat16"})) not in (None, base_of(smoke))
    assert base_of(override(smoke, {"peft": None})) is None


@pytest.mark.trials
def test_a_base_that_can_not_be_built_is_the_trials_own_failure(
    launch: Launch, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who builds it fails; the trial then builds its own, and says in its own words what fails, or goes on."""
    monkeypatch.setattr(frozen_bases, "BUILD", "slowstep.workloads.build_base:no_such_function")

    assert "frozen_bytes_shared" not in launch(training_arguments__seed=7).observed


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({}, True),
        ({"peft": {"r": 4, "use_dora": True, "target_modules": ["q_proj"]}}, True),
        ({"peft": {"init_lora_weights": "gaussian"}}, True),
        ({"peft": {"init_lora_weights": "pissa"}}, False),
        ({"peft": {"bias": "all"}}, False),
        ({"peft": {"an_option_that_is_new": 1}}, False),
        ({"peft": None}, False),
        ({"workload": "memory_mapped"}, False),
        ({"workload": "own_module:Class"}, False),
    ],
)
def test_what_may_write_to_the_base_builds_its_own(
    changes: dict[str, Any], shared: bool, smoke: Settings, large: None
) -> None:
    """In doubt a trial has its own: adapters that change the base, full fine-tuning, workloads that nobody knows."""
    assert shared is is_shared(replace(smoke, **changes))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 11008, "vocab_size": 32000}, 6.7e9),
        ({"n_embd": 768, "n_layer": 12, "vocab_size": 50257}, 0.17e9),
        ({"vocab_size": 512}, None),
    ],
)
def test_the_size_of_a_model_is_known_roughly_from_its_configuration(
    config: dict[str, Any], expected: float | None
) -> None:
    """Llama-2-7B, GPT-2 (counted with a gate that it has not), and one that leaves its sizes to the defaults."""
    found = parameters(Model(init="random", model_type="llama", config=config))

    assert found == (expected and pytest.approx(expected, rel=0.3))
    assert parameters(Model(init="pretrained", name_or_path="somewhere", config=config)) is None
