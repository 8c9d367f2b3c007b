"""Learning-rate schedules in a trial: they are those of the job, and keep their last rate where the trial goes on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from transformers import Trainer, TrainerCallback, TrainingArguments

from slowstep_probe.changing.configurations import ENDLESS, Configurations
from slowstep_probe.changing.lightning import LightningEnds
from slowstep_probe.changing.schedules import Schedules
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

EXAMPLES, BATCH, TOGETHER, EPOCHS = 40, 2, 2, 2
JOB = EXAMPLES // (BATCH * TOGETHER) * EPOCHS
BEYOND = 2 * JOB


@pytest.fixture
def patches() -> Iterator[Patches]:
    made = Patches()
    yield made
    made.remove()


class Model(torch.nn.Module):
    """A model that takes what a Trainer gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(x).square().mean()}


class Rates(TrainerCallback):
    """Keeps the learning rate of each step, and ends the training after so many."""

    def __init__(self) -> None:
        self.of_steps: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **having: Any) -> None:
        self.of_steps.append(having["optimizer"].param_groups[0]["lr"])

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = len(self.of_steps) == BEYOND


class OwnSchedule(Trainer):
    """A Trainer whose schedule is of a fixed length, and raises an error beyond it."""

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        self.lr_scheduler = OneCycleLR(self.optimizer, max_lr=1.0, total_steps=num_training_steps, pct_start=0.25)
        return self.lr_scheduler


class MadeTogether(Trainer):
    """A Trainer that makes its schedule as those of transformers 4 do."""

    def _prepare_for_training(self, max_steps: int, *others: Any) -> Any:
        self.create_optimizer_and_scheduler(num_training_steps=max_steps)
        return super()._prepare_for_training(max_steps, *others)

    def create_optimizer_and_scheduler(self, num_training_steps: int) -> None:
        self.create_optimizer()
        warm, whole = num_training_steps // 4, num_training_steps
        rate = lambda step: min(step / warm, (whole - step) / (whole - warm))  # noqa: E731
        self.lr_scheduler = LambdaLR(self.optimizer, rate)


def rates(kind: type[Trainer], folder: Path, patches: Patches, **end: Any) -> list[float]:
    """The learning rate of each step of a trial that goes on for twice as long as its job."""
    configurations, late = Configurations(Wanted({}), ENDLESS), LateImports()
    configurations.attach(patches, late)
    Schedules(configurations.own_steps).attach(patches, late)
    given = {"per_device_train_batch_size": BATCH, "gradient_accumulation_steps": TOGETHER, "max_grad_norm": 1.0}
    quiet = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
    made = TrainingArguments(str(folder), learning_rate=1.0, warmup_steps=0.25, **given, **quiet, **end)
    seen = Rates()
    data = [{"x": torch.ones(3)} for _ in range(EXAMPLES)]
    kind(model=Model(), args=made, train_dataset=data, callbacks=[seen]).train()
    return seen.of_steps


@pytest.mark.parametrize("kind", [Trainer, MadeTogether])
@pytest.mark.parametrize("end", [{"num_train_epochs": EPOCHS}, {"max_steps": JOB}], ids=["epochs", "steps"])
def test_a_share_of_a_trainers_steps_is_one_of_the_job(
    kind: type[Trainer], end: dict[str, Any], tmp_path: Path, patches: Patches
) -> None:
    """A warm-up of a quarter is over after a quarter of the job; of a trial's own steps, which never end, it is not."""
    found, warm = rates(kind, tmp_path, patches, **end), JOB // 4
    job = [step / warm if step < warm else (JOB - step) / (JOB - warm) for step in range(JOB)]

    assert found[:JOB] == pytest.approx(job)
    assert found[JOB:] == [found[JOB - 1]] * JOB


def test_a_trainers_own_schedule_does_not_end_its_trial(tmp_path: Path, patches: Patches) -> None:
    found = rates(OwnSchedule, tmp_path, patches, num_train_epochs=EPOCHS)

    assert len(found) == BEYOND
    assert found.index(max(found)) == JOB // 4 - 1
    assert found[JOB:] == [found[JOB - 1]] * JOB


def test_arguments_that_are_made_of_others_keep_the_steps_of_the_job(tmp_path: Path, patches: Patches) -> None:
    """Libraries make arguments of their own class of those that they are given."""
    configurations = Configurations(Wanted({}), ENDLESS)
    configurations.attach(patches, LateImports())
    first = TrainingArguments(str(tmp_path), max_steps=JOB, use_cpu=True)
    other = TrainingArguments(str(tmp_path), max_steps=first.max_steps, use_cpu=True)
    third = TrainingArguments(str(tmp_path), use_cpu=True)

    assert [one.max_steps for one in (first, other, third)] == [*ENDLESS.values()] * 3
    assert [configurations.own_steps(one) for one in (first, other, third)] == [JOB, JOB, -1]


def test_methods_of_all_subclasses_are_replaced_and_put_back(patches: Patches) -> None:
    """Those that a program defines later, too; a class that has no such method of its own has its parent's."""

    class Base:
        def one(self) -> str:
            return "one"

        def two(self) -> str:
            return "two"

    class Before(Base):
        def one(self) -> str:
            return "before " + super().one()

    for name in ("one", "two"):
        patches.of_subclasses(Base, {name: lambda original, self: f"({original(self)})"})

    class After(Before):
        def two(self) -> str:
            return "after " + super().two()

    assert [(each.one(), each.two()) for each in (Base(), Before(), After())] == [
        ("(one)", "(two)"),
        ("(before (one))", "(two)"),
        ("(before (one))", "(after (two))"),
    ]
    patches.remove()
    assert (After().one(), After().two()) == ("before one", "after two")
    assert "__init_subclass__" not in vars(Base)


def test_a_schedule_of_a_fixed_length_keeps_its_last_rate(patches: Patches) -> None:
    """One that raises an error beyond its length would end the trial, which goes on for longer than the program."""
    Schedules(lambda _: -1).attach(patches, LateImports())
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    schedule, found = OneCycleLR(optimizer, max_lr=1.0, total_steps=10), []
    for _ in range(30):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()

    assert found[9] == min(found)
    assert found[9:] == [found[9]] * 21


def test_a_schedule_of_schedules_is_held_as_any(patches: Patches) -> None:
    """A warm-up and a cosine after it, which would rise again beyond the steps of the job."""
    schedules = Schedules(lambda _: -1)
    schedules.attach(patches, LateImports())
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    parts = [LambdaLR(optimizer, lambda step: (step + 1) / 5), CosineAnnealingLR(optimizer, T_max=10)]
    schedule, found = SequentialLR(optimizer, parts, milestones=[5]), []
    schedules.hold_after(schedule, 15)
    for _ in range(30):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    ReduceLROnPlateau(optimizer).step(1.0)

    assert found[5] > found[14] > 0
    assert found[14:] == [found[14]] * 16


class Lightning:
    """As Lightning's Trainer, as far as the number of steps goes (2.6)."""

    BATCHES, TOGETHER = 10, 2

    def __init__(self, *, max_epochs: int | None = None, max_steps: int = -1, max_time: Any = None) -> None:
        self.fit_loop = SimpleNamespace(max_epochs=max_epochs, epoch_loop=SimpleNamespace(max_steps=max_steps))

    @property
    def estimated_stepping_batches(self) -> float:
        epochs, most = self.fit_loop.max_epochs, self.fit_loop.epoch_loop.max_steps
        if epochs == -1:
            return float("inf") if most == -1 else most
        steps = self.BATCHES // self.TOGETHER * epochs
        return steps if most == -1 else min(steps, most)


@pytest.fixture
def lightning(patches: Patches, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes Lightning's Trainer in a trial, and has a module that asks for its number of steps make its schedule."""

    def configure(module: Any) -> tuple[list[Any], list[Any]]:
        return module.configure_optimizers()

    trainers, modules = (types.ModuleType(f"pytorch_lightning.{n}") for n in ("trainer.trainer", "core.optimizer"))
    trainers.Trainer = type("Trainer", (Lightning,), dict(vars(Lightning)))
    modules._init_optimizers_and_lr_schedulers = configure
    for module in (trainers, modules):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    schedules = Schedules(lambda _: -1)
    schedules.attach(patches, LateImports())
    LightningEnds(schedules).attach(patches, LateImports())
    return lambda **given: (trainers.Trainer(**given), modules._init_optimizers_and_lr_schedulers)


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({"max_epochs": 4}, 20),
        ({"max_epochs": 4, "max_steps": 15}, 15),
        ({"max_steps": 15}, 15),
        ({}, 5000),
        ({"max_time": "00:01:00:00"}, 10**9),
        ({"max_epochs": -1}, 10**9),
    ],
)
def test_lightning_tells_the_steps_of_the_job(given: dict[str, Any], steps: int, lightning: Callable[..., Any]) -> None:
    """It trains without end all the same. Where the job has no end, the number has to be finite."""
    trainer, _ = lightning(**given)

    assert steps == trainer.estimated_stepping_batches
    assert (-1, 10**9) == (trainer.fit_loop.max_epochs, trainer.fit_loop.epoch_loop.max_steps)


def test_a_module_of_lightning_makes_its_schedule_for_the_job(lightning: Callable[..., Any]) -> None:
    """Its trainer has the limits of the job meanwhile, and the schedule keeps its last rate beyond them."""
    trainer, configure = lightning(max_epochs=4)
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    asked = []

    def made() -> tuple[list[Any], list[Any]]:
        asked.append((trainer.fit_loop.max_epochs, trainer.estimated_stepping_batches))
        schedule: LRScheduler = LambdaLR(optimizer, lambda step: 1 - step / trainer.estimated_stepping_batches)
        return [optimizer], [SimpleNamespace(scheduler=schedule, interval="step")]

    _, (one,) = configure(SimpleNamespace(trainer=trainer, configure_optimizers=made))
    for _ in range(60):
        optimizer.step()
        one.scheduler.step()

    assert asked == [(4, 20)]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1 / 20)
