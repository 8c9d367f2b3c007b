"""Overheads: saving, evaluating, logging and reporting, and what Trainer does between the phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.entries import TRAINING_ARGUMENTS, argument, number, on_cpu, one_of, only, only_if, section, whole
from slowstep.factors.factor import ALL_PHASES, Factor, Level, Meaning
from slowstep.settings.convert import describe
from slowstep.settings.library_arguments import REPORTERS
from slowstep.settings.periodic_events import EVENTS, happens, schedule_looks, steps_between, strategy
from slowstep.settings.run import Run

SYNCHRONISES = ALL_PHASES
"""The phases that a change touches if it makes the host wait for the device. That moves time between all phases."""

evaluates = only_if(lambda run: happens(run, "evaluate"), "the run never evaluates (training_arguments.eval_strategy)")
saves = only_if(lambda run: happens(run, "save"), "the run never saves (training_arguments.save_strategy)")


def _interval(name: str) -> dict[str, Callable]:
    """Make `current` and `level` for an interval in steps. `save_steps` and its like set their strategy, too."""
    kind = name.replace("steps", "strategy")

    def current(run: Run) -> Any:
        return (run[name] or run["logging_steps"]) if run[kind] == "steps" else run[kind]

    def level(value: Any, run: Run) -> Level:
        chosen = {TRAINING_ARGUMENTS + kind: "no"} if value == "no" else {TRAINING_ARGUMENTS + name: value}
        overrides = {TRAINING_ARGUMENTS + kind: "steps"} | chosen
        # events without an interval of their own take it from logging_steps: they keep the one they have
        follows = {f"{n}_steps" for e, n in EVENTS.items() if strategy(run, e) == "steps"} if "logging" in name else {}
        kept = {TRAINING_ARGUMENTS + n: run["logging_steps"] for n in follows if not run[n]}
        steers = Meaning.SEMANTICS if "eval" in name and _is_steered(run) else None
        return Level(value=value, overrides=kept | overrides, expects={name: value}, meaning=steers)

    return {"current": current, "level": level}


def _is_steered(run: Run) -> bool:
    """Return whether evaluations decide something: the learning rate, the end, or the weights that are kept."""
    looks = run["load_best_model_at_end"] or run["metric_for_best_model"]
    return bool(looks) or schedule_looks(run)


def _unknown_interval(event: str) -> Callable[[Run], str | None]:
    """Make an `unmet` that says why it is not known how often the event comes."""

    def unmet(run: Run) -> str | None:
        if happens(run, event) and steps_between(run, event, 1.0) is None:
            return f"it acts on how often the run does '{event}', which job.samples would tell and does not"
        return None

    return unmet


def _steps_or_no(value: Any) -> str | None:
    wrong = None if value == "no" else whole(1)(value)
    return wrong and f"expected a number of steps or the word no in quotes, found {describe(value)}"


def _reporter_requires(value: Any, run: Run, machine: Machine) -> str | None:
    """the tracker's package"""
    if value == "none" or set(REPORTERS[value]) & set(machine.tools):
        return None
    return f"reporting to {value} needs the package {REPORTERS[value][0]}, which is not installed"


def _unused_tracker(run: Run) -> str | None:
    """Return a note on trackers that trials don't report to, since they can't write to a local folder; or None."""
    given = run["report_to"]
    named = {given} if isinstance(given, str) else set(given or [])
    unknown = sorted(named - REPORTERS.keys() - {"all", "none"})
    return f"it acts on {', '.join(unknown)}, to which trials don't report" if unknown else None


def _single_tracker(value: Any) -> Any:
    """Return the name of a single tracker. Several stay a list, which no level equals."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return "none" if value in (None, [], "none") else value


def _tensors_on_host(value: Any, run: Run, machine: Machine) -> str | None:
    """training on a CPU"""
    return None if on_cpu(run, machine) else "it acts on tensors in the host's memory, and here they are on the device"


def _less_often(name: str) -> Callable[[Run, Machine], Sequence[Any]]:
    """Make the proposal of an interval five times as long."""

    def proposes(run: Run, machine: Machine) -> Sequence[Any]:
        now = run[name] or run["logging_steps"]
        return (round(5 * now),) if isinstance(now, int | float) and now >= 1 else ()

    return proposes


def _larger_evaluations(run: Run, machine: Machine) -> Sequence[Any]:
    """Propose a batch of evaluations twice as large as the run's own."""
    now = run["per_device_eval_batch_size"]
    return (2 * now,) if isinstance(now, int) and now >= 1 else ()


FACTORS = (
    Factor(
        name="save_steps",
        title="Save interval",
        hypothesis="Checkpoints are written so often that training waits for them.",
        cause="Writing checkpoints so often",
        meaning=Meaning.EXACT,
        changes="nothing in training; after a failure more steps are lost",
        **_interval("save_steps"),
        touches=frozenset({"save"}),
        examples=(50, "no"),
        bound="save_interval",
        event="save",
        refuses=saves,
        unmet=_unknown_interval("save"),
        proposes=_less_often("save_steps"),
        accepts=_steps_or_no,
    ),
    Factor(
        name="save_only_model",
        title="Size of a checkpoint",
        hypothesis="The optimizer's state makes checkpoints large and slow to write.",
        cause="Writing the optimizer's state into each checkpoint",
        meaning=Meaning.EXACT,
        changes="nothing in training; it can't be resumed from such a checkpoint",
        **argument("save_only_model"),
        touches=frozenset({"save"}),
        examples=(True,),
        bound="save",
        event="save",
        refuses=saves,
        unmet=_unknown_interval("save"),
    ),
    Factor(
        name="eval_steps",
        title="Evaluation interval",
        hypothesis="Training waits for evaluations that come too often.",
        cause="Evaluating so often",
        meaning=Meaning.EXACT,
        changes="nothing in training; the curve of the evaluation loss has fewer points",
        **_interval("eval_steps"),
        touches=frozenset({"evaluate"}),
        examples=(50, "no"),
        bound="evaluation_interval",
        event="evaluate",
        refuses=evaluates,
        unmet=_unknown_interval("evaluate"),
        proposes=_less_often("eval_steps"),
        accepts=_steps_or_no,
    ),
    Factor(
        name="per_device_eval_batch_size",
        title="Batch of an evaluation",
        hypothesis="An evaluation keeps nothing for a backward pass, so larger batches fit and take less time.",
        cause="Evaluating in small batches",
        meaning=Meaning.EXACT,
        changes="nothing in training",
        **argument("per_device_eval_batch_size"),
        touches=frozenset({"evaluate"}),
        examples=(16,),
        bound="evaluate",
        event="evaluate",
        refuses=evaluates,
        unmet=_unknown_interval("evaluate"),
        proposes=_larger_evaluations,
        accepts=whole(1),
    ),
    Factor(
        name="load_best_model_at_end",
        title="Loading the best checkpoint",
        hypothesis="Loading the best checkpoint when training ends takes time.",
        cause="Loading the best checkpoint",
        meaning=Meaning.SEMANTICS,
        changes="which weights are left when training ends",
        **argument("load_best_model_at_end"),
        touches=frozenset({"save"}),
        examples=(True,),
        unmet=lambda run: "it acts once, when the job ends, and a trial has no end",
    ),
    Factor(
        name="logging_steps",
        title="Logging interval",
        hypothesis="Each logged step waits for the device, and for whatever takes the log.",
        cause="Logging so often",
        meaning=Meaning.EXACT,
        changes="nothing in training; the logged curve has fewer points",
        **_interval("logging_steps"),
        touches=SYNCHRONISES,
        examples=(1, 50),
        bound="log",
        proposes=_less_often("logging_steps"),
        accepts=whole(1),
    ),
    Factor(
        name="logging_nan_inf_filter",
        title="Filter of infinite losses",
        hypothesis="Looking at each loss to filter the log makes the host wait for the device each step.",
        cause="Looking at each loss to filter the log",
        meaning=Meaning.EXACT,
        changes="nothing in training; a loss that is not finite then shows in the log",
        **argument("logging_nan_inf_filter"),
        touches=SYNCHRONISES,
        examples=(False, True),
        bound="host_work",
        proposes=only(False),
    ),
    Factor(
        name="report_to",
        title="Experiment tracker",
        hypothesis="Training waits for the tracker that takes its log.",
        cause="Reporting to the tracker",
        meaning=Meaning.EXACT,
        changes="nothing in training; where its log goes. Trials report to a local folder, so a wait for the tracker's "
        "server is not among what is measured",
        current=lambda run: _single_tracker(run["report_to"]),
        level=lambda value, run: Level(
            value=value,
            overrides={TRAINING_ARGUMENTS + "report_to": value},
            expects={"report_to": [] if value == "none" else [value]},
        ),
        touches=frozenset({"log", "save", "evaluate"}),
        examples=("none", "tensorboard", "mlflow", "wandb"),
        requires=_reporter_requires,
        unmet=_unused_tracker,
        proposes=only("none"),
        accepts=one_of("none", *REPORTERS),
    ),
    Factor(
        name="include_num_input_tokens_seen",
        title="Counting of tokens",
        hypothesis="Counting the tokens of each batch makes the host wait for the device.",
        cause="Counting the tokens of each batch",
        meaning=Meaning.EXACT,
        changes="nothing in training; whether the log has the number of tokens",
        current=lambda run: {False: "no", True: "all"}.get(v := run["include_num_input_tokens_seen"], v),
        level=argument("include_num_input_tokens_seen")["level"],
        touches=SYNCHRONISES,
        examples=("no", "all", "non_padding"),
        bound="host_work",
        proposes=only("no"),
        accepts=one_of("no", "all", "non_padding"),
    ),
    Factor(
        name="freed_memory",
        title="Memory that a step frees",
        hypothesis="Training is faster if the memory that a step frees is returned to the system where it was kept, or "
        "kept for the next step where it was returned.",
        cause="Handling the memory that each step frees",
        meaning=Meaning.EXACT,
        changes="nothing in training; kept, the process holds the most memory that it ever had. Trials and "
        "final/train.py keep it (two calls of mallopt), so `returned` is tried. What it loses is what a script pays "
        "that does not call mallopt",
        **section("freed_memory"),
        touches=ALL_PHASES,
        examples=("returned", "kept"),
        requires=_tensors_on_host,
        proposes=only("kept"),
        accepts=one_of("kept", "returned"),
    ),
    Factor(
        name="max_grad_norm",
        title="Gradient clipping",
        hypothesis="Clipping goes over all gradients, and looks at their norm, before each update.",
        cause="Clipping gradients",
        meaning=Meaning.SEMANTICS,
        changes="large gradients are no longer cut; Trainer still computes their norm for its log",
        **argument("max_grad_norm"),
        touches=SYNCHRONISES,
        examples=(0.0,),
        bound="clipping",
        accepts=number(0, math.inf),
    ),
)
