"""The probe in training programs that are written in unusual ways: steps, samples and phases are as they say."""

from __future__ import annotations

import _thread
import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from recording import HandClock, record
from slowstep.judgement.losses import LEARNING_STEPS
from slowstep_probe import devices
from slowstep_probe.by_identity import identity
from slowstep_probe.observed import observed
from slowstep_probe.probe.learning_rates import relative_to_full
from slowstep_probe.probe.probe import Probe
from slowstep_probe.probe.step_ends import StepEnds

BATCH, BATCHES = 4, 10


class Slow(nn.Module):
    """A model whose forward and backward passes take a second each."""

    def __init__(self, clock: HandClock):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.clock = clock
        self.layer.weight.register_hook(clock.pass_second)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.clock.pass_second()
        return self.layer(inputs)


def batches() -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(BATCH * BATCHES, 3)), batch_size=BATCH)


def for_ever(loader: Any) -> Iterator[torch.Tensor]:
    while True:
        for (inputs,) in loader:
            yield inputs


class Ahead:
    """A loader that another thread draws from, a few batches ahead."""

    def __init__(self, loader: DataLoader):
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        ready: queue.Queue[Any] = queue.Queue(maxsize=3)

        def fill() -> None:
            for batch in self.loader:
                ready.put(batch)
            ready.put(None)

        threading.Thread(target=fill, daemon=True).start()
        while (batch := ready.get()) is not None:
            yield batch


def two_passes(model: Slow, inputs: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def prefetched(clock: HandClock) -> None:
    model = Slow(clock)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs in for_ever(Ahead(batches())):
        two_passes(model, inputs, optimizer)


def several_losses(clock: HandClock) -> None:
    model = Slow(clock)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs in for_ever(batches()):
        optimizer.zero_grad()
        outputs = model(inputs)
        torch.autograd.backward([outputs.square().mean(), outputs.abs().mean()])
        optimizer.step()


def a_loss_for_each_example(clock: HandClock) -> None:
    model = Slow(clock)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs in for_ever(batches()):
        optimizer.zero_grad()
        losses = model(inputs).square().squeeze(1)
        losses.backward(torch.ones_like(losses))
        optimizer.step()


def scaled_losses(clock: HandClock) -> None:
    model, scaler = Slow(clock), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs in for_ever(batches()):
        optimizer.zero_grad()
        outputs = model(inputs)
        one, other = scaler.scale([outputs.square().mean(), outputs.abs().mean()])
        (one + other).backward()
        scaler.step(optimizer)
        scaler.update()


def steps_that_fail(clock: HandClock) -> None:
    model = Slow(clock)

    class Fails(torch.optim.SGD):
        calls = 0

        def step(self, closure: Any = None) -> None:
            Fails.calls += 1
            if Fails.calls % 3 == 2:
                raise FloatingPointError("not finite")
            super().step()

    optimizer = Fails(model.parameters(), lr=0.01)
    for inputs in for_ever(batches()):
        try:
            two_passes(model, inputs, optimizer)
        except FloatingPointError:
            optimizer.zero_grad()


PROGRAMS = [prefetched, several_losses, a_loss_for_each_example, scaled_losses, steps_that_fail]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_step_holds_its_batch_and_its_two_passes(program: Callable[[HandClock], None]) -> None:
    clock = HandClock()
    found = record(lambda: program(clock), 8, clock).block

    assert (found.steps, found.work.samples) == (8, 8 * BATCH)
    assert (found.phases["forward"], found.phases["backward"], found.seconds) == (8.0, 8.0, 16.0)


def watched(train: Callable[[], None], steps: int) -> Probe:
    """Return the probe that watched so many steps of training."""
    left = steps

    class Enough(BaseException):
        pass

    def at_step_boundary() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Enough

    probe = Probe(at_step_boundary=at_step_boundary)
    try:
        with probe.attached():
            train()
    except Enough:
        pass
    return probe


def test_a_model_that_is_first_called_after_an_optimizer_step_is_known() -> None:
    """So are those that train in every second step alone."""
    clock = HandClock()
    models = [Slow(clock), Slow(clock), Slow(clock)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]

    def train() -> None:
        for step, inputs in enumerate(for_ever(batches())):
            for model, optimizer in list(zip(models, optimizers, strict=True))[: 2 + step % 2]:
                two_passes(model, inputs, optimizer)

    found = record(train, 6, clock).block

    assert (found.steps, found.work.samples) == (6, 6 * BATCH)
    assert (found.phases["forward"], found.phases["backward"], found.seconds) == (15.0, 15.0, 30.0)
    assert watched(train, 3).models == models


def test_passes_within_a_closure_are_no_micro_batches() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def train() -> None:
        for inputs in for_ever(batches()):

            def closure(inputs: torch.Tensor = inputs) -> torch.Tensor:
                optimizer.zero_grad()
                loss = model(inputs).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)

    found = watched(train, 4)
    assert (found.steps.passes, found.steps.batches) == (1, 1)


def test_several_losses_of_a_batch_make_an_epoch_no_shorter() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for number, inputs in enumerate(for_ever(batches()), 1):
            outputs = model(inputs)
            outputs.square().mean().backward(retain_graph=True)
            outputs.abs().mean().backward()
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()

    found = watched(train, 4)
    assert (found.steps.passes, found.steps.batches) == (4, 2)
    assert observed(found)["gradient_accumulation_steps"] == 2


@pytest.mark.parametrize("steps", [3, 6, 9])
def test_an_epochs_short_last_step_is_not_what_steps_are_made_of(steps: int) -> None:
    """An epoch of ten batches makes two steps of four and one of two, whichever of them came last."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        loader = batches()
        while True:
            for number, (inputs,) in enumerate(loader, 1):
                model(inputs).square().mean().backward()
                if number % 4 == 0 or number == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()

    found = watched(train, steps)
    facts = observed(found)

    assert (found.steps.passes, found.steps.batches) == (4, 4)
    assert (facts["gradient_accumulation_steps"], facts["epoch_steps"]) == (4, 3)


def test_steps_that_are_made_of_more_from_some_time_on_are_told() -> None:
    """What a few steps alone are made of is not usual, be it more or less."""
    ends = StepEnds()
    ends.has_optimizer = True

    def step(passes: int) -> int:
        for _ in range(passes):
            ends.passed(torch.ones(()), in_closure=False)
        ends.ended()
        ends.count()
        return ends.passes

    assert [step(passes) for passes in (1, 1, 1, 1, 1, 9, 2, 2, 2)] == [1] * 7 + [2] * 2
    assert [step(passes) for passes in (1, 1, 1, 1)] == [2, 2, 2, 1]


@pytest.mark.parametrize(
    ("rate", "relative"), [(lambda step: (step + 1) / 1000, [0.001, 0.002, 0.003]), (lambda _: 1.0, [1.0] * 3)]
)
def test_learning_rates_are_told_beside_the_losses(rate: Callable[[int], float], relative: list[float]) -> None:
    """Relative to the one that was set, as a schedule has it at each step; one for each loss."""
    model = nn.Linear(3, 1)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        for inputs in for_ever(batches()):
            model(inputs).square().mean().backward()
            optimizer.step()
            schedule.step()

    found = watched(train, 3)

    assert found.steps.rates.first == pytest.approx(relative)
    assert len(found.steps.losses.first) == 3


@pytest.mark.parametrize(
    ("set_to", "relative"),
    [
        ([1e-5] * 3, [1.0] * 3),
        ([1e-8, 2e-8, 3e-8], [1e-3, 2e-3, 3e-3]),  # a warm-up
        ([1e-8] * 3, [1.0] * 3),  # what the optimizer was made with was never meant
        ([2e-8, 2e-8, 1e-8], [1.0, 1.0, 0.5]),
    ],
)
def test_a_learning_rate_is_relative_to_that_of_its_own_group(set_to: list[float], relative: list[float]) -> None:
    """The optimizer's default is that of no group here; a loop may set rates by its own code, without a schedule."""
    model = nn.Linear(3, 1)

    def train() -> None:
        optimizer = torch.optim.AdamW([{"params": model.parameters(), "lr": 1e-5}])
        for inputs, now in zip(for_ever(batches()), [*set_to, 1.0], strict=False):
            optimizer.param_groups[0]["lr"] = now
            model(inputs).square().mean().backward()
            optimizer.step()

    assert watched(train, 3).steps.rates.first == pytest.approx(relative)


@pytest.mark.parametrize(
    ("rates", "scheduled", "learns"),
    [
        ([step / 4000 for step in range(64)], True, False),  # early in a long warm-up, be it by a schedule
        ([step / 4000 for step in range(64)], False, False),  # or by a loop
        ([2e-4] * 64, True, False),  # the first stage of a warm-up that rises from epoch to epoch
        ([0.0] * 64, False, False),
        ([0.01] * 64, False, True),
        ([0.01, 0.0] * 32, False, True),  # steps that a scaler leaves out
        ([1e-3 * 0.99**step for step in range(64)], True, True),  # a schedule of rates as such: it falls
        ([min(step, 30) / 1e5 for step in range(64)], True, True),  # its warm-up is over
    ],
)
def test_a_rate_that_rises_no_longer_is_the_full_one(rates: list[float], scheduled: bool, learns: bool) -> None:
    """Losses of steps that hardly learn show nothing, and those of a program that sets rates as such do."""
    assert learns == (sum(relative_to_full(rates, scheduled)) >= LEARNING_STEPS)


def test_gradients_of_another_model_may_be_dropped_within_a_step() -> None:
    """Those of a critic between micro-batches: a step ends where the optimizer's does."""
    model, critic = nn.Linear(3, 1), nn.Linear(1, 1)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for number, inputs in enumerate(for_ever(batches()), 1):
            critic(model(inputs)).square().mean().backward()
            critic.zero_grad()
            if number % 5 == 0:
                optimizer.step()
                optimizer.zero_grad()

    found = watched(train, 8)

    assert (found.steps.passes, found.steps.batches) == (5, 5)


def test_gradients_of_single_samples_make_one_step() -> None:
    """Each is clipped and dropped, and the optimizer gets their sum, as in training with differential privacy."""
    model = nn.Linear(3, 1)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for inputs in for_ever(batches()):
            total = torch.zeros_like(model.weight)
            for sample in inputs:
                model.zero_grad()
                model(sample[None]).square().mean().backward()
                total += model.weight.grad
            model.weight.grad = total
            optimizer.step()

    found = watched(train, 6)

    assert (found.steps.passes, found.steps.batches, found.position) == (BATCH, 1, 6 * BATCH)


def test_a_step_that_a_scaler_leaves_out_is_one() -> None:
    """Its gradients overflowed, and the next step has a batch of its own."""
    model = nn.Linear(3, 1)

    def train() -> None:
        scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(model.parameters(), lr=0.01)
        for number, inputs in enumerate(for_ever(batches())):
            loss = model(inputs).square().mean()
            scaler.scale(loss * torch.inf if number % 2 else loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    found = watched(train, 8)

    assert (found.steps.passes, found.position) == (1, 8 * BATCH)
    assert found.steps.rates.first == [1.0, 0.0] * 4


def test_weights_may_be_updated_within_the_backward_pass() -> None:
    """Each by an optimizer of its own, as soon as it has its gradient: on a device in a thread that autograd has."""
    model = nn.Linear(3, 1)
    optimizers = {weight: torch.optim.SGD([weight], lr=0.01) for weight in model.parameters()}

    def update(weight: torch.Tensor) -> None:
        done = threading.Event()

        def step() -> None:
            optimizers[weight].step()
            optimizers[weight].zero_grad()
            done.set()

        _thread.start_new_thread(step, ())
        done.wait()

    for weight in model.parameters():
        weight.register_post_accumulate_grad_hook(update)

    def train() -> None:
        for inputs in itertools.islice(for_ever(batches()), 40):
            model(inputs).square().mean().backward()

    found = watched(train, 30)

    assert type(found.optimizer) is torch.optim.SGD
    assert (found.steps.passes, found.position) == (1, 30 * BATCH)


def test_an_optimizer_for_each_weight_makes_one_step_where_no_module_is_called() -> None:
    """Functions over bare weights have nothing that begins a step, and each weight has an optimizer (Pyro's SVI)."""
    clock = HandClock()
    weights = [nn.Parameter(torch.ones(2)) for _ in range(3)]
    optimizers = [torch.optim.SGD([weight], lr=0.01) for weight in weights]

    def train() -> None:
        while True:
            clock.pass_second()
            sum(weight.square().sum() for weight in weights).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

    found = record(train, 6, clock).block

    assert found.step_seconds == [1.0] * 6


def test_many_optimizers_that_step_on_the_same_gradients_leave_a_loader_its_training() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer, steps = torch.optim.SGD([weight], lr=0.01), StepEnds()

    for _ in range(3):
        steps.passed(weight.detach().sum(), in_closure=False)
        for _ in range(20):
            steps.updated(optimizer)
            steps.ended()

    assert not steps.asks_no_loader
    assert steps.updates == 60


def test_what_is_recorded_to_be_run_later_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark would become a part of what a CUDA graph runs, and a wait would break the recording off."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        monkeypatch.setattr(devices, "is_capturing", lambda: True)
        for _ in range(200):
            torch.autograd.grad(model(torch.ones(2, 3)).sum(), list(model.parameters()))
            optimizer.step()
        monkeypatch.setattr(devices, "is_capturing", lambda: False)
        for inputs in for_ever(batches()):
            two_passes(model, inputs, optimizer)

    found = watched(train, 4)

    assert (found.steps.updates, found.position) == (4, 4 * BATCH)


def test_training_may_run_in_another_thread() -> None:
    clock, found = HandClock(), []

    def train() -> None:
        model = Slow(clock)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for inputs in for_ever(batches()):
            two_passes(model, inputs, optimizer)

    thread = threading.Thread(target=lambda: found.append(record(train, 6, clock).block))
    thread.start()
    thread.join()

    assert (found[0].steps, found[0].work.samples) == (6, 6 * BATCH)
    assert (found[0].phases["forward"], found[0].phases["backward"]) == (6.0, 6.0)


def test_all_loaders_that_a_step_draws_from_feed_training() -> None:
    """A loop over two of them at once, in one pass or in two; one that only feeds a validation is none of them.

    That is so although the validation leaves its gradients on.
    """
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first, second, third = batches(), batches(), batches()

    def train() -> None:
        while True:
            for step, ((x,), (u,)) in enumerate(zip(first, second, strict=True)):
                outputs = model(torch.cat([x, u])) if step % 2 else model(x) + model(u)
                outputs.square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                if step == 2:
                    for (v,) in third:
                        model(v)

    fed = [identity(first), identity(second)]
    assert watched(train, 14).fetched.feeding == fed * (14 // BATCHES + 1)


def sized(batches: int, size: int, **options: Any) -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(batches * size, 3)), batch_size=size, **options)


def zipped(few: DataLoader, many: DataLoader) -> Iterator[Any]:
    while True:
        yield from zip(few, many, strict=False)


def zipped_the_other_way(few: DataLoader, many: DataLoader) -> Iterator[Any]:
    while True:
        yield from zip(many, few, strict=False)


def beside_one_that_goes_on(few: DataLoader, many: DataLoader) -> Iterator[Any]:
    """The longer one is no loop's, and goes on in the next epoch of the shorter one."""
    beside = for_ever(many)
    while True:
        yield from ((one, [next(beside)]) for one in few)


def cycled(few: DataLoader, many: DataLoader) -> Iterator[Any]:
    while True:
        yield from zip(itertools.cycle(few), many, strict=False)


def begun_again(few: DataLoader, many: DataLoader) -> Iterator[Any]:
    again = iter(few)
    while True:
        for one in many:
            try:
                other = next(again)
            except StopIteration:
                again = iter(few)
                other = next(again)
            yield one, other


@pytest.mark.parametrize(
    ("pairs", "within"),
    [
        (zipped, False),
        (zipped_the_other_way, False),
        (beside_one_that_goes_on, False),
        (cycled, True),
        (begun_again, True),
    ],
)
def test_of_several_loaders_that_one_counts_which_ends_the_epoch(pairs: Callable[..., Any], within: bool) -> None:
    """Whichever of them is asked first. One that ends within another's epoch is known when it has done so."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    few, many = sized(6, 4), sized(11, 5)

    def train() -> None:
        for (x,), (u,) in pairs(few, many):
            model(torch.cat([x, u])).mean().backward()
            optimizer.step()

    probe = watched(train, 16)
    assert probe.fetched.ends_within == within
    probe.fetched.epoch_of_longest = within

    facts = observed(probe)
    assert (facts["epoch_steps"], facts["loaders_of_step"]) == ((11, 2) if within else (6, 2))


@pytest.mark.parametrize(("of_longest", "samples"), [(False, 4), (True, 5)])
def test_the_samples_of_a_step_are_those_of_the_loader_that_ends_the_epoch(of_longest: bool, samples: int) -> None:
    """From the second step on; before that it is not known that both are trained on."""
    starts = []

    def at_step_boundary() -> None:
        starts.append(probe.position)
        if not probe.tape.marks:
            probe.open()
        if len(starts) > 20:
            raise KeyboardInterrupt

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    probe = Probe(at_step_boundary=at_step_boundary, epoch_of_longest=of_longest)
    with probe.attached(), contextlib.suppress(KeyboardInterrupt):
        for (x,), (u,) in zipped(sized(6, 4), sized(11, 5)):
            model(torch.cat([x, u])).mean().backward()
            optimizer.step()

    assert {after - before for before, after in itertools.pairwise(starts[2:])} == {samples}


class Stream(IterableDataset):
    """A data set that gives one example after another."""

    def __init__(self, examples: int):
        self.examples = examples

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from torch.randn(self.examples, 3)


def sources_and_targets(rows: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of sequences, (length, batch, features), whose targets are shorter than its sources."""
    return torch.zeros(21, len(rows), 3), torch.zeros(19, len(rows), 3)


def nodes_and_edges(rows: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of graphs, all of whose nodes are in one tensor."""
    return torch.zeros(5 * len(rows), 3), torch.zeros(9 * len(rows), 3)


@pytest.mark.parametrize("collate", [sources_and_targets, nodes_and_edges, None])
@pytest.mark.parametrize(
    ("data", "options", "samples"),
    [
        (torch.randn(50, 3), {"batch_size": 16}, [16, 16, 16, 2, 16]),
        (torch.randn(50, 3), {"batch_size": 16, "num_workers": 2, "persistent_workers": True}, [16, 16, 16, 2, 16]),
        (torch.randn(50, 3), {"batch_sampler": [[1, 2, 3], [4], [5, 6]]}, [3, 1, 2, 3, 1]),
        (Stream(48), {"batch_size": 16, "num_workers": 2}, [16] * 5),
        (Stream(56), {"batch_size": 16}, [16, 16, 16, None, 16]),
    ],
)
def test_a_batch_has_as_many_samples_as_its_loader_has_drawn(
    collate: Any, data: Any, options: dict[str, Any], samples: list[int | None]
) -> None:
    """Also in the next epoch; shapes alone would tell other numbers.

    Of an iterable data set alone it is the shapes that tell where it ended; None stands for what they must not tell.
    """
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    positions: list[int] = []

    def train() -> None:
        loader = DataLoader(data, collate_fn=collate, **options)
        while True:
            for batch in loader:
                positions.append(probe.position)
                model(batch if collate is None else batch[0]).mean().backward()
                optimizer.step()

    class Enough(BaseException):
        pass

    def at_step_boundary() -> None:
        if len(positions) > 6:
            raise Enough

    probe = Probe(at_step_boundary=at_step_boundary)
    with contextlib.suppress(Enough), probe.attached():
        train()

    found = [after - before for before, after in itertools.pairwise(positions)]
    assert [number for number, wanted in zip(found, samples, strict=False) if wanted] == [n for n in samples if n]


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs).relu()


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Part(), Part()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs))


def a_function(model: Parts, how: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    @torch.compile(**how)
    def loss_of(inputs: torch.Tensor) -> torch.Tensor:
        return model(inputs).square().mean()

    return loss_of


def a_model(model: Parts, how: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    compiled = torch.compile(model, **how)
    return lambda inputs: compiled(inputs).square().mean()


def in_place(model: Parts, how: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    model.compile(**how)
    return lambda inputs: model(inputs).square().mean()


def a_part(model: Parts, how: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    model.second.compile(**how)
    return lambda inputs: model(inputs).square().mean()


def a_function_after_the_model(model: Parts, how: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    loss_of = a_function(model, how)
    calls = iter(range(100))
    return lambda inputs: model(inputs).square().mean() if next(calls) < 2 else loss_of(inputs)


def in_place_after_two_steps(model: Parts, how: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    calls = iter(range(100))

    def loss_of(inputs: torch.Tensor) -> torch.Tensor:
        if next(calls) == 2:
            model.compile(**how)
        return model(inputs).square().mean()

    return loss_of


@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize(
    "made", [a_function, a_model, in_place, a_part, a_function_after_the_model, in_place_after_two_steps]
)
def test_what_is_compiled_has_the_graphs_that_it_has_without_the_probe(made: Callable, loader: bool) -> None:
    """`fullgraph=True` allows no break. Steps, samples and forward passes are seen, whatever of it was compiled."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: list) -> Callable:
        graphs.append(graph)
        return graph.forward

    def train(steps: int) -> None:
        torch._dynamo.reset()
        graphs.clear()
        model = Parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loss_of = made(model, {"fullgraph": True, "dynamic": False, "backend": backend})
        given = for_ever(batches()) if loader else itertools.repeat(torch.ones(BATCH, 3))
        for inputs in itertools.islice(given, steps):
            loss_of(inputs).backward()
            optimizer.step()
            optimizer.zero_grad()

    train(6)
    plain = len(graphs)
    found = record(lambda: train(7), 6).block

    assert len(graphs) == plain
    assert (found.steps, found.work.samples) == (6, 6 * BATCH)
    assert found.phases["forward"] > 0


def test_a_compiled_function_may_make_the_backward_pass() -> None:
    """What it does after that is no part of the forward pass; augmenting a batch, which has no gradients, is none."""
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        @torch.compile(backend="eager")
        def augment(inputs: torch.Tensor) -> torch.Tensor:
            return inputs + 1

        @torch.compile(backend="eager")
        def step(inputs: torch.Tensor) -> torch.Tensor:
            loss = model(inputs).square().mean()
            loss.backward()
            return loss.detach()

        for inputs in for_ever(batches()):
            step(augment(inputs))
            optimizer.step()
            optimizer.zero_grad()

    found = watched(train, 5)

    assert (found.position, found.steps.passes, found.models) == (5 * BATCH, 1, [model])


def scripted(model: Parts) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.jit.script(model)


def scripted_after_a_dry_run(model: Parts) -> Callable[[torch.Tensor], torch.Tensor]:
    model(torch.ones(BATCH, 3))
    return torch.jit.script(model)


def traced_after_a_dry_run(model: Parts) -> Callable[[torch.Tensor], torch.Tensor]:
    model(torch.ones(BATCH, 3))
    return torch.jit.trace(model, torch.ones(BATCH, 3))


def hooks_cleared(model: Parts) -> Callable[[torch.Tensor], torch.Tensor]:
    """Now and then, those that begin a pass, those that end one, or both; between passes, or within one."""
    calls = itertools.count()

    def clear(call: int) -> None:
        for module in model.modules():
            if call % 3 != 1:
                module._forward_hooks.clear()
            if call % 3 != 0:
                module._forward_pre_hooks.clear()

    def called(inputs: torch.Tensor) -> torch.Tensor:
        call = next(calls)
        if call % 6 < 3:
            outputs = model(inputs)
            clear(call)
            return outputs
        handle = model.second.register_forward_hook(lambda *_: clear(call))
        outputs = model(inputs)
        handle.remove()
        return outputs

    return called


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("made", [scripted, scripted_after_a_dry_run, traced_after_a_dry_run, hooks_cleared])
def test_the_hooks_of_the_probe_break_nothing(made: Callable) -> None:
    """What is made of a model by TorchScript takes no hooks, and a program may clear all of them at any time. Steps
    and samples are seen all the same."""
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        called = made(model)
        for inputs in for_ever(batches()):
            optimizer.zero_grad()
            called(inputs).square().mean().backward()
            optimizer.step()

    found = record(train, 12).block

    assert (found.steps, found.work.samples) == (12, 12 * BATCH)
    assert found.phases["forward"] > 0
    assert found.phases["backward"] > 0
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()] == [0] * 5


def test_a_model_that_calls_itself_makes_one_pass() -> None:
    clock = HandClock()

    class Twice(Slow):
        def forward(self, inputs: torch.Tensor, again: bool = True) -> torch.Tensor:
            return super().forward(inputs) + (self(inputs, again=False) if again else 0.0)

    model = Twice(clock)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for inputs in for_ever(batches()):
            two_passes(model, inputs, optimizer)

    found = record(train, 4, clock).block

    assert (found.steps, found.work.samples, found.phases["forward"]) == (4, 4 * BATCH, 8.0)
