"""The names of workloads with a limit of device memory, told without torch."""

from __future__ import annotations


def within(gib: float) -> str:
    """Return the workload that may take so many GiB, as parameter files name it (`bench.gpu.workloads`)."""
    return f"bench.gpu.workloads:Within{f'{gib:.2f}'.replace('.', '_')}GiB"
