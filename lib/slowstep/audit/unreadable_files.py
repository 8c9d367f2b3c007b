"""The part of a report that can be audited if a file of it can't be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slowstep.audit.audit import read_runs
from slowstep.audit.read import Unreadable, read_file
from slowstep.settings import Loaded, SettingsError
from slowstep.settings.convert import to_plain


def without_refused_files(loaded: Loaded) -> tuple[list[str], list[str]]:
    """Return overrides that leave out the files that can't be read, and in words what is left out and why.

    What rests on such files is left out, too. Both lists are empty if all files can be read, or if too little would be
    left to audit.
    """
    reported = loaded.settings.reported
    refused = _unreadable(reported.files, reported.columns) if reported else {}
    if not refused:
        return [], []
    files = [name for name in reported.files if name not in refused]
    left = replace(reported, files=files, claims=[], rows=[r for r in reported.rows if r.figures or r.out_of_memory])
    try:
        labels = {run.label for run in read_runs(replace(loaded.settings, reported=left))}
    except SettingsError:
        return [], []  # the audit says all that is wrong
    if not labels:
        return [], []
    claims = [c for c in reported.claims if {c.baseline, c.treatment} <= labels]
    kept = {"files": files, "rows": left.rows, "claims": claims}
    problems = list(refused.values())
    problems += [
        f"'{c.text}': not judged, as a row of it is in such a file." for c in reported.claims if c not in claims
    ]
    return [f"reported.{key}={json.dumps(to_plain(value))}" for key, value in kept.items()], problems


def _unreadable(files: Sequence[str], columns: dict[str, str]) -> dict[str, str]:
    """Return the files that can't be read, each with the reason."""
    found = {}
    for name in files:
        try:
            read_file(Path(name), columns)
        except Unreadable as error:
            found[name] = str(error)
    return found
