"""What a trial of a command needs: its interpreter, its program, and what is done to it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from slowstep.command.given_values import arguments
from slowstep.launch.environment import DRIVER_LEFT_ALONE, QUIET
from slowstep.launch.warm_interpreter import (
    ALWAYS,
    Interpreter,
    WarmInterpreter,
    environment,
    own_interpreter,
    warm,
)
from slowstep.records.store import UNUSABLE
from slowstep.settings.command import Command
from slowstep.settings.convert import from_plain
from slowstep.settings.epochs import why_epochs_end
from slowstep.settings.errors import SettingsError
from slowstep.settings.periodic_events import EVENTS, is_rare
from slowstep.settings.settings import Settings
from slowstep_probe.changing.intervention import Intervention
from slowstep_probe.program import Program
from slowstep_probe.survey.debug_environment import environment_of

OFFLINE = {
    **QUIET,
    "WANDB_MODE": "offline",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "offline",
    "COMET_MODE": "disabled",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Environment variables by which trackers tell nobody what a trial or a survey does. They write to files, which are
thrown away. Some read them while they are imported."""

WITHIN = "SLOWSTEP_WITHIN"
"""The environment variable that says that a program runs in a survey or a trial: "1"."""

OF_NOTEBOOKS = re.compile(r"MPLBACKEND=module://.*|PYDEVD_.*|CLICOLOR(_FORCE)?=1|FORCE_COLOR=1|(GIT_)?PAGER=cat")
"""Environment variables that a notebook's kernel has set, and that the command would not find."""

WEIGHTS = "weights"
"""The folder in which trials leave frozen models to each other."""

WORTH_SECONDS = 2.0
"""The seconds that building a model takes from which on it is built once for all trials."""

EXTENSIONS = "torch_extensions"
"""The folder in which PyTorch keeps extensions that were built when they were first used, as DeepSpeed's are."""


@dataclass(frozen=True, kw_only=True)
class _Saves:
    """What the record of a survey tells that saves trials time, and nothing else."""

    written: list[str] = field(default_factory=list)
    weights_seconds: float = 0.0
    modules: list[str] = field(default_factory=list)
    parameters: int = 0
    trained: int = 0


def offline(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return the environment variables that keep a trial, or a survey, from telling the world.

    MLflow is given a database in `folder`, the trial's own: another user could own a file at a path that all share.
    """
    return OFFLINE | {"MLFLOW_TRACKING_URI": f"sqlite:///{os.fspath(folder)}/mlflow.db", WITHIN: "1"}


def refuse_within(env: Mapping[str, str]) -> None:
    """Raise SettingsError in a survey or a trial: a program that diagnosed itself there would never come to an end."""
    if env.get(WITHIN):
        raise SettingsError(
            "the program that is diagnosed starts slowstep itself, which would survey and train it within its own "
            f"trial; name the program that trains, or leave that call out where {WITHIN} is set"
        )


def program_of(command: Command, given: Mapping[str, object], folder: Path) -> Program:
    """Return the program that a command starts, with values given; changed copies of its files go to a folder."""
    words = arguments(command, given, folder, links=True) if given else command.arguments
    return Program(arguments=words, folder=command.folder, command=[command.python, *words])


def interpreter_of(settings: Settings) -> WarmInterpreter:
    """Return the command's interpreter, warm: with its environment, and with the imports that its survey saw."""
    command = settings.command
    env = {name: value for name, value in os.environ.items() if not OF_NOTEBOOKS.fullmatch(f"{name}={value}")}
    env |= command.env | command.early | OFFLINE | DRIVER_LEFT_ALONE
    about = Interpreter(
        python=command.python,
        options=tuple(command.options),
        preload=(*ALWAYS, *_modules(settings)),
        env=environment(environment_of(settings.changes, env)),
        folder=command.folder,
        argv=tuple(Program(arguments=command.arguments, folder=command.folder).argv),
    )
    return warm(about)


def warmed(settings: Settings) -> WarmInterpreter:
    """Return the interpreter that trials of these settings are forked from."""
    return interpreter_of(settings) if settings.command else own_interpreter()


def intervention(settings: Settings, folder: Path, writable: Sequence[Path], weights: Path) -> Intervention:
    """Return what is done to the program of a command. Trials may leave models to each other in the folder `weights`.

    All that is `writable` they really write to.
    """
    own = [str(folder), *map(str, writable)]
    return Intervention(
        values=settings.changes,
        feeding=settings.surveyed.feeding,
        epochs_end=why_epochs_end(settings.run),
        epoch_of_longest=bool(settings.run["epoch_of_longest"]),
        meets_after=list(settings.run["meets_after"] or ()),
        writable=own if settings.command.protected else [],
        # a checkpoint that is not thrown away could push out one of the user's
        events=[e for e in EVENTS if is_rare(settings.run, e)] if settings.command.protected else [],
        micro_batches=settings.run.backward_passes,
        seed=settings.budget.seed,
        weights=str(weights) if _trains_over_frozen_weights(settings) else "",
        weights_seconds=WORTH_SECONDS,
    )


def extensions(settings: Settings, folder: Path) -> dict[str, str]:
    """Return the variable by which trials share what they build, in `folder`; {} for a program that builds nothing.

    What a trial writes is thrown away, so each would build for a minute or more what the survey was seen to build.
    """
    built = any(EXTENSIONS in Path(file).parts for file in _record(settings).written)
    return {"TORCH_EXTENSIONS_DIR": str(folder)} if built else {}


def _trains_over_frozen_weights(settings: Settings) -> bool:
    """Return whether a survey saw a model that took long to build, and of which most was frozen in training.

    Weights that are trained are their trial's own: pages of a file would be copied one by one as they are written to.
    """
    seen = _record(settings)
    return seen.weights_seconds >= WORTH_SECONDS and seen.parameters > 2 * seen.trained


def _modules(settings: Settings) -> list[str]:
    """Return the modules that a survey saw imported; [] if its record is gone."""
    return _record(settings).modules


def _record(settings: Settings) -> _Saves:
    """Return what the record of a survey tells here; nothing if it is gone, or is none."""
    try:
        found = json.loads(Path(settings.surveyed.record).read_text(encoding="utf-8"))
        training = found.get("training") or {}
        model = training.get("model") or {}
        told = {
            one.name: each[one.name] for one in fields(_Saves) for each in (found, training, model) if one.name in each
        }
        return from_plain(_Saves, told)
    except UNUSABLE:
        return _Saves()
