"""Train a few steps of a workload in a trial, and print how it ended: `python -m bench.faults.trial NAME WORKERS`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from slowstep.factors import Arm
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.settings import load, override
from slowstep_probe.trial.messages import TrainBlock

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 180.0


def main(name: str, workers: str) -> str:
    """Return `ok`, or status and reason."""
    changes = {"workload": f"bench.faults.workloads:{name}", "training_arguments.dataloader_num_workers": int(workers)}
    settings = override(load(ROOT / "params" / "smoke.yaml").settings, changes)
    with tempfile.TemporaryDirectory() as folder:
        trial = TrialProcess(
            Arm(label=name, settings=settings), Path(folder, "log"), settings.budget, Path(folder, "cache")
        )
        try:
            trial.ask(None, SECONDS)
            for _ in range(4):
                trial.ask(TrainBlock(steps=2), SECONDS)
        except TrialEnded as ended:
            return str(ended)
        finally:
            trial.end()
    return "ok"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
