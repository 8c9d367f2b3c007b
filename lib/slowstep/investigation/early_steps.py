"""The steps of the baseline in the two records that are made before any other, and what follows from them.

What rests on them stays the same, whatever is measured later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from slowstep.judgement.course import Course, courses
from slowstep.judgement.first_reads import FirstReads, as_in_job
from slowstep.judgement.projection import samples_of_epoch
from slowstep.judgement.run_facts import MAY_STALL
from slowstep.judgement.throughput import samples_per_step
from slowstep.judgement.timeline import timeline
from slowstep.records import ComparisonRecord, ObservationRecord, Steps
from slowstep.settings import Settings
from slowstep.settings.epochs import why_epochs_end


class EarlySteps:
    """The steps of the A/A comparison, and those that were observed on the same node. `memory` is the host's, bytes."""

    def __init__(self, settings: Settings, memory: int, noise: ComparisonRecord, observation: ObservationRecord | None):
        self._settings, self._memory, self._noise = settings, memory, noise
        alike = observation is not None and observation.node == noise.node
        self._steps = [*noise.steps, *(observation.trial.steps if alike else [])]

    @property
    def last_position(self) -> int:
        """The sample at which the last of them begins, counted from the start of a launch."""
        return max(max(steps.position) for steps in self._steps if steps)

    @cached_property
    def courses(self) -> list[Course]:
        """The phases in which steps become longer or shorter as training goes on, and not as files are in memory."""
        arms = [range(len(arm.steps)) for arm in (self._noise.baseline, self._noise.treatment)]
        times = [time for arm in arms for time in arm]  # both arms of a launch train beside each other
        times += range(len(times), len(self._steps))
        epoch = samples_of_epoch(self._noise) or 0
        found = courses(self._steps, self._settings.budget.minimum_effect, epoch, times)
        if why_epochs_end(self._settings.run, self._noise.baseline.observed):
            found = [replace(one, beyond_epoch=0) for one in found]
        first_reads, _ = self._as_in_job
        reading = first_reads.phase if first_reads and first_reads.matters else None
        return [one for one in found if reading not in one.phase.split(" and ")]

    @property
    def change_pace(self) -> bool:
        """True if the steps are known to become longer or shorter as training goes on."""
        return not all(one.once for one in self.courses)

    @cached_property
    def stall_samples(self) -> float:
        """The mean number of samples from one stall to the next; 0 if stalls take less than half the minimum effect."""
        _, steps = self._as_in_job
        apart = timeline(steps).spacing(MAY_STALL, self._settings.budget.minimum_effect / 2)
        return apart * samples_per_step(self._noise.blocks) if apart > 1 else 0.0

    @cached_property
    def _as_in_job(self) -> tuple[FirstReads | None, Sequence[Steps]]:
        """The wait for files that some steps read from disk, and the steps that wait as the job's do.

        The wait is None if no steps waited longer for that.
        """
        return as_in_job(self._steps, self.with_job)

    def with_job(self, found: FirstReads) -> FirstReads:
        """Return a wait for files with what is known of the job: the bytes of an epoch, the memory, and its epochs."""
        samples, job = self._settings.job.samples or samples_of_epoch(self._noise), self._settings.job
        return replace(
            found,
            epoch_bytes=samples and samples * found.sample_bytes,
            memory=self._memory,
            epochs=job.epochs,
        )
