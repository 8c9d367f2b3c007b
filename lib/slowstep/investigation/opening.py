"""Opening an investigation: to measure what is missing, or to read what was measured, here or elsewhere."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from slowstep import __version__
from slowstep.environment.home import ROOT
from slowstep.environment.machine import too_old, versions
from slowstep.factors import Arm, check_levels
from slowstep.factors.own_values import as_they_are
from slowstep.investigation.clock import notebook_shell
from slowstep.investigation.evidence import Evidence, NotMeasured, run_identity
from slowstep.investigation.lab import Lab, Watch
from slowstep.investigation.results import Summary
from slowstep.launch.edited_command import edited_command
from slowstep.launch.far_nodes import gather
from slowstep.launch.of_command import refuse_within, warmed
from slowstep.launch.surveyed_run import surveyed_for, write
from slowstep.launch.surveyor import SurveyOrder
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import Measurer
from slowstep.measure.progress import Progress
from slowstep.measure.slurm.measurer import SlurmMeasurer
from slowstep.records import Environment, Store
from slowstep.settings import Loaded, Settings, SettingsError, load
from slowstep.settings.command import AsMeasured
from slowstep.settings.convert import describe as shown
from slowstep.settings.convert import to_plain
from slowstep.settings.load import wrong_with_name
from slowstep.settings.run import training_defaults
from slowstep.settings.slurm import Slurm
from slowstep.text.visible import visible
from slowstep_probe.secret import masked


@dataclass(frozen=True, kw_only=True)
class Description:
    """The description of an investigation and of its environment: all that is needed to read its records elsewhere."""

    settings: Settings
    source: str
    places: dict[str, str] = field(default_factory=dict)
    environment: Environment = Environment()
    training_defaults: dict[str, object] = field(default_factory=dict)
    """The defaults of TrainingArguments in that environment."""
    as_measured: AsMeasured | None = None
    """The user's own files in that environment; None in records of earlier versions, which know nothing of them."""

    @property
    def described(self) -> Settings:
        """The settings with what they mean in that environment."""
        return replace(self.settings, defaults=self.training_defaults, as_measured=self.as_measured or AsMeasured())

    @property
    def run_identity(self) -> str:
        """The identity of the run in its environment, under which is kept what it took."""
        return run_identity(Arm(label="", settings=self.described), self.environment)


DESCRIPTION = ("investigation", "last")
"""The folder and the name of the last description in records/."""


def open_investigation(
    params: str,
    overrides: Sequence[str] | str = (),
    outputs: str = "",
    notebook: str = "",
    measure: bool = True,
    measurer: Measurer | None = None,
) -> Lab:
    """Return the lab of a parameter file, with values overridden; SettingsError says what is wrong with the arguments.

    The file is looked for here, then in params/. The lab measures where its section `measure` says if no other
    `measurer` is given, and not at all without `measure`. `params` may also be an investigation's folder, whose records
    are only read.
    """
    overrides = _checked(params, overrides, outputs)
    places = (Path(params), ROOT / params, ROOT / "params" / params)
    path = next((p for p in places if p.is_file() or (p / "records").is_dir()), None)
    if path is None:  # what a bare name stands for lies in params/
        path = next((p for p in places if p.exists()), places[2 if Path(params).name == str(params) else 1])
    if path.is_dir():
        if overrides:
            raise SettingsError(f"{path}: records are only read, and nothing is overridden; name the file (.yaml)")
        return read_investigation(path, notebook)
    loaded, place = load(path, overrides), Path(outputs) if outputs else ROOT / "outputs"
    if not measure:
        return read_investigation(place / loaded.settings.name, notebook)
    if measurer is None and loaded.settings.measure.slurm is None:
        warmed(loaded.settings)  # it imports torch while the notebook imports plotly
    problems = too_old(versions()) + check_levels(loaded.settings, loaded.source) + edited_command(loaded)
    if problems:
        raise SettingsError(problems)
    return open_lab(loaded, place, notebook, measurer, _watch())


def _checked(params: object, overrides: object, outputs: object) -> list[str]:
    """Return the overrides, which may be a single one; SettingsError names what is no text."""
    if not isinstance(params, str | Path) or not str(params):
        raise SettingsError(f"params: expected the name of a parameter file, found {shown(params)}.")
    if not isinstance(outputs, str | Path):
        raise SettingsError(f'outputs: expected the name of a folder, or "", found {shown(outputs)}.')
    given = list(overrides) if isinstance(overrides, list | tuple) else [overrides]
    if wrong := [one for one in given if not isinstance(one, str)]:
        raise SettingsError(f'overrides: expected texts such as "budget.minutes=5", found {shown(wrong[0])}.')
    return given


def open_command(command: str | Sequence[str], name: str = "", outputs: str = "", notebook: str = "lab") -> Lab:
    """Return the lab of a command that trains, `python train.py --lr 1e-4`, which is surveyed first.

    SettingsError if there is nothing to diagnose in it.
    """
    words = shlex.split(command) if isinstance(command, str) else command
    seen, folder = surveyed_for(words, SurveyOrder(), Path(outputs) if outputs else ROOT / "outputs", name)
    return open_investigation(str(write(seen, folder)), outputs=outputs, notebook=notebook)


def open_lab(
    loaded: Loaded,
    outputs: Path,
    notebook: str = "",
    measurer: Measurer | None = None,
    watch: Watch = lambda progress: None,
    shared: bool = False,
) -> Lab:
    """Return a lab that measures what is missing, and leave in its folder what is needed to read it elsewhere.

    Records that came from another environment stay readable until the first one is measured here. If the measurer is
    `shared`, its trials stay when the lab is closed.
    """
    settings = replace(loaded.settings, as_measured=as_they_are(loaded.settings))
    loaded, folder = replace(loaded, settings=settings), outputs / settings.name
    gather(settings)
    measurer = measurer or measurer_of(settings, folder)
    environment = replace(measurer.describe(), files=settings.local_content())
    about = Description(
        settings=settings,
        source=loaded.source,
        places=dict(loaded.places),
        environment=environment,
        training_defaults=to_plain(training_defaults()),
        as_measured=settings.as_measured,
    )
    evidence = Evidence(settings, folder, environment)
    known = evidence.store.read(Description, *DESCRIPTION)

    def describe() -> None:
        if known != about:
            of_a_command = bool(settings.command and settings.command.has_secrets)
            given = to_plain(settings) | {name: own.value for name, own in settings.as_measured.values.items()}
            private = of_a_command or masked("", given) != given
            evidence.store.write(about, *DESCRIPTION, private=private)

    if known is None or known.environment.determinants == environment.determinants:
        describe()
    return Lab(loaded, evidence, measurer, notebook, watch=watch, describe=describe, shared=shared)


def measurer_of(settings: Settings, folder: Path) -> Measurer:
    """Return what measures an investigation: this machine, or the nodes that its section `measure` asks for.

    SettingsError within a trial of another investigation.
    """
    refuse_within(os.environ)
    slurm = settings.measure.slurm
    if slurm is None:
        return LocalMeasurer(settings.budget, folder / "records" / "logs")
    before = Store(folder / "records").read(Description, *DESCRIPTION)
    same = before is not None and _same_nodes(before.settings.measure.slurm, slurm)
    known = replace(before.environment, files=[]) if same else None
    packages = (versions(), __version__)
    if known is not None and (known.versions, known.kit) != packages:  # other packages measure anew
        known = None
    return SlurmMeasurer(slurm, settings.budget, folder, known)


def _same_nodes(one: Slurm | None, other: Slurm) -> bool:
    """Return whether two sections ask for the same kind of node, however many and for however long."""
    return one is not None and replace(one, nodes=1, timeout_min=1) == replace(other, nodes=1, timeout_min=1)


def read_investigation(folder: Path, notebook: str = "") -> Lab:
    """Return a lab that only reads the records of a folder, wherever they were measured.

    For a `notebook` that has concluded, it reads those that there were then, so that its report stays what it was.
    NotMeasured if the folder does not say what was measured, or gives a name that no investigation can have.
    """
    store = Store(folder / "records")
    about = store.read(Description, *DESCRIPTION)
    if about is None:
        raise NotMeasured(
            f"{folder}: there is no records/investigation/last.json that says what was measured here; name the folder "
            "of an investigation, outputs/NAME, or measure one by `slowstep diagnose`"
        )
    settings = about.described
    for why in wrong_with_name(settings.name):  # files are named after it
        raise NotMeasured(f"{store.path(*DESCRIPTION)}: settings.name: {why}")
    loaded = Loaded(settings=settings, source=about.source, places=about.places)
    concluded = store.read(Summary, "summaries", notebook) if notebook else None
    try:
        evidence = Evidence(settings, folder, about.environment, concluded)
    except ValueError as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise NotMeasured(
            f"{store.path(*DESCRIPTION)}: its environment.machine can't be read ({why}); measure again to renew it"
        ) from None
    return Lab(loaded, evidence, None, notebook)


def _watch() -> Watch:
    """Return a function that shows progress in the notebook, if this is one: a bar below the cell while that runs."""
    shell = notebook_shell()
    if shell is None:
        return lambda progress: None
    from IPython.display import display

    output: Any = None  # the one that is overwritten

    def show(progress: Progress) -> None:
        nonlocal output
        text, part = visible(progress.line()), progress.part
        done = "" if part is None else f' value="{part:.3f}"'
        bar = f'<progress max="1"{done} style="width: 100%"></progress><br>{escape(text)}'
        bundle = {"text/plain": text, "text/html": bar, "application/x-slowstep-progress": text}
        if output is None:
            output = display(bundle, raw=True, display_id=True)
        else:
            output.update(bundle, raw=True)

    def end(*_: object) -> None:
        nonlocal output
        if output is not None:
            output.update({"text/plain": "", "text/html": "", "application/x-slowstep-progress": ""}, raw=True)
            output = None

    shell.events.register("post_run_cell", end)
    return show
