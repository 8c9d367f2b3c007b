"""Identical arms through the whole machinery: every reading of a difference is false, and the mean ratio must be 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.measure.session import Session

from bench.validation.scenarios import Scenario
from slowstep.factors import Arm
from slowstep.judgement.comparison import LOOKS, Kind, reading
from slowstep.judgement.intervals import interval
from slowstep.judgement.verdict import enough, span
from slowstep.settings import load

REPEATS = 3
CONFIDENCE_P = 0.05


def measure(cases: list[Scenario], folder: Path) -> dict[str, Any]:
    """Compare each case with a second launch of itself, several times, stopping as the kit stops."""
    rows, ratios = [], []
    for case in cases:
        settings = load(case.write(folder / "params")).settings
        budget, arm = settings.budget, Arm(label=case.name, settings=settings)
        stop = enough(budget.minimum_effect, 1, budget.max_pairs)
        with Session(budget, folder / "logs") as session:
            for repeat in range(REPEATS):
                purpose = f"repeat {repeat}"
                record = session.compare(arm, arm, budget.max_pairs, stop, twin=True, purpose=purpose, looks=LOOKS)
                read = reading(record.pairs)
                ratios.append(read.effect.mean)
                rows.append(
                    {
                        "arm": case.name,
                        "pairs": len(record.pairs),
                        "launches": len({p.launch for p in record.pairs}),
                        "redone": len(record.redone),
                        "treatment first": sum(p.first == "treatment" for p in record.pairs),
                        "ratio": span(read.effect),
                        "reading": str(read.kind),
                    }
                )
                print(f"identical: {case.name}: {rows[-1]['ratio']} {read.kind}", flush=True)
    bias = interval(ratios, CONFIDENCE_P)
    return {
        "comparisons": len(rows),
        "false": sum(r["reading"] in (Kind.FASTER, Kind.SLOWER) for r in rows),
        "mean_ratio": bias.ratio,
        "mean_ratio_low": bias.low,
        "mean_ratio_high": bias.high,
        "rows": rows,
    }
