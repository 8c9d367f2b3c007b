"""What the making of a data set's first batches changes: a state of it is compared before and after each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slowstep_probe.by_identity import ByIdentity

LOOKED_AT = 3
"""The first batches of a data set that are looked at."""

States = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""The states before and after each batch so far, by the words that lead to them."""


class FirstBatches:
    """Keeps the states of data sets in their first batches. A subclass says which these are, and judges them."""

    def __init__(self) -> None:
        self.found: ByIdentity[str] = ByIdentity()
        """The attribute or the name that was found in a data set."""
        self._before: ByIdentity[Mapping[str, Any]] = ByIdentity()
        self._states: ByIdentity[list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = ByIdentity()

    def state(self, data: Any) -> Mapping[str, Any]:
        """Return what may change."""
        raise NotImplementedError

    def judged(self, data: Any, states: States) -> str:
        """Return the name of what was looked for; empty if there is none."""
        raise NotImplementedError

    def asked(self, data: Any) -> None:
        """Look at a data set before one of its first batches is made."""
        if data not in self.found and len(self._states.setdefault(data, [])) < LOOKED_AT:
            self._before[data] = self.state(data)

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        if (before := self._before.pop(data, None)) is not None:
            states = self._states.setdefault(data, [])
            states.append((before, self.state(data)))
            if name := self.judged(data, states):
                self.found[data] = name


def grown_steadily(states: States) -> dict[str, float]:
    """Return what has grown by the same number with each of the first batches, once all are known."""
    if len(states) < LOOKED_AT:
        return {}
    first, *others = ({n: value - before[n] for n, value in after.items() if n in before} for before, after in states)
    return {name: by for name, by in first.items() if by and all(one.get(name) == by for one in others)}
