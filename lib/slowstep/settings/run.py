"""The run: what is trained, as canonical keys with values, and the origin of each value.

A key is the ecosystem's own name: an argument of transformers' TrainingArguments by itself (`dataloader_num_workers`),
what belongs to another section with the section before it (`model.dtype`, `dataset.max_length`, `peft.r`,
`optimizer_kwargs.foreach`, `job.samples`). Factors ask the run for a value, and never a library for its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slowstep.settings.library_arguments import SECTIONS


class Origin(StrEnum):
    """The origins that a value can have."""

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


NEWER = frozenset({"train_sampling_strategy"})
"""The training arguments that the kit asks for and that not all versions of transformers from 5.0 on have."""


def training_default(name: str, known: Mapping[str, Any]) -> Any:
    """Return the default of a training argument: as it is `known`, else that of the installed transformers.

    None for an argument that older versions of transformers do not have. KeyError for one that none has.
    """
    every = known or SECTIONS["training_arguments"].fields()
    if name in NEWER and name not in every:
        return None
    return known[name] if known else every[name].default


def training_defaults() -> dict[str, Any]:
    """Return the defaults of the installed transformers' TrainingArguments, as a record keeps them."""
    return {name: one.default for name, one in SECTIONS["training_arguments"].fields().items()}


OPEN = ("peft", "quantization", "optimizer_kwargs", "model.config")
"""The sections whose keys are a library's own. A key that is not given there is None."""


UNSEEN = {
    "save_strategy": "no",
    "eval_strategy": "no",
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "dataloader_num_workers": 0,
    "model.dtype": "float32",
    "dataset.padding": "longest",
    "dataset.tokenize": "on_the_fly",
    "dataset.cached_batches": 0,
    "processes": 1,
    "nodes": 1,
    "nodes.number": 0,
    "nodes.processes": (),
}
"""The values of a command's run that no survey saw. All others are None."""


DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""The precisions of the products, as accelerate names them, with PyTorch's names."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as it will be trained."""

    values: Mapping[str, Value]
    """The known values, by canonical key."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of TrainingArguments where a record tells them; empty: those of the installed transformers."""
    listed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The levels that the parameter file lists, by factor."""
    objects: frozenset[str] | None = None
    """The kinds of objects that a command's program makes; None for a run that the parameter file describes."""

    def __getitem__(self, key: str) -> Any:
        """Return the value of a canonical key; KeyError if there is no such key."""
        return self.value(key).value

    def value(self, key: str) -> Value:
        """Return the value of a key with its origin; KeyError if there is no such key."""
        if key in self.values:
            return self.values[key]
        if self.objects is not None:  # a library's default is not the script's
            return Value(value=UNSEEN.get(key), origin=Origin.DEFAULT)
        section, dot, _ = key.rpartition(".")
        default = None if dot and section.startswith(OPEN) else training_default(key, self.defaults)
        return Value(value=default, origin=Origin.DEFAULT)

    @property
    def effective_batch_size(self) -> int:
        """Samples of an optimizer step, those of all processes."""
        return self.batch_of_process * int(self["processes"] or 1)

    @property
    def batch_of_process(self) -> int:
        """Samples of an optimizer step in one process."""
        return int(self["per_device_train_batch_size"]) * int(self["gradient_accumulation_steps"])

    @property
    def backward_passes(self) -> int:
        """Backward passes of an optimizer step in one process: those of its micro-batches, or of each one's losses."""
        seen = self.values.get("backward_passes")
        return int((seen.value if seen else self["gradient_accumulation_steps"]) or 1)

    @property
    def compiled(self) -> bool:
        """True if the model is compiled. A mode or a backend alone makes transformers compile, too."""
        return any(self[f"torch_compile{of}"] for of in ("", "_mode", "_backend"))

    @property
    def batched_fetching(self) -> bool:
        """True if the examples of a batch are fetched together.

        By default a tokenised dataset of `datasets` does so by itself. A class that tokenises what it is asked for does
        not.
        """
        given = self["dataset.batched_fetching"]
        return self["dataset.tokenize"] == "once" if given is None else given
