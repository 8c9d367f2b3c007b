"""What a survey or a trial would send to services outside: it is not sent, and the program goes on as if it had been.

Environment variables keep trackers to files of the trial; a program that names its server itself, in its code or in
the environment, overrules them.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from slowstep_probe import remote_files, unsent
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Around, Patches
from slowstep_probe.unsent import Unsent

READS = re.compile(
    r"_\w*|(get|list|is|has|fetch|inspect|parse|verify|search)_\w+|\w+_(info|exists)|\w*download\w*|whoami|auth_check|"
    r"run_as_future"
)
"""The names of those functions of huggingface_hub that change nothing on the Hub."""

OF_FILES = re.compile(r"(?![\w.+-]{2,}:|(databricks|uc)\b)|(file|sqlite):", re.IGNORECASE)
"""The beginnings of MLflow's addresses that lead to files: those, and paths. `databricks` alone is no path: MLflow
finds the server by it in a profile."""

NAMED = "MLFLOW_TRACKING_URI"
"""The environment variable that names MLflow's address: the trial's own when the program starts."""

IN_FOLDER = "sqlite:///mlflow.db"
"""MLflow's address where nothing else is known: a file in the program's folder."""

WITH_MODE = {
    "wandb.sdk.wandb_init": ("init", "offline"),
    "swanlab.sdk.cmd.init": ("init", "offline"),
    "neptune.metadata_containers.run": ("Run.__init__", "debug"),
    "neptune.metadata_containers.model": ("Model.__init__", "debug"),
    "neptune.metadata_containers.model_version": ("ModelVersion.__init__", "debug"),
    "neptune.metadata_containers.project": ("Project.__init__", "debug"),
}
"""The functions by which trackers begin, by their module, and the `mode` with which they send nothing."""

SENDS_NOTHING = ("disabled", "offline", "debug", "local", "read-only")
"""The modes of trackers in which nothing is sent."""

PUSHED = {
    "transformers.utils.hub": ("PushToHubMixin",),
    "transformers.trainer": ("Trainer",),
    "diffusers.utils.hub_utils": ("PushToHubMixin",),
    "datasets.arrow_dataset": ("Dataset",),
    "datasets.dataset_dict": ("DatasetDict", "IterableDatasetDict"),
    "datasets.iterable_dataset": ("IterableDataset",),
}
"""The classes whose `push_to_hub` asks the Hub before it sends anything, again and again where nobody answers."""

OUTSIDE = dict.fromkeys(("space_id", "server_url", "dataset_id", "bucket_id", "webhook_url"))
"""The arguments by which trackio sends what it tracks, with the values by which it keeps it."""


def attach(patches: Patches, late: LateImports) -> None:
    """Begin to keep everything here."""
    unsent.attach(patches, late)
    remote_files.attach(patches, late)
    late.on("huggingface_hub.hf_api", lambda it: _hub(it, patches))
    for name, kinds in PUSHED.items():
        late.on(name, lambda it, kinds=kinds: _pushed(it, kinds, patches))
    own = os.environ.get(NAMED, "")  # the program may name another one before it imports MLflow
    late.on("mlflow.tracking._tracking_service.utils", lambda it: _mlflow(it, own, patches))
    late.on("mlflow.tracking._model_registry.utils", lambda it: _registry(it, patches))
    for name, (function, mode) in WITH_MODE.items():
        late.on(name, lambda it, function=function, mode=mode: _with_mode(it, function, mode, patches))
    late.on("trackio.utils", lambda it: _around(it, "resolve_space_id_and_server_url", _nowhere, patches))
    late.on("trackio", lambda it: _around(it, "init", _kept, patches))


def _hub(module: Any, patches: Patches) -> None:
    functions = {}
    for name, function in inspect.getmembers(module.HfApi, inspect.isfunction):
        if not READS.fullmatch(name):
            names = list(inspect.signature(function).parameters)
            if inspect.ismethod(getattr(module, name, None)):
                functions[name] = _unsent(names[1:])
            patches.around(module.HfApi, name, _unsent(names))
    patches.all_everywhere(module, functions)


def _pushed(module: Any, kinds: Sequence[str], patches: Patches) -> None:
    found = [getattr(module, name) for name in kinds if hasattr(module, name)]
    for kind in found:  # classes of transformers hold copies of the function
        found += [one for one in kind.__subclasses__() if one not in found]
        if (function := vars(kind).get("push_to_hub")) is not None:
            patches.around(kind, "push_to_hub", _unsent(list(inspect.signature(function).parameters)))


def _unsent(names: list[str]) -> Any:
    """Return what is called in place of a function with these parameters."""

    def unsent(_: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        answer = Unsent(f"{Unsent.address}{given.get('repo_id') or ''}")
        if not given.get("run_as_future"):
            return answer
        done: Future[Unsent] = Future()
        done.set_result(answer)
        return done

    return unsent


def _mlflow(module: Any, own: str, patches: Patches) -> None:
    """Have MLflow stay with files wherever it looks its address up, whoever has set it, and to whatever server.

    `own` is the address that the trial has; empty for none.
    """
    here = own or module.get_tracking_uri()
    here = here if OF_FILES.match(here) else IN_FOLDER

    def to_files(original: Any, uri: Any, *args: Any, **kwargs: Any) -> None:
        if OF_FILES.match(str(uri)):
            original(uri, *args, **kwargs)

    looks_up = dict.fromkeys(("get_tracking_uri", "_resolve_tracking_uri"), _of_files(lambda: here))
    patches.all_everywhere(module, looks_up | {"set_tracking_uri": to_files})


def _registry(module: Any, patches: Patches) -> None:
    """Have MLflow's registry of models stay with files, too."""
    tracking = sys.modules["mlflow.tracking._tracking_service.utils"]
    found = _of_files(lambda: tracking.get_tracking_uri())
    patches.all_everywhere(module, dict.fromkeys(("get_registry_uri", "_resolve_registry_uri"), found))


def _of_files(here: Callable[[], str]) -> Around:
    """Return what stands in for a function that looks an address up: it finds files, or else the address `here`."""

    def found(original: Any, *args: Any, **kwargs: Any) -> Any:
        uri = original(*args, **kwargs)
        return uri if uri is None or OF_FILES.match(str(uri)) else here()

    return found


def _with_mode(module: Any, function: str, mode: str, patches: Patches) -> None:
    """Have a tracker begin without sending anything; a mode of its own in which it sends nothing stays."""

    def begins(original: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind_partial(*args, **kwargs)
        if given.arguments.get("mode") not in SENDS_NOTHING:
            given.arguments["mode"] = mode
        return original(*given.args, **given.kwargs)

    _around(module, function, begins, patches)


def _around(module: Any, function: str, around: Around, patches: Patches) -> None:
    """Replace a function, or a method, of a library where the installed version has it."""
    kind, _, name = function.rpartition(".")
    owner = getattr(module, kind, None) if kind else module
    if not hasattr(owner, name):
        return
    if kind:
        patches.around(owner, name, around)
    else:
        patches.everywhere(module, name, around)


def _nowhere(*_: Any, **__: Any) -> tuple[None, None]:
    return None, None


def _kept(original: Any, *args: Any, **kwargs: Any) -> Any:
    known = inspect.signature(original).parameters
    given = inspect.signature(original).bind_partial(*args, **kwargs)
    given.arguments |= {name: value for name, value in OUTSIDE.items() if name in known}
    return original(*given.args, **given.kwargs)
