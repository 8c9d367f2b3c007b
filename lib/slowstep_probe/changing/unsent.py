"""What a survey or a trial would send to services outside: it is not sent, and the program goes on as if it had been.

Environment variables keep trackers to files of the trial; a program that names its server itself overrules them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

READS = re.compile(
    r"_\w*|(get|list|is|has|fetch|inspect|parse|verify|search)_\w+|\w+_(info|exists)|\w*download\w*|whoami|auth_check|"
    r"run_as_future"
)
"""The names of those functions of huggingface_hub that change nothing on the Hub."""

OF_FILES = re.compile(r"(?!\w\w+:)|(file|sqlite):", re.IGNORECASE)
"""The beginnings of MLflow's addresses that lead to files: those, and paths."""

PUSHED = {
    "transformers.utils.hub": ("PushToHubMixin",),
    "transformers.trainer": ("Trainer",),
    "diffusers.utils.hub_utils": ("PushToHubMixin",),
    "datasets.arrow_dataset": ("Dataset",),
    "datasets.dataset_dict": ("DatasetDict", "IterableDatasetDict"),
    "datasets.iterable_dataset": ("IterableDataset",),
}
"""The classes whose `push_to_hub` asks the Hub before it sends anything, again and again where nobody answers."""

ADDRESS = "https://huggingface.co/"


class Unsent(str):
    """The answer of a service that was not asked: a text, as answers of the Hub are, with any attribute."""

    def __getattr__(self, name: str) -> Unsent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unsent(self.removeprefix(ADDRESS)) if name == "repo_id" else Unsent()

    def __call__(self, *_: Any, **__: Any) -> Unsent:
        return self


def attach(patches: Patches, late: LateImports) -> None:
    """Begin to keep everything here."""
    late.on("huggingface_hub.hf_api", lambda it: _hub(it, patches))
    for name, kinds in PUSHED.items():
        late.on(name, lambda it, kinds=kinds: _pushed(it, kinds, patches))
    late.on("mlflow.tracking._tracking_service.utils", lambda it: patches.everywhere(it, "set_tracking_uri", _to_files))
    late.on("mlflow.tracking.client", lambda it: patches.around(it.MlflowClient, "__init__", _client))
    late.on("wandb.sdk.wandb_init", lambda it: patches.everywhere(it, "init", _offline))


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
        answer = Unsent(f"{ADDRESS}{given.get('repo_id') or ''}")
        if not given.get("run_as_future"):
            return answer
        done: Future[Unsent] = Future()
        done.set_result(answer)
        return done

    return unsent


def _to_files(original: Any, uri: Any, *args: Any, **kwargs: Any) -> None:
    if OF_FILES.match(str(uri)):
        original(uri, *args, **kwargs)


def _client(original: Any, client: Any, tracking_uri: Any = None, *args: Any, **kwargs: Any) -> None:
    here = tracking_uri if tracking_uri is None or OF_FILES.match(str(tracking_uri)) else None
    original(client, here, *args, **kwargs)


def _offline(original: Any, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("mode") != "disabled":
        kwargs["mode"] = "offline"
    return original(*args, **kwargs)
