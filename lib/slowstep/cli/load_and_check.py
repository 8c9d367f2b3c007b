"""Parameter files that are loaded and tried before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slowstep.audit import audit as audit_figures
from slowstep.cli.progress import reminding
from slowstep.environment.machine import this_machine, too_old, versions
from slowstep.factors import check_levels
from slowstep.launch.edited_command import edited_command
from slowstep.processes.lock import require_writable
from slowstep.records import Store, identity
from slowstep.settings import Loaded, SettingsError, load


def placed(problem: str, loaded: Loaded) -> str:
    """Return a problem with the file and the line of its key. A problem that says its own place stays as it is."""
    key = problem.partition(": ")[0]
    return f"{loaded.place(key)}: {problem}" if key.startswith("reported.") else problem


def checked(params: Sequence[str], overrides: Sequence[str], outputs: Path, keep: bool = True) -> list[Loaded]:
    """Return all parameter files, loaded and tried with the installed libraries; SettingsError says what is wrong.

    What was tried is kept in `outputs` and not tried again. Without `keep` nothing is left there.
    """
    everything, problems = [], too_old(versions())
    for path in params:
        try:
            everything.append(load(path, overrides))
        except SettingsError as error:
            problems += error.problems
    names = [loaded.settings.name for loaded in everything]
    problems += [f"the name '{n}' is used by more than one parameter file" for n in set(names) if names.count(n) > 1]
    for loaded in everything:
        if loaded.settings.figures_alone:
            problems.append(f"{loaded.source}: model: nothing says what to train; `make audit` takes figures alone.")
        problems += check_levels(loaded.settings, loaded.source) + edited_command(loaded)
        problems += _no_jobs(loaded) + _taken(loaded, outputs)
        try:
            audit_figures(loaded.settings)
        except SettingsError as error:
            problems += [placed(problem, loaded) for problem in error.problems]
    if not problems:
        asked = [(loaded, Store(outputs / loaded.settings.name / "records"), _key(loaded)) for loaded in everything]
        untried = [(loaded, store, key) for loaded, store, key in asked if store.read(list, "checks", key) is None]
        for loaded, _, _ in untried:
            require_writable(outputs / loaded.settings.name)
        for loaded, store, key in untried:
            found = _tried(loaded)
            problems += found
            if keep and not found:
                store.write([], "checks", key)
    if problems:
        raise SettingsError(problems)
    return everything


def _taken(loaded: Loaded, outputs: Path) -> list[str]:
    """Say that the name belongs to another investigation, whose reports would be overwritten, if it does.

    An edited parameter file is no other one, so only a command tells investigations apart.
    """
    from slowstep.launch.surveyed_run import other_owner

    name, command = loaded.settings.name, loaded.settings.command
    owner = other_owner(outputs / name, command)
    why = f"name: '{name}' is taken: {outputs / name} holds the investigation of {owner}; choose another name."
    return [f"{loaded.place('name') or loaded.source}: {why}"] if owner else []


def _no_jobs(loaded: Loaded) -> list[str]:
    """Return why no job can be submitted from here, if the settings ask for jobs."""
    from slowstep.measure.slurm.jobs import missing

    slurm = loaded.settings.measure.slurm
    why = missing(slurm) if slurm else ""
    return [f"{loaded.place('measure.slurm')}: measure.slurm: {why}."] if why else []


def _tried(loaded: Loaded) -> list[str]:
    """Return what the installed libraries refuse. Where jobs train, they are not asked here: devices may be lacking."""
    from slowstep.measure.local import checked

    if loaded.settings.measure.slurm is not None:
        return []
    try:
        with reminding(f"{loaded.source}: its values are tried with the installed libraries"):
            found = checked(loaded.settings)
    except RuntimeError as error:
        return [f"{loaded.source}: trying the settings with the real libraries did not finish: {error}"]
    return [f"{loaded.source}: {where}: {why}" for where, why in found]


def _key(loaded: Loaded) -> str:
    """Return the name of the record that the installed libraries took these settings: they are asked once."""
    return identity("checked", loaded.settings, loaded.settings.local_content(), versions(), this_machine())
