"""The seconds of an evaluation that do not grow with its size, told by its batches and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from slowstep_probe.own_time import time
from slowstep_probe.patches import Patches

LOOP = "evaluation_loop"
"""The method of transformers' Trainer that goes over the batches and makes metrics of all of them."""


class EvaluationBatches:
    """The batches of an evaluation by a Trainer, which begins now: the `first` of them, and the later ones.

    What a subclass does once transformers' own loop is over has data of its own (an evaluator of sentence-transformers,
    texts that are generated for a few prompts), so it takes what it takes.
    """

    def __init__(self, trainer: Any, first: int):
        self._trainer, self._first = trainer, first
        self._count = 0
        self._began = self._first_ended = _now()
        self._loop_ended: float | None = None

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
        patches = Patches()
        for kind in [kind for kind in type(trainer).__mro__ if LOOP in vars(kind)][-1:]:  # that of transformers
            patches.after(kind, LOOP, self._loop_ends)
        try:
            yield
        finally:
            patches.remove()
            del trainer.prediction_step
            if own is not None:
                trainer.prediction_step = own

    def fixed(self) -> float:
        """Return the seconds of the evaluation, which ends now, that do not grow with its size; 0 if it is too short.

        They are what the first batches took beyond as many of the later ones (to start workers, to set up, to compile),
        and what came after the loop over all batches.
        """
        later, end = self._count - self._first, _now()
        if later < 1:
            return 0.0
        loop_ended = end if self._loop_ended is None else self._loop_ended
        each = (loop_ended - self._first_ended) / later
        return max(0.0, self._first_ended - self._began - self._first * each) + end - loop_ended

    def _loop_ends(self, _: Any, trainer: Any, *__: Any, **___: Any) -> None:
        if trainer is self._trainer:
            self._loop_ended = _now()


def _now() -> float:
    """Return the time in seconds, when the device has done what it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()
