"""What torch.compile makes: whether there are graphs, of what, by which options, and how often anew.

Its compiler, Dynamo, takes seconds to import. So it is asked only where the program has had it imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from slowstep_probe.measured import WHY_NOT

COMPILED = "_torchdynamo_orig_callable"
"""The attribute by which a function that torch.compile has made holds the one that it was made of."""


def dynamo(part: str) -> Any:
    """Return a module of torch._dynamo; None if it was never imported."""
    return sys.modules.get(f"torch._dynamo.{part}")


def any_made() -> bool:
    """Return whether any graph was made in this process."""
    counters = getattr(dynamo("utils"), "counters", None)
    if counters is None:
        return False
    return bool(counters["frames"]["ok"] or counters["stats"]["unique_graphs"])  # the second ones with fullgraph


def recompilations() -> int:
    """Return the graphs that were made because no earlier one fitted; 0 where nothing is compiled."""
    compiler = dynamo("utils")
    if compiler is None:
        return 0
    return sum(m.recompile_reason is not None for m in compiler.get_compilation_metrics())


def graph_facts(*models: torch.nn.Module, functions: Sequence[Any] = ()) -> dict[str, Any]:
    """Return whether a model or a part of it is compiled, and in which mode, by the options that its compiler holds.

    A loss that holds the model, and is called in its place, is not compiled itself. `functions` are those that were
    compiled and make forward passes.
    """
    parts = (part for model in models for part in model.modules() if _compiled(part))
    found = next((part for part in (*parts, *functions)), None)
    if found is None:
        return {"compiled": False, "torch_compile_mode": None, "torch_compile_dynamic": None}
    context = getattr(found, "dynamo_ctx", None)
    return {
        "compiled": True,
        "torch_compile_mode": _mode(_options(found)),
        "torch_compile_dynamic": getattr(context, "_dynamic", None),
    }


def without_graphs() -> dict[str, Any]:
    """Return the fact that nothing is compiled, with its reason, where the compiler has made no graph; else {}."""
    config = dynamo("config")
    if config is None or any_made():
        return {}
    why = "Dynamo is switched off (TORCHDYNAMO_DISABLE)" if config.disable else "Dynamo made no graph of it"
    why += ", and its errors are suppressed (torch._dynamo.config.suppress_errors)" * config.suppress_errors
    return {"compiled": False, f"{WHY_NOT}compiled": why}


def _compiled(model: torch.nn.Module) -> bool:
    """Return whether a module was compiled, by torch.compile or in place by its own `compile()`."""
    compiler = dynamo("eval_frame")
    wrapped = compiler is not None and isinstance(model, compiler.OptimizedModule)
    return wrapped or getattr(model, "_compiled_call_impl", None) is not None


def _options(compiled: Any) -> dict[str, Any]:
    """Return the options that differ from a compiler's own: of a module, of one compiled in place, or of a function."""
    context = getattr(compiled, "dynamo_ctx", None)
    if context is not None:
        return getattr(context, "compiler_config", None) or {}
    ask = getattr(getattr(compiled, "_compiled_call_impl", compiled), "get_compiler_config", None)
    return (ask() if callable(ask) else None) or {}


def _mode(config: dict[str, Any]) -> str:
    """Return the mode of torch.compile whose options are set, the one with the most of them; 'default' without any."""
    from torch._inductor import config as inductor
    from torch._inductor import list_mode_options

    plain = inductor.get_config_copy()
    changed = {key: value for key, value in config.items() if plain.get(key) != value}
    fitting = {
        mode: options
        for mode, options in list_mode_options().items()
        if options and all(changed.get(key, plain.get(key)) == value for key, value in options.items())
    }
    known = {mode: options for mode, options in fitting.items() if set(options) & set(changed)}
    return max(known, key=lambda mode: len(known[mode]), default="default")
