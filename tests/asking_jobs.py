"""A process that has a job measure until it is ended: `python -m asking_jobs FILE`, with what it measures pickled."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

from asking import compare
from slowstep.measure.slurm.measurer import SlurmMeasurer
from slowstep.processes import signals
from slowstep.records import Pair


def tell(pairs: Sequence[Pair]) -> None:
    """Print a line when there are pairs."""
    if pairs:
        print("measuring", flush=True)


if __name__ == "__main__":
    baseline, treatment, budget, folder, slurm = pickle.loads(Path(sys.argv[1]).read_bytes())
    silent = lambda line: None  # noqa: E731
    with signals.unwinding(), SlurmMeasurer(slurm, budget, Path(folder), say=silent) as cluster:
        compare(cluster, baseline, treatment, pairs=10**6, on_pairs=tell)
