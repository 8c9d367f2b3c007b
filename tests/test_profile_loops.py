"""Loops in Python, as a profile shows them: told from what an operator does itself, with what they lose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from slowstep_probe.probe.clock import HostClock
from slowstep_probe.profiled import Loop
from slowstep_probe.trial import loops as loops_module
from slowstep_probe.trial.call_flops import call_flops
from slowstep_probe.trial.host_events import HostEvents
from slowstep_probe.trial.loops import loops
from slowstep_probe.trial.profiled_steps import ANNOTATION
from slowstep_probe.trial.profiling import Profiling

ROWS = torch.ones(600, 16, 16)
WHOLE = ROWS.long()  # no library multiplies batches of these
HELD = torch.ones(64, 8, requires_grad=True)
DATA = torch.ones(60, 8)


def by_element() -> None:
    """Fills a mask element by element."""
    mask = torch.zeros(20, 20)
    for i in range(20):
        for j in range(i, 20):
            mask[i, j] = 1


def by_position() -> torch.Tensor:
    """Mixes the positions of a sequence in a loop, six operators each."""
    state = HELD[0]
    for at in range(1, 64):
        state = (state * 0.5 + HELD[at] * 0.5).tanh()
    return state.sum()


def by_power() -> torch.Tensor:
    """Looks for the largest singular value by products of the same matrix with a vector, as spectral norms do."""
    matrix, found = ROWS[1], HELD.detach()[:16, 0]
    for _ in range(30):
        found = torch.nn.functional.normalize(torch.mv(matrix, torch.mv(matrix, found)), dim=0)
    return found


def by_layer() -> None:
    """Multiplies by matrices in a loop: that is the arithmetic of a deep model."""
    x = ROWS[0]
    for _ in range(100):
        x = torch.relu(x @ ROWS[1] + 1) / 16


def begun(steps: int) -> Profiling:
    """A profiler of that many steps, after two in which nothing is done."""
    profiling = Profiling(HostClock(), steps, phase=lambda: "other")
    profiling.step_ends()
    profiling.step_ends()
    return profiling


def loops_of_three_steps(work: Callable[[], object], folder: Path) -> dict[str, Loop]:
    """The loops that a profile of three steps of this work shows."""
    profiling = begun(3)
    while not profiling.ended:
        work()
        profiling.step_ends()
    return profiling.read(folder / "trace.json.gz").loops


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (by_element, "aten::select"),
        (by_position, "aten::mul"),
        (by_power, "aten::mv"),
        (lambda: torch.bmm(WHOLE, WHOLE), None),  # selects each matrix of the batch itself
        (by_layer, None),
    ],
)
def test_a_loop_in_python_is_told_from_one_within_an_operator(
    work: Callable[[], object], named: str | None, tmp_path: Path
) -> None:
    """Where Python calls hundreds of operators one by one, and none of them is a product of two matrices."""
    found = loops_of_three_steps(work, tmp_path)

    assert list(found) == ["other"] * bool(named)
    if named:
        assert found["other"].name == named
        assert found["other"].calls >= 3 * 60


CELL, SMALL = torch.nn.LSTMCell(8, 8), torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))


def by_cell() -> None:
    """Goes over positions by a recurrent cell, which multiplies matrices at each."""
    state = None
    for row in HELD[:60]:
        state = CELL(row[None, :8], state)


def by_sample() -> None:
    """Gives a model the examples of a batch one by one."""
    torch.stack([SMALL(row[:8]) for row in HELD[:60]]).sum().backward()


def by_micro_batch() -> None:
    """Computes gradients after each of many small batches."""
    for row in DATA:
        loss = SMALL(row[:8]).sum()
        with torch.profiler.record_function(f"{ANNOTATION}backward"):
            loss.backward()


def by_gradient() -> None:
    """Computes the gradients of each example of a batch by itself, as training with differential privacy may."""
    with torch.profiler.record_function(f"{ANNOTATION}data"):
        batch = DATA.clone()
    for row in batch:
        loss = SMALL(row[:8]).sum()
        with torch.profiler.record_function(f"{ANNOTATION}backward"):
            loss.backward()
        sum(p.grad.pow(2).sum() for p in SMALL.parameters()).sqrt()


def by_loaded_micro_batch() -> None:
    """Computes gradients after each of many small batches, which a loader gives one by one."""
    for row in DATA:
        with torch.profiler.record_function(f"{ANNOTATION}data"):
            batch = row.clone()
        loss = SMALL(batch[:8]).sum()
        with torch.profiler.record_function(f"{ANNOTATION}backward"):
            loss.backward()


def by_shared_layer() -> None:
    """Uses the same weights in all of its layers, as ALBERT does in 24."""
    x = HELD[:, :8]
    for _ in range(24):
        x = SMALL(x)


EXPERTS = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)) for _ in range(4))


def by_expert() -> None:
    """Gives each token to its expert by itself."""
    torch.stack([EXPERTS[at % 4](row[:8]) for at, row in enumerate(torch.ones(120, 8))]).sum().backward()


def by_refinement() -> None:
    """Goes over its layers twelve times, as models do that refine what they found."""
    x = HELD[:, :8]
    for _ in range(12):
        for layer in SOME:
            x = layer(x).tanh()


SOME = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(10))

LAYERS, SHARED = torch.nn.ModuleList(torch.nn.Linear(8, 128) for _ in range(60)), torch.nn.PReLU()


def by_deep_network() -> None:
    """Shares a small module with weights among all of its layers."""
    x = HELD[:, :8]
    for layer in LAYERS:
        x = SHARED(layer(x).tanh().sin().cos().exp())[:, :8]


HEADS = torch.nn.ModuleList(torch.nn.Linear(8, 2) for _ in range(60))
SAME = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(60))


def by_head() -> None:
    """Has a head for each of many classes, which all see the same."""
    x = HELD[:, :8].tanh()
    sum(head(x).logsumexp(-1).sum() for head in HEADS).backward()


def by_layer_with_memory() -> None:
    """Looks at the same memory in each of its layers."""
    x = memory = HELD[:, :8].tanh()
    for head, layer in zip(HEADS, SAME, strict=True):
        x = layer(x) + head(memory).sum()
    x.sum().backward()


def by_layer_of_its_own() -> None:
    """Goes through as many layers, one after the other."""
    x = HELD[:, :2]
    for head in HEADS:
        x = head(x.repeat(1, 4))
    x.sum().backward()


ROUTED = torch.nn.ModuleList(torch.nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8)) for _ in range(12))


class Routing(nn.Module):
    """Gives each of a few experts its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(8, 12), ROUTED

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen, out = self.gate(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            at = torch.where(chosen == number)[0]
            out[at] += expert(x[at])
        return x + out


ROUTINGS = nn.Sequential(*(Routing() for _ in range(4)))


def by_routed_tokens() -> None:
    """Has four layers of experts, each with a gate."""
    ROUTINGS(HELD[:, :8]).sum().backward()


def by_residual_layer() -> None:
    """Adds what each of a few layers makes to what the next one is given."""
    x = HELD[:, :8]
    for layer in ROUTED:
        x = x + layer(x)
    x.sum().backward()


def by_what_was_read() -> None:
    """Chooses what each of a few layers is given by what the one before has made, in Python."""
    at = 0
    for layer in ROUTED:
        at = int(layer(HELD[at, :8]).argmax().item())


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (by_head, ("Linear", 60)),
        (by_routed_tokens, ("Sequential", 48)),
        (by_residual_layer, None),
        (by_what_was_read, None),
        (by_layer_of_its_own, None),
        (by_layer_with_memory, None),
        (by_deep_network, None),
        (by_cell, ("LSTMCell", 60)),
        (by_sample, ("Sequential", 60)),
        (by_expert, ("Sequential", 120)),
        (by_refinement, None),
        (by_micro_batch, None),
        (by_loaded_micro_batch, None),
        (by_gradient, ("Sequential", 60)),
        (by_shared_layer, None),
    ],
)
def test_a_module_that_is_called_again_and_again_is_in_a_loop(
    work: Callable[[], object], named: tuple[str, int] | None, tmp_path: Path, nothing_compiled: None
) -> None:
    """Though it multiplies matrices each time. Accumulation of gradients is none, nor are layers that share weights.

    A step that other processes hold up between its calls may not show it, and the others do.
    """
    found = [loop for loop in loops_of_three_steps(work, tmp_path).values() if not loop.of]

    assert [loop.name for loop in found] == ([named[0]] if named else [])
    assert all(loop.calls in (named[1], 2 * named[1], 3 * named[1]) for loop in found)
    hooks = torch.nn.modules.module
    assert not hooks._global_forward_pre_hooks
    assert not hooks._global_forward_hooks


def test_no_module_is_watched_where_something_was_compiled(tmp_path: Path, nothing_compiled: None) -> None:
    """Hooks would have it compiled anew."""
    torch.compile(by_element, backend="eager")()
    found = loops_of_three_steps(by_cell, tmp_path)

    assert not [loop for loop in found.values() if loop.name == "LSTMCell"]


@dataclass
class Span:
    """When an operator runs, in us."""

    start: float
    end: float


@dataclass
class Event:
    """An event of the profiler, as far as loops are told from them."""

    name: str
    time_range: Span
    cpu_parent: Event | None = None
    thread: int = 1
    sequence_nr: int = -1
    fwd_thread: int = 0
    cpu_children: list[Event] = field(default_factory=list)


def called(times: int, length: float, gap: float, name: str = "aten::mul", within: Event | None = None) -> list[Event]:
    """So many calls of an operator one after the other, from the start, of this length and with these gaps, in us."""
    starts = [number * (length + gap) for number in range(times)]
    return [Event(name, Span(start, start + length), within) for start in starts]


NODE = Event("autograd::engine::evaluate_function: ByRowBackward", Span(0, 1e6))


@pytest.mark.parametrize(
    ("events", "phase", "busy", "micros"),
    [
        (called(100, 5, 10), "forward", [], 100 * 5 + 99 * 10),
        (called(100, 5, 10), "forward", [(0, 1490 / 2)], (100 * 5 + 99 * 10) / 2),  # a device computes half the time
        (called(100, 5000, 10), "forward", [], 99 * 10),  # long operators compute
        (called(100, 5, 5000), "forward", [], 100 * 5),  # pauses are told elsewhere
        (called(49, 5, 10), "forward", [], None),
        (called(100, 5, 10, "aten::addmm"), "forward", [], None),
        (called(100, 5, 10, "reducer::copy_bucket_to_grad"), "backward", [], None),  # of DDP, behind the last node
        (called(100, 5, 10, within=NODE), "backward", [], 100 * 5 + 99 * 10),
        (called(100, 5, 10, within=Event("UnbindBackward0", Span(0, 1e6), NODE)), "backward", [], None),
    ],
)
def test_only_what_python_spends_on_a_loop_is_lost(
    events: list[Event], phase: str, busy: list[tuple[float, float]], micros: float | None
) -> None:
    """Python's own time and that of short calls, where no device computes meanwhile."""
    found = loops(HostEvents(events, lambda _: (phase, 0), 1), busy)

    assert list(found) == [phase] * (micros is not None)
    assert micros is None or found[phase].seconds == pytest.approx(1e-6 * micros, rel=0.01)


@pytest.mark.parametrize(("number", "micros"), [(-1, 100 * 5000 + 99 * 10), (3, 0)])
def test_a_loop_is_timed_as_a_whole_where_gradients_are_switched_off(number: int, micros: float) -> None:
    """The profiler numbers an operator where gradients are on, whether or not it makes a node of their graph."""
    events = [replace(e, sequence_nr=number) for e in called(100, 5000, 10)]
    once = replace(called(1, 5000, 10, "aten::sort")[0], time_range=Span(-6000, -1000))

    found = loops(HostEvents([once, *events], lambda _: ("forward", 0), 1))

    assert found["forward"].without_gradients == pytest.approx(1e-6 * micros)


def forward_until(moment: float) -> Callable[[Event], tuple[str, int]]:
    """Tells the phase and the number of the step of an event: the backward pass begins at that moment."""
    return lambda event: ("forward" if event.time_range.start < moment else "backward", 0)


def test_the_way_back_through_a_loop_is_lost_with_it() -> None:
    """The part of a tensor that each turn takes comes back as a whole one, and short operators are calls; what computes
    is no loss.
    """
    forward = [replace(e, sequence_nr=number) for number, e in enumerate(called(100, 5, 10))]
    back = [
        Event(f"autograd::engine::evaluate_function: {name}", Span(start, start + 50), None, 1, number, 1)
        for start, name, number in (
            (2000, "SelectBackward0", 3),
            (2100, "MmBackward0", 4),
            (2200, "SelectBackward0", 900),
            (2300, "DotBackward0", 5),
        )
    ]
    for node, name, lengths in ((back[1], "aten::mm", [45]), (back[3], "aten::mul", [15, 15])):
        for length in lengths:
            node.cpu_children.append(Event(name, Span(node.time_range.start, node.time_range.start + length), node))
    found = loops(HostEvents([*forward, *back], forward_until(2000), 1))

    assert found["backward"].seconds == pytest.approx((50 + 5 + 50) * 1e-6)
    assert found["backward"].products == 0  # no module with known weights called what it goes back through
    assert found["backward"].of == "forward"
    assert found["backward"].calls == found["forward"].calls == 100


def test_the_way_back_goes_through_the_parts_of_operators() -> None:
    """An operator may be made of others, and autograd goes back through these."""
    forward = called(100, 5, 10)
    for number, e in enumerate(forward):
        e.cpu_children.append(replace(e, name="aten::sigmoid", cpu_parent=e, sequence_nr=number, cpu_children=[]))
    parts = [part for e in forward for part in e.cpu_children]
    back = Event("autograd::engine::evaluate_function: SigmoidBackward0", Span(2000, 2010), None, 1, 42, 1)
    found = loops(HostEvents([*forward, *parts, back], forward_until(2000), 1))

    assert found["backward"].seconds == pytest.approx(10e-6)


def test_an_operator_without_a_gradient_made_no_node() -> None:
    """The profiler gives it the number of the node that comes next, which may belong to no loop."""
    loop = [replace(e, sequence_nr=7) for e in called(100, 5, 10)]
    after = Event("aten::addmm", Span(3000, 3500), None, 1, 7)
    back = Event("autograd::engine::evaluate_function: AddmmBackward0", Span(5000, 5010), None, 1, 7, 1)
    found = loops(HostEvents([*loop, after, back], forward_until(4000), 1))

    assert list(found) == ["forward"]


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Linear(12, 20), (7, 3, 12)),
        (nn.Linear(12, 20, bias=False), (12,)),
        (nn.Conv2d(4, 8, 3, padding=1), (2, 4, 9, 9)),
        (nn.Conv2d(4, 8, 3, stride=2, groups=2), (2, 4, 9, 9)),
        (nn.Conv1d(4, 8, 5), (2, 4, 19)),
        (nn.ConvTranspose2d(4, 8, 3, stride=2), (2, 4, 9, 9)),
        (nn.LSTMCell(12, 16), (5, 12)),
        (nn.GRUCell(12, 16), (5, 12)),
    ],
    ids=lambda value: str(value) if isinstance(value, tuple) else type(value).__name__,
)
def test_the_flops_of_a_call_follow_from_its_weights(module: nn.Module, shape: tuple[int, ...]) -> None:
    """They are those that PyTorch counts operator by operator."""
    given = torch.rand(shape)
    with FlopCounterMode(display=False) as counted:
        output = module(given)

    assert call_flops(module, (given,), output) == pytest.approx(counted.get_total_flops() or 2 * 12 * 20)


@pytest.mark.parametrize("how", [{"bidirectional": True}, {"proj_size": 4}, {"num_layers": 2}], ids=str)
def test_the_flops_of_recurrent_layers_count_each_position_once(how: dict[str, Any]) -> None:
    """PyTorch counts none of theirs here. Each weight multiplies once at each position."""
    module, given = nn.LSTM(6, 8, **how), torch.rand(10, 3, 6)
    weights = sum(w.numel() for w in module.parameters() if w.dim() == 2)

    assert call_flops(module, (given,), module(given)) == 2 * weights * 30


def packed() -> nn.Linear:
    """A layer whose weights are packed, as quantised ones are."""
    module = nn.Linear(8, 8)
    module.weight = nn.Parameter(torch.zeros(32, 1, dtype=torch.uint8), requires_grad=False)
    return module


@pytest.mark.parametrize(
    ("module", "output"),
    [
        (nn.Embedding(9, 4), torch.rand(3, 4)),
        (nn.MultiheadAttention(8, 2), (torch.rand(3, 8), None)),  # it multiplies by weights of a part that nobody calls
        (nn.LayerNorm(8), torch.rand(3, 8)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), torch.rand(3, 8)),
        (packed(), torch.rand(3, 8)),
        (nn.Linear(8, 8), "ids"),
        (nn.Linear(8, 8), torch.rand(0, 8)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_flops_that_the_weights_do_not_tell_are_not_told(module: nn.Module, output: object) -> None:
    """What such a module computes is then taken for arithmetic, and never for lost time."""
    assert call_flops(module, (torch.rand(3, 8),), output) == 0


WIDE, DEEP = nn.Linear(256, 256), nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
PACKED = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(256, 256)))


@pytest.mark.parametrize(
    ("module", "passes", "flops"),
    [
        (WIDE, 1, 2 * 256 * 256 * 64),
        (DEEP, 1, 2 * 2 * 256 * 512 * 64),
        (WIDE, 2, 2 * 256 * 256 * 64),
        (PACKED, 1, 0),
    ],
    ids=["layer", "of two layers", "two passes", "weights made from others"],
)
def test_the_products_of_a_loop_are_told_with_their_flops(
    module: nn.Module,
    passes: int,
    flops: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    nothing_compiled: None,
) -> None:
    """Forth, and back for each pass: twice as many, for gradients of weights and inputs."""
    monkeypatch.setattr(loops_module, "SHORT", 0.0)  # else a short one is lost as a whole, and has no FLOPs
    profiling, rows, phases = begun(3), torch.rand(100, 64, 256, requires_grad=True), ANNOTATION
    while not profiling.ended:
        with torch.profiler.record_function(f"{phases}forward"):
            loss = sum(module(row).sum() for row in rows)
        with torch.profiler.record_function(f"{phases}backward"):
            for again in range(passes):
                loss.backward(retain_graph=again < passes - 1)
        profiling.step_ends()
    found = profiling.read(tmp_path / "trace.json.gz").loops

    forth, back = found["forward"], found["backward"]
    assert (forth.flops, back.flops) == pytest.approx((3 * 100 * flops, 3 * 100 * 2 * flops * passes), rel=0.1)
    assert (forth.products > 0, back.products > 0) == (flops > 0, flops > 0)


class ByRow(torch.autograd.Function):
    """Its backward pass goes over rows in a loop."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return torch.stack([row * 2 for row in gradient.unbind()])


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        (by_position, []),  # the engine of autograd goes from node to node
        (lambda: torch.stack([row.tanh() for row in HELD.unbind()]).sum(), []),  # a node takes a stack apart itself
        (lambda: ByRow.apply(HELD.repeat(2, 1)).sum(), ["other"]),
    ],
)
def test_a_backward_pass_has_a_loop_where_python_runs_one(
    loss: Callable[[], torch.Tensor], named: list[str], tmp_path: Path
) -> None:
    """In a function of the user's own, and not where the forward pass had one."""
    value = loss()
    profiling = begun(1)
    value.backward()
    profiling.step_ends()

    assert list(profiling.read(tmp_path / "trace.json.gz").loops) == named
