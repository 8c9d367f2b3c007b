"""What else a machine did while a block was measured: who disturbs it, and who may use the cores beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from slowstep.environment.limits import Quota
from slowstep.measure.other_processes import between
from slowstep.processes import cpu_times
from slowstep.processes.cpu_times import CpuTimes, read

BEFORE = CpuTimes(busy=0, own=0, stolen=0, total=0)


@pytest.mark.parametrize(
    ("busy", "own", "stolen", "usable_share", "said"),
    [
        (60, 55, 0, 1.0, None),
        (80, 55, 0, 1.0, "other processes took 25 %"),
        (60, 55, 8, 1.0, "the hypervisor took 8"),
        (80, 20, 0, 0.25, None),
        (98, 13, 0, 0.25, "other processes took 85 %"),
    ],
    ids=["background", "a second job", "another guest", "beside a quota", "more than a quota leaves"],
)
def test_others_disturb_where_they_take_what_the_trials_could_use(
    busy: float, own: float, stolen: float, usable_share: float, said: str | None
) -> None:
    """Where a quota pays for a quarter of the cores, others may keep the rest of them busy."""
    after = CpuTimes(busy=busy, own=own, stolen=stolen, total=100, usable_share=usable_share)
    found = between(BEFORE, after)

    assert found is said is None or found.startswith(said)


def quota(used: float | None, periods: int = 0, used_up: int = 0) -> Quota:
    """A quota of two cores."""
    return Quota(cores=2.0, used=used, periods=periods, used_up=used_up)


@pytest.mark.parametrize(
    ("used", "said"),
    [(20.0, None), (17.5, None), (25.0, "other processes took 40 % of the quota of CPU time"), (None, None)],
    ids=["the trials alone", "counted late", "a second job in the container", "not counted"],
)
def test_who_spends_the_quota_of_the_trials_disturbs_them(used: float | None, said: str | None) -> None:
    """A second job in a container of two cores takes little of a machine of 64, and much of what the trials have."""
    before = replace(BEFORE, at=100.0, quotas={"/job": quota(0.0)})
    after = CpuTimes(
        busy=25,
        own=17,
        stolen=0,
        total=640,
        at=110.0,
        usable_share=1 / 32,
        quotas={"/job": quota(used), "/new": quota(9)},
    )

    assert between(before, after) == said


def test_a_quota_that_was_used_up_most_often_meanwhile_counts() -> None:
    """What a group was stopped for before is no matter, and neither is a group that was not there."""
    before = replace(BEFORE, quotas={"/pod": quota(0, 10_000, 100), "/pod/one": quota(0, 395, 99)})
    after = replace(
        BEFORE, quotas={"/pod": quota(0, 10_005, 100), "/pod/one": quota(0, 400, 104), "/new": quota(0, 9, 9)}
    )

    assert after.stops_since(before) == (5, 5)
    assert BEFORE.stops_since(BEFORE) == (0, 0)


class Row(NamedTuple):
    """What psutil tells of a core, on a system that knows no more."""

    user: float
    idle: float


@dataclass
class Machine:
    """Processor seconds of cores that are told apart by their size."""

    rows: list[float]

    def cpu_times(self, percpu: bool) -> list[object]:
        """As psutil tells them: a row for each core that is switched on, without its number."""
        assert percpu
        return [Row(user=size, idle=size) for size in self.rows]


@pytest.mark.parametrize(
    ("online", "mine", "busy"),
    [
        ("0-3", [1, 3], 1010.0),
        ("0,2,4,6", [0, 2], 11.0),
        ("0-2,7", [7], 1000.0),
        ("0-7", [1], 1111.0),
        (None, [1], 1111.0),
    ],
    ids=["all", "every second", "after a gap", "as many are not told", "nothing is known"],
)
def test_cores_that_this_process_may_not_use_do_not_count(
    online: str | None, mine: list[int], busy: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A core that is switched off has no row. Where it can't be known which row is whose, all of them count."""
    if online:
        (tmp_path / "online").write_text(f"{online}\n", encoding="ascii")
    monkeypatch.setattr(cpu_times, "ONLINE", tmp_path / "online")
    monkeypatch.setattr(cpu_times, "core_numbers", lambda: mine)
    monkeypatch.setattr(cpu_times, "usable_cores", lambda limits: 1)
    monkeypatch.setattr(psutil, "cpu_times", Machine([1.0, 10.0, 100.0, 1000.0]).cpu_times)
    found = read(3.0)

    assert (found.busy, found.own, found.total) == (busy, 3.0, 2 * busy)
    assert found.usable_share == 1 / len(mine)
