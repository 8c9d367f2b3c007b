"""The sections of a parameter file: one frozen dataclass for each, with the defaults.

The sections `training_arguments`, `peft` and `quantization` hold the ecosystem's own names (transformers'
TrainingArguments, peft's LoraConfig, transformers' BitsAndBytesConfig), checked against the installed libraries
by `slowstep.settings.library_arguments`. Sizes are in tokens or samples, times in seconds, memory in GiB.
"""

from __future__ import annotations

import importlib.machinery
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Literal

from slowstep.settings.command import AsMeasured, Command, Surveyed
from slowstep.settings.convert import KEY, NOT_IN_FILES, nearest_place
from slowstep.settings.reported import Reported
from slowstep.settings.run import Origin, Run, Value, training_default
from slowstep.settings.sections import LEVEL_SECTIONS
from slowstep.settings.slurm import Measure
from slowstep_probe.changing.intervention import given_key


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model to train: `init: random` builds `model_type` with `config`, `pretrained` loads `name_or_path`."""

    init: Literal["random", "pretrained"] = "pretrained"
    name_or_path: str | None = None
    model_type: str | None = None
    config: dict[str, object] = field(default_factory=dict)
    tokenizer: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    attn_implementation: str | None = None
    sdpa_backend: Literal["math", "flash", "efficient", "cudnn"] | None = None
    """The one kernel that scaled_dot_product_attention may use; PyTorch chooses if none is named."""
    experts_implementation: Literal["eager", "batched_mm", "grouped_mm"] | None = None
    """The way in which transformers goes over the experts of a mixture: one by one, or in one product."""
    memory_format: Literal["contiguous", "channels_last"] | None = None
    """The order in which weights and images lie in memory, for a model with convolutions."""
    double_precision: bool | None = None
    """False for computing in 32 bits where a command's model has weights of 64. Described runs have none."""
    idle_gradients: bool | None = None
    """False for no gradients of weights that none of a command's optimizers has. Described runs have no such."""
    own_rule: bool | None = None
    """False for updates by one kernel where a command's optimizer has a rule of its own. Described runs have none."""
    torch_compile_dynamic: bool | None = None
    """The argument `dynamic` of torch.compile, for which TrainingArguments has no name."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The examples: built in (python_stdlib, python_stdlib_modules), a .jsonl file, a folder or a name on the Hub."""

    name_or_path: str = "python_stdlib"
    name: str | None = None
    split: str = "train"
    text_field: str | None = None
    prompt_field: str = "prompt"
    response_field: str = "response"
    num_samples: int | None = None
    eval_samples: int = 64
    max_length: int = 512
    tokenize: Literal["once", "on_the_fly"] = "on_the_fly"
    padding: Literal["longest", "max_length", "packing"] = "longest"
    trim_padding: bool | None = None
    """True for a command's batches without columns of padding alone. Those that a file describes have `padding`."""
    trim_constant_columns: bool | None = None
    """True for a command's batches without first and last columns of one value, be they padding or not."""
    cached_batches: int = 0
    storage: Literal["as_is", "local_copy", "in_memory"] = "as_is"
    batched_fetching: bool | None = None
    """True to fetch the examples of a batch together (`__getitems__`), False for one by one, None for the default."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """What the process that trains is set to. None leaves it as it is."""

    num_threads: int | None = None
    """The threads of an operation on the CPU (torch.set_num_threads)."""
    detect_anomaly: bool | None = None
    """True to look for values that are not finite in the backward pass (torch.autograd.set_detect_anomaly)."""
    deterministic_algorithms: bool | None = None
    cudnn_benchmark: bool | None = None
    tracing: Literal[False] | None = None
    """False to end what notes each allocation, call or line of a command's program (tracemalloc, cProfile)."""
    debug_environment: Literal[False] | None = None
    """False to train without the environment variables by which libraries debug and log what they do."""
    expandable_segments: bool | None = None
    """True for device memory in segments that grow (PYTORCH_CUDA_ALLOC_CONF)."""
    garbage_collection: Literal["automatic", "frozen"] | None = None
    """Python's cyclic collector: as it is, or without the objects that training begins with (gc.freeze)."""


@dataclass(frozen=True, kw_only=True)
class Ddp:
    """The way in which ranks exchange gradients (DistributedDataParallel). None leaves it as it is."""

    bucket_cap_mb: float | None = None
    gradient_as_bucket_view: bool | None = None
    static_graph: bool | None = None
    find_unused_parameters: bool | None = None
    broadcast_buffers: bool | None = None
    comm_hook: Literal["allreduce", "bf16", "fp16", "powersgd", "none"] | None = None
    """The exchange itself: as it is, of rounded gradients, of factors of low rank, or none at all."""
    rank_data: Literal["own", "swapped"] | None = None
    """The part of the data that a rank trains on: its own, or the next rank's."""
    sync_each_batch: bool | None = None
    """False to exchange gradients once an optimizer step, and not after each of its micro-batches."""


@dataclass(frozen=True, kw_only=True)
class Fsdp:
    """The way in which weights are spread over ranks, by PyTorch's own names. None leaves it as it is.

    The first is an argument of fully_shard (FSDP2), the others are those of FullyShardedDataParallel (FSDP1). What is
    fetched ahead in the forward pass can be set in both.
    """

    reshard_after_forward: bool | None = None
    sharding_strategy: str | None = None
    backward_prefetch: str | None = None
    forward_prefetch: bool | None = None
    """True if each module's weights are fetched while the one before it computes."""
    limit_all_gathers: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ZeroOptimization:
    """Values of DeepSpeed's `zero_optimization`, by its own names. None leaves a value as the configuration has it."""

    stage: int | None = None
    overlap_comm: bool | None = None
    reduce_bucket_size: int | None = None
    """The elements that are exchanged at once."""
    allgather_bucket_size: int | None = None
    stage3_prefetch_bucket_size: int | None = None
    offload_optimizer: str | None = None
    """The device to which the optimizer's state is moved: 'none' or 'cpu'."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The nodes on which the processes of a command train. None: on all that it names."""

    apart: bool | None = None
    """True to train on one node, with the processes of that node alone."""
    number: int | None = None
    """The number of that node; None for the first one, whose number is 0."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The real run that the trials stand for."""

    samples: int | None = None
    epochs: float | None = None
    price_per_hour: float | None = None
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The amount of measuring, and its limits. `minimum_effect` is a gain in throughput: 0.05 means 5 %."""

    minimum_effect: float = 0.05
    block_seconds: float | None = None
    """The least seconds of a block; None to let it follow from the noise of the baseline and the cost of a turn."""
    block_steps_min: int = 5
    max_pairs: int = 30
    launches: int = 9
    noise_pairs: int = 5
    rarest_stall: int = 500
    """The rarity of stalls that matters. A wait is refuted without a trial only if stalls in one of so many steps would
    have been met."""
    observe_seconds: float = 180.0
    """The most seconds that the baseline is trained by itself, to meet such stalls."""
    seed: int = 0
    minutes: float | None = None
    """The most minutes for measuring and the reports together. What is not reached then is said to be so."""
    redo_blocks: int = 6
    startup_timeout_seconds: float = 1800.0
    step_timeout_seconds: float = 300.0
    memory_limit_gib: float | None = None
    exhaustive: bool = False
    find_batch: bool = False
    """True to search for the batch size in 20_gradient_checkpointing, beside the sizes that are listed."""


@dataclass(frozen=True, kw_only=True)
class Allow:
    """Changes that the final configuration may hold. Those of class exact are always allowed."""

    numerics: bool = False
    semantics: bool = False
    never: list[str] = field(default_factory=list)


Levels = dict[str, list[object]]


@dataclass(frozen=True, kw_only=True)
class OwnLevels:
    """Levels of what only a command knows: one of its options, or a value of a configuration file that it names."""

    levels: list[object]
    meaning: Literal["exact", "numerics", "semantics", "diagnostic"] = field(
        default="semantics", metadata={KEY: "class"}
    )


FreedMemory = Literal["kept", "returned"]


OF_FIELDS = ("model", "dataset", "process", "ddp", "fsdp", "zero_optimization")
"""The sections that are changes to a program, each of whose fields is a key of its own."""


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

    @property
    def batched_fetching(self) -> bool:
        """Return whether the examples of a batch are fetched together.

        By default they are if the data is tokenised once, as `datasets` does it by itself, and else they are not.
        """
        return self.run.batched_fetching

    def training(self, name: str) -> object:
        """Return a training argument: as given, or else the default of the installed transformers.

        KeyError for a name that TrainingArguments does not have.
        """
        if name in self.training_arguments:
            return self.training_arguments[name]
        return self.run[name] if self.command else training_default(name, self.defaults)

    @property
    def compiled(self) -> bool:
        """Return whether the model is compiled. A mode or a backend alone makes transformers compile, too."""
        return self.run.compiled

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


OF_CODE = (".py", ".pyx", ".so", ".pyd", ".c", ".cc", ".cpp", ".cu", ".h", ".json", ".toml", ".yaml", ".yml")
"""What a package consists of: code, what is compiled, and files that configure it. Logs and caches are none."""


def code_of(workload: str) -> list[str]:
    """Return the files of the module or the package of a user's own workload, `module:Class`; [] if it is not here."""
    module, colon, _ = workload.partition(":")
    found = importlib.machinery.PathFinder.find_spec(module.partition(".")[0]) if colon else None
    if found is None:
        return []
    folders = found.submodule_search_locations
    if not folders:
        return [found.origin]
    files = [str(file) for folder in folders for file in Path(folder).rglob("*")]
    return sorted(file for file in files if file.endswith(OF_CODE))


def content_of(names: Iterable[str]) -> list[str]:
    """Return name, size and time of change of each file, and of each file in a folder, as one text."""
    found = []
    for path in map(Path, names):
        files = sorted(path.glob("*")) if path.is_dir() else [path] if path.is_file() else []
        found += [f"{f.name} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files if f.is_file()]
    return found


OVERRIDE = "override "
"""The beginning of the place of a value that was given on the command line."""

WORKLOADS = {
    "finetune": "slowstep.workloads.finetune:FineTune",
    "plain_loop": "slowstep.workloads.plain_loop:PlainLoop",
    "memory_mapped": "slowstep.workloads.memory_mapped:MemoryMappedWorkload",
}
"""The registered workloads and their classes. They are texts, since settings are checked without importing torch."""

TRAINED = (
    "command",
    "workload",
    "model",
    "dataset",
    "training_arguments",
    "peft",
    "quantization",
    "optimizer_kwargs",
    "process",
    "processes",
    "nodes",
    "ddp",
    "fsdp",
    "zero_optimization",
    "freed_memory",
    "given",
)
"""The sections that decide what a trial does. The others decide how it is measured and judged."""


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
