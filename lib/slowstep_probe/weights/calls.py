"""What a call builds a model from, so that two calls that build the same one can be known."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from slowstep_probe.weights.arena import draws

OF_LIBRARY = "transformers."
"""The beginning of the modules whose classes are built the same way each time."""

SPLITTING = "deepspeed"
"""A module with which a process may hold a part of a model only. PyTorch's own parts are tensors of other classes."""


def identity(kind: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Return what a model follows from that a class is asked for with these arguments, as a digest; None in doubt.

    It follows from the arguments and from the files that they name, from the random numbers that come next, and from
    PyTorch's defaults.
    """
    if not kind.__module__.startswith(OF_LIBRARY) or SPLITTING in sys.modules:
        return None
    if os.environ.get("ACCELERATE_USE_FSDP") or torch.is_inference_mode_enabled():
        return None
    try:
        told = [kind.__qualname__, _plain(list(args)), _plain(dict(kwargs))]
    except TypeError:
        return None
    files = [content for value in [*args, *kwargs.values()] if (content := _files(value))]
    state = hashlib.sha256(b"".join(one.numpy().tobytes() for one in draws())).hexdigest()
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None
    defaults = [str(torch.get_default_dtype()), str(torch.get_default_device()), device, os.getcwd()]
    return hashlib.sha256(json.dumps([told, files, state, defaults], sort_keys=True).encode()).hexdigest()[:16]


def configurations(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the configuration objects among the arguments, in their order. A call may change them."""
    return [one for one in (*args, *(kwargs[name] for name in sorted(kwargs))) if _is_configuration(one)]


def _is_configuration(value: Any) -> bool:
    return not isinstance(value, type) and type(value).__module__.startswith(OF_LIBRARY) and hasattr(value, "to_dict")


def _plain(value: Any) -> Any:
    """Return an argument as data for JSON that tells all of it; TypeError for one of which that can't be said."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike | torch.dtype | torch.device):
        return f"{type(value).__name__} {value}"
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return [[_plain(name), _plain(one)] for name, one in value.items()]
    if _is_configuration(value):
        return [type(value).__qualname__, _plain(vars(value))]
    raise TypeError(f"{type(value).__name__} may be anything")


def _files(value: Any) -> list[list[Any]]:
    """Return name, size and time of each file in a folder that an argument names."""
    if not isinstance(value, str | os.PathLike) or not os.path.isdir(value):
        return []
    stats = [(one.name, one.stat()) for one in sorted(Path(value).iterdir()) if one.is_file()]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
