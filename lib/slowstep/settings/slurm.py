"""The section `measure`: where an investigation is measured. Without it, on the machine that slowstep is started on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """The jobs of a Slurm cluster that measure. All names but `cluster` and `nodes` are those of submitit and sbatch.

    Each job has one node. A key that is not given is left to the cluster.
    """

    cluster: Literal["slurm", "local"] = "slurm"
    """submitit's name of what runs the jobs: Slurm, or processes of this machine, to try the rest of it."""
    nodes: int = 1
    """The most jobs, of one node each, over which comparisons are spread."""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    nodelist: str | None = None
    gres: str | None = None
    gpus_per_node: int | None = None
    cpus_per_task: int | None = None
    mem_gb: float | None = None
    exclusive: bool = True
    """True to let no other job run on the node meanwhile: it would disturb what is timed."""
    timeout_min: int = 240
    """The time limit of a job. One that reaches it is requeued, three times at most."""
    additional_parameters: dict[str, object] = field(default_factory=dict)
    """Options of sbatch that have no key here, such as `reservation`."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The place of measuring: jobs of a cluster, or this machine without any."""

    slurm: Slurm | None = None


def impossible_measure(measure: Measure) -> Iterator[tuple[str, str]]:
    """Yield (key, message) for all in the section that no cluster can do. Its numbers are checked with all others."""
    slurm = measure.slurm
    if slurm is None:
        return
    at = "measure.slurm."
    texts = {f.name: getattr(slurm, f.name) for f in fields(slurm)}
    for name, value in slurm.additional_parameters.items():
        key = f"{at}additional_parameters.{name}"
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            yield at + "additional_parameters", f"found the key {name[:60]!r}; name an option of sbatch: reservation."
        elif not isinstance(value, str | bool | int | float):
            yield key, "an option of sbatch has a text, a number, or true."
        else:
            texts[f"additional_parameters.{name}"] = value
    for name, value in texts.items():
        if isinstance(value, str) and not value.isprintable():  # each would end a line of the job's script
            yield at + name, "found a line end or another control character; remove it."
