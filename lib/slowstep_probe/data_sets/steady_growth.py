"""What of a data set grows by the same number with each of its first batches."""

from __future__ import annotations

from typing import Any

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.data_sets.held import LOOKED_AT


class SteadyGrowth:
    """Looks at numbers of data sets before and after each of the first batches. A subclass says which, and judges."""

    def __init__(self) -> None:
        self.found: ByIdentity[str] = ByIdentity()
        """The attribute or the name that was found in a data set."""
        self._before: ByIdentity[dict[str, float]] = ByIdentity()
        self._grown: ByIdentity[list[dict[str, float]]] = ByIdentity()

    def numbers(self, data: Any) -> dict[str, float]:
        """Return the numbers that may grow, by their names."""
        raise NotImplementedError

    def judged(self, data: Any, grown: dict[str, float]) -> str:
        """Return the name of what was looked for among that which has grown, each by how much; empty if it is none."""
        raise NotImplementedError

    def asked(self, data: Any) -> None:
        """Look at a data set before one of its first batches is made."""
        if len(self._grown.setdefault(data, [])) < LOOKED_AT:
            self._before[data] = self.numbers(data)

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        before, grown = self._before.pop(data, None), self._grown.get(data, [])
        if before is None:
            return
        grown.append({name: value - before[name] for name, value in self.numbers(data).items() if name in before})
        if len(grown) < LOOKED_AT:
            return
        first, *others = grown
        steady = {name: by for name, by in first.items() if by and all(one.get(name) == by for one in others)}
        if name := self.judged(data, steady):
            self.found[data] = name
