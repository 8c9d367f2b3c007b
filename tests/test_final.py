"""The search for the final configuration, and the script that trains with it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from simulated import around, contrast, pairs, record
from slowstep.factors import Arm, label
from slowstep.final.choice import Candidate, finalists, ranked
from slowstep.final.script import script
from slowstep.judgement.verdict import before_trial, judge
from slowstep.records import ComparisonRecord, Memory, Status, TrialRecord
from slowstep.settings import Settings, override
from slowstep.summary import Measured
from slowstep.trials.session import Session

GIB = 2**30


@pytest.fixture
def supported(quick: Settings) -> Callable[..., Measured]:
    """A change that was measured: `supported(0.2, 3, optim="sgd")` brings 20 % and takes 3 GiB more."""

    def make(gain: float, gibibytes: float, **levels: object) -> Measured:
        made = contrast(quick, **levels)
        found = record(pairs(around(gain)), observed=made.expects)
        with_memory = ComparisonRecord(
            baseline=trial(found.baseline, 10), treatment=trial(found.treatment, 10 + gibibytes), pairs=found.pairs
        )
        verdict = judge(before_trial(made, None, 0.05, None), made, with_memory, 0.05, "cuda")
        return Measured(contrast=made, verdict=verdict, record=with_memory)

    def trial(of: TrialRecord, gibibytes: float) -> TrialRecord:
        return replace(of, memory=Memory(reserved=int(gibibytes * GIB), limit=24 * GIB))

    return make


def labels(candidates: Sequence[Candidate]) -> list[str]:
    return [label(candidate.picks) for candidate in candidates]


def test_gains_multiply_until_they_are_measured_together(supported: Callable[..., Measured]) -> None:
    """Two changes whose combination was measured to bring less than each other's product stand by what was measured."""
    apart = [supported(0.2, 0, gradient_checkpointing=False), supported(0.3, 0, per_device_train_batch_size=8)]
    together = supported(0.25, 0, gradient_checkpointing=False, per_device_train_batch_size=8)
    both = "gradient_checkpointing=false + per_device_train_batch_size=8"

    assert labels(ranked(apart, apart, 14 * GIB))[0] == both
    assert labels(ranked([*apart, together], [*apart, together], 14 * GIB)) == [
        "per_device_train_batch_size=8",
        both,
        "gradient_checkpointing=false",
    ]


def test_changes_that_want_the_same_memory_are_not_combined(supported: Callable[..., Measured]) -> None:
    """Each fits beside the baseline, both together do not: the search takes the better one, with what still fits."""
    found = [
        supported(0.3, 9, gradient_checkpointing=False),
        supported(0.2, 9, per_device_train_batch_size=16),
        supported(0.1, 1, optim="adamw_bnb_8bit"),
    ]
    best = ranked(found, found, 12 * GIB)[0]

    assert labels([best]) == ["gradient_checkpointing=false + optim=adamw_bnb_8bit"]
    assert len(ranked(found, found, 100 * GIB)[0].picks) == 3


def test_a_level_seen_only_with_another_is_not_taken_alone(supported: Callable[..., Measured]) -> None:
    """What a batch of 16 brings without checkpointing says nothing of it with checkpointing."""
    cell = supported(0.4, 0, gradient_checkpointing=False, per_device_train_batch_size=16)

    assert labels(ranked([cell], [cell], 100 * GIB)) == [
        "gradient_checkpointing=false + per_device_train_batch_size=16"
    ]


def test_finalists_are_real_alternatives(supported: Callable[..., Measured]) -> None:
    """A combination with a gain left out challenges no one, nor does one that is much slower; another level does."""
    found = [
        supported(0.3, 0, dataloader_num_workers=1),
        supported(0.29, 0, dataloader_num_workers=2),
        supported(0.12, 0, dataloader_num_workers=3),
        supported(0.1, 0, gradient_checkpointing=False),
    ]

    assert labels(finalists(ranked(found, found, 100 * GIB))) == [
        "dataloader_num_workers=1 + gradient_checkpointing=false",
        "dataloader_num_workers=2 + gradient_checkpointing=false",
    ]


def test_levels_that_contradict_each_other_are_not_combined(supported: Callable[..., Measured]) -> None:
    """A batch of 16, and the effective batch of 4 in two parts of 2, can't both be."""
    found = [supported(0.3, 0, per_device_train_batch_size=16), supported(0.2, 0, gradient_accumulation_steps=2)]

    assert all(len(c.picks) == 1 for c in ranked(found, found, 100 * GIB))


def test_what_was_measured_together_in_vain_is_remembered(supported: Callable[..., Measured]) -> None:
    """A cell that brought nothing does not lead the ranking because its parts did; one that did not fit is left out."""
    parts = [supported(0.2, 0, gradient_checkpointing=False), supported(0.3, 0, per_device_train_batch_size=16)]
    vain = supported(0.01, 0, gradient_checkpointing=False, per_device_train_batch_size=16)
    full = replace(vain, verdict=replace(vain.verdict, effect=None, status=Status.OUT_OF_MEMORY))

    assert labels(ranked(parts, [*parts, vain], 100 * GIB))[0] == "per_device_train_batch_size=16"
    assert len(ranked(parts, [*parts, full], 100 * GIB)) == 2


JOB = {"job.samples": 64, "job.epochs": 1.0, "training_arguments.eval_strategy": "no"}
RUNS = {
    "LoRA with checkpointing": {"training_arguments.gradient_checkpointing_kwargs": {"every_n_layers": 2}},
    "tokenised once, padded": {
        "dataset.tokenize": "once",
        "dataset.padding": "max_length",
        "dataset.storage": "in_memory",
    },
    "packed": {"dataset.tokenize": "once", "dataset.padding": "packing", "dataset.max_length": 128},
    "grouped by length": {
        "dataset.tokenize": "once",
        "training_arguments.train_sampling_strategy": "group_by_length",
    },
    "whole model in bf16": {"peft": None, "training_arguments.bf16": True, "model.sdpa_backend": "math"},
    "own optimizer": {"optimizer_kwargs": {"foreach": True}, "dataset.batched_fetching": True},
    "one by one": {"dataset.tokenize": "once", "dataset.batched_fetching": False},
}


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_the_script_trains_as_the_trial_did(changes: dict, smoke: Settings, session: Session, tmp_path: Path) -> None:
    """final/train.py, run by itself, has the losses of the trial that chose it, and ends with a saved model."""
    settings = override(smoke, JOB | {"training_arguments.logging_steps": 1, "name": "own"} | changes)
    path = tmp_path / "train.py"
    path.write_text(script(settings), encoding="utf-8")
    command = [sys.executable, str(path), "--max_steps", "4", "--output_dir", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [float(found) for found in re.findall(r"'loss': '?([\d.]+)", done.stdout)]
    try:
        trial = session.launch(Arm(label="trial", settings=settings), "script").record
    finally:
        session.end("script")

    assert len(losses) == 4
    assert losses == pytest.approx(trial.losses[:4], rel=1e-3)
    assert list((tmp_path / "out").glob("*.safetensors"))


def test_the_script_is_plain(smoke: Settings) -> None:
    """It imports nothing of the kit, and no line of it is needlessly long."""
    text = script(smoke)
    modules = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}

    assert not any(module.startswith("slowstep") for module in modules)
    assert max(map(len, text.splitlines())) <= 120
