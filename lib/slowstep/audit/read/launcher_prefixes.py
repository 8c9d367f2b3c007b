"""What a launcher writes before each line of a log (`[default0]:`, `worker-3:`, `0:`), which is no name of a bar."""

from __future__ import annotations

import re
from collections.abc import Collection

OF_A_PROCESS = re.compile(
    r"\[(?!epoch|step|iter|fold|phase|stage)[a-z_-]*[ _:-]?\d{1,5}(?:,\d{1,5})?\](?:<std(?:err|out)>)?|"
    r"(?:rank|local_rank|proc|process|node|worker|host|task|gpu)?[ _-]?\d{1,5}",
    re.IGNORECASE,
)
"""The prefix of a process: of torchrun (`[default0]`), of mpirun (`[1,0]<stderr>`), of `srun -l` (`0`)."""

TOKEN = re.compile(r"(?P<token>(?=[^\s:]*\d)[A-Za-z][\w.-]{0,60}): ")
"""The beginning of a line that may be the name of a host, as pdsh writes it. It holds a number."""

OF_TRAINING = re.compile(r"epoch|train|step|iter|eval|val|test|fold|phase|stage", re.IGNORECASE)
"""Words that are none of the name of a host."""

LINES = 4
"""The number of lines from which on it is no chance that all begin so."""


def hosts_in(text: str) -> frozenset[str]:
    """Return the words before a colon that all lines of a log's beginning begin with, where some line is of no bar."""
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    found = [TOKEN.match(line) for line in lines]
    plain = [line for line in lines if "\r" not in line and "%|" not in line]
    words = any(OF_TRAINING.search(match["token"]) for match in found if match)
    if len(lines) < LINES or not all(found) or words or len(plain) < len(lines) / 4:
        return frozenset()
    return frozenset(match["token"] for match in found if match)


def is_prefix(head: str, hosts: Collection[str]) -> bool:
    """Return whether what stands in a line before a bar is only what launchers write there, `[default0]:[rank0]`."""
    parts = [part.strip() for part in head.split(":")]
    return all(part in hosts or OF_A_PROCESS.fullmatch(part) for part in parts)
