"""`slowstep audit`: the figures that somebody reported, checked without training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from slowstep.audit import audit as audit_figures
from slowstep.audit.audit import read_runs
from slowstep.audit.model_sizes import Sizing
from slowstep.audit.terminal_lines import claim_lines, finding_lines, headline
from slowstep.audit.unreadable_files import without_refused_files
from slowstep.cli.load_and_check import placed
from slowstep.cli.progress import Terminal
from slowstep.processes.lock import require_writable
from slowstep.records import Store
from slowstep.records.store import write_atomically
from slowstep.settings import Loaded, SettingsError, from_data, load
from slowstep.text.terminal import say, say_lines, warn

LONGEST_NAME = 80
"""The most characters of a folder's name."""


def audit_files(params: Sequence[str], overrides: Sequence[str], outputs: Path) -> int:
    """Audit each parameter file by itself, and all files of figures together; return the exit status.

    A file of figures holds a run or a table. A file that is refused stops no other, and makes the status 2.
    """
    paths = [Path(name) for name in params]
    figures = [path for path in paths if path.suffix not in (".yaml", ".yml")]
    files, refused = _wrapped(figures, overrides, outputs) if figures else ([], [])
    status, audited = 0, False
    for path in [path for path in paths if path not in figures] + files:
        try:
            loaded = load(path, overrides)
            leaving_out, problems = without_refused_files(loaded)
            refused += [placed(problem, loaded) for problem in problems]
            again = [*overrides, *leaving_out]
            status = max(status, _audited(load(path, again) if leaving_out else loaded, again, outputs))
            audited = True
        except SettingsError as error:
            refused += error.problems
    if not refused:
        return status
    if audited:
        say("refused, and in no report:", error=True)
    for problem in refused:
        say(problem, error=True)
    return 2


def _audited(loaded: Loaded, overrides: Sequence[str], outputs: Path) -> int:
    folder = outputs / loaded.settings.name
    if loaded.settings.measure.slurm is not None:  # nothing is measured
        overrides = [*overrides, "measure.slurm=null"]
    if loaded.settings.reported is None:
        raise SettingsError(f"{loaded.source}: holds no `reported` section; docs/reported-figures.md shows one.")
    sizing = Sizing(loaded.settings, Store(folder / "records"))
    try:
        found = audit_figures(loaded.settings, sizing.known)
    except SettingsError as error:
        raise SettingsError(placed(problem, loaded) for problem in error.problems) from None
    require_writable(folder)
    # PyTorch takes some seconds to find out how large the model is; what does not wait for that is told at once
    early = sizing.judged_without(found)
    for line in claim_lines(found, early) if early else []:
        say_lines(line)
    if sizing.missing:
        from slowstep.measure.local import model_sizes

        found = audit_figures(loaded.settings, sizing.found_out(model_sizes))
    if not found.claims:
        say_lines(headline(found))
    late = [c for c in found.claims if c.claim not in [e.claim for e in early]]
    for line in [*(claim_lines(found, late) if late or not found.claims else []), *finding_lines(found)]:
        say_lines(line)
    from slowstep.batch.investigations import audit
    from slowstep.report.index import write_index

    run = audit(loaded, overrides, outputs, Terminal(loaded.settings.name))
    write_index(outputs, warn)
    if run.status != "ok":
        return 1
    for experiment in folder.glob(f"{folder.name}_experiment.yaml"):
        say(f"an experiment on these claims: {experiment}")
    say(f"open {folder / run.report}")
    return 0


def _wrapped(paths: Sequence[Path], overrides: Sequence[str], outputs: Path) -> tuple[list[Path], list[str]]:
    """Return a parameter file around the files of figures that can be read, and why the others can't.

    The parameter file does not say what was trained.
    """
    problems: list[str] = []
    readable: list[Path] = []
    for path in paths:
        try:
            if not path.is_file():
                raise SettingsError(f"{path}: there is no such file.")
            alone = from_data(_around([path]), path, overrides).settings
            # a claim may be on rows of several files
            figures = replace(alone.reported, rows=[], claims=[], sums=[], percentages=[])
            read_runs(replace(alone, reported=figures))
            readable.append(path)
        except SettingsError as error:
            problems += error.problems
    if not readable:
        return [], problems
    data = _around(readable)
    target = outputs / data["name"] / f"{data['name']}.yaml"
    write_atomically(target, yaml.safe_dump(data, sort_keys=False))
    return [target], problems


def _around(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the content of a parameter file that holds nothing but figures."""
    # trainer states are all called alike; a table `quick.csv` is no investigation `quick`
    names = [f"{p.resolve().parent.name}_{p.name}" if p.suffix == ".json" else p.name for p in paths]
    name = re.sub(r"\W", "_", "_and_".join(names))[:LONGEST_NAME]
    name = name if name[:1].isalpha() else f"figures_{name}"
    source = ", ".join(path.name for path in paths)
    return {"name": name, "reported": {"source": source, "files": [str(path.resolve()) for path in paths]}}
