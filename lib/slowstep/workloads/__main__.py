"""`python -m slowstep.workloads ORDER.json`: train what the settings in the order describe, until the process is ended.

It is the program of every trial of a run that a parameter file describes. Trials of a script run the script instead.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep.workloads.base import checked, load_workload
from slowstep_probe.changing.data_parallel import DataParallel
from slowstep_probe.changing.flags import PROCESS, Flags, process_facts
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.changing.zero import Zero
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.trial.program_hooks import hooks

EXCHANGE = ("ddp.", "zero_optimization.")
"""The sections of the settings that say how ranks exchange what they have computed."""


def main(order: Path) -> None:
    """Train as an order says.

    It has the `settings`, the `folder` to write to, the folder that is `shared` with the measurer's other trials,
    and the `base` that was built beforehand.
    """
    asked = json.loads(order.read_text(encoding="utf-8"))
    settings = from_plain(Settings, asked["settings"])
    patches, changes = Patches(), settings.changes
    if settings.ranks > 1:  # as torchrun does where nobody says otherwise
        changes = {f"{PROCESS}num_threads": 1} | changes
    flags = Flags(Wanted({key: value for key, value in changes.items() if key.startswith(PROCESS)}))
    flags.attach(patches)
    exchange = Wanted({key: value for key, value in changes.items() if key.startswith(EXCHANGE)})
    late = LateImports()
    DataParallel(exchange, int(settings.run["gradient_accumulation_steps"])).attach(patches, late)
    Zero(exchange).attach(patches, late)
    workload = load_workload(settings.workload)(settings, Path(asked["folder"]))
    workload.shared = Path(asked["shared"])
    if base := asked.get("base"):
        workload.frozen_base, hooks.beforehand["base"] = Path(base["arena"]), base["seconds"]
    _timed("data", workload.prepare_data)
    _timed("model", workload.build_model)
    _timed("trainer", workload.build_trainer)
    hooks.device = workload.device
    hooks.facts = lambda: process_facts() | checked(workload.observe(), workload)
    hooks.periodic_events = workload.periodic_events
    hooks.before_first_step = flags.set
    workload.train()


def _timed(part: str, stage: Callable[[], None]) -> None:
    began = time.perf_counter()
    stage()
    hooks.seconds[part] = time.perf_counter() - began


if __name__ == "__main__":
    main(Path(sys.argv[1]))
