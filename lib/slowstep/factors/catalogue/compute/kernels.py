"""The model: its adapter, its attention, and how its graph is run."""

from __future__ import annotations

from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.catalogue.gradient_checkpointing import COMPUTE
from slowstep.factors.entries import (
    TRAINING_ARGUMENTS,
    all_of,
    argument,
    at,
    has_adapter,
    needs_compiler,
    needs_cuda,
    needs_package,
    number,
    on_cpu,
    one_of,
    only,
    section,
    switched,
    whole,
)
from slowstep.factors.factor import Factor, Level, Meaning
from slowstep.settings.convert import describe
from slowstep.settings.run import Run

ADAPTED = COMPUTE | {"optimizer"}


def _modules(value: Any) -> str | None:
    if value == "all-linear" or (isinstance(value, list) and value and all(isinstance(v, str) and v for v in value)):
        return None
    return f"expected all-linear or a list of module names, found {describe(value)}"


def _needs_experts(value: Any, run: Run, machine: Machine) -> str | None:
    """a model of transformers with experts, which only a command can have"""
    return "it needs a command's model with experts" if run.objects is None else None


def _sdpa(value: Any, run: Run) -> dict[str, Any]:
    """Return the attention that these backends belong to, if the run has another."""
    return {} if run["model.attn_implementation"] in (None, "sdpa") else {"model.attn_implementation": "sdpa"}


def _same_products(run: Run) -> dict[str, Any]:
    """Return the setting that keeps the run's matrix products: compiling would switch TF32 on if nothing is set."""
    return {TRAINING_ARGUMENTS + "tf32": False} if run["tf32"] is None and not run.compiled else {}


def _compile_level(value: Any, run: Run) -> Level:
    names = ("torch_compile_mode", "torch_compile_backend")
    unset = {TRAINING_ARGUMENTS + name: None for name in names if not value and run[name]}
    return Level(
        value=value,
        overrides={TRAINING_ARGUMENTS + "torch_compile": value} | unset,
        keeps=_same_products(run),
        expects={"compiled": value},
    )


def _mode_level(value: Any, run: Run) -> Level:
    return Level(
        value=value,
        overrides={TRAINING_ARGUMENTS + "torch_compile": True, TRAINING_ARGUMENTS + "torch_compile_mode": value},
        keeps=_same_products(run),
        expects={"compiled": True, "torch_compile_mode": value},
    )


def _dynamic_level(value: Any, run: Run) -> Level:
    compiled = {} if run.compiled else {TRAINING_ARGUMENTS + "torch_compile": True} | _same_products(run)
    return Level(
        value=value,
        overrides={"model.torch_compile_dynamic": value},
        held_constant=compiled,
        expects={"compiled": True, "torch_compile_dynamic": value},
    )


def _flash_takes_no_mask(value: Any, run: Run, machine: Machine) -> str | None:
    """batches without padding, and no compiling, for flash on a CUDA device"""
    padded = run["dataset.padding"] != "longest" or run["per_device_train_batch_size"] > 1
    # transformers leaves out a mask that is all ones, but not while a graph is traced
    if value == "flash" and (padded or run.compiled) and not on_cpu(run, machine):
        return "PyTorch's flash kernel takes no padding mask on a CUDA device, and this run's batches have one"
    return None


FACTORS = (
    Factor(
        name="lora_r",
        title="LoRA rank",
        hypothesis="The adapters themselves are expensive; a lower rank would be faster.",
        cause="The work of adapters of this rank",
        meaning=Meaning.SEMANTICS,
        changes="how much the adapter can learn",
        **section("peft.r", 8, fact="lora_r"),
        touches=ADAPTED,
        examples=(4,),
        bound="lora_rank",
        refuses=has_adapter,
        accepts=whole(1),
    ),
    Factor(
        name="lora_dropout",
        title="LoRA dropout",
        hypothesis="Dropout before each adapter costs passes over the activations, and memory for its masks.",
        cause="Dropout before each adapter",
        meaning=Meaning.SEMANTICS,
        changes="how the adapter is regularised",
        **section("peft.lora_dropout", 0.0),
        touches=COMPUTE,
        examples=(0.1, 0.0),
        refuses=has_adapter,
        accepts=number(0, 0.99),
    ),
    Factor(
        name="lora_target_modules",
        title="LoRA target modules",
        hypothesis="Adapters at every linear layer cost more than they bring.",
        cause="The work of adapters at so many layers",
        meaning=Meaning.SEMANTICS,
        changes="where the adapter can learn",
        current=lambda run: (run["peft"] or {}).get("target_modules"),
        level=lambda value, run: Level(
            value=value,
            overrides={"peft.target_modules": value},
            # PEFT replaces all-linear by the layers that it found
            expects={"lora_target_modules": sorted({v.rsplit(".")[-1] for v in value})}
            if isinstance(value, list)
            else {"lora_all_linear": True},
        ),
        touches=ADAPTED,
        examples=(["q_proj", "v_proj"], "all-linear"),
        refuses=has_adapter,
        accepts=_modules,
    ),
    Factor(
        name="use_dora",
        title="DoRA",
        hypothesis="DoRA works out the norm of each adapted weight in each pass; LoRA alone does not.",
        cause="DoRA's norm of each adapted weight",
        meaning=Meaning.SEMANTICS,
        changes="how the adapter learns: direction and length of the weights apart, or not",
        **section("peft.use_dora", False),
        touches=ADAPTED,
        examples=(True, False),
        refuses=has_adapter,
        proposes=only(False),
        an_extra=True,
        undoes=True,
    ),
    Factor(
        name="attn_implementation",
        title="Attention implementation",
        hypothesis="Attention writes its whole matrix of scores to memory; a fused implementation does not.",
        cause="Attention in a slower implementation",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **section("model.attn_implementation", default="sdpa"),
        touches=COMPUTE,
        examples=("eager", "sdpa", "flash_attention_2", "flex_attention"),
        bound="kernels",
        requires=all_of(
            at(["flash_attention_2"], all_of(needs_cuda("flash attention"), needs_package("flash_attn", "it"))),
            at(["flex_attention"], needs_cuda("flex attention's backward pass")),
        ),
        proposes=only("sdpa"),
        accepts=one_of("eager", "sdpa", "flash_attention_2", "flex_attention"),
    ),
    Factor(
        name="experts_implementation",
        title="The way over experts",
        hypothesis="The experts of a mixture are gone over one by one, in a loop in Python.",
        cause="Going over the experts one by one",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **section("model.experts_implementation"),
        touches=COMPUTE,
        examples=("grouped_mm", "batched_mm", "eager"),
        requires=_needs_experts,
        proposes=only("grouped_mm"),
        accepts=one_of("eager", "batched_mm", "grouped_mm"),
    ),
    Factor(
        name="sdpa_backend",
        title="Backend of scaled dot-product attention",
        hypothesis="PyTorch chooses among several kernels, and not always the fastest for these shapes.",
        cause="Attention in a slower kernel",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **section("model.sdpa_backend", held_constant=_sdpa),
        touches=COMPUTE,
        examples=("math", "flash", "efficient", "cudnn"),
        bound="kernels",
        requires=all_of(at(["efficient", "cudnn"], needs_cuda("this backend")), _flash_takes_no_mask),
        proposes=only(),
        accepts=one_of("math", "flash", "efficient", "cudnn"),
    ),
    Factor(
        name="torch_compile",
        title="torch.compile",
        hypothesis="Many small operations are launched one by one; a compiled graph fuses them.",
        cause=switched("Launching small operations one by one", "Compiling, with what compiled graphs do besides"),
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; compiling takes time at the start, and for new shapes",
        current=lambda run: run.compiled,
        level=_compile_level,
        touches=COMPUTE,
        examples=(True, False),
        bound="fusion",
        requires=at([True], needs_compiler),
        startup_seconds=30.0,
    ),
    Factor(
        name="torch_compile_mode",
        title="Mode of torch.compile",
        hypothesis="A compiled graph with CUDA graphs, or with kernels tuned on this device, has less overhead yet.",
        cause="Launching operations that this mode of compiling saves",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; tuning takes its time once",
        current=lambda run: run["torch_compile_mode"],
        level=_mode_level,
        touches=COMPUTE,
        examples=("default", "reduce-overhead", "max-autotune-no-cudagraphs"),
        bound="fusion",
        requires=all_of(at(["reduce-overhead"], needs_cuda("recording CUDA graphs")), needs_compiler),
        proposes=only(),
        startup_seconds=30.0,
        accepts=one_of("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    ),
    Factor(
        name="torch_compile_dynamic",
        title="Compiling for any shape",
        hypothesis="Each new length of a batch is compiled anew; one graph for all lengths is not.",
        cause=switched("Compiling anew for each new shape", "Running a graph that is made for any shape"),
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        current=lambda run: run["model.torch_compile_dynamic"],
        level=_dynamic_level,
        touches=COMPUTE,
        examples=(True,),
        requires=needs_compiler,
        proposes=only(),
        startup_seconds=30.0,
    ),
    Factor(
        name="use_liger_kernel",
        title="Liger kernels and chunked loss",
        hypothesis="Norms, rotations and the loss over the vocabulary make passes over memory that fused kernels save.",
        cause=switched("Going over memory where fused kernels do not", "Running Liger's kernels"),
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **argument("use_liger_kernel"),
        touches=COMPUTE,
        examples=(True,),
        bound="peak",
        requires=all_of(needs_cuda("a Triton kernel"), needs_package("liger_kernel", "it")),
    ),
)
