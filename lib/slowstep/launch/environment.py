"""The environment variables of trials of described runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from slowstep.workloads.stdlib_text import cache_folder

ENVIRONMENT = {
    # else tokenizers warns and switches itself off after the loader's fork, in some arms and not in others
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # asking whether there is a device must not initialise the driver in the warm interpreter
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    # a killed trial's semaphores are cleaned up by the tracker, which need not say so on the user's terminal
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",
}


def trial_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a trial, made from the caller's `own`."""
    found = dict(own)
    found["PYTHONWARNINGS"] = without_errors(found.get("PYTHONWARNINGS", ""))
    for name, value in ENVIRONMENT.items():
        found[name] = found.get(name) or value
    if not found.get("HF_HOME") and not _can_be_written(Path("~/.cache/huggingface").expanduser()):
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
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
