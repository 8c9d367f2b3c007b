"""The sizes of a run of the parts: those for a device, and tiny ones that a CPU trains in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Scale:
    """All sizes that the parts use. Nothing else tells a dry run from a real one."""

    name: str
    """'real' or 'dry'. It chooses the sizes in planted.yaml, too."""
    pace: float
    """The time that a cell takes here, as a part of the minutes that it is expected to take on a device."""
    mistral: dict[str, Any]
    """Configuration of the Mistral of seed 001; empty for its real size, 7.2 billion parameters."""
    language: dict[str, Any]
    """Configuration of the small language model, a Llama of 0.3 billion parameters in real size."""
    small: dict[str, Any]
    """Configuration of a model so small that its steps are bound by launching."""
    images: dict[str, Any]
    """Configuration of the residual network."""
    image_samples: int
    """Samples in its memory-mapped file."""
    image_batch: int
    lengths: tuple[int, ...]
    """Sequence lengths of the matrix, in tokens. They leave room for labels beside prompts, else the loss is NaN."""
    batches: tuple[int, ...]
    """Batch sizes of the matrix."""
    length: int
    """The length of the other runs."""
    batch: int
    host_limit_gib: dict[int, float | None]
    """The host memory that a trial may take, by the limit of device memory in GiB that it stands for; None for all.

    A CPU has no device memory to limit. So a dry run limits the host's, and its cells run out of that.
    """
    budget: dict[str, Any]
    """The budget of every parameter file and comparison."""
    minutes: float | None
    """The minutes of one whole investigation (`budget.minutes`); None to measure all that it lists."""
    short_minutes: float | None
    """The same for one planted cause or healthy run."""
    block_seconds: float
    """The least seconds of a block that is measured by itself."""
    pairs: int
    """The pairs of a comparison that is measured for its spread."""
    repeats: int
    """The comparisons of identical arms for each run, of which there are four."""
    job_seconds: float
    """The length of the real run that is held against its projection."""
    step_seconds: tuple[float, float]
    """The steps on which the cost of the probe is measured."""
    probe_pairs: tuple[int, int]
    """The pairs of blocks by which the cost on either is measured."""
    width: int
    """The width of the layers on which the probe is measured; a batch has as many rows."""
    truth_steps: tuple[int, int]
    """Warm-up steps and timed steps of a run without the kit."""
    turns: int
    """Runs with a cause and without it, by turns, for its size."""
    cases: dict[str, tuple[str, dict[str, Any]]]
    """The parameter file of each seed, and what is changed in it."""
    dtype: str
    """The type of the products whose rate is the ceiling. A CPU without 16-bit products takes a minute for one."""
    command_minutes: float
    """The same as `short_minutes` for a command."""
    script: dict[str, int]
    """The sizes of the script of one's own; empty for those that stand in it."""
    script_steps: int
    """The steps that it trains without the kit, a quarter of them before its clock."""
    of_a_kind: int | None
    """How many causes in a command, causes in a described run and healthy runs are diagnosed, and how many modes
    of the compiler are measured, which differ in a line or in some settings each; None for all."""
    job: dict[str, Any]
    """What is changed in seed 001 for the job that is projected and trained."""
    compiler: dict[str, Any]
    """What is changed for runs that are compiled. A CPU's compiler takes a minute for a layer, so a dry run traces."""


SEEDS = ("000", "001", "002", "003", "004")

REAL = Scale(
    name="real",
    pace=1.0,
    mistral={},
    language={
        "vocab_size": 32000,
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_hidden_layers": 20,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "max_position_embeddings": 4096,
    },
    small={
        "vocab_size": 2048,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 1024,
    },
    images={
        "num_channels": 104,
        "embedding_size": 64,
        "hidden_sizes": [64, 128, 256, 512],
        "depths": [2, 2, 2, 2],
        "layer_type": "bottleneck",
        "num_labels": 1496,
    },
    image_samples=50_000,
    image_batch=750,
    lengths=(512, 1024, 2048),
    batches=(1, 2, 4, 8, 16),
    length=1024,
    batch=8,
    host_limit_gib={24: None, 80: None},
    budget={
        "launches": 2,
        "block_steps_min": 3,
        "max_pairs": 9,
        "rarest_stall": 100,
        "observe_seconds": 10.0,
        "startup_timeout_seconds": 240.0,
        "step_timeout_seconds": 90.0,
    },
    minutes=5.5,
    short_minutes=1.75,
    block_seconds=4.0,
    pairs=5,
    repeats=6,
    job_seconds=300.0,
    step_seconds=(0.020, 0.200),
    probe_pairs=(100, 25),
    width=4096,
    truth_steps=(10, 40),
    turns=2,
    cases={seed: (f"params/case_{seed}.yaml", {}) for seed in SEEDS},
    dtype="bfloat16",
    command_minutes=2.0,
    script={},
    script_steps=240,
    of_a_kind=None,
    job={},
    compiler={},
)

TINY = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}

IN_32_BIT = {"model.dtype": "float32", "training_arguments.bf16": False}
"""The arithmetic of whole dry investigations, which also measure the rate of products in it."""

SHORT = IN_32_BIT | {"dataset.num_samples": 200, "job.samples": 200, "job.epochs": 1, "compute": {}}
"""What makes an investigation of a seed's small sibling a matter of seconds: little data, and nothing to compile."""

TINY_CASES: dict[str, dict[str, Any]] = {
    "000": {
        "model.config": {"n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 512, "n_positions": 128},
        "dataset.max_length": 128,
        "training_arguments.per_device_train_batch_size": 2,
        "gradient_checkpointing": {"gradient_checkpointing": [False], "per_device_train_batch_size": [4]},
    },
    "001": {
        "model.config": TINY,
        "dataset.max_length": 128,
        "sequence_length": {"max_length": [96], "weights": ["4bit"]},
        "data_loading": {},
    },
    "002": {"model.config": TINY, "dataset.max_length": 128, "data_loading": {"tokenize": ["once"]}},
    "003": {"model.config": TINY, "dataset.max_length": 128, "data_loading": {"storage": ["in_memory"]}},
    "004": {"training_arguments.per_device_train_batch_size": 16, "data_loading": {"dataloader_num_workers": [2]}},
}
"""What makes the models of the small siblings tiny, with the levels that are kept."""

DRY = Scale(
    name="dry",
    pace=0.02,
    mistral=TINY,
    language=TINY | {"num_hidden_layers": 1},  # what a compiler takes grows with them
    small=TINY,
    images={
        "num_channels": 3,
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "layer_type": "basic",
        "num_labels": 10,
    },
    image_samples=500,
    image_batch=8,
    lengths=(64, 128),
    batches=(1, 4),
    length=128,
    batch=4,
    host_limit_gib={24: 0.01, 80: None},
    budget={
        "launches": 1,
        "block_seconds": 0.02,
        "block_steps_min": 2,
        "max_pairs": 3,
        "noise_pairs": 3,
        "redo_blocks": 1,
        "rarest_stall": 5,
        "observe_seconds": 0.2,
        "startup_timeout_seconds": 120.0,
        "step_timeout_seconds": 60.0,
    },
    minutes=0.08,
    short_minutes=0.06,
    block_seconds=0.02,
    pairs=3,
    repeats=1,
    job_seconds=0.5,
    step_seconds=(0.001, 0.004),
    probe_pairs=(4, 4),
    width=64,
    truth_steps=(1, 3),
    turns=1,
    cases={seed: (f"params/case_{seed}_small.yaml", {**SHORT, **TINY_CASES[seed]}) for seed in SEEDS},
    dtype="float32",
    command_minutes=0.15,
    script={"width": 64, "depth": 2, "heads": 2, "length": 64, "batch_size": 16},
    script_steps=40,
    of_a_kind=1,
    job=IN_32_BIT | {"quantization.bnb_4bit_compute_dtype": "float32"},
    compiler={"training_arguments.torch_compile_backend": "eager"},
)
