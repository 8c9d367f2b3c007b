"""Memory for speed: what is kept or computed again, and how much is computed at once."""

from __future__ import annotations

from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.entries import (
    TRAINING_ARGUMENTS,
    all_of,
    argument,
    argument_key,
    changed,
    having,
    needs_cuda,
    of_a_command,
    one_of,
    only,
    section,
    switched,
    whole,
    with_meaning,
)
from slowstep.factors.factor import ALL_PHASES, Factor, Level, Meaning
from slowstep.settings.run import Run

COMPUTE = frozenset({"forward", "backward"})
checkpointing = having(gradient_checkpointing=True)

MOST_TIMES = 4
"""The largest factor by which a batch is made larger to find out what that brings. A step takes about as much
longer."""

FAR_TOO_SMALL = 1.0
"""The least gain of batches `MOST_TIMES` as large that shows the run's own to be far too small: twice as many samples a
second, as where two thirds of a step do not grow with its batch. Every run gains something by larger ones."""

FILLED = 2
"""The batches that an epoch must still have when they are made larger."""


def _batch_level(value: Any, run: Run, batch: int, **more: Any) -> Level:
    """Return a level with batches of a size, beside more arguments that are changed. The loader's batch is observed."""
    together = run["batches_together"] if run.objects is not None else None
    changed = {"per_device_train_batch_size": batch} | more
    return Level(
        value=value,
        overrides={TRAINING_ARGUMENTS + name: one for name, one in changed.items()},
        expects=changed | {"per_device_train_batch_size": batch * (together or 1)},
    )


def _accumulation_level(value: Any, run: Run) -> Level:
    return _batch_level(value, run, run.batch_of_process // value, gradient_accumulation_steps=value)


def _divides(value: Any, run: Run) -> str | None:
    """the effective batch can't be divided by it"""
    if run.batch_of_process % value == 0:
        return None
    return f"a batch of {run.batch_of_process} samples can't be accumulated in {value} equal parts"


def _needs_one_process(value: Any, run: Run, machine: Machine) -> str | None:
    """one process, since others wait for all gradients"""
    return None if (run["processes"] or 1) == 1 else "it needs one process: several wait for all gradients"


IDLE = of_a_command("idle_gradients", "gradients that no optimizer uses")


def _needs_accumulation(value: Any, run: Run, machine: Machine) -> str | None:
    """a command that accumulates by its own code; of others, `gradient_accumulation_steps` trains the same"""
    if run.objects is None or "arguments" in run.objects:
        return "it needs a command that accumulates by its own code; gradient_accumulation_steps trains the same"
    if "accumulates" not in run.objects or not run["per_device_train_batch_size"]:
        return "it needs a command that accumulates micro-batches of a known size"
    return None


def _needs_batches(value: Any, run: Run, machine: Machine) -> str | None:
    """a command that does not accumulate, whose batches are of a known size and drawn by PyTorch's own sampler"""
    if run.objects is None:
        return "it needs a command; of a described run, per_device_train_batch_size says the same"
    trainer = "arguments" in run.objects
    if not (trainer or "loader" in run.objects) or not run["per_device_train_batch_size"]:
        return "it needs a command whose loader makes batches of a known size"
    if not trainer and (drawn := run["batches_drawn_by"]):
        return f"its batches are drawn by {drawn}, which is a class of its own"
    if "accumulates" in run.objects or (trainer and (run["gradient_accumulation_steps"] or 1) > 1):
        return "it needs a command that does not accumulate; else fewer, larger micro-batches make the same step"
    return None


def _fills_few(value: Any, run: Run) -> str | None:
    """an epoch has fewer than two such batches"""
    batch, examples = run["per_device_train_batch_size"] or 1, run["job.samples"] if run.objects is not None else None
    if examples is None or examples >= FILLED * batch * value:
        return None
    return f"an epoch of {examples:,} examples has fewer than {FILLED} batches of {batch * value:,}"


def _larger_batches(value: Any, run: Run) -> Level:
    return _batch_level(value, run, (run["per_device_train_batch_size"] or 1) * value)


def _meaning_of_recomputation(value: Any, run: Run) -> Meaning | None:
    """Return the meaning of checkpointing. A layer that is computed twice counts its batch's statistics twice.

    A model with batch normalisation then evaluates otherwise than one that computes each layer once.
    """
    return Meaning.SEMANTICS if "batch_norm" in (run.objects or ()) else None


FACTORS = (
    Factor(
        name="gradient_checkpointing",
        title="Gradient checkpointing",
        hypothesis="Recomputing the forward pass in the backward pass costs more than the memory it saves brings.",
        cause=switched("Keeping all activations", "Computing the forward pass again in the backward pass"),
        meaning=Meaning.EXACT,
        changes="nothing in training; without it the activations of all layers stay in memory",
        current=lambda run: bool(run["gradient_checkpointing"]),  # what is not said is off
        level=with_meaning(argument("gradient_checkpointing"), _meaning_of_recomputation)["level"],
        touches=COMPUTE,
        examples=(True, False),
        bound="recomputation",
        undoes=True,
        proposes=only(False),
    ),
    Factor(
        name="every_n_layers",
        title="Checkpointing of some layers",
        hypothesis="Memory is left over: recomputing every n-th layer only would cost less time.",
        cause="Computing each layer again where some would do",
        meaning=Meaning.EXACT,
        changes="nothing in training; the activations of the other layers stay in memory",
        **argument_key("gradient_checkpointing_kwargs", "every_n_layers", 1, held_constant=checkpointing),
        touches=COMPUTE,
        examples=(2,),
        bound="recomputed_layers",
        accepts=whole(1),
    ),
    Factor(
        name="use_reentrant",
        title="Reentrant checkpointing",
        hypothesis="One of PyTorch's two implementations of checkpointing has the smaller overhead.",
        cause="The overhead of this implementation of checkpointing",
        meaning=Meaning.EXACT,
        changes="nothing in training",
        **argument_key("gradient_checkpointing_kwargs", "use_reentrant", False, held_constant=checkpointing),
        touches=COMPUTE,
        examples=(True,),
        proposes=only(),
    ),
    Factor(
        name="offload",
        title="Offload of checkpoints to the host",
        hypothesis="Checkpoints kept in host memory leave the device room for more.",
        cause=switched("Keeping checkpoints on the device", "Copying checkpoints to the host and back"),
        meaning=Meaning.EXACT,
        changes="nothing in training; each checkpoint is copied to the host and back",
        **argument_key("gradient_checkpointing_kwargs", "offload", False, held_constant=checkpointing),
        touches=COMPUTE,
        examples=(True,),
        requires=needs_cuda("offload to the host"),
        proposes=only(False),
    ),
    Factor(
        name="per_device_train_batch_size",
        title="Batch size",
        hypothesis="Batches are too small to keep the device busy.",
        cause=changed("The fixed overhead of each step", "The size of this batch"),
        meaning=Meaning.SEMANTICS,
        changes="another effective batch size: other gradients, fewer steps an epoch, and a learning rate to match",
        current=lambda run: run["per_device_train_batch_size"],
        level=lambda value, run: _batch_level(value, run, value),
        touches=ALL_PHASES,
        examples=(8,),
        bound="peak",
        accepts=whole(1),
    ),
    Factor(
        name="gradient_accumulation_steps",
        title="Accumulation at the same effective batch",
        hypothesis="The same samples a step in fewer, larger parts keep the device busier.",
        cause=changed("The size of each micro-batch", "The fixed overhead of each micro-batch"),
        meaning=Meaning.EXACT,
        changes="nothing in training, up to the order of summation; larger parts need more memory",
        current=lambda run: run["gradient_accumulation_steps"],
        level=_accumulation_level,
        touches=ALL_PHASES,
        examples=(2,),
        bound="peak",
        proposes=lambda run, machine: (1,) if run["gradient_accumulation_steps"] > 1 else (),
        refuses=_divides,
        accepts=whole(1),
    ),
    Factor(
        name="larger_micro_batches",
        title="Larger micro-batches",
        hypothesis="Micro-batches are too small to keep the device busy: fewer, larger ones would make the same step.",
        cause="The fixed overhead of each micro-batch",
        meaning=Meaning.DIAGNOSTIC,
        changes="trains on so many times the samples a step; shows what fewer and larger micro-batches can bring",
        current=lambda run: 1,
        level=_larger_batches,
        touches=ALL_PHASES,
        examples=(4,),
        limits="fewer and larger micro-batches",
        proposes=lambda run, machine: (min(run["gradient_accumulation_steps"] or 1, MOST_TIMES),),
        requires=_needs_accumulation,
        accepts=whole(2),
        undoes=True,
    ),
    Factor(
        name="larger_batches",
        title="Larger batches",
        hypothesis="Batches are far too small to keep the device busy: larger ones would train twice as fast.",
        cause="Training on so few samples a step",
        meaning=Meaning.SEMANTICS,
        changes="another effective batch size, so many times the run's: other gradients, fewer steps an epoch, and a "
        "learning rate to match",
        current=lambda run: 1,
        level=_larger_batches,
        touches=ALL_PHASES,
        examples=(MOST_TIMES,),
        bound="batch",
        an_extra=True,
        least=FAR_TOO_SMALL,
        requires=_needs_batches,
        refuses=_fills_few,
        accepts=one_of(MOST_TIMES),
    ),
    Factor(
        name="idle_gradients",
        title="Gradients that nobody uses",
        hypothesis="The backward pass computes gradients that no optimizer uses: those of a teacher, of a backbone, or"
        " of a generator while its discriminator learns.",
        cause="Computing gradients that no optimizer uses",
        meaning=Meaning.DIAGNOSTIC,
        changes="has those gradients computed no more, which something else may need; shows the most that they cost",
        limits="leaving out gradients that no optimizer uses",
        **section("model.idle_gradients", default=False),
        touches=COMPUTE,
        examples=(False,),
        requires=all_of(IDLE, _needs_one_process),
        undoes=True,
    ),
    Factor(
        name="torch_empty_cache_steps",
        title="Emptying the allocator's cache",
        hypothesis="Emptying PyTorch's cache now and then frees memory, and each time costs a wait.",
        cause="Emptying PyTorch's cache",
        meaning=Meaning.EXACT,
        changes="nothing in training; lowers the memory that is reserved",
        **argument("torch_empty_cache_steps"),
        touches=COMPUTE,
        examples=(4,),
        requires=needs_cuda("PyTorch's caching allocator"),
        proposes=lambda run, machine: (None,) if run["torch_empty_cache_steps"] else (),
        accepts=lambda value: None if value is None else whole(1)(value),
    ),
)
