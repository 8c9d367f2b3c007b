"""Several processes: how many train together, and how they exchange what they have computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.catalogue.fsdp import FSDP
from slowstep.factors.catalogue.zero import ZERO
from slowstep.factors.entries import (
    all_of,
    at,
    needs_cuda,
    number,
    one_of,
    only,
    only_if,
    section,
    switched,
    where_seen,
    whole,
    with_meaning,
)
from slowstep.factors.factor import ALL_PHASES, EXCHANGE, Factor, Level, Meaning
from slowstep.settings.run import Run
from slowstep_probe.measured import OWN_EXCHANGE

NOTICED = 0.05
"""The share of the time that a rank must take longer than another for it to be worth a trial to ask why."""

MEANING_OF_HOOK = {
    "none": Meaning.DIAGNOSTIC,
    "allreduce": Meaning.EXACT,
    "bf16": Meaning.NUMERICS,
    "fp16": Meaning.NUMERICS,
    "powersgd": Meaning.SEMANTICS,
}

together = only_if(lambda run: int(run["processes"] or 1) > 1, "the run trains in one process")
at_once = only_if(lambda run: run.backward_passes == 1, "a step has several backward passes")
accumulates = only_if(lambda run: run.backward_passes > 1, "a step has one backward pass")


def _exchanges(value: Any, run: Run, machine: Machine) -> str | None:
    """a run whose gradients DistributedDataParallel exchanges"""
    return (
        None if run.objects is None or "DDP" in run.objects else "it needs a DistributedDataParallel, and none is made"
    )


def _ddp(name: str, default: Any, *refusals: Callable) -> dict[str, Any]:
    """Make `current`, `level` and what is needed for an argument of DistributedDataParallel, observed by its key."""
    needs = {"requires": _exchanges, "refuses": all_of(together, *refusals)}
    return section(f"ddp.{name}", default, fact=f"ddp.{name}") | needs


def _processes() -> dict[str, Callable]:
    """Make `current` and `level` for the number of processes."""

    def level(value: Any, run: Run) -> Level:
        overrides: dict[str, Any] = {"processes": value}
        if run.objects is None:  # a described run's processes have one thread each, and so has a single one here
            overrides["process.num_threads"] = run["process.num_threads"] or 1
        return Level(value=value, overrides=overrides, expects={"world_size": value})

    return {"current": lambda run: run["processes"], "level": level}


def _others(run: Run, machine: Machine) -> Sequence[Any]:
    """Return the numbers of all nodes but the first."""
    return range(1, int(run["nodes"] or 1))


def _has_node(value: Any, run: Run, machine: Machine) -> str | None:
    """a command that trains on several nodes"""
    nodes = int(run["nodes"] or 1)
    if nodes < 2:
        return "it needs a command that trains on several nodes, and this run trains on one"
    if value >= nodes:
        return f"it needs a node {value}, and the command names {nodes}, counted from 0"
    first, other = run["nodes.processes"][0], run["nodes.processes"][value]
    unlike = f"node {value} has {other} processes and node 0 has {first}, so that each trains another amount by itself"
    return None if first == other else unlike


def _fewer(run: Run, machine: Machine) -> Sequence[Any]:
    """Return one process, and the halves between."""
    now, found = int(run["processes"] or 1), []
    while now > 1:
        now //= 2
        found.append(now)
    return found


def _cost_of_exchange(now: Any, new: Any) -> str:
    if new == "none":
        return "Waiting for the exchange of gradients"
    own = now == OWN_EXCHANGE
    return (
        "Exchanging gradients by a function of the program's own" if own else "Exchanging gradients in full precision"
    )


def _exchanges_to_try(run: Run, machine: Machine) -> Sequence[Any]:
    """Return no exchange, the plain one in place of the program's own, and those of rounded gradients."""
    return ("none", *(["allreduce"] if run["ddp.comm_hook"] == OWN_EXCHANGE else []), "bf16", "fp16")


FACTORS = (
    Factor(
        name="ddp_comm_hook",
        title="Exchange of gradients",
        hypothesis="Training waits for gradients that are exchanged between ranks.",
        cause=_cost_of_exchange,
        meaning=Meaning.SEMANTICS,
        changes="`none` lets ranks train apart and shows what the exchange costs; `allreduce` is the plain exchange, "
        "where the program has a function of its own for it; `bf16` and `fp16` round gradients before they are added; "
        "`powersgd` exchanges factors of low rank",
        **with_meaning(
            section("ddp.comm_hook", default="allreduce", fact="ddp.comm_hook"),
            lambda value, run: MEANING_OF_HOOK[value],
        ),
        touches=EXCHANGE,
        examples=("none", "bf16", "fp16"),
        proposes=_exchanges_to_try,
        limits="the exchange of gradients",
        refuses=together,
        requires=all_of(_exchanges, at(("bf16",), needs_cuda("adding numbers in bf16 between ranks"))),
        accepts=one_of(*MEANING_OF_HOOK),
    ),
    Factor(
        name="sync_each_batch",
        title="Exchange after each micro-batch",
        hypothesis="Gradients are exchanged after each micro-batch, where once an optimizer step is enough.",
        cause=switched("Exchanging gradients once an optimizer step", "Exchanging gradients after each micro-batch"),
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation",
        **_ddp("sync_each_batch", False, accumulates),
        touches=EXCHANGE,
        examples=(False, True),
        proposes=only(False),
        undoes=True,
    ),
    Factor(
        name="ddp_find_unused_parameters",
        title="Search for unused parameters",
        hypothesis="Each step goes over the graph of the loss to find parameters that took no part in it.",
        cause=switched("Not looking for unused parameters", "Looking for unused parameters in each step"),
        meaning=Meaning.EXACT,
        changes="nothing in training; with unused parameters it fails without the search",
        **_ddp("find_unused_parameters", False),
        touches=frozenset({"forward"}) | EXCHANGE,
        examples=(False, True),
        proposes=only(False),
        undoes=True,
    ),
    Factor(
        name="ddp_bucket_cap_mb",
        title="Size of the buckets of gradients",
        hypothesis="Gradients are exchanged in pieces that are too small to fill the connection, or too large to begin "
        "early.",
        cause="Exchanging gradients in pieces of an unsuitable size",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; larger buckets take memory",
        **_ddp("bucket_cap_mb", 25),
        touches=EXCHANGE,
        examples=(5, 100),
        proposes=lambda run, machine: (100,) if (run["ddp.bucket_cap_mb"] or 25) >= 25 else (25,),
        accepts=number(0.001, 10_000),
    ),
    Factor(
        name="gradient_as_bucket_view",
        title="Gradients within the buckets",
        hypothesis="Gradients are copied into the buckets that are exchanged, and back.",
        cause="Copying gradients into buckets and back",
        meaning=Meaning.EXACT,
        changes="nothing in training; gradients can't be detached in place",
        **_ddp("gradient_as_bucket_view", False),
        touches=EXCHANGE | {"optimizer"},
        examples=(True,),
    ),
    Factor(
        name="ddp_static_graph",
        title="A graph that does not change",
        hypothesis="Ranks prepare each step for a graph that could be another one than before.",
        cause="Preparing each step for another graph",
        meaning=Meaning.EXACT,
        changes="nothing in training as long as each step uses the same parameters in the same order",
        **_ddp("static_graph", False, at_once),
        touches=frozenset({"forward"}) | EXCHANGE,
        examples=(True,),
    ),
    Factor(
        name="ddp_broadcast_buffers",
        title="Buffers that are sent to all ranks",
        hypothesis="Buffers, as the statistics of batch normalisation, are sent to all ranks before each forward pass.",
        cause="Sending buffers to all ranks before each forward pass",
        meaning=Meaning.SEMANTICS,
        changes="each rank keeps its own running statistics, and the first rank's are saved",
        **_ddp("broadcast_buffers", True),
        touches=frozenset({"forward", "communication"}),
        examples=(False,),
    ),
    Factor(
        name="rank_data",
        title="Parts of the data among ranks",
        hypothesis="A rank is slow by its part of the data: with the next rank's part it is not.",
        cause="Giving ranks unlike parts of the data",
        meaning=Meaning.DIAGNOSTIC,
        changes="each rank trains on the next one's part of the data; if the slow rank is then another one, its data "
        "is the cause, and else the rank itself",
        **section("ddp.rank_data", default="own", fact="ddp.rank_data"),
        touches=ALL_PHASES,
        examples=("swapped",),
        limits="another distribution of the data",
        proposes=where_seen("rank_excess", NOTICED, "swapped"),
        refuses=together,
        accepts=one_of("own", "swapped"),
    ),
    Factor(
        name="node",
        title="Node",
        hypothesis="The nodes are unlike: the same training on another one, with that node's processes alone, is "
        "faster.",
        cause="Training on a node that is slower than another one",
        meaning=Meaning.DIAGNOSTIC,
        changes="where the same training runs: both arms train with the processes of one node alone, the baseline on "
        "the first node",
        **section("nodes.number", fact="node", held_constant=lambda value, run: {"nodes.apart": True}),
        touches=ALL_PHASES,
        examples=(1,),
        limits="nodes that are all alike",
        elsewhere=True,
        proposes=_others,
        requires=_has_node,
        accepts=whole(0),
    ),
    Factor(
        name="processes",
        title="Number of processes",
        hypothesis="Fewer processes train more, since they take cores or wait for each other.",
        cause="Training in several processes",
        meaning=Meaning.SEMANTICS,
        changes="the samples of an optimizer step: each process has its own batch",
        **_processes(),
        touches=ALL_PHASES,
        examples=(1,),
        proposes=_fewer,
        an_extra=True,
        refuses=together,
        accepts=whole(1),
    ),
    *FSDP,
    *ZERO,
)
