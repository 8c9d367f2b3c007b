"""What the kit may take rests on what is left: of the machine, and of the container that it runs in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slowstep.environment import limits
from slowstep.environment.limits import Quota
from slowstep.environment.machine import this_machine

MIB = 2**20


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of control groups, and this process a member of `/job/kit`, on a machine of 64 cores."""
    (tmp_path / "cgroup").write_text("4:memory:/job/kit\n3:cpu,cpuacct:/job/kit\n0::/job/kit\n", encoding="ascii")
    monkeypatch.setattr(limits, "MOUNTED", tmp_path / "mounted")
    monkeypatch.setattr(limits, "MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    return tmp_path / "mounted"


def write(folder: Path, files: dict[str, object]) -> None:
    """Files of a control group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n", encoding="ascii")


def test_a_container_that_has_less_than_the_machine_counts(groups: Path) -> None:
    """The limit may be the group's own or that of one above it; files that lie idle in memory are free."""
    write(groups / "job", {"memory.max": 900 * MIB, "memory.current": 500 * MIB})
    write(groups / "job" / "kit", {"memory.max": "max", "memory.current": 300 * MIB})
    assert 400 * MIB == limits.available_memory()

    write(groups / "job", {"memory.stat": f"anon 5\ninactive_file {100 * MIB}"})
    assert 500 * MIB == limits.available_memory()


def test_the_first_version_of_control_groups_counts_as_well(groups: Path) -> None:
    """A container sees its own group at the top, whatever path its host knows it by."""
    write(groups / "memory", {"memory.limit_in_bytes": 700 * MIB, "memory.usage_in_bytes": 600 * MIB})
    write(groups / "cpu", {"cpu.cfs_quota_us": 600_000, "cpu.cfs_period_us": 100_000})

    assert 100 * MIB == limits.available_memory()
    assert 6 == limits.usable_cores()


@pytest.mark.parametrize("folder", [Path("job"), Path("job/kit"), Path("memory")])
def test_memory_of_a_container_is_that_of_the_machine(folder: Path, groups: Path) -> None:
    """Whether the files of an epoch stay in memory is told by the least limit, the group's own or one above it."""
    whole = this_machine.__wrapped__().memory
    limit = "memory.limit_in_bytes" if folder == Path("memory") else "memory.max"
    write(groups / "job" / "kit", {"memory.max": "max"})
    write(groups / "memory" / "job", {"memory.limit_in_bytes": 9_223_372_036_854_771_712})  # no limit
    assert whole == this_machine.__wrapped__().memory

    write(groups / folder, {limit: 700 * MIB})
    assert this_machine.__wrapped__().memory == 700 * MIB


def test_no_limit_leaves_the_machine(groups: Path) -> None:
    """Neither groups without a limit nor a system without groups take anything away."""
    alone = limits.available_memory()
    write(groups / "job" / "kit", {"memory.max": "max", "memory.current": 300 * MIB, "cpu.max": "max 100000"})
    write(groups / "cpu" / "job", {"cpu.cfs_quota_us": -1, "cpu.cfs_period_us": 100_000})

    assert limits.available_memory() == pytest.approx(alone, rel=0.2)
    assert 64 == limits.usable_cores()


@pytest.mark.parametrize(("quota", "cores"), [("400000 100000", 4), ("150000 100000", 2), ("5000 100000", 1)])
def test_a_quota_of_time_is_worth_so_many_cores(quota: str, cores: int, groups: Path) -> None:
    """It may be set by the group's own or one above it; a part of a core counts as one."""
    write(groups / "job", {"cpu.max": quota})
    write(groups / "job" / "kit", {"cpu.max": "max 100000"})

    assert cores == limits.usable_cores()


def test_what_became_of_a_quota_is_told_by_group(groups: Path) -> None:
    """A group without a quota has none; where the first version of groups counts seconds, it is another controller."""
    write(groups / "job" / "kit", {"cpu.max": "max 100000", "cpu.stat": "usage_usec 9\nnr_periods 0\nnr_throttled 0"})
    write(groups / "job", {"cpu.max": "150000 100000"})
    write(groups / "job", {"cpu.stat": "usage_usec 2500000\nnr_periods 40\nnr_throttled 12\nthrottled_usec 5"})
    write(groups / "cpu", {"cpu.cfs_quota_us": 600_000, "cpu.cfs_period_us": 100_000})
    write(groups / "cpu", {"cpu.stat": "nr_periods 900\nnr_throttled 3"})
    write(groups / "cpuacct", {"cpuacct.usage": 7_000_000_000})

    assert limits.quotas() == {
        str(groups / "job"): Quota(cores=1.5, used=2.5, periods=40, used_up=12),
        str(groups / "cpu"): Quota(cores=6.0, used=7.0, periods=900, used_up=3),
    }
