"""Changes of what a process is set to. A program may set it itself, so its own calls are overruled."""

from __future__ import annotations

import cProfile
import gc
import os
import shlex
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.autograd.anomaly_mode

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches
from slowstep_probe.secret import masked
from slowstep_probe.survey.debug_environment import debugging, debugs

SDPA = {
    "math": "math",
    "flash": "flash",
    "efficient": "mem_efficient",
    "cudnn": "cudnn",
}
"""The kernels of scaled_dot_product_attention, by the names of their flags (torch.backends.cuda.enable_…_sdp)."""

TOOLS = 6
"""The tools that `sys.monitoring` has room for."""

PROCESS = "process."

NOTED = 4
"""The most calls of a program by which it sets a flag that are noted."""


def tf32() -> bool:
    """Return whether 32-bit matrix products are rounded to TF32."""
    products = torch.backends.cuda.matmul
    if hasattr(products, "fp32_precision"):  # from torch 2.9 on the older name can't be read once this one was set
        return products.fp32_precision == "tf32"
    return bool(products.allow_tf32)


def _set_tf32(value: bool) -> None:
    """Set it by all of its names: what is set by new names alone makes the old ones raise.

    Of convolutions the old name alone would leave what a program has set for everything, as Trainer does.
    """
    torch.set_float32_matmul_precision("high" if value else "highest")
    torch.backends.cudnn.allow_tf32 = value
    for name in ("conv", "rnn"):  # from torch 2.9 on
        if hasattr(of := getattr(torch.backends.cudnn, name, None), "fp32_precision"):
            of.fp32_precision = "tf32" if value else "ieee"


def sdpa_backend() -> str | None:
    """Return the one kernel that attention may use; None if PyTorch chooses."""
    allowed = [name for name, flag in SDPA.items() if getattr(torch.backends.cuda, f"{flag}_sdp_enabled")()]
    return allowed[0] if len(allowed) == 1 else None


def _set_sdpa_backend(value: str) -> None:
    for name, flag in SDPA.items():
        getattr(torch.backends.cuda, f"enable_{flag}_sdp")(name == value)


def collecting() -> str:
    """Return what Python's cyclic garbage collector does: 'automatic', 'frozen' (not the old objects), or 'off'."""
    if not gc.isenabled():
        return "off"
    return "frozen" if gc.get_freeze_count() else "automatic"


def _set_collecting(value: str) -> None:
    gc.enable()
    gc.unfreeze()
    if value == "frozen":
        gc.collect()
        gc.freeze()
    elif value == "off":
        gc.disable()


def tracing() -> bool:
    """Return whether something notes each allocation, call or line of Python: tracemalloc, cProfile, a debugger."""
    return tracemalloc.is_tracing() or sys.getprofile() is not None or sys.gettrace() is not None or bool(monitors())


def monitors() -> list[int]:
    """Return the tools that watch all code by `sys.monitoring` (PEP 669), as cProfile does from Python 3.12 on."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return []
    return [tool for tool in range(TOOLS) if monitoring.get_tool(tool) is not None and monitoring.get_events(tool)]


def _end_tracing(_: bool) -> None:
    tracemalloc.stop()
    sys.setprofile(None)
    sys.settrace(None)
    for tool in monitors():
        sys.monitoring.set_events(tool, 0)  # type: ignore[attr-defined]


def _traced_briefly(start: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Start to trace and end it at once, so that a program which asks for what was seen gets an answer."""
    start(*args, **kwargs)
    _end_tracing(False)


def _snapshot(take: Callable[[], Any]) -> Any:
    """Return the traces of allocations; none of them where nothing is traced, where Python itself raises an error."""
    return take() if tracemalloc.is_tracing() else tracemalloc.Snapshot((), 1)


def _set_benchmark(value: bool) -> None:
    torch.backends.cudnn.benchmark = value


def expandable_segments() -> bool:
    """Return whether device memory is kept in segments that grow, as the allocator itself tells.

    Before a device is initialised, the environment tells what it will do.
    """
    if not torch.cuda.is_initialized():
        return any(one.strip().lower() == "expandable_segments:true" for one in _asked_of_allocator())
    if torch.cuda.get_allocator_backend() != "native":  # others have no segments
        return False
    return bool(torch.cuda.memory._snapshot().get("allocator_settings", {}).get("expandable_segments", False))


def _asked_of_allocator() -> list[str]:
    """Return the options of PyTorch's allocator of device memory that the environment holds."""
    asked = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    return asked.split(",")


def _set_expandable_segments(value: bool) -> None:
    """Set it for all that is allocated from now on, beside what the environment asks. This initialises no device."""
    others = [one for one in _asked_of_allocator() if one and not one.strip().startswith("expandable_segments")]
    newest = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    setter = newest or torch.cuda.memory._set_allocator_settings
    setter(",".join([*others, f"expandable_segments:{value}"]))


kept_out: set[str] = set()
"""The variables that a program still finds in `os.environ`, and that no library and no child of the process does."""


def debug_environment() -> str | bool:
    """Return the variables by which libraries debug what they do, as a command's line has them; False for none."""
    names = [name for name in debugging(os.environ) if name not in kept_out]
    return " ".join(f"{name}={shlex.quote(masked(name, os.environ[name]))}" for name in names) or False


def _end_debugging(_: bool) -> None:
    for name in debugging(os.environ):
        _keep_out(name)


def _keep_out(name: str) -> None:
    os.unsetenv(name)  # what `os.environ` holds stays as it is, for the program may read it there
    kept_out.add(name)


def _set_for_program(set_variable: Callable[..., None], env: Any, name: str, value: str) -> None:
    """Set a variable for the program's own eyes."""
    set_variable(env, name, value)
    _keep_out(name)


@dataclass(frozen=True)
class Flag:
    """Something that a process is set to."""

    read: Callable[[], Any]
    write: Callable[[Any], None]
    call: str
    """The function or the attribute by which a program sets it."""
    setters: tuple[tuple[Any, str], ...] = ()
    """The functions by which a program sets it, each as its owner and its name."""
    about: Callable[..., bool] = lambda *args, **kwargs: True
    """Tells whether a call of such a function is one, by its arguments."""
    said: Callable[..., Any] = lambda given, *others: given
    """Tells the value that a program gives to such a function, by what it is called with."""
    instead: Callable[..., Any] = lambda original, *args, **kwargs: None
    """Does what is done where a program calls such a function, with the function and its arguments."""
    readers: tuple[tuple[Any, str, Callable[..., Any]], ...] = ()
    """Functions that read what it does, each as its owner and its name, and what answers in their place."""
    grows: bool = False
    """True if setting it acts on what exists then, so that it is set again when training begins."""


# the originals are kept here, so that setting a flag does not pass through what is replaced
FLAGS: dict[str, Flag] = {
    "training_arguments.tf32": Flag(tf32, _set_tf32, "torch.backends.cuda.matmul.allow_tf32"),
    "model.sdpa_backend": Flag(sdpa_backend, _set_sdpa_backend, "torch.nn.attention.sdpa_kernel"),
    "process.num_threads": Flag(
        torch.get_num_threads, torch.set_num_threads, "torch.set_num_threads", ((torch, "set_num_threads"),)
    ),
    "process.detect_anomaly": Flag(
        torch.is_anomaly_enabled,
        torch.set_anomaly_enabled,
        "torch.autograd.set_detect_anomaly",
        ((torch, "set_anomaly_enabled"),),
    ),
    "process.deterministic_algorithms": Flag(
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        "torch.use_deterministic_algorithms",
        ((torch, "use_deterministic_algorithms"),),
    ),
    "process.cudnn_benchmark": Flag(
        lambda: torch.backends.cudnn.benchmark, _set_benchmark, "torch.backends.cudnn.benchmark"
    ),
    "process.expandable_segments": Flag(expandable_segments, _set_expandable_segments, "PYTORCH_CUDA_ALLOC_CONF"),
    "process.tracing": Flag(
        tracing,
        _end_tracing,
        "tracemalloc.start",
        ((tracemalloc, "start"), (cProfile.Profile, "enable")),
        said=lambda *given: True,
        instead=_traced_briefly,
        readers=((tracemalloc, "take_snapshot", _snapshot),),
    ),
    "process.debug_environment": Flag(
        debug_environment,
        _end_debugging,
        "os.environ",
        ((type(os.environ), "__setitem__"),),
        about=lambda env, name, value: isinstance(name, str) and isinstance(value, str) and debugs(name, value),
        said=lambda env, name, value: f"{name}={shlex.quote(masked(name, value))}",
        instead=_set_for_program,
    ),
    "process.garbage_collection": Flag(collecting, _set_collecting, "gc.freeze", grows=True),
}
"""What can be set, by canonical key."""


class Flags:
    """Sets flags before the program and again before its first step, and keeps them when the program sets them."""

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._calls: Counter[str] = Counter()
        """How often the program set each flag itself."""

    def attach(self, patches: Patches) -> None:
        for key in self._asked():
            flag = FLAGS[key]
            for owner, name, answer in flag.readers:
                patches.around(owner, name, answer)
            for owner, name in flag.setters:
                called = flag.call if len(flag.setters) == 1 else f"{owner.__name__}.{name}"
                patches.around(owner, name, self._overruled(key, called))
        self.set()

    def set(self) -> None:
        """Set those that are wanted and differ."""
        for key in self._asked():
            flag, value = FLAGS[key], self.wanted[key]
            if (before := flag.read()) != value or flag.grows:
                flag.write(value)
                self.wanted.note(key, flag.call, before, value)

    def _asked(self) -> list[str]:
        return [key for key in FLAGS if key in self.wanted]

    def _overruled(self, key: str, name: str) -> Callable[..., Any]:
        def called(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            # a loader's worker has flags of its own, and its thread that pins memory sets what it likes
            elsewhere = os.getpid() != self._process or threading.get_ident() != self._thread
            if elsewhere or not FLAGS[key].about(*args, **kwargs):
                return original(*args, **kwargs)
            self._calls[key] += 1
            if self._calls[key] <= NOTED:  # it may be set in each step
                given = [*args, *kwargs.values()]
                before = FLAGS[key].said(*given) if given else True
                self.wanted.note(key, name, before, self.wanted[key])
            return FLAGS[key].instead(original, *args, **kwargs)

        return called


def process_facts() -> dict[str, Any]:
    """Return what this process is set to, by the names of the section `process`."""
    return {key.removeprefix(PROCESS): flag.read() for key, flag in FLAGS.items() if key.startswith(PROCESS)}
