"""The script final/train.py: the final configuration in plain transformers and peft, without anything of this kit.

Only the template has code. Everything that the template writes between braces becomes a literal, or an identifier
where it says `| name`. So no key and no value of a parameter file can become code.
"""

from __future__ import annotations

import ast
import functools
import os
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from slowstep.final.literal import literal, name
from slowstep.settings import Settings
from slowstep.settings.periodic_events import happens
from slowstep.settings.schema import Ddp, ZeroOptimization
from slowstep.workloads import stdlib_text

TEMPLATES = Path(__file__).parent / "template"

BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


def why_not(s: Settings) -> str:
    """Return why no script can say all of a run, as a clause; empty if one can."""
    if s.workload != "finetune":
        return "only its own code knows what this workload trains"
    own = {"ddp": s.ddp != Ddp(), "zero_optimization": s.zero_optimization != ZeroOptimization()}
    sections = " and ".join(name for name, used in own.items() if used)
    return f"Trainer's arguments alone don't say all of {sections}, which the parameter file does" if sections else ""


def script(s: Settings) -> str:
    """Return the text of train.py, which trains the whole job of `s` on all of its data."""
    text = _template().render(_values(s))
    ast.parse(text)  # a script that can't be parsed is never written
    return text


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        finalize=literal,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["name"] = name
    return environment.get_template("train.py.j2")


def _values(s: Settings) -> dict[str, Any]:
    """Return the values that the template asks for."""
    return {
        "name": s.name,
        "ranks": s.ranks,
        "job": s.job,
        "samples": s.job.samples,
        "epochs": s.job.epochs,
        "keep_freed_memory": s.freed_memory == "kept",
        "process": s.process,
        "peft": {"task_type": "CAUSAL_LM"} | s.peft if s.peft else None,
        "quantization": s.quantization,
        **_data(s),
        **_model(s),
        **_training(s),
    }


def _data(s: Settings) -> dict[str, Any]:
    d = s.dataset
    source = d.name_or_path if _saved(s) else stdlib_text.source(d.name_or_path)
    return {
        "data": source,
        "json": source.endswith((".jsonl", ".json")),
        "part": d.name,
        "split": d.split,
        "saved": _saved(s),
        "copied": d.storage == "local_copy",
        "in_memory": d.storage == "in_memory",
        "text_field": d.text_field,
        "prompt_field": d.prompt_field,
        "response_field": d.response_field,
        "max_length": d.max_length,
        "packed": d.padding == "packing",
        "fixed_length": d.padding in ("max_length", "packing"),
        "once": d.tokenize == "once",
        "together": s.run.batched_fetching,
        "by_length": s.training("train_sampling_strategy") == "group_by_length",
        "eval_samples": d.eval_samples,
    }


def _model(s: Settings) -> dict[str, Any]:
    m = s.model
    own = not m.tokenizer and m.init == "random"  # the kit trains a small tokenizer for a model that has none
    return {
        "random": m.init == "random",
        "name_or_path": m.name_or_path,
        "model_type": m.model_type,
        "config": m.config,
        "dtype": m.dtype,
        "attn_implementation": m.attn_implementation,
        "sdpa_backend": BACKENDS[m.sdpa_backend] if m.sdpa_backend else None,
        "dynamic": m.torch_compile_dynamic,
        "own_tokenizer": own,
        "tokenizer": str(stdlib_text.tokenizer_file(s)) if own else m.tokenizer or m.name_or_path,
    }


def _training(s: Settings) -> dict[str, Any]:
    given = s.training_arguments
    # the script sets these arguments itself; the number of epochs only where the job has one
    own = {"output_dir", "max_steps", "remove_unused_columns"}
    own |= {"num_train_epochs"} if s.job.epochs else set()
    return {
        "arguments": {key: value for key, value in given.items() if key not in own},
        "max_steps": given.get("max_steps", -1),
        "cpu_without_gpu": bool(given.get("bf16") or given.get("fp16")) and "use_cpu" not in given,
        "optimizer_kwargs": s.optimizer_kwargs,
        "evaluates": happens(s.run, "evaluate"),
    }


def _saved(s: Settings) -> bool:
    """Return whether the data is a folder that `datasets` saved."""
    local = Path(os.path.expanduser(s.dataset.name_or_path))
    return local.is_dir() and (local / "dataset_info.json").is_file()
