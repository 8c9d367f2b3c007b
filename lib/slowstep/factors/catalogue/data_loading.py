"""Data loading: where batches come from, who makes them, and how much of them is padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.entries import (
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

FETCHING = frozenset({"data"})


def _missing_workers(value: Any, run: Run) -> dict[str, Any]:
    """Return loader workers, for a factor that exists only beside them: as many as are listed if the run has none."""
    listed = [v for v in run.listed.get("dataloader_num_workers", ()) if isinstance(v, int)]
    wanted = run["dataloader_num_workers"] or max(listed, default=0) or 2
    return having(dataloader_num_workers=wanted)(value, run)


def _grouping_needs(value: Any, run: Run) -> dict[str, Any]:
    """Return what grouping needs and the run lacks.

    Grouping needs lengths beforehand, and saves padding only where batches are padded to their longest.
    """
    return _missing_keys({"tokenize": "once", "padding": "longest"}, run) if value == "group_by_length" else {}


def _missing_keys(needed: dict[str, Any], run: Run) -> dict[str, Any]:
    """Return the keys of `dataset` that are needed and that the run does not have."""
    return {f"dataset.{key}": value for key, value in needed.items() if run[f"dataset.{key}"] != value}


def _padding_level(value: Any, run: Run) -> Level:
    packs = "packing" in (value, run["dataset.padding"])
    return Level(
        value=value,
        overrides={"dataset.padding": value},
        # in both arms, so that nothing else differs
        held_constant=_missing_keys({"tokenize": "once"}, run) if packs else {},
        expects={"padding": value},
        meaning=Meaning.SEMANTICS if packs else Meaning.EXACT,
    )


def _lengths_are_needed(run: Run) -> str | None:
    """Return why batches can't be made beforehand, or None."""
    if run["train_sampling_strategy"] == "group_by_length":
        return "it acts on plain indices, and a sampler that groups by length asks for the examples"
    return None


def _unknown_epoch(run: Run) -> str | None:
    """Return why an epoch of a trial is not an epoch of the job, or None."""
    if run["job.samples"] is None:
        return "it acts once an epoch, and job.samples, the size of an epoch, is not given"
    return None


def _numbers_of_workers(run: Run, machine: Machine) -> list[int]:
    """Return one worker, a few, which may all wait for a disk at once, and as many as there are cores to spare.

    A run that has workers may be better off without any, and that comes first.
    """
    spare = max(1, machine.cores - 1)
    return sorted({1, 4, min(8, spare)} | ({0} if run["dataloader_num_workers"] else set()))


def _meaning_of_workers(value: Any, run: Run) -> Meaning | None:
    """Return the meaning of a number of workers. Each draws batches of its own from an IterableDataset."""
    most = max(value, run["dataloader_num_workers"] or 0)
    return Meaning.SEMANTICS if run.objects is not None and run["iterable_dataset"] and most > 1 else None


def _without(columns: str, key: str) -> dict[str, Callable]:
    """Make `current` and `level` for the setting that leaves out `columns`, which are observed under that name."""
    return {
        "current": lambda run: bool(run[key]),
        "level": lambda value, run: Level(value=value, overrides={key: value}, expects={columns: not value}),
    }


FACTORS = (
    Factor(
        name="cached_batches",
        title="Cached-batch ceiling",
        hypothesis="The step waits for data: with batches ready in memory it would be faster.",
        cause="Preparing batches",
        meaning=Meaning.DIAGNOSTIC,
        changes="trains the same few batches again and again; shows the most that any data-loading change can bring",
        **section("dataset.cached_batches"),
        touches=frozenset({"data", "host_to_device"}),
        examples=(50,),
        limits="all changes of data loading together",
        shares_cores=True,
        unmet=_lengths_are_needed,
        proposes=lambda run, machine: (200,),
        accepts=whole(1),
    ),
    Factor(
        name="dataloader_num_workers",
        title="Loader workers",
        hypothesis="Batches are prepared in the training process; worker processes would prepare them meanwhile.",
        cause=changed(
            "Waiting for batches that too few processes prepare",
            "Starting and keeping more loader workers than pay for themselves",
        ),
        meaning=Meaning.EXACT,
        changes="nothing in training; needs memory and cores for the worker processes",
        **with_meaning(argument("dataloader_num_workers"), _meaning_of_workers),
        touches=FETCHING,
        examples=(1, 2),
        shares_cores=True,
        bound="data",
        proposes=_numbers_of_workers,
        accepts=whole(0),
    ),
    Factor(
        name="dataloader_prefetch_factor",
        title="Prefetch factor",
        hypothesis="Workers run dry between batches; a deeper queue would even that out.",
        cause="Waiting for workers whose queues run dry",
        meaning=Meaning.EXACT,
        changes="nothing in training; needs memory for the queued batches",
        **argument("dataloader_prefetch_factor", held_constant=_missing_workers),
        touches=FETCHING,
        examples=(4,),
        shares_cores=True,
        bound="data",
        proposes=lambda run, machine: (4,) if run["dataloader_num_workers"] else (),
        accepts=whole(1),
    ),
    Factor(
        name="dataloader_persistent_workers",
        title="Persistent workers",
        hypothesis="Workers are started anew each epoch, and the step waits for them.",
        cause=switched("Starting the loader's workers anew each epoch", "Keeping workers from epoch to epoch"),
        meaning=Meaning.EXACT,
        changes="nothing in training; workers keep their memory between epochs",
        **argument("dataloader_persistent_workers", held_constant=_missing_workers),
        touches=FETCHING,
        examples=(True,),
        shares_cores=True,
        bound="epoch_start",
        unmet=_unknown_epoch,
        proposes=lambda run, machine: (True,) if run["dataloader_num_workers"] else (),
    ),
    Factor(
        name="dataloader_pin_memory",
        title="Pinned memory",
        hypothesis="Copies to the device are slow because the batches lie in pageable memory.",
        cause=switched("Copying batches from pageable memory to the device", "Pinning each batch in memory"),
        meaning=Meaning.EXACT,
        changes="nothing in training; page-locks host memory",
        **argument("dataloader_pin_memory"),
        touches=frozenset({"data", "host_to_device"}),
        examples=(False,),
        bound="batches",
        requires=needs_cuda("pinned memory"),
        proposes=lambda run, machine: (not run["dataloader_pin_memory"],),
    ),
    Factor(
        name="non_blocking",
        title="Non-blocking transfer",
        hypothesis="The host waits until each batch is on the device, and could go on meanwhile.",
        cause=switched("Waiting until each batch is on the device", "Copying without waiting"),
        meaning=Meaning.EXACT,
        changes="nothing in training; needs pinned memory",
        **argument_key("accelerator_config", "non_blocking", False, held_constant=having(dataloader_pin_memory=True)),
        touches=ALL_PHASES,
        examples=(True,),
        requires=needs_cuda("a non-blocking transfer"),
    ),
    Factor(
        name="tokenize",
        title="Tokenise once",
        hypothesis="Tokenising each example every time it is drawn costs time that doing it once beforehand saves.",
        cause=lambda now, new: (
            "Tokenising each example every time it is drawn" if new == "once" else "Tokenising beforehand"
        ),
        meaning=Meaning.EXACT,
        changes="nothing in training; a pass over the data at start-up, whose result stays on disk in datasets' cache",
        **section("dataset.tokenize"),
        touches=FETCHING,
        examples=("once", "on_the_fly"),
        shares_cores=True,
        bound="data",
        proposes=only("once"),
        accepts=one_of("once", "on_the_fly"),
    ),
    Factor(
        name="storage",
        title="Storage",
        hypothesis="Examples are read from slow storage; a local copy, or memory, would give them sooner.",
        cause="Reading examples from where they lie",
        meaning=Meaning.EXACT,
        changes="nothing in training; a copy of the examples on the local disk, or in the memory of the process. What "
        "comes from the Hub or from JSON lies in datasets' cache on the local disk as it is; a folder written by "
        "save_to_disk is read from where it lies",
        **section("dataset.storage"),
        touches=FETCHING,
        examples=("local_copy", "in_memory", "as_is"),
        shares_cores=True,
        bound="data",
        proposes=only("in_memory"),
        accepts=one_of("as_is", "local_copy", "in_memory"),
    ),
    Factor(
        name="batched_fetching",
        title="Batched fetching",
        hypothesis="Examples are fetched one by one; a whole batch at once (`__getitems__`) costs less.",
        cause=switched("Fetching examples one by one", "Fetching examples in batches"),
        meaning=Meaning.EXACT,
        changes="nothing in training",
        current=lambda run: run.batched_fetching,
        level=section("dataset.batched_fetching")["level"],
        touches=FETCHING,
        examples=(True, False),
        shares_cores=True,
        bound="data",
        proposes=only(True),
    ),
    Factor(
        name="padding",
        title="Padding",
        hypothesis="Positions that are only padding are computed for nothing.",
        cause="Computing positions that are only padding",
        meaning=Meaning.SEMANTICS,
        changes="packing puts several examples in a sequence, where they attend to each other, and batches and the "
        "steps of an epoch change; padding to the longest or to the maximum trains the same",
        current=lambda run: run["dataset.padding"],
        level=_padding_level,
        touches=ALL_PHASES,
        examples=("max_length", "packing", "longest"),
        bound="padding",
        proposes=only("longest"),
        accepts=one_of("longest", "max_length", "packing"),
    ),
    Factor(
        name="trim_padding",
        title="Padding beyond the longest example",
        hypothesis="Batches are padded to one length for all, and columns that are padding alone are computed too.",
        cause="Computing columns that are only padding",
        meaning=Meaning.EXACT,
        changes="nothing in training: what is left out has no label and no attention",
        **_without("padded_columns", "dataset.trim_padding"),
        touches=ALL_PHASES,
        examples=(True,),
        requires=of_a_command("padded_columns", "batches with columns of padding alone"),
        undoes=True,
    ),
    Factor(
        name="trim_constant_columns",
        title="Columns of one value",
        hypothesis="Batches of tokens begin or end with columns of one value, as padding is, that are computed too.",
        cause="Computing columns of tokens that hold one value",
        meaning=Meaning.DIAGNOSTIC,
        changes="leaves out those columns, which may mean something to the model; shows the most that padding costs",
        limits="leaving out first and last columns of one value",
        **_without("constant_columns", "dataset.trim_constant_columns"),
        touches=ALL_PHASES,
        examples=(True,),
        requires=of_a_command("constant_columns", "batches of tokens that begin or end with columns of one value"),
        undoes=True,
    ),
    Factor(
        name="train_sampling_strategy",
        title="Order of examples",
        hypothesis="Batches mix long and short examples; batches of similar length hold less padding.",
        cause=lambda now, new: (
            "Padding of batches that mix long and short examples"
            if "length" in str(new)
            else "Grouping examples by length"
        ),
        meaning=Meaning.SEMANTICS,
        changes="the order in which examples are met: batches hold examples of similar length",
        **argument("train_sampling_strategy", held_constant=_grouping_needs),
        touches=ALL_PHASES,
        examples=("group_by_length", "sequential", "random"),
        bound="sampling",
        proposes=only(),
        accepts=one_of("random", "sequential", "group_by_length"),
    ),
)
