"""The line of a loop that calls a model again and again, whatever functions lie between it and the model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from slowstep_probe.profiled import PassLoop
from slowstep_probe.trial.pass_loops import PassLoops

TURNS = 60


class Policy(nn.Module):
    """Two networks that a method of the program's own asks."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(3, 2), nn.Linear(3, 1)

    def act(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.actor(seen), self.critic(seen)


def one_by_one(policy: Policy, rooms: torch.Tensor) -> None:
    for room in rooms:
        policy.act(room.unsqueeze(0))


def asked(policy: Policy, room: torch.Tensor) -> None:
    policy.act(room)


def by_a_function(policy: Policy, rooms: torch.Tensor) -> None:
    """A function of the program's own lies between."""
    for room in rooms:
        asked(policy, room)


def by_batches(policy: Policy, rooms: torch.Tensor) -> None:
    for _ in rooms:
        policy.act(rooms[:16])


def together(policy: Policy, rooms: torch.Tensor) -> None:
    policy.act(rooms)


def looked_at(way: Callable[[Policy, torch.Tensor], None], steps: int = 2) -> list[PassLoop]:
    """The loops that are told of some steps of a program that asks its policy in some `way`."""
    policy, loops = Policy(), PassLoops(lambda: "evaluate")
    for module in (policy.actor, policy.critic):
        module.register_forward_pre_hook(lambda module, args: loops.called(module, args, {}))
    for _ in range(steps):
        way(policy, torch.rand(TURNS, 3))
        loops.step_ended()
    return loops.end()


@pytest.mark.parametrize("way", [one_by_one, by_a_function])
def test_the_line_of_the_loop_is_told_and_not_that_which_calls_the_model(
    way: Callable[[Policy, torch.Tensor], None],
) -> None:
    """A policy is asked by one line, for one row, and as often as the loop turns in a step. Networks alike are one."""
    (loop,) = looked_at(way)

    assert loop.where.endswith(f" in {way.__name__}")
    assert TURNS - 1 <= loop.calls <= TURNS
    assert (loop.rows, loop.name, loop.phase) == (1, "Linear", "evaluate")


def test_rows_are_told() -> None:
    """A model that is given many rows in each turn is another matter."""
    assert {loop.rows for loop in looked_at(by_batches)} == {16}


def test_a_model_that_is_called_once_a_step_is_in_no_loop() -> None:
    """Steps are turns of a loop as well."""
    assert not looked_at(together, steps=2 * TURNS)
