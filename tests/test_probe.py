"""The probe finds where a step's time goes in training code that knows nothing of it."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import accelerate.data_loader
import bitsandbytes
import pytest
import torch
import transformers.trainer
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from recording import HandClock, record
from slowstep.records import PHASES
from slowstep_probe import devices
from slowstep_probe.looks import FAILED
from slowstep_probe.measured import WHY_NOT
from slowstep_probe.observed import optimizer_facts
from slowstep_probe.probe.clock import CudaClock, HostClock, device_of
from slowstep_probe.probe.loader_workers import Workers
from slowstep_probe.probe.probe import Probe
from slowstep_probe.probe.step_losses import PART, StepLosses
from slowstep_probe.probe.tape import Tape

EXAMPLES, BATCH, LENGTH, VOCABULARY = 16, 2, 12, 11
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def nothing(*_: Any, **__: Any) -> None:
    """The place where a test plants nothing."""


@dataclass(kw_only=True)
class Planted:
    """What a test lets happen at each place of a training."""

    item: Callable[..., None] = nothing
    forward: Callable[..., None] = nothing
    backward: Callable[..., None] = nothing
    optimizer: Callable[..., None] = nothing
    log: Callable[..., None] = nothing
    save: Callable[..., None] = nothing
    upload: Callable[..., None] = nothing
    evaluate: Callable[..., None] = nothing
    step_end: Callable[..., None] = nothing


class Examples(Dataset):
    """Token sequences of 3 to 7 useful tokens, padded to LENGTH; the first token is left out of the loss."""

    def __init__(self, planted: Planted):
        self.planted = planted

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        self.planted.item()
        mask = (torch.arange(LENGTH) < useful(i)).long()
        ids = (torch.arange(LENGTH) + i) % VOCABULARY * mask
        labels = torch.where((mask == 0) | (torch.arange(LENGTH) == 0), -100, ids)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def useful(i: int) -> int:
    """Tokens of example `i`."""
    return 3 + i % 5


class Model(nn.Module):
    """Gives logits, or the loss too where it gets labels, as Trainer expects."""

    def __init__(self, planted: Planted):
        super().__init__()
        self.planted = planted
        self.embed, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)
        self.embed.weight.register_hook(planted.backward)

    def forward(self, input_ids: torch.Tensor, attention_mask: Any = None, labels: Any = None) -> Any:
        self.planted.forward()
        logits = self.head(self.embed(input_ids))
        if labels is None:
            return logits
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class Optimizer(torch.optim.SGD):
    """SGD with a place to plant something in."""

    def __init__(self, model: Model):
        super().__init__(model.parameters(), lr=0.1)
        self.planted = model.planted

    def step(self, closure: Any = None) -> Any:
        self.planted.optimizer()
        return super().step(closure)


class Loop:
    """A plain PyTorch script: loader, model, criterion, optimizer; with a validation after each step on request."""

    def __init__(self, planted: Planted, workers: int = 0, accumulation: int = 1, validate: bool = False):
        self.accumulation, self.validate = accumulation, validate
        self.no_grad: Callable[[], Any] = torch.no_grad
        self.trains_again = True
        self.loader = DataLoader(Examples(planted), batch_size=BATCH, num_workers=workers)
        self.model = Model(planted)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = Optimizer(self.model)

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        logits = self.model(batch["input_ids"])
        return self.criterion(logits.flatten(0, 1), batch["labels"].flatten())

    def train(self) -> None:
        while True:
            for i, batch in enumerate(self.loader, 1):
                (self.loss(batch) / self.accumulation).backward()
                if i % self.accumulation == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    if self.validate:
                        self.validation()

    def validation(self) -> None:
        self.model.eval()
        for batch in DataLoader(Examples(Planted()), batch_size=EXAMPLES):
            with self.no_grad():
                self.loss(batch)
        self.model.train(self.trains_again)


class Callbacks(TrainerCallback):
    """The user's callbacks."""

    def __init__(self, planted: Planted):
        self.on_log, self.on_save = planted.log, planted.upload
        self.on_evaluate, self.on_step_end = planted.evaluate, planted.step_end


class SavingTrainer(Trainer):
    """A Trainer whose checkpoints hold something more."""

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        self.model.planted.save()
        super().save_model(*args, **kwargs)


class Script:
    """A plain Trainer script that logs, saves and evaluates as `arguments` say."""

    def __init__(self, planted: Planted, folder: Path, workers: int = 0, accumulation: int = 1, **arguments: Any):
        quiet = {"logging_strategy": "no", "save_strategy": "no", "eval_strategy": "no"}
        self.model = Model(planted)
        self.trainer = SavingTrainer(
            model=self.model,
            args=TrainingArguments(
                output_dir=str(folder),
                max_steps=10**6,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=EXAMPLES,
                gradient_accumulation_steps=accumulation,
                dataloader_num_workers=workers,
                use_cpu=True,
                report_to="none",
                disable_tqdm=True,
                remove_unused_columns=False,
                **quiet | arguments,
            ),
            train_dataset=Examples(planted),
            eval_dataset=Examples(Planted()),
            optimizers=(Optimizer(self.model), None),
            callbacks=[Callbacks(planted)],
        )

    def train(self) -> None:
        self.trainer.train()


@pytest.fixture(params=["plain loop", "Trainer"])
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Loop | Script]:
    """Makes a training script: `script(planted, workers=..., accumulation=...)`."""
    if request.param == "plain loop":
        return Loop
    return lambda planted, **options: Script(planted, tmp_path, **options)


# -- counts and sums --


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_counts_are_what_the_data_says(script: Callable, workers: int, accumulation: int) -> None:
    """Over two epochs, in whatever order: optimizer steps, samples, and padded, useful and loss tokens."""
    steps = 2 * EXAMPLES // (BATCH * accumulation)
    block = record(script(Planted(), workers=workers, accumulation=accumulation).train, steps).block

    tokens = 2 * sum(useful(i) for i in range(EXAMPLES))
    assert steps == block.steps == len(block.step_seconds)
    assert block.work.samples == 2 * EXAMPLES
    assert block.work.padded_tokens == 2 * EXAMPLES * LENGTH
    assert tokens == block.work.useful_tokens
    assert tokens - 2 * EXAMPLES == block.work.loss_tokens
    assert block.work.cut_tokens is None


@pytest.mark.parametrize("workers", [0, 2])
def test_phases_are_the_whole_time(script: Callable, workers: int) -> None:
    """The phases add up to the block, the steps do too, and the block is no longer than what an outsider sees."""
    recorded = record(script(Planted(), workers=workers, accumulation=4).train, steps=6)

    block = recorded.block
    assert set(PHASES) == set(block.phases)
    assert block.seconds == pytest.approx(sum(block.phases.values()), rel=1e-9)
    assert block.seconds == pytest.approx(sum(block.step_seconds), rel=1e-9)
    assert all(seconds >= 0 for seconds in block.phases.values())
    assert 0 < block.seconds <= recorded.outside


def test_a_loss_is_kept_for_each_step(script: Callable) -> None:
    """The losses of the first steps, by which two arms are shown to train the same, however a step is cut up."""
    losses = record(script(Planted(), accumulation=4).train, steps=2).losses

    assert len(losses) == 2
    assert all(loss > 0 for loss in losses)


# -- what is planted comes back where it belongs --


@pytest.mark.parametrize(
    ("place", "phase", "times"),
    [
        ("item", "data", 4 * BATCH),
        ("forward", "forward", 4),
        ("backward", "backward", 4),
        ("optimizer", "optimizer", 2),
    ],
)
def test_planted_seconds_come_back_in_their_phase(script: Callable, place: str, phase: str, times: int) -> None:
    """Two steps of two micro-batches with a second planted in one place: that phase has them all, the others none."""
    clock = HandClock()
    planted = Planted(**{place: clock.pass_second})
    block = record(script(planted, accumulation=2).train, steps=2, clock=clock).block

    ahead = block.phases["data"] - times  # Trainer, and accelerate, fetch batches before the step that uses them
    assert dict.fromkeys(PHASES, 0.0) | {phase: block.phases[phase]} == block.phases
    assert block.phases[phase] == times or (phase == "data" and 0 <= ahead <= 2 * BATCH)


@pytest.mark.parametrize(
    ("place", "phase", "arguments"),
    [
        ("log", "log", {"logging_strategy": "steps", "logging_steps": 2}),
        ("save", "save", {"save_strategy": "steps", "save_steps": 2}),
        ("upload", "save", {"save_strategy": "steps", "save_steps": 2}),
        ("evaluate", "evaluate", {"eval_strategy": "steps", "eval_steps": 2}),
        ("step_end", "other", {"max_grad_norm": 0.0}),
    ],
)
def test_planted_seconds_of_trainers_events(tmp_path: Path, place: str, phase: str, arguments: dict) -> None:
    """What Trainer and its callbacks do after a step: logged, saved, uploaded, evaluated, or something else."""
    clock = HandClock()
    planted = Planted(**{place: clock.pass_second})
    block = record(Script(planted, tmp_path, **arguments).train, steps=4, clock=clock).block

    assert dict.fromkeys(PHASES, 0.0) | {phase: 4.0 if place == "step_end" else 2.0} == block.phases


def test_evaluation_is_evaluation_throughout(tmp_path: Path) -> None:
    """The forward passes of an evaluation, and its data, are neither forward nor data nor work of training."""
    clock = HandClock()
    planted = Planted(forward=clock.pass_second)
    script = Script(planted, tmp_path, eval_strategy="steps", eval_steps=2)
    block = record(script.train, steps=4, clock=clock).block

    assert dict.fromkeys(PHASES, 0.0) | {"forward": 4.0, "evaluate": 2.0} == block.phases
    assert block.work.samples == 4 * BATCH


@pytest.mark.parametrize("no_grad", [torch.no_grad, contextlib.nullcontext])
def test_validation_of_a_plain_loop_is_not_trained_work(no_grad: Callable[[], Any]) -> None:
    """A validation between steps is evaluation, and its batches never stand in for those that are trained on.

    That is so although it leaves gradients on."""
    clock = HandClock()
    loop = Loop(Planted(forward=clock.pass_second), validate=True)
    loop.no_grad = no_grad
    block = record(loop.train, steps=4, clock=clock).block

    assert (block.phases["forward"], block.phases["evaluate"]) == (4.0, 3.0)  # the fourth follows the block
    assert block.work.samples == 4 * BATCH
    assert sum(useful(i) for i in range(4 * BATCH)) == block.work.useful_tokens


def test_training_that_stays_in_evaluation_mode_is_training() -> None:
    """It is so in a program that never leaves it, and in one that forgets to switch back after its first validation.

    The first pass of the latter is taken for one of the validation, until its backward pass."""
    clock = HandClock()
    loop = Loop(Planted(forward=clock.pass_second))
    loop.model.eval()
    never = record(loop.train, steps=4, clock=clock).block
    loop = Loop(Planted(forward=clock.pass_second))
    loop.trains_again = False

    def train() -> None:
        for i, batch in enumerate(itertools.chain.from_iterable(itertools.repeat(loop.loader))):
            loop.loss(batch).backward()
            loop.optimizer.step()
            loop.optimizer.zero_grad()
            if i == 1:
                loop.validation()

    forgets = record(train, steps=8, clock=clock).block

    assert (never.phases["forward"], never.work.samples) == (4.0, 4 * BATCH)
    assert (forgets.phases["forward"], forgets.work.samples) == (7.0, 8 * BATCH)


def test_a_teacher_in_evaluation_mode_is_part_of_the_step() -> None:
    """Its gradients are on, and it looks at the batch before or after the student does."""
    clock = HandClock()
    loop, teacher = Loop(Planted(forward=clock.pass_second)), Model(Planted(forward=clock.pass_second)).eval()

    def train() -> None:
        for i, batch in enumerate(itertools.chain.from_iterable(itertools.repeat(loop.loader))):
            aims = teacher(batch["input_ids"]) if i % 2 else None
            outputs = loop.model(batch["input_ids"])
            nn.functional.mse_loss(outputs, teacher(batch["input_ids"]) if aims is None else aims).backward()
            loop.optimizer.step()
            loop.optimizer.zero_grad()

    block = record(train, steps=6, clock=clock).block

    assert (block.phases["forward"], block.phases["evaluate"], block.work.samples) == (12.0, 0.0, 6 * BATCH)


def test_a_frozen_network_in_evaluation_mode_is_part_of_the_step() -> None:
    """Its gradients are on, nothing is fetched by a loader, and nothing else tells whose step it belongs to."""
    clock = HandClock()
    loop, frozen = Loop(Planted(forward=clock.pass_second)), Model(Planted(forward=clock.pass_second)).eval()
    ids = torch.zeros(2, 4, dtype=torch.long)

    def train() -> None:
        while True:
            (loop.model(ids) * frozen(ids)).mean().backward()
            loop.optimizer.step()
            loop.optimizer.zero_grad()

    block = record(train, steps=6, clock=clock).block

    assert (block.phases["forward"], block.phases["evaluate"]) == (12.0, 0.0)


def test_a_validation_beside_a_loader_that_fetches_ahead_is_not_trained_work() -> None:
    """accelerate fetches a batch ahead: at an epoch's end the last one is trained on after its loader was asked in
    vain, and a validation lies between its fetching and its training."""
    loop = Loop(Planted(), validate=True)
    loop.loader = accelerate.Accelerator(cpu=True).prepare(loop.loader)
    block = record(loop.train, steps=2 * EXAMPLES // BATCH).block

    assert block.work.samples == 2 * EXAMPLES
    assert block.work.useful_tokens == 2 * sum(useful(i) for i in range(EXAMPLES))


def test_the_queue_of_this_version_of_pytorch_is_known() -> None:
    """How many batches lie ready is read from private parts of PyTorch's iterator; a version without them fails."""
    iterator = iter(DataLoader(Examples(Planted()), batch_size=BATCH, num_workers=1, prefetch_factor=2))
    next(iterator)
    workers = Workers()
    workers.belong_to(iterator)

    assert workers.known
    assert (1, 2) == (workers.number, workers.outstanding)


def test_a_loader_whose_epoch_was_begun_before_the_probe_is_known() -> None:
    """Its workers stay, so the next epoch has the same iterator, which then is known to be the loader's."""
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(torch.ones(4, 1), batch_size=1, num_workers=1, persistent_workers=True)
    begun = iter(loader)
    probe = Probe()
    with probe.attached():
        probe.open()
        for batch in itertools.chain(begun, loader):
            model(batch).sum().backward()
            optimizer.step()
        probe.workers.belong_to(None)

    assert probe.loader is loader


def test_real_sleeps_are_seen_by_the_real_clock() -> None:
    """With the host's clock, a dataset that sleeps makes the data phase at least as long."""
    block = record(Loop(Planted(item=lambda: time.sleep(0.02))).train, steps=8).block

    assert block.phases["data"] >= 8 * BATCH * 0.02


def test_a_compiled_model_is_compiled_once() -> None:
    """What finds the model in the first step leaves no trace that torch.compile would have to compile again for."""
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list) -> Callable:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    loop = Loop(Planted(), accumulation=2)
    loop.model = torch.compile(loop.model, backend=backend, dynamic=False)
    block = record(loop.train, steps=3).block

    assert block.steps == 3
    assert block.phases["forward"] > 0
    assert len(graphs) == 1


def test_waiting_at_a_border_belongs_to_no_block() -> None:
    """Whatever time passes between the end of a block and the opening of the next, no block holds it."""
    clock, blocks = HandClock(), []

    class Enough(Exception):
        pass

    def at_step_boundary() -> None:
        if probe.tape.marks and clock.now:
            blocks.append(probe.close()[0])
        if len(blocks) == 3:
            raise Enough
        clock.now += 100
        probe.open()

    probe = Probe(clock, at_step_boundary)
    with pytest.raises(Enough), probe.attached():
        Loop(Planted(forward=clock.pass_second)).train()

    assert [block.seconds for block in blocks] == [1.0, 1.0, 1.0]


# -- nothing stays behind --


def attachments() -> Iterator[tuple[str, object]]:
    """Everything in PyTorch, accelerate and transformers that the probe could have changed."""
    owners = {
        "DataLoader": DataLoader,
        "iterator": torch.utils.data.dataloader._BaseDataLoaderIter,
        "Tensor": torch.Tensor,
        "autograd": torch.autograd,
        "Optimizer": torch.optim.Optimizer,
        "Module": nn.Module,
        "nn.utils": torch.nn.utils,
        "torch": torch,
        "accelerate": accelerate.data_loader,
        "Trainer": transformers.trainer.Trainer,
        "CallbackHandler": sys.modules["transformers.trainer_callback"].CallbackHandler,
    }
    for owner, thing in owners.items():
        yield from ((f"{owner}.{name}", value) for name, value in vars(thing).items())


def hooks(model: nn.Module) -> list[int]:
    """Hooks on every module of `model`, on all modules, and on all optimizers."""
    modules, optimizers = sys.modules["torch.nn.modules.module"], sys.modules["torch.optim.optimizer"]
    found = [modules._global_forward_pre_hooks, modules._global_forward_hooks]
    found += [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
    for module in model.modules():
        found += [module._forward_pre_hooks, module._forward_hooks, module._forward_hooks_always_called]
    return [len(each) for each in found]


@pytest.mark.parametrize("ends", ["by itself", "by an error"])
def test_detached_leaves_everything_as_it_was(script: Callable, ends: str) -> None:
    """Functions are the original objects again and no hook is left, also when training raised."""

    def fail() -> None:
        raise ArithmeticError("the user's own")

    training = script(Planted(optimizer=fail) if ends == "by an error" else Planted())
    before, hooks_before = dict(attachments()), hooks(training.model)
    if ends == "by an error":
        with pytest.raises(ArithmeticError):
            record(training.train, steps=2)
    else:
        record(training.train, steps=2)

    after = dict(attachments())
    assert [name for name in before if after.get(name) is not before[name]] == []
    assert hooks_before == hooks(training.model)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize(("rows", "why"), [(100, ["why_not_optimizer_paged"]), (400, [])])
def test_a_paged_optimizer_that_pages_nothing_says_why(rows: int, why: list[str]) -> None:
    """States of most adapters are too small for it."""
    weight = torch.nn.Parameter(torch.ones(rows, 300, device="cuda"))
    optimizer = bitsandbytes.optim.PagedAdamW8bit([weight])
    weight.square().sum().backward()
    optimizer.step()
    facts = optimizer_facts(optimizer)

    assert facts["optimizer_paged"] is (not why)
    assert [name for name in facts if name.startswith(WHY_NOT)] == why


# -- with a device --


@pytest.mark.gpu
@needs_cuda
def test_device_time_comes_back_in_its_phase() -> None:
    """The events clock: device work queued in the forward pass is forward time, though the host did not wait for it."""

    def busy() -> None:
        torch.cuda._sleep(50_000_000)  # cycles: above 20 ms on any device to date

    loop = Loop(Planted(forward=busy))
    loop.model.cuda()
    loop.loss = lambda batch: loop.criterion(
        loop.model(batch["input_ids"].cuda()).flatten(0, 1), batch["labels"].cuda().flatten()
    )
    block = record(loop.train, steps=6, clock=CudaClock()).block

    assert max(block.phases, key=block.phases.get) == "forward"
    assert block.seconds == pytest.approx(sum(block.phases.values()), rel=1e-9)
    assert block.work.samples == 6 * BATCH


# -- evaluation in the loop, and hooks --


def loop_with_a_look(
    clock: HandClock, between: Callable[..., None], after: Callable[..., None], pre_hook: Callable[..., None] = nothing
) -> Callable[[], None]:
    """A plain loop that looks at its own training set after each step, as people write it."""
    planted = Planted()
    model = Model(planted)
    model.register_forward_pre_hook(lambda *_: pre_hook() if torch.is_grad_enabled() else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Examples(planted), batch_size=BATCH)
    looked = DataLoader(Examples(Planted(item=clock.pass_second)), batch_size=BATCH)

    def train() -> None:
        while True:
            for batch in loader:
                model(**batch)["loss"].backward()
                optimizer.step()
                optimizer.zero_grad()
                with torch.no_grad():
                    for seen in looked:
                        model(**seen)
                        between()
                after()

    return train


def test_an_evaluation_in_the_loop_is_one_phase() -> None:
    """Its batches and its sums belong to the evaluation and not to waiting or to what lies between the phases; what
    the loop does after it does not."""
    clock = HandClock()
    block = record(loop_with_a_look(clock, clock.pass_second, nothing), steps=3, clock=clock).block
    batches = EXAMPLES // BATCH

    # a step ends where the next asks for data: a block of three steps holds the looks after two of them and one before
    assert 0.0 == block.phases["data"]
    assert 0.0 == block.phases["other"]
    assert block.phases["evaluate"] in [n * batches * (BATCH + 1) for n in (2, 3)]


def test_a_hook_before_the_forward_pass_belongs_to_it() -> None:
    """A mask that a hook builds before the model is called is time of the forward pass."""
    clock = HandClock()
    train = loop_with_a_look(HandClock(), nothing, nothing, pre_hook=clock.pass_second)
    block = record(train, steps=3, clock=clock).block

    assert (3.0, 0.0) == (block.phases["forward"], block.phases["other"])


def test_lines_of_an_evaluation_are_told_as_evaluation() -> None:
    """A stack that is looked at knows no more than the last mark; what that was part of is told afterwards."""
    clock, places = HandClock(), []
    train = loop_with_a_look(clock, lambda: places.append(probe.tape.last_mark()), nothing)
    boundaries = iter(range(100))

    def at_step_boundary() -> None:
        boundary = next(boundaries)
        if boundary == 1:
            probe.open()
            places.clear()
        elif boundary == 3:
            told.extend(probe.tape.phases())
            raise Enough

    told: list[str] = []
    probe = Probe(clock, at_step_boundary)
    with pytest.raises(Enough), probe.attached():
        train()

    assert len(places) == 2 * EXAMPLES // BATCH
    assert {"evaluate"} == {told[mark] for mark in places}


class Enough(BaseException):
    """Leaves a training that has no end."""


def test_every_step_is_timed_by_itself() -> None:
    """Steps have the sample at which they begin; those before a block are timed, too, and add up to it in it."""
    clock, passed, blocks = HandClock(), [], []
    train = loop_with_a_look(clock, clock.pass_second, nothing)
    boundaries = iter(range(100))

    def at_step_boundary() -> None:
        boundary = next(boundaries)
        if boundary == 2:
            probe.open()
        elif boundary == 5:
            blocks.append(probe.close())
            passed.append(probe.passed)
            raise Enough

    probe = Probe(clock, at_step_boundary)
    with pytest.raises(Enough), probe.attached():
        train()
    (before,), ((block, steps),) = passed, blocks

    assert [0, BATCH] == before.position
    assert [2 * BATCH, 3 * BATCH, 4 * BATCH] == steps.position
    assert block.phases == {p: sum(steps.phases.get(p, [0.0])) for p in PHASES}
    assert steps.seconds == block.step_seconds


# -- what ends a step --


def trained(micro_batches: int, gradients: Callable[[torch.Tensor, list], Any]) -> Callable[[], None]:
    """A loop over one tensor, whose gradients are made as asked and used after so many of them."""

    def train() -> None:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        inputs = torch.randn(2, 4)
        while True:
            for _ in range(micro_batches):
                gradients(model(inputs).square().mean(), list(model.parameters()))
            optimizer.step()
            optimizer.zero_grad()

    return train


def by_backward(loss: torch.Tensor, _: list) -> None:
    loss.backward()


def by_asking(loss: torch.Tensor, parameters: list) -> None:
    for parameter, gradient in zip(parameters, torch.autograd.grad(outputs=loss, inputs=parameters), strict=True):
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def after_asking(loss: torch.Tensor, parameters: list) -> None:
    for _ in range(60):
        torch.autograd.grad(loss, parameters, retain_graph=True)
    loss.backward()


@pytest.mark.parametrize(
    ("micro_batches", "gradients"),
    [(1, by_backward), (64, by_backward), (128, by_backward), (1, by_asking), (4, by_asking), (2, after_asking)],
)
def test_only_an_optimizer_ends_a_step_where_there_is_one(micro_batches: int, gradients: Callable) -> None:
    """However many micro-batches come before its first step, and whatever gradients are asked for beside."""
    recorded = record(trained(micro_batches, gradients), 6)

    assert recorded.block.work.samples == 6 * micro_batches * 2
    assert len(recorded.losses) == 6


@pytest.mark.parametrize(
    ("initialised", "available", "expected", "device"),
    [
        (True, True, False, "cuda"),
        (False, True, True, "cuda"),
        (False, True, False, "cpu"),
        (False, False, True, "cpu"),
    ],
)
def test_a_program_that_has_not_touched_its_device_yet_is_timed_on_it(
    initialised: bool, available: bool, expected: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may look at a batch before it makes its model. What it was surveyed on counts, if that is here."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialised)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)

    assert device_of(expected) == device


class OtherClock(HandClock):
    """A clock whose marks mean nothing to another one, as events of a device and moments of the host do."""

    def mark(self) -> tuple[float]:
        """Return a mark of this moment."""
        return (self.now,)

    def gaps(self, marks: list[tuple[float]]) -> list[float]:
        """Return the seconds between successive marks."""
        return super().gaps([moment for (moment,) in marks])


def test_a_block_may_begin_by_another_clock() -> None:
    """Ranks on a device train a step by the host's clock, before they wait for the first request."""
    first, other = HandClock(), OtherClock()
    tape = Tape(first, set())
    tape.mark("forward")
    tape.end_step()
    tape.clock = other
    tape.open()
    tape.mark("forward")
    other.pass_second()
    tape.end_step()
    block, _ = tape.close(step_is_due=False)

    assert (0, 1, 1.0) == (len(tape.passed), block.steps, block.phases["forward"])


class NeverWaits(HandClock):
    """A clock that says how often the device was waited for."""

    waits = 0

    def synchronize(self) -> None:
        """Count it."""
        self.waits += 1

    def ended(self, moment: float) -> float:
        """Count it."""
        self.waits += 1
        return moment


def test_the_device_is_waited_for_at_the_end_of_a_block_alone() -> None:
    """At its beginning the host keeps the lead that it has over the device in training."""
    clock = NeverWaits()
    tape = Tape(clock, set())
    for _ in range(3):
        tape.mark("forward")
        clock.pass_second()
        tape.end_step()
    tape.open()
    began = clock.waits
    for _ in range(2):
        tape.mark("forward")
        clock.pass_second()
        tape.end_step()
    block, _ = tape.close(step_is_due=False)

    assert (0, 1) == (began, clock.waits)
    assert (3, 2) == (len(tape.passed), block.steps)


@pytest.mark.parametrize("ends", [True, False])
def test_the_step_in_which_a_program_first_uses_its_device_lasts_until_that_has_ended(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is timed by the host's clock; the time of its launches alone would make all others look slow.

    What a step that is under way has launched belongs to no step of the block.
    """
    hand = HandClock()
    monkeypatch.setattr(HostClock, "mark", lambda _: hand.mark())
    monkeypatch.setattr(devices, "used", lambda: [0])
    monkeypatch.setattr(torch.cuda, "synchronize", hand.pass_second)
    tape = Tape(HostClock(), set())
    tape.open()
    tape.mark("forward")
    hand.pass_second()
    tape.end_step()
    if not ends:
        tape.mark("forward")
    block, _ = tape.close(step_is_due=False)

    assert (block.seconds, hand.now) == (2.0 if ends else 1.0, 3.0)


@pytest.mark.parametrize(
    ("place", "device"), [(None, None), (torch.device("cpu"), None), (torch.device("cuda", 1), 1)], ids=str
)
def test_marks_lie_on_the_device_of_the_losses(place: torch.device | None, device: int | None) -> None:
    """A program need not train on the current device, and what it launches on another one is not seen there."""
    assert CudaClock().on(place).device == device
    assert getattr(HostClock().on(place), "device", None) == device


def test_a_device_in_use_tells_the_time_wherever_the_loss_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may fetch its outputs to the host before it makes a loss of them."""
    monkeypatch.setattr(devices, "fullest", lambda: 1)

    assert HostClock().on(torch.device("cpu")).device == 1
    assert HostClock().on(torch.device("cuda", 0)).device == 0


def test_marks_lie_on_the_stream_that_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefetcher fetches within a stream of its own, which runs ahead of what is computed."""
    current, recorded = ["side"], []
    event = SimpleNamespace(record=recorded.append)
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[0])
    clock = CudaClock(0)
    clock.mark()
    for current[0] in ("main", "side"):
        if current[0] == "main":
            clock.follow()
        clock.mark()

    assert ["side", "main", "main"] == recorded


def test_a_loss_is_kept_as_it_was() -> None:
    """The memory of a loss is the program's: a CUDA graph uses it again in its next run."""
    losses, loss = StepLosses(), torch.tensor(2.0, requires_grad=True)
    losses.add(loss)
    losses.step_ended()
    loss.data.fill_(7.0)

    assert [2.0] == losses.first


@pytest.mark.parametrize(
    ("goes_back", "kept"),
    [
        (lambda scale, a, b: [scale(one) for one in (a, b)], 3.0),
        (lambda scale, a, b: [*scale([a, b])], 3.0),
        (lambda scale, a, b: [*reversed(scale([a, b]))], 3.0),
        (lambda scale, a, b: [scale((a, b))], 3.0),
        (lambda scale, a, b: [sum(scale([a, b]))], 3.0),
        (lambda scale, a, b: [scale(one) / 4 for one in (a, b)], 0.75),
        (lambda scale, a, b: [*scale(iter([a, b]))], 3.0),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_a_loss_that_was_scaled_is_kept_as_it_was_before(goes_back: Callable, kept: float, enabled: bool) -> None:
    """However many are scaled together, in whichever order they go back, and whatever becomes of them before."""
    probe, scaler = Probe(), torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=enabled)
    with probe.attached():
        weight = torch.ones((), requires_grad=True)
        for loss in goes_back(scaler.scale, weight * 1.0, weight * 2.0):
            torch.autograd.backward(loss)
        probe.steps.losses.step_ended()
        (weight * 5.0).backward()
        probe.steps.losses.step_ended()

    assert [kept, 5.0] == probe.steps.losses.first


@pytest.mark.parametrize(
    ("goes_back", "kept"),
    [
        (torch.full((4, 6), 2.0, dtype=torch.bfloat16), 2.0),
        (torch.full((4, 6), 2.0, dtype=torch.float64).T, 2.0),
        ((torch.full((3,), 2.0 + 1.0j), torch.tensor(1.0)), 3.0),
        (torch.cat([torch.full((3 * PART,), 3.0), torch.full((PART,), 7.0)]).half(), 4.0),
        (torch.eye(2).to_sparse(), 0.0),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), 0.0),
        ((torch.eye(2).to_sparse(), torch.tensor(1.0)), 1.0),
        (torch.zeros(0), 0.0),
        (None, 0.0),
    ],
)
def test_whatever_goes_back_the_program_goes_on(goes_back: Any, kept: float) -> None:
    """What has no mean counts for nothing, and the backward pass counts all the same."""
    losses, failed = StepLosses(), len(FAILED)
    losses.add(goes_back)

    assert len(losses) == 1
    losses.step_ended()
    assert ([kept], failed) == (losses.first, len(FAILED))


def test_of_activations_that_go_back_no_copy_is_made() -> None:
    """A pipeline's stage hands on what may be a good part of the memory."""
    activations, numbers = torch.zeros(16 * PART, dtype=torch.bfloat16), []

    class Made(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.data_ptr() != activations.data_ptr():
                numbers.append(result.numel())
            return result

    losses = StepLosses()
    with Made():
        losses.add(activations)

    assert max(numbers) <= PART


def test_losses_of_a_step_may_lie_on_several_devices() -> None:
    """The step's loss lies on one that is no CPU, for the host does not wait for a device."""
    losses = StepLosses()
    for device in ("cpu", "meta", "cpu"):
        losses.add(torch.zeros((), device=device))

    assert torch.device("meta") == losses.step_ended()


def test_losses_that_no_scaler_scaled_stay_as_they_are() -> None:
    """A generator's loss is scaled, and its critic's is not; a keyword is as good as a place."""
    weight = torch.ones(2, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    probe = Probe()
    with probe.attached():
        scaler.scale(outputs=weight.sum()).backward()
        (3 * weight.sum()).backward()
        torch.optim.SGD([weight], lr=0.0).step()

    assert [8.0] == probe.steps.losses.first


def test_ranks_meet_where_optimizers_step_within_the_backward_pass() -> None:
    """There is one for each weight; the boundary comes when no phase is open any more."""
    weights = [torch.ones(2, requires_grad=True) for _ in range(2)]
    boundaries: list[int] = []
    probe = Probe(at_step_boundary=lambda: boundaries.append(probe.steps.updates), together=True, meets_after=2)
    with probe.attached():
        optimizers = {weight: torch.optim.SGD([weight], lr=0.0) for weight in weights}
        for weight, optimizer in optimizers.items():
            weight.register_post_accumulate_grad_hook(lambda _, one=optimizer: one.step())
        model = nn.Linear(2, 1)
        for _ in range(3):
            (model(weights[0]).sum() + weights[1].sum()).backward()

    assert [0, 2, 4, 6] == boundaries
