"""The experiment that would decide a report's claims: a parameter file for `make diagnose`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from slowstep.audit.differences import differences
from slowstep.audit.findings import Audit
from slowstep.factors import Factor
from slowstep.factors.catalogue import BY_SECTION
from slowstep.records.store import write_atomically
from slowstep.settings import LEVEL_SECTIONS, Settings
from slowstep.settings.convert import to_plain
from slowstep.settings.load import validate
from slowstep.settings.sections import CROSSED
from slowstep.text.visible import visible


def experiment(settings: Settings, audit: Audit) -> dict[str, Any] | None:
    """Return the plain data of a parameter file that tests the claims: their most common baseline, and their levels.

    None where no claim changes what the catalogue knows, or where it is not known which model was trained.
    """
    baselines = [c.claim.baseline for c in audit.claims]
    if not baselines or settings.figures_alone:
        return None
    runs = {run.label: run for run in audit.runs}
    base = runs[max(baselines, key=baselines.count)].settings
    levels: dict[str, dict[str, list[Any]]] = {}
    for claim in (c.claim for c in audit.claims):
        differ = differences(runs[claim.baseline].settings, runs[claim.treatment].settings)
        for factor, level in differ:
            section = _section(factor, {f.name for f, _ in differ})
            values = levels.setdefault(section, {}).setdefault(factor.name, [])
            if (
                level.value not in values
                and level.value != factor.current(base.run)
                and not factor.refuses(level.value, base.run)
            ):
                values.append(level.value)
    if not any(values for section in levels.values() for values in section.values()):
        return None
    data = _without_unset(to_plain(base)) | {"name": f"{settings.name}_experiment"}
    data = {key: value for key, value in data.items() if key not in (*LEVEL_SECTIONS, "reported")}
    data |= levels
    validate(data, f"{settings.name}_experiment.yaml")
    return data


def _section(factor: Factor, beside: set[str]) -> str:
    """Return the section that tries the factor: the one that crosses it with those `beside` it, or else its own.

    `beside` holds the names of all factors that the claim changes.
    """
    together = (name for name, crossed in CROSSED.items() if factor.name in crossed and beside >= {*crossed})
    own = next(name for name, factors in BY_SECTION.items() if factor in factors)
    return next(together, own)


def write_experiment(settings: Settings, audit: Audit, folder: Path) -> Path | None:
    """Write the experiment's parameter file in `folder` and return its path; None where there is none to write."""
    data = experiment(settings, audit)
    if data is None:
        return None
    path = folder / f"{data['name']}.yaml"
    source = " ".join((settings.reported.source or settings.name).split())  # on one line, as it goes into a comment
    head = f"# Decides the claims of {visible(source)}; made by the audit of its figures.\n"
    write_atomically(path, head + yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    return path


def _without_unset(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data without values that are not set."""
    kept = {k: _without_unset(v) if isinstance(v, Mapping) else v for k, v in data.items()}
    return {k: v for k, v in kept.items() if v not in (None, {}, [])}
