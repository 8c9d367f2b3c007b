"""The places in the code where training spends its time, found by looking at its stack many times a second.

A profiler of operators sees neither a sleep nor a loop in Python. Looking at the stack sees both, costs the training
next to nothing, and gives the line. It is done in the profiled trial, which is never judged.

Where a device computes, the host runs ahead of it, and waits for it wherever a value is read back: what it does while
the device is still at earlier work costs nothing. So such a look counts for the place where it stands only in what
trains: a phase that trains nothing takes time from the moment at which the device comes to it.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from types import CodeType, FrameType
from typing import NamedTuple

import torch

from slowstep_probe.looks import looking
from slowstep_probe.measured import TRAINS, Place
from slowstep_probe.places import LIBRARIES, in_words, is_own, kind_of, line_of, name_of, nearest, real
from slowstep_probe.probe.graphs import any_made
from slowstep_probe.trial.thread_timer import ThreadTimer
from slowstep_probe.trial.update_calls import UpdateCalls

PERIOD = 0.002
"""Seconds between two looks, on the mean."""

RING = getattr(signal, "SIGRTMIN", 0) + 9
"""The timer's signal, one of those that programs may use as they like. Linux alone has them."""

SWITCH = 1e-4
"""Seconds after which the thread that trains hands over the interpreter to a thread that looks. By Python's own 5 ms, a
look would mostly happen where an operator lets go of the interpreter, and loops in Python would not be seen."""

KEPT = 12
"""The most places that are kept for each phase."""


TRAINING_PHASES = {"data", *TRAINS}
"""The phases of which a library's loop has several."""

SOME, MOST = 0.01, 0.3
"""The share of all the time from which on a phase counts as standing at a line, and the share of a line's time from
which on its commonest function is told."""

GENERAL = {*sys.stdlib_module_names, "torch", "numpy"}
"""Packages whose functions say little about what is done."""

CALLS_MODULE = torch.nn.Module._call_impl.__code__
"""What runs each call of a module."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""The names of the functions that Python makes of comprehensions."""

AT_WORKER = ", waiting for a loader's worker"
"""The words after a place at which the training waits for a worker's batch."""


class StackSampler:
    """Looks at the stack of a thread from `begin` to `end`, or for `longest` seconds; `look` is one look at it.

    When a look is due, whoever gets the interpreter first looks. While an operator has let go of it, that is a thread,
    which sees where the operator was called. While Python runs, it is the main thread, which a timer's signal has look
    at itself between two instructions: another thread hardly gets the interpreter then, and least from code that lets
    go of it for moments (pandas). Looks come at no regular distance, since the steps of training do. Each counts for
    the time since the last one.

    A thread looks alone where another than the main thread is looked at, where the program uses the signal itself, and
    where something was compiled, since the compiler would look at what the main thread does.
    """

    def __init__(self, thread: int, longest: float = math.inf):
        self._watched, self._longest = thread, longest
        self._last = self._due = self._until = 0.0
        self._timer: ThreadTimer | None = None
        self._random = random.Random()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="places", daemon=True)

    def begin(self) -> None:
        """Begin to look, in the thread that is looked at."""
        self._last = time.monotonic()
        self._due, self._until = self._last + PERIOD, self._last + self._longest
        self._switch = sys.getswitchinterval()
        if self._can_be_timed():
            with suppress(OSError):
                self._timer = ThreadTimer(RING)
        if self._timer is None:
            sys.setswitchinterval(min(SWITCH, self._switch))
            self._thread.start()
            return
        signal.signal(RING, self._rings)  # it stays: a ring may come after the end, and would end the process
        signal.siginterrupt(RING, False)
        self._thread.start()
        self._timer.set(PERIOD)

    def _can_be_timed(self) -> bool:
        if not threading.get_ident() == self._watched == threading.main_thread().ident or any_made():
            return False
        handler = signal.getsignal(RING) if hasattr(signal, "SIGRTMIN") else None
        return handler is signal.SIG_DFL or getattr(handler, "__func__", None) is StackSampler._rings

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()
        sys.setswitchinterval(self._switch)
        if self._timer:
            self._timer.delete()

    def look(self, frame: FrameType, since: int) -> None:
        """Look once, at the frame where the thread stands; the last look was `since` microseconds ago."""
        raise NotImplementedError

    def _rings(self, number: int, frame: FrameType | None) -> None:
        """Look, in the thread that is looked at."""
        self._look(frame)

    def _run(self) -> None:
        """Look, in a thread beside it."""
        while not self._ended.wait(max(0.0, self._due - time.monotonic())) and self._last < self._until:
            self._look(sys._current_frames().get(self._watched))

    def _look(self, frame: FrameType | None) -> None:
        """Look if that is due, and say when the next look is. An error in it is none of the program's."""
        now = time.monotonic()
        if now < self._due or self._ended.is_set():
            return
        until_next = PERIOD * self._random.uniform(0.5, 1.5)
        since, self._last, self._due = now - self._last, now, now + until_next
        with suppress(Exception):
            if self._timer and now < self._until:
                self._timer.set(until_next)
            if frame is not None:
                self.look(frame, round(1e6 * since))


class Function(NamedTuple):
    """A function of the user's own: the file and the line at which it begins, and its name."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{_shown(self.file)} in {self.name}"


class StackLook(NamedTuple):
    """What one look sees."""

    mark: int
    """The number of the last mark. The phase that follows the mark is named afterwards."""
    where: str
    """The place."""
    own: bool
    """True if that is the user's own code."""
    inside: str = ""
    """The function of a package there."""
    functions: tuple[Function, ...] = ()
    """The user's own functions on the stack, outermost first."""
    caller: str = ""
    """The place in the user's own code that calls the module which runs; empty if none runs."""
    calls: tuple[int, ...] = ()
    """All functions on the stack, where the program may update its weights by one of them, by the `id` of each."""
    hook: Function | None = None
    """The user's own hook on an optimizer that runs; None if none does."""


class Places(StackSampler):
    """Looks at the stack of the thread that made it, from `begin` to `stop`, which are called there as well."""

    def __init__(
        self,
        moment: Callable[[], int],
        weights: Callable[[], Sequence[torch.Tensor]] = lambda: (),
        hooks: Collection[int] = (),
        within: str = "",
    ):
        """Make it. `weights` returns those that the program updates without an optimizer of PyTorch's.

        `hooks` are the user's own hooks on optimizers, by the `id` of their code. Code counts as the user's own that is
        called from the function `within`, if it is named.
        """
        super().__init__(threading.get_ident())
        self._hooks, self._within = hooks, within
        self.moment = moment
        """A function that returns the number of the last mark."""
        self.updates = UpdateCalls(weights)
        self.found: Counter[StackLook] = Counter()
        """The microseconds that looks count for, by what they saw."""
        self._looks: list[tuple[StackLook, int, float]] = []
        """What each look saw, the microseconds that it counts for, and its moment."""

    def stop(self, phases: Sequence[str], reached: Callable[[], Sequence[float]] = lambda: ()) -> list[Place]:
        """Stop looking, and return the places with their shares of the whole time, largest first.

        `phases` holds the phase that follows each mark. Of each phase `KEPT` places are kept. `reached` returns when
        what trains came to each mark, by `time.monotonic()`: a device comes there later than the host.
        """
        self.end()
        self.updates.end()
        return placed(self.found, phases, self.updates.found, self._ahead(reached()))

    def _ahead(self, reached: Sequence[float]) -> Counter[StackLook]:
        """Return the microseconds of looks in which the device had not yet come to the mark, by what they saw."""
        found = Counter[StackLook]()
        for seen, since, at in self._looks:
            if seen.mark < len(reached) and at < reached[seen.mark]:
                found[seen] += since
        return found

    def look(self, frame: FrameType, since: int) -> None:
        """Look once, and note the phase and the place."""
        mark, at = self.moment(), time.monotonic()
        where, own = place_of(frame, self._within)
        place = where + AT_WORKER * _called_from(frame, "_try_get_data")
        if own:
            frames = list(takewhile(lambda one: one.f_code.co_name != self._within, stack(frame)))
            inside, functions, caller = _package_function(frame), _own_functions(frames), _caller_of_module(frames)
            seen = StackLook(mark, place, own, inside, functions, caller, hook=_outermost_of(frame, self._hooks))
        else:
            seen = StackLook(mark, place, own)
        seen = seen._replace(calls=looking(self.updates.look)(stack(frame), mark) or ())
        self.found[seen] += since
        self._looks.append((seen, since, at))


def placed(
    found: Counter[StackLook],
    phases: Sequence[str],
    changing: Collection[int] = (),
    ahead: Counter[StackLook] | None = None,
) -> list[Place]:
    """Return the places of the looks that were `found`, as `Places.stop` does.

    `changing` are functions that ran while weights changed, in a program without an optimizer of PyTorch's,
    each as in `StackLook.calls`. `ahead` is the part of the time in which the device was still at earlier work.
    """
    updates = _of_updates(found, phases, changing)
    whole, trains = found.total() or 1, _functions_that_train(found, phases)
    calling = _calls_what_trains(found, phases, whole)
    found, ahead = (_with_callers(looks, phases, calling) for looks in (found, ahead or Counter()))
    told = Counter[tuple[str, str, bool, bool]]()
    inside = defaultdict[tuple[str, str, bool, bool], Counter[str]](Counter)
    within = defaultdict[tuple[str, str, bool, bool], Counter[Function | None]](Counter)
    for seen, time_there in found.items():
        phase = _phase(phases, seen.mark)
        if phase == "other" and updates.intersection(seen.calls):
            phase = "optimizer"
        hook = seen.hook if phase == "optimizer" else None
        if phase not in TRAINS or hook is not None:
            time_there -= ahead[seen]
        if not time_there:
            continue
        place = (phase, seen.where, seen.own, hook is not None)
        told[place] += time_there
        inside[place][seen.inside] += time_there
        beside = hook or next((f for f in seen.functions if f not in trains), None)
        if beside and _makes_the_loss(phases, seen.mark):
            beside = None
        within[place][beside] += time_there
    of = {place: functions.most_common(1)[0][0] for place, functions in within.items()}
    together = Counter[tuple[str, Function | None]]()  # each line counts for one function, whoever calls it as well
    for place, time_there in told.items():
        together[place[0], of[place]] += time_there
    number, kept = Counter[str](), []
    for (phase, where, own, hooked), time_there in told.most_common():
        number[phase] += 1
        if number[phase] <= KEPT:
            package = _most(inside[phase, where, own, hooked]) if where.removesuffix(AT_WORKER) in calling else ""
            function = of[phase, where, own, hooked]
            place = Place(phase=phase, where=where, own=own, share=time_there / whole, inside=package, hooked=hooked)
            if function is not None:
                place = replace(place, within=str(function), together=together[phase, function] / whole)
            kept.append(place)
    return kept


def _of_updates(found: Counter[StackLook], phases: Sequence[str], changing: Collection[int]) -> set[int]:
    """Return those of the functions during which weights changed that do nothing else: none runs in another phase."""
    elsewhere = {code for seen in found if _phase(phases, seen.mark) != "other" for code in seen.calls}
    return set(changing) - elsewhere


def _phase(phases: Sequence[str], mark: int) -> str:
    return phases[mark] if mark < len(phases) else "other"


def _makes_the_loss(phases: Sequence[str], mark: int) -> bool:
    """Return whether a time between the phases follows a forward pass, or comes before a backward pass.

    The loss is made there, which is training.
    """
    if _phase(phases, mark) != "other":
        return False
    before = (phases[at] for at in range(min(mark, len(phases)) - 1, -1, -1))
    after = (phases[at] for at in range(mark + 1, len(phases)))
    last, following = (next((phase for phase in some if phase != "other"), "") for some in (before, after))
    return last == "forward" or following == "backward"


def _functions_that_train(found: Counter[StackLook], phases: Sequence[str]) -> set[Function]:
    """Return the user's functions that call a pass or an optimizer, or run within one."""
    taken = Counter[Function]()
    whole = 0
    for seen, time_there in found.items():
        if _phase(phases, seen.mark) in TRAINS:
            whole += time_there
            taken.update(dict.fromkeys(seen.functions, time_there))
    return {function for function, time_there in taken.items() if time_there >= SOME * whole}


def _calls_what_trains(found: Counter[StackLook], phases: Sequence[str], whole: int) -> set[str]:
    """Return the lines that several phases stand at: what they call trains by itself, `trainer.fit(model)` say."""
    told = Counter[tuple[str, str]]()
    for seen, time_there in found.items():
        if seen.own and (phase := _phase(phases, seen.mark)) in TRAINING_PHASES:
            told[seen.where.removesuffix(AT_WORKER), phase] += time_there
    phases_at = Counter(where for (where, _), time_there in told.items() if time_there >= SOME * whole)
    return {where for where, number in phases_at.items() if number > 1}


def _with_callers(found: Counter[StackLook], phases: Sequence[str], calling: Collection[str]) -> Counter[StackLook]:
    """Return the looks, with the line that runs a model without training it in place of the lines within the model.

    Training runs those, too. A line of `calling`, which trains by itself, says no more than they do.
    """
    told = Counter[StackLook]()
    for seen, time_there in found.items():
        runs = seen.caller and seen.caller not in calling and _phase(phases, seen.mark) == "evaluate"
        told[seen._replace(where=seen.caller) if runs else seen] += time_there
    return told


def _most(functions: Counter[str]) -> str:
    """Return the function that took most of the time; empty if none stands out."""
    name, time_there = functions.most_common(1)[0]
    return name if time_there >= MOST * functions.total() else ""


def _package_function(frame: FrameType) -> str:
    """Return the innermost function of an installed package, but for torch, that runs under the user's own code."""
    for one in takewhile(lambda one: kind_of(one.f_code.co_filename) != "user", stack(frame)):
        name = one.f_globals.get("__name__", "").partition(".")[0]
        if name not in GENERAL and kind_of(one.f_code.co_filename) == "library":
            return " in ".join(filter(None, (_shown(one.f_code.co_filename), _function(one))))
    return ""


def _caller_of_module(frames: Sequence[FrameType]) -> str:
    """Return the place of the user's own code that calls the outermost module of a stack; empty if there is none."""
    modules = [one for one in frames if one.f_code is CALLS_MODULE]
    caller = nearest(modules[-1]) if modules else None
    return place_of(caller)[0] if caller in frames else ""


def _outermost_of(frame: FrameType, codes: Collection[int]) -> Function | None:
    """Return the outermost function on a stack whose code is one of these, each by its `id`; None if none is."""
    found = [one.f_code for one in stack(frame) if id(one.f_code) in codes] if codes else []
    return _function_of(found[-1]) if found else None


def _own_functions(frames: Sequence[FrameType]) -> tuple[Function, ...]:
    """Return the user's own functions of a stack, outermost first, each once. Lambdas and the like are none."""
    codes = [one.f_code for one in frames if is_own(one.f_code.co_filename)]
    own = [_function_of(code) for code in reversed(codes) if not _is_nameless(code.co_name)]
    return tuple(dict.fromkeys(own))


def _function_of(code: CodeType) -> Function:
    return Function(code.co_filename, code.co_firstlineno, code.co_name)


def _is_nameless(name: str) -> bool:
    return name.startswith("<") and name != "<module>"


def place_of(frame: FrameType, within: str = "") -> tuple[str, bool]:
    """Return the place that a stack stands at, and whether it is the user's own code.

    It is the innermost frame outside of the libraries: a hook, a dataset, a callback, a line of the user's loop. If
    there is none, since the loop is a library's, it is the innermost frame of all. Frames count that are called from
    the function `within`, if it is named.
    """
    own = nearest(frame)
    if own is not None and within and not _called_from(own, within):
        own = None
    at = _line_at(own or frame)  # before anything that lets the thread go on
    return at.in_words(), own is not None


class OwnLine(NamedTuple):
    """A line of a function, by the file as its code names it."""

    file: str
    line: int
    function: str

    def in_words(self) -> str:
        """Return the line with a short path, as `place_of` does."""
        return in_words(_shown(self.file), self.line, self.function)


def own_lines(frame: FrameType | None) -> tuple[OwnLine, ...]:
    """Return the lines of the user's own code that a stack stands at, from the innermost outwards."""
    found = []
    while (own := nearest(frame)) is not None:
        found.append(_line_at(own))
        frame = own.f_back
    return tuple(found)


def _line_at(frame: FrameType) -> OwnLine:
    return OwnLine(frame.f_code.co_filename, line_of(frame), _function(frame))


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a stack from the one it stands at outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _called_from(frame: FrameType, function: str) -> bool:
    return any(one.f_code.co_name == function for one in stack(frame))


def _function(frame: FrameType) -> str:
    """Return the name of the function that a frame runs, or of the one that holds it; "" where none does.

    A comprehension runs where it stands, so its caller holds it. A lambda may be called from anywhere.
    """
    file, outer = frame.f_code.co_filename, frame
    while outer.f_code.co_name in COMPREHENSIONS and outer.f_back and outer.f_back.f_code.co_filename == file:
        outer = outer.f_back
    return name_of(outer.f_code)


def _shown(path: str) -> str:
    """Return a short path: within the library for a library's file, within the working folder for the user's own."""
    path = real(path)
    for library in sorted(LIBRARIES, key=len, reverse=True):
        if path.startswith(library):
            return path[len(library) :]
    try:
        here = os.getcwd() + os.sep
    except OSError:  # the folder is gone
        here = os.sep
    return path[len(here) :] if path.startswith(here) else os.sep.join(path.split(os.sep)[-2:])
