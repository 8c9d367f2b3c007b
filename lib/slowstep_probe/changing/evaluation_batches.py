"""The seconds of an evaluation that do not grow with its size, told by its first batches and its later ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class EvaluationBatches:
    """The batches of an evaluation by a Trainer, which begins now: the `first` of them, and the later ones."""

    def __init__(self, trainer: Any, first: int):
        self._trainer, self._first = trainer, first
        self._count = 0
        self._began = self._first_ended = _now()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the Trainer's batches while the block runs."""
        trainer = self._trainer
        own, evaluate = vars(trainer).get("prediction_step"), trainer.prediction_step

        def noted(*args: Any, **kwargs: Any) -> Any:
            result = evaluate(*args, **kwargs)
            self._count += 1
            if self._count == self._first:
                self._first_ended = _now()
            return result

        trainer.prediction_step = noted
        try:
            yield
        finally:
            del trainer.prediction_step
            if own is not None:
                trainer.prediction_step = own

    def fixed(self) -> float:
        """Return the seconds of the evaluation, which ends now, that do not grow with its size; 0 if it is too short.

        They are what the first batches took beyond as many of the later ones: to start workers, to set up, to compile.
        """
        later = self._count - self._first
        if later < 1:
            return 0.0
        each = (_now() - self._first_ended) / later
        return max(0.0, self._first_ended - self._began - self._first * each)


def _now() -> float:
    """Return the time in seconds, when the device has done what it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()
