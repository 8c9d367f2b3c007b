"""What was edited, in words: after a survey, and after comparisons were measured."""

from __future__ import annotations

from slowstep.records.other_files import OfOtherFiles
from slowstep.settings.command import AsMeasured, Command, Surveyed


def after_survey(command: Command | None, surveyed: Surveyed, measured: AsMeasured | None) -> str:
    """Return which files of a command are not as they were surveyed, and what follows, in sentences; empty if none is.

    `measured` are the files with which trials are made, or were made.
    """
    edited = [command.shown(file) for file in surveyed.edited(measured)] if command and measured else []
    if not edited:
        return ""
    were, then = ("was", "its") if len(edited) == 1 else ("were", "their")
    return (
        f"{' and '.join(edited)} {were} edited after the survey: trials run {then} new text, while the run's own "
        "values, the lines that are named, and what is tried are those of the old one. To survey it again, run "
        f"`slowstep diagnose -- {command}` in {command.folder}; what you wrote into investigation.yaml stays."
    )


def not_counted(found: OfOtherFiles) -> str:
    """Return which comparisons don't count, since files were edited after them, as a sentence; empty if all count."""
    if not found.count:
        return ""
    some = f"{found.count} of {found.of} comparisons" if found.of > 1 else "the comparison"
    were, those = ("was", "that one does not") if found.count == 1 else ("were", "those do not")
    changed = " and ".join(found.files)
    are = "is" if len(found.files) == 1 else "are"
    whose = f"{changed} {are} not as when {some} in records/ {were} measured"
    return f"{whose}: {those} count, and nothing is told from {'it' if found.count == 1 else 'them'}."
