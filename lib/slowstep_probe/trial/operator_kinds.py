"""What an operator does to the values that it is given, by its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch

STORED_SMALL = re.compile(r"quant|_to_copy")
"""What makes numbers of others that take less memory, or are of another type: mixed precision and weights of 4 bits
consist of it, and computing it again is what they are for."""

BATCH_NORM = re.compile(r"::(native|cudnn|miopen)_batch_norm$")
"""Operators that take a running mean, a running variance and a flag of training after three other arguments."""


class Kind(NamedTuple):
    """What an operator does to the values that it is given."""

    draws: bool
    """True if it gives random numbers."""
    changes: tuple[str | int, ...]
    """The arguments that it changes in their place, by position or by name."""
    counts: bool
    """True if giving the same again would be lost time. Views of a tensor take none."""


@cache
def kind_of(operator: Any) -> Kind:
    """Return what an operator does to the values that it is given."""
    schema = operator._schema
    changed = [
        argument.name if argument.kwarg_only else at
        for at, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    views = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
    return Kind(
        draws=torch.Tag.nondeterministic_seeded in operator.tags,
        changes=tuple(changed),
        counts=not views and not STORED_SMALL.search(operator.name()),
    )


def changed_in_place(operator: Any, args: Any, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operator changes in their place, by its schema."""
    changes = kind_of(operator).changes
    return tensors([kwargs.get(at) if isinstance(at, str) else args[at : at + 1] for at in changes])


def changed_by(operator: Any, args: Any, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operator changes in their place.

    The schema of batch normalisation does not say that it changes running statistics in training, on which its result
    does not depend then.
    """
    found = changed_in_place(operator, args, kwargs)
    if BATCH_NORM.search(operator.name()) and len(args) > 5 and args[5] is True:
        found += tensors(args[3:5])
    return found


def tensors(value: Any) -> list[torch.Tensor]:
    """Return all tensors within lists and mappings."""
    return [one for one in leaves(value) if isinstance(one, torch.Tensor)]


def leaves(value: Any) -> Iterator[Any]:
    """Yield all values within lists and mappings."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from leaves(one)
    else:
        yield value
