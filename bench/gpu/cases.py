"""Seeds 000 and 002 to 004 as their case files describe them, each within minutes, by the whole kit."""

from __future__ import annotations

from functools import partial

from bench.gpu.part import Bench, Cell, Figures, Goal, Part
from bench.gpu.scale import Scale
from bench.gpu.trials import investigated, settings_of, with_minutes
from slowstep.settings import Settings

SEEDS = ("000", "002", "003", "004")


def parts(scale: Scale) -> list[Part]:
    """Return a part for each seed."""
    return [
        Part(
            name=f"case-{seed}",
            title=f"seed {seed} as {scale.cases[seed][0]} describes it",
            cells=[Cell(name="investigation", measure=partial(investigation, seed), minutes=8.0)],
            goals=[
                Goal(
                    asked="hypotheses decided, one way or the other",
                    wanted="1 or more",
                    value=lambda cells: cells["investigation"]["decided"],
                    holds=lambda count: count >= 1,
                ),
                Goal(
                    asked="sections that failed",
                    wanted="0",
                    value=lambda cells: len(cells["investigation"]["failed"]),
                    holds=lambda count: count == 0,
                ),
            ],
        )
        for seed in SEEDS
    ]


def settings_of_case(seed: str, bench: Bench) -> Settings:
    """Return the settings of a seed's investigation, with its minutes."""
    file, changes = bench.scale.cases[seed]
    settings = settings_of(file, {"budget.block_seconds": bench.scale.block_seconds, **changes}, bench)
    return with_minutes(settings, bench.scale.minutes)


def investigation(seed: str, bench: Bench) -> Figures:
    """Measure the whole investigation of a seed."""
    return investigated(settings_of_case(seed, bench), bench)
