"""The run: what is trained, as canonical keys with values, and where each value comes from.

A key is the ecosystem's own name: an argument of transformers' TrainingArguments by itself (`dataloader_num_workers`),
what belongs to another section with the section before it (`model.dtype`, `dataset.max_length`, `peft.r`,
`optimizer_kwargs.foreach`, `job.samples`). Factors ask the run for a value, and never a library for its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Origin(StrEnum):
    """Where a value comes from."""

    DEFAULT = "default"
    FILE = "file"
    COMMAND_LINE = "command line"
    OBSERVED = "observed"


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value, its origin, and the place where it was given (`params/quick.yaml:12`), if that is known."""

    value: Any
    origin: Origin
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as it will be trained."""

    values: Mapping[str, Value]
    """What is known, by canonical key."""
    default: Callable[[str], Any]
    """The default of a key that is not among the values; KeyError for a key that does not exist."""
    listed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The levels that the parameter file lists, by factor."""

    def __getitem__(self, key: str) -> Any:
        """Return the value of a canonical key; KeyError if there is no such key."""
        return self.value(key).value

    def value(self, key: str) -> Value:
        """Return the value of a key with its origin; KeyError if there is no such key."""
        return self.values.get(key) or Value(value=self.default(key), origin=Origin.DEFAULT)

    @property
    def effective_batch_size(self) -> int:
        """Samples an optimizer step on one device."""
        return int(self["per_device_train_batch_size"]) * int(self["gradient_accumulation_steps"])

    @property
    def compiled(self) -> bool:
        """Whether the model is compiled; transformers also does so where only a mode or a backend is given."""
        return any(self[f"torch_compile{of}"] for of in ("", "_mode", "_backend"))

    @property
    def batched_fetching(self) -> bool:
        """Whether a batch is fetched at once.

        A tokenised set of `datasets` does so by itself; a class of one's own that tokenises what it is asked for does
        not.
        """
        given = self["dataset.batched_fetching"]
        return self["dataset.tokenize"] == "once" if given is None else given
