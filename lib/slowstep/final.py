"""The final configuration: what was supported and is allowed, combined, measured, and written as files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from slowstep.factors import CATALOGUE, Contrast, Factor, Level, Meaning, combine, label
from slowstep.investigation import Investigation
from slowstep.judgement.projection import Projection, project
from slowstep.judgement.verdict import Outcome, Verdict, best_levels
from slowstep.records.store import write_atomically
from slowstep.report.causes import causes
from slowstep.report.words import SIGNS, duration, effect
from slowstep.settings import LEVEL_SECTIONS, Settings
from slowstep.settings.convert import to_plain
from slowstep.summary import Measured

Pick = tuple[Factor, Level]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What to train with, and what led there."""

    verdicts: list[Verdict]
    candidates: list[Verdict]
    chosen: Measured | None
    left_out: list[str]
    settings: Settings
    after: Projection | None

    @property
    def adopted(self) -> bool:
        """Whether the combination is to be trained with."""
        return self.chosen is not None and self.chosen.verdict.outcome is Outcome.SUPPORTED

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the combination."""
        return self.chosen.verdict if self.chosen else None


def choose(inv: Investigation) -> Choice:
    """Combine the best supported level of every factor that `allow` permits, and measure the combination.

    Gains don't add, so the combination is measured as such. Where it differs from what the single gains multiply to,
    each factor is left out once, and one that is then shown not to be missed is dropped. The pairs that confirm are not
    those that chose. A combination that can't be trained (two
    changes may want the same memory) loses its smallest gain until one can.
    """
    tested = [v for section in LEVEL_SECTIONS for v in inv.test(section)]
    verdicts = list({v.name: v for v in reversed(tested)}.values())[::-1]
    candidates = [v for v in best_levels(verdicts) if _allowed(v, inv.settings)]
    picks = [(CATALOGUE[v.factor], _whole(_level(v, inv.settings))) for v in candidates]
    chosen, left = _trainable(inv, picks)
    if chosen and len(chosen.contrast.levels) > 1 and _interact(chosen, candidates):
        all_levels = chosen.contrast.levels
        needed = [pick for pick in all_levels if not _is_passenger(inv, all_levels, pick)]
        if 0 < len(needed) < len(all_levels):
            smaller = _measured(inv, needed)
            if smaller.verdict.outcome is Outcome.SUPPORTED:
                chosen, left = smaller, left + [_name(pick) for pick in all_levels if pick not in needed]
            else:
                chosen = _measured(inv, all_levels)
    adopted = chosen is not None and chosen.verdict.outcome is Outcome.SUPPORTED
    settings = chosen.contrast.treatment.settings if adopted else inv.settings
    return Choice(
        verdicts=verdicts,
        candidates=candidates,
        chosen=chosen,
        left_out=left,
        settings=replace(settings, name=f"{inv.settings.name}_final"),
        after=_projected(inv, chosen) if adopted else None,
    )


def write_files(inv: Investigation, choice: Choice) -> list[Path]:
    """Write final/: configuration files as the ecosystem reads them, a parameter file, and the decision record."""
    folder, s = inv.folder / "final", choice.settings
    files = {"training_args.yaml": {"output_dir": s.name} | s.training_arguments}
    if s.peft:
        files["lora_config.yaml"] = s.peft
    if s.quantization:
        files["quantization_config.yaml"] = s.quantization
    files[f"{s.name}.yaml"] = to_plain(s)
    written = []
    for name, content in files.items():
        write_atomically(folder / name, yaml.safe_dump(to_plain(content), sort_keys=False, allow_unicode=True))
        written.append(folder / name)
    write_atomically(folder / "decision.md", decision(inv, choice))
    return [*written, folder / "decision.md"]


def decision(inv: Investigation, choice: Choice) -> str:
    """The decision as a record: context, hypotheses with figures, decision, consequences, what would change it."""
    before, after, verdict = inv.baseline.projection, choice.after, choice.verdict
    lines = [f"# Training configuration of {inv.settings.name}", "", "## Context", ""]
    lines += [f"Measured on {inv.machine}, at {inv.baseline.facts.throughput.samples_per_second:.2f} samples/s."]
    if before:
        lines += [f"The real job takes {_hours(before)} with the configuration as it was."]
    lines += ["", "## Hypotheses", "", "| change | verdict | effect [interval] | because |", "|---|---|---|---|"]
    lines += [f"| {v.name} | {SIGNS[v.outcome]} | {effect(v.effect)} | {_cell(v.reason)} |" for v in choice.verdicts]
    lines += ["", "## Decision", ""]
    if choice.adopted:
        lines += [f"Set {verdict.name}: {effect(verdict.effect)} throughput, measured together.", ""]
        lines += [f"- `{key}: {value}`" for key, value in verdict.overrides.items()]
        lines += [f"- changes in meaning: {verdict.meaning}"]
    else:
        lines += ["Change nothing: " + (f"{verdict.name}: {verdict.reason}" if verdict else "no change was supported.")]
    if choice.left_out:
        lines += [f"- left out, not missed in combination or not trainable: {', '.join(choice.left_out)}"]
    refused = [
        v for v in best_levels(choice.verdicts) if v not in choice.candidates and v.meaning is not Meaning.DIAGNOSTIC
    ]
    if refused:
        names = ", ".join(f"{v.name} ({v.meaning}, {effect(v.effect)})" for v in refused)
        lines += [f"- supported but not allowed by the parameter file (`allow`): {names}"]
    lines += ["", "## Consequences", ""]
    lines += [f"The real job then takes {_hours(after)}." if after else "The real job takes as long as before."]
    lines += ["", "## What would change this decision", ""]
    lines += ["Another machine, model size, sequence length or batch size; another version of the libraries."]
    lost = [c.text for c in causes(choice.verdicts, inv.suspects, inv.settings.budget.minimum_effect) if c.phase]
    lines += [f"Still open: {text}" for text in lost]
    open_ones = [v.name for v in choice.verdicts if v.outcome is Outcome.INCONCLUSIVE]
    if open_ones:
        lines += [f"More pairs on a quieter machine could still decide: {', '.join(open_ones)}."]
    return "\n".join(lines) + "\n"


def _allowed(verdict: Verdict, settings: Settings) -> bool:
    permitted = {
        Meaning.EXACT: True,
        Meaning.NUMERICS: settings.allow.numerics,
        Meaning.SEMANTICS: settings.allow.semantics,
        Meaning.DIAGNOSTIC: False,
    }
    return permitted[verdict.meaning] and verdict.factor not in settings.allow.never


def _level(verdict: Verdict, settings: Settings) -> Level:
    factor = CATALOGUE[verdict.factor]
    values = (x for section in LEVEL_SECTIONS for x in getattr(settings, section).get(verdict.factor, []))
    levels = (factor.level(x, settings) for x in values)
    return next(level for level in levels if _name((factor, level)) == verdict.name)


def _whole(level: Level) -> Level:
    """The level with its conditions as part of the change: the final configuration stands against the run as it is."""
    return replace(level, overrides=level.given | level.overrides, given={})


def _trainable(inv: Investigation, picks: list[Pick]) -> tuple[Measured | None, list[str]]:
    left: list[str] = []
    while picks:
        measured = _measured(inv, picks)
        if measured.verdict.outcome is not Outcome.NOT_TESTABLE:
            return measured, left
        *picks, dropped = picks
        left.append(_name(dropped))
    return None, left


def _measured(inv: Investigation, picks: Sequence[Pick]) -> Measured:
    inv.judge([combine(inv.settings, picks, inv.machine)], "final", purpose="confirmation")
    return inv.measured[-1]


def _interact(chosen: Measured, candidates: Sequence[Verdict]) -> bool:
    """Whether the combination's interval leaves out what the single gains multiply to."""
    names = {f.name for f, _ in chosen.contrast.levels}
    product = math.prod(v.effect.ratio for v in candidates if v.factor in names)
    return chosen.verdict.effect is None or not chosen.verdict.effect.low <= product <= chosen.verdict.effect.high


def _is_passenger(inv: Investigation, levels: Sequence[Pick], pick: Pick) -> bool:
    """Whether the combination is shown to gain nothing by `pick`: the pick against the rest as baseline."""
    rest = combine(inv.settings, [p for p in levels if p != pick], inv.machine)
    whole = combine(inv.settings, levels, inv.machine)
    contrast = Contrast(levels=(pick,), baseline=rest.treatment, treatment=whole.treatment)
    return inv.compare(contrast, f"{_name(pick)} within the combination").outcome is Outcome.REFUTED


def _projected(inv: Investigation, chosen: Measured) -> Projection | None:
    return project(chosen.contrast.treatment.settings, inv.noise, inv.events, chosen.record)


def _name(pick: Pick) -> str:
    return label([pick])


def _hours(p: Projection) -> str:
    cost = p.cost(p.seconds)
    money = "" if cost is None else f", {cost:,.2f} {p.currency}"
    return f"{duration(p.seconds)} [{duration(p.low)}, {duration(p.high)}]{money}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
