"""The command line: `slowstep diagnose`, `slowstep audit`, `slowstep check`, `slowstep report`.

What runs notebooks and draws their pages is imported where it is used: that takes a second and more, and an audit has
told its claims by then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from slowstep.audit import audit as audit_figures
from slowstep.audit.audit import read_runs
from slowstep.audit.lines import claim_lines, finding_lines
from slowstep.factors import check_levels, plan
from slowstep.investigation.auditing import Sizing, without_refused_files
from slowstep.launch.fork_server import NO_DIRECTORY
from slowstep.machine import this_machine, versions
from slowstep.measure.progress import Progress
from slowstep.processes import Busy, signals
from slowstep.records import Store, identity
from slowstep.records.store import write_atomically
from slowstep.settings import LEVEL_SECTIONS, Loaded, SettingsError, from_data, load
from slowstep.system import explained, temporary_folder
from slowstep.terminal import drop_output, is_live, say, say_lines, say_over

KEPT = "finished comparisons are kept, and the same command goes on from there"
"""What is said when a run is ended by a signal."""

OUTPUTS = Path(__file__).resolve().parents[2] / "outputs"
"""Where results go if nothing else is said: beside notebooks/ and params/."""

LONGEST_NAME = 80
"""Characters of a folder's name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 only if everything went well."""
    parser = argparse.ArgumentParser(
        prog="slowstep", description="Why are my training steps slow, and what do I change?"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("diagnose", "run every notebook over parameter files and write the reports"),
        ("check", "say whether parameter files can be used, and train nothing"),
        ("audit", "check the figures that somebody reported, and train nothing"),
        ("report", "draw the reports again from what is in outputs/"),
    ):
        command = commands.add_parser(name, help=text)
        if name != "report":
            also = ", or tables, logs and trainer states by themselves" if name == "audit" else ""
            command.add_argument("params", nargs="+", help=f"parameter files{also}")
            command.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="override single values")
        command.add_argument("--outputs", default=str(OUTPUTS), help="where results go")
    given = parser.parse_args(arguments)
    try:
        os.getcwd()
    except FileNotFoundError:
        say(NO_DIRECTORY, error=True)
        return 2
    try:
        with signals.unwinding():
            if given.command != "report":
                temporary_folder()
            return {"diagnose": _diagnose, "check": _check, "audit": _audit, "report": _report}[given.command](given)
    except SettingsError as error:
        for problem in error.problems:
            say(problem, error=True)
        return 2
    except Busy as error:
        say(error, error=True)
        return 2
    except BrokenPipeError:
        drop_output()
        return 1
    except OSError as error:
        say(explained(error), error=True)
        return 2
    except KeyboardInterrupt:
        say(error=True)
        say(f"interrupted; {KEPT}", error=True)
        return 130
    except signals.Terminated as ended:
        with contextlib.suppress(OSError):  # the terminal itself may be gone
            say(error=True)
            say(f"ended by {ended.signal.name}; {KEPT}", error=True)
        return ended.code


def _diagnose(given: argparse.Namespace) -> int:
    from slowstep.batch import diagnose
    from slowstep.report.index import write_index

    outputs = Path(given.outputs)
    everything, began = _checked(given), time.monotonic()
    failed = False
    for loaded in everything:
        terminal = _Terminal(loaded.settings.name)
        runs = diagnose(loaded, given.set, outputs, terminal)
        failed = failed or any(run.status != "ok" for run in runs)
        index = write_index(outputs)
        whole, measured = (sum(getattr(r, n) for r in runs) for n in ("seconds", "measured_seconds"))
        share = f"{measured / whole:.0%}" if whole else "none"
        say(f"{loaded.settings.name}: {whole:.0f} s of notebooks, {measured:.0f} s ({share}) in measured blocks")
    say(f"this call took {time.monotonic() - began:.0f} s")
    say(f"open {index}")
    return 1 if failed else 0


def _check(given: argparse.Namespace) -> int:
    machine = this_machine()
    for loaded in _checked(given):
        say(f"{loaded.source}: can be used (investigation '{loaded.settings.name}')")
        for section in LEVEL_SECTIONS:
            for contrast in plan(loaded.settings, section, machine):
                reason = contrast.untestable or contrast.unmet
                if reason:
                    say(f"  not testable here: {section}.{contrast.name}: {reason}")
    return 0


def _audit(given: argparse.Namespace) -> int:
    """Each parameter file by itself; files of figures, which hold a run or a table each, together. What is refused
    stops nothing else, and the exit status tells of it."""
    outputs, paths = Path(given.outputs), [Path(name) for name in given.params]
    figures = [path for path in paths if path.suffix not in (".yaml", ".yml")]
    files, refused = _wrapped(figures, given.set, outputs) if figures else ([], [])
    status, audited = 0, False
    for path in [path for path in paths if path not in figures] + files:
        try:
            loaded = load(path, given.set)
            overrides, problems = without_refused_files(loaded)
            refused += [_placed(problem, loaded) for problem in problems]
            again = [*given.set, *overrides]
            status = max(status, _audited(load(path, again) if overrides else loaded, again, outputs))
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
    if loaded.settings.reported is None:
        raise SettingsError(f"{loaded.source}: holds no `reported` section; docs/parameter-file.md shows one.")
    sizing = Sizing(loaded.settings, Store(folder / "records"))
    try:
        found = audit_figures(loaded.settings, sizing.known)
    except SettingsError as error:
        raise SettingsError(_placed(problem, loaded) for problem in error.problems) from None
    # PyTorch takes some seconds to find out how large the model is; what does not wait for that is told at once
    early = sizing.judged_without(found)
    for line in claim_lines(found, early) if early else []:
        say_lines(line)
    if sizing.missing:
        found = audit_figures(loaded.settings, sizing.found_out())
    late = [c for c in found.claims if c.claim not in [e.claim for e in early]]
    for line in [*(claim_lines(found, late) if late or not found.claims else []), *finding_lines(found)]:
        say_lines(line)
    from slowstep.batch import audit
    from slowstep.report.index import write_index

    run = audit(loaded, overrides, outputs, _Terminal(loaded.settings.name))
    write_index(outputs)
    if run.status != "ok":
        return 1
    for experiment in folder.glob(f"{folder.name}_experiment.yaml"):
        say(f"an experiment on these claims: {experiment}")
    say(f"open {folder / run.report}")
    return 0


def _placed(problem: str, loaded: Loaded) -> str:
    """With the file and the line of the key that it is on; what was read from another file says its own."""
    key = problem.partition(": ")[0]
    return f"{loaded.place(key)}: {problem}" if key.startswith("reported.") else problem


def _wrapped(paths: Sequence[Path], overrides: Sequence[str], outputs: Path) -> tuple[list[Path], list[str]]:
    """A parameter file around the files of figures that can be read, and why the others can't; what was trained, nobody
    says."""
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
    """What stands in a parameter file of nothing but figures."""
    # trainer states are all called alike; a table `quick.csv` is no investigation `quick`
    names = [f"{p.resolve().parent.name}_{p.name}" if p.suffix == ".json" else p.name for p in paths]
    name = re.sub(r"\W", "_", "_and_".join(names))[:LONGEST_NAME]
    name = name if name[:1].isalpha() else f"figures_{name}"
    source = ", ".join(path.name for path in paths)
    return {"name": name, "reported": {"source": source, "files": [str(path.resolve()) for path in paths]}}


def _report(given: argparse.Namespace) -> int:
    from slowstep.batch import notebooks, unusable_records
    from slowstep.investigation.findings import NotebookRun
    from slowstep.report.html import render
    from slowstep.report.index import write_index

    outputs = Path(given.outputs)
    if not outputs.is_dir():
        raise SettingsError(f"{outputs}: there is no such folder; run `make diagnose` first.")
    for notebook in notebooks():
        for executed in outputs.glob(f"*/{notebook.name}"):
            run = Store(executed.parent / "records").read(NotebookRun, "notebooks", notebook.stem)
            failed = run.reason if run and run.status != "ok" else ""
            render(executed, executed.with_suffix(".html"), f"{executed.parent.name}: {notebook.stem}", failed)
    for folder in sorted(p for p in outputs.iterdir() if (p / "records").is_dir()):
        for line in unusable_records(folder):
            say(line, error=True)
    say(f"open {write_index(outputs)}")
    return 0


def _checked(given: argparse.Namespace) -> list[Loaded]:
    """All parameter files loaded and tried with the real libraries; SettingsError with everything that is wrong."""
    everything, problems = [], []
    for path in given.params:
        try:
            everything.append(load(path, given.set))
        except SettingsError as error:
            problems += error.problems
    names = [loaded.settings.name for loaded in everything]
    problems += [f"the name '{n}' is used by more than one parameter file" for n in set(names) if names.count(n) > 1]
    for loaded in everything:
        if loaded.settings.figures_alone:
            problems.append(f"{loaded.source}: model: nothing says what to train; `make audit` takes figures alone.")
        problems += check_levels(loaded.settings, loaded.source)
        try:
            audit_figures(loaded.settings)
        except SettingsError as error:
            problems += [_placed(problem, loaded) for problem in error.problems]
    if not problems:
        for loaded in everything:
            problems += _tried(loaded, Path(given.outputs))
    if problems:
        raise SettingsError(problems)
    return everything


def _tried(loaded: Loaded, outputs: Path) -> list[str]:
    """What transformers, peft, bitsandbytes and datasets refuse; asked once for the same settings and versions."""
    from slowstep.launch.entry import enter_check
    from slowstep.launch.run_in_subprocess import run_in_subprocess

    store = Store(outputs / loaded.settings.name / "records")
    key = identity("checked", loaded.settings, loaded.settings.local_content(), versions(), this_machine())
    if store.read(list, "checks", key) is not None:
        return []
    try:
        found = run_in_subprocess(enter_check, loaded.settings)
    except RuntimeError as error:
        return [f"{loaded.source}: trying the settings with the real libraries came to no end: {error}"]
    problems = [f"{loaded.source}: {where}: {why}" for where, why in found]
    if not problems:
        store.write([], "checks", key)
    return problems


class _Terminal:
    """One live line on a terminal, plain lines in a log."""

    def __init__(self, investigation: str):
        self.investigation, self.live, self.last = investigation, is_live(), ""

    def __call__(self, what: str, progress: Progress | None) -> None:
        line = progress.line() if progress and progress.notebook == what else what
        if self.live:
            say_over(f"{self.investigation}  {line}", ended=not progress and ":" in what)
        elif progress is None and line != self.last and ":" in line:
            say(f"{self.investigation}  {line}")
        elif progress and (progress.comparison, progress.pair) != self.last:
            self.last = (progress.comparison, progress.pair)
            say(f"{self.investigation}  {line}")


if __name__ == "__main__":
    sys.exit(main())
