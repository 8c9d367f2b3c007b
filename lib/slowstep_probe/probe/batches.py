"""The batches that loaders give, and those of them that are trained on."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch.utils.data.dataloader as loading

from slowstep_probe.by_identity import identity, reference
from slowstep_probe.looks import length_of, looking
from slowstep_probe.measured import Work
from slowstep_probe.probe import batch_work
from slowstep_probe.probe.drawn import AHEAD, Drawn
from slowstep_probe.probe.loader_workers import Workers

T = TypeVar("T")

FEEDING = 8
"""The loaders that feed the training of which is known that they do, where a new one is made again and again."""

SEVERAL = 2
"""The batches that only passes without gradients met, from which on they are a validation's."""

_count = looking(batch_work.count)


@dataclass(eq=False)
class _Source:
    """An iterator of a loader, as long as it lives."""

    number: int
    waiting: deque[Work] = field(default_factory=lambda: deque(maxlen=AHEAD))
    """The batches that it gave and that wait to be trained on; those of a validation always do."""
    loader: Callable[[], Any] = lambda: None
    """Returns its loader; None if that is gone or not known."""
    updates: int = 0
    """The optimizer steps that had ended when it was made."""
    first: int | None = None
    """The backward passes before it gave the first batch of its epoch."""


class Batches:
    """The iterators of loaders, by numbers in the order in which they were met, and what became of their batches.

    A step may have batches of several loaders. The samples of one of them are counted: of that which ends the epoch.
    This is the one of the fewest batches, as in `zip`. Where that one was seen to end within an epoch of another, as in
    `zip(cycle(few), many)`, it is the one of the most: `epoch_of_longest` says so of a program that was surveyed.
    """

    def __init__(self, epoch_of_longest: bool) -> None:
        self.epoch_of_longest = epoch_of_longest
        self.ends_within = False
        """True if a loader was seen to end within an epoch of another one."""
        self.training: set[int] = set()
        """Numbers of the iterators whose batches were trained on."""
        self.together = 0
        """The most loaders so far that one pass had batches of."""
        self.drawn, self.workers = Drawn(), Workers()
        """The examples of batches as they were drawn, and the workers of the loader that training draws from."""
        self._known: WeakKeyDictionary[Any, _Source] = WeakKeyDictionary()
        self._living: WeakValueDictionary[int, _Source] = WeakValueDictionary()
        self._asked: _Source | None = None
        """The iterator that was asked last."""
        self._loaders: dict[int, int] = {}
        """The identity of the loader of each iterator. The loader itself may be gone with all its data."""
        self._after: dict[int, int | None] = {}
        """The value of `_ended` when each iterator was made."""
        self._made: Any = None
        """The loader that began an epoch last: nothing else may hold it as long as no batch of it was trained on."""
        self._passes = 0
        """The backward passes so far."""
        self._given, self._pass, self._before = set[int](), set[int](), set[int]()
        """The iterators that gave a batch since the last forward pass with gradients began; those that this pass had
        batches of; and those of the pass before it."""
        self._looked_at: set[int] = set()
        """The iterators whose batches only passes without gradients met since: a teacher's, a validation's."""
        self._fed: set[int] = set()
        """The iterators whose batches came to a backward pass."""
        self._feeding: deque[int] = deque(maxlen=FEEDING)
        """The identities of their loaders, the last ones."""
        self._exhausted: set[int | None] = set()
        """The iterators that have given their last batch."""
        self._ended: int | None = None
        """The last of them that had fed a backward pass."""
        self._ended_after = 0
        """The backward passes before that."""
        self._ended_alone = self._renewed = False
        """Whether no other one had given a batch for the next pass by then; whether one was made since."""
        self._together: list[Any] = []
        """The loaders that the last pass had batches of, as far as they feed the training."""
        self._at_once: set[int | None] = set()
        """The identities of the loaders of passes with batches of several."""

    def _source(self, iterator: Any) -> _Source:
        source = self._known.get(iterator)
        if source is None:
            source = self._known[iterator] = self._living[len(self._after)] = _Source(len(self._after))
            self._after[source.number] = None
        return source

    def number(self, iterator: Any) -> int:
        """Return the number of an iterator."""
        return self._source(iterator).number

    def made(self, iterator: Any, loader: Any, updates: int) -> None:
        """Note which loader an iterator is of, and how many optimizer steps had ended when it was made."""
        source = self._source(iterator)
        self._loaders[source.number], self._after[source.number] = identity(loader), self._ended
        # with workers that stay, the iterator of each epoch is the same
        source.updates, source.first, self._renewed = updates, None, True
        # a loop may make a loader for itself alone, which then lives as long as its iterator; but one that keeps its
        # iterator, with workers that stay, would keep itself
        keeps = getattr(loader, "_iterator", None) is iterator
        source.loader, self._made = reference(loader) if keeps else lambda: loader, loader

    def updates_before(self, iterator: Any) -> int:
        """Return the optimizer steps that had ended when an iterator was made."""
        return self._source(iterator).updates

    def ask(self, iterator: Any) -> None:
        """Note that an iterator was asked for a batch. What is trained on next is taken for one of its batches.

        Asked in vain, at an epoch's end, it may still have given a batch ahead that is trained on next.
        """
        source = self._source(iterator)
        if source is not self._asked:
            self._asked = source
            self.workers.belong_to(iterator)

    def give(self, batch: Any, iterator: Any) -> None:
        """Count the work of a batch that an iterator has given, which was asked for it last."""
        source = self._source(iterator)
        source.waiting.append(_count(batch, self.drawn.of_last(iterator)) or Work())
        self._given.add(source.number)
        source.first = self._passes if source.first is None else source.first
        goes_on = source.number in self._fed and source.first < self._ended_after < self._passes - 1
        self.ends_within |= goes_on and not (self._ended_alone and self._renewed)

    def exhaust(self, iterator: int | None) -> None:
        """Note that an iterator has given its last batch."""
        self._exhausted.add(iterator)
        if iterator in self._fed:
            self._ended, self._ended_after = iterator, self._passes
            self._ended_alone, self._renewed = not (self._given & self._fed) - {iterator}, False
        elif self._asked is not None and iterator == self._asked.number and self._only_looks(self._asked):
            self._forget(self._asked)

    def _only_looks(self, source: _Source) -> bool:
        """Return whether an iterator gave several batches between two backward passes.

        Then they are those of a validation, unless its loader is known to feed the training.
        """
        known = source.number in self._fed or self._loaders.get(source.number) in self._feeding
        return not known and len(source.waiting) >= SEVERAL and 0 < (source.first or 0) == self._passes

    def _forget(self, source: _Source) -> None:
        """Take the iterator that was asked last for one that does not feed the training, and forget its batches."""
        self._given.discard(source.number)
        self._looked_at.discard(source.number)
        source.waiting.clear()
        self._asked = None

    def pass_begins(self) -> None:
        """Take the batches that were given since the last forward pass with gradients for those of a new one."""
        asked = self._asked
        if not self._given and asked is not None and asked.number in self._looked_at and self._only_looks(asked):
            # one pass without gradients may be a teacher's, before that with gradients; several are a validation
            self._forget(asked)
        if new := self._given or self._looked_at:
            self._before, self._pass = self._pass, new
        self._given, self._looked_at = set(), set()

    def look_begins(self) -> None:
        """Put aside the batches that a pass without gradients looks at: they may be a validation's."""
        self._looked_at |= self._given
        self._given = set()

    @property
    def feeds_next(self) -> bool:
        """True if a loader's batches are trained on, or one waits to be, as after a pass that only built the model."""
        return bool(self.training or (self._asked and self._asked.waiting))

    def take(self) -> Work | None:
        """Return the work of the batch that is trained on next; None if none came from a loader.

        Of a pass that has batches of several loaders, it is that of the loader that ends the epoch.
        """
        asked = self._asked
        if asked is None or not asked.waiting:
            return None
        works, loaders = {asked.number: asked.waiting.popleft()}, {asked.number: asked.loader()}
        for number in sorted(self._pass - {asked.number}):
            source = self._living.get(number)
            if source is not None and source.waiting:
                works[number] = source.waiting.popleft()
                if number in self._before | self._fed or self._loaders.get(number) in self._feeding:
                    loaders[number] = source.loader()
        self.training |= loaders.keys()
        self._together = [one for one in loaders.values() if one is not None] or self._together
        if len(loaders) > 1:
            self.together = max(self.together, len(loaders))
            self._at_once |= {self._loaders.get(number) for number in loaders}
        return works[_ends_epoch(loaders, loaders.get, self.epoch_of_longest)]

    @property
    def loader(self) -> Any:
        """The loader whose batches are trained on; None if training has none. Of several it ends the epoch."""
        if not self._together:
            return None
        return _ends_epoch(self._together, lambda one: one, self.epoch_of_longest)

    def feed(self) -> None:
        """Note that a batch of the iterator that was asked last came to a backward pass.

        So did those of others that two passes in a row were made of. Once alone, somebody may have looked at a batch.
        """
        self._passes += 1
        asked = {self._asked.number} if self._asked else set[int]()
        new = (self._pass & self._before | asked) - self._fed
        self._fed |= new
        for number in new:
            loader = self._loaders.get(number)
            if loader is not None and loader not in self._feeding:
                self._feeding.append(loader)

    @property
    def feeding(self) -> list[int]:
        """The identities of the loaders whose batches came to backward passes."""
        return [loader for number, loader in self._loaders.items() if number in self._fed]

    def feeds(self, asked: Any) -> bool:
        """Return whether a loader, or an iterator of one, gives what comes to backward passes, as far as was seen."""
        if not isinstance(asked, loading._BaseDataLoaderIter):
            return identity(asked) in self._feeding
        known = self._known.get(asked)
        return known is not None and (known.number in self._fed or self._loaders.get(known.number) in self._feeding)

    def has_fed(self, iterator: Any) -> bool:
        """Return whether a batch of a loader's iterator came to a backward pass."""
        known = self._known.get(iterator)
        return known is not None and known.number in self._fed

    @property
    def epochs(self) -> int:
        """The iterators of loaders that are trained on which have given their last batch."""
        return len(self._exhausted & self.training)

    @property
    def successors(self) -> list[tuple[int, int]]:
        """The pairs of loaders of which the second came to be trained on when the first had given its last batch.

        They are told by their identities. Of two that a step draws from at once, none follows the other.
        """
        pairs = [(self._loaders.get(self._after[one]), self._loaders.get(one)) for one in self._fed]
        known = [(before, one) for before, one in pairs if before is not None and one is not None and one != before]
        return [pair for pair in known if not self._at_once.issuperset(pair)]


def _ends_epoch(several: Collection[T], loader_of: Callable[[T], Any], longest: bool) -> T:
    """Return the first one of several whose loader has the fewest batches, or the most of those that tell them."""
    first, *others = several
    if not others:
        return first
    if longest:
        return max(several, key=lambda one: length_of(loader_of(one)) or 0)
    return min(several, key=lambda one: length_of(loader_of(one)) or math.inf)
