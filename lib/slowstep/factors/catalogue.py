"""Every factor the kit can test. Adding one is adding an entry here (docs/adding-a-factor.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowstep.factors.factor import ALL_PHASES, Factor, Level, Meaning
from slowstep.machine import Machine
from slowstep.settings import Settings
from slowstep.settings.convert import describe
from slowstep.settings.ecosystem import optimizer_names
from slowstep.settings.errors import nearest

TRAINING = "training_arguments."
COMPUTE = frozenset({"forward", "backward"})


def _argument(name: str) -> dict[str, Callable]:
    """`current` and `level` of a factor that is one training argument, observed under its own name."""
    return {
        "current": lambda s: s.training(name),
        "level": lambda value, s: Level(value=value, overrides={TRAINING + name: value}, expects={name: value}),
    }


def _dataset(name: str) -> dict[str, Callable]:
    """`current` and `level` of a factor that is one key of the dataset section."""
    return {
        "current": lambda s: getattr(s.dataset, name),
        "level": lambda value, s: Level(value=value, overrides={f"dataset.{name}": value}, expects={name: value}),
    }


def _with_workers(name: str) -> dict[str, Callable]:
    """As `_argument`, for what only exists beside loader workers: both sides get them if the run has none."""

    def level(value: Any, s: Settings) -> Level:
        workers = s.training("dataloader_num_workers") or max(
            [v for v in s.data_loading.get("dataloader_num_workers", []) if isinstance(v, int)], default=2
        )
        return Level(
            value=value,
            overrides={TRAINING + name: value},
            given={} if s.training("dataloader_num_workers") else {TRAINING + "dataloader_num_workers": workers},
            expects={name: value},
        )

    return {"current": lambda s: s.training(name), "level": level}


def _whole(minimum: int) -> Callable[[Any], str | None]:
    def accepts(value: Any) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
            return None
        return f"expected a whole number of at least {minimum}, found {describe(value)}"

    return accepts


def _switch(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"expected true or false, found {describe(value)}"


def _one_of(*allowed: str) -> Callable[[Any], str | None]:
    def accepts(value: Any) -> str | None:
        return None if value in allowed else f"expected one of {', '.join(allowed)}, found {describe(value)}"

    return accepts


def _needs_cuda(what: str) -> Callable[[Any, Settings, Machine], str | None]:
    def requires(value: Any, s: Settings, machine: Machine) -> str | None:
        on_cpu = machine.device == "cpu" or s.training("use_cpu")
        return f"{what} needs a CUDA device; this run trains on the CPU" if on_cpu else None

    return requires


def _padding_level(value: Any, s: Settings) -> Level:
    # packing needs lengths beforehand; both sides tokenise once, so that only the packing differs
    given = {"dataset.tokenize": "once"} if value == "packing" and s.dataset.tokenize != "once" else {}
    return Level(value=value, overrides={"dataset.padding": value}, given=given, expects={"padding": value})


def _epoch_in_trial(s: Settings) -> str | None:
    """Why an epoch of a trial is not an epoch of the job."""
    if s.job.samples is None:
        return "it acts once an epoch, and job.samples, the size of an epoch, is not given"
    return None


def _optimizer_name(value: Any) -> str | None:
    if value in optimizer_names():
        return None
    return f"transformers has no optimizer {describe(value)}.{nearest(str(value), optimizer_names())}".rstrip(".")


def _optimizer_level(value: Any, s: Settings) -> Level:
    eight_bit = "8bit" in str(value)
    return Level(
        value=value,
        overrides={TRAINING + "optim": value},
        expects={"optim": value}
        | ({"optimizer_state_bits": 8} if eight_bit else {})
        | ({"optimizer_paged": True} if str(value).startswith("paged") else {}),
    )


def _optimizer_requires(value: Any, s: Settings, machine: Machine) -> str | None:
    if str(value).startswith("paged"):
        # bitsandbytes falls back to unpaged state on the CPU and still reports is_paged=True
        return _needs_cuda("a paged optimizer")(value, s, machine)
    return None


def _attention_requires(value: Any, s: Settings, machine: Machine) -> str | None:
    if value == "flash_attention_2":
        return _needs_cuda("flash attention")(value, s, machine)
    if value == "flex_attention":
        return _needs_cuda("flex attention's backward pass")(value, s, machine)
    return None


def _precision_level(value: Any, s: Settings) -> Level:
    return Level(
        value=value,
        overrides={TRAINING + "bf16": value == "bf16", TRAINING + "fp16": value == "fp16"},
        expects={"autocast": {"fp32": "no"}.get(value, value)},
    )


def _current_precision(s: Settings) -> str:
    return "bf16" if s.training("bf16") else "fp16" if s.training("fp16") else "fp32"


def _weights_level(value: Any, s: Settings) -> Level:
    if value == "16bit":
        return Level(
            value=value,
            overrides={"quantization": None, "model.dtype": "bfloat16"},
            expects={"weight_bits": 16},
        )
    compute = "bfloat16" if s.training("bf16") else s.model.dtype
    config = {
        "8bit": {"load_in_8bit": True},
        "4bit": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": compute},
    }
    return Level(value=value, overrides={"quantization": config[value]}, expects={"weight_bits": int(value[0])})


def _current_weights(s: Settings) -> str:
    q = s.quantization or {}
    if q.get("load_in_4bit"):
        return "4bit"
    if q.get("load_in_8bit"):
        return "8bit"
    return "32bit" if s.model.dtype == "float32" else "16bit"


_FACTORS = (
    Factor(
        name="cached_batches",
        title="Data loading, ceiling",
        hypothesis="The step waits for data: with batches ready in memory it would be faster.",
        meaning=Meaning.DIAGNOSTIC,
        changes="trains the same few batches again and again; shows the most that any data-loading change can bring",
        **_dataset("cached_batches"),
        touches=frozenset({"data", "host_to_device"}),
        shares_cores=True,
        accepts=_whole(1),
    ),
    Factor(
        name="dataloader_num_workers",
        title="Loader workers",
        hypothesis="Batches are prepared in the training process; worker processes would prepare them meanwhile.",
        meaning=Meaning.EXACT,
        changes="nothing in training; needs memory and cores for the worker processes",
        **_argument("dataloader_num_workers"),
        touches=frozenset({"data"}),
        shares_cores=True,
        bound="data",
        accepts=_whole(0),
    ),
    Factor(
        name="dataloader_prefetch_factor",
        title="Prefetch factor",
        hypothesis="Workers run dry between batches; a deeper queue would even that out.",
        meaning=Meaning.EXACT,
        changes="nothing in training; needs memory for the queued batches",
        **_with_workers("dataloader_prefetch_factor"),
        touches=frozenset({"data"}),
        shares_cores=True,
        bound="data",
        accepts=_whole(1),
    ),
    Factor(
        name="dataloader_persistent_workers",
        title="Persistent workers",
        hypothesis="Workers are started anew each epoch, and the step waits for them.",
        meaning=Meaning.EXACT,
        changes="nothing in training; workers keep their memory between epochs",
        **_with_workers("dataloader_persistent_workers"),
        touches=frozenset({"data"}),
        shares_cores=True,
        bound="epoch_start",
        unmet=_epoch_in_trial,
        accepts=_switch,
    ),
    Factor(
        name="dataloader_pin_memory",
        title="Pinned memory",
        hypothesis="Copies to the device are slow because the batches lie in pageable memory.",
        meaning=Meaning.EXACT,
        changes="nothing in training; page-locks host memory",
        **_argument("dataloader_pin_memory"),
        touches=frozenset({"data", "host_to_device"}),
        bound="host_to_device",
        requires=_needs_cuda("pinned memory"),
        accepts=_switch,
    ),
    Factor(
        name="tokenize",
        title="Tokenise once",
        hypothesis="Tokenising each example every time it is drawn costs time that doing it once beforehand saves.",
        meaning=Meaning.EXACT,
        changes="nothing in training; a pass over the data at start-up, and memory or disk for the result",
        **_dataset("tokenize"),
        touches=frozenset({"data"}),
        shares_cores=True,
        bound="data",
        accepts=_one_of("once", "on_the_fly"),
    ),
    Factor(
        name="padding",
        title="Padding",
        hypothesis="Positions that are only padding are computed for nothing.",
        meaning=Meaning.SEMANTICS,
        changes="packing puts several examples in a sequence, so batches and the steps of an epoch change; "
        "padding to the longest or to the maximum trains the same",
        current=lambda s: s.dataset.padding,
        level=_padding_level,
        touches=ALL_PHASES,
        bound="padding",
        accepts=_one_of("longest", "max_length", "packing"),
    ),
    Factor(
        name="gradient_checkpointing",
        title="Gradient checkpointing",
        hypothesis="Recomputing the forward pass in the backward pass costs more than the memory it saves brings.",
        meaning=Meaning.EXACT,
        changes="nothing in training; without it the activations of all layers stay in memory",
        **_argument("gradient_checkpointing"),
        touches=COMPUTE,
        bound="recomputation",
        accepts=_switch,
    ),
    Factor(
        name="per_device_train_batch_size",
        title="Batch size",
        hypothesis="Batches are too small to keep the device busy.",
        meaning=Meaning.SEMANTICS,
        changes="another effective batch size: other gradients, fewer steps an epoch, and a learning rate to match",
        **_argument("per_device_train_batch_size"),
        touches=ALL_PHASES,
        accepts=_whole(1),
    ),
    Factor(
        name="max_length",
        title="Sequence length",
        hypothesis="Long sequences are slow beyond their tokens: attention grows with the square of the length.",
        meaning=Meaning.SEMANTICS,
        changes="longer examples are cut off, so the model never sees their ends",
        **_dataset("max_length"),
        touches=ALL_PHASES,
        bound="attention",
        accepts=_whole(2),
    ),
    Factor(
        name="attn_implementation",
        title="Attention implementation",
        hypothesis="Attention writes its whole matrix of scores to memory; a fused implementation does not.",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        current=lambda s: s.model.attn_implementation or "sdpa",
        level=lambda value, s: Level(
            value=value,
            overrides={"model.attn_implementation": value},
            expects={"attn_implementation": value},
        ),
        touches=COMPUTE,
        requires=_attention_requires,
        accepts=_one_of("eager", "sdpa", "flash_attention_2", "flex_attention"),
    ),
    Factor(
        name="optim",
        title="Optimizer",
        hypothesis="The optimizer's own step is a large part of the time.",
        meaning=Meaning.NUMERICS,
        changes="the update rule or its precision",
        current=lambda s: s.training("optim") or "adamw_torch_fused",
        level=_optimizer_level,
        touches=frozenset({"optimizer"}),
        bound="optimizer",
        requires=_optimizer_requires,
        accepts=_optimizer_name,
    ),
    Factor(
        name="lora_r",
        title="LoRA rank",
        hypothesis="The adapters themselves are expensive; a lower rank would be faster.",
        meaning=Meaning.SEMANTICS,
        changes="how much the adapter can learn",
        current=lambda s: (s.peft or {}).get("r"),
        level=lambda value, s: Level(value=value, overrides={"peft.r": value}, expects={"lora_r": value}),
        touches=COMPUTE | {"optimizer"},
        bound="lora_rank",
        requires=lambda v, s, m: None if s.peft else "the run trains no LoRA adapter (no peft section)",
        accepts=_whole(1),
    ),
    Factor(
        name="precision",
        title="Compute precision",
        hypothesis="Computing in 32 bit is slow; the device has faster 16-bit arithmetic.",
        meaning=Meaning.NUMERICS,
        changes="rounding of activations and gradients",
        current=_current_precision,
        level=_precision_level,
        touches=COMPUTE | {"optimizer"},
        accepts=_one_of("fp32", "bf16", "fp16"),
        requires=lambda v, s, m: _needs_cuda("fp16 training")(v, s, m) if v == "fp16" else None,
    ),
    Factor(
        name="weights",
        title="Weight precision",
        hypothesis="Unpacking quantised weights costs time; 16-bit weights would be faster where they fit.",
        meaning=Meaning.NUMERICS,
        changes="rounding of the frozen weights",
        current=_current_weights,
        level=_weights_level,
        touches=COMPUTE | {"optimizer", "host_to_device"},
        accepts=_one_of("16bit", "8bit", "4bit"),
        requires=lambda v, s, m: (
            None if v == "16bit" or s.peft else "quantised weights need LoRA, and the run has no peft section"
        ),
    ),
)

CATALOGUE: dict[str, Factor] = {f.name: f for f in _FACTORS}
