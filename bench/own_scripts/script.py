"""A script with texts replaced, and what it prints of its own throughput."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def changed(text: str, replace: Mapping[str, str]) -> str:
    """A script with texts replaced, each of which it must hold."""
    for old, new in replace.items():
        if old not in text:
            raise ValueError(f"the script does not hold {old!r}")
        text = text.replace(old, new)
    return text


def throughput(
    command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, timeout: float | None = None
) -> float:
    """What a script prints of its own throughput, in samples a second; RuntimeError if it prints none."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=timeout)
    told = re.search(r"([\d.e+]+) samples/s", done.stdout)
    if done.returncode or not told:
        raise RuntimeError(f"the script ended with status {done.returncode}: {done.stderr[-1000:]}")
    return float(told[1])
