"""The sections of a parameter file: one frozen dataclass for each, with the defaults.

The sections `training_arguments`, `peft` and `quantization` hold the ecosystem's own names (transformers'
TrainingArguments, peft's LoraConfig, transformers' BitsAndBytesConfig), checked against the installed libraries
by `slowstep.settings.library_arguments`. Sizes are in tokens or samples, times in seconds, memory in GiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slowstep.settings.convert import KEY


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
