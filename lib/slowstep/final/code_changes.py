"""The file changes.md: the lines of a command's program to change, each with what the change was measured to bring."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.command import given_values
from slowstep.factors import Meaning, in_code, is_undoing
from slowstep.factors.factor import Factor, show
from slowstep.final.choice import Choice, causes_of
from slowstep.final.decision import decision_of
from slowstep.investigation.lab import Lab
from slowstep.investigation.results import Measured
from slowstep.judgement.nodes import NODE
from slowstep.judgement.verdict import Verdict
from slowstep.judgement.verdicts_together import best_levels
from slowstep.report.summary import refusal
from slowstep.settings.command import COPIES, Command
from slowstep.settings.settings import Settings
from slowstep.text.markdown import code, escape
from slowstep.wording.causes import Cause
from slowstep.wording.words import effect, time_taken
from slowstep_probe.changing.intervention import given_name
from slowstep_probe.secret import hidden
from slowstep_probe.survey.debug_environment import KEY, debugging

ASSIGNS = re.compile(r"[A-Za-z_]\w*=")
"""The beginning of a word that sets a variable for the command behind it."""


def changes_page(lab: Lab, choice: Choice, command: Command, edits_patch: str, notes: Sequence[str] = ()) -> str:
    """Return the page as Markdown: the changes that are adopted, then what else was shown to bring something.

    `edits_patch` is the text of the patch beside it; empty if there is none. `notes` say what can't be written now.
    """
    parts = [f"# What to change in {code(str(command))}"]
    if choice.adopted and choice.chosen:
        verdict = choice.chosen.verdict
        how = f"{effect(verdict.effect)} throughput, measured in fresh pairs; class {verdict.meaning}."
        parts += [how if verdict.alone else f"All together: {how}"]
        parts += [
            "\n".join(_lines(choice.chosen, command)) or "No line of the code changes: the command does, see below."
        ]
        if edits_patch:
            parts += ["The file `changes.patch` holds those that are keywords of a call, for `git apply -p1`."]
        parts += notes
        final = lab.folder / "final"
        parts += ["Train with these changes before a line is edited:"]
        parts += [code(f"slowstep run --with {shlex.quote(str(final))} -- {command}")]
    else:
        shown = "confirmed" if choice.chosen else "shown to pay"
        late = ": no time was left for that" if choice.chosen and choice.chosen.verdict.untried else ""
        parts += [f"No change that may be made was {shown}, so none is proposed{late}."]
    parts += _to_look_at(causes_of(lab, choice), choice.verdicts)
    parts += _not_taken(choice, command)
    changed = choice.settings if choice.adopted else lab.settings
    kept = changed.freed_memory != lab.settings.freed_memory
    values = _that_are_here(changed.given, command, lab.folder / "final" / COPIES) | options(choice)
    debug = set(debugging(command.env | command.early)) if changed.changes.get(KEY) is False else set()
    if kept or values or debug:
        words = given_values.words(command, values, (lab.folder / "final").resolve() / COPIES)
        shown, unset = without_variables(debug, words, command)
        before = f"{in_code.KEEPS_FREED_MEMORY} " if kept else ""
        parts += ["## The command", code(unset + before + shlex.join(hidden(shown)))]
    return "\n\n".join(parts) + "\n"


def _that_are_here(values: Mapping[str, Any], command: Command, folder: Path) -> dict[str, Any]:
    """Return the values that the command is given by its options, or by a changed copy of a file that was written."""
    files = {name: given_values.split(name)[0] for name in values}
    return {
        n: v for n, v in values.items() if not files[n] or given_values.copy_of(command, files[n], folder).is_file()
    }


def _to_look_at(lost: Sequence[Cause], verdicts: Sequence[Verdict]) -> list[str]:
    """Return the sections on time that is lost where no setting helps: in the code, and on slow nodes.

    A change that undoes a cost, and that nobody trains with, has a line of its own, also if it stands within the cause
    of a phase.
    """
    known = [v for v in verdicts if v.meaning is Meaning.DIAGNOSTIC and not v.conditional]
    limits = {v.factor: v for v in best_levels(known)}
    lost_here = [c for c in lost if c.headline]
    in_program = [
        f"- {escape(c.headline)}{_shown_by(limits.pop(c.factor, None))}" for c in lost_here if c.factor != NODE
    ]
    in_program += [f"- {_costs(v)}{_shown_by(v)}" for v in limits.values() if is_undoing(v.factor)]
    of_nodes = [f"- {escape(c.headline)}" for c in lost_here if c.factor == NODE]
    parts = ["## Code to look at", "\n".join(in_program)] if in_program else []
    return parts + (["## Nodes to look at", "\n".join(of_nodes)] if of_nodes else [])


def _costs(v: Verdict) -> str:
    return escape(f"{v.cause} costs {time_taken(v.effect)} of the time.")


def _shown_by(limit: Verdict | None) -> str:
    """Return the change that showed a limit, with its place, as a sentence; empty for a cause that is no limit."""
    if limit is None:
        return ""
    return f" Shown by {_named(limit)} ({effect(limit.effect)}), which is a limit and nothing to train with."


def _not_taken(choice: Choice, command: Command) -> list[str]:
    """Return the section on changes that were shown to pay and are not adopted, each with the reason."""
    tested = {m.verdict.name: m for m in choice.tested}
    parts = []
    for one in decision_of(choice).refused:
        v = one.verdict
        said = f"{_named(v)}: {effect(v.effect)}, class {v.meaning}. Not taken: {refusal(one)}."
        parts.append("\n".join([said, "", *_lines(tested[v.name], command)]))
    return ["## Shown to bring something, and not taken", *parts] if parts else []


def _named(v: Verdict) -> str:
    """Return a change in the program's own words, with its condition."""
    return f"{code(v.shown)} {escape(v.condition)}".rstrip()


def without_variables(variables: Collection[str], words: Sequence[str], command: Command) -> tuple[list[str], str]:
    """Return the words of a command without what they set of some variables, and what unsets those of the shell.

    What the program sets itself is unset in its own code alone.
    """
    first = next((at for at, word in enumerate(words) if word != "env" and not ASSIGNS.match(word)), len(words))
    typed = {word: word.partition("=")[0] for word in words[:first]}
    shown = [word for word in words[:first] if typed[word] not in variables] + list(words[first:])
    of_shell = sorted(set(variables) - {*typed.values()} - {*command.early})
    return shown, "".join(["env ", *(f"-u {name} " for name in of_shell)]) if of_shell else ""


def changes_record(settings: Settings) -> dict[str, Any]:
    """Return what `slowstep run --with` needs to make the changes of these settings to their command's program."""
    measured = settings.as_measured.digests if settings.as_measured else {}
    return {
        "program": settings.command.program,
        "launching": settings.command.launching,
        "sources": {file: measured[file] for file in settings.surveyed.files if file in measured},
        "values": {key: value for key, value in settings.changes.items() if not given_name(key)},
        "feeding": settings.surveyed.feeding,
        "given": settings.given,
        "freed_memory": settings.freed_memory,
        "early": settings.command.early,
        "processes": settings.ranks,
        "launcher": settings.command.launcher,
        "nodes": len(settings.command.nodes),
        "micro_batches": settings.run.backward_passes,
    }


def options(choice: Choice) -> dict[str, Any]:
    """Return the options of the command that make adopted changes, with their values."""
    made = made_in(choice.chosen) if choice.adopted and choice.chosen else []
    return {one["option"]: one["option_value"] for one in made if one.get("option")}


def edits(choice: Choice) -> list[Mapping[str, Any]]:
    """Return the adopted changes that are made by editing the program, since no option of the command makes them."""
    made = made_in(choice.chosen) if choice.adopted and choice.chosen else []
    return [one for one in made if not one.get("option")]


def made_in(measured: Measured) -> list[Mapping[str, Any]]:
    """Return the changes that a trial made, as it told them, each once."""
    return in_code.changes_of(measured.record.treatment.observed) if measured.record else []


def _lines(measured: Measured, command: Command) -> Iterator[str]:
    """Return a line for each change that was made: place, object, before and after."""
    for factor, level in measured.contrast.levels:
        for key, value in level.changes.items():
            if given_name(key):
                yield _given(factor, value, measured.contrast.baseline.settings)
    by_option = {one["option"]: one for one in made_in(measured) if one.get("option")}  # each is one change
    plain = [one for one in made_in(measured) if not one.get("option")]
    yield from dict.fromkeys(_line(one, command) for one in [*plain, *by_option.values()])


def _given(factor: Factor, value: Any, before: Settings) -> str:
    """Return the line of an option of the command, or of a value in one of its files."""
    file, key = given_values.split(factor.name)
    what = f"{key}: {show(value)}" if file else f"{key} {show(value)}"
    return f"- {code(file or 'the command')} {code(what)} (was {escape(show(factor.current(before.run)))})"


def _line(made: Mapping[str, Any], command: Command) -> str:
    what, said = in_code.call(made)
    option = made.get("option")
    by_option = ", by the option " + code(f"{option} {show(made['option_value'])}") if option else ""
    text, was = code(f"{what}: {said}" if what else said), in_code.was(made)
    return f"- {code(in_code.where(made, command))} {text}{f' ({escape(was)})' if was else ''}{by_option}"
