"""Numerics: the arithmetic of the passes, of the weights and of the optimizer."""

from __future__ import annotations

from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.catalogue.gradient_checkpointing import COMPUTE
from slowstep.factors.entries import (
    TRAINING_ARGUMENTS,
    argument,
    at,
    needs_cuda,
    needs_package,
    of_a_command,
    on_cpu,
    one_of,
    only,
    only_if,
    section,
    switched,
)
from slowstep.factors.factor import Factor, Level, Meaning
from slowstep.settings.convert import describe
from slowstep.settings.errors import nearest
from slowstep.settings.library_arguments import FOREACH, FUSED, optimizer_names
from slowstep.settings.run import DTYPES, Run

UPDATED = COMPUTE | {"optimizer"}

ADAMW = ("adamw", "paged_adamw")

MADE = {
    "adamw_torch": "torch.AdamW",
    "adamw_torch_fused": "torch.AdamW",
    "adamw_bnb_8bit": "bitsandbytes.AdamW",
    "adamw_8bit": "bitsandbytes.AdamW",
    "paged_adamw_8bit": "bitsandbytes.AdamW",
    "paged_adamw_32bit": "bitsandbytes.AdamW",
    "adafactor": "transformers.Adafactor",
    "sgd": "torch.SGD",
    "adagrad": "torch.Adagrad",
    "rmsprop": "torch.RMSprop",
    **dict.fromkeys(("rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit"), "bitsandbytes.RMSprop"),
    **dict.fromkeys(("lion_8bit", "lion_32bit", "paged_lion_8bit", "paged_lion_32bit"), "bitsandbytes.Lion"),
    **dict.fromkeys(("ademamix", "ademamix_8bit"), "bitsandbytes.AdEMAMix"),
    **dict.fromkeys(("paged_ademamix_8bit", "paged_ademamix_32bit"), "bitsandbytes.AdEMAMix"),
}
"""The package and the class of the optimizers, by name; of the others only the package is known (`PACKAGES`)."""

PACKAGES = {
    "torchao": ("adamw_torch_4bit", "adamw_torch_8bit"),
    "galore_torch": ("galore",),
    "apollo_torch": ("apollo",),
    "lomo_optim": ("lomo", "adalomo"),
    "schedulefree": ("schedule_free",),
    "grokadamw": ("grokadamw",),
    "optimi": ("stable_adamw",),
    "torchdistx": ("adamw_anyprecision",),
    "torch_xla": ("adamw_torch_xla",),
    "torch_npu": ("adamw_torch_npu",),
}
"""Packages of optimizers that transformers does not bring, each with the first letters of the names that need it."""

four_bit = only_if(
    lambda run: bool((run["quantization"] or {}).get("load_in_4bit")),
    "the run has no 4-bit weights (quantization.load_in_4bit)",
)


def _precision_level(value: Any, run: Run) -> Level:
    return Level(
        value=value,
        overrides={TRAINING_ARGUMENTS + "bf16": value == "bf16", TRAINING_ARGUMENTS + "fp16": value == "fp16"},
        expects={"autocast": {"fp32": "no"}.get(value, value)},
    )


def _current_precision(run: Run) -> str:
    """Return the precision of the products: autocast's, or else that of the weights."""
    if run["bf16"] or run["fp16"]:
        return "bf16" if run["bf16"] else "fp16"
    return next(name for name, dtype in DTYPES.items() if dtype == run["model.dtype"])


def _weights_level(value: Any, run: Run) -> Level:
    computed = DTYPES[_current_precision(run)]
    frozen_half = (
        computed == "float16" and run["peft"]
    )  # trained weights can't be float16: no gradient scaler takes them
    config = {
        "16bit": {"quantization": None, "model.dtype": "float16" if frozen_half else "bfloat16"},
        "8bit": {"quantization": {"load_in_8bit": True}},
        "4bit": {
            "quantization": {
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_compute_dtype": computed,
            }
        },
    }
    bits = int(value.removesuffix("bit"))
    return Level(value=value, overrides=config[value], expects={"weight_bits": bits})


def _current_weights(run: Run) -> str:
    q = run["quantization"] or {}
    if q.get("load_in_4bit"):
        return "4bit"
    if q.get("load_in_8bit"):
        return "8bit"
    return "32bit" if run["model.dtype"] == "float32" else "16bit"


def _weights_refuse(value: Any, run: Run) -> str | None:
    """8bit and 4bit need LoRA, and the run has no peft section"""
    return None if value == "16bit" or run["peft"] else "quantised weights need LoRA, and the run has no peft section"


def _optimizer_name(value: Any) -> str | None:
    if isinstance(value, str) and (value in optimizer_names() or not optimizer_names()):
        return None
    return f"transformers has no optimizer {describe(value)}.{nearest(str(value), optimizer_names())}".rstrip(".")


def _current_optimizer(run: Run) -> str:
    return str(run["optim"] or "adamw_torch_fused")


def _optimizer_level(value: Any, run: Run) -> Level:
    eight_bit = "8bit" in value and "torch" not in value  # torchao's optimizers look as if they held 32 bits
    return Level(
        value=value,
        overrides={TRAINING_ARGUMENTS + "optim": value},
        expects=({"optimizer": MADE[value]} if value in MADE else {"optimizer_package": _package(value)})
        | ({"fused": value == "adamw_torch_fused"} if value in ("adamw_torch", "adamw_torch_fused") else {})
        | ({"optimizer_state_bits": 8} if eight_bit else {})
        | ({"optimizer_paged": True} if value.startswith("paged") else {}),
        meaning=_update_rule(_current_optimizer(run), value),
    )


def _update_rule(now: str, then: str) -> Meaning:
    """Return the meaning of a change from one optimizer to another.

    AdamW in 32 bit is the same in every implementation. Rounded states are another arithmetic. Every other rule is
    another optimisation.
    """
    if not all(name.startswith(ADAMW) for name in (now, then)):
        return Meaning.SEMANTICS
    rounded = any(word in name for word in ("8bit", "4bit", "anyprecision") for name in (now, then))
    return Meaning.NUMERICS if rounded else Meaning.EXACT


def _optimizer_requires(value: Any, run: Run, machine: Machine) -> str | None:
    """a CUDA device (paged); the optimizer's package"""
    if value.startswith("paged"):
        # bitsandbytes falls back to unpaged state on the CPU and still reports is_paged=True
        return needs_cuda("a paged optimizer")(value, run, machine)
    package = _package(value)
    return needs_package(package, value)(value, run, machine) if package else None


def _package(optimizer: str) -> str | None:
    """Return the package that brings an optimizer; None for what PyTorch, transformers and bitsandbytes bring."""
    return next((package for package, begins in PACKAGES.items() if optimizer.startswith(begins)), None)


def _foreach_refuses(value: Any, run: Run) -> str | None:
    """the optimizer is not one of PyTorch's, or is the fused one"""
    now = _current_optimizer(run)
    if value and run["optimizer_kwargs.fused"]:
        return "the update is in one kernel, which takes no lists"
    return None if now in FOREACH else f"{now} takes no foreach; write training_arguments.optim: adamw_torch"


def _one_by_one_here(run: Run, machine: Machine) -> tuple[Any, ...]:
    """Return True on a CPU, and where a run says False: on a device PyTorch goes over lists where nothing is said."""
    return (True,) if on_cpu(run, machine) or run["optimizer_kwargs.foreach"] is False else ()


def _fused_refuses(value: Any, run: Run) -> str | None:
    """the optimizer is none of PyTorch's that have a fused form; AdamW's is one of `optim`"""
    now = _current_optimizer(run)
    if now in FUSED:
        return None
    return "AdamW's fused form is optim: adamw_torch_fused" if now.startswith(ADAMW) else f"{now} has no fused form"


def _foreach(value: Any, run: Run) -> dict[str, Any]:
    """Return what becomes of the other way of updating: PyTorch refuses an optimizer with both."""
    return {"optimizer_kwargs.foreach": None} if value and run["optimizer_kwargs.foreach"] else {}


def _precision_refuses(value: Any, run: Run) -> str | None:
    """fp32 where the weights themselves are in 16 bit, and any where they are in 64, which autocast leaves alone"""
    if run["model.double_precision"]:
        return "autocast leaves a model in double precision as it is; the factor double_precision changes that"
    if value == "fp32" and run["model.dtype"] != "float32":
        return f"without autocast the products are still {run['model.dtype']}, as the weights are (model.dtype)"
    return None


FACTORS = (
    Factor(
        name="precision",
        title="Compute precision",
        hypothesis="Computing in 32 bit is slow; the device has faster 16-bit arithmetic.",
        cause="Arithmetic in a slower precision than the device offers",
        meaning=Meaning.NUMERICS,
        changes="rounding of activations and gradients",
        current=_current_precision,
        level=_precision_level,
        touches=UPDATED,
        examples=("bf16", "fp16", "fp32"),
        bound="precision",
        requires=at(["fp16"], needs_cuda("fp16 training")),
        refuses=_precision_refuses,
        accepts=one_of(*DTYPES),
        undoes_on_cpu=("fp32",),  # without bf16 in its instructions, a processor takes five times as long in it
    ),
    Factor(
        name="double_precision",
        title="Double precision",
        hypothesis="The model computes in 64 bits, as data from numpy does if nobody says otherwise.",
        cause="Computing in double precision",
        meaning=Meaning.NUMERICS,
        changes="rounding of weights, activations and gradients to 32 bits",
        **section("model.double_precision", default=False),
        touches=UPDATED,
        examples=(False,),
        requires=of_a_command("double_precision", "model with weights of 64 bits"),
        undoes=True,
    ),
    Factor(
        name="tf32",
        title="TF32 matrix products",
        hypothesis="32-bit matrix products run at a fraction of the rate of the tensor cores.",
        cause=switched("Computing 32-bit matrix products without the tensor cores", "Rounding to TF32"),
        meaning=Meaning.NUMERICS,
        changes="rounding of the factors of 32-bit matrix products to 10 bits",
        current=lambda run: bool(run.compiled if run["tf32"] is None else run["tf32"]),
        level=argument("tf32")["level"],
        touches=COMPUTE,
        examples=(True, False),
        requires=needs_cuda("TF32"),
    ),
    Factor(
        name="weights",
        title="Weight precision",
        hypothesis="Unpacking quantised weights costs time; 16-bit weights would be faster where they fit.",
        cause=lambda now, new: (
            "Unpacking quantised weights" if str(now) in ("4bit", "8bit") else "Computing with weights of this size"
        ),
        meaning=Meaning.NUMERICS,
        changes="rounding of the weights",
        current=_current_weights,
        level=_weights_level,
        touches=UPDATED | {"host_to_device"},
        examples=("16bit", "8bit", "4bit"),
        refuses=_weights_refuse,
        proposes=only("16bit"),
        accepts=one_of("16bit", "8bit", "4bit"),
    ),
    Factor(
        name="bnb_4bit_quant_type",
        title="4-bit format",
        hypothesis="One of the two 4-bit formats is unpacked faster.",
        cause="Unpacking this 4-bit format",
        meaning=Meaning.NUMERICS,
        changes="rounding of the frozen weights",
        **section("quantization.bnb_4bit_quant_type", default="fp4"),
        touches=UPDATED,
        examples=("fp4", "nf4"),
        refuses=four_bit,
        accepts=one_of("nf4", "fp4"),
    ),
    Factor(
        name="bnb_4bit_use_double_quant",
        title="Double quantisation",
        hypothesis="Unpacking the scales of the scales costs time.",
        cause=switched("Reading scales that are not quantised", "Unpacking the scales of the scales"),
        meaning=Meaning.NUMERICS,
        changes="rounding of the scales of the frozen weights; saves 0.4 bit a parameter",
        **section("quantization.bnb_4bit_use_double_quant", default=False),
        touches=UPDATED,
        examples=(True, False),
        refuses=four_bit,
    ),
    Factor(
        name="bnb_4bit_compute_dtype",
        title="Arithmetic of 4-bit layers",
        hypothesis="4-bit weights are unpacked to 32 bit, and multiplied at 32-bit speed.",
        cause="Multiplying unpacked weights in this precision",
        meaning=Meaning.NUMERICS,
        changes="rounding of the products with frozen weights",
        **section("quantization.bnb_4bit_compute_dtype", default="float32"),
        touches=UPDATED,
        examples=("bfloat16", "float16", "float32"),
        refuses=four_bit,
        accepts=one_of("bfloat16", "float16", "float32"),
    ),
    Factor(
        name="optim",
        title="Optimizer",
        hypothesis="The optimizer's own step is a large part of the time.",
        cause="This optimizer's update",
        meaning=Meaning.SEMANTICS,
        changes="nothing among the 32-bit forms of AdamW; rounding of its states in 8 bit; else the update rule itself",
        current=_current_optimizer,
        level=_optimizer_level,
        touches=frozenset({"optimizer"}),
        examples=(
            "adamw_torch_fused",
            "adamw_torch",
            "adamw_bnb_8bit",
            "paged_adamw_8bit",
            "adamw_torch_8bit",
            "lion_8bit",
            "adafactor",
            "sgd",
        ),
        bound="optimizer",
        requires=_optimizer_requires,
        accepts=_optimizer_name,
    ),
    Factor(
        name="fused",
        title="Optimizer in one kernel",
        hypothesis="The optimizer goes over its parameters once for each operation of its rule; one kernel goes once.",
        cause=switched("Updating by one operation after another", "Updating in one kernel"),
        meaning=Meaning.EXACT,
        changes="nothing in training",
        **section("optimizer_kwargs.fused", default=False, excludes=_foreach),
        touches=frozenset({"optimizer"}),
        examples=(True, False),
        bound="optimizer",
        refuses=_fused_refuses,
        proposes=only(True),
    ),
    Factor(
        name="own_rule",
        title="Optimizer with a rule of its own",
        hypothesis="The optimizer has a rule of its own, and goes from parameter to parameter; one kernel goes once.",
        cause="Updating one parameter after another by a rule of the optimizer's own",
        meaning=Meaning.DIAGNOSTIC,
        changes="updates weights by one kernel of AdamW at a learning rate of nearly 0, which is another rule, and "
        "leaves out what else the step does; shows the most that a faster update can bring",
        limits="a faster update by the same rule",
        **section("model.own_rule", default=False),
        touches=frozenset({"optimizer"}),
        examples=(False,),
        bound="optimizer",
        requires=of_a_command("own_rule", "optimizer that updates one parameter after another by a rule of its own"),
        accepts=one_of(False),
        undoes=True,
    ),
    Factor(
        name="foreach",
        title="Optimizer over lists of tensors",
        hypothesis="The optimizer goes from parameter to parameter; one call over all of them launches less.",
        cause=switched("Updating one parameter after another", "Updating all parameters in one call"),
        meaning=Meaning.EXACT,
        changes="nothing in training; the update needs memory for copies",
        **section("optimizer_kwargs.foreach"),
        touches=frozenset({"optimizer"}),
        examples=(True, False),
        bound="optimizer",
        refuses=_foreach_refuses,
        proposes=_one_by_one_here,
    ),
)
