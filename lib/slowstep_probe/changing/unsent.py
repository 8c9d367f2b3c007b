"""What a survey or a trial would send to services outside: it is not sent, and the program goes on as if it had been.

Environment variables keep trackers to files of the trial; a program that names its server itself overrules them.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

HUB = re.compile(r"(create|upload|delete|move|update|preupload|super_squash|add|duplicate|merge)_\w+")
"""The names of those functions of huggingface_hub that change something on the Hub."""

SERVER = re.compile(r"https?:|databricks", re.IGNORECASE)
"""The beginnings of the addresses of MLflow's servers."""


class Unsent:
    """The answer of a service that was not asked. All that is asked of it is such an answer, too."""

    def __init__(self, repo_id: str = ""):
        self.repo_id = repo_id

    def __getattr__(self, name: str) -> Unsent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unsent()

    def __call__(self, *_: Any, **__: Any) -> Unsent:
        return self

    def __str__(self) -> str:
        return self.repo_id


def attach(patches: Patches, late: LateImports) -> None:
    """Begin to keep everything here."""
    late.on("huggingface_hub.hf_api", lambda it: _hub(it, patches))
    late.on(
        "mlflow.tracking._tracking_service.utils", lambda it: patches.everywhere(it, "set_tracking_uri", _to_tracker)
    )
    late.on("wandb.sdk.wandb_init", lambda it: patches.everywhere(it, "init", _offline))


def _hub(module: Any, patches: Patches) -> None:
    for name, function in inspect.getmembers(module.HfApi, inspect.isfunction):
        if HUB.fullmatch(name):
            names = list(inspect.signature(function).parameters)
            if inspect.ismethod(getattr(module, name, None)):
                patches.everywhere(module, name, _unsent(names[1:]))
            patches.around(module.HfApi, name, _unsent(names))


def _unsent(names: list[str]) -> Any:
    """Return what is called in place of a function with these parameters."""

    def unsent(_: Any, *args: Any, **kwargs: Any) -> Unsent:
        given = dict(zip(names, args, strict=False)) | kwargs
        return Unsent(str(given.get("repo_id") or ""))

    return unsent


def _to_tracker(original: Any, uri: Any, *args: Any, **kwargs: Any) -> None:
    if not SERVER.match(str(uri)):
        original(uri, *args, **kwargs)


def _offline(original: Any, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("mode") == "online":
        kwargs["mode"] = "offline"
    return original(*args, **kwargs)
