"""Two nodes on one machine: two folders and two endpoints, a core each, of which one may be granted less of its core.

A control group grants it: that takes the right to make one (root). Both nodes are the same machine in everything else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TORCHRUN = str(Path(sys.executable).parent / "torchrun")

GRANTED = 0.6
"""The part of its core that a slow node is granted."""

PERIOD = 10_000
"""The microseconds within which that is granted. An arm that waits saves it up, so it must be short beside a block."""

JOINED_SECONDS = 30
"""The seconds in which the second node has to end once the session is over."""


@dataclass(frozen=True, kw_only=True)
class TwoNodes:
    """How programs are started on two nodes: words that stand before a command on each, and the session's options."""

    within: tuple[list[str], list[str]]
    port: int
    key: Path

    def diagnose(self) -> list[str]:
        """The options of `slowstep diagnose` on node 0."""
        return ["--port", str(self.port), "--key-file", str(self.key)]

    def launcher(self, node: int) -> list[str]:
        """The words before a script that trains on both nodes, as torchrun wants them on one of them."""
        options = ["--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(node), "--master-addr", "127.0.0.1"]
        return [TORCHRUN, *options]

    def alone(self, node: int) -> list[str]:
        """The words before a script that trains on one node by itself."""
        return [*self.within[node], TORCHRUN, "--nproc-per-node", "1"]

    @contextlib.contextmanager
    def second(self, script: Path, env: Mapping[str, str]) -> Iterator[None]:
        """Let node 1 join, with a copy of the script in a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(script, folder)
            own = [sys.executable, "-m", "slowstep.cli", "join", f"127.0.0.1:{self.port}", "--key-file", str(self.key)]
            words = [*self.within[1], *own, "--", *self.launcher(1), script.name]
            joined = subprocess.Popen(words, cwd=folder, env=dict(env), stdout=subprocess.DEVNULL)
            try:
                yield
                with contextlib.suppress(subprocess.TimeoutExpired):  # no session began, and the row says so
                    joined.wait(JOINED_SECONDS)
            finally:
                joined.kill()
                joined.wait()


@contextlib.contextmanager
def two_nodes(slow: int | None) -> Iterator[TwoNodes]:
    """Set up two nodes, of which `slow` is granted less of its core; None for two that are alike."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        within = [["taskset", "-c", str(core)] for core in cores]
        if slow is not None:
            within[slow] = [*stack.enter_context(granted(GRANTED)), *within[slow]]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        yield TwoNodes(within=(within[0], within[1]), port=port, key=Path(folder) / "key")


@contextlib.contextmanager
def granted(part: float) -> Iterator[list[str]]:
    """Make a control group that grants a part of one core, and give the words that start a command in it."""
    root = Path("/sys/fs/cgroup")
    group = Path(tempfile.mkdtemp(prefix="slowstep-bench-", dir=root / "cpu" if (root / "cpu").is_dir() else root))
    quota = round(part * PERIOD)
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD}")
        yield ["sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        removed(group)


def removed(group: Path) -> None:
    """Remove a control group as soon as its last process has ended; OSError if that takes too long."""
    deadline = time.monotonic() + JOINED_SECONDS
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
