"""Shapes that entries of the catalogue have in common: where the value lives, what it may be, what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from slowstep.environment.machine import COMPILERS, Machine
from slowstep.factors.factor import Level, Meaning, show
from slowstep.settings.convert import describe
from slowstep.settings.run import Run

TRAINING_ARGUMENTS = "training_arguments."

Accepts = Callable[[Any], str | None]
Requires = Callable[[Any, Run, Machine], str | None]
Refuses = Callable[[Any, Run], str | None]
SettingsFactory = Callable[[Any, Run], dict[str, Any]]

# -- what a factor needs beside it: the settings `held_constant` to both arms, as far as the run lacks them --


def nothing(value: Any, run: Run) -> dict[str, Any]:
    """Return no settings: the factor exists by itself."""
    return {}


def having(**wanted: Any) -> SettingsFactory:
    """Make a `held_constant` for a factor that exists only beside these training arguments."""
    return lambda value, run: {TRAINING_ARGUMENTS + k: v for k, v in wanted.items() if run[k] != v}


# -- where the value lives: `current` and `level` of a factor --


def argument(name: str, held_constant: SettingsFactory = nothing) -> dict[str, Callable]:
    """Make `current` and `level` for one training argument, observed under its own name."""

    def level(value: Any, run: Run) -> Level:
        changed = {TRAINING_ARGUMENTS + name: value}
        return Level(value=value, overrides=changed, held_constant=held_constant(value, run), expects={name: value})

    return {"current": lambda run: run[name], "level": level}


def argument_key(name: str, key: str, default: Any, held_constant: SettingsFactory) -> dict[str, Callable]:
    """Make `current` and `level` for one key of a training argument that is a mapping; the key is what is observed.

    Such a mapping is gradient_checkpointing_kwargs.
    """

    def level(value: Any, run: Run) -> Level:
        changed = {TRAINING_ARGUMENTS + name: (run[name] or {}) | {key: value}}
        return Level(value=value, overrides=changed, held_constant=held_constant(value, run), expects={key: value})

    return {"current": lambda run: (run[name] or {}).get(key, default), "level": level}


def section(
    key: str,
    default: Any = None,
    fact: str = "",
    held_constant: SettingsFactory = nothing,
    excludes: SettingsFactory = nothing,
) -> dict[str, Callable]:
    """Make `current` and `level` for a dotted key of the settings, observed as `fact`, or under its last name.

    What a value `excludes` of the run changes with it.
    """
    name = key.rpartition(".")[2]

    def current(run: Run) -> Any:
        return default if run[key] is None else run[key]

    def level(value: Any, run: Run) -> Level:
        changed = {key: value, **excludes(value, run)}
        return Level(
            value=value, overrides=changed, held_constant=held_constant(value, run), expects={fact or name: value}
        )

    return {"current": current, "level": level}


def with_meaning(parts: dict[str, Callable], meaning: Callable[[Any, Run], Meaning | None]) -> dict[str, Callable]:
    """Return `current` and `level` of a factor whose levels differ in meaning; None stands for the factor's own."""
    return parts | {"level": lambda value, run: replace(parts["level"](value, run), meaning=meaning(value, run))}


# -- what is proposed where the file lists nothing --


def only(*values: Any) -> Callable[[Run, Machine], tuple[Any, ...]]:
    """Make a proposal of these values.

    Where a factor can also make a run slower, they are those that may make it faster.
    """
    return lambda run, machine: values


def where_seen(name: str, least: float, value: Any) -> Callable[[Run, Machine], tuple[Any, ...]]:
    """Make a proposal of `value` for runs whose survey saw a share of the time (`name`) that is `least` or more."""
    return lambda run, machine: (value,) if run.objects is not None and (run[name] or 0.0) >= least else ()


# -- what the value may be --


def _accepting(fits: Callable[[Any], bool], expected: str) -> Accepts:
    return lambda value: None if fits(value) else f"expected {expected}, found {describe(value)}"


def whole(minimum: int) -> Accepts:
    """Accept a whole number of at least `minimum`."""
    return _accepting(lambda v: type(v) is int and v >= minimum, f"a whole number of at least {minimum}")


def number(low: float, high: float) -> Accepts:
    """Accept a number from `low` to `high`."""
    return _accepting(lambda v: type(v) in (int, float) and low <= v <= high, f"a number from {low:g} to {high:g}")


def one_of(*allowed: Any) -> Accepts:
    """Accept one of the `allowed` words."""
    expected = f"one of {', '.join(map(str, allowed))}"
    return _accepting(lambda v: any(v == a and type(v) is type(a) for a in allowed), expected)


# -- what a level needs of the machine and of the run; docs/factors.md shows the docstrings of these functions --


def on_cpu(run: Run, machine: Machine) -> bool:
    """Return whether trials of these settings run on the CPU of this machine.

    Where a program trains, its survey has seen, also on a device that NVML does not tell of (ROCm, Jetson).
    """
    if run.objects is not None and "use_cpu" in run.values:
        return bool(run["use_cpu"])
    return machine.device == "cpu" or bool(run["use_cpu"])


def needs_cuda(what: str) -> Requires:
    """Require a CUDA device, since `what` exists only there."""

    def requires(value: Any, run: Run, machine: Machine) -> str | None:
        return f"{what} needs a CUDA device; this run trains on the CPU" if on_cpu(run, machine) else None

    return _with_docstring(requires, "a CUDA device")


def needs_package(package: str, what: str) -> Requires:
    """Require a package that may not be installed, since `what` comes with it."""
    name = package.replace("_", "-")

    def requires(value: Any, run: Run, machine: Machine) -> str | None:
        return None if package in machine.tools else f"{what} needs the package {name}, which is not installed"

    return _with_docstring(requires, f"the package {name}")


def needs_compiler(value: Any, run: Run, machine: Machine) -> str | None:
    """a C++ compiler where training runs on the CPU"""
    if not on_cpu(run, machine) or set(COMPILERS) & set(machine.tools):
        return None
    return "torch.compile needs a C++ compiler here (g++ or clang++), and none is installed"


def at(levels: Iterable[Any], requires: Requires) -> Requires:
    """Restrict a requirement to some levels."""
    levels = tuple(levels)

    def restricted(value: Any, run: Run, machine: Machine) -> str | None:
        return requires(value, run, machine) if value in levels else None

    return _with_docstring(restricted, f"{requires.__doc__} ({', '.join(map(show, levels))})")


def needs_object(kinds: Collection[str], what: str, otherwise: str) -> Requires:
    """Require `what` a survey tells as an object of one of some `kinds`; described runs have none."""

    def requires(value: Any, run: Run, machine: Machine) -> str | None:
        return None if {*kinds} & (run.objects or set()) else otherwise

    return _with_docstring(requires, what)


def of_a_command(kind: str, what: str) -> Requires:
    """Require `what` a survey tells as an object of a `kind`, which only a command can have."""
    return needs_object((kind,), f"a command's {what}", f"it needs a command's {what}")


def all_of(*conditions: Callable) -> Callable:
    """Join several requirements, or several refusals. The first that speaks against a level is reported."""

    def joined(*asked: Any) -> str | None:
        return next((why for condition in conditions if (why := condition(*asked))), None)

    return _with_docstring(joined, "; ".join(condition.__doc__ or "" for condition in conditions))


def only_if(condition: Callable[[Run], bool], why: str) -> Refuses:
    """Refuse a level for the reason `why` if the run does not meet `condition`."""
    return _with_docstring(lambda value, run: None if condition(run) else why, why)


def _with_docstring(function: Callable, text: str) -> Callable:
    function.__doc__ = text
    return function


has_adapter = only_if(lambda run: bool(run["peft"]), "the run trains no LoRA adapter (no peft section)")
"""A refusal for LoRA's own factors."""


def switched(on: str, off: str) -> Callable[[Any, Any], str]:
    """Make what names the cost that a level takes away: `on` if it switches the thing on, else `off`."""
    return lambda now, new: on if new else off


def changed(more: str, less: str) -> Callable[[Any, Any], str]:
    """Make what names the cost that a level takes away: `more` if it raises a number, else `less`."""
    return lambda now, new: more if (new or 0) > (now or 0) else less
