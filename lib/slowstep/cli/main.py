"""The command line: `slowstep diagnose`, `survey`, `join`, `run`, `measure`, `report`, `export`, `audit` and `check`.

The code that runs notebooks and draws their pages is imported where it is used. The import takes a second and more, and
an audit has told its claims by then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slowstep import __version__
from slowstep.cli.numbers import above_zero, counted
from slowstep.cli.over_nodes import add_join, add_options, listen_as
from slowstep.cli.parser import Commands
from slowstep.cli.progress import Terminal, reminded_of
from slowstep.environment.home import ROOT
from slowstep.environment.imports import find_standard_ones_first, without_address_grammar
from slowstep.environment.system_errors import NO_DIRECTORY, NotAnswered, explained, temporary_folder
from slowstep.processes import signals
from slowstep.processes.lock import Busy
from slowstep.processes.standard_streams import open_standard_streams
from slowstep.settings import TESTED_SECTIONS, SettingsError
from slowstep.settings.load import wrong_with_name
from slowstep.settings.plain import is_utf8
from slowstep.text.numbers import in_minutes
from slowstep.text.terminal import drop_output, say, say_lines, warn

KEPT = "finished comparisons are kept, and the same command goes on from there"
"""The words for a run that is ended by a signal."""

OF_SURVEY = 0.05
"""The part of `--minutes`, which come after it, that a survey may watch steps for the end of an epoch."""

SURVEYING = "survey: the program runs to show what it is made of"

OUTPUTS = ROOT / "outputs"
"""The folder of results if no other is named."""

DESCRIBING = (".yaml", ".yml", ".json")
"""The endings of files that describe a run."""

OF_COMMANDS = ("survey", "run", "diagnose", "measure", "join")
"""What can be done with a command that trains."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, which is 0 only if everything went well."""
    open_standard_streams()
    find_standard_ones_first()
    given = _given(sys.argv[1:] if arguments is None else list(arguments))
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
            return given.run(given)
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


def _given(arguments: list[str]) -> argparse.Namespace:
    """Return the parsed arguments. What follows `--` is a command that trains, and its words are left alone."""
    own, words = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        own, words = arguments[:at], arguments[at + 1 :]
    if not words and len(own) == 2 and own[0] in OF_COMMANDS and _is_quoted(own[1]):
        own, words = own[:1], shlex.split(own[1])
    parser = _parser()
    if odd := next((word for word in own if not is_utf8(word)), ""):
        parser.error(f"{odd!r} holds bytes that are no UTF-8, which reports can't hold; give a path with another name")
    if (words and not own) or (own and own[0] not in parser.commands and _is_program(["", *own], 1)):
        meant = shlex.join(["slowstep", "diagnose", "--", *own, *words])
        parser.error(f"{[*own, *words][0]} is a program; say what to do with it, as in `{meant}`")
    if not words and own and own[0] in OF_COMMANDS:
        at = next((i for i in range(1, len(own)) if _is_program(own, i)), None)
        if at is not None:
            meant = shlex.join(["slowstep", *own[:at], "--", *own[at:]])
            parser.refuse(own[0], f"{own[at]} is a program; put -- before the command that trains: {meant}")
    given = parser.read(own)
    given.words = words
    if getattr(given, "minutes", None) is not None:
        given.set = [*given.set, f"budget.minutes={given.minutes}"]
    if getattr(given, "slurm", False):
        given.set = [*given.set, "measure.slurm.cluster=slurm"]
    if words and given.command not in OF_COMMANDS:
        parser.refuse(given.command, f"{given.command} takes no command after --")
    if given.command in ("survey", "run", "join") and not words:
        example = f"`slowstep {given.command} … -- python train.py`"
        parser.refuse(given.command, f"put the command that trains after --, as in {example}")
    if given.command in ("diagnose", "measure", "check", "audit") and not (words or given.params):
        taken = " (--set takes all words after it, so it comes last)" if "--set" in own else ""
        training = ", or put a command that trains after --" if given.command in OF_COMMANDS else ""
        reports = ", logs or tables" if given.command == "audit" else ""
        parser.refuse(given.command, f"name parameter files{reports}{training}{taken}")
    return given


def _is_quoted(word: str) -> bool:
    """Return whether one word is a whole command that stood in quotes: `"python train.py"`."""
    try:
        words = shlex.split(word)
    except ValueError:
        return False
    return len(words) > 1 and not Path(word).exists() and _is_program(["", words[0]], 1)


def _is_program(arguments: Sequence[str], at: int) -> bool:
    """Return whether an argument names a program, and is neither a parameter file nor an option or its value."""
    word, before = arguments[at], arguments[at - 1]
    of_option = before.startswith("--") and before not in ("--unprotected", "--slurm")
    if word.startswith("-") or of_option or "=" in word:
        return False
    path = Path(word)
    if path.is_file():
        return path.suffix.lower() not in DESCRIBING and (path.suffix == ".py" or os.access(path, os.X_OK))
    return path.suffix == ".py" or (path.suffix.lower() not in DESCRIBING and shutil.which(word) is not None)


def _kept(command: str) -> str:
    """Return what is said of a command that was ended: whether it goes on where it stopped."""
    return f"; {KEPT}" if command in ("diagnose", "measure") else ""


def _parser() -> Commands:
    parser = Commands(prog="slowstep", description="Why are my training steps slow, and what do I change?")
    parser.add_argument("--version", action="version", version=f"slowstep {__version__}")
    survey = parser.add_command("survey", "show in half a page what a command that trains is made of")
    survey.set_defaults(run=_survey)
    survey.add_argument("--startup", type=above_zero, default=300.0, help="most seconds until the first step (300)")
    survey.add_argument("--unprotected", action="store_true", help="let what the program writes stay")
    survey.add_argument("--steps", type=counted, default=20, help="steps that are watched (20)")
    survey.usage = "slowstep survey [options] -- COMMAND"
    add_options(survey)
    for name, run, text in (
        ("diagnose", _diagnose, "run every notebook over parameter files or a command, and write the reports"),
        ("measure", _measure, "measure what the notebooks would, without Jupyter, and print the verdicts"),
        ("check", _check, "say whether parameter files can be used, and train nothing"),
        ("audit", _audit, "check the figures that somebody reported, and train nothing"),
        ("report", _report, "draw the reports again from the records of investigations, wherever they were measured"),
        ("export", _export, "write investigations to an experiment tracker: verdicts, effects and reports"),
    ):
        command = parser.add_command(name, text)
        command.set_defaults(run=run)
        if name in ("report", "export"):
            command.add_argument("folders", nargs="*", help="investigations, by folder or name (all if none is named)")
        else:
            also = ", or tables, logs and trainer states by themselves" if name == "audit" else ""
            training = "; or after -- a command that trains" if name in OF_COMMANDS else ""
            command.add_argument("params", nargs="*", metavar="FILE", help=f"parameter files{also}{training}")
            command.usage = f"slowstep {name} [options] FILE ... [--set KEY=VALUE ...]"
            if name in OF_COMMANDS:
                command.usage += f"\n       slowstep {name} [options] -- COMMAND"
                command.add_argument("--slurm", action="store_true", help="measure by jobs of Slurm (measure.slurm)")
                command.add_argument(
                    "--minutes", type=above_zero, help="how long all calls together may measure (15 for a command)"
                )
                command.add_argument("--name", type=_identifier, help="the name of the investigation (of the program)")
                command.add_argument(
                    "--startup", type=above_zero, default=300.0, help="most seconds until its first step (300)"
                )
                command.add_argument("--unprotected", action="store_true", help="let what a trial writes stay")
                add_options(command)
            command.add_argument(
                "--set",
                nargs="*",
                default=[],
                metavar="KEY=VALUE",
                help=f"override single values; last{', or before -- COMMAND' * (name in OF_COMMANDS)}",
            )
        command.add_argument("--outputs", default=str(OUTPUTS), help=f"where results go ({OUTPUTS})")
        if name == "report":
            command.add_argument(
                "--static", action="store_true", help="charts as drawings alone: below 0.1 MB a report"
            )
        if name == "export":
            command.add_argument("--mlflow", metavar="URI", help="a tracking server, or a file: sqlite:///mlflow.db")
            command.add_argument("--wandb", metavar="FOLDER", help="where an offline run of W&B goes")
    changed = parser.add_command("run", "train for real with what was found, the program untouched")
    changed.usage = "slowstep run --with outputs/NAME/final -- COMMAND"
    changed.set_defaults(run=_run)
    changed.add_argument("--with", dest="final", required=True, metavar="FOLDER", help="final/ of an investigation")
    add_join(parser)
    return parser


def _identifier(text: str) -> str:
    """Return the name of an investigation; an error of the command line if it is none."""
    for why in wrong_with_name(text):
        raise argparse.ArgumentTypeError(why)
    return text


def _diagnose(given: argparse.Namespace) -> int:
    from slowstep.batch.investigations import diagnose
    from slowstep.cli.beginning import edited_before
    from slowstep.cli.ending import edited_meanwhile, more_minutes, took, unreached, wrapped
    from slowstep.cli.load_and_check import checked
    from slowstep.factors.own_values import as_they_are
    from slowstep.report.index import write_index
    from slowstep.report.read_overview import overview

    outputs = Path(given.outputs)
    began, failed, told = time.monotonic(), False, list[str]()
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
        say(took(loaded.settings, spent.seconds, spent.measured_seconds))
        told.append(f"{spent.name}: {spent.answer}")
        told += [f"- {a.what}: {a.gain or a.kind}" for a in spent.actions if not spent.single]
        if unreached(spent.verdicts, spent.decision):
            told.append(more_minutes(loaded.settings, spent.seconds))
        told.append(edited_meanwhile(loaded.settings.command, as_begun))
    say(f"this call took {in_minutes(time.monotonic() - began)}")
    for text in filter(None, told):
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
    with reminded_of(SURVEYING):
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
    with reminded_of(SURVEYING):
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


if __name__ == "__main__":
    sys.exit(main())
