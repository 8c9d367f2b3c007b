"""Identical arms through the whole machinery: every reading of a difference is false, and the mean ratio must be 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.validation.scenarios import Scenario
from slowstep.factors import Arm
from slowstep.judgement.comparison import Reading, result_of
from slowstep.judgement.intervals import interval
from slowstep.judgement.stopping import StopRule
from slowstep.judgement.verdict import span
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.settings import load

REPEATS = 3
CONFIDENCE_P = 0.05


def measure(cases: list[Scenario], folder: Path) -> dict[str, Any]:
    """Compare each case with a second launch of itself, several times, stopping as the kit stops."""
    rows, ratios = [], []
    for case in cases:
        settings = load(case.write(folder / "params")).settings
        budget, arm = settings.budget, Arm(label=case.name, settings=settings)
        stop = StopRule(max_pairs=budget.max_pairs, minimum_effect=budget.minimum_effect)
        with LocalMeasurer(budget, folder / "logs") as measurer:
            for repeat in range(REPEATS):
                request = ComparisonRequest(
                    baseline=arm, treatment=arm, stop=stop, twin=True, purpose=f"repeat {repeat}"
                )
                record = measurer.compare(request)
                found = result_of(record.pairs)
                ratios.append(found.effect.mean)
                rows.append(
                    {
                        "arm": case.name,
                        "pairs": len(record.pairs),
                        "launches": len({p.launch for p in record.pairs}),
                        "redone": len(record.redone),
                        "treatment first": sum(p.first == "treatment" for p in record.pairs),
                        "ratio": span(found.effect),
                        "reading": str(found.reading),
                    }
                )
                print(f"identical: {case.name}: {rows[-1]['ratio']} {found.reading}", flush=True)
    bias = interval(ratios, CONFIDENCE_P)
    return {
        "comparisons": len(rows),
        "false": sum(r["reading"] in (Reading.FASTER, Reading.SLOWER) for r in rows),
        "mean_ratio": bias.ratio,
        "mean_ratio_low": bias.low,
        "mean_ratio_high": bias.high,
        "rows": rows,
    }
