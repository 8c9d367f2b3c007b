"""The batches that loaders give, and those of them that are trained on."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection
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


class Batches:
    """The iterators of loaders, by numbers in the order in which they were met, and what became of their batches.

    A step may have batches of several loaders. The samples of one of them are counted: of that which ends the epoch.
    This is the one of the fewest batches, as in `zip`. Where that one was seen to end within an epoch of another, as in
    `zip(cycle(few), many)`, it is the one of the most: `epoch_of_longest` says so of a program that was surveyed.
    """

    def __init__(self, epoch_of_longest: bool) -> None:
        # by the iterator that gave them: those of a loader that only feeds a validation are never trained on
        self._fetched: WeakKeyDictionary[Any, deque[Work]] = WeakKeyDictionary()
        self._source: deque[Work] = deque()
        """The batches of the iterator that was asked last, which wait to be trained on."""
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._living: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """The iterators that live, by their numbers."""
        self._count = itertools.count()
        self._asked: int | None = None
        """Number of the iterator that was asked last."""
        self._asked_iterator: Callable[[], Any] = lambda: None
        """It returns the iterator that was asked last; None if that is gone, or none was asked."""
        self._asked_loader: Callable[[], Any] = lambda: None
        """The loader of the iterator that was asked last."""
        self.training: set[int | None] = set()
        """Numbers of the iterators whose batches were trained on."""
        self._fed: set[int | None] = set()
        """Numbers of the iterators whose batches came to a backward pass."""
        self._given: set[int] = set()
        """Numbers of the iterators that gave a batch since the last forward pass with gradients began."""
        self._sources: set[int] = set()
        """Numbers of the iterators that the last such pass had batches of: a step may draw from several loaders."""
        self._before: set[int] = set()
        """Numbers of the iterators that the pass before that one had batches of."""
        self._looked_at: set[int] = set()
        """Numbers of iterators whose batches only passes without gradients met since: a teacher's, a validation's."""
        self._exhausted: set[int | None] = set()
        """Numbers of the iterators that have given their last batch."""
        self._loaders: dict[int | None, int] = {}
        """The identity of the loader of each iterator. The loader itself may be gone with all its data."""
        self._of: WeakKeyDictionary[Any, Callable[[], Any]] = WeakKeyDictionary()
        """The loader of each iterator that lives."""
        self._made: Any = None
        """The loader that began an epoch last: nothing else may hold it as long as no batch of it was trained on."""
        self._ended: int | None = None
        """Number of the iterator, of those that fed a backward pass, that was the last to give its last batch."""
        self._ended_after = 0
        """The backward passes before that."""
        self._ended_alone = self._renewed = False
        """Whether no other one had given a batch for the next pass by then; whether one was made since."""
        self.epoch_of_longest = epoch_of_longest
        self.ends_within = False
        """True if a loader was seen to end within an epoch of another one."""
        self._after: dict[int, int | None] = {}
        """The value of `_ended` when each iterator was made, by its number."""
        self._began: dict[int, int] = {}
        """The optimizer steps that had ended when each iterator was made."""
        self._passes = 0
        """The backward passes so far."""
        self._first: dict[int, int] = {}
        """The backward passes before each iterator gave its first batch, by its number."""
        self._feeding: deque[int] = deque(maxlen=FEEDING)
        """The identities of the last loaders that came to feed a backward pass."""
        self.drawn = Drawn()
        """The examples of the batches that were given, as they were drawn."""
        self.workers = Workers()
        """The workers of the loader that training draws from."""
        self._together: list[Any] = []
        """The loaders that the last pass had batches of, as far as they feed the training."""
        self.together = 0
        """The most loaders so far that one pass had batches of."""
        self._at_once: set[int | None] = set()
        """The identities of the loaders of such passes."""

    def number(self, iterator: Any) -> int:
        """Return the number of an iterator."""
        if iterator not in self._numbers:
            self._numbers[iterator] = next(self._count)
            self._living[self._numbers[iterator]] = iterator
        return self._numbers[iterator]

    def made(self, iterator: Any, loader: Any, updates: int) -> None:
        """Note which loader an iterator is of, and how many optimizer steps had ended when it was made."""
        number = self.number(iterator)
        self._loaders[number], self._began[number], self._after[number] = identity(loader), updates, self._ended
        self._first.pop(number, None)  # with workers that stay, the iterator of each epoch is the same
        self._renewed = True
        # a loop may make a loader for itself alone, which then lives as long as its iterator; but one that keeps its
        # iterator, with workers that stay, would keep itself
        keeps = getattr(loader, "_iterator", None) is iterator
        self._of[iterator], self._made = reference(loader) if keeps else lambda: loader, loader
        if self._asked_iterator() is iterator:  # it was asked before anybody saw it made, and goes on in another epoch
            self._asked_loader = self._of[iterator]

    def updates_before(self, iterator: Any) -> int:
        """Return the optimizer steps that had ended when an iterator was made."""
        return self._began.get(self.number(iterator), 0)

    def ask(self, iterator: Any) -> None:
        """Note that an iterator was asked for a batch. What is trained on next is taken for one of its batches.

        Asked in vain, at an epoch's end, it may still have given a batch ahead that is trained on next.
        """
        if self._asked is not None and self._asked_iterator() is iterator:
            return
        self._asked_iterator = reference(iterator)
        self.workers.belong_to(iterator)
        self._source = self._fetched.setdefault(iterator, deque(maxlen=AHEAD))
        self._asked, self._asked_loader = self.number(iterator), self._of.get(iterator, lambda: None)

    def give(self, batch: Any, iterator: Any) -> None:
        """Count the work of a batch that came from an iterator, which is the one that was asked last."""
        self._source.append(_count(batch, self.drawn.of_last(iterator)) or Work())
        if self._asked is not None:
            self._given.add(self._asked)
            first = self._first.setdefault(self._asked, self._passes)
            goes_on = self._asked in self._fed and first < self._ended_after < self._passes - 1
            self.ends_within |= goes_on and not (self._ended_alone and self._renewed)

    def exhaust(self, iterator: int | None) -> None:
        """Note that an iterator has given its last batch."""
        self._exhausted.add(iterator)
        if iterator in self._fed:
            self._ended, self._ended_after = iterator, self._passes
            self._ended_alone, self._renewed = not (self._given & self._fed) - {iterator}, False
        elif self._is_looked_at() and iterator == self._asked:
            self._forget()

    def _is_looked_at(self) -> bool:
        """Return whether the iterator that was asked last gave several batches between two backward passes.

        Then they are those of a validation, unless its loader is known to feed the training.
        """
        since = self._first.get(self._asked, 0)  # type: ignore[arg-type]
        known = self._asked in self._fed or self._loaders.get(self._asked) in self._feeding
        return not known and len(self._source) >= SEVERAL and 0 < since == self._passes

    def _forget(self) -> None:
        """Take the iterator that was asked last for one that does not feed the training, and forget its batches."""
        self._given.discard(self._asked)  # type: ignore[arg-type]
        self._looked_at.discard(self._asked)  # type: ignore[arg-type]
        self._source.clear()
        self._asked = None

    def pass_begins(self) -> None:
        """Take the batches that were given since the last forward pass with gradients for those of a new one."""
        new = self._given or self._looked_at
        if not self._given and self._asked in self._looked_at and self._is_looked_at():
            # one pass without gradients may be a teacher's, before that with gradients; several are a validation
            self._forget()
            new = self._looked_at
        if new:
            self._before, self._sources = self._sources, new
        self._given, self._looked_at = set(), set()

    def look_begins(self) -> None:
        """Put aside the batches that a pass without gradients looks at: they may be a validation's."""
        self._looked_at |= self._given
        self._given = set()

    @property
    def feeds_next(self) -> bool:
        """True if a loader's batches are trained on, or one waits to be, as after a pass that only built the model."""
        return bool(self.training or self._source)

    def take(self) -> Work | None:
        """Return the work of the batch that is trained on next; None if none came from a loader.

        Of a pass that has batches of several loaders, it is that of the loader that ends the epoch.
        """
        if not self._source:
            return None
        works, loaders = {self._asked: self._source.popleft()}, {self._asked: self._asked_loader()}
        for number in sorted(self._sources - {self._asked}):
            iterator = self._living.get(number)
            queue = None if iterator is None else self._fetched.get(iterator)
            if queue:
                works[number] = queue.popleft()
                if number in self._before | self._fed or self._loaders.get(number) in self._feeding:
                    loaders[number] = self._of.get(iterator, lambda: None)()
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
        new = (self._sources & self._before | {self._asked}) - self._fed - {None}
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
        is_iterator = isinstance(asked, loading._BaseDataLoaderIter)
        number = self._numbers.get(asked) if is_iterator else None
        if number is not None and number in self._fed:
            return True
        return (self._loaders.get(number) if is_iterator else identity(asked)) in self._feeding

    def has_fed(self, iterator: Any) -> bool:
        """Return whether a batch of a loader's iterator came to a backward pass."""
        return self._numbers.get(iterator) in self._fed

    @property
    def epochs(self) -> int:
        """The iterators of loaders that are trained on which have given their last batch."""
        return len(self._exhausted & self.training)

    @property
    def successors(self) -> list[tuple[int, int]]:
        """The pairs of loaders of which the second came to be trained on when the first had given its last batch.

        They are told by their identities. Of two that a step draws from at once, none follows the other.
        """
        pairs = [(self._loaders.get(self._after.get(one)), self._loaders.get(one)) for one in self._fed]
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
