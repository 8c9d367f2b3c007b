"""The start of a trial's process on this host: what it runs, what is done to it, and where it writes."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from slowstep.environment.limits import available_memory
from slowstep.factors import Arm
from slowstep.launch.environment import devices_of
from slowstep.launch.frozen_bases import FrozenBase
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.of_command import EXTENSIONS, WEIGHTS, extensions, intervention, offline, program_of
from slowstep.launch.warm_interpreter import WarmInterpreter, own_path
from slowstep.records import identity
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import Budget
from slowstep_probe.plain import to_plain as message
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.scratch import folder_prefix
from slowstep_probe.processes.wire import Wire
from slowstep_probe.program import Program
from slowstep_probe.ranks.rank import ENVIRONMENT, Group
from slowstep_probe.secret import secrets_of
from slowstep_probe.trial.messages import Launch

TRIAL = "slowstep_probe.trial.main:main"
"""What a trial's process runs."""

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a trial is started with."""

    arm: Arm
    log: Path
    cache: Path
    """The folder of what is compiled, which the launches of one arm share."""
    limit: int
    """The most bytes of host memory."""
    asked: float
    """The time when it was asked for, by `time.monotonic()`."""
    group: Group | None = None
    """The ranks that it forks, and those that it leads; None for a program that starts no others."""
    base: FrozenBase | None = None


def start_trial(start: Start, interpreter: WarmInterpreter, line: Wire | None = None) -> Guarded:
    """Return a trial's process. It answers over `line`, which is handed over, where another node's process leads it."""
    settings, command = start.arm.settings, start.arm.settings.command
    start.log.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=folder_prefix("trial")))
    built, weights = start.cache.parent / EXTENSIONS, start.cache.parent / WEIGHTS
    if command:  # another option, or another configuration file, may build another model by the same call
        weights = weights / identity(settings.given)
    kept = [start.cache, built, weights]
    for made in kept:
        made.mkdir(parents=True, exist_ok=True)
    own = offline(folder, command) | extensions(settings, built) if command else devices_of(settings.ranks)
    program = program_of(command, settings.given, folder / "given") if command else described(start, folder)
    launch = Launch(
        program=program,
        intervention=intervention(settings, folder, kept, weights) if command else None,
        env={"TORCHINDUCTOR_CACHE_DIR": str(start.cache)} | own,
        group=start.group,
        launcher=command.launcher if command else ENVIRONMENT,
        processes=command.processes if command else 0,
        meeting=str(folder),
        freed_memory=settings.freed_memory,
        on_device=command is not None and settings.run["use_cpu"] is False,
        started=start.asked,
        imports=interpreter.preloaded.seconds,
        ready=interpreter.preloaded.ready,
    )
    order = Order(
        target=TRIAL,
        arguments=[message(launch)],
        path=[] if command else own_path(),
        log=str(start.log),
        folder=str(folder),
        limit=start.limit,
        secrets=secrets_of(command.words, command.env) if command else [],
    )
    return Guarded(interpreter, order, line)


def described(start: Start, folder: Path) -> Program:
    """Return the program that trains a described run. Its order is a file in the trial's `folder`."""
    order, base = folder / "order.json", start.base
    asked = {"settings": to_plain(start.arm.settings), "folder": str(folder), "shared": str(start.cache.parent)}
    order.write_text(json.dumps(asked | {"base": to_plain(base) if base else None}), encoding="utf-8")
    return Program(arguments=["-m", "slowstep.workloads", str(order)], folder=os.getcwd())


def memory_limit(budget: Budget) -> int:
    """Return the bytes of host memory that a trial may take: as set, else nine tenths of what is available now."""
    if budget.memory_limit_gib is not None:
        return int(budget.memory_limit_gib * GIB)
    return int(0.9 * available_memory())
