"""The answers of all ranks as the answer of one trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from slowstep_probe.measured import WHERE_RANKS_WAIT, Memory, OfRank, Steps
from slowstep_probe.probe import batch_work
from slowstep_probe.trial.messages import BlockDone, Observed, PeriodicEventDone, Ready

OWN = frozenset({"draws", "changes", "rank", "node", "numbers_of_sample"})
"""Facts in which ranks may differ."""


def ready(answers: Sequence[Ready]) -> Ready:
    """Return the first message of a trial: the start-up of its slowest rank, and what all ranks can do."""
    slowest = max(answers, key=lambda one: sum(one.startup.values()))
    common = [event for event in slowest.periodic_events if all(event in one.periodic_events for one in answers)]
    return replace(slowest, periodic_events=common)


def block_done(answers: Sequence[BlockDone]) -> BlockDone:
    """Return the block that all ranks made together; ValueError if they did not train the same steps.

    It takes as long as the slowest rank. Its phases are those of the rank that waited least: the others spend the
    difference waiting for that one. What that rank spends less than the slowest is "other". The work is that of all
    ranks.
    """
    counts = {(one.trained, one.block.steps, len(one.steps)) for one in answers}
    if len(counts) > 1:
        told = ", ".join(f"{one.trained} by rank {rank}" for rank, one in enumerate(answers))
        raise ValueError(f"the ranks did not train the same number of steps: {told}")
    awaited = answers[awaited_rank([one.block.phases for one in answers], where_ranks_wait(answers))]
    seconds = max(one.block.seconds for one in answers)
    late = seconds - awaited.block.seconds
    own = awaited.block
    block = replace(
        own,
        seconds=seconds,
        phases=own.phases | {"other": own.phases.get("other", 0.0) + late},
        step_seconds=[*own.step_seconds[:-1], own.step_seconds[-1] + late],
        work=batch_work.total([one.block.work for one in answers]),
        ranks=[_of_rank(one) for one in answers],
    )
    losses = [sum(each) / len(answers) for each in zip(*(one.losses for one in answers), strict=False)]
    return replace(
        awaited,
        block=block,
        memory=memory([one.memory for one in answers]),
        losses=losses,
        position=sum(one.position for one in answers),
        steps=Steps(
            position=[sum(each) for each in zip(*(one.steps.position for one in answers), strict=True)],
            phases=awaited.steps.phases,
        ),
        queued=max(one.queued for one in answers),
        recompilations=max(one.recompilations for one in answers),
        devices=list(dict.fromkeys(device for one in answers for device in one.devices)),
    )


def where_ranks_wait(answers: Sequence[BlockDone]) -> frozenset[str]:
    """Return the phases in which ranks wait for each other, those in which they called collectives among them."""
    return WHERE_RANKS_WAIT.union(*(one.collectives for one in answers))


def awaited_rank(phases: Sequence[Mapping[str, float]], waiting: Collection[str] = WHERE_RANKS_WAIT) -> int:
    """Return the rank that waited least for the others, by the seconds of each phase of every rank."""
    waited = [sum(seconds for phase, seconds in one.items() if phase in waiting) for one in phases]
    return waited.index(min(waited))


def _of_rank(one: BlockDone) -> OfRank:
    return OfRank(
        seconds=one.block.seconds,
        phases={phase: seconds for phase, seconds in one.block.phases.items() if seconds},
        collectives=one.collectives,
        samples=one.block.work.samples,
        memory=one.memory.peak,
    )


def memory(ranks: Sequence[Memory]) -> Memory:
    """Return the memory of a group: the most that a device holds, and all that the host does."""

    def most(name: str) -> int | None:
        return max((value for one in ranks if (value := getattr(one, name)) is not None), default=None)

    host = [one.host for one in ranks if one.host is not None]
    retries = [one.retries for one in ranks if one.retries is not None]
    devices = {name: most(name) for name in ("allocated", "reserved", "device", "limit")}
    return Memory(host=sum(host) if host else None, retries=sum(retries) if retries else None, **devices)


def observed(answers: Sequence[Observed]) -> Observed:
    """Return the facts of the first rank, and those in which others differ from it."""
    first = answers[0].facts
    unlike = sorted({n for one in answers[1:] for n in first if n in one.facts and one.facts[n] != first[n]} - OWN)
    return Observed(facts=first | ({"unlike_ranks": unlike} if unlike else {}))


def event_done(answers: Sequence[PeriodicEventDone]) -> PeriodicEventDone:
    """Return a periodic event of all ranks: as long as the slowest took, with all that was written and evaluated."""
    written = [one.bytes for one in answers if one.bytes is not None]
    samples = [one.samples for one in answers if one.samples is not None]
    slowest = max(answers, key=lambda one: one.seconds)
    return PeriodicEventDone(
        seconds=slowest.seconds,
        bytes=sum(written) if written else None,
        samples=max(samples) if samples else None,
        fixed=slowest.fixed,
        places=slowest.places,
    )
