"""Rows that a step computes, or goes over, and from which nothing is learned.

**Rows that a loss ignores.** Labels that are ignored, a mask, or an index that picks a few rows leave the gradients of
all other rows zero. What a product with weights computed for these rows, and what followed it row by row, was for
nothing, and so is the way back. It is told by the gradient that a backward pass brings to the product. Rows whose
gradients are zero down to the embedding are padding, which other settings act on. A model whose head is given some rows
alone, such as a classifier that reads the first token, is as its architecture has it: nothing of it is told.

Where a loss chooses its rows by what the model has computed (a hinge, a clipped ratio), they are not known before. So
nothing counts that a backward pass reaches behind such a choice: behind an operator that is given integers or truth
values which were computed from weights, or that cuts off by itself. A choice that is made outside of PyTorch (targets
that scipy matches with what was predicted) is one as well: what was first seen after such values had been read back.

**Rows of a table that a step does not look up.** The gradient of an embedding is as large as its table, and zero but
for the rows of the step. The optimizer goes over all of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from slowstep_probe.profiled import Unused
from slowstep_probe.trial import operator_kinds

PRODUCT = re.compile(r"^aten::(addmm|mm)$")
"""The products of rows with weights."""

LOOKS_UP = re.compile(r"^aten::(embedding|_embedding_bag(_forward_only)?)$")
"""The operators that look up rows of a table."""

TABLE_BACK = re.compile(r"embedding(_bag)?(_dense)?_backward$")
"""The operators that make the gradient of a whole table."""

FREELY = re.compile(r"::(bernoulli_|rand|normal|uniform|native_dropout)|_like$|::new_(empty|zeros|ones|full)")
"""The operators whose results depend on no values: random numbers, and memory for others. Dropout has a mask."""

READS = "aten::_local_scalar_dense"
"""The operator that reads a single value back."""

CUTS_OFF = re.compile(r"threshold|hardtanh|hardsigmoid|hardswish|clamp|margin")
"""What may leave the gradient of a row zero by its own values alone."""

LEAST = 0.1
"""The share of a product's rows from which on they are told. The last position of each sequence has seldom a label."""

ALIKE = 0.02
"""The difference up to which two shares of rows are the same."""

SMALL = 2**14
"""The fewest numbers of a table that are looked at."""


@dataclass(eq=False)
class _Product:
    """A product with weights in one step, and what follows it row by row."""

    line: str
    order: int
    shape: tuple[int, ...]
    seconds: Counter[str]
    """The seconds of all that, by phase."""
    zero: float | None = None
    """The share of its rows, 0 to 1, whose gradients are all zero; None where no backward pass came to it."""
    tasks: set[int] = field(default_factory=set)
    """The backward passes that came to it."""
    chosen: bool = False
    """True if a backward pass came to it behind a choice that was computed."""

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(eq=False)
class _Table:
    """A table of which a step looked up rows."""

    line: str
    weight: torch.Tensor
    zero: float = 0.0
    """The share of its rows, 0 to 1, whose gradients are all zero."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)


@dataclass
class _Step:
    """What is seen of one step."""

    products: dict[int, _Product] = field(default_factory=dict)
    """By the number of the call."""
    of_call: dict[int, _Product] = field(default_factory=dict)
    """The product that each call belongs to, by the number of the call."""
    from_product: dict[Hashable, _Product] = field(default_factory=dict)
    """The product that values were made of row by row, by their number."""
    met: list[tuple[int, float, bool]] = field(default_factory=list)
    """The rows that backward passes came to, in order: how many, the share that has no gradient, and whether it was an
    embedding's."""
    heads: dict[int, _Product] = field(default_factory=dict)
    """The product that each backward pass came to first, which is the one nearest to its loss."""
    chose: set[int] = field(default_factory=set)
    """The backward passes that have met a choice which was computed."""
    tables: dict[int, _Table] = field(default_factory=dict)
    """By the identity of their weights."""
    weights: defaultdict[tuple[int, ...], set[int]] = field(default_factory=lambda: defaultdict(set))
    """The weights of each shape that were used, by identity."""
    over_tables: Counter[tuple[tuple[int, ...], str]] = field(default_factory=Counter)
    """The seconds in which all numbers of a shape's tables were gone over, by shape and phase."""
    read_back: bool = False
    """True once the program has read back values that were computed from weights."""
    updates: bool = False
    """True from the first operator of an optimizer after a backward pass."""
    went_back: bool = False


class UnusedRows:
    """Looks at the operators of some steps, which it is told one by one. `number` tells the number of values.

    Equal numbers mean equal values, as `OperatorCalls` has it.
    """

    def __init__(self, number: Callable[[torch.Tensor], Hashable]) -> None:
        self._number = number
        self._of_weights = set[Hashable]()
        """The values that a pass with gradients has computed from weights."""
        self._seen = set[Hashable]()
        """The values that operators were given or gave."""
        self._steps = list[tuple[list[Unused], list[Unused]]]()
        self._step = _Step()

    def begin_step(self) -> None:
        """Begin a step."""
        self._step = _Step()

    def step_ends(self) -> None:
        """Keep what was seen of a step that has ended."""
        self._steps.append((list(self._ignored()), list(self._unused())))
        self._step = _Step()

    @property
    def ignored(self) -> list[Unused]:
        """Return the lines whose rows a loss ignores, with the seconds of one step: the one with the fewest."""
        return min((ignored for ignored, _ in self._steps), key=_seconds, default=[])

    @property
    def tables(self) -> list[Unused]:
        """Return the lines that look up tables of which a step uses a part, with the seconds of one step."""
        return min((tables for _, tables in self._steps), key=_seconds, default=[])

    def computed(
        self, func: Any, given: Any, result: Any, call: int | None, seconds: float, phase: str, line: str
    ) -> None:
        """Note an operator outside of backward passes, what it was given and what it gave."""
        step, tensors, name = self._step, _plain(given), func.name().partition(".")[0]
        if phase == "optimizer" and step.went_back and not step.updates:
            step.updates = True
            for table in step.tables.values():
                gradient = table.weight.grad
                table.zero = _zero_rows(gradient) if gradient is not None and gradient.dim() == 2 else 0.0
        if step.updates and step.tables:
            self._goes_over(tensors, phase, seconds)
        if phase == "optimizer":
            return
        self._looks_up(name, tensors, line)
        numbers = [self._number(one) for one in tensors]
        results = [(one, self._number(one)) for one in _plain(result)]
        if step.read_back:
            self._of_weights.update(number for number in numbers if number not in self._seen)
        self._seen.update(numbers, (number for _, number in results))
        if name == READS and _is_one_of_several(tensors[0]):
            self.is_read(numbers[0])
        with_gradients = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
        if with_gradients or not self._of_weights.isdisjoint(numbers):
            self._of_weights.update(number for one, number in results if not _is_free(name, one))
        product = self._product(name, results, line, call) if with_gradients else None
        if product is None:
            found = [step.from_product[number] for number in numbers if number in step.from_product]
            product = max(found, key=lambda one: one.order, default=None)
        if product is None or not with_gradients:
            return
        product.seconds[phase] += seconds
        if call is not None:
            step.of_call[call] = product
        for one, number in results:
            if one.is_floating_point() and 2 * one.numel() >= product.size:
                step.from_product[number] = product

    def is_read(self, number: Hashable) -> None:
        """Note that values are read back to Python, by their number."""
        self._step.read_back |= number in self._of_weights

    def went_back(self, func: Any, given: Any, result: Any, through: int | None, seconds: float) -> None:
        """Note an operator of a backward pass, at a node that the call `through` made, if that is known."""
        step, tensors, name = self._step, _plain(given), func.name().partition(".")[0]
        task = torch._C._current_graph_task_id()
        step.went_back = True
        if through in step.of_call:
            step.of_call[through].seconds["backward"] += seconds
        product = step.products.get(through) if through is not None else None
        if product is not None and task not in product.tasks and PRODUCT.match(name):
            self._came_to(product, tensors, task)
        if TABLE_BACK.search(name):
            rows = tensors[0].flatten(0, -2)
            step.met.append((len(rows), _zero_rows(rows), True))
            for shape in {tuple(one.shape) for one in _plain(result)}:
                step.over_tables[shape, "backward"] += seconds
        computed = [one for one in tensors if self._number(one) in self._of_weights]
        whole = [one for one in computed if not one.is_floating_point()]
        if whole or CUTS_OFF.search(name) or (name in ("aten::mul", "aten::mul_") and any(map(_leaves_out, computed))):
            step.chose.add(task)
        if whole:  # what is made of a choice is one
            self._of_weights.update(self._number(one) for one in _plain(result) if not one.is_floating_point())
        elif computed:
            self._of_weights.update(self._number(one) for one in _plain(result) if one.dtype is torch.bool)

    def _came_to(self, product: _Product, tensors: Sequence[torch.Tensor], task: int) -> None:
        """Note the rows without gradients of a product that a backward pass has come to. Each pass may have others."""
        self._step.heads.setdefault(task, product)
        if tuple(tensors[0].shape) != product.shape:  # it is the gradient in the product that goes back to the input
            return
        zero = _zero_rows(tensors[0])
        product.tasks.add(task)
        product.zero = zero if product.zero is None else min(zero, product.zero)
        product.chosen |= task in self._step.chose
        self._step.met.append((product.shape[0], product.zero, False))

    def _product(
        self, name: str, results: Sequence[tuple[torch.Tensor, Hashable]], line: str, call: int | None
    ) -> _Product | None:
        """Return the product that an operator begins; None if it is none."""
        if not PRODUCT.match(name) or call is None or results[0][0].dim() != 2:
            return None
        known = self._step.products
        new = _Product(line, len(known), tuple(results[0][0].shape), Counter())
        return known.setdefault(call, new)

    def _looks_up(self, name: str, tensors: Sequence[torch.Tensor], line: str) -> None:
        for one in tensors:
            if one.is_leaf and one.requires_grad and one.dim() == 2:
                self._step.weights[tuple(one.shape)].add(id(one))
        weight = tensors[0] if tensors and LOOKS_UP.match(name) else None
        if weight is not None and weight.is_leaf and weight.requires_grad and weight.numel() >= SMALL:
            self._step.tables.setdefault(id(weight), _Table(line, weight))

    def _goes_over(self, tensors: Sequence[torch.Tensor], phase: str, seconds: float) -> None:
        """Note the time in which an operator goes over what is as large as a table, as its states are."""
        shapes, sizes = {table.shape for table in self._step.tables.values()}, Counter[tuple[int, ...]]()
        for one in tensors:
            sizes[tuple(one.shape)] += one.numel()
        for shape in shapes & sizes.keys():
            self._step.over_tables[shape, phase] += seconds * sizes[shape] / sizes.total()

    def _ignored(self) -> Iterator[Unused]:
        found = defaultdict[str, list[tuple[float, _Product]]](list)
        padding = {rows: self._without_any(rows) for rows in {rows for rows, _, _ in self._step.met}}
        shares = {one: one.zero - padding[one.shape[0]] for one in self._step.products.values() if one.zero is not None}
        of_heads = {one.shape[0] for one in self._step.heads.values() if shares.get(one, 0.0) >= LEAST}
        for one, share in shares.items():
            if one.line and not one.chosen and share >= LEAST and one.shape[0] in of_heads:
                found[one.line].append((share, one))
        for line, products in found.items():
            seconds = Counter[str]()
            for share, one in products:
                seconds.update({phase: share * taken for phase, taken in one.seconds.items()})
            rows = sum(one.shape[0] for _, one in products)
            mean = sum(share * one.shape[0] for share, one in products) / rows
            yield Unused(where=line, share=mean, seconds=dict(seconds))

    def _without_any(self, rows: int) -> float:
        """Return the share of so many rows that has no gradient anywhere in the step: padding.

        Where all products with so many rows lack the same ones, these may be the last of a model whose other layers are
        no such products. It is padding if the embedding lacks them as well.
        """
        met = [(zero, is_table) for number, zero, is_table in self._step.met if number == rows]
        least, most = min(met)[0], max(met)[0]
        return least if most - least > ALIKE or any(is_table for _, is_table in met) else 0.0

    def _unused(self) -> Iterator[Unused]:
        found = defaultdict[str, list[_Table]](list)
        for table in self._step.tables.values():
            if table.line and table.zero > 0:
                found[table.line].append(table)
        for line, tables in found.items():
            seconds = Counter[str]()
            for table in tables:
                alike = max(1, len(self._step.weights[table.shape]))
                for (shape, phase), taken in self._step.over_tables.items():
                    seconds[phase] += table.zero * taken / alike if shape == table.shape else 0.0
            rows = sum(table.shape[0] for table in tables)
            mean = sum(table.zero * table.shape[0] for table in tables) / rows
            yield Unused(where=line, share=mean, seconds=dict(seconds))


def _seconds(lines: Sequence[Unused]) -> float:
    return sum(sum(line.seconds.values()) for line in lines)


def _plain(value: Any) -> list[torch.Tensor]:
    """Return the tensors within lists and mappings whose numbers lie side by side."""
    return [one for one in operator_kinds.tensors(value) if one.layout is torch.strided]


def _zero_rows(gradient: torch.Tensor) -> float:
    """Return the share of rows, 0 to 1, that are all zero. A sparse gradient has none of them."""
    if gradient.layout is not torch.strided or not gradient.numel():
        return 0.0
    with torch.no_grad():
        return 1.0 - gradient.detach().any(-1).float().mean().item()


def _is_one_of_several(value: torch.Tensor) -> bool:
    """Return whether a single value may choose a row. A loss of the whole batch, which is told or checked, does not."""
    return not value.is_floating_point() or value.untyped_storage().nbytes() > value.element_size()


def _leaves_out(values: torch.Tensor) -> bool:
    """Return whether a good part of the values is zero, as those of a mask are."""
    with torch.no_grad():
        return bool((values.detach() == 0).float().mean() >= LEAST / 2)


def _is_free(name: str, result: torch.Tensor) -> bool:
    """Return whether a result of an operator depends on no values that it was given."""
    return bool(FREELY.search(name)) and not ("dropout" in name and result.is_floating_point())
