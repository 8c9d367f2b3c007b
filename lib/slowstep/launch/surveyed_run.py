"""A survey as the parameter file of an investigation: the command, what was seen of its run, and levels to try."""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from slowstep.command.own_files import with_values
from slowstep.command.resolve import resolve
from slowstep.launch.as_before import as_before
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.processes.lock import locked, require_idle, require_writable
from slowstep.records.store import write_atomically
from slowstep.settings.command import Command, Seen, Surveyed
from slowstep.settings.convert import from_plain, to_plain
from slowstep.settings.errors import SettingsError
from slowstep.settings.library_arguments import FUSED
from slowstep.settings.parse import read_yaml
from slowstep.settings.schema import Process
from slowstep_probe.measured import WHERE_RANKS_WAIT
from slowstep_probe.processes.log import last_words
from slowstep_probe.survey.early_environment import mattering

FILE, RECORD = "investigation.yaml", "survey.json"
"""The names of the parameter file and of the survey's own record, in the investigation's folder."""

SAME_NAME = (
    "dataloader_num_workers",
    "dataloader_prefetch_factor",
    "dataloader_persistent_workers",
    "dataloader_pin_memory",
    "train_sampling_strategy",
    "per_device_train_batch_size",
    "batches_drawn_by",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
    "tf32",
)
"""Facts whose names are canonical keys."""

HEAD = """\
# The investigation of a command. `slowstep diagnose` made it from a survey of the command, and takes it as it is: edit
# what is to be tried, and run `slowstep diagnose` on this file.
"""


def surveyed_words(words: Sequence[str], order: SurveyOrder) -> SurveyRecord:
    """Return the survey of a command as it is typed here; SettingsError if there is nothing to diagnose in it."""
    return _surveyed(_typed_here(words), order)


def surveyed_for(
    words: Sequence[str], order: SurveyOrder, outputs: Path, name: str = "", protected: bool = True
) -> tuple[SurveyRecord, Path]:
    """Return the survey of a command as it is typed here, and the folder of its investigation in `outputs`.

    What speaks against that folder is told before anything is run: Busy, an OSError, or SettingsError, which also says
    why there is nothing to diagnose.
    """
    command = replace(_typed_here(words), protected=protected)
    folder = folder_for(command, outputs, name)
    require_idle(folder)
    require_writable(folder)
    if (folder / FILE).exists():
        read_yaml(folder / FILE)
    seen = _surveyed(command, order)
    return seen, folder_for(seen.command, outputs, name)


def _typed_here(words: Sequence[str]) -> Command:
    command = resolve(words, Path.cwd(), os.environ)
    return replace(command, env=mattering(os.environ) | command.env)


def _surveyed(command: Command, order: SurveyOrder) -> SurveyRecord:
    seen = survey(command, order, os.environ)
    steps = f"after {seen.steps} training step{'s' * (seen.steps != 1)}"
    if seen.failed and seen.steps:
        raise SettingsError(
            f"{command}: it fails {steps}, and so would its trials; mend that first: {why_no_step(seen)}"
        )
    if seen.training is None:
        when = steps if seen.steps else "before its first training step"
        why = why_no_step(seen)
        clause = f" {why}" if why.startswith("it ") else f" it failed: {why}" if seen.failed else f": {why}"
        nothing = f"there is nothing to diagnose: {when}{clause.rstrip('.')}"
        raise SettingsError(f"{command}: {nothing}. `slowstep survey` shows what was seen.")
    return seen


def why_no_step(seen: SurveyRecord) -> str:
    """Return why a program took no step, with what it said itself and with what to do."""
    if not seen.ended:
        run = dict.fromkeys(
            one["name"].removeprefix("__main__.") for one in seen.constructed if one["kind"] == "process"
        )
        beside = f"; processes that it had started run {', '.join(run)}, and are followed if they join a process group"
        at = f"it was at {seen.standing or 'an unknown place'} when its time was up (--startup allows more)"
        return f"{at}{beside if run else ''}"
    if seen.ended.startswith("EOFError: EOF when reading a line"):
        return "it asked a question on standard input, where nobody answers; give the answer by an option"
    started = next((one["name"] for one in seen.constructed if one["kind"] == "started"), "")
    if started and not seen.failed:
        return f"{seen.ended}, and had started `{started}`; give that command in place of this one"
    said = last_words(seen.output)
    return f"{seen.ended}; its last words: {said}" if "sys.exit" in seen.ended and said else seen.ended


def folder_for(command: Command, outputs: Path, name: str = "") -> Path:
    """Return the folder of a command's investigation: `name`, or that of the program.

    Nothing of another investigation is lost. A folder that belongs to another program, or to a run that a parameter
    file describes, gives way to a numbered one (`train`, `train_2`); SettingsError if it was asked for by `name`.
    """
    if name:
        if owner := other_owner(outputs / name, command):
            raise SettingsError(
                f"the name '{name}' is taken: {outputs / name} holds the investigation of {owner}. Choose another "
                "name, or none: then a free folder is found. Or choose another folder for all results (--outputs)."
            )
        return outputs / name
    own = command.name
    names = itertools.chain([own], (f"{own}_{number}" for number in itertools.count(2)))
    return next(outputs / one for one in names if not other_owner(outputs / one, command))


def other_owner(folder: Path, command: Command | None) -> str:
    """Return what a folder's investigation is of, in words; empty if it is of this command, or if there is none.

    Without a `command` that is what a parameter file describes. A command is another one if it starts another program,
    or the same one in another folder.
    """
    given = _mapping(folder / FILE)
    about = _mapping(folder / "records" / "investigation" / "last.json").get("record")
    described = about.get("settings") if isinstance(about, dict) else None
    for found in (given, described):
        if not isinstance(found, dict) or (found is given and "command" not in given):
            continue
        if found.get("command") is None:
            return f"what {about.get('source') or 'a parameter file'} describes" if command else ""
        try:
            owner = from_plain(Command, found["command"])
            same = command and (owner.folder, owner.program) == (command.folder, command.program)
            return "" if same else f"`{owner}`, started in {owner.folder}"
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    return ""


def write(survey: SurveyRecord, folder: Path) -> Path:
    """Write the parameter file of a surveyed command to an investigation's folder, unless one is there; return it.

    What the survey saw is renewed in any case. What somebody wrote into the file stays. Busy if an investigation of
    that name is under way, and SettingsError if the file that is there can't be read: then nothing is written.
    """
    with locked(folder):
        return _written(survey, folder)


def _written(survey: SurveyRecord, folder: Path) -> Path:
    record, path, private = folder / RECORD, folder / FILE, survey.command.has_secrets
    kept, _ = read_yaml(path) if path.exists() else (None, {})
    write_atomically(record, json.dumps(to_plain(survey), indent=1) + "\n", private)
    seen = replace(surveyed(survey), record=str(record.resolve()))
    renewed = {
        "name": folder.name,
        "command": to_plain(survey.command),
        "surveyed": to_plain(replace(seen, values=as_before(seen.values, kept))),
    }
    slow_start = TIMES_A_START * (survey.first_step_boundary or 0.0)
    limit = max(BUDGET["startup_timeout_seconds"], math.ceil(slow_start))
    budget = BUDGET | {"startup_timeout_seconds": float(limit)}
    first = {"freed_memory": "returned", "levels": "auto", "budget": budget, "allow": {"numerics": False}}
    if isinstance(kept, dict):
        given = {name: value for name, value in (renewed | first).items() if name in renewed or name not in kept}
        text = with_values(path.read_text(encoding="utf-8"), given)
    else:
        text = HEAD + yaml.safe_dump(renewed | first, sort_keys=False, allow_unicode=True, width=120)
    write_atomically(path, text, private)
    return path


BUDGET = {
    "max_pairs": 12,
    "launches": 2,
    "observe_seconds": 30.0,
    "minutes": 15.0,
    "startup_timeout_seconds": 600.0,
}
"""What measuring a command may cost, if nobody says otherwise."""

TIMES_A_START = 3
"""How many times as long as in the survey the first step of a trial may take to come, where that is more than the time
that all have: the two trials of a comparison start beside each other."""


def _mapping(path: Path) -> dict[str, Any]:
    """Return what a file of YAML or JSON holds; {} if there is none, or nothing that can be read."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}


def surveyed(survey: SurveyRecord) -> Surveyed:
    """Return what trials of a command need to know of its survey."""
    training = survey.training or {}
    return Surveyed(
        values=_values(survey),
        options=_options(survey),
        objects=sorted(_objects(survey)),
        feeding=list(training.get("feeding", ())),
        files=list(training.get("files", ())),
        configurations=survey.configurations,
        warned=survey.warned,
    )


FEW = 60
"""The options of a parser that are all told. Of one that knows more (Trainer's), those that stand there are."""


def _options(survey: SurveyRecord) -> dict[str, object]:
    """Return the command's own options, with the values that its parser found."""
    plain = {n: v for n, v in survey.options.items() if isinstance(v, (bool, int, float, str)) and len(str(v)) < LONG}
    given = {word.partition("=")[0] for word in survey.command.arguments[1:]}
    return {name: value for name, value in plain.items() if len(plain) <= FEW or name in given}


LONG = 200
"""The letters of a value that is no longer told."""


COMMANDS_OWN = (
    *("double_precision", "idle_gradients", "own_rule", "padded_columns", "constant_columns", "tracing"),
    "debug_environment",
)
"""Facts that only a command's program has, and that change what can be tried with it."""


def _objects(survey: SurveyRecord) -> Iterator[str]:
    training, kinds = survey.training or {}, {one["kind"] for one in survey.constructed}
    model, facts = training.get("model") or {}, training.get("facts") or {}
    yield from kinds & {"peft", "lightning", "accelerator"}
    if {"arguments", "trainer"} <= kinds:  # without a Trainer nothing is known to act on them
        yield "arguments"
    if training.get("loader") is not None:
        yield "loader"
    elif training.get("fed_by_loader"):
        yield from kinds & {"other_loader"}
    if str(facts.get("optimizer")).startswith("torch."):
        yield "optimizer"
    if model:
        yield "model"
    if model.get("attention"):
        yield "transformers"
    if model.get("blocks"):
        yield "blocks"
    if model.get("convolutions"):
        yield "convolutions"
    if model.get("batch_norm"):
        yield "batch_norm"
    yield from (name for name in COMMANDS_OWN if facts.get(name))
    if training.get("batches", 0) == training.get("micro_batches", 1) > 1:  # two losses of one batch are none
        yield "accumulates"
    how = str(facts.get("parallelism", "none"))
    if how != "none":
        yield how


def _values(survey: SurveyRecord) -> dict[str, Seen]:
    """Return the values of the run by canonical key, each with the place in the user's code that it comes from."""
    place = _Places(survey).of("arguments")
    by_trainer = any(one["kind"] == "trainer" for one in survey.constructed)
    given = ((survey.training or {}).get("arguments") or {}).items() if by_trainer else ()
    told = {name: Seen(value=value, place=place) for name, value in given}
    seen = dict(_seen(survey))
    found = told | {name: one for name, one in seen.items() if name not in told or name not in NAMED}
    return found | _of_argument(told.get(BATCH), seen.get(BATCH))


BATCH = "per_device_train_batch_size"


def _of_argument(told: Seen | None, seen: Seen | None) -> dict[str, Seen]:
    """Return the size of a batch by a Trainer's argument, where the loader's own batches hold several such ones.

    A Trainer that feeds several devices of one process gives its loader the batches of all, and one that generates what
    it trains on those of several steps.
    """
    if told is None or seen is None or not told.value or seen.value % told.value or seen.value == told.value:
        return {}
    return {BATCH: told, "batches_together": replace(seen, value=seen.value // told.value)}


NAMED = ("optim", "torch_compile", "torch_compile_mode", "gradient_accumulation_steps")
"""Arguments that say more than what is seen of them: an epoch may be shorter than one accumulation."""


def _seen(survey: SurveyRecord) -> Iterator[tuple[str, Seen]]:
    """Return what was seen in effect."""
    training = survey.training or {}
    facts: Mapping[str, Any] = training.get("facts") or {}
    places = _Places(survey)
    loader = places.of("loader", training.get("loader"))
    for name in SAME_NAME:
        if name in facts:
            made = name.startswith(("dataloader", "train", "per", "batches"))
            yield name, Seen(value=facts[name], place=loader if made else "")
    for key in (one.name for one in fields(Process)):
        if key in facts:
            yield f"process.{key}", Seen(value=facts[key], place=places.of_flag(f"process.{key}"))
    yield "garbage_collection_share", Seen(value=training.get("garbage_collection_share", 0.0))
    for name in ("memory_format", "experts_implementation", "double_precision", "idle_gradients", "own_rule"):
        yield f"model.{name}", Seen(value=facts.get(name))
    for key, value in facts.items():
        if made := MADE.get(key.partition(".")[0]):
            yield key, Seen(value=value, place=places.of(made))
    if training.get("ranks"):
        yield "rank_excess", Seen(value=_excess(list(training["ranks"].values())))
    if training.get("meets_after"):
        yield "meets_after", Seen(value=training["meets_after"])
    for name in OF_DATA_SET:
        if training.get(name):
            yield name, Seen(value=training[name], place=loader)
    if "reshard_after_forward" in facts:
        yield "fsdp.reshard_after_forward", Seen(value=facts["reshard_after_forward"], place=places.of("fsdp"))
    yield "use_cpu", Seen(value=training.get("device") == "cpu")
    for name in ("bf16", "fp16"):
        yield name, Seen(value=facts.get("autocast") == name, place=places.of("autocast"))
    yield "torch_compile", Seen(value=bool(facts.get("compiled")), place=places.of("compile"))
    yield "torch_compile_mode", Seen(value=facts.get("torch_compile_mode"), place=places.of("compile"))
    yield "optim", Seen(value=_optimizer(facts), place=places.of("optimizer"))
    yield "optimizer_kwargs.foreach", Seen(value=facts.get("foreach"), place=places.of("optimizer"))
    if _optimizer(facts) in FUSED:
        yield "optimizer_kwargs.fused", Seen(value=bool(facts.get("fused")), place=places.of("optimizer"))
    if "attn_implementation" in facts:
        yield "model.attn_implementation", Seen(value=facts["attn_implementation"])
    if facts.get("sdpa_backend"):
        yield "model.sdpa_backend", Seen(value=facts["sdpa_backend"])
    kinds = (training.get("model") or {}).get("dtypes") or {"float32": 1}
    largest = max(kinds, key=lambda kind: kinds[kind])
    yield "model.dtype", Seen(value=largest if largest in ("float32", "float16", "bfloat16") else "float32")
    for one in survey.constructed:
        if one["kind"] == "peft":
            yield "peft", Seen(value=one["values"], place=places.of("peft"))
            live = {key: facts[fact] for fact, key in ADAPTER.items() if facts.get(fact) is not None}
            for key, value in (one["values"] | live).items():
                yield f"peft.{key}", Seen(value=value, place=places.of("peft"))
    if after := training.get("after_epochs"):
        yield "seconds_after_epoch", Seen(value=statistics.median(after))
    if training.get("eval_samples"):
        yield "dataset.eval_samples", Seen(value=training["eval_samples"])
    if facts.get("examples"):
        yield "job.samples", Seen(value=facts["examples"], place=loader)


OF_DATA_SET = (
    "repeated_by_workers",
    "iterable_dataset",
    "opened_by_data_set",
    "drawn_by_data_set",
    "counted_by_data_set",
    "trained_in_data_set",
    "changed_in_sampler",
    "changed_within_epochs",
    "changed_between_epochs",
    "loaders_by_turns",
)
"""What a survey tells of the data set that training draws from, and of its loaders, where it is so."""

ADAPTER = {"lora_r": "r", "lora_dropout": "lora_dropout", "use_dora": "use_dora"}
"""Facts of live adapters, with the names that LoraConfig has for them."""

MADE = {"ddp": "ddp", "fsdp": "fsdp", "zero_optimization": "engine"}
"""Sections of which the live objects tell every value, each with the kind of object that holds them."""


def _excess(ranks: Sequence[Mapping[str, float]]) -> float:
    """Return the largest share of the time by which a rank takes longer than the shortest, in a phase of its own."""
    whole = max(sum(one.values()) for one in ranks) or 1.0
    own = {phase for one in ranks for phase in one} - WHERE_RANKS_WAIT
    return (
        max((max(o.get(p, 0.0) for o in ranks) - min(o.get(p, 0.0) for o in ranks) for p in own), default=0.0) / whole
    )


def _optimizer(facts: Mapping[str, Any]) -> str | None:
    """Return the name that TrainingArguments has for an optimizer; its own name where it has none."""
    name = str(facts.get("optimizer") or "")
    if name == "torch.AdamW":
        return "adamw_torch_fused" if facts.get("fused") else "adamw_torch"
    return {"torch.SGD": "sgd", "torch.Adagrad": "adagrad", "torch.RMSprop": "rmsprop"}.get(name, name) or None


class _Places:
    """The places at which a survey saw objects being made, as a reader writes them."""

    def __init__(self, survey: SurveyRecord):
        self.survey = survey

    def of(self, kind: str, number: int | None = 0) -> str:
        """Return the place of the object with this number among those of its kind; empty if there is none."""
        found = [one for one in self.survey.constructed if one["kind"] == kind]
        found = [one for one in found if one["values"].get("enabled") is not False]  # an autocast that is switched off
        return "" if number is None or number >= len(found) else self._written(found[number])

    def of_flag(self, key: str) -> str:
        """Return the place where a flag was set last; empty if the program did not set it."""
        found = [one for one in self.survey.constructed if one["kind"] == "flag" and one["values"].get("sets") == key]
        return self._written(found[-1]) if found else ""

    def _written(self, one: Mapping[str, Any]) -> str:
        place = one["place"]
        return f"{self.survey.command.shown(place['file'])}:{place['line']}" if place["file"] else ""
