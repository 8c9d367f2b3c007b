"""Results that nothing uses, and the operators of a forward pass that compute them.

A model may compute more than its training needs: heads of tasks that a batch does not have, a loss of a library's
beside the program's own, an output that no loss takes. No gradient goes back through these, so they cost in the forward
pass alone.

A result is used if one of these holds:

- a backward pass goes through a node that its operator made;
- an operator reads it whose own result is used, or that runs outside of forward passes and the loop around them;
- it is read back to Python (`item`, `tolist`, `numpy`);
- its memory is still held when all steps have been looked at, which is at least one step later.

Only operators that made nodes can be told to be unused: what makes none may be read in ways that no look at operators
sees, by a library in C, say.

What comes of a batch and of frozen weights alone, such as the features of a frozen backbone, is told apart as well: it
is the same each time that the batch's samples come, unless the program draws it at random or changes it beforehand.

What is used in the third way alone, such as statistics of activations that a hook reads, is told apart: training does
without it, unless what Python has read decides what comes next.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from slowstep_probe.trial.operator_kinds import changed_by, kind_of, leaves, tensors
from slowstep_probe.trial.side_by_side import Flow
from slowstep_probe.trial.stacks import OwnLine, line_without

MAKES, AROUND = "forward", "other"
"""The phases in which a result may be made that nothing uses: in a forward pass, which is told, or around it."""

READ_BACK = ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero")
"""The operators by which a number or a truth value comes to Python. Others that give no tensor may send what they are
given."""

PLAIN = torch.Tensor, torch.nn.Parameter
"""The classes of tensors whose memory is their own. What is made of others is taken to be used."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an operator, known by its place in the order of all calls."""

    step: int
    phase: str
    reads: tuple[int, ...]
    """The calls that wrote what it was given."""
    nodes: range
    """The nodes of autograd that were made for it, by number."""
    lines: tuple[OwnLine, ...]
    """The lines of the user's own code that it was called from, from the innermost outwards."""
    seconds: float
    """The seconds that it took, if it belongs to a forward pass; else 0."""
    told: bool
    """True if it is one that may be told."""
    of_data: bool
    """True if its result comes of data and frozen weights alone, and of no random numbers, and it changes neither."""


class Results:
    """The results of all operators, from `begin` to `end`, and what uses them."""

    def __init__(self) -> None:
        self._step, self._calls = 0, list[_Call]()
        self._written: dict[int, tuple[StorageWeakRef, int]] = {}
        """Each piece of memory that a call has written to, with the last one that did. As long as it is held weakly, no
        other one gets its address."""
        self._used, self._read, self._gone = set[int](), set[int](), set[int]()
        """The calls whose results are known to be used, those that Python has read back, and the nodes that backward
        passes went through."""
        self.begun = 0
        """The calls that were begun. One that could not be noted may have read anything."""
        self._read_back = defaultdict[int, list[int]](list)
        """The calls whose results Python has read back, by the number of calls before that."""

    @property
    def number(self) -> int:
        """The calls so far."""
        return len(self._calls)

    def flow(self) -> Flow | None:
        """Return the way of the values within each step; None if a call could not be noted."""
        if self.begun != len(self._calls):
            return None
        first = {call.step: number for number, call in reversed(list(enumerate(self._calls)))}
        return Flow(
            reads=[[n for n in call.reads if n >= first[call.step]] for call in self._calls],
            read_back=self._read_back,
            boundaries=[
                number + 0.5  # a call that ends with the operator before it is before it
                for number, (a, b) in enumerate(pairwise(self._calls), 1)
                if a.step != b.step or (a.phase != b.phase == "backward")
            ],
        )

    def end(self) -> None:
        """Note no more. The memory that is held now is what the program keeps."""
        self._used |= {call for memory, call in self._written.values() if not memory.expired()}
        self._written = {}

    def step_ends(self) -> None:
        """Note that a step has ended."""
        self._step += 1

    def went_back(self, operator: Any, given: Any, result: Any, nodes: range) -> None:
        """Note an operator that a backward pass has called, and the node that the pass is at."""
        node = torch._C._current_autograd_node()
        if node is not None:
            self._gone.add(node._sequence_nr())
        self.computed(operator, given, result, nodes, "backward", (), 0.0)

    def computed(
        self,
        operator: Any,
        given: tuple[Any, Mapping[str, Any]],
        result: Any,
        nodes: range,
        phase: str,
        lines: tuple[OwnLine, ...],
        seconds: float,
    ) -> None:
        """Note an operator that was called with the arguments `given`, and the nodes that were made for it.

        There are no `lines` where it may not be told, such as those of a view.
        """
        call, reads, written = len(self._calls), tensors(given), [*tensors(result), *changed_by(operator, *given)]
        taken, told = seconds if phase == MAKES else 0.0, bool(phase == MAKES and nodes and lines)
        storages = [one._cdata for one in leaves(given) if isinstance(one, torch.UntypedStorage)]
        writers = (self._written.get(memory) for memory in [*map(_memory, reads), *storages])
        calls_read = tuple({one[1] for one in writers if one})
        self._calls.append(
            _Call(
                step=self._step,
                phase=phase,
                reads=calls_read,
                nodes=nodes,
                lines=lines,
                seconds=taken,
                told=told,
                of_data=not nodes and self._is_of_data(operator, given, calls_read),
            )
        )
        if not written:
            self._read_back[call + 1] += calls_read
            (self._read if operator.name() in READ_BACK else self._used).add(call)
        if phase not in (MAKES, AROUND) or any(type(one) not in PLAIN for one in (*reads, *written)):
            self._used.add(call)
        for tensor in written:
            if (memory := _memory(tensor)) is not None:
                known = self._written.get(memory)
                self._written[memory] = (known[0] if known else StorageWeakRef(tensor.untyped_storage()), call)

    def _is_of_data(self, operator: Any, given: tuple[Any, Mapping[str, Any]], read: Iterable[int]) -> bool:
        """Return whether what an operator gives comes of data and frozen weights alone, and of calls that are such."""
        trains = any(one.requires_grad for one in tensors(given))
        stays = any(_memory(one) not in self._written for one in changed_by(operator, *given))
        return not (trains or stays or kind_of(operator).draws) and all(self._calls[call].of_data for call in read)

    def is_read(self, tensor: torch.Tensor) -> None:
        """Note that the numbers of a tensor are read back to Python."""
        known = self._written.get(_memory(tensor) or 0)
        if known:
            self._read.add(known[1])
            self._read_back[len(self._calls)].append(known[1])

    def unused(self) -> dict[str, float]:
        """Return the share of the forward passes of a step, 0 to 1, at each line that computes what nothing uses.

        A step is known once a further one has ended. Of those that are, it is the one with the smallest share.
        """
        used = self._reached({*self._used, *self._read})
        return self._shares(lambda number, call: call.told and number not in used, used)

    def only_read(self) -> dict[str, float]:
        """Return the same share at each line that computes what Python reads back, and nothing else uses."""
        used = self._reached(self._used)
        read = self._reached(self._read)
        return self._shares(lambda number, call: bool(call.lines) and number in read and number not in used, used)

    def of_data(self) -> dict[str, float]:
        """Return the same share at each line that computes something of data and frozen weights alone."""
        others = {number for number, call in enumerate(self._calls) if not call.of_data}
        return self._shares(lambda number, call: bool(call.lines) and call.of_data, others)

    def _shares(self, is_told: Callable[[int, _Call], bool], used: Collection[int]) -> dict[str, float]:
        """Return the shares of what is told, by the innermost line without which all that is `used` goes on."""
        steps = [Counter[str]() for _ in range(self._step - 1 if self.begun == len(self._calls) else 0)]
        for number, shares in enumerate(steps):
            calls = [(n, call) for n, call in enumerate(self._calls) if call.step == number]
            needed = {line for n, call in calls if n in used for line in call.lines}
            whole = sum(call.seconds for _, call in calls)
            for call in (call for n, call in calls if call.seconds and is_told(n, call)):
                shares[line_without(call.lines, needed).in_words()] += call.seconds / whole
        return dict(min(steps, key=Counter.total, default={}))

    def _reached(self, roots: Collection[int]) -> set[int]:
        """Return the calls that some calls come from, and from which a backward pass has come, with all these read."""
        gone = (n for n, call in enumerate(self._calls) if not self._gone.isdisjoint(call.nodes))
        found, open_ones = set[int](), [*roots, *gone]
        while open_ones:
            call = open_ones.pop()
            if call not in found:
                found.add(call)
                open_ones += self._calls[call].reads
        return found


def _memory(tensor: torch.Tensor) -> int | None:
    """Return what a tensor's memory is known by; None if it has none of its own."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
