"""Facts about Trainer: its arguments and its periodic events."""

from __future__ import annotations

from typing import Any

from slowstep.settings.periodic_events import EVENTS, is_rare, strategy
from slowstep.workloads.observed.fine_tune_protocol import Parts
from slowstep.workloads.observed.loader import data_facts, period
from slowstep.workloads.observed.model import model_facts

PLAIN_ARGUMENTS = (
    "torch_empty_cache_steps",
    "save_only_model",
    "per_device_eval_batch_size",
    "logging_nan_inf_filter",
    "include_num_input_tokens_seen",
    "max_grad_norm",
)
"""Arguments that Trainer reads in each step or event. One that it holds is therefore in effect."""

TRACKERS = {"TensorBoardCallback": "tensorboard", "MLflowCallback": "mlflow", "WandbCallback": "wandb"}


def trainer_facts(w: Parts) -> dict[str, Any]:
    """Return facts by name, of a run by Trainer."""
    trainer, a = w.trainer, w.arguments
    checkpointed = int((a.gradient_checkpointing_kwargs or {}).get("every_n_layers", 1))
    every = [int(a.save_steps)] * (a.save_strategy != "no") + [int(a.eval_steps or 1)] * (a.eval_strategy != "no")
    return {
        "event_period": period(w, *every),
        "autocast": trainer.accelerator.mixed_precision,
        **{name: getattr(a, name) for name in PLAIN_ARGUMENTS},
        **data_facts(w),
        **model_facts(trainer.model, checkpointed),
        **_events(w),
    }


def _events(w: Parts) -> dict[str, Any]:
    """Return the interval of each periodic event in steps, or the strategy if it is not by steps.

    A rare one is kept out of the trial's steps. Its interval is the one that its share of a block is computed with.
    """
    callbacks = [type(c).__name__ for c in w.trainer.callback_handler.callbacks]
    found = {
        "logging_steps": int(w.trainer.args.logging_steps),
        "report_to": sorted(TRACKERS[name] for name in callbacks if name in TRACKERS),
    }
    for event, name in EVENTS.items():
        source = w.settings.training if is_rare(w.settings.run, event) else lambda key: getattr(w.trainer.args, key)
        how = strategy(w.settings.run, event)
        found[f"{name}_steps"] = source(f"{name}_steps") if how == "steps" else how
    return found
