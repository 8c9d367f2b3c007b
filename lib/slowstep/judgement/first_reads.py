"""Files that were read from disk by the launch that came to them first, and from memory by all later ones.

All trials train on the same samples in the same order, and the kernel keeps in memory what it has read. So the first
launch that comes to a place of the data waits for the disk, its own host's or another's, and no later one does. A job
that reads more than memory holds waits for it in every step.

The kernel counts what each process had it fetch (`Steps.fetched`), so the two are told apart by what happened, and not
by which launch came first. What a data set keeps in its own process, decoded items say, is another matter: each launch
makes it anew, and fetches nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slowstep.judgement.intervals import Interval
from slowstep.judgement.shares import difference
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.timeline import NOTICED, Timeline, timeline
from slowstep.records import Steps
from slowstep.text.numbers import percentage
from slowstep.text.phases import phase_named
from slowstep_probe.measured import TRAINS

WHERE_READ = ("data", "other")
"""The phases in which a program reads its data: those in which it asks a loader, or makes its batches itself."""

PAGE = 4096
"""The least bytes a step that count as fetched: a page of the kernel's cache."""

MOSTLY, HARDLY = 0.5, 0.1
"""The parts of the most that any step fetched at a place of the data: a step that read from disk fetched at least the
first, and one that read from memory at most the second. The former also fetched at least the first part of what the
median place fetches: of steps that were asked for at once, some may have found their files in memory."""

FEWEST = 12
"""The fewest places of the data that must have been read both from disk and from memory."""

HOLDS = 0.5
"""The part of the memory in which data surely stay: training takes some, and the kernel keeps other files."""

MANY = 4
"""The epochs from which on the first one is a small part of the job. It alone reads from disk what memory holds."""


@dataclass(frozen=True, kw_only=True)
class FirstReads:
    """A phase that waits longer while files are read from disk than once they are in memory."""

    phase: str
    from_disk: Interval
    """The share of the wall time, 0 to 1, that the phase takes in steps whose files were read from disk."""
    from_memory: Interval
    """The same in steps at the same places of the data, once the files were in memory."""
    longer: Interval
    """The share of the wall time of the former by which they wait longer than the latter."""
    sample_bytes: float
    """The bytes that a sample has fetched, roughly: the kernel reads ahead."""
    epoch_bytes: float | None = None
    """The bytes that an epoch of the job fetches, roughly; None where its samples are not known."""
    memory: int | None = None
    """The bytes of memory that the job may hold, on the machine or in its container."""
    epochs: float | None = None
    """The epochs of the job; None where they are not known."""

    @property
    def fits_in_memory(self) -> bool:
        """True if memory is known to hold all data of the job."""
        return None not in (self.epoch_bytes, self.memory) and self.epoch_bytes <= HOLDS * self.memory

    @property
    def matters(self) -> bool:
        """True unless memory holds all data, so that the job reads them from disk in its first epoch alone.

        One of few epochs reads from disk in a large part of them. Where nobody says how many it has, it has many.
        """
        return not self.fits_in_memory or (self.epochs is not None and self.epochs < MANY)

    def hides(self, gain: float, least: float) -> bool:
        """Return whether a change that showed a `gain` at most may bring `least` in the job, both as ratios.

        It may take away the longer wait, too, which its pairs did not meet.
        """
        return self.matters and gain * speed_up(self.longer.upper) >= least

    def __str__(self) -> str:
        return (
            f"{phase_named(self.phase)} takes {percentage(self.from_disk.mean)} of the time while files are read from "
            f"disk, and {percentage(self.from_memory.mean)} once they are in memory"
        )


def first_reads(launches: Sequence[Steps]) -> FirstReads | None:
    """Return the phase that certainly waits longer while files are read from disk; None if none does.

    Steps are compared at the same places of the data. Where training itself takes longer, something else held the
    launch up, and the wait is expected to take longer by as much.
    """
    reading = from_disk(launches)
    disk, memory = timeline(reading), timeline(_from_memory(launches))
    _, first, again = np.intersect1d(disk.position, memory.position, return_indices=True)
    if len(first) < FEWEST:
        return None
    trained = [float(sum(line.phases[p][at].sum() for p in TRAINS)) for line, at in ((disk, first), (memory, again))]
    pace = max(1.0, trained[0] / trained[1]) if trained[1] > 0 else 1.0
    longer = {
        p: difference(disk.phases[p][first], pace * memory.phases[p][again], disk.whole[first]) for p in WHERE_READ
    }
    phase = max(longer, key=lambda p: longer[p].lower)
    if longer[phase].lower <= NOTICED:
        return None
    return FirstReads(
        phase=phase,
        from_disk=disk.share(phase),
        from_memory=_at(memory, again).share(phase),
        longer=longer[phase],
        sample_bytes=_bytes_a_sample(reading),
    )


def as_in_job(
    launches: Sequence[Steps], with_job: Callable[[FirstReads], FirstReads]
) -> tuple[FirstReads | None, Sequence[Steps]]:
    """Return the wait for files of these launches, and the steps that wait as those of the job do.

    `with_job` adds what is known of the job's files.
    """
    found = first_reads(launches)
    found = found and with_job(found)
    return found, from_disk(launches) if found and found.matters else launches


def from_disk(launches: Sequence[Steps]) -> list[Steps]:
    """Return the steps, by launch, whose files were read from disk."""
    most = _most_fetched(launches)
    usual = float(np.median([count for count in most.values() if count >= PAGE] or [PAGE]))
    return _where(launches, lambda at, fetched: fetched >= max(PAGE, MOSTLY * most[at], MOSTLY * usual))


def _from_memory(launches: Sequence[Steps]) -> list[Steps]:
    """Return the steps, by launch, that found in memory what another step at the same place read from disk."""
    most = _most_fetched(launches)
    return _where(launches, lambda at, fetched: most[at] >= PAGE and fetched <= HARDLY * most[at])


def _most_fetched(launches: Sequence[Steps]) -> dict[int, int]:
    """Return the most bytes that any step fetched at each place of the data."""
    most: dict[int, int] = {}
    for steps in launches:
        for at, fetched in zip(steps.position, steps.fetched, strict=False):  # nothing where it is not known
            most[at] = max(fetched, most.get(at, 0))
    return most


def _where(launches: Sequence[Steps], wanted: Callable[[int, int], bool]) -> list[Steps]:
    """Return the steps that are wanted by their place of the data and the bytes that they fetched, as far as known."""
    return [
        _only(steps, [wanted(at, fetched) for at, fetched in zip(steps.position, steps.fetched, strict=True)])
        for steps in launches
        if steps.fetched
    ]


def _only(steps: Steps, wanted: Sequence[bool]) -> Steps:
    kept = [i for i, is_wanted in enumerate(wanted) if is_wanted]
    return Steps(
        position=[steps.position[i] for i in kept],
        phases={p: [column[i] for i in kept] for p, column in steps.phases.items()},
        fetched=[steps.fetched[i] for i in kept],
    )


def _at(line: Timeline, where: np.ndarray) -> Timeline:
    """Return the steps of a timeline at these indices."""
    phases = {p: column[where] for p, column in line.phases.items()}
    return replace(line, position=line.position[where], phases=phases)


def _bytes_a_sample(launches: Sequence[Steps]) -> float:
    """Return the mean bytes that a sample had fetched; a step has as many samples as lie between most neighbours."""
    apart = np.concatenate([np.diff(steps.position) for steps in launches if len(steps)])
    fetched = [count for steps in launches for count in steps.fetched]
    return float(np.mean(fetched) / max(1.0, np.median(apart))) if len(apart) else float(np.mean(fetched))
