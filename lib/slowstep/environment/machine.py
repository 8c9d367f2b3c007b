"""The machine and its packages, found out without torch.

They are the part of a measurement's identity that no setting holds.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from slowstep.environment.limits import usable_cores, usable_memory

PACKAGES = ("torch", "transformers", "accelerate", "peft", "bitsandbytes", "datasets", "tokenizers")


OPTIONAL = (
    *("apollo_torch", "bitsandbytes", "flash_attn", "galore_torch", "grokadamw", "kernels", "liger_kernel"),
    *("lomo_optim", "mlflow", "optimi", "schedulefree", "tensorboard", "tensorboardX", "torchao", "wandb"),
)
"""Packages that some factor needs."""

COMPILERS = ("c++", "g++", "clang++")

TOOLS = (*OPTIONAL, *COMPILERS)

MINIMA = {"torch": "2.6", "transformers": "5.0"}
"""The oldest versions that were tested."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processor, memory and accelerator, as records hold them. Memory is in bytes."""

    system: str
    processor: str
    cores: int
    """The cores that may be kept busy: a container may have fewer than the machine."""
    memory: int
    """The memory that may be held: a container may have less than the machine."""
    gpu: str | None
    gpu_count: int
    gpu_memory: int | None
    gpu_driver: str | None
    tools: tuple[str, ...] = ()
    """The names in `TOOLS` that are installed. They decide what can be tried, and not how fast it is."""

    @property
    def device(self) -> str:
        """Return 'cuda' or 'cpu': the device on which trials run unless the settings say `use_cpu`."""
        return "cuda" if self.gpu else "cpu"

    def __str__(self) -> str:
        if self.gpu:
            return f"{self.gpu_count} x {self.gpu} ({self.gpu_memory / 2**30:.0f} GiB), {self.cores} CPU cores"
        return f"{self.processor}, {self.cores} cores, {self.memory / 2**30:.0f} GiB, no GPU"


@functools.cache
def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    gpu, count, memory, driver = _gpu()
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=usable_cores(),
        memory=usable_memory(),
        gpu=gpu,
        gpu_count=count,
        gpu_memory=memory,
        gpu_driver=driver,
        tools=(*filter(importlib.util.find_spec, OPTIONAL), *filter(shutil.which, COMPILERS)),
    )


def too_old(installed: Mapping[str, str]) -> list[str]:
    """Return a line for each package that is older than what was tested, with what to do."""
    return [
        f"{package} {installed[package]} is installed, and slowstep needs {least} or later: "
        f"install it in an environment with a later {package}"
        for package, least in MINIMA.items()
        if package in installed and _release(installed[package]) < _release(least)
    ]


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a release: (2, 13) of `2.13.0+cpu`."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:2])


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a step's speed; a missing package is left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _gpu() -> tuple[str | None, int, int | None, str | None]:
    """Return the name of the first device that programs see, how many they see, its memory in bytes, and the driver."""
    import pynvml

    given = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")]
    names = list(itertools.takewhile(lambda name: name not in ("", "-1"), given))  # as CUDA reads it
    if not names:
        return None, 0, None, None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None, 0, None, None
    try:
        count = pynvml.nvmlDeviceGetCount()
        if count == 0:
            return None, 0, None, None
        handle = _device(names[0])
        name, driver = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlSystemGetDriverVersion()
        seen = min(count, len(names)) if "CUDA_VISIBLE_DEVICES" in os.environ else count
        return name, seen, pynvml.nvmlDeviceGetMemoryInfo(handle).total, driver
    except pynvml.NVMLError:
        return None, 0, None, None
    finally:
        pynvml.nvmlShutdown()


def _device(name: str) -> Any:
    """Return NVML's handle of a device by its number or its UUID; of one that is cut into parts (MIG) its first part.

    A part has a name, memory and processors of its own, and CUDA gives a program no more than one.
    """
    import pynvml

    if name.isdecimal():
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(name))
    else:
        handle = pynvml.nvmlDeviceGetHandleByUUID(_whole_uuid(name))
    if name.startswith("MIG-"):
        return handle
    try:
        cut, _ = pynvml.nvmlDeviceGetMigMode(handle)
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0) if cut == pynvml.NVML_DEVICE_MIG_ENABLE else handle
    except pynvml.NVMLError:  # most devices can't be cut
        return handle


def _whole_uuid(name: str) -> str:
    """Return the UUID of the whole device that begins with `name`, as CUDA takes it; `name` itself if none does."""
    import pynvml

    every = (pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount()))
    return next((uuid for one in every if (uuid := pynvml.nvmlDeviceGetUUID(one)).startswith(name)), name)
