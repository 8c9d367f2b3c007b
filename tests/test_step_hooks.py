"""What a program hangs on its optimizers is told from their updates, by looks at the stack."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.optim.optimizer as optimizers
from torch import nn

from slowstep.factors import Arm
from slowstep.measure.local import LocalMeasurer
from slowstep_probe.patches import Patches
from slowstep_probe.probe.probe import Probe
from slowstep_probe.profiled import Place
from slowstep_probe.trial.step_hooks import StepHooks
from slowstep_probe.trial.time_by_place import Places, placed
from workloads_for_tests import Averages

ACT: list[Callable[[], None]] = []
"""What the hooks and the rule of the program below do: let somebody look at the stack."""


def act() -> None:
    """Let somebody look at the stack."""
    ACT[-1]()


def average(model: nn.Module, *_: Any) -> None:
    """Stand for what trains nothing."""
    act()


class Average:
    """The same as an object."""

    def __call__(self, *_: Any) -> None:
        average(self)

    def update(self, *_: Any) -> None:
        """Update it."""
        average(self)


class OwnRule(torch.optim.SGD):
    """An optimizer of the program's own."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Update each weight by itself."""
        for group in self.param_groups:
            for weight in group["params"]:
                weight -= group["lr"] * weight.grad
                act()


Watched = tuple[Probe, Places]


@pytest.fixture
def watched() -> Iterator[Watched]:
    """The probe and what looks at the stack, as in a trial."""
    probe, hooks, patches = Probe(), StepHooks(), Patches()
    hooks.attach(patches)
    with probe.attached():
        probe.open()
        yield probe, Places(probe.tape.last_mark, hooks=hooks.codes)
    patches.remove()


def looked(watched: Watched, optimizer: torch.optim.Optimizer, model: nn.Module) -> list[Place]:
    """Train some steps, and return what was seen of the optimizer's where the program lets somebody look."""
    probe, places = watched
    ACT.append(lambda: places.look(sys._getframe(2), 1000))
    for _ in range(3):
        model(torch.ones(2, 4)).mean().backward()
        act()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        act()
    return [place for place in placed(places.found, probe.tape.phases()) if place.phase == "optimizer"]


HOOKS = {
    "a function": average,
    "of which nothing is learned": torch.no_grad()(average),
    "a part": functools.partial(average, None),
    "a lambda": lambda *given: average(*given),
    "a method": Average().update,
    "an object": Average(),
}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("when", ["pre", "post"])
def test_what_a_hook_runs_is_beside_the_update(hook: Callable[..., None], when: str, watched: Watched) -> None:
    """However it is written, and whenever it runs."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    getattr(optimizer, f"register_step_{when}_hook")(hook)

    (found,) = looked(watched, optimizer, model)

    assert found.hooked
    assert found.where.endswith(" in average")
    assert found.within
    assert found.together == pytest.approx(1 / 3)


def test_a_hook_of_all_optimizers_is_one(watched: Watched) -> None:
    """It runs before the step of each."""
    model = nn.Linear(4, 4)
    removes = optimizers.register_optimizer_step_pre_hook(average)

    found = looked(watched, torch.optim.AdamW(model.parameters()), model)
    removes.remove()

    assert [p.hooked for p in found] == [True]


def test_a_rule_of_the_programs_own_is_no_hook(watched: Watched) -> None:
    """It trains, also where a hook stands beside it."""
    model = nn.Linear(4, 4)
    optimizer = OwnRule(model.parameters())
    optimizer.register_step_post_hook(average)

    found = {p.where.rpartition(" ")[2]: p.hooked for p in looked(watched, optimizer, model)}

    assert found == {"step": False, "average": True}


@pytest.mark.parametrize("foreach", [True, False])
def test_an_ordinary_optimizer_has_no_hooks(foreach: bool, watched: Watched) -> None:
    """Neither PyTorch's updates, nor its clipping, nor a schedule."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(20)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    probe, places = watched
    places.begin()
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        model(torch.ones(2, 64)).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    found = places.stop(probe.tape.phases())

    assert "optimizer" in {p.phase for p in found}
    assert not any(p.hooked for p in found)


@pytest.mark.trials
def test_a_trial_tells_the_hooks_of_its_program(
    measurer: LocalMeasurer, arm: Callable[..., Arm], tmp_path: Path
) -> None:
    """Most of this one's time is in one."""
    found = measurer.profile(arm(Averages), tmp_path / "trace.json.gz").places

    assert sum(place.share for place in found if place.hooked and place.where.endswith(" in average")) > 0.5
    assert not any(place.hooked for place in found if not place.where.endswith(" in average"))
