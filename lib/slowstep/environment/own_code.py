"""The identity of the kit's own code: what another version concluded or drew is known by it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[1]

ENDINGS = (".py", ".j2", ".css", ".csv")

JUDGING = ("settings", "factors", "records", "judgement", "wording", "text", "investigation", "final")
"""The layers that make conclusions of records. Others measure, draw or audit: what they are leaves a verdict alone."""


@functools.cache
def own_code() -> str:
    """Return the identity of the library's code: what it measures, by which rules it judges, and what it says."""
    every = (p for folder in (LIBRARY, LIBRARY.with_name("slowstep_probe")) for p in folder.rglob("*"))
    return _identity(p for p in every if p.suffix in ENDINGS)


@functools.cache
def judging_code() -> str:
    """Return the identity of the code that concludes from records: where it is the same, verdicts are, too."""
    return _identity(p for layer in JUDGING for p in (LIBRARY / layer).rglob("*") if p.suffix in (".py", ".csv"))


def _identity(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
