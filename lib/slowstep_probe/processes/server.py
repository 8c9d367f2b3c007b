"""The warm interpreter: it imports once what a program needs, and forks trials that find the imports made.

It only imports. A tensor that is touched before the fork would leave OpenMP's threads behind and hang the child, and a
device that is initialised before it would be lost to every child. Some packages initialise a device when they are
imported, and libraries import them if they can. So those are hidden here, and imported by the trials that use them.

It is started as `python -c "…; main(DESCRIPTOR, PRINTED)"` with a socket at the first descriptor, and a file at the
second that takes what the imports print. It takes two kinds of messages: `{"preload": [modules], "argv": [words]}`, and
`{"fork": order}` with two descriptors, the trial's wire and the guard's. Each message has the number of the `request`,
and so has the reply. Libraries may look at the program's words, which are its `sys.argv`, when they are imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.plain import from_plain, shortened
from slowstep_probe.processes.guard import Order, guard
from slowstep_probe.processes.tree import PATIENCE, adopt_orphans, descendants, end_descendants, reap_adopted
from slowstep_probe.processes.wire import Wire

HIDDEN = ("bitsandbytes",)
"""Packages that initialise a device when they are imported."""

DEVICES = ("/dev/nvidia-uvm", "/dev/kfd")
"""The beginnings of the files that CUDA and ROCm open when they are initialised, and that asking for a device's name or
number (NVML) does not."""

COMPILE_WORKERS = "TORCH_WARM_POOL"
"""The environment variable by which Inductor asks whether to start its processes: older versions when imported."""

REAP_SECONDS = 1.0
"""The seconds after which the server lets go of guards that have ended."""


def main(descriptor: int, printed: int) -> None:
    """Serve the kit at the other end of the socket until it is gone; then end all that was forked. Never returns."""
    for one in (descriptor, printed):
        os.set_inheritable(one, False)
    adopt_orphans()  # an orphan comes here should a guard be killed, and the kit finds it here
    wire = Wire.of(descriptor)
    try:
        serve(wire, printed)
        _let_guards_end()
    finally:
        end_descendants(os.getpid())
        os._exit(0)


def _let_guards_end() -> None:
    """Wait for the guards, which know by themselves that the kit is gone, and clear away what it left."""
    deadline = time.monotonic() + PATIENCE
    while descendants(os.getpid()) and time.monotonic() < deadline:
        reap_adopted()
        time.sleep(0.02)


def serve(wire: Wire, printed: int) -> None:
    """Answer messages until the other end is gone. `printed` takes what the imports print, and is closed after them."""
    while True:
        try:
            message = wire.receive(REAP_SECONDS)
        except TimeoutError:
            reap_adopted()
            continue
        except EOFError:
            return
        request = {"request": message["request"]}
        if "preload" in message:
            sys.argv[:] = message["argv"] or sys.argv
            with _printing_to(printed):
                told = preload(message["preload"])
            os.close(printed)  # a trial would inherit it
            wire.send(told | request)
        else:
            wire.send(_forked(wire, from_plain(Order, message["fork"])) | request)
            reap_adopted()


def preload(modules: Sequence[str]) -> dict[str, Any]:
    """Import modules. Return the seconds it took, the moment it was done, and why modules could not be imported.

    The moment is one of `time.monotonic()`, which all processes share. An import that opens a device ends it: no child
    could use the device any more. Its module is told as the one that `opened` it, and the kit starts anew without it.
    """
    began, failed, opened = time.perf_counter(), {}, ""
    before = open_devices()
    with hidden(HIDDEN), _no_compile_workers():
        for name in modules:
            if any(hidden_one in name for hidden_one in HIDDEN):  # an integration that finds it absent stays without
                continue
            try:
                importlib.import_module(name)
            except BaseException as error:  # the program will meet it too, and says so in its own words
                failed[name] = shortened(f"{type(error).__name__}: {error}", 300)
            if open_devices() - before or _has_device():
                opened = name
                break
    # A trial's first gc.collect() would walk half a million imported objects (0.2 s of its start) and unshare the pages
    # they lie on. Frozen, they are left alone.
    gc.collect()
    gc.freeze()
    return {"seconds": time.perf_counter() - began, "ready": time.monotonic(), "failed": failed, "opened": opened}


def open_devices() -> set[str]:
    """Return the files of devices that this process has open (Linux)."""
    found = set()
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {path for path in found if path.startswith(DEVICES)}


def _has_device() -> bool:
    """Return whether PyTorch has initialised a device here. Under Windows' Linux (WSL) its file tells nothing."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_initialized()


@contextlib.contextmanager
def hidden(packages: Sequence[str]) -> Iterator[None]:
    """Hide packages from imports while the block runs, and afterwards forget what was cached about their absence."""
    absent = [name for name in packages if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
        users = [m for name, m in sys.modules.items() if name.startswith(("peft", "transformers", "accelerate"))]
        for module in users:
            for name, value in list(vars(module).items()):
                if ("bnb" in name or any(p in name for p in packages)) and hasattr(value, "cache_clear"):
                    value.cache_clear()


@contextlib.contextmanager
def _printing_to(descriptor: int) -> Iterator[None]:
    """Have everything that is printed while the block runs go to a descriptor: by Python, by C, by child processes.

    A library's warnings would otherwise stand between the kit's own lines on the user's terminal.
    """
    own = [(number, os.dup(number)) for number in (1, 2)]
    for number, _ in own:
        os.dup2(descriptor, number)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        for number, kept in own:
            os.dup2(kept, number)
            os.close(kept)


@contextlib.contextmanager
def _no_compile_workers() -> Iterator[None]:
    """Let no module start Inductor's pool of processes while the block runs: a trial that needs one starts its own."""
    before = os.environ.get(COMPILE_WORKERS)
    os.environ[COMPILE_WORKERS] = "0"
    try:
        yield
    finally:
        os.environ.pop(COMPILE_WORKERS, None)
        if before is not None:
            os.environ[COMPILE_WORKERS] = before


def _forked(wire: Wire, order: Order) -> dict[str, Any]:
    """Fork a guard that carries out an order, and return its number, or why the system refused."""
    trial, report = wire.descriptors[:2]
    del wire.descriptors[:2]
    try:
        pid, refused = os.fork(), ""
    except OSError as error:  # as many processes, or as much memory, as the system allows
        pid, refused = -1, str(error)
    if pid:
        os.close(trial)
        os.close(report)
        return {"refused": refused} if refused else {"guard": pid}
    status = 1
    try:
        wire.close()
        guard(Wire.of(report), Wire.of(trial), order)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
