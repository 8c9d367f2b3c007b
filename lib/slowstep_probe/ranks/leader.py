"""The leader of a trial's ranks: it asks all of them what the measurer asks, and answers for them as one trial.

Ranks that were asked differently would stop at different steps and hang in a collective. So requests are made in steps
alone: samples and positions are known to each rank for itself, and the leader turns them into steps beforehand.
"""

from __future__ import annotations

import base64
import math
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from slowstep_probe.measured import Status
from slowstep_probe.own_time import time
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks import joined
from slowstep_probe.ranks.failures import culprit, gone
from slowstep_probe.ranks.far import FarRank
from slowstep_probe.ranks.fork import RankProcess, Ranks
from slowstep_probe.ranks.standing import standing
from slowstep_probe.ranks.whereabouts import ask_everywhere
from slowstep_probe.trial.messages import (
    BlockDone,
    Failed,
    Observe,
    PeriodicEvent,
    Profile,
    Profiled,
    TrainBlock,
    decoded,
    encoded,
)
from slowstep_probe.trial.schedule import ROUNDS

SETTLING = 1.0
"""The seconds after a first failure in which others may tell theirs: survivors sometimes speak first."""

LOOK = 5.0
"""The seconds after which a wait begins anew."""


class Leader:
    """Carries requests to all ranks, and one answer back."""

    def __init__(self, wire: Wire, ranks: Ranks):
        self.wire, self.ranks = wire, ranks
        self._position = self._queued = 0
        """The samples of all ranks since the launch, and the most batches that lie ready for one of them."""
        self._trained = int(len(ranks.processes) > 1)
        """The steps since the launch. Several ranks have trained one when they are ready, and a single one none."""
        self._awaited: Counter[int] = Counter()
        """How often each rank was the one that waited least for the others, block by block."""
        self._silent: set[int] = set()
        """The ranks that have not answered yet."""
        signal.signal(signal.SIGUSR1, self._late)

    def lead(self) -> NoReturn:
        """Answer until the measurer is gone or a rank fails; then end all ranks and this process."""
        try:
            self._send(joined.ready(self._answers(self.ranks.processes)))
            while True:
                self._answer(self._request())
        except EOFError:
            pass
        except RankFailed as failed:
            number, cause = culprit(failed.failures)
            self.ranks.end()
            self._send(replace(cause, reason=f"{self.ranks.processes[number].rank}: {cause.reason}"))
        except _Late:
            self._say_where()
        except BaseException:
            traceback.print_exc()
        finally:
            self.ranks.end()
            sys.stdout.flush()
            os._exit(1)

    def _request(self) -> Any:
        while self.wire not in self.ranks.wait([self.wire], LOOK):
            self._look_for_the_dead()
        return decoded(self.wire.receive())

    def _answer(self, request: Any) -> None:
        everybody = self.ranks.processes
        if isinstance(request, TrainBlock):
            self._send(self._trained_together(self._asked(self._in_steps(request), everybody)))
        elif isinstance(request, Profile):
            self._send(self._profiled(request))
        elif isinstance(request, PeriodicEvent):
            self._send(joined.event_done(self._asked(request, everybody)))
        elif isinstance(request, Observe):
            self._send(joined.observed(self._asked(request, everybody)))
        else:
            raise EOFError

    def _profiled(self, request: Profile) -> Profiled:
        """Return the profile of the rank that is waited for. The others train as far."""
        everybody = self.ranks.processes
        awaited = everybody[self._awaited.most_common(1)[0][0] if self._awaited else 0]
        others = [each for each in everybody if each is not awaited]
        far = isinstance(awaited, FarRank)
        try:
            awaited.wire.send(encoded(replace(request, returned=far)))
        except OSError:
            self._fail()
        self._asked(TrainBlock(steps=request.looks), others)
        self._asked(TrainBlock(steps=request.after_looks), others)
        answer: Profiled = self._answers([awaited])[0]
        if far:
            Path(request.trace).write_bytes(base64.b64decode(answer.content))
        return replace(answer, content="")

    def _in_steps(self, request: TrainBlock) -> TrainBlock:
        """Return a request that every rank decides alike by itself: it counts steps, and nothing else."""
        samples = self._position / self._trained if self._position else 1.0
        discard = request.discard
        if request.drain:  # what lies ready is used up, and then some steps more until batches come evenly
            discard = discard * ROUNDS + self._queued
        discard = max(discard, math.ceil(round((request.start - self._position) / samples, 3)))
        whole = max(request.steps, round(request.samples / samples), 1)
        steps = max(1, round(whole / request.period)) * request.period
        return TrainBlock(steps=steps if steps >= request.steps else steps + request.period, discard=discard)

    def _trained_together(self, answers: list[BlockDone]) -> BlockDone:
        try:
            done = joined.block_done(answers)
        except ValueError as error:
            raise RankFailed([(0, Failed(status=Status.CRASHED, reason=str(error)))]) from None
        self._position, self._trained = done.position, self._trained + done.trained
        phases, waiting = [one.block.phases for one in answers], joined.where_ranks_wait(answers)
        self._awaited[joined.awaited_rank(phases, waiting)] += 1
        self._queued = done.queued
        return done

    # -- asking --

    def _asked(self, request: Any, of: Sequence[RankProcess | FarRank]) -> list[Any]:
        for each in of:
            try:
                each.wire.send(encoded(request))
            except OSError:
                self._fail()
        return self._answers(of)

    def _answers(self, of: Sequence[RankProcess | FarRank]) -> list[Any]:
        """Return one answer of each of these ranks."""
        found: dict[int, Any] = {}
        self._silent = {each.rank.number for each in of}
        while self._silent:
            ready = self.ranks.wait([self.wire], LOOK)
            if self.wire in ready:  # nobody asks before all have answered, so the measurer is gone
                raise EOFError
            for each in of:
                if each.wire in ready and each.rank.number in self._silent:
                    found[each.rank.number] = self._received(each)
                    self._silent.remove(each.rank.number)
            self._look_for_the_dead()
        return [found[each.rank.number] for each in of]

    def _received(self, each: RankProcess | FarRank) -> Any:
        try:
            answer = decoded(each.wire.receive())
        except EOFError:
            self._fail()
        if isinstance(answer, Failed):
            self._fail((each.rank.number, answer))
        return answer

    # -- failures --

    def _look_for_the_dead(self) -> None:
        if any(each.over for each in self.ranks.processes):
            self._fail()

    def _fail(self, *told: tuple[int, Failed]) -> NoReturn:
        """Hear for a moment what other ranks say, and raise all failures."""
        known = dict(told)
        deadline = time.monotonic() + SETTLING
        while time.monotonic() < deadline and len(known) < len(self.ranks.processes):
            ready = self.ranks.wait([], 0.05)
            for each in self.ranks.processes:
                if each.rank.number in known:
                    continue
                try:
                    answer = decoded(each.wire.receive()) if each.wire in ready else None
                except (EOFError, OSError):
                    answer = None
                if answer is None and each.over:
                    answer = gone(each.code, each.lost)
                if isinstance(answer, Failed):
                    known[each.rank.number] = answer
            time.sleep(0.01)
        raise RankFailed(list(known.items()) or [(0, gone(None))])

    def _late(self, *_: object) -> None:
        """Stop waiting: the measurer has waited for too long."""
        raise _Late

    def _say_where(self) -> None:
        """Have every rank write where it stands, and tell the measurer which rank keeps the others waiting."""
        places = ask_everywhere(self.ranks)
        if self._silent and len(self._silent) < len(places):  # some have answered, and wait for nobody
            places = {rank: place for rank, place in places.items() if rank in self._silent} or places
        names = {each.rank.number: str(each.rank) for each in self.ranks.processes}
        self.ranks.signal(signal.SIGUSR1)
        time.sleep(0.2)
        self.ranks.end()
        self._send(Failed(status=Status.TIMED_OUT, reason=standing(places, names)))

    def _send(self, message: Any) -> None:
        self.wire.send(encoded(message))


class RankFailed(Exception):
    """The end of a group in which ranks failed, each with what it said or left."""

    def __init__(self, failures: list[tuple[int, Failed]]):
        super().__init__()
        self.failures = failures


class _Late(Exception):
    """The end of the measurer's patience."""
