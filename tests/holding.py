"""A process that measures until somebody ends it: `python -m holding FILE`, with pickled arguments of `hold`."""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path

import psutil

from slowstep.factors import Arm
from slowstep.measure.local import LocalMeasurer
from slowstep.settings.schema import Budget
from slowstep_probe.trial.messages import TrainBlock


def hold(arms: list[Arm], budget: Budget, logs: str, workers: int) -> None:
    """Own a measurer with trials in the middle of a block, print all its processes, and wait to be killed."""
    measurer = LocalMeasurer(budget, Path(logs))
    for key, arm in enumerate(arms):
        measurer.pool.launch(arm, str(key))
    for trial in measurer.pool.live.values():
        trial.process.guarded.send(TrainBlock(steps=10**9))
    trials = [psutil.Process(t.process.pid) for t in measurer.pool.live.values()]
    while sum(len(p.children()) for p in trials) < workers:
        time.sleep(0.05)
    family = psutil.Process().children(recursive=True)
    print(*(p.pid for p in family), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    hold(*pickle.loads(Path(sys.argv[1]).read_bytes()))
