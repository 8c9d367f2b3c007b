"""Saving and evaluating by a Trainer of a program, each made to happen between two steps when it is asked for."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from slowstep_probe.changing.evaluation_batches import EvaluationBatches
from slowstep_probe.trial.program_hooks import EventResult

BATCHES = 16
"""The batches by which it is known how long an evaluation takes for each more. The job's own counts by its size."""


def trainer_events(trainer: Any, wanted: Collection[str]) -> dict[str, Callable[[], EventResult]]:
    """Return those of the events 'save' and 'evaluate' that a Trainer of transformers can be made to do."""
    if trainer is None:
        return {}
    able = {"save": _save, "evaluate": _evaluate}
    if eval_samples(trainer) is None:
        del able["evaluate"]
    return {event: lambda happen=happen: happen(trainer) for event, happen in able.items() if event in wanted}


def eval_samples(trainer: Any) -> int | None:
    """Return the samples of a Trainer's evaluation; None if it has none of a known length."""
    data = trainer.eval_dataset
    try:
        return len(data) if hasattr(data, "__getitem__") and not isinstance(data, Mapping) else None
    except TypeError:
        return None


def _save(trainer: Any) -> EventResult:
    with _by_itself(trainer):
        folder = Path(trainer._get_output_dir(trial=None)) / f"checkpoint-{trainer.state.global_step}"
        there = folder.exists()
        trainer._save_checkpoint(trainer.model, trial=None)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    return EventResult(bytes=size, clear=lambda: None if there else shutil.rmtree(folder, ignore_errors=True))


def _evaluate(trainer: Any) -> EventResult:
    first = max(1, trainer.args.dataloader_num_workers)  # workers that have started give a batch each at once
    some = min(len(trainer.eval_dataset), (first + BATCHES) * trainer.args.eval_batch_size)
    data = trainer.eval_dataset
    part = data.select(range(some)) if hasattr(data, "select") else torch.utils.data.Subset(data, range(some))
    with _by_itself(trainer):
        batches = EvaluationBatches(trainer, first)
        with batches.noted():
            trainer.evaluate(eval_dataset=part)
        fixed = batches.fixed()
    return EventResult(samples=some, fixed=fixed)


@contextmanager
def _by_itself(trainer: Any) -> Iterator[None]:
    """Let nothing else come of an event: no callback hears of it, and the state of training stays as it is."""
    handler, state, control = trainer.callback_handler, copy.deepcopy(trainer.state), copy.copy(trainer.control)
    callbacks, handler.callbacks = handler.callbacks, []
    loaders = getattr(trainer, "_eval_dataloaders", None)
    if loaders is not None:  # it keeps loaders by name, and would take one over all of the data
        trainer._eval_dataloaders = {}
    try:
        yield
    finally:
        handler.callbacks = callbacks
        if loaders is not None:
            trainer._eval_dataloaders = loaders
        trainer.state.__dict__.update(state.__dict__)
        trainer.control.__dict__.update(control.__dict__)
        trainer.model.train()
