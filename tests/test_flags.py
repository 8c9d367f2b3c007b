"""What a process is set to, as it is read from Python and PyTorch."""

from __future__ import annotations

import cProfile
import os
import pstats
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from slowstep_probe.changing import flags
from slowstep_probe.changing.flags import FLAGS, Flags, debug_environment, tracing
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches
from slowstep_probe.survey.debug_environment import KEY, environment_of

PROFILER = cProfile.Profile()


class Monitoring(SimpleNamespace):
    """`sys.monitoring` (PEP 669) as far as it is asked, for a Python that has none: a profiler watches all code."""

    def __init__(self) -> None:
        super().__init__()
        self.events = {2: 6}

    def get_tool(self, tool: int) -> str | None:
        """Return the name of a tool; None if it is not in use."""
        return "cProfile" if tool in self.events else None

    def get_events(self, tool: int) -> int:
        """Return what a tool watches; ValueError if it is not in use."""
        if tool not in self.events:
            raise ValueError(f"tool {tool} is not in use")
        return self.events[tool]

    def set_events(self, tool: int, events: int) -> None:
        """Have a tool watch something else."""
        self.events[tool] = events


def profiler(_: pytest.MonkeyPatch) -> None:
    """Start the profiler of this Python."""
    PROFILER.enable()


def monitored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tool watch, as from Python 3.12 on."""
    monkeypatch.setattr(sys, "monitoring", Monitoring(), raising=False)


@pytest.mark.parametrize("watch", [profiler, monitored])
def test_a_profiler_is_seen_and_ended(watch: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """By sys.setprofile, or by the tools of sys.monitoring: Python's own profiler went from one to the other."""
    watch(monkeypatch)
    seen = tracing()
    FLAGS["process.tracing"].write(False)

    assert (seen, tracing()) == (True, False)


def test_a_program_that_reads_what_it_traced_goes_on() -> None:
    """It gets traces of nothing, and none of the errors that Python raises where nothing was traced."""
    patches, profile = Patches(), cProfile.Profile()
    Flags(Wanted({"process.tracing": False})).attach(patches)
    try:
        tracemalloc.start()
        profile.enable()
        kept = bytearray(2**20)
        seen = tracing()
        snapshot = tracemalloc.take_snapshot()
        profile.disable()
        stats = pstats.Stats(profile)
    finally:
        patches.remove()

    assert (False, 0, True) == (seen, len(snapshot.traces), stats.total_calls < len(kept))


def in_children(*names: str) -> list[str]:
    """What a process finds that is started now."""
    code = f"import os; print(*[os.environ.get(name, '-') for name in {names}])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_variables_that_debug_are_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are set now, and those that the program sets itself, which it still finds; no value that is off."""
    monkeypatch.setattr(flags, "kept_out", set())
    for name, value in (("PYTHONMALLOC", "debug"), ("NCCL_DEBUG", "WARN"), ("CUDA_LAUNCH_BLOCKING", "0")):
        monkeypatch.setenv(name, value)
    for name in ("MKL_VERBOSE", "TORCH_DISTRIBUTED_DEBUG", "ONEDNN_VERBOSE", "A_VARIABLE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    patches, before = Patches(), debug_environment()
    Flags(Wanted({KEY: False})).attach(patches)
    try:
        os.environ["MKL_VERBOSE"] = "1"
        assert os.environ.setdefault("ONEDNN_VERBOSE", "2") == "2"
        os.environ.update({"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "A_VARIABLE": "1"})
        os.environb[b"A_VARIABLE"] = b"2"
        del os.environ["TORCH_DISTRIBUTED_DEBUG"]
        after, own = debug_environment(), [os.environ.get(name) for name in ("MKL_VERBOSE", "PYTHONMALLOC")]
        found = in_children("MKL_VERBOSE", "ONEDNN_VERBOSE", "PYTHONMALLOC", "NCCL_DEBUG", "A_VARIABLE")
    finally:
        patches.remove()

    assert (before, after) == ("PYTHONMALLOC=debug", False)
    assert own == ["1", "debug"]
    assert found == ["-", "-", "-", "WARN", "2"]
    assert environment_of({KEY: False}, {"NCCL_DEBUG": "info", "PATH": "/bin"}) == {"PATH": "/bin"}
    assert environment_of({}, {"NCCL_DEBUG": "info"}) == {"NCCL_DEBUG": "info"}


@pytest.mark.parametrize("value", [True, False])
def test_tf32_can_be_read_by_its_older_names(value: bool) -> None:
    """Compilers and libraries ask by these, and PyTorch raises an error where it was set by the newer ones alone."""
    flag = FLAGS["training_arguments.tf32"]
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        flag.write(value)
        by_older_names = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision() == "high"

        assert (value, value, value) == (flag.read(), *by_older_names)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize(
    ("asked", "expandable"),
    [("", False), ("max_split_size_mb:128, expandable_segments:True", True), ("expandable_segments:False", False)],
)
def test_segments_that_the_environment_lets_grow_are_known_before_a_device_is(
    asked: str, expandable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wanted otherwise is set before the first tensor lies there."""
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", asked)

    assert flags.expandable_segments() is expandable


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this version knows the old names alone")
@pytest.mark.parametrize("value", [True, False])
def test_tf32_is_set_whatever_the_program_has_set_for_everything(value: bool) -> None:
    """Trainer sets it by a newer name. Products and convolutions follow, and both kinds of names can be read."""
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    try:
        torch.backends.fp32_precision = "ieee" if value else "tf32"
        flags._set_tf32(value)
        new = {one.fp32_precision for one in (products, cudnn.conv, cudnn.rnn)}
        old = {products.allow_tf32, cudnn.allow_tf32, torch.get_float32_matmul_precision() == "high"}

        assert ({"tf32" if value else "ieee"}, {value}) == (new, old)
        assert flags.tf32() is value
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.fp32_precision = products.fp32_precision = "none"
        cudnn.allow_tf32 = True
