"""Sleeps of known length planted at each place of a training: do they come back in their phase, and in no other?

A real Trainer with a tiny model, so that what it does itself takes next to nothing; that little is measured without the
sleep and taken off. Each step is a block of its own, and the median step is held against the plan: this asks where the
probe puts time, and not how steady the machine is.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import UserDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowstep.launch.run_in_subprocess import run_in_subprocess
from slowstep.records import PHASES
from slowstep.settings.convert import from_plain
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

SLEEP = 0.2
STEPS = 9
WARM_STEPS = 3
WORKERS = (0, 2)
ACCUMULATION = (1, 4)

PLACES = {
    "sampler": "data",
    "copy": "host_to_device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "on_log": "log",
    "on_save": "save",
    "on_evaluate": "evaluate",
    "on_step_end": "other",
}
"""Places where the sleep is planted, each with the phase that it belongs to."""

EVENTS = {
    "on_log": {"logging_steps": 1},
    "on_save": {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1},
    "on_evaluate": {"eval_strategy": "steps", "eval_steps": 1},
}
"""Training arguments that make something happen in each step; only where it is asked for, since its own time varies."""

EACH_MICRO_BATCH = ("sampler", "copy", "forward", "backward")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One training: where it sleeps, or would."""

    place: str
    workers: int
    accumulation: int
    sleeps: bool = True


class Carried(UserDict):
    """A batch whose way to the device takes a while."""

    seconds = 0.0

    def to(self, *_: Any, **__: Any) -> dict[str, Any]:
        """The batch, there."""
        time.sleep(self.seconds)
        return dict(self)


def measure() -> dict[str, Any]:
    """All places under all settings."""
    rows = []
    for workers, accumulation in itertools.product(WORKERS, ACCUMULATION):
        for place, phase in PLACES.items():
            plan = Plan(place=place, workers=workers, accumulation=accumulation)
            own, found = _phases(replace(plan, sleeps=False)), _phases(plan)
            planted = SLEEP * (accumulation if place in EACH_MICRO_BATCH else 1)
            seconds = {p: found[p] - own[p] for p in PHASES}
            # a loader that lags behind steps of nothing keeps up beside a sleep: less time elsewhere is no mistake
            wrong = {p: (abs(s - planted) if p == phase else max(0.0, s)) / planted for p, s in seconds.items()}
            rows.append(
                {
                    "workers": workers,
                    "accumulation": accumulation,
                    "place": place,
                    "phase": phase,
                    "planted, s": planted,
                    "came back, s": round(seconds[phase], 4),
                    "error": max(wrong.values()),
                    "largest elsewhere": max(wrong[p] for p in PHASES if p != phase),
                }
            )
        worst = max(r["error"] for r in rows)
        print(f"attribution: {workers} workers, accumulation {accumulation}: worst so far {worst:.2%}", flush=True)
    return {"attribution_error_max": max(r["error"] for r in rows), "rows": rows}


def _phases(plan: Plan) -> dict[str, float]:
    """Seconds a phase of the median step, trained in a process of its own."""
    return run_in_subprocess(f"{__name__}:train", plan)


def train(wire: Wire, given: dict[str, Any]) -> None:
    """Train as a plan says, and answer the seconds of each phase of the median step."""
    import torch
    from torch import nn
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    from slowstep_probe.probe.probe import Probe

    plan = from_plain(Plan, given)
    torch.set_num_threads(1)  # threads that fell asleep beside the planted sleep take their time to come back

    def here(place: str) -> None:
        if plan.sleeps and plan.place == place and not evaluating:
            time.sleep(SLEEP)

    class Slept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            here("forward")
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            here("backward")
            return gradient

    class Tiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(11, 4), nn.Linear(4, 11)

        def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
            logits = self.head(Slept.apply(self.embed(input_ids)))
            return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}

    class Sampler(torch.utils.data.Sampler):
        def __len__(self) -> int:
            return 10_000

        def __iter__(self) -> Iterator[int]:
            for i in range(len(self)):
                here("sampler")
                yield i

    class Told(TrainerCallback):
        def on_log(self, *_: Any, **__: Any) -> None:
            here("on_log")

        def on_save(self, *_: Any, **__: Any) -> None:
            here("on_save")

        def on_evaluate(self, *_: Any, **__: Any) -> None:
            if plan.sleeps and plan.place == "on_evaluate":
                time.sleep(SLEEP)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            here("on_step_end")

    class OwnSampler(Trainer):
        def _get_train_sampler(self, *_: Any) -> Sampler:
            return Sampler()

        def get_eval_dataloader(self, *_: Any) -> torch.utils.data.DataLoader:
            return torch.utils.data.DataLoader(examples[:1], collate_fn=collate)  # without workers to be started

        def evaluate(self, *args: Any, **kwargs: Any) -> Any:
            evaluating.append(True)  # what sleeps in an evaluation would rightly be the evaluation's
            found = super().evaluate(*args, **kwargs)
            evaluating.clear()
            return found

    def collate(examples: list[torch.Tensor]) -> Carried:
        batch = Carried({"input_ids": torch.stack(examples), "labels": torch.stack(examples)})
        batch.seconds = SLEEP if plan.sleeps and plan.place == "copy" and not evaluating else 0.0
        return batch

    steps: list[dict[str, float]] = []
    evaluating: list[bool] = []

    def at_step_boundary() -> None:
        if boundaries():
            steps.append(probe.close()[0].phases)
        if len(steps) == STEPS:
            wire.send(encoded(Answer(value={p: float(np.median([s[p] for s in steps])) for p in PHASES})))
            time.sleep(60)
        probe.open()

    count = itertools.count()

    def boundaries() -> bool:
        return next(count) > WARM_STEPS

    examples = [torch.arange(8) % 11 for _ in range(10_000)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=plan.accumulation,
            dataloader_num_workers=plan.workers,
            report_to="none",
            disable_tqdm=True,
            max_steps=10_000,
            **{"save_strategy": "no", "logging_strategy": "steps"} | EVENTS.get(plan.place, {}),
        )
        trainer = OwnSampler(
            model=Tiny(),
            args=arguments,
            train_dataset=examples,
            eval_dataset=examples[:1],
            data_collator=collate,
            callbacks=[Told()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.create_optimizer()
        trainer.optimizer.register_step_pre_hook(lambda *_: here("optimizer"))
        probe = Probe(at_step_boundary=at_step_boundary)
        with probe.attached():
            trainer.train()
