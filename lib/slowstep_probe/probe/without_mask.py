"""Tokens without a mask: whether all of them can be counted as useful, or some may be padding.

Padding is one value again and again at an end of a row. Text may end like that by chance, but in few rows, and not for
long. So rows that do it are counted as doubtful. If a block has more than a few of them, nothing tells its useful
tokens, and it is judged by its samples. Otherwise a change of what is padded would be judged by a count that it changes
itself: of batches padded four times as long as needed, trimming would only take "tokens" away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

FEW = 32
"""A block has few doubtful rows if they hold at most 1/FEW of its positions, and few values at an end of a row are
equal if they are at most 1/FEW of it. The padding that is overlooked is a few percent of the positions at most."""

SHORT = 2
"""Two equal values at an end of a row are never doubtful, however short the row is: words and digits repeat."""


def doubtful_tokens(ids: torch.Tensor) -> Callable[[], int] | int:
    """Return what counts the positions in rows of `ids`, (..., length), that begin or end with one value repeated.

    It is called when a block has ended, and knows a copy of the ends of the rows: a step pays for that copy alone, and
    nothing waits for a device. Nested tensors hold no padding, and other kinds of tensors may say more than is known
    here: 0.
    """
    if type(ids) is not torch.Tensor or ids.is_nested or not ids.numel():
        return 0
    rows = ids.flatten(0, -2) if ids.dim() > 1 else ids.reshape(1, -1)
    length = rows.shape[1]
    long = max(SHORT, length // FEW) + 1
    if length < long:
        return 0
    return partial(_in_doubt, torch.stack((rows[:, :long], rows[:, -long:])), length)


def _in_doubt(ends: torch.Tensor, length: int) -> int:
    """Return the positions in rows that have one value repeated at one of their `ends`, (2, rows, values)."""
    return int((ends == ends[..., :1]).all(-1).any(0).count_nonzero()) * length


def has_padding(doubtful: int, positions: int | None) -> bool:
    """Return whether of a block's positions so many are doubtful that some may be padding."""
    return doubtful * FEW > (positions or 0)
