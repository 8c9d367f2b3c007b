"""A survey as half a page of text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from slowstep.judgement.observed_sizes import loaders_of_step
from slowstep.launch.surveyed_run import why_no_step
from slowstep.launch.surveyor import SurveyRecord
from slowstep.text.numbers import percentage
from slowstep.text.phases import PHASE_NAMES
from slowstep.wording.words import duration
from slowstep_probe.ranks.rank import ENVIRONMENT, PROCESS, SPAWN, SUBPROCESS, TORCHRUN, way_of
from slowstep_probe.survey import MOST_FILES

SHOWN_OPTIONS = 12
SHOWN_MODELS = 4
SHOWN_FILES = 5
WIDTH = 15

LONG = 60
"""The characters from which on a value is not shown."""

LEAST_SHARE_SHOWN = 0.005
"""A phase is shown from this share of the time on."""

OF_ALL_STEPS = 0.2
"""The longest step is shown from this share of all steps' time."""


def lines(seen: SurveyRecord) -> list[str]:
    """Return the lines of a survey."""
    command = seen.command
    found = [
        ("command", f"{command}"),
        ("python", f"{command.python_version}, torch {command.torch_version} ({command.python})"),
    ]
    for kind in KINDS:
        found += [(LABELS.get(kind, kind), text) for text in _objects(seen, kind)]
        found += [(kind, text) for text in _lacking(seen, kind)]
    found += [*_models(seen), *_step(seen), *_options(seen), *_written(seen), *_asked(seen)]
    found += [("warns", line) for line in seen.warned]
    return [f"{name:<{WIDTH}}{text}" for name, text in found]


KINDS = (
    *("arguments", "trainer", "lightning", "accelerator", "loader", "other_loader", "optimizer", "scheduler"),
    *("scaler", "autocast", "compile", "checkpointing", "flag", "processes", "ddp", "fsdp", "engine"),
)
"""The kinds of objects, in the order in which they are shown."""


LABELS = {"other_loader": "loader"}
"""The names of kinds that are shown by another one."""


def _lacking(seen: SurveyRecord, kind: str) -> Iterator[str]:
    """Yield what is said of a kind of objects that training does without, though it does what they are for."""
    if kind == "optimizer" and seen.training is not None and not seen.training["facts"].get("optimizer"):
        yield "none of PyTorch's stepped; what updates the weights in its place counts as other"


def _objects(seen: SurveyRecord, kind: str) -> Iterator[str]:
    """Yield the objects of a kind, a line each.

    A library may make an object anew from the same line and with the same values, as accelerate does with a Trainer's
    loader. It is one to whoever reads that.
    """
    trained = (seen.training or {}).get("loader")
    of_kind = [one for one in seen.constructed if one["kind"] == kind]
    shown: dict[str, tuple[int, bool]] = {}
    for number, one in enumerate(of_kind):
        if "<module>" in one["place"]["through"] or one["values"].get("enabled") is False:
            continue  # made while a library was imported, or switched off
        values = ", ".join(_values(one["values"]))
        text = f"{place(one['place'], seen)}  {one['name'].rpartition('.')[2]}({values})"
        times, feeds = shown.get(text, (0, False))
        shown[text] = max(times, one["times"]), feeds or number == trained
    for text, (times, feeds) in shown.items():
        often = f" ({times} times)" if times > 1 else ""
        fed = ", which feeds the training" if kind == "loader" and feeds and len(shown) > 1 else ""
        other = ", which is no DataLoader of PyTorch's: its arguments are not tried" if kind == "other_loader" else ""
        yield f"{text}{often}{fed}{other}"


OFF = ("persistent_workers", "pin_memory", "amsgrad", "maximize", "capturable", "differentiable")
HIDDEN = dict.fromkeys(OFF, False) | {"collate_fn": "default_collate", "eps": 1e-8}
"""Values that are not shown, because they are ordinary."""

NEVER_SHOWN = ("decoupled_weight_decay", "betas", "sets")


def _values(values: dict[str, Any]) -> Iterator[str]:
    """Yield the values of an object that are worth showing, as `name=value`."""
    for name, value in values.items():
        shown = value.rpartition(".")[2] if name in ("dataset", "sampler", "collate_fn") else value
        ordinary = name in HIDDEN and HIDDEN[name] == shown
        if shown is None or shown == [] or name in NEVER_SHOWN or ordinary or len(str(shown)) > LONG:
            continue
        named = str(shown) if name.isdigit() else f"{name}={shown}"  # digits count what was given without a name
        yield f"{count(shown)} parameters" if name == "parameters" else named


def place(at: dict[str, Any], seen: SurveyRecord) -> str:
    """Return a place as `train.py:88`, relative to the command's folder."""
    if not at["file"]:
        return "in a library"
    return f"{seen.command.shown(at['file'])}:{at['line']}"


def _models(seen: SurveyRecord) -> Iterator[tuple[str, str]]:
    """Yield the models that training calls, the largest first."""
    training = seen.training or {}
    found = [training["model"], *training.get("other_models", ())] if training.get("model") else []
    for number, model in enumerate(sorted(found[:SHOWN_MODELS], key=lambda one: -one["parameters"])):
        kinds = ", ".join(sorted(model["dtypes"], key=lambda kind: -model["dtypes"][kind]))
        updated = model.get("updated")
        trained = count(model["trained"] if updated is None else updated)
        parts = [f"{count(model['parameters'])} parameters", f"{trained} of them trained", kinds]
        parts += ["compiled"] * bool(training["facts"].get("compiled")) + [f"on {training['device']}"]
        more = f" (and {len(found) - SHOWN_MODELS} more)" if number + 1 == SHOWN_MODELS < len(found) else ""
        yield "model", f"{model['name'].rpartition('.')[2]}: {', '.join(parts)}{more}"


def _step(seen: SurveyRecord) -> Iterator[tuple[str, str]]:
    """Yield what is known of the steps: how long they take and where, their work, their ranks, and how they ended."""
    training = seen.training
    if training is None:
        verb = "was" if seen.steps == 1 else "were"
        few = f"{seen.steps} {verb} seen, too few" if seen.steps else "none was seen"
        yield "step", f"{few}, so there is nothing to measure: {why_no_step(seen)}"
        return
    yield "step", _step_time(training, seen.first_step_boundary)
    whole = sum(training["step_seconds"]) or 1.0
    shares = {p: s / whole for p, s in training["phases"].items() if s / whole >= LEAST_SHARE_SHOWN}
    yield "time", " · ".join(f"{PHASE_NAMES[p]} {percentage(s)}" for p, s in shares.items())
    if unseen := training.get("collects_unseen"):
        yield (
            "unseen",
            f"before the first step the model ran {unseen:,} times without gradients (to evaluate, to generate, or to "
            "collect experience), and not so again in these steps: what that takes is in none of the figures above",
        )
    yield "work", _work(training)
    if seen.command.processes > 1:
        yield "ranks", _ranks(seen, training)
    if seen.ended:
        yield "end", f"training ended after {seen.steps} steps: {seen.ended}"


def _step_time(training: dict[str, Any], first_boundary: float) -> str:
    """Return how long the steps took that were seen."""
    times = sorted(training["step_seconds"])
    whole, passes = sum(times) or 1.0, training["passes"]
    of = (
        "micro-batches" if training.get("batches") == passes else "backward passes"
    )  # several losses of a batch are none
    parts = f", {passes} {of} each" if passes > 1 else ""
    longest = f", the longest {duration(times[-1])}" if times[-1] > OF_ALL_STEPS * whole else ""
    middle = duration(times[len(times) // 2])
    return f"{len(times)} were seen, {middle} each (median{longest}){parts}; the first after {first_boundary:.1f} s"


def _work(training: dict[str, Any]) -> str:
    """Return the samples and the useful tokens of a step."""
    work, steps = training["work"], len(training["step_seconds"])
    if not work["samples"]:
        return "no batch tells its samples"
    tokens = f", {work['useful_tokens'] / steps:,.0f} useful tokens" if work["useful_tokens"] else ""
    several = loaders_of_step(training["facts"])
    of = f", of one of the {several} loaders that it draws from" if several > 1 else ""
    return f"{_counted(work['samples'] / steps)} samples{tokens} a step{of}"


def _ranks(seen: SurveyRecord, training: dict[str, Any]) -> str:
    """Return how many processes train together, how they were started, and where each spends its time."""
    phases = {rank: _largest(phases) for rank, phases in training.get("ranks", {}).items()}
    where = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(phases.items()))
    by = STARTED_BY[way_of(seen.command.launcher)]
    on = f" on {len(seen.command.nodes)} nodes" if seen.command.nodes else ""
    return f"{seen.command.processes} processes train together{on}, started by {by}; {where}"


def _counted(number: float) -> str:
    """Return a number of samples: whole, or with a decimal where batches differ and are small."""
    return f"{number:,.0f}" if number >= 100 or number == round(number) else f"{number:.3g}"


STARTED_BY = {
    TORCHRUN: "the launcher",
    SPAWN: "torch.multiprocessing",
    ENVIRONMENT: "the program itself",
    SUBPROCESS: "a launcher's subprocesses",
    PROCESS: "multiprocessing.Process",
}
"""The ways in which processes are started, in words."""


def _largest(phases: dict[str, float]) -> str:
    """Return the three largest phases of a rank with their shares."""
    whole = sum(phases.values()) or 1.0
    largest = sorted(phases, key=lambda phase: -phases[phase])[:3]
    return ", ".join(f"{PHASE_NAMES[phase]} {percentage(phases[phase] / whole)}" for phase in largest)


def _options(seen: SurveyRecord) -> Iterator[tuple[str, str]]:
    given = {word.partition("=")[0] for word in seen.command.arguments if word.startswith("-")}
    names = sorted(seen.options, key=lambda name: (name not in given, name))[:SHOWN_OPTIONS]
    if names:
        more = f", and {len(seen.options) - len(names)} more" if len(seen.options) > len(names) else ""
        yield "options", " ".join(f"{name} {seen.options[name]}" for name in names) + more


def _written(seen: SurveyRecord) -> Iterator[tuple[str, str]]:
    if seen.written:
        files = [
            os.path.relpath(f, seen.command.folder) if f.startswith(seen.command.folder) else f for f in seen.written
        ]
        at_least = "at least " if len(files) >= MOST_FILES else ""
        more = f", and {at_least}{len(files) - SHOWN_FILES} more" if len(files) > SHOWN_FILES else ""
        yield "writes", ", ".join(files[:SHOWN_FILES]) + more


def _asked(seen: SurveyRecord) -> Iterator[tuple[str, str]]:
    if seen.servers:
        more = f", and {len(seen.servers) - SHOWN_FILES} more" if len(seen.servers) > SHOWN_FILES else ""
        it = "it hears" if len(seen.servers) == 1 else "they hear"
        yield "asks", f"{', '.join(seen.servers[:SHOWN_FILES])}{more}: {it} each trial as the program itself"


def count(number: float) -> str:
    """Return a count in three digits: 1.24 M."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:.0f}"
