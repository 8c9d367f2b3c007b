"""What an evaluation takes whatever its size, told by its batches."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from slowstep_probe.changing import evaluation_batches
from slowstep_probe.changing.evaluation_batches import EvaluationBatches
from slowstep_probe.changing.trainer_events import trainer_events


class Evaluates:
    """A Trainer whose evaluation takes seconds of a clock to start, and a quarter of one for each batch of two."""

    def __init__(self, clock: SimpleNamespace, workers: int, samples: int, by_batches: bool = True):
        self.args = SimpleNamespace(eval_batch_size=2, dataloader_num_workers=workers)
        self.eval_dataset = list(range(samples))
        self.state, self.control = SimpleNamespace(), SimpleNamespace()
        self.callback_handler, self.model = SimpleNamespace(callbacks=[]), SimpleNamespace(train=lambda: None)
        self._clock, self._by_batches = clock, by_batches

    def prediction_step(self) -> None:
        pass

    def evaluate(self, eval_dataset: list[int]) -> None:
        self._clock.now += 5.0
        self.evaluation_loop(eval_dataset)

    def evaluation_loop(self, eval_dataset: list[int]) -> None:
        for number in range(-(-len(eval_dataset) // 2)):
            workers = max(1, self.args.dataloader_num_workers)
            self._clock.now += 0.25 * workers * (number % workers == 0)  # those of all workers come at once
            if self._by_batches:
                self.prediction_step()


class EvaluatesItsOwn(Evaluates):
    """A Trainer that, like that of sentence-transformers, has an evaluator with data of its own for 30 seconds."""

    def evaluation_loop(self, eval_dataset: list[int]) -> None:
        super().evaluation_loop(eval_dataset)
        self._clock.now += 30.0


@pytest.mark.parametrize(
    ("workers", "samples", "by_batches", "fixed", "seen"),
    [
        (0, 1000, True, 5.0, 34),
        (4, 1000, True, 5.0, 40),
        (0, 2, True, 0.0, 2),  # it is whole
        (0, 1000, False, 0.0, 34),
    ],
)
def test_the_set_up_of_an_evaluation_is_told_apart(
    workers: int, samples: int, by_batches: bool, fixed: float, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five seconds do not grow with the data set, however many workers it has. Nothing of it stays with the Trainer."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(evaluation_batches, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    trainer = Evaluates(clock, workers, samples, by_batches)
    done = trainer_events(trainer, ["evaluate"])["evaluate"]()

    assert (done.samples, done.fixed) == (seen, pytest.approx(fixed))
    assert "prediction_step" not in vars(trainer)


def test_what_follows_the_loop_over_the_batches_is_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluator of a subclass takes as long for a part of the data as for all of it. The class is as it was."""
    clock, loop = SimpleNamespace(now=0.0), Evaluates.evaluation_loop
    monkeypatch.setattr(evaluation_batches, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    done = trainer_events(EvaluatesItsOwn(clock, 0, 1000), ["evaluate"])["evaluate"]()

    assert (done.samples, done.fixed) == (34, pytest.approx(35.0))
    assert Evaluates.evaluation_loop is loop


def test_an_evaluation_that_fails_leaves_nothing_behind() -> None:
    """A function that the program had set on its Trainer is there again."""

    class Fails(Exception):
        pass

    trainer = Evaluates(SimpleNamespace(now=0.0), 0, 4)
    trainer.prediction_step = own = lambda: None
    with contextlib.suppress(Fails), EvaluationBatches(trainer, 1).noted():
        trainer.prediction_step()
        raise Fails

    assert trainer.prediction_step is own
