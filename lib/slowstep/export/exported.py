"""What a tracker gets of an investigation, whatever tracker it is."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowstep.records import identity
from slowstep.records.plain_files import is_plain, plain_files
from slowstep.report.overview import Overview
from slowstep.report.read_overview import overview
from slowstep.report.summary import NAME, as_json, write_summary

PROJECT = "slowstep"
"""The name of the experiment or project that investigations go to."""


LONGEST = 200
"""The most characters of a level's key. MLflow takes 250 in the name of a metric, which begins with what it is."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An investigation as a run of a tracker."""

    name: str
    identity: str
    """Its name in the tracker's own records. The same conclusions have the same one, so they are not told twice."""
    tags: dict[str, str]
    metrics: dict[str, float]
    rows: list[dict[str, Any]]
    """The hypotheses, as rows of a table."""
    files: list[Path]
    """Reports, summaries, and the files of the final configuration."""
    folder: Path
    undecided: str
    """The reason why nothing is decided in it, as a clause; empty if something is, or where nothing was to be."""


def exported(folder: Path) -> Exported:
    """Return what is told of the investigation in a folder, with its summary written anew.

    Busy if a link in the folder leads out of it.
    """
    found = overview(folder)
    write_summary(folder, found)
    summary = as_json(found)
    tags = {"machine": found.machine, "answer": found.answer, "slowstep": summary["slowstep"]}
    key = keys(v.name for v in found.verdicts)
    tags |= {f"verdict.{key[v.name]}": str(v.outcome) for v in found.verdicts}
    told = {name: value for name, value in summary.items() if name not in ("seconds", "reports")}
    return Exported(
        name=found.name,
        identity=identity(told),
        tags=tags,
        metrics=metrics_of(found),
        rows=[_row(v) for v in summary["hypotheses"]],
        files=sorted(_files(folder)),
        folder=folder,
        undecided=(found.unmeasured or found.undecided) if found.trained else "",
    )


def keys(names: Iterable[str]) -> dict[str, str]:
    """Return the key of each level: its name in characters that all trackers take, and not too long for them.

    Two levels never have the same key. A `/` is none of the characters, since trackers read it as a folder.
    """
    plain = {name: re.sub(r"[^\w.\-]+", "_", name).strip("_") or "unnamed" for name in names}
    often = Counter(plain.values())
    as_it_is = {name: len(key) <= LONGEST and often[key] == 1 for name, key in plain.items()}
    return {name: key if as_it_is[name] else _marked(key, name) for name, key in plain.items()}


def _marked(key: str, name: str) -> str:
    """Return a key that ends with the digest of its whole name."""
    end = f"_{identity(name)}"
    return f"{key[: LONGEST - len(end)]}{end}"


def metrics_of(found: Overview) -> dict[str, float]:
    """Return the figures by name. An end of an interval that is infinite, as that of two pairs, is none."""
    return {name: value for name, value in _figures(found) if math.isfinite(value)}


def _figures(found: Overview) -> Iterator[tuple[str, float]]:
    key = keys(v.name for v in found.verdicts)
    for v in found.verdicts:
        if v.effect:
            yield f"throughput_ratio/{key[v.name]}", v.effect.ratio
            yield f"throughput_ratio_low/{key[v.name]}", v.effect.low
            yield f"throughput_ratio_high/{key[v.name]}", v.effect.high
    decision = found.decision
    if decision.adopted and decision.adopted.effect:
        yield "throughput_ratio/adopted", decision.adopted.effect.ratio
    for name, job in (("before", decision.before), ("after", decision.after)):
        if job:
            yield f"job_seconds/{name}", job.seconds
            cost = job.cost(job.seconds)
            if cost is not None:
                yield f"job_cost/{name}", cost


def _row(verdict: dict[str, Any]) -> dict[str, Any]:
    effect = verdict["throughput_ratio"] or {"estimate": None, "low": None, "high": None}
    shown = {name: verdict[name] for name in ("name", "outcome", "class", "reason")}
    return shown | {f"throughput_ratio_{end}": effect[end] for end in ("estimate", "low", "high")}


def _files(folder: Path) -> Iterator[Path]:
    """Yield what of an investigation is shared: its reports, its summary, and all of final/."""
    yield from (p for p in folder.iterdir() if is_plain(p) and (p.suffix == ".html" or p.stem == NAME))
    yield from plain_files(folder / "final")
