"""The last check before anything is trained: the installed libraries try the settings, the model and the data."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep_probe.processes.scratch import folder_prefix
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded


def check(wire: Wire, settings: dict[str, Any]) -> None:
    """Answer a list of (key, message) for the plain `settings`; it is empty when all is well.

    The check also makes what is made once per machine, such as the built-in text and its tokenizer.
    """
    with quiet():
        attempts = _attempts(from_plain(Settings, settings))
        wire.send(encoded(Answer(value=[problem for problem in map(_tried, attempts) if problem])))


def sizes(wire: Wire, settings: dict[str, Any]) -> None:
    """Answer the sizes of the model by name; {} if the model can't be had."""
    try:
        with quiet():
            found = _model_sizes(from_plain(Settings, settings))
    except Exception:  # a model that can't be had has no sizes; whoever trains it is told why
        found = {}
    wire.send(encoded(Answer(value=found)))


def _model_sizes(settings: Settings) -> dict[str, Any]:
    """Return the sizes that a trial would observe of the model; {} if they are of no use.

    It is built on PyTorch's meta device, without weights, where nothing takes memory.
    """
    import torch

    from slowstep.workloads import model
    from slowstep.workloads.observed import sizes as observed_sizes

    if settings.workload == "memory_mapped":
        return {}
    whole = replace(settings, quantization=None, model=replace(settings.model, init="random"))
    return observed_sizes(model.build(whole, torch.device("meta")))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the logs and warnings of the libraries. The Hub's client, for one, reports every attempt of a retry."""
    logging.disable(logging.WARNING)
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _attempts(s: Settings) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    from peft import LoraConfig

    from slowstep.workloads import data, load_workload, model
    from slowstep.workloads.finetune import FineTune, training_arguments

    yield "workload", "it can't be had", lambda: _workload_class(s.workload)
    try:
        if load_workload(s.workload) is not FineTune:
            return
    except Exception:  # told by the attempt
        return
    with tempfile.TemporaryDirectory(prefix=folder_prefix("check")) as folder:
        yield "training_arguments", "TrainingArguments refuses it", lambda: training_arguments(s, Path(folder))
    yield "training_arguments.report_to", "its tracker can't be had", lambda: _trackers(s.training("report_to"))
    if s.peft:
        yield "peft", "LoraConfig refuses it", lambda: LoraConfig(**({"task_type": "CAUSAL_LM"} | s.peft))
    yield "quantization", "BitsAndBytesConfig refuses it", lambda: model.quantization_config(s)
    yield "model", "the model's configuration can't be had", lambda: model.model_config(s)
    yield "model.tokenizer", "the tokenizer can't be had", lambda: data.load_tokenizer(s)
    yield "dataset", "the data can't be had", lambda: data.inspect(s)


def _workload_class(name: str) -> type:
    from slowstep.workloads import load_workload

    found = load_workload(name)
    if not isinstance(found, type):
        raise TypeError(f"'{name}' is no class; a workload is one (slowstep.workloads.base says what it has)")
    return found


def _trackers(report_to: Any) -> list[Any]:
    """Return the callbacks of the trackers. Making one raises an error if its package is missing."""
    from transformers.integrations import get_reporting_integration_callbacks

    return [callback() for callback in get_reporting_integration_callbacks(report_to)]


def _tried(attempt: tuple[str, str, Callable[[], Any]]) -> tuple[str, str] | None:
    key, refusal, act = attempt
    try:
        act()
    except Exception as error:
        text = " ".join(str(error).split())[:400] or type(error).__name__
        hint = ""
        if key in ("model", "model.tokenizer") and ("huggingface" in text or "connect" in text.lower()):
            hint = " Give a local folder in model.name_or_path, or model.init: random with a model_type."
        return key, f"{refusal}: {text}{hint}"
    return None
