"""A program that is watched as it runs: its steps are counted, and it is ended when enough was seen."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
import traceback
from json import dumps, loads
from types import FrameType
from typing import Any, NoReturn

from slowstep_probe import places
from slowstep_probe.changing.configurations import OF_TRIAL, Configurations
from slowstep_probe.changing.data_parallel import GradientExchange, world_size
from slowstep_probe.changing.effects import Effects
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import length_of, looking
from slowstep_probe.observed import observed
from slowstep_probe.own_time import time
from slowstep_probe.patches import Patches
from slowstep_probe.plain import shortened
from slowstep_probe.probe.probe import Probe
from slowstep_probe.processes.own_descriptors import keep_open
from slowstep_probe.processes.own_end import EXIT, OwnEnd
from slowstep_probe.processes.protection import Protection
from slowstep_probe.processes.wire import wait
from slowstep_probe.program import Program, to_its_end
from slowstep_probe.ranks.collectives import Collectives
from slowstep_probe.ranks.gathering import OwnRank
from slowstep_probe.ranks.launchers import Launchers, Would
from slowstep_probe.ranks.meeting import Meeting
from slowstep_probe.ranks.rank import PROCESS, SPAWN, way_of
from slowstep_probe.secret import hidden
from slowstep_probe.survey import MOST_FILES
from slowstep_probe.survey.after_epochs import AfterEpochs
from slowstep_probe.survey.collector_time import CollectorTime
from slowstep_probe.survey.early_environment import EarlyEnvironment
from slowstep_probe.survey.epoch_steps import EpochSteps
from slowstep_probe.survey.seen_training import seen_training
from slowstep_probe.survey.survey import Survey
from slowstep_probe.trial.failure import on_full_disk, raised

SHORT_EPOCH = 200
"""The most steps of an epoch whose end is waited for."""

AFTER_END = 3
"""The steps that are watched after the end of an epoch."""

COLLECTS, AGAIN = 8, 0.5
"""The passes without gradients before the first step from which on a program may collect what it trains on, and the
share of them after which it has done so again."""

COLLECTS_SOON = (2.0, 20.0)
"""The fewest and the most seconds that such steps are waited for."""

OF_ITS_OWN = (
    "it starts the processes that train together in a way that is not followed; start them by torchrun or by "
    "torch.multiprocessing"
)
NAME_THAT = "give that command, with the variables before it that it sets, as in `OMP_NUM_THREADS=2 python train.py`"


class Watched:
    """The survey of a program that runs: it counts steps, and ends the process when it has seen enough."""

    def __init__(self, asked: dict[str, Any], own: OwnRank | None, protection: Protection | None, began: float):
        """Make it. `own` is this process's rank, if it is one of several; without `protection`, what is written stays.

        `began` is the moment at which the survey began.
        """
        self.asked, self.own, self.protection, self.began = asked, own, protection, began
        self.boundaries = 0
        self.first: float | None = None
        self.failed = False
        """True if the program failed by itself while it went through its data for the first time: trials do, too. What
        it does after an epoch happens in no trial."""
        self.stop_at = asked["steps"]
        self._collected: int | None = None
        """Passes without gradients before the first step, of a program that draws from no loader."""
        self._collecting = 0.0
        """The seconds from the first of them to the first step."""
        self._told = threading.Lock()
        self._main, self._process, self._environment = threading.get_ident(), os.getpid(), dict(os.environ)
        # what was spawned first may prepare data, for other processes to train on
        several = self._tell_several if asked["launcher"] in ("", SPAWN) else None
        launchers = Launchers(own.rank if own else None, asked["launcher"], several)
        launchers.no_ranks = asked["no_ranks"]
        launchers.has_trained = lambda: own is None and self.steps > 0
        self.survey, self.probe = Survey(launchers), Probe(at_step_boundary=self.at_step_boundary)
        self.early = EarlyEnvironment(asked["early"], self._tell_early if own is None else None)
        self.exchange = GradientExchange()
        self.effects = Effects(lambda: self.probe.models)
        self.configurations = Configurations(Wanted({}), OF_TRIAL)
        self.after_epochs, self.epoch_steps = AfterEpochs(self.probe.fetched.has_fed), EpochSteps()
        self._collector, self._own_end = CollectorTime(), OwnEnd(self._exits)

    def attach(self) -> None:
        """Begin to watch, with all but the probe."""
        patches = Patches()
        threading.Thread(target=self._watch, name="survey", daemon=True).start()
        self._own_end.attach(patches)
        sys.addaudithook(self._runs_another)
        keep_open([self.own.wire.fileno() if self.own else self.asked["result"]], patches)
        self.survey.attach()
        self.early.attach()
        if self.own is not None:
            Collectives(self.probe).attach(patches)
            self.exchange.attach(patches)
            Meeting(self.asked["meeting"], self.own.rank.size, self.own.address).attach(patches)
        self.effects.attach(patches)
        self.effects.attach_outside(patches)
        self.configurations.attach(patches, LateImports())
        self.after_epochs.attach(patches)

    def run(self, program: Program) -> str:
        """Run the program under the probe, and return how it ended by itself. Note whether it failed."""
        with self.probe.attached():
            try:
                with to_its_end() as errors:
                    program.run()
                if (error := self.probe.of_training(errors)) is not None:
                    raise error
                return "it returned"
            except SystemExit as exit:
                ended = f"it called sys.exit({exit.code!r})"
                if exit.code not in (None, 0):
                    self.failed = not self.beyond_epoch
                    ended += f" after {raised(exit.__context__)}" if exit.__context__ else ""
                return ended
            except BaseException as error:
                with contextlib.suppress(OSError):  # the disk that its words go to may be full
                    traceback.print_exc()
                ended, self.failed = on_full_disk(error) + raised(error), not self.beyond_epoch
                if isinstance(error, EOFError) and "getpass" in traceback.extract_tb(error.__traceback__)[-1].filename:
                    return f"EOFError: EOF when reading a line, {ended}"  # as `input` says
                return ended

    def _exits(self, status: int) -> None:
        self.failed = status != 0 and not self.beyond_epoch
        where = "" if os.getpid() == self._process else " in the process that trains, which it had forked"
        self.tell(f"it called os._exit({status}){where}")

    def _runs_another(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "os.exec" or os.getpid() != self._process:
            return
        if not looking(_may_be_run)(arguments[0]):
            return
        if self.boundaries > 1:
            self.tell("its process ran another program (os.exec)")
        words = shlex.join(hidden([os.fsdecode(word) for word in arguments[1]]))
        self._told.acquire()
        self._send({"refused": f"it has its process run another program (os.exec), `{words}`; {NAME_THAT}"})

    def at_step_boundary(self) -> None:
        """Count a step; called by the probe between the steps."""
        if self._own_end.is_copy:
            return
        self.boundaries += 1
        self._own_end.trains_here()
        self.epoch_steps.step_ended(self.probe, self.survey)
        if os.getpid() != self._process and world_size() > 1:
            self._send({"refused": OF_ITS_OWN})
        if self.boundaries == 1:
            self.early.detach()
            self.first = time.monotonic() - self.began
            self._collected = self.probe.steps.looks
            self._collecting = time.monotonic() - self.probe.looked_since if self._collected else 0.0
            self.probe.open()
            self._collector.start()
            return
        if self.boundaries == 2:
            self.stop_at = self._wanted() + 1
        late = self._watched_seconds > self.asked["seconds"]
        if self.boundaries == 2 and not late:
            # what a program does once, before its first step, may have fallen into that
            self.probe.close()
            self.probe.open()
            self._collector.seconds = 0.0
        if not late and self.boundaries > self.asked["steps"] and self._collects_soon:
            return
        if self.boundaries > self.stop_at or late or (self.boundaries > self.asked["steps"] and self._epoch_is_far):
            self.tell("")

    @property
    def _epoch_is_far(self) -> bool:
        """True if the end of the epoch would take too long at the pace of the steps so far. Ranks don't ask it."""
        until_then = self._watched_seconds / self.boundaries * self.stop_at
        return self.own is None and until_then > self.asked["epoch_seconds"]

    @property
    def _collects_unseen(self) -> bool:
        """True if the model ran many times without gradients before the first step, and has not done so again.

        A program that acts, and then trains for many steps on what came of it, may take most of its time in the acting.
        """
        before, since = self._collected or 0, self.probe.steps.looks - (self._collected or 0)
        return self.probe.loader is None and before >= COLLECTS and since < AGAIN * before

    @property
    def _collects_soon(self) -> bool:
        """True if such steps are waited for, for twice as long as it took before the first step. Ranks don't ask it."""
        shortest, longest = COLLECTS_SOON
        wait = min(max(shortest, 2 * self._collecting), longest, self.asked["epoch_seconds"])
        return self.own is None and self._watched_seconds < wait and self._collects_unseen

    @property
    def _watched_seconds(self) -> float:
        """The seconds since the first step began."""
        return time.monotonic() - self.began - (self.first or 0.0)

    def _wanted(self) -> int:
        """Return the steps that are worth watching: beyond the first epoch's end if it is near."""
        asked, batches = self.asked["steps"], length_of(self.probe.loader)
        if batches is None:
            return asked
        epoch = batches // max(1, self.probe.steps.batches)
        return max(asked, epoch + AFTER_END) if epoch <= SHORT_EPOCH else asked

    @property
    def steps(self) -> int:
        """The steps that the program has taken."""
        return max(0, self.boundaries - 1) + self.probe.step_is_due

    @property
    def beyond_epoch(self) -> bool:
        """True if the program has gone through its data once, or has taken the steps that its Trainer may take."""
        limit = int(getattr(getattr(self.configurations.trainer, "args", None), "max_steps", 0) or 0)
        return self.probe.fetched.epochs > 0 or 0 < limit <= self.steps

    def tell(self, ended: str, standing: str = "") -> None:
        """Write what was seen, and end the process without unwinding the user's code."""
        if not self._told.acquire(blocking=False):
            threading.Event().wait()
        training = None
        if self.boundaries > 1 and not standing and self.probe.has_steps:
            try:
                training = self._training()
            except Exception as error:  # a program's object that answers in an unheard-of way
                traceback.print_exc()
                ended = shortened(f"what was seen of it can't be told: {type(error).__name__}: {error}", 500)
        found = self.survey.told() | {
            "ended": ended,
            "failed": self.failed,
            "standing": standing,
            "steps": self.steps,
            "first_step_boundary": self.first,
            "kept": self.protection is None,
            "early": self.early.found if self.own else {},
            "training": training,
        }
        if self.protection is not None:
            found["written"] = self.protection.written()[:MOST_FILES]
        self._send(found)

    def _tell_early(self, found: dict[str, str]) -> NoReturn:
        """Tell the variables with which the program has to be started, since a library is imported with them now."""
        self._told.acquire()
        self._send({"early": found})

    def _tell_several(self, would: Would) -> None:
        """Tell that the program would start several processes now, with what its launcher put into the environment.

        Processes that join a group when the program has trained are no ranks of it, and neither are those that a rank
        starts which has trained, or has met others.
        """
        is_rank = self.own is not None
        if (self.boundaries and (is_rank or way_of(would.launcher) == PROCESS)) or (is_rank and world_size()):
            return
        self._told.acquire()
        env = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        self._send({**vars(would), "env": env})

    def _send(self, found: dict[str, Any]) -> NoReturn:
        """Write what is told, and end the process; one of several ranks waits until all are ended."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the program may have put anything in its place
                stream.flush()
        if self.own is not None:
            self.own.wire.send(loads(dumps(found, default=str)))
            while True:
                threading.Event().wait()
        with os.fdopen(self.asked["result"], "w") as out:
            out.write(dumps(found, default=str) + "\n")
        EXIT(0)

    def _training(self) -> dict[str, Any]:
        """Return what was seen of the training. What odd objects do not tell is left out."""
        probe = self.probe
        block, steps = probe.close()
        probe.fetched.epoch_of_longest = probe.fetched.ends_within
        facts = self.effects.facts(probe.models, probe.loader) | observed(probe)
        if self.own is not None:
            facts |= looking(self.exchange.facts)(probe.models, probe.loader) or {}
        trainer, collecting = self.configurations.trainer, self._collector.seconds
        found = seen_training(probe, self.survey, block, trainer, facts, self._updates_of_a_step(), collecting)
        collects = (self._collected or 0) * self._collects_unseen
        # those of a Trainer end in trials anyway
        epochs = self.epoch_steps.told(steps.phases) if trainer is None else {}
        return found | epochs | {"after_epochs": self.after_epochs.seconds, "collects_unseen": collects}

    def _tell_where_to_meet(self) -> None:
        """Tell what decides where ranks can meet, and nothing that needs an answer of the device.

        This rank may wait on its device for what another one sends, which has told already and will send no more.
        """
        if self.boundaries > 1 and self._told.acquire(blocking=False):
            self._send({"asked": {"loads": self.probe.loader is not None, "updates": self._updates_of_a_step()}})

    def _updates_of_a_step(self) -> int:
        return round(self.probe.steps.updates / max(1, self.steps))

    def _is_asked(self) -> bool:
        """Return whether this rank is asked where it can meet others: they have told, and it may wait for them."""
        if self.own is None or not wait([self.own.wire], 0.0):
            return False
        try:
            return bool(self.own.wire.receive())
        except EOFError:
            return False

    def _watch(self) -> None:
        """End a program that takes no step in time, and say where it stands."""
        while time.monotonic() - self.began < self.asked["startup"] or self.boundaries > 1:
            time.sleep(0.1)
            if self._is_asked():
                self._tell_where_to_meet()
            if self.boundaries > 1 and time.monotonic() - self.began > self.asked["seconds"] + self.asked["startup"]:
                break
        frame: FrameType | None = sys._current_frames().get(self._main)
        self.tell("", standing=places.standing(frame) if frame else "")


def _may_be_run(path: Any) -> bool:
    """Return whether a program may be run by its path or its descriptor. Python tries one folder after another."""
    path = f"/proc/self/fd/{path}" if isinstance(path, int) else path
    return os.path.isfile(path) and os.access(path, os.X_OK)
