"""Blocks, pairs and records with known truth, for the layer that judges them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from bench.validation.regimes import STEPS, Regime
from simulated_measurer import SHARES
from slowstep.environment.machine import TOOLS, Machine
from slowstep.factors import CATALOGUE, Contrast, combine
from slowstep.judgement.comparison import LOOKS
from slowstep.judgement.run_facts import RunFacts, baseline_facts
from slowstep.records import (
    PHASES,
    Block,
    ComparisonRecord,
    Operator,
    Pair,
    Place,
    ProfileRecord,
    Status,
    Steps,
    TrialRecord,
    Work,
)
from slowstep.settings import Settings

PAIRS = LOOKS[-1]

CPU = Machine(
    system="Linux x86_64",
    processor="a processor",
    cores=8,
    memory=64 * 2**30,
    gpu=None,
    gpu_count=0,
    gpu_memory=None,
    gpu_driver=None,
    tools=TOOLS,
)
GPU = Machine(
    system="Linux x86_64",
    processor="a processor",
    cores=8,
    memory=64 * 2**30,
    gpu="NVIDIA A10",
    gpu_count=1,
    gpu_memory=24 * 2**30,
    gpu_driver="1.0",
    tools=TOOLS,
)


def block(
    steps: Sequence[float],
    samples: int = 8,
    tokens: int | None = 100,
    shares: dict[str, float] = SHARES,
    padding: int = 0,
) -> Block:
    """A block of steps that took `steps` seconds, each of `samples` samples of `tokens` useful tokens."""
    seconds, n = float(sum(steps)), samples * len(steps)
    work = Work(
        samples=n,
        padded_tokens=None if tokens is None else n * (tokens + padding),
        useful_tokens=None if tokens is None else n * tokens,
        loss_tokens=None if tokens is None else n * tokens // 2,
        cut_tokens=None if tokens is None else 0,
    )
    return Block(
        steps=len(steps),
        seconds=seconds,
        phases={p: shares.get(p, 0.0) * seconds for p in PHASES},
        step_seconds=[float(s) for s in steps],
        work=work,
    )


def steps_of(blocks: Sequence[Block], least: int = 0) -> Steps:
    """The steps of blocks, one after the other, again and again until there are `least` of them."""
    shares = [(b, {p: b.phases[p] / b.seconds for p in PHASES}) for b in blocks]
    for _, share in shares:
        share["backward"] += 1 - sum(share.values())  # shares that are given need not be all of the time
    rows = [{p: s * share[p] for p in PHASES} for b, share in shares for s in b.step_seconds]
    rows *= max(1, -(-least // max(len(rows), 1)))
    samples = blocks[0].work.samples // blocks[0].steps if blocks else 0
    return Steps(position=[samples * i for i in range(len(rows))], phases={p: [row[p] for row in rows] for p in PHASES})


def pairs(gains: Iterable[float], shares: dict[str, float] = SHARES) -> list[Pair]:
    """One pair a value of `gains`, the treatment faster by it: 0.1 is 10 % more work a second; each a launch's own."""
    return [
        Pair(first="baseline", baseline=block([0.1] * 5), treatment=block([0.1 / (1 + g)] * 5, shares=shares), launch=i)
        for i, g in enumerate(gains)
    ]


def around(gain: float, noise: float = 0.005, n: int = 7) -> list[float]:
    """`n` gains whose logarithms have exactly the mean ln(1 + gain) and the standard deviation `noise`."""
    z = np.linspace(-1.0, 1.0, n)
    return list((1 + gain) * np.exp(noise * z / z.std(ddof=1)) - 1)


def record(pairs: list[Pair], observed: dict | None = None, **about: object) -> ComparisonRecord:
    """A comparison whose trials both went well, and had the same losses."""
    losses = [2.0] * 8
    before, after = ([steps_of([getattr(p, side) for p in pairs])] for side in ("baseline", "treatment"))
    return ComparisonRecord(
        baseline=TrialRecord(arm="baseline", status=Status.OK, losses=losses, steps=before),
        treatment=TrialRecord(arm="treatment", status=Status.OK, observed=observed or {}, losses=losses, steps=after),
        pairs=pairs,
        **about,
    )


def contrast(settings: Settings, machine: Machine = GPU, **levels: object) -> Contrast:
    """The contrast that sets factors to values: `contrast(quick, optim="adamw_torch_fused")`."""
    return combine(settings, [(CATALOGUE[n], CATALOGUE[n].level(v, settings.run)) for n, v in levels.items()], machine)


def facts(
    shares: dict[str, float] = SHARES,
    padding: int = 0,
    noise: float = 0.0,
    observed: dict | None = None,
    seen: int = 2000,
    profile: ProfileRecord | None = None,
) -> RunFacts:
    """Facts from a baseline that was `seen` for so many steps and spends `shares` of them, give or take `noise`."""
    jitter = around(0.0, noise or 1e-12, 6)
    blocks = [block([0.1] * 5, shares={p: s * (1 + j) for p, s in shares.items()}, padding=padding) for j in jitter]
    paired = [Pair(first="baseline", baseline=a, treatment=b) for a, b in zip(blocks[::2], blocks[1::2], strict=True)]
    trial = TrialRecord(
        arm="baseline",
        status=Status.OK,
        observed={"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1} | (observed or {}),
    )
    aa = ComparisonRecord(baseline=trial, treatment=trial, pairs=paired)
    found = baseline_facts(aa, [steps_of(blocks, seen)])
    return replace(found, profile=profile, places=profile.places if profile else [])


def profiled(
    by_phase: dict[str, dict[str, float]] | None = None,
    pauses: dict[str, float] | None = None,
    places: dict[str, dict[str, float]] | None = None,
) -> ProfileRecord:
    """A profile of one second, with the seconds of operators by phase, of pauses, and of places in the user's code."""
    operators = {
        phase: [Operator(name=n, calls=5, seconds=s) for n, s in found.items()]
        for phase, found in (by_phase or {}).items()
    }
    return ProfileRecord(
        device="cpu",
        steps=5,
        seconds=1.0,
        operators=[o for found in operators.values() for o in found],
        idle=0.1,
        gaps_per_step=10,
        gap_seconds=0.01,
        trace="trace.json.gz",
        by_phase=operators,
        pauses=pauses or {},
        places=[
            Place(phase=phase, where=where, own=True, share=share)
            for phase, found in (places or {}).items()
            for where, share in found.items()
        ],
    )


def step_times(rng: np.random.Generator, comparisons: int, **habits: float) -> np.ndarray:
    """Step times of identical arms, shape (comparisons, PAIRS, turns 2, steps STEPS), in the order of the clock.

    `habits` are those of the machine (`bench.validation.regimes.Regime`).
    """
    times = 0.1 * Regime(**habits).times(rng, comparisons, PAIRS * 2 * STEPS)
    return times.reshape(comparisons, PAIRS, 2, STEPS)


def compared(
    rng: np.random.Generator, times: np.ndarray, slowdown: float | np.ndarray = 1.0
) -> tuple[np.ndarray, list[int]]:
    """What `comparisons` come to: their log-ratios, shape (comparisons, PAIRS), and the launch of each pair."""
    first = rng.random(times.shape[:2]) < 0.5
    turns = np.where(first[..., None, None], times, times[:, :, ::-1])  # the baseline's turn, the treatment's
    seconds = np.log([turns[:, :, 0].sum(-1), (turns[:, :, 1] * slowdown).sum(-1)])
    return seconds[0] - seconds[1], [bisect.bisect_right(LOOKS, i) for i in range(times.shape[1])]


def comparisons(rng: np.random.Generator, times: np.ndarray, slowdown: float | np.ndarray = 1.0) -> list[list[Pair]]:
    """Interleaved pairs in random order over `times`; the treatment's steps take `slowdown` times as long."""
    found = []
    for one in times:
        first = rng.random(len(one)) < 0.5
        found.append(
            [
                Pair(
                    first="baseline" if f else "treatment",
                    baseline=block(turns[0] if f else turns[1]),
                    treatment=block((turns[1] if f else turns[0]) * slowdown),
                    launch=bisect.bisect_right(LOOKS, i),
                )
                for i, (f, turns) in enumerate(zip(first, one, strict=True))
            ]
        )
    return found
