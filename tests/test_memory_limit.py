"""What a trial may take rests on what is left: of the machine, and of the container that the kit runs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.processes import memory

MIB = 2**20


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of control groups, and this process a member of `/job/kit`."""
    (tmp_path / "cgroup").write_text("4:memory:/job/kit\n0::/job/kit\n", encoding="ascii")
    monkeypatch.setattr(memory, "MOUNTED", tmp_path / "mounted")
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "cgroup")
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
    assert 400 * MIB == memory.available()

    write(groups / "job", {"memory.stat": f"anon 5\ninactive_file {100 * MIB}"})
    assert 500 * MIB == memory.available()


def test_the_first_version_of_control_groups_counts_as_well(groups: Path) -> None:
    """A container sees its own group at the top, whatever path its host knows it by."""
    write(groups / "memory", {"memory.limit_in_bytes": 700 * MIB, "memory.usage_in_bytes": 600 * MIB})

    assert 100 * MIB == memory.available()


def test_no_limit_leaves_the_machine(groups: Path) -> None:
    """Neither groups without a limit nor a system without groups take anything away."""
    alone = memory.available()
    write(groups / "job" / "kit", {"memory.max": "max", "memory.current": 300 * MIB})

    assert memory.available() == pytest.approx(alone, rel=0.2)
