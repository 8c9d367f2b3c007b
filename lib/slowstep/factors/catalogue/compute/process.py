"""What the process that trains is set to: threads, the choice of kernels, checks that were left switched on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.catalogue.gradient_checkpointing import COMPUTE
from slowstep.factors.entries import (
    all_of,
    needs_cuda,
    of_a_command,
    on_cpu,
    one_of,
    only,
    section,
    switched,
    where_seen,
    whole,
)
from slowstep.factors.factor import ALL_PHASES, Factor, Meaning
from slowstep.settings.run import Run

NOTICED = 0.01
"""Collecting garbage is worth a trial from this share of the time."""


CONVOLUTIONS = of_a_command("convolutions", "model with convolutions")


def _convolutions_of_one(value: Any, run: Run, machine: Machine) -> str | None:
    """a command's model with convolutions, in one process: several have buckets of gradients in the older order"""
    if (run["processes"] or 1) > 1:
        return "it needs one process: the buckets of several were made for the weights' older order, and stay"
    return CONVOLUTIONS(value, run, machine)


def _threads(run: Run, machine: Machine) -> Sequence[Any]:
    """Return the threads that the machine has room for, if the run has others. A GPU's host needs few."""
    beside = math.ceil(int(run["processes"] or 1) / int(run["nodes"] or 1))
    now, room = run["process.num_threads"], max(1, machine.cores // beside)
    if now is None or (not on_cpu(run, machine) and 1 < now <= room):
        return ()
    return (room,)


FACTORS = (
    Factor(
        name="num_threads",
        title="Threads of an operation",
        hypothesis="Operations on the CPU use fewer threads than there are cores, or so many that they wait for each "
        "other.",
        cause="Running with an unsuitable number of threads",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **section("process.num_threads"),
        touches=ALL_PHASES,
        examples=(2, 8),
        proposes=_threads,
        undoes=True,
        accepts=whole(1),
    ),
    Factor(
        name="detect_anomaly",
        title="Detection of anomalies",
        hypothesis="Each operation keeps the stack it was called from, and each gradient is looked at for NaN.",
        cause="Keeping stacks and looking for NaN in each operation",
        meaning=Meaning.EXACT,
        changes="nothing in training; a gradient that is not finite is no longer told with its operation",
        **section("process.detect_anomaly", default=False),
        touches=ALL_PHASES,
        examples=(True, False),
        proposes=only(False),
        undoes=True,
    ),
    Factor(
        name="deterministic_algorithms",
        title="Deterministic algorithms",
        hypothesis="Some operations have faster kernels that sum in any order, and new tensors are filled first.",
        cause="Being restricted to deterministic kernels",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; on a GPU a run can no longer be repeated bit by bit",
        **section("process.deterministic_algorithms", default=False),
        touches=ALL_PHASES,
        examples=(True, False),
        proposes=only(False),
        undoes=True,
    ),
    Factor(
        name="tracing",
        title="Tracing of calls and allocations",
        hypothesis="A tool to find a fault was left on, which notes each allocation, call or line of Python.",
        cause="Noting each allocation, call or line of Python",
        meaning=Meaning.DIAGNOSTIC,
        changes="nothing in training, but the program may ask those tools what they saw; shows the most that they cost",
        limits="leaving out what traces the program",
        **section("process.tracing", default=False),
        touches=ALL_PHASES,
        examples=(False,),
        requires=of_a_command("tracing", "program that is traced"),
        proposes=only(False),
        undoes=True,
        accepts=one_of(False),
    ),
    Factor(
        name="debug_environment",
        title="Variables that debug",
        hypothesis="An environment variable that was set to find a fault is still set, and has a library wait, check "
        "or log in each step.",
        cause=lambda before, after: f"What {before} asks for in the environment",
        meaning=Meaning.EXACT,
        changes="nothing in training; a fault is told later, and with less",
        **section("process.debug_environment", default=False),
        touches=ALL_PHASES,
        examples=(False,),
        requires=of_a_command("debug_environment", "environment with variables that debug"),
        proposes=only(False),
        undoes=True,
        accepts=one_of(False),
    ),
    Factor(
        name="cudnn_benchmark",
        title="Choice of convolution kernels",
        hypothesis="cuDNN takes a kernel by rule, where timing its kernels for each shape would find a faster one.",
        cause=switched("Running convolutions in kernels that were not timed", "Timing kernels for each new shape"),
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; each new shape of a batch is timed first",
        **section("process.cudnn_benchmark", default=False),
        touches=COMPUTE,
        examples=(True,),
        requires=all_of(CONVOLUTIONS, needs_cuda("cuDNN")),
    ),
    Factor(
        name="expandable_segments",
        title="Growing segments of device memory",
        hypothesis="No free piece of device memory fits a new tensor, so the allocator gives pieces back and asks "
        "the device again, which waits for it.",
        cause=switched("Keeping device memory in pieces of fixed sizes", "Mapping device memory in segments that grow"),
        meaning=Meaning.EXACT,
        changes="nothing in training",
        **section("process.expandable_segments", default=False),
        touches=ALL_PHASES,
        examples=(True,),
        requires=needs_cuda("the allocator of device memory"),
    ),
    Factor(
        name="memory_format",
        title="Memory format of images",
        hypothesis="Kernels of convolutions want the channels last, and turn images and weights around each time.",
        cause="Turning images and weights around in each convolution",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **section("model.memory_format"),
        touches=COMPUTE | {"optimizer"},
        examples=("channels_last",),
        requires=_convolutions_of_one,
        accepts=one_of("channels_last"),
    ),
    Factor(
        name="garbage_collection",
        title="Garbage collection of Python",
        hypothesis="Python's collector goes over millions of objects that live for ever, again and again.",
        cause="Collecting Python's garbage",
        meaning=Meaning.EXACT,
        changes="nothing in training; what exists when training begins is not looked at any more",
        **section("process.garbage_collection", default="automatic"),
        touches=ALL_PHASES,
        examples=("frozen",),
        proposes=where_seen("garbage_collection_share", NOTICED, "frozen"),
        undoes=True,
        share_seen="garbage_collection_share",
        accepts=one_of("automatic", "frozen"),
    ),
)
