"""The environment variables of trials of described runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from slowstep.workloads.stdlib_text import cache_folder

QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Variables by which the libraries of Hugging Face draw no bars, and send nothing about their use."""

DRIVER_LEFT_ALONE = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""The variable by which asking whether there is a device does not initialise its driver, as a fork of the warm
interpreter could not use it then."""

ENVIRONMENT = {
    **QUIET,
    **DRIVER_LEFT_ALONE,
    # else tokenizers warns and switches itself off after the loader's fork, in some arms and not in others
    "TOKENIZERS_PARALLELISM": "false",
    # a killed trial's semaphores are cleaned up by the tracker, which need not say so on the user's terminal
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",
}
"""Variables of each trial. A value that the caller's environment has for one of them stays."""


def trial_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a trial, made from the caller's `own`."""
    found = dict(own)
    found["PYTHONWARNINGS"] = without_errors(found.get("PYTHONWARNINGS", ""))
    for name, value in ENVIRONMENT.items():
        found[name] = found.get(name) or value
    if not found.get("HF_HOME") and not _can_be_written(Path("~/.cache/huggingface")):
        found["HF_HOME"] = str(cache_folder() / "huggingface")
    if found.get("OMP_WAIT_POLICY", "").lower() == "active":
        del found["OMP_WAIT_POLICY"]  # an idle arm would spin on the other arm's cores for ever
    # a trial is one process on one device; Trainer would spread a batch over all that it sees
    found["CUDA_VISIBLE_DEVICES"] = found.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return found


def devices_of(ranks: int) -> dict[str, str]:
    """Return the variable by which each of several ranks of a described run sees a device of its own; {} for one."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(ranks)))).split(",")
    return {"CUDA_VISIBLE_DEVICES": ",".join(given[:ranks])} if ranks > 1 else {}


def without_errors(warnings: str) -> str:
    """Return the value of PYTHONWARNINGS without the filters that turn a library's warning into an error."""
    kept = [each for each in warnings.split(",") if not "error".startswith(each.partition(":")[0].strip() or "-")]
    return ",".join(kept)


def _can_be_written(folder: Path) -> bool:
    """Return whether files can be made in a folder, which is itself made if need be."""
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home is known
        return False
    return os.access(folder, os.W_OK | os.X_OK)
