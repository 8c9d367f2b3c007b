"""Calls of operators: those that compute again what was computed before, and the lines that make the most of them.

What computes the same again is told by the values that operators are given.

A mask that each layer makes anew, a matrix that each layer normalises, a weight that each position puts together: the
same operator gets the same values and gives the same result, in one step or in each. Keeping that result spares it.

Each tensor has a number for its values. What an operator gives gets a number made of the operator and the numbers that
it was given; what comes from elsewhere, a batch say, gets one of its bytes. Values that change in their place have
another number from then on, and random numbers have one that never comes again. So equal numbers mean equal values.

A backward pass goes back through each of the results of a step that are the same. Through one of them it has to: where
the result is kept, its gradients are summed first. The ways through the others are lost, and so is a gradient that one
step takes twice (`torch.autograd.grad`).
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from slowstep_probe.looks import looking
from slowstep_probe.own_time import time
from slowstep_probe.patches import Patches
from slowstep_probe.profiled import VALUES_COUNTED, VALUES_KNOWN
from slowstep_probe.trial.module_calls import ModuleCalls
from slowstep_probe.trial.operator_kinds import changed_in_place, kind_of, leaves, tensors
from slowstep_probe.trial.side_by_side import Kind, side_by_side
from slowstep_probe.trial.stacks import OwnLine, line_without, own_lines
from slowstep_probe.trial.unused_results import Results
from slowstep_probe.trial.unused_rows import UnusedRows

PASSES = "forward", "backward"
"""The phases in which it is looked at what computes the same again."""

READ_BY = ("numpy", "tolist", "data_ptr", "__dlpack__", "__reduce_ex__")
"""The methods of a tensor that hand its numbers to what is no operator. What `item` gives comes from one."""

BYTES = 2**24
"""The most bytes of a tensor that are read to know it by its values. A larger one is known by its place in memory."""


class OperatorCalls(TorchDispatchMode):
    """Looks at each call of an operator from `begin` to `end`, in the process that begins.

    `phase` tells the phase of training.
    """

    def __init__(self, phase: Callable[[], str]) -> None:
        super().__init__()
        self._phase, self._process, self._step = phase, os.getpid(), 0
        self._known: dict[Hashable, int] = {}
        """The number of the values at each place in memory."""
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}
        """Memory that tensors lie in, and how often it was changed. As long as it is held weakly, no other one gets
        its address."""
        self._new = itertools.count(1)
        self._done = set[int]()
        """What was computed, by the numbers of operators with what they were given."""
        self._taken = [{phase: Counter[str]() for phase in PASSES} for _ in range(VALUES_COUNTED)]
        self.results = Results()
        """What operators have made, and what uses it."""
        self._modules: ModuleCalls | None = None
        """The calls of modules, each between the numbers of two operators."""
        self._calls = Counter[tuple[str, OwnLine, str]]()
        """The calls of each operator outside of backward passes, by the phase, the line of the user's own, and its
        name."""
        self.rows = UnusedRows(self._number_at)
        self._begin_step()
        self._before, self._after = looking(self._number_of_call), looking(self._note)
        self._patches = Patches()
        self.looks = False

    def begin(self) -> None:
        """Begin to look, in the thread that trains."""
        self.looks = True
        self._begin_step()
        for name in READ_BY:
            self._patches.look(torch.Tensor, name, lambda _, tensor, *args, **kwargs: self._is_read(tensor))
        self._modules = ModuleCalls(self._phase, on_device=False, now=lambda: self.results.number)
        self.__enter__()

    def _begin_step(self) -> None:
        self._nodes = _Nodes()
        self._lost = Counter[tuple[OwnLine, ...]]()
        """The seconds of operators that computed the same again, by the lines that a stack stood at."""
        self._needed = set[OwnLine]()
        """The lines at which some operator computed what had not been computed before."""
        self.rows.begin_step()

    def step_ends(self) -> bool:
        """Count a step that has ended, and return whether a further one is needed."""
        if self._step >= VALUES_KNOWN:
            taken = self._taken[self._step - VALUES_KNOWN]
            for lines, seconds in self._lost.items():
                taken["forward"][self._told(lines)] += seconds
            for lines, seconds in self._nodes.lost():
                taken["backward"][self._told(lines)] += seconds
            self.rows.step_ends()
        self._step += 1
        self.results.step_ends()
        self._begin_step()
        return self._step < VALUES_KNOWN + VALUES_COUNTED

    def end(self) -> None:
        """Look no more. Where the program has entered a mode of its own since, this one stays, and does nothing."""
        if self.looks:
            self.looks = False
            self._patches.remove()
            self.results.end()
            self._modules.stop()
            self._known, self._held = {}, {}
            if _get_current_dispatch_mode() is self:
                self.__exit__(None, None, None)

    def side_by_side(self) -> dict[Kind, str]:
        """Return the kinds of modules that are called side by side, each with the line that calls them."""
        flow = self.results.flow()
        return side_by_side(self._modules.calls, flow) if self._modules and flow else {}

    def seconds(self, phase: str) -> dict[str, float]:
        """Return the seconds of a pass, a step, at each line of the user's own code: of the step that had the fewest.

        A way back counts at the line that it goes back through.
        """
        return dict(min((taken[phase] for taken in self._taken), key=Counter.total))

    def called(self, most: int) -> dict[str, dict[str, float]]:
        """Return the lines of each phase that call some operator most often, up to `most`, with its calls a step."""
        found = defaultdict[str, dict[str, float]](dict)
        for (phase, line, _), calls in self._calls.most_common():
            if (where := line.in_words()) not in found[phase] and len(found[phase]) < most:
                found[phase][where] = calls / max(1, self._step)
        return dict(found)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and note whether the same one has had the same values before."""
        kwargs = kwargs or {}
        if not self.looks or os.getpid() != self._process:
            return func(*args, **kwargs)
        self.results.begun += 1
        call = self._before(func, args, kwargs)
        began = time.perf_counter()
        result = func(*args, **kwargs)
        self._after(func, args, kwargs, result, call, time.perf_counter() - began)
        return result

    def _number_of_call(self, func: Any, args: Any, kwargs: Any) -> int | None:
        """Return the number of what an operator computes; None if that never comes again."""
        generators = (one for one in leaves((args, kwargs)) if isinstance(one, torch.Generator))
        if kind_of(func).draws or next(generators, None) is not None:
            return None
        return hash((func.name(), self._number((args, kwargs))))

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any, call: int | None, seconds: float) -> None:
        kind = kind_of(func)
        for number, tensor in enumerate(changed_in_place(func, args, kwargs)):
            self._give(tensor, next(self._new) if call is None else hash((call, "changed", number)), anew=True)
        for number, tensor in enumerate(tensors(result)):
            self._give(tensor, next(self._new) if call is None else hash((call, number)))
        phase = self._phase()
        counts = kind.counts and bool(tensors((args, kwargs)))
        if phase == "backward":
            self._nodes.goes_back(call, counts, seconds)
            self.rows.went_back(func, (args, kwargs), result, self._nodes.through, seconds)
            nodes = self._nodes.made(call)
            self.results.went_back(func, (args, kwargs), result, nodes)
            return
        every = own_lines(sys._getframe())
        line = every[0].in_words() if every else ""
        self.rows.computed(func, (args, kwargs), result, call, seconds, phase, line)
        self._calls.update((phase, line, func.name()) for line in every[:1])
        lines = every if counts else ()
        again = bool(lines) and call in self._done
        nodes = self._nodes.made(call, lines if again else ())
        self.results.computed(func, (args, kwargs), result, nodes, phase, lines, seconds)
        if not again:
            self._needed.update(lines)
        elif phase == "forward":
            self._lost[lines] += seconds
        if call is not None:
            self._done.add(call)

    def _is_read(self, tensor: torch.Tensor) -> None:
        self.results.is_read(tensor)
        if tensor.numel() > 1:  # a single one is a loss that is told
            self.rows.is_read(self._known.get(self._place(tensor)))

    def _told(self, lines: tuple[OwnLine, ...]) -> str:
        """Return the line to tell of those that a stack stood at.

        A network that runs twice on the same values is needed once, and the line that runs it again is not.
        """
        return line_without(lines, self._needed).in_words()

    def _number(self, value: Any) -> Hashable:
        """Return what is equal for equal values: of an argument, and of all in it."""
        if isinstance(value, torch.Tensor):
            parts = _parts(value)
            if parts == [value]:
                return self._number_at(value)
            return tuple(value.shape), str(value.layout), tuple(map(self._number_at, parts)) or next(self._new)
        if isinstance(value, (list, tuple)):
            return tuple(map(self._number, value))
        if isinstance(value, Mapping):
            return tuple((name, self._number(one)) for name, one in value.items())
        if isinstance(value, torch.UntypedStorage):  # its text names each of its bytes
            return next(self._new)
        return type(value).__name__, str(value)

    def _number_at(self, tensor: torch.Tensor) -> int:
        at = self._place(tensor)
        if at not in self._known:
            self._known[at] = self._by_bytes(tensor)
        return self._known[at]

    def _by_bytes(self, tensor: torch.Tensor) -> int:
        size = tensor.numel() * tensor.element_size()
        if size > BYTES or tensor.device.type != "cpu":
            return next(self._new)
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        return hash((ctypes.string_at(plain.data_ptr(), size) if size else b"", tuple(plain.shape), str(plain.dtype)))

    def _give(self, tensor: torch.Tensor, number: int, anew: bool = False) -> None:
        """Give a tensor's values a number, `anew` if they were changed. What is a view of known values keeps theirs."""
        parts = _parts(tensor)
        for part in parts if anew else ():
            memory = part.untyped_storage()._cdata
            if memory in self._held:
                self._held[memory] = (self._held[memory][0], self._held[memory][1] + 1)
        for at, part in enumerate(parts):
            self._known.setdefault(self._place(part), hash((number, at)))

    def _place(self, tensor: torch.Tensor) -> Hashable:
        """Return where values lie, in which order, and how often they were changed."""
        memory = tensor.untyped_storage()
        if memory._cdata not in self._held:
            self._held[memory._cdata] = (StorageWeakRef(memory), 0)
        order = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
        return memory._cdata, self._held[memory._cdata][1], order, tensor.dtype, tensor.is_conj(), tensor.is_neg()


@dataclass
class _Pass:
    """What a backward pass computes at one node."""

    lines: tuple[OwnLine, ...] = ()
    """The lines that it goes back through, if these computed the same again."""
    twice: bool = False
    """True if the pass was at a node of an equal call before."""
    counted: int = 0
    repeated: int = 0
    """The operators that count, and those of them that had the same values in this step before."""
    seconds: float = 0.0


class _Nodes:
    """The nodes of one step's graph, each with the number of the call that made it, and the passes through them.

    Nodes have numbers in the order in which a thread makes them, so that those which an operator makes are known by the
    numbers before and after it.
    """

    def __init__(self) -> None:
        self._next = _next_node()
        self._calls: dict[int, int] = {}
        """The call that made each node."""
        self._lines: dict[int, tuple[OwnLine, ...]] = {}
        """The lines of each call that was made twice."""
        self._passes: dict[tuple[int, int], _Pass] = {}
        """What each backward pass computes at each node."""
        self._gone = set[tuple[int, int]]()
        """The backward passes, each with the calls whose nodes it was at."""
        self._taken = set[int]()
        """The calls of backward passes."""

    def made(self, call: int | None, lines: tuple[OwnLine, ...] = ()) -> range:
        """Note and return the nodes that were made for a call, and note its lines if it computes the same again."""
        made = range(self._next, _next_node())
        if call is not None:
            self._calls.update(dict.fromkeys(made, call))
            if lines:
                self._lines[call] = lines
        self._next = made.stop
        return made

    @property
    def through(self) -> int | None:
        """The call that made the node which a backward pass is at; None if that is not known, and outside of all."""
        node = torch._C._current_autograd_node()
        return None if node is None else self._calls.get(node._sequence_nr())

    def goes_back(self, call: int | None, counts: bool, seconds: float) -> None:
        """Note a call of a backward pass, and whether it `counts` as an operator that computes."""
        node, through = torch._C._current_autograd_node(), self.through
        if node is None or through is None:
            return
        one = self._at(torch._C._current_graph_task_id(), node._sequence_nr(), through)
        one.seconds += seconds
        if not counts or call is None:
            return
        one.counted += 1
        if call in self._taken:
            one.repeated += 1
            one.lines = one.lines or own_lines(sys._getframe())
        self._taken.add(call)

    def _at(self, task: int, node: int, through: int) -> _Pass:
        """Return what a pass computes at a node, which a call made that it goes back `through`."""
        if (task, node) not in self._passes:
            twice = (task, through) in self._gone and through in self._lines
            self._gone.add((task, through))
            self._passes[task, node] = _Pass(self._lines[through] if twice else (), twice)
        return self._passes[task, node]

    def lost(self) -> Iterator[tuple[tuple[OwnLine, ...], float]]:
        """Yield the lines and the seconds of each pass through a node that the step could do without."""
        for one in self._passes.values():
            if one.lines and (one.twice or one.counted == one.repeated):
                yield one.lines, one.seconds


def _next_node() -> int:
    """Return the number that the next node gets which this thread makes."""
    return int(torch._C._autograd._get_sequence_nr())


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors with memory of their own that a tensor consists of: itself, or the parts of a sparse one.

    It is empty for a tensor that is neither.
    """
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout is torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return []
