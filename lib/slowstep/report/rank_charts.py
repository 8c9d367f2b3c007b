"""What several processes cost each other: the time of each rank, who waits for whom, and what more processes bring."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from slowstep.investigation.results import Baseline, Measured
from slowstep.judgement.observed_sizes import ranks_of
from slowstep.judgement.ranks import Skew, collectives, moves_with_data, shares_of_ranks, skew, unlike_ranks
from slowstep.records import PHASES
from slowstep.report.baseline_charts import DRAWN, add_phases
from slowstep.report.chart import Chart, Table
from slowstep.text.phases import PHASE_NAMES
from slowstep.wording.words import NOT_MEASURED, effect, share, share_span, size

ONE_PROCESS = "This run trains in one process."

NAMED = 0.1
"""The share of the time from which on a part of a bar carries the name of its phase."""

SEEN = 0.01
"""The share of the time from which on a rank is said to keep the others waiting."""


def rank_times(baseline: Baseline) -> Chart | Table:
    """Draw where the time of each rank goes. All ranks take equally long, since each waits for the others."""
    ranks = shares_of_ranks(baseline.facts.blocks)
    if not ranks:
        return Table([], empty=ONE_PROCESS)
    figure = go.Figure()
    sides = {f"rank {rank}": {p: 100 * part for p, part in shares.items()} for rank, shares in ranks.items()}
    add_phases(figure, sides, NAMED, insidetextanchor="middle")
    figure.update_xaxes(title="share of each rank's wall time, %", range=[0, 100])
    return Chart(
        figure,
        f"{_waiting(baseline)}{_unlike(baseline)}",
        _rows(baseline, ranks),
        110 + 40 * len(ranks),
    )


def _unlike(baseline: Baseline) -> str:
    """Return in which facts the ranks differ, as a sentence after others; an empty text if they are alike."""
    names = unlike_ranks(baseline.record.baseline)
    return f" The ranks are not alike: they differ in {', '.join(names)}." if names else ""


def _rows(baseline: Baseline, ranks: dict[int, dict[str, float]]) -> list[dict[str, str]]:
    last = next(block for block in reversed(baseline.facts.blocks) if block.ranks)
    seen = [phase for phase in PHASES if max(shares[phase] for shares in ranks.values()) >= DRAWN]
    return [
        {
            "rank": str(rank),
            **{PHASE_NAMES[phase]: share(shares[phase]) for phase in seen},
            "memory": size(last.ranks[rank].memory),
        }
        for rank, shares in ranks.items()
    ]


def _waiting(baseline: Baseline) -> str:
    """Return which rank the others wait for, in a sentence or two."""
    found = skew(baseline.facts.blocks, SEEN)
    if found is None:
        return "No rank keeps the others waiting by as much as can be seen here."
    return skewed(found)


def skewed(found: Skew) -> str:
    """Return in words which rank keeps the others waiting."""
    name = PHASE_NAMES[found.phase]
    where = "between the phases" if name == "other" else f"in {name}"
    rest = "" if found.covered >= 0.7 else f", which explains {share(found.covered)} of what they wait for it"
    return (
        f"Rank {found.rank} keeps the others waiting: {where} it takes {share_span(found.share)} of the time longer "
        f"than they do{rest}."
    )


def swapped(baseline: Baseline, measured: Sequence[Measured]) -> Table:
    """Say whether a slow rank is slow by its data, by what happens where each rank trains on the next one's part."""
    return Table([], empty=_swapped(baseline, measured))


def _swapped(baseline: Baseline, measured: Sequence[Measured]) -> str:
    found = skew(baseline.facts.blocks, SEEN)
    record = next((m.record for m in measured if m.verdict.factor == "rank_data" and m.record), None)
    if found is None or record is None or not record.pairs:
        reason = next((m.verdict.reason for m in measured if m.verdict.factor == "rank_data"), "it was not asked for")
        why = "no rank was slow enough" if found is None else reason
        return f"The parts of the data were not swapped among the ranks: {why}."
    told = moves_with_data(found, [pair.treatment for pair in record.pairs], SEEN)
    if told is None:
        return "With the parts of the data swapped no rank was slow in that way, so the cause stays open."
    if told:
        return f"With the parts of the data swapped, another rank is slow: the data makes rank {found.rank} slow."
    return f"With the parts of the data swapped, rank {found.rank} stays the slow one: it is not its data."


def collective_times(baseline: Baseline) -> Table:
    """List the share of the time in calls of collectives, by the phase in which they are called."""
    found = collectives(baseline.facts.blocks)
    rows = [
        {"collectives called in": PHASE_NAMES[phase], "share of the time": share(part)}
        for phase, part in sorted(found.items())
    ]
    several = ranks_of(baseline.facts.observed) > 1
    empty = "The code calls no collective itself; what a library exchanges for it counts in the pass that it waits in."
    return Table(rows, empty=empty if several else ONE_PROCESS)


def scaling(baseline: Baseline, measured: Sequence[Measured]) -> Table:
    """List what each number of processes trains, and its efficiency: what a process of many trains, against one alone.

    The batch of a process is the same in all rows, and so are its threads.
    """
    several = ranks_of(baseline.facts.observed)
    of_one = next((m for m in _fewer(measured) if m.contrast.levels[0][1].value == 1 and m.verdict.effect), None)
    rows = []
    for m in _fewer(measured):
        number, gain = m.contrast.levels[0][1].value, m.verdict.effect
        rows.append({"processes": str(number), "against this run": effect(gain), "efficiency": _efficiency(m, of_one)})
    if not rows:
        return Table([], empty="No other number of processes was measured.")
    own = {"processes": str(several), "against this run": "this run"}
    if of_one is not None:
        gain = of_one.verdict.effect
        low, middle, high = (1 / (several * ratio) for ratio in (gain.high, gain.ratio, gain.low))
        own["efficiency"] = f"{share(middle)} [{share(low)}, {share(high)}]"
    return Table([own | {"efficiency": own.get("efficiency", NOT_MEASURED)}, *rows])


def _fewer(measured: Sequence[Measured]) -> list[Measured]:
    return [m for m in measured if [factor.name for factor, _ in m.contrast.levels] == ["processes"]]


def _efficiency(m: Measured, of_one: Measured | None) -> str:
    """Return what each of so many processes trains, against one alone."""
    number, gain = m.contrast.levels[0][1].value, m.verdict.effect
    if number == 1:
        return "100 %"
    if of_one is None or gain is None:
        return NOT_MEASURED
    return share(gain.ratio / (number * of_one.verdict.effect.ratio))
