"""What trials of a command need to know of its survey: the values of its run, its options, and its objects."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from slowstep.launch.surveyor import SurveyRecord
from slowstep.settings.command import Seen, Surveyed
from slowstep.settings.library_arguments import FUSED
from slowstep.settings.plain import unsuitable
from slowstep.settings.schema import Process
from slowstep_probe.measured import WHERE_RANKS_WAIT

OF_LOADER = (
    *("dataloader_num_workers", "dataloader_prefetch_factor", "dataloader_persistent_workers"),
    *("dataloader_pin_memory", "train_sampling_strategy", "per_device_train_batch_size", "batches_drawn_by"),
)
OF_STEP = ("gradient_accumulation_steps", "gradient_checkpointing", "tf32")
"""Facts whose names are canonical keys: of the loader, and of a step."""

FEW = 60
"""The options of a parser that are all told. Of one that knows more (Trainer's), those that stand there are."""

LONG = 200
"""The letters of a value that is no longer told."""

COMMANDS_OWN = (
    *("double_precision", "idle_gradients", "own_rule", "padded_columns", "constant_columns", "tracing"),
    "debug_environment",
)
"""Facts that only a command's program has, and that change what can be tried with it."""

BATCH = "per_device_train_batch_size"

NAMED = ("optim", "torch_compile", "torch_compile_mode", "gradient_accumulation_steps")
"""Arguments that count in place of what is seen of them: an epoch may be shorter than one accumulation."""

OF_DATA_SET = (
    *("repeated_by_workers", "iterable_dataset", "opened_by_data_set", "drawn_by_data_set", "counted_by_data_set"),
    *("kept_by_data_set", "trained_in_data_set", "changed_in_sampler", "changed_within_epochs"),
    *("changed_between_epochs", "loaders_by_turns", "unlike_batch_sizes", "epoch_of_longest"),
    *("loaders_of_several_lines", "later_epochs", "grows_within_epoch"),
)
"""What a survey tells of the data set that training draws from, of its loaders and its epochs, where it is so."""

ADAPTER = {"lora_r": "r", "lora_dropout": "lora_dropout", "use_dora": "use_dora"}
"""Facts of live adapters, with the names that LoraConfig has for them."""

OF_MODEL = {"attention": "transformers", **{name: name for name in ("blocks", "convolutions", "batch_norm")}}
"""What a survey tells of a model, with the kind of object that it is."""

MADE = {"ddp": "ddp", "fsdp": "fsdp", "zero_optimization": "engine"}
"""Sections of which the live objects tell every value, each with the kind of object that holds them."""


def surveyed(record: SurveyRecord) -> Surveyed:
    """Return what trials of a command need to know of its survey.

    What no parameter file can hold is left out: a zero byte as a separator, a seed of 128 bits, a name in no UTF-8.
    """
    training = record.training or {}
    return Surveyed(
        values={name: seen for name, seen in _values(record).items() if _can_be_held(seen.value)},
        options={name: value for name, value in _options(record).items() if _can_be_held(value)},
        objects=sorted(_objects(record)),
        feeding=list(training.get("feeding", ())),
        files=list(training.get("files", ())),
        configurations=list(filter(_can_be_held, record.configurations)),
        warned=list(filter(_can_be_held, record.warned)),
    )


def _can_be_held(value: object) -> bool:
    """Return whether a parameter file can hold a value."""
    return next(unsuitable(value), None) is None


def _options(record: SurveyRecord) -> dict[str, object]:
    """Return the command's own options, with the values that its parser found."""
    plain = {n: v for n, v in record.options.items() if isinstance(v, (bool, int, float, str)) and len(str(v)) < LONG}
    given = {word.partition("=")[0] for word in record.command.arguments[1:]}
    return {name: value for name, value in plain.items() if len(plain) <= FEW or name in given}


def _objects(record: SurveyRecord) -> Iterator[str]:
    training, kinds = record.training or {}, {one["kind"] for one in record.constructed}
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
    yield from (kind for told, kind in OF_MODEL.items() if model.get(told))
    yield from (name for name in COMMANDS_OWN if facts.get(name))
    if min(training.get("batches", 0), training.get("passes", 1)) > 1:  # several losses of one batch are none
        yield "accumulates"
    how = str(facts.get("parallelism", "none"))
    if how != "none":
        yield how


def _values(record: SurveyRecord) -> dict[str, Seen]:
    """Return the values of the run by canonical key, each with the place in the user's code that it comes from."""
    place = _Places(record).of("arguments")
    by_trainer = any(one["kind"] == "trainer" for one in record.constructed)
    given = ((record.training or {}).get("arguments") or {}).items() if by_trainer else ()
    told = {name: Seen(value=value, place=place) for name, value in given}
    seen = dict(_InEffect(record).values())
    found = told | {name: one for name, one in seen.items() if name not in told or name not in NAMED}
    return found | _of_argument(told.get(BATCH), seen.get(BATCH))


def _of_argument(told: Seen | None, seen: Seen | None) -> dict[str, Seen]:
    """Return the size of a batch by a Trainer's argument, where the loader's own batches hold several such ones.

    A Trainer that feeds several devices of one process gives its loader the batches of all, and one that generates what
    it trains on those of several steps.
    """
    if told is None or seen is None or not told.value or seen.value % told.value or seen.value == told.value:
        return {}
    return {BATCH: told, "batches_together": replace(seen, value=seen.value // told.value)}


class _InEffect:
    """Values of the run, as they were seen in effect."""

    def __init__(self, record: SurveyRecord):
        self._record, self._places = record, _Places(record)
        self._training: Mapping[str, Any] = record.training or {}
        self._facts: Mapping[str, Any] = self._training.get("facts") or {}
        self._loader = self._places.of("loader", self._training.get("loader"))

    def values(self) -> Iterator[tuple[str, Seen]]:
        """Yield canonical keys, each with its value. Their order is that of the parameter file."""
        yield from self._of_loader()
        yield from self._of_step()
        yield from self._of_process()
        yield from self._of_sections()
        yield from self._of_ranks()
        yield from self._of_data_set()
        if "reshard_after_forward" in self._facts:
            yield "fsdp.reshard_after_forward", self._fact("reshard_after_forward", "fsdp")
        yield from self._of_arithmetic()
        yield from self._of_optimizer()
        yield from self._of_model()
        yield from self._of_adapter()
        yield from self._of_job()

    def _fact(self, name: str, made: str = "") -> Seen:
        """Return a fact, None where it is not known, with the place of the first object of the kind `made`."""
        return Seen(value=self._facts.get(name), place=self._places.of(made) if made else "")

    def _of_loader(self) -> Iterator[tuple[str, Seen]]:
        for name in OF_LOADER:
            if name in self._facts:
                yield name, Seen(value=self._facts[name], place=self._loader)

    def _of_step(self) -> Iterator[tuple[str, Seen]]:
        yield from ((name, self._fact(name)) for name in OF_STEP if name in self._facts)
        passes = self._training.get("passes", 1)
        if passes > self._facts.get("gradient_accumulation_steps", passes):
            yield "backward_passes", Seen(value=passes)

    def _of_process(self) -> Iterator[tuple[str, Seen]]:
        for key in (one.name for one in fields(Process)):
            if key in self._facts:
                yield f"process.{key}", Seen(value=self._facts[key], place=self._places.of_flag(f"process.{key}"))
        yield "garbage_collection_share", Seen(value=self._training.get("garbage_collection_share", 0.0))

    def _of_sections(self) -> Iterator[tuple[str, Seen]]:
        for name in ("memory_format", "experts_implementation", "double_precision", "idle_gradients", "own_rule"):
            yield f"model.{name}", self._fact(name)
        for key in self._facts:
            if made := MADE.get(key.partition(".")[0]):
                yield key, self._fact(key, made)

    def _of_ranks(self) -> Iterator[tuple[str, Seen]]:
        if self._training.get("ranks"):
            yield "rank_excess", Seen(value=_excess(list(self._training["ranks"].values())))
        if self._training.get("meets_after"):
            yield "meets_after", Seen(value=self._training["meets_after"])

    def _of_data_set(self) -> Iterator[tuple[str, Seen]]:
        for name in OF_DATA_SET:
            if self._training.get(name):
                yield name, Seen(value=self._training[name], place=self._loader)

    def _of_arithmetic(self) -> Iterator[tuple[str, Seen]]:
        device = self._training.get("device")
        if device in ("cpu", "cuda"):
            yield "use_cpu", Seen(value=device == "cpu")
        for name in ("bf16", "fp16"):
            yield name, Seen(value=self._facts.get("autocast") == name, place=self._places.of("autocast"))
        yield "torch_compile", Seen(value=bool(self._facts.get("compiled")), place=self._places.of("compile"))
        yield "torch_compile_mode", self._fact("torch_compile_mode", "compile")

    def _of_optimizer(self) -> Iterator[tuple[str, Seen]]:
        name, place = _optimizer(self._facts), self._places.of("optimizer")
        yield "optim", Seen(value=name, place=place)
        yield "optimizer_kwargs.foreach", self._fact("foreach", "optimizer")
        if name in FUSED:
            yield "optimizer_kwargs.fused", Seen(value=bool(self._facts.get("fused")), place=place)

    def _of_model(self) -> Iterator[tuple[str, Seen]]:
        if "attn_implementation" in self._facts:
            yield "model.attn_implementation", self._fact("attn_implementation")
        if self._facts.get("sdpa_backend"):
            yield "model.sdpa_backend", self._fact("sdpa_backend")
        kinds = (self._training.get("model") or {}).get("dtypes") or {"float32": 1}
        largest = max(kinds, key=lambda kind: kinds[kind])
        yield "model.dtype", Seen(value=largest if largest in ("float32", "float16", "bfloat16") else "float32")

    def _of_adapter(self) -> Iterator[tuple[str, Seen]]:
        place = self._places.of("peft")
        live = {key: self._facts[fact] for fact, key in ADAPTER.items() if self._facts.get(fact) is not None}
        for one in self._record.constructed:
            if one["kind"] == "peft":
                yield "peft", Seen(value=one["values"], place=place)
                for key, value in (one["values"] | live).items():
                    yield f"peft.{key}", Seen(value=value, place=place)

    def _of_job(self) -> Iterator[tuple[str, Seen]]:
        if after := self._training.get("after_epochs"):
            yield "seconds_after_epoch", Seen(value=statistics.median(after))
        if self._training.get("eval_samples"):
            yield "dataset.eval_samples", Seen(value=self._training["eval_samples"])
        if self._facts.get("examples"):
            yield "job.samples", Seen(value=self._facts["examples"], place=self._loader)


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

    def __init__(self, record: SurveyRecord):
        self._record = record

    def of(self, kind: str, number: int | None = 0) -> str:
        """Return the place of the object with this number among those of its kind; empty if there is none."""
        found = [one for one in self._record.constructed if one["kind"] == kind]
        found = [one for one in found if one["values"].get("enabled") is not False]  # an autocast that is switched off
        return "" if number is None or number >= len(found) else self._written(found[number])

    def of_flag(self, key: str) -> str:
        """Return the place where a flag was set last; empty if the program did not set it."""
        found = [one for one in self._record.constructed if one["kind"] == "flag" and one["values"].get("sets") == key]
        return self._written(found[-1]) if found else ""

    def _written(self, one: Mapping[str, Any]) -> str:
        place = one["place"]
        return f"{self._record.command.shown(place['file'])}:{place['line']}" if place["file"] else ""
