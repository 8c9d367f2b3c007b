"""What a profiler saw of some steps: operators by phase, pauses, loops, and the time in which the device is idle."""

from __future__ import annotations

import bisect
import gzip
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from torch.autograd import DeviceType
from torch.profiler import profile

from slowstep_probe.profiled import Operator, ProfileRecord, Unused, no_profile
from slowstep_probe.trial.host_events import HostEvents
from slowstep_probe.trial.loops import PAUSE, Repeated, loops
from slowstep_probe.trial.losses import in_losses
from slowstep_probe.trial.module_calls import OFTEN, ModuleCalls
from slowstep_probe.trial.moves import moves
from slowstep_probe.trial.operator_calls import OperatorCalls
from slowstep_probe.trial.written_out import through_earlier_steps, written_out

TOP = 20
"""The most operators that are kept of a profile and of a phase."""

ANNOTATION = "slowstep phase: "
"""The beginning of the names that phases have in a trace."""

STEP_ENDS = "the end of a step"
"""The name that stands in a trace, as those of phases do, where a step ends."""

FASTEST = 1
"""The level at which a trace is compressed: a quarter more bytes than at the usual one, in a tenth of the time."""

GAP = 10e-6
"""The least seconds between two kernels that count as a gap. A launch takes about 5 us."""

NO_KERNEL = (
    "the profiler saw nothing run on the device: where the system lets no user trace it (CUPTI), or another tool does, "
    "the program's log says so"
)
"""The reason why there is no profile of a device on which no kernel was seen. It was not idle."""

K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class ProfiledSteps:
    """Steps that were profiled. Moments and times of a trace are in us."""

    profiler: profile
    on_device: bool
    steps: int
    seconds: float
    """The seconds of all of them, by the training's clock."""
    waited: Sequence[float]
    """The seconds for which the thread that trains had waited for a core, as the steps began and as each ended."""
    calls: ModuleCalls
    """The calls of modules in them."""
    step_ends: Sequence[tuple[int, int]]
    """Two moments of this process's clock, in ns, between which each step ended."""
    calls_of_operators: OperatorCalls
    """The calls of operators in the steps after them."""

    def write(self, trace: Path) -> None:
        """Write the trace, compressed. It may have hundreds of MB, and PyTorch compresses it line by line."""
        trace.parent.mkdir(parents=True, exist_ok=True)
        plain = trace.with_name(f"{trace.name}.plain.json")
        try:
            self.profiler.export_chrome_trace(str(plain))
            with plain.open("rb") as file, gzip.open(trace, "wb", compresslevel=FASTEST) as packed:
                shutil.copyfileobj(file, packed, 2**20)
        finally:
            plain.unlink(missing_ok=True)

    def record(self, trace: Path) -> ProfileRecord:
        """Return what was seen of the steps. Their trace is in the file `trace`."""
        steps, seconds = self.steps, self.seconds
        if self.on_device and not self._on_device:
            return no_profile(NO_KERNEL)
        busy, gaps = self._busy()
        host = HostEvents(self._host_events, self._part, steps, self._own)
        return ProfileRecord(
            device="cuda" if self.on_device else "cpu",
            steps=steps,
            seconds=seconds,
            operators=self._operators(),
            by_phase=self._by_phase(),
            pauses={} if self.on_device else self._pauses(host),
            loops=loops(host, covered(_spans(self._on_device)), self._repeated()),
            earlier=through_earlier_steps(host),
            written_out=written_out(host),
            losses=in_losses(host),
            moves=moves(host, TOP),
            again=self._computed_again("forward"),
            again_backward=self._computed_again("backward"),
            ignored=self._of_all_steps(self.calls_of_operators.rows.ignored),
            tables=self._of_all_steps(self.calls_of_operators.rows.tables),
            unused=self.calls_of_operators.results.unused(),
            of_data=self.calls_of_operators.results.of_data(),
            only_read=self.calls_of_operators.results.only_read(),
            called=self.calls_of_operators.called(TOP),
            idle=max(0.0, 1 - busy / seconds),
            gaps_per_step=len(gaps) / steps,
            gap_seconds=sum(gaps) / steps,
            trace=trace.name,
        )

    def _computed_again(self, phase: str) -> dict[str, float]:
        return {line: self.steps * seconds for line, seconds in self.calls_of_operators.seconds(phase).items()}

    def _of_all_steps(self, lines: Sequence[Unused]) -> list[Unused]:
        """Return lines with their seconds over all profiled steps, from those of one step."""
        return [replace(one, seconds={p: self.steps * s for p, s in one.seconds.items()}) for one in lines]

    def _operators(self) -> list[Operator]:
        """Return the operators with the most time of their own on the device, or on the CPU if there is no device."""
        # an operator's device time is that of its kernels, which are events of their own
        found = self._totals(self._computing, lambda e: e.name)
        return [Operator(name=name, calls=calls, seconds=seconds) for name, calls, seconds in found[:TOP]]

    def _totals(self, events: Iterable[Any], key: Callable[[Any], K]) -> list[tuple[K, int, float]]:
        """Return the number of events of each key and their own seconds, largest first."""
        sums = defaultdict[K, list[float]](lambda: [0, 0.0])
        for e in events:
            one = sums[key(e)]
            one[0] += 1
            one[1] += 1e-6 * self._own(e)
        return sorted(((k, int(calls), seconds) for k, (calls, seconds) in sums.items()), key=lambda total: -total[2])

    def _own(self, event: Any) -> float:
        """Return the time in us that an event has for itself on the device, or on the CPU if there is no device."""
        return event.self_device_time_total if self.on_device else event.self_cpu_time_total

    def _by_phase(self) -> dict[str, list[Operator]]:
        """Return the operators of each phase with the most time of their own; on a device, that of their kernels."""
        phases, found = self._phase_at, defaultdict[str, list[Operator]](list)
        totals = self._totals(self._host_events, lambda e: (phases(e.time_range.start), e.name))
        for (phase, name), calls, seconds in totals:
            if len(found[phase]) < TOP and seconds > 0:
                found[phase].append(Operator(name=name, calls=calls, seconds=seconds))
        return dict(found)

    def _pauses(self, host: HostEvents) -> dict[str, float]:
        """Return the seconds of each phase in pauses (`PAUSE`), in which no operator runs: those of most steps.

        What other processes may have made is none: the time for which this thread waited for a core.
        """
        phases, found = self._phase_at, defaultdict[str, Counter[int]](Counter)
        spans = list(_spans(self._on_host))
        for _, begin, end in (s for s in self._stretches if s[0] == "all"):
            stretches = covered([(begin, begin), *spans, (end, end)])
            for (_, a), (b, _) in pairwise(stretches):
                if 1e-6 * (b - a) > PAUSE:
                    found[phases((a + b) / 2)][self._step_at((a + b) / 2)] += 1e-6 * (b - a)
        waited = [after - before for before, after in pairwise(self.waited)]
        return host.totals(
            {
                phase: {step: max(0.0, times[step] - waited[step]) for step in range(self.steps)}
                for phase, times in found.items()
            }
        )

    def _part(self, event: Any) -> tuple[str, int]:
        """Return the phase and the number of the step in which an event begins."""
        return self._phase_at(event.time_range.start), self._step_at(event.time_range.start)

    def _step_at(self, moment: float) -> int:
        """Return the number of the step at a moment, in us."""
        return bisect.bisect(self._steps_end, moment)

    @cached_property
    def _steps_end(self) -> list[float]:
        """The moments at which steps end, in us."""
        return [end for name, _, end in self._stretches if name == STEP_ENDS]

    def _repeated(self) -> list[Repeated]:
        """Return the stretches in which a module is called again and again, by the trace's clock.

        It may be called in a loop within a forward pass, or for the many passes, forth and back, of one batch.
        """
        stretches = self._stretches
        ends = [begin for name, begin, _ in stretches if name == STEP_ENDS]
        if not ends or len(ends) != len(self.step_ends):  # a profiler of the program's own stopped this one
            return []
        clock = _clock(ends, self.step_ends)
        backward = [(begin, end) for name, begin, end in stretches if name == "backward"]
        starts = [begin for begin, _ in backward]
        abreast = self.calls_of_operators.side_by_side()
        calls = self.calls.repeated(sorted([*ends, *starts]), clock, side_by_side=abreast)
        return sorted([*calls, *self._passes_of_one_batch(ends, backward, calls, clock)], key=lambda one: one.begin)

    def _passes_of_one_batch(
        self, ends: Sequence[float], backward: Sequence[tuple[float, float]], calls: Sequence[Repeated], clock: float
    ) -> list[Repeated]:
        """Return the stretches in which the model goes forth and back again and again for one batch of the loader.

        Where each pass has a batch of its own, gradients are accumulated, and there is no loop.
        """
        fetched = [begin for name, begin, _ in self._stretches if name == "data"]
        boundaries, starts = sorted([*ends, *fetched]), [begin for begin, _ in backward]

        def is_of_one_batch(one: Repeated) -> bool:
            before = bisect.bisect(boundaries, one.begin) - 1
            passes = bisect.bisect(starts, one.end) - bisect.bisect(starts, one.begin)
            return before >= 0 and boundaries[before] in fetched and passes >= OFTEN

        found = [one for one in self.calls.repeated(boundaries, clock, apart=backward) if is_of_one_batch(one)]
        return [one for one in found if not any(one.begin <= within.begin <= one.end for within in calls)]

    @cached_property
    def _stretches(self) -> list[tuple[str, float, float]]:
        """Each stretch of a phase: its name, its start and its end in us. The whole is named 'all'."""
        found = [
            (e.name.removeprefix(ANNOTATION), e.time_range.start, e.time_range.end)
            for e in self.profiler.events()
            if e.name.startswith(ANNOTATION) and e.device_type == DeviceType.CPU
        ]
        if found:
            found.append(("all", min(s for _, s, _ in found), max(e for _, _, e in found)))
        return sorted(found, key=lambda s: s[1])

    @cached_property
    def _phase_at(self) -> Callable[[float], str]:
        """A function that tells the phase at a moment of the profile, in us."""
        entered = [s for s in self._stretches if s[0] != "all"]
        starts = [s[1] for s in entered]

        def at(moment: float) -> str:
            i = bisect.bisect_right(starts, moment) - 1
            return entered[i][0] if i >= 0 and moment <= entered[i][2] else "other"

        return at

    def _busy(self) -> tuple[float, list[float]]:
        """Return the seconds in which a kernel runs (without a device, any operator), and the gaps in seconds."""
        stretches = covered(_spans(self._computing))
        gaps = [1e-6 * (begin - end) for (_, end), (begin, _) in pairwise(stretches)]
        return 1e-6 * sum(end - begin for begin, end in stretches), [gap for gap in gaps if gap > GAP]

    @cached_property
    def _host_events(self) -> list[Any]:
        """The events of the host, without the profiler's own mark of each step."""
        return [e for e in self._on_host if not e.name.startswith("ProfilerStep")]

    @cached_property
    def _on_host(self) -> list[Any]:
        """The events of the CPU: operators, and what they call."""
        return self._events(DeviceType.CPU)

    @cached_property
    def _on_device(self) -> list[Any]:
        """The events of the device: kernels, and copies of memory."""
        return self._events(DeviceType.CUDA)

    @property
    def _computing(self) -> list[Any]:
        """The events of what computes: of the device, or of the CPU if there is no device."""
        return self._on_device if self.on_device else self._on_host

    def _events(self, kind: DeviceType) -> list[Any]:
        return [
            e
            for e in self.profiler.events()
            if e.device_type == kind and not e.is_user_annotation and not e.name.startswith(ANNOTATION)
        ]


def _clock(ends: Sequence[float], ended: Sequence[tuple[int, int]]) -> float:
    """Return what has to be added to this process's clock, in us, to be at a moment of the trace.

    Each stretch of the trace in `ends`, in us, began between two moments of this process's clock, `ended` in ns. The
    nearest two of them tell it best.
    """
    at, (before, after) = min(zip(ends, ended, strict=True), key=lambda one: one[1][1] - one[1][0])
    return at - 1e-3 * (before + after) / 2


def _spans(events: Iterable[Any]) -> Iterable[tuple[float, float]]:
    return ((e.time_range.start, e.time_range.end) for e in events)


def covered(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the starts and ends, in order, of the stretches that at least one span covers."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
