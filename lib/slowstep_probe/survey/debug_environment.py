"""Environment variables by which libraries debug, check or log what they do, at a cost in each step.

They are set to find a fault, and stay in a shell's profile or a batch script when it is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ON = r"(?!0$|false$|no$|off$).+"

DEBUG = {
    "CUDA_LAUNCH_BLOCKING": ON,  # the host waits for each kernel
    "PYTORCH_NO_(CUDA|HIP)_MEMORY_CACHING": ".*",  # each tensor is asked of the driver, and given back: also for 0
    "TORCH_DISTRIBUTED_DEBUG": "info|detail",  # ranks compare what they exchange
    "(TORCH_)?NCCL_BLOCKING_WAIT": ON,  # the host waits for each collective
    "TORCH_NCCL_DESYNC_DEBUG": ON,
    "NCCL_DEBUG": "info|trace",
    "TORCH_CPP_LOG_LEVEL": "info|0",
    "TORCH_(LOGS|TRACE|COMPILE_DEBUG|SHOW_DISPATCH_TRACE)": ON,
    "(MKL|DNNL|ONEDNN)_VERBOSE": ON,  # a line for each primitive
    "(CUDNN|CUBLAS)_LOGINFO_DBG|CUBLASLT_LOG_LEVEL|CUDNN_LOGLEVEL_DBG": ON,
    "PYTHONMALLOC": ".*debug",  # each allocation has marks, which are looked at
    "PYTHON(DEVMODE|ASYNCIODEBUG)": ON,
    "MALLOC_(CHECK|PERTURB)_": ON,  # glibc's own checks, and filling of what is freed
}
"""The values with which a variable costs something, by its name; both are patterns."""

VALUES = [(re.compile(name), re.compile(value, re.IGNORECASE)) for name, value in DEBUG.items()]


KEY = "process.debug_environment"
"""The change's canonical key; False is the environment without them."""


def debugs(name: str, value: str) -> bool:
    """Return whether an environment variable of that value asks for something that costs time."""
    return any(names.fullmatch(name) and values.fullmatch(value.strip()) for names, values in VALUES)


def debugging(env: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that do."""
    return sorted(name for name, value in env.items() if debugs(name, value))


def environment_of(values: Mapping[str, object], env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with which a program starts that is changed by these values, by canonical key."""
    return {name: value for name, value in env.items() if values.get(KEY) is not False or not debugs(name, value)}
