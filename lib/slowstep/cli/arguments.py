"""The arguments of the command line: a parser for each command, and what is refused before a command runs."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from slowstep import __version__
from slowstep.cli.numbers import positive_integer, positive_number
from slowstep.cli.over_nodes import add_join, add_options
from slowstep.cli.parser import Commands
from slowstep.environment.home import ROOT
from slowstep.settings.load import wrong_with_name
from slowstep.settings.plain import is_utf8

OUTPUTS = ROOT / "outputs"
"""The folder of results if no other is named."""

DESCRIBING = (".yaml", ".yml", ".json")
"""The endings of files that describe a run."""

OF_COMMANDS = ("survey", "run", "diagnose", "measure", "join")
"""What can be done with a command that trains."""

OF_SURVEYS = ("name", "startup", "unprotected")
"""The options that say how a command is surveyed. A parameter file has its own values."""


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments. What follows `--` is a command that trains, whose `words` are left alone.

    The process ends, and says why, if they can't be meant.
    """
    own, words = _divided(arguments)
    parser = _parser()
    _refuse_unclear(parser, own, words)
    given = parser.read(own)
    given.words = words
    if getattr(given, "minutes", None) is not None:
        given.set = [*given.set, f"budget.minutes={given.minutes}"]
    if getattr(given, "slurm", False):
        given.set = [*given.set, "measure.slurm.cluster=slurm"]
    _refuse_incomplete(parser, given, own)
    return given


def _divided(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments for slowstep, and the words of a command that trains; one in quotes counts as its words."""
    own, words = list(arguments), list[str]()
    if "--" in own:
        at = own.index("--")
        own, words = own[:at], own[at + 1 :]
    if not words and len(own) > 1 and own[0] in OF_COMMANDS and _is_quoted(own[-1]):
        own, words = own[:-1], shlex.split(own[-1])
    return own, words


def _refuse_unclear(parser: Commands, own: Sequence[str], words: Sequence[str]) -> None:
    """End the process if a program stands where it can't be told from an argument, with what is meant."""
    if odd := next((word for word in own if not is_utf8(word)), ""):
        parser.error(f"{odd!r} holds bytes that are no UTF-8, which reports can't hold; give a path with another name")
    if (words and not own) or (own and own[0] not in parser.commands and _is_program(["", *own], 1)):
        meant = shlex.join(["slowstep", "diagnose", "--", *own, *words])
        parser.error(f"{[*own, *words][0]} is a program; say what to do with it, as in `{meant}`")
    if words or not own or own[0] not in OF_COMMANDS:
        return
    at = next((i for i in range(1, len(own)) if _is_program(own, i)), None)
    if at is not None:
        meant = shlex.join(["slowstep", *own[:at], "--", *own[at:]])
        own_ones = "; slowstep's own options stand before it" if any(w.startswith("--") for w in own[at:]) else ""
        parser.refuse(own[0], f"{own[at]} is a program; put -- before the command that trains: {meant}{own_ones}")


def _refuse_incomplete(parser: Commands, given: argparse.Namespace, own: Sequence[str]) -> None:
    """End the process if a command lacks what it works on, or is given what it has no use for."""
    if given.words and given.command not in OF_COMMANDS:
        parser.refuse(given.command, f"{given.command} takes no command after --")
    if given.words:
        return
    if given.command in ("survey", "run", "join"):
        example = f"`slowstep {given.command} … -- python train.py`"
        parser.refuse(given.command, f"put the command that trains after --, as in {example}")
    default = parser.commands[given.command].get_default
    if unused := next((name for name in OF_SURVEYS if getattr(given, name, None) != default(name)), ""):
        parser.refuse(given.command, f"--{unused} is for a command after --; a parameter file has a value of its own")
    if value := next((word for word in getattr(given, "params", ()) if "=" in word and not Path(word).exists()), ""):
        parser.refuse(given.command, f"put --set before {value}: slowstep {given.command} FILE ... --set {value}")
    if given.command in ("diagnose", "measure", "check", "audit") and not given.params:
        taken = " (--set takes all words after it, so it comes last)" if "--set" in own else ""
        training = ", or put a command that trains after --" if given.command in OF_COMMANDS else ""
        reports = ", logs or tables" if given.command == "audit" else ""
        parser.refuse(given.command, f"name parameter files{reports}{training}{taken}")


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


def _parser() -> Commands:
    parser = Commands(prog="slowstep", description="Why are my training steps slow, and what do I change?")
    parser.add_argument("--version", action="version", version=f"slowstep {__version__}")
    _add_survey(parser)
    _add_measuring(parser, "diagnose", "run every notebook over parameter files or a command, and write the reports")
    _add_measuring(parser, "measure", "measure what the notebooks would, without Jupyter, and print the verdicts")
    _add_checking(parser, "check", "say whether parameter files can be used, and train nothing", "parameter files")
    files = "parameter files, or tables, logs and trainer states by themselves"
    _add_checking(parser, "audit", "check the figures that somebody reported, and train nothing", files)
    _add_report(parser)
    _add_export(parser)
    _add_run(parser)
    add_join(parser)
    return parser


def _add_survey(parser: Commands) -> None:
    survey = parser.add_command("survey", "show in half a page what a command that trains is made of")
    survey.usage = "slowstep survey [options] -- COMMAND"
    survey.add_argument(
        "--startup", type=positive_number, metavar="SECONDS", default=300.0, help="most until the first step (300)"
    )
    survey.add_argument("--unprotected", action="store_true", help="let what the program writes stay")
    survey.add_argument("--steps", type=positive_integer, metavar="N", default=20, help="steps that are watched (20)")
    add_options(survey)


def _add_measuring(parser: Commands, name: str, text: str) -> None:
    """Add a command that measures parameter files, or a command that trains."""
    command = parser.add_command(name, text)
    command.usage = (
        f"slowstep {name} [options] FILE ... [--set KEY=VALUE ...]\n       slowstep {name} [options] -- COMMAND"
    )
    command.add_argument("params", nargs="*", metavar="FILE", help="parameter files; or after -- a command that trains")
    command.add_argument("--slurm", action="store_true", help="measure by jobs of Slurm (measure.slurm)")
    minutes = "how long all calls together may measure (15 for a command)"
    command.add_argument("--minutes", type=positive_number, help=minutes)
    survey = command.add_argument_group("a command after --")
    survey.add_argument("--name", type=_identifier, help="the name of the investigation (the program's)")
    startup = "most until its first step (300)"
    survey.add_argument("--startup", type=positive_number, metavar="SECONDS", default=300.0, help=startup)
    survey.add_argument("--unprotected", action="store_true", help="let what a trial writes stay")
    add_options(command)
    _add_overrides(command, "override single values; last, or before -- COMMAND")
    _add_outputs(command)


def _add_checking(parser: Commands, name: str, text: str, files: str) -> None:
    """Add a command that reads parameter files, and trains nothing."""
    command = parser.add_command(name, text)
    command.usage = f"slowstep {name} [options] FILE ... [--set KEY=VALUE ...]"
    command.add_argument("params", nargs="*", metavar="FILE", help=files)
    _add_overrides(command, "override single values; last")
    _add_outputs(command)


def _add_report(parser: Commands) -> None:
    text = "draw the reports again from the records of investigations, wherever they were measured"
    report = parser.add_command("report", text)
    _add_folders(report)
    report.add_argument("--static", action="store_true", help="charts as drawings alone: about 0.1 MB a report")


def _add_export(parser: Commands) -> None:
    text = "write investigations to an experiment tracker: verdicts, effects and reports"
    export = parser.add_command("export", text)
    _add_folders(export)
    export.add_argument("--mlflow", metavar="URI", help="a tracking server, or a file: sqlite:///mlflow.db")
    export.add_argument("--wandb", metavar="FOLDER", help="where an offline run of W&B goes")


def _add_run(parser: Commands) -> None:
    run = parser.add_command("run", "train for real with what was found, the program untouched")
    run.usage = "slowstep run --with outputs/NAME/final -- COMMAND"
    run.add_argument("--with", dest="final", required=True, metavar="FOLDER", help="final/ of an investigation")


def _add_folders(command: argparse.ArgumentParser) -> None:
    command.add_argument("folders", nargs="*", help="investigations, by folder or name (all if none is named)")
    _add_outputs(command)


def _add_overrides(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help=text)


def _add_outputs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--outputs", metavar="FOLDER", default=str(OUTPUTS), help=f"where results go ({OUTPUTS})")


def _identifier(text: str) -> str:
    """Return the name of an investigation; an error of the command line if it is none."""
    for why in wrong_with_name(text):
        raise argparse.ArgumentTypeError(why)
    return text
