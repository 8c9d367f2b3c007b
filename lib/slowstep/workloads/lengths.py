"""The lengths of a job's examples, by a look at some of them. The trials of one measurer look once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from slowstep.records.store import write_atomically
from slowstep.workloads.data import Encoder, OnTheFly

LOOKED_AT_LEAST, LOOKED_AT_MOST, LOOKING_SECONDS = 500, 2000, 0.5
"""The least and the most examples whose lengths stand for all, and the seconds that looking at them may take."""

CHECKED = 16
"""The examples whose lengths are held against those that another trial found, before its look is taken."""


def lengths(examples: Sequence[Any], shared: Path | None = None) -> np.ndarray | None:
    """Return the tokens of each of some examples drawn at random, shape (examples,), as many as a moment allows.

    None if they are too few, or if an example has no tokens yet (the collator makes them). A dataset of the user's own
    is left alone: what it opens when it is asked here, loader workers would find open. What was found is kept in the
    folder `shared`, for other trials of the same data.
    """
    if not isinstance(examples, datasets.Dataset | OnTheFly | list):
        return None
    order = np.random.default_rng(0).permutation(len(examples))[:LOOKED_AT_MOST]
    found = _kept(examples, order, shared)
    return np.array(found) if found is not None and _enough(found, order) else None


def _enough(found: Sequence[int], order: np.ndarray) -> bool:
    return len(found) >= min(LOOKED_AT_LEAST, len(order))


def _kept(examples: Sequence[Any], order: np.ndarray, shared: Path | None) -> list[int] | None:
    """Return the lengths as another trial found them, or by a look, which is then kept for others."""
    name = _name(examples)
    if shared is None or not name:
        return _look(examples, order)
    file = shared / f"lengths-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept[:CHECKED] == _look(examples, order[:CHECKED]):
            return kept
    found = _look(examples, order)
    if found and _enough(found, order):
        with contextlib.suppress(OSError):  # it saves time, and nothing else
            write_atomically(file, json.dumps(found))
    return found


def _look(examples: Sequence[Any], order: np.ndarray) -> list[int] | None:
    """Return the lengths of the examples in this order, of as many as time allows; None if one has no tokens."""
    found, began = [], time.perf_counter()
    for i in order:
        example = examples[int(i)]
        if not isinstance(example, Mapping) or "input_ids" not in example:
            return None
        found.append(len(example["input_ids"]))
        if time.perf_counter() - began > LOOKING_SECONDS:
            break
    return found


def _name(examples: Sequence[Any]) -> str:
    """Return a name that other examples don't have; empty for those that are quick to look at, or not looked at."""
    if isinstance(examples, OnTheFly):
        encode = examples.encode
        return f"{examples.raw._fingerprint} {encode.identity}" if type(encode) is Encoder else ""
    return examples._fingerprint if isinstance(examples, datasets.Dataset) else ""


def longest_of(found: np.ndarray, batch: int) -> float:
    """Return the mean longest of `batch` examples drawn from `found`: the expected maximum.

    It is computed by its distribution function.
    """
    ranks = np.arange(len(found) + 1) / len(found)
    return float((np.sort(found) * np.diff(ranks**batch)).sum())


def longest_of_alike(found: np.ndarray, batch: int) -> float:
    """Return the mean longest of `batch` examples of similar length, which follow each other in order of length."""
    return float(np.sort(found)[batch - 1 :: batch].mean()) if len(found) >= batch else float(found.max())
