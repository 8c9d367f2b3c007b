"""The command line: `slowstep diagnose`, `survey`, `join`, `run`, `measure`, `report`, `export`, `audit` and `check`.

The code that runs notebooks and draws their pages is imported where it is used. The import takes a second and more, and
an audit has told its claims by then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slowstep.cli.arguments import read_arguments
from slowstep.cli.over_nodes import join, listen_as
from slowstep.cli.progress import Terminal, reminding
from slowstep.environment.imports import find_standard_ones_first, without_address_grammar
from slowstep.environment.system_errors import NO_DIRECTORY, NotAnswered, explained, temporary_folder
from slowstep.processes import signals
from slowstep.processes.lock import Busy
from slowstep.processes.standard_streams import open_standard_streams
from slowstep.settings import TESTED_SECTIONS, SettingsError
from slowstep.text.numbers import in_minutes
from slowstep.text.terminal import drop_output, say, say_lines, warn

KEPT = "finished comparisons are kept, and the same command goes on from there"
"""The words for a run that is ended by a signal."""

OF_SURVEY = 0.05
"""The part of `--minutes`, which come after it, that a survey may watch steps for the end of an epoch."""

SURVEYING = "survey: the program runs to show what it is made of"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, which is 0 only if everything went well."""
    open_standard_streams()
    find_standard_ones_first()
    given = read_arguments(sys.argv[1:] if arguments is None else arguments)
    without_address_grammar()
    try:
        os.getcwd()
    except FileNotFoundError:
        say(NO_DIRECTORY, error=True)
        return 2
    try:
        with signals.unwinding():
            if given.command != "report":
                temporary_folder()
            listen_as(given)
            return RUN[given.command](given)
    except SettingsError as error:
        for problem in error.problems:
            say(problem, error=True)
        return 2
    except Busy as error:
        say(error, error=True)
        return 2
    except NotAnswered as error:
        say(f"{error}; see whether memory and limits suffice (`ulimit -a`)", error=True)
        return 2
    except BrokenPipeError:
        drop_output()
        return 1
    except OSError as error:
        say(explained(error), error=True)
        return 2
    except KeyboardInterrupt:
        say(error=True)
        say(f"interrupted{_kept(given.command)}", error=True)
        return 130
    except signals.Terminated as ended:
        with contextlib.suppress(OSError):  # the terminal itself may be gone
            say(error=True)
            say(f"ended by {ended.signal.name}{_kept(given.command)}", error=True)
        return ended.code


def _kept(command: str) -> str:
    """Return what is said of a command that was ended: whether it goes on where it stopped."""
    return f"; {KEPT}" if command in ("diagnose", "measure") else ""


def _diagnose(given: argparse.Namespace) -> int:
    from slowstep.batch.investigations import diagnose
    from slowstep.cli.closing_lines import edited_meanwhile, more_minutes, time_taken, unreached, wrapped
    from slowstep.cli.edited_files import edited_before
    from slowstep.cli.load_and_check import checked
    from slowstep.factors.own_values import as_they_are
    from slowstep.report.index import write_index
    from slowstep.report.read_overview import overview

    outputs = Path(given.outputs)
    began, failed, closing = time.monotonic(), False, list[str]()
    everything = checked(_params(given), given.set, outputs)
    for loaded in everything:
        as_begun = as_they_are(loaded.settings)
        for line in edited_before(loaded.settings, outputs):
            say_lines(wrapped(line))
        try:
            with Terminal(loaded.settings.name) as terminal:
                runs = diagnose(loaded, given.set, outputs, terminal)
        finally:  # where it is interrupted, the index tells what is decided so far
            index = write_index(outputs, warn)
        failed = failed or any(run.status != "ok" for run in runs)
        spent = overview(outputs / loaded.settings.name)
        say(time_taken(loaded.settings, spent.seconds, spent.measured_seconds))
        closing.append(f"{spent.name}: {spent.answer}")
        closing += [f"- {a.what}: {a.gain or a.kind}" for a in spent.actions if not spent.single]
        if unreached(spent.verdicts, spent.decision):
            closing.append(more_minutes(loaded.settings, spent.seconds))
        closing.append(edited_meanwhile(loaded.settings.command, as_begun))
    say(f"this call took {in_minutes(time.monotonic() - began)}")
    for text in filter(None, closing):
        say_lines(wrapped(text))
    if index:
        say(f"open {index}")
    return 1 if failed else 0


def _measure(given: argparse.Namespace) -> int:
    from slowstep.cli.load_and_check import checked
    from slowstep.cli.measure import measure

    outputs, began = Path(given.outputs), time.monotonic()
    everything = checked(_params(given), given.set, outputs)
    status = max([measure(loaded, outputs) for loaded in everything])
    say(f"this call took {in_minutes(time.monotonic() - began)}")
    return status


def _params(given: argparse.Namespace) -> list[str]:
    """Return the parameter files that are named, and the one of a command, which is surveyed for it."""
    if not given.words:
        return given.params
    from slowstep.cli.survey_lines import lines
    from slowstep.launch.surveyed_run import BUDGET, surveyed_for, write
    from slowstep.launch.surveyor import SurveyOrder
    from slowstep.settings import load

    minutes = BUDGET["minutes"] if given.minutes is None else given.minutes
    patience = min(SurveyOrder.epoch_seconds, OF_SURVEY * 60 * minutes)
    order = SurveyOrder(startup=given.startup, epoch_seconds=patience)
    for path in given.params:  # a mistake in one of them is not told after minutes of a survey
        load(path, given.set)
    outputs, protected = Path(given.outputs), not given.unprotected
    more = f"for {patience:.0f} s more at most until an epoch ends"
    say(f"{SURVEYING}: {order.steps} steps, and {more}", error=True)
    with reminding(SURVEYING):
        seen, folder = surveyed_for(given.words, order, outputs, given.name or "", protected)
    for line in lines(seen):
        say(line)
    if folder.name != (given.name or seen.command.name):
        say(f"{outputs / seen.command.name} holds another investigation, so this one is in {folder}")
    return [*given.params, str(write(seen, folder))]


def _run(given: argparse.Namespace) -> int:
    from slowstep.command.resolve import resolve
    from slowstep.launch.changed_run import beyond, changes_in, outdated, run

    changes, command = changes_in(Path(given.final)), resolve(given.words, Path.cwd(), os.environ)
    for line in (*outdated(changes, command), *beyond(changes)):
        say(line, error=True)
    run(command, changes, os.environ)


def _survey(given: argparse.Namespace) -> int:
    from slowstep.cli.survey_lines import lines
    from slowstep.command.resolve import resolve
    from slowstep.launch.surveyor import SurveyOrder, survey

    command = replace(resolve(given.words, Path.cwd(), os.environ), protected=not given.unprotected)
    with reminding(SURVEYING):
        seen = survey(command, SurveyOrder(steps=given.steps, startup=given.startup), os.environ)
    for line in lines(seen):
        say(line)
    return 0 if seen.training else 1


def _check(given: argparse.Namespace) -> int:
    from slowstep.cli.load_and_check import checked
    from slowstep.environment.machine import this_machine
    from slowstep.factors import plan

    machine = this_machine()
    for loaded in checked(given.params, given.set, Path(given.outputs), keep=False):
        say(f"{loaded.source}: can be used (investigation '{loaded.settings.name}')")
        for section in TESTED_SECTIONS:
            for contrast in plan(loaded.settings, section, machine):
                reason = contrast.untestable or contrast.unmet
                name = f"{section}.{contrast.name}"
                say(f"  not testable here: {name}: {reason}" if reason else f"  to try: {name}")
    return 0


def _audit(given: argparse.Namespace) -> int:
    from slowstep.cli.audit import audit_files

    return audit_files(given.params, given.set, Path(given.outputs))


def _report(given: argparse.Namespace) -> int:
    from slowstep.cli.report import report

    return report([Path(folder) for folder in given.folders], Path(given.outputs), not given.static)


def _export(given: argparse.Namespace) -> int:
    from slowstep.cli.export import export

    folder = Path(given.wandb) if given.wandb else None
    return export([Path(folder) for folder in given.folders], Path(given.outputs), given.mlflow, folder)


RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "survey": _survey,
    "diagnose": _diagnose,
    "measure": _measure,
    "check": _check,
    "audit": _audit,
    "report": _report,
    "export": _export,
    "run": _run,
    "join": join,
}
"""The function of each command."""


if __name__ == "__main__":
    sys.exit(main())
