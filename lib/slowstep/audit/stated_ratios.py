"""Speed-ups and scaling efficiencies that a table states: held against what its other figures say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slowstep.audit.equal_work import WHOLE, WORK, equal_work, read_from
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import STATED, Run
from slowstep.text.numbers import percentage

SPEED_UP, EFFICIENCY = STATED

OF_STEPS = {TITLES[quantity] for quantity in ("steps_per_second", "seconds_per_step", *WHOLE)}
"""Units that count steps, or time, and not the work that is done in it."""


def stated_ratios(runs: Sequence[Run]) -> list[Finding]:
    """Find speed-ups and efficiencies that no figure of their row beside those of a reference gives.

    The reference is a row above with a speed-up of 1, or an efficiency of 100 %, or the row directly above. Any figure
    that gives it will do, even one that counts other work: whether that is a fair comparison is another question.
    """
    found: list[Finding] = []
    for quantity, unit in ((SPEED_UP, 1), (EFFICIENCY, 100)):
        references: list[Run] = []
        above: Run | None = None
        for run in (run for run in runs if run.measured and quantity in run.given):
            said = run.given[quantity]
            if said.meets(exact(unit)):
                references.append(run)
            elif references and above:
                found += _unlike(run, said, [*references, above], quantity)
            above = run
    return found


def _unlike(run: Run, said: Figure, references: Sequence[Run], quantity: str) -> list[Finding]:
    """Return a finding if no figure of the row gives what is said beside any reference."""
    gains = [(reference, *gain) for reference in references for gain in _gains(reference, run)]
    several = {r.label: run.devices / r.devices for r in references if "devices" in r.given and "devices" in run.given}
    allowed = []
    for reference, gain, unit in gains:
        by = several.get(reference.label, exact(1))
        whole = 100 * gain / by if quantity == EFFICIENCY else gain
        # where each device has its own batch, a step of twice the devices is twice the work (weak scaling)
        allowed += [whole, whole * by] if unit in OF_STEPS else [whole]
    if quantity == EFFICIENCY:
        gains = [(r, 100 * gain / several[r.label], unit) for r, gain, unit in gains if r.label in several]
    if not gains or any(gain.gap(said) <= CONSEQUENCE for gain in allowed):
        return []
    reference, gain, unit = gains[0]
    if quantity == EFFICIENCY:
        text = f"the scaling efficiency is given as {said} %, and by {unit} beside '{reference.label}' it is {gain} %"
    else:
        text = (
            f"the speed-up is given as {said}, and by {unit} it is {times(gain.middle)} as fast as '{reference.label}'"
        )
        saved = exact(1) - 1 / gain
        if gain.low > 1 and (said - 1).meets(saved):
            text += f"; {percentage(saved.middle)} is the time that it saves"
    return [Finding(kind=FindingKind.ARITHMETIC, where=run.label, text=text)]


def _gains(a: Run, b: Run) -> Iterator[tuple[Figure, str]]:
    """Yield how many times as fast `b` is than `a` by each figure that both have, that of the most equal work first."""
    first, unit = equal_work(a, b)
    if first is not None and first.bounded:
        yield first, unit
    for quantity in dict.fromkeys((*WORK, *WHOLE)):
        gain = read_from(quantity, a, b)
        if gain is not None:
            yield gain, TITLES[quantity]
