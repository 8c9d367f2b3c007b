"""The settings of an investigation: all sections of a parameter file, and the run that they describe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Literal

from slowstep.settings.command import AsMeasured, Command, Surveyed
from slowstep.settings.convert import NOT_IN_FILES, nearest_place
from slowstep.settings.local_files import code_of, content_of
from slowstep.settings.reported import Reported
from slowstep.settings.run import Origin, Run, Value, training_default
from slowstep.settings.schema import (
    OF_FIELDS,
    Allow,
    Budget,
    Dataset,
    Ddp,
    FreedMemory,
    Fsdp,
    Job,
    Levels,
    Model,
    Nodes,
    OwnLevels,
    Process,
    ZeroOptimization,
)
from slowstep.settings.sections import LEVEL_SECTIONS
from slowstep.settings.slurm import Measure
from slowstep_probe.changing.intervention import given_key

OVERRIDE = "override "
"""The beginning of the place of a value that was given on the command line."""

WORKLOADS = {
    "finetune": "slowstep.workloads.finetune:FineTune",
    "plain_loop": "slowstep.workloads.plain_loop:PlainLoop",
    "memory_mapped": "slowstep.workloads.memory_mapped:MemoryMappedWorkload",
}
"""The registered workloads and their classes. They are texts, since settings are checked without importing torch."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an investigation. `data_loading` and its like list the levels that a notebook tests."""

    name: str
    command: Command | None = None
    """The command that trains. Without one, the other sections describe what is trained."""
    surveyed: Surveyed = Surveyed()
    """What a survey saw of the command."""
    workload: str = "finetune"
    """A name in `WORKLOADS`, or `module:Class` of the user's own workload."""
    model: Model = Model()
    dataset: Dataset = Dataset()
    training_arguments: dict[str, object] = field(default_factory=dict)
    peft: dict[str, object] | None = None
    quantization: dict[str, object] | None = None
    optimizer_kwargs: dict[str, object] | None = None
    """Keyword arguments of the optimizer's class beyond those that TrainingArguments sets, such as `foreach`."""
    process: Process = Process()
    processes: int | None = None
    """The number of processes that train together, each on its own device. None leaves a command as it is."""
    nodes: Nodes = Nodes()
    ddp: Ddp = Ddp()
    fsdp: Fsdp = Fsdp()
    zero_optimization: ZeroOptimization = ZeroOptimization()
    freed_memory: FreedMemory = "kept"
    """The fate of host memory that a step frees: kept for the next step, or returned as glibc decides by itself."""
    job: Job = Job()
    budget: Budget = Budget()
    measure: Measure = Measure()
    allow: Allow = Allow()
    levels: Literal["listed", "auto"] = "listed"
    """The levels to try: those listed, or with 'auto' those that the factors propose in sections that list none."""
    data_loading: Levels = field(default_factory=dict)
    gradient_checkpointing: Levels = field(default_factory=dict)
    sequence_length: Levels = field(default_factory=dict)
    compute: Levels = field(default_factory=dict)
    overheads: Levels = field(default_factory=dict)
    parallelism: Levels = field(default_factory=dict)
    arguments: dict[str, OwnLevels] = field(default_factory=dict)
    """The levels of the command's own options, by option: `--batch-size`."""
    files: dict[str, dict[str, OwnLevels]] = field(default_factory=dict)
    """The levels of values of configuration files, by the file as the command names it, and by dotted key."""
    given: dict[str, object] = field(default_factory=dict)
    """What the command is given beyond its own words: by option, or by `file:key`."""
    reported: Reported | None = None
    defaults: dict[str, object] = field(default_factory=dict, compare=False, metadata=NOT_IN_FILES)
    """The defaults of TrainingArguments where a record tells them; empty: those of the installed transformers."""
    as_measured: AsMeasured | None = field(default=None, compare=False, metadata=NOT_IN_FILES)
    """The user's own files where a record tells of them; None: as they are here and now."""

    @property
    def figures_alone(self) -> bool:
        """Return whether there are reported figures but no model to train."""
        described = self.model.init == "random" or self.model.name_or_path or self.model.model_type
        named = self.command or described or self.model.config
        return self.reported is not None and not named

    @property
    def ranks(self) -> int:
        """The number of processes that a trial starts to train together; 0 for a run that starts no others."""
        own = self.command.processes if self.command else 0
        asked = own if self.processes is None else self.processes
        return min(asked, self.command.nodes[self.nodes.number or 0]) if self._apart else asked

    @property
    def on_nodes(self) -> list[int]:
        """The processes of a trial on each node, 0 for one that takes no part. The first nodes are filled first."""
        if self._apart:
            number = self.nodes.number or 0
            return [self.ranks if node == number else 0 for node in range(len(self.command.nodes))]
        left, found = self.ranks, []
        for room in self.command.nodes if self.command and self.command.nodes else [left]:
            found.append(min(room, left))
            left -= found[-1]
        return found

    @property
    def _apart(self) -> bool:
        return bool(self.command and self.command.nodes and self.nodes.apart)

    @cached_property
    def run(self) -> Run:
        """The run that these settings describe."""
        return _run(self, {})

    def training(self, name: str) -> object:
        """Return a training argument: as given, or else the default of the installed transformers.

        KeyError for a name that TrainingArguments does not have.
        """
        if name in self.training_arguments:
            return self.training_arguments[name]
        return self.run[name] if self.command else training_default(name, self.defaults)

    @property
    def changes(self) -> dict[str, object]:
        """The changes to a command's program that these settings hold, by canonical key."""
        found: dict[str, object] = {f"training_arguments.{name}": v for name, v in self.training_arguments.items()}
        for section in OF_FIELDS:
            for one in fields(held := getattr(self, section)):
                if (value := getattr(held, one.name)) != one.default and value != {}:
                    found[f"{section}.{one.name}"] = value
        for section in ("peft", "quantization", "optimizer_kwargs"):
            found |= {f"{section}.{name}": value for name, value in (getattr(self, section) or {}).items()}
        return found | {given_key(name): value for name, value in self.given.items()}

    def local_content(self) -> list[str]:
        """Return a text for each local file that the settings name: it changes when the file's content does."""
        names = [n for n in (self.model.name_or_path, self.model.tokenizer, self.dataset.name_or_path) if n]
        names += [os.path.join(self.command.folder, name) for name in self.files] if self.command else []
        names += [*self.surveyed.files, *self.surveyed.configurations, *code_of(self.workload)]
        if isinstance(deepspeed := self.training_arguments.get("deepspeed"), str):
            names.append(os.path.abspath(deepspeed))
        return content_of(name for name in names if os.path.isabs(name))

    @property
    def effective_batch_size(self) -> int:
        """Return the samples of an optimizer step, those of all processes."""
        return self.run.effective_batch_size


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Settings with the place of every value that is not a default, by dotted key."""

    settings: Settings
    source: str
    places: Mapping[str, str]
    """The place of each key: `params/quick.yaml:12`, or `override a.b=c`."""

    @property
    def run(self) -> Run:
        """The run that is described, each value with the place where it was given."""
        return _run(self.settings, self.places)

    def place(self, key: str) -> str:
        """Return the place of a dotted key, or else of the nearest key that holds it, or else the whole source."""
        return nearest_place(self.places, key) or self.source


def _run(settings: Settings, places: Mapping[str, str]) -> Run:
    found: dict[str, Value] = {}

    def give(key: str, value: object, default: object, name: str) -> None:
        place = nearest_place(places, name) or ""
        origin = Origin.COMMAND_LINE if place.startswith(OVERRIDE) else Origin.FILE
        found[key] = Value(value=value, origin=Origin.DEFAULT if value == default else origin, place=place)

    for name, value in settings.training_arguments.items():
        give(name, value, object(), f"training_arguments.{name}")
    for section in (*OF_FIELDS, "job"):
        for one in fields(held := getattr(settings, section)):
            if (value := getattr(held, one.name)) != one.default or not settings.command:
                give(f"{section}.{one.name}", value, one.default, f"{section}.{one.name}")
    for section in ("peft", "quantization", "optimizer_kwargs"):
        held = getattr(settings, section)
        if held is not None or not settings.command:
            give(section, held, None, section)
        for name, value in (held or {}).items():
            give(f"{section}.{name}", value, object(), f"{section}.{name}")
    for key, seen in settings.surveyed.values.items():
        found.setdefault(key, Value(value=seen.value, origin=Origin.OBSERVED, place=seen.place))
    for one in fields(settings.job):
        found.setdefault(f"job.{one.name}", Value(value=one.default, origin=Origin.DEFAULT))
    give("workload", settings.workload, "finetune", "workload")
    give("freed_memory", settings.freed_memory, "kept", "freed_memory")
    give("processes", settings.ranks or 1, 1, "processes")
    give("nodes", len(settings.command.nodes) or 1 if settings.command else 1, 1, "command.nodes")
    give("nodes.processes", tuple(settings.command.nodes) if settings.command else (), (), "command.nodes")
    give("nodes.number", settings.nodes.number or 0, 0, "nodes.number")
    listed = {
        factor: levels
        for section in LEVEL_SECTIONS
        if isinstance(of_section := getattr(settings, section), dict)
        for factor, levels in of_section.items()
    }
    objects = frozenset(settings.surveyed.objects) if settings.command else None
    return Run(values=found, defaults=settings.defaults, listed=listed, objects=objects)
