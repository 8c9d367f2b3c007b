"""A program surveyed in its own interpreter: it runs until it has taken some steps, and is ended there.

It is started as `python -c "…; main(ORDER)"`, where ORDER is JSON. It writes one line of JSON to the file descriptor
that the order names.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from json import dumps, loads
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.survey.watched import Watched


def main(order: str) -> None:
    """Run the program of an order, and tell what was seen of it. Never returns."""
    asked = loads(order)
    began = time.monotonic()
    from slowstep_probe.processes.own_signals import keep_signals
    from slowstep_probe.processes.standard_input import close_standard_input
    from slowstep_probe.program import Program

    close_standard_input()
    protection = _protected(asked)
    keep_signals()
    own = _rank_of(asked) if asked["group"] else None
    program = Program(arguments=asked["arguments"], folder=asked["folder"], command=asked["command"])
    if own is not None and asked["launcher"] == "environment":
        os.environ.update(own.rank.environment)
    program.enter()
    watched = _watched(asked, own, protection, began)
    watched.tell(_run(program, watched))


def _protected(asked: dict[str, Any]) -> Any:
    """Return the overlays of this process, or None if what is written stays. Where none can be had, say so and end."""
    from slowstep_probe.processes.protection import protect, unprotected

    if not asked["scratch"]:
        return None
    protection = protect(asked["scratch"], [asked["scratch"]])
    if protection.open:
        with os.fdopen(asked["result"], "w") as out:
            out.write(dumps({"refused": unprotected(protection)}) + "\n")
        os._exit(1)
    return protection


def _watched(asked: dict[str, Any], own: Any, protection: Any, began: float) -> Watched:
    """Return a survey that has begun: everything is attached but the probe. `own` is this process's rank, or None."""
    from slowstep_probe.changing.data_parallel import GradientExchange
    from slowstep_probe.late_imports import LateImports
    from slowstep_probe.patches import Patches
    from slowstep_probe.probe.probe import Probe
    from slowstep_probe.processes.own_descriptors import keep_open
    from slowstep_probe.ranks.collectives import Collectives
    from slowstep_probe.ranks.launchers import Launchers
    from slowstep_probe.ranks.meeting import Meeting
    from slowstep_probe.ranks.rank import SPAWN
    from slowstep_probe.survey.after_epochs import AfterEpochs
    from slowstep_probe.survey.early_environment import EarlyEnvironment
    from slowstep_probe.survey.epoch_steps import EpochSteps
    from slowstep_probe.survey.survey import Survey

    before = dict(os.environ)
    patches = Patches()
    watched = Watched(asked, began)
    # what was spawned first may prepare data, for other processes to train on
    is_open = asked["launcher"] in ("", SPAWN)
    several = (lambda would: watched.tell_several(would, before)) if is_open else None
    launchers = Launchers(own.rank if own else None, asked["launcher"], several)
    launchers.no_ranks = asked["no_ranks"]
    launchers.has_trained = lambda: own is None and watched.steps > 0
    watched.survey = Survey(launchers)
    watched.protection = protection
    watched.probe = Probe(at_step_boundary=watched.at_step_boundary)
    watched.early = EarlyEnvironment(asked["early"], watched.tell_early if own is None else None)
    watched.start()
    watched.attach(patches)
    keep_open([own.wire.fileno() if own else asked["result"]], patches)
    watched.survey.attach()
    watched.early.attach()
    if own is not None:
        Collectives(watched.probe).attach(patches)
        watched.exchange = GradientExchange()
        watched.exchange.attach(patches)
        Meeting(asked["meeting"], own.rank.size, own.address).attach(patches)
    watched.effects.attach(patches)
    watched.effects.attach_outside(patches)
    watched.configurations.attach(patches, LateImports())
    watched.after_epochs = AfterEpochs(watched.probe.fetched.has_fed)
    watched.after_epochs.attach(patches)
    watched.epoch_steps = EpochSteps()
    return watched


def _run(program: Any, watched: Watched) -> str:
    """Run the program under the probe, and return how it ended by itself. Note whether it failed."""
    from slowstep_probe.program import to_its_end
    from slowstep_probe.trial.failure import on_full_disk, raised

    with watched.probe.attached():
        try:
            with to_its_end() as errors:
                program.run()
            if (error := watched.probe.of_training(errors)) is not None:
                raise error
            return "it returned"
        except SystemExit as exit:
            ended = f"it called sys.exit({exit.code!r})"
            if exit.code not in (None, 0):
                watched.failed = not watched.beyond_epoch
                ended += f" after {raised(exit.__context__)}" if exit.__context__ else ""
            return ended
        except BaseException as error:
            with contextlib.suppress(OSError):  # the disk that its words go to may be full
                traceback.print_exc()
            ended, watched.failed = on_full_disk(error) + raised(error), not watched.beyond_epoch
            if isinstance(error, EOFError) and "getpass" in traceback.extract_tb(error.__traceback__)[-1].filename:
                return f"EOFError: EOF when reading a line, {ended}"  # as `input` says
            return ended


def _rank_of(asked: dict[str, Any]) -> Any:
    """Return what each rank's process is. The process that has forked the ranks of this node never returns.

    Each rank tells what it saw over its wire; `asked["result"]` becomes the descriptor of that. Where another node's
    process leads all ranks, the only descriptor in `asked["nodes"]` is the connection to it, and nothing is told here.
    """
    from slowstep_probe.plain import from_plain
    from slowstep_probe.processes.wire import Wire
    from slowstep_probe.ranks.fork import Ranks
    from slowstep_probe.ranks.gathering import gather_ranks
    from slowstep_probe.ranks.outpost import Outpost
    from slowstep_probe.ranks.rank import Group
    from slowstep_probe.ranks.surveyed_together import tell_together

    for each in asked["nodes"]:
        os.set_inheritable(each, False)
    group, lines = from_plain(Group, asked["group"]), [Wire.of(each) for each in asked["nodes"]]
    found = gather_ranks(group, lines, None) if group.leads else gather_ranks(group, [], lines[0])
    if not isinstance(found, Ranks):
        asked["wire"] = found.wire
        return found
    if group.leads:
        tell_together(found, asked["result"])
    return Outpost(lines[0], found).serve()
