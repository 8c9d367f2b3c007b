"""Hooks on a module that vanish from what is saved of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """A hook of the kit. Copies of the model share it (an average of the weights that is evaluated, say).

    A model that is saved whole gets a hook that does nothing.
    """

    def __init__(self, act: Callable[..., Any]):
        self._act = act

    def __call__(self, *args: Any) -> Any:
        return self._act(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return _no_hook, ()


def _no_hook() -> Callable[..., None]:
    return _nothing


def _nothing(*_: Any) -> None:
    """Do nothing."""
