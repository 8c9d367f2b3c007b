"""The comparison of the worked example, and what the library says of it at each look.

It is one of those in which the validation diagnoses a planted cause: one item of the data in fifty takes a hundred
times as long as the others, and the run loads its data without workers.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from slowstep.environment.machine import Machine
from slowstep.factors import Contrast, comparison_family
from slowstep.investigation import ROOT
from slowstep.judgement.comparison import LOOKS, log_ratios, result_of
from slowstep.judgement.intervals import NOMINAL_P, Interval
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.stopping import StopRule
from slowstep.judgement.throughput import speed_up, unit, works
from slowstep.judgement.verdict import Verdict, span
from slowstep.records import Block, ComparisonRecord, Pair
from slowstep.records.store import write_atomically
from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep.settings.load import validate
from slowstep.text.numbers import percent

KEPT = ROOT / "bench" / "results" / "method.json"

NEEDED = ("arm", "status", "startup", "warmup_steps", "settled", "observed", "losses")
"""What the example keeps of a trial: not its single steps, on which only shares and bounds rest."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was known after so many pairs."""

    pairs: int
    effect: Interval
    decided: bool


@dataclass(frozen=True)
class Example:
    """A comparison, with the parameter file that asked for it."""

    kept: dict[str, Any]

    @cached_property
    def record(self) -> ComparisonRecord:
        """What was measured."""
        return from_plain(ComparisonRecord, self.kept["record"])

    @cached_property
    def confirmed(self) -> Interval:
        """What fresh pairs showed, of the same two arms."""
        return result_of(from_plain(ComparisonRecord, self.kept["confirmation"]).pairs).effect

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of blocks."""
        return self.record.pairs

    @cached_property
    def settings(self) -> Settings:
        """The parameter file."""
        return validate(self.kept["parameters"], KEPT.name)

    @cached_property
    def section(self) -> list[Contrast]:
        """All comparisons of the same section of the parameter file, which Holm's correction counts together."""
        return comparison_family(
            self.settings, self.kept["section"], from_plain(Machine, dict(self.record.environment.machine))
        )

    @property
    def contrast(self) -> Contrast:
        """What was compared."""
        return next(c for c in self.section if c.name == self.kept["name"])

    @property
    def minimum(self) -> float:
        """The minimum effect, 0.05 for 5 %."""
        return self.settings.budget.minimum_effect

    @property
    def ratios(self) -> list[float]:
        """d of every pair."""
        return log_ratios(self.pairs).tolist()

    @property
    def looks(self) -> list[Look]:
        """What was known at each look, with the pairs that were there."""
        most = self.settings.budget.max_pairs
        rule = StopRule(max_pairs=most, minimum_effect=self.minimum, comparisons=len(self.section))
        known = [self.pairs[:n] for n in LOOKS if n <= len(self.pairs)]
        return [Look(pairs=len(p), effect=result_of(p).effect, decided=rule.met(p)) for p in known]

    @cached_property
    def verdict(self) -> Verdict:
        """What the comparison says. Holm's correction can't undo it where p times all comparisons is small enough."""
        prior = before_trial(self.contrast, None, self.minimum, None)
        return judge(prior, self.contrast, self.record, self.minimum, str(self.record.baseline.observed["device"]))


def example() -> Example:
    """Return the one that is kept."""
    return Example(json.loads(KEPT.read_text(encoding="utf-8")))


def keep(params: Path, record: Path, confirmation: Path) -> None:
    """Keep the comparison in the file `record`, of an investigation of the file `params`, and the same comparison with
    fresh pairs, by which that investigation confirmed it."""
    parameters = yaml.safe_load(params.read_text(encoding="utf-8"))
    name, measured = _needed(record)
    factor = name.split("=")[0]
    section = next(key for key, value in parameters.items() if isinstance(value, dict) and factor in value)
    kept = {"name": name, "section": section, "parameters": parameters, "record": measured}
    write_atomically(KEPT, json.dumps(kept | {"confirmation": _needed(confirmation)[1]}) + "\n")


def _needed(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the name of a comparison and its record, without what the example does not need."""
    data = json.loads(path.read_text(encoding="utf-8"))
    sides = {side: {key: data["record"][side][key] for key in NEEDED} for side in ("baseline", "treatment")}
    return data["about"]["name"], data["record"] | sides


def rate(block: Block) -> float:
    """Return the work a second over a whole block."""
    return works([block])[0][0] / block.seconds


def pairs_table(told: Example) -> str:
    """Return every pair as measured, in Markdown."""
    judged = unit([p.baseline for p in told.pairs])
    rows = [
        f"| pair | launches | first | baseline, {judged} | treatment, {judged} | ratio | d |",
        "|---|---|---|---|---|---|---|",
    ]
    for i, (pair, d) in enumerate(zip(told.pairs, told.ratios, strict=True), 1):
        rates = f"{rate(pair.baseline):,.0f} | {rate(pair.treatment):,.0f} | {math.exp(d):.3f} | {d:.3f}"
        rows.append(f"| {i} | {pair.launch + 1} | {pair.first} | {rates} |")
    return "\n".join(rows)


def looks_table(told: Example) -> str:
    """Return what was known at each look, in Markdown."""
    number = len(told.section)
    rows = [f"| look | change with its interval | p | p × {number} | decided |", "|---|---|---|---|---|"]
    for look in told.looks:
        chance = f"{_short(look.effect.p)} | {_short(look.effect.p * number)}"
        rows.append(f"| {look.pairs} pairs | {span(look.effect)} | {chance} | {'yes' if look.decided else 'no'} |")
    return "\n".join(rows)


def figures(told: Example) -> dict[str, str]:
    """Return the figures that the text names beside those of the tables."""
    first, verdict = told.pairs[0], told.verdict
    waits = verdict.before["data"]
    return {
        "steps of a block": f"{first.baseline.steps} steps",
        "useful tokens of the first blocks": f"{works([first.baseline])[0][0]:,.0f} useful tokens",
        "seconds of the first baseline block": f"{first.baseline.seconds:.3f} s",
        "seconds of the first treatment block": f"{first.treatment.seconds:.3f} s",
        "lowest and highest change in a pair": " to ".join(percent(math.exp(f(told.ratios))) for f in (min, max)),
        "comparisons of the section": f"{len(told.section)} comparisons",
        "p at a look": f"p = {NOMINAL_P}",
        "effect": span(verdict.effect),
        "verdict": str(verdict.outcome),
        "with fresh pairs": span(told.confirmed),
        "share of the baseline's time that it waits for data": f"{100 * waits:.1f} %",
        "what it would bring to wait no more": percent(speed_up(waits)),
        "by the medians of steps": percent(result_of(told.pairs).median_ratio),
    }


def _short(p: float) -> str:
    """Three digits of a small probability."""
    return f"{p:.{2 - math.floor(math.log10(p))}f}"
