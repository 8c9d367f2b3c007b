"""Profiled trials: what they show adds up, and they judge nothing."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import slowstep_probe.probe.probe
from slowstep.factors import Arm
from slowstep.judgement.operators import places as parts_of
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.profiling import FEWEST_PROFILED, PROFILED_STEPS
from slowstep.records import ProfileRecord, identity
from slowstep.report import device_idle, operators
from slowstep_probe.places import line_of, raised_at, standing
from slowstep_probe.probe.clock import HostClock
from slowstep_probe.probe.tape import Tape
from slowstep_probe.trial import profiled_steps, stack_sampler, time_by_place
from slowstep_probe.trial import profiling as profiling_module
from slowstep_probe.trial.failure import raised
from slowstep_probe.trial.messages import TrainBlock
from slowstep_probe.trial.profiled_steps import covered
from slowstep_probe.trial.profiling import Profiling
from slowstep_probe.trial.stack_sampler import RING
from slowstep_probe.trial.stacks import Function, place_of
from slowstep_probe.trial.time_by_place import Places, StackLook, placed
from workloads_for_tests import Raises


@pytest.fixture(scope="module")
def profiled(measurer: LocalMeasurer, arm: Callable[..., Arm], tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """The smoke run under the profiler, and its trace."""
    trace = tmp_path_factory.mktemp("traces") / "own.json.gz"
    return measurer.profile(arm(), trace), trace, dict(measurer.pool.live)


def test_operators_of_a_real_step_are_found(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """Matrix products of a Llama are among them, and no operator takes more than all threads had."""
    record, _, _ = profiled
    names = {o.name for o in record.operators}

    assert names & {"aten::mm", "aten::addmm", "aten::bmm"}
    assert FEWEST_PROFILED <= record.steps <= PROFILED_STEPS
    assert all(0 < o.calls and 0 <= o.seconds <= 4 * record.seconds for o in record.operators)
    assert [o.seconds for o in record.operators] == sorted((o.seconds for o in record.operators), reverse=True)
    assert 0 <= record.idle < 1
    assert record.gap_seconds * record.steps <= record.seconds


@pytest.mark.trials
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_a_trial_that_lives_is_looked_at(
    killed: bool, measurer: LocalMeasurer, arm: Callable[..., Arm], tmp_path: Path
) -> None:
    """The baseline's trial goes on under the profiler. If it has died, a new one is looked at from its start."""
    measurer.pool.keep_only(set())
    trial = measurer.pool.launch(arm(), identity(arm().determinants()))
    trial.run(TrainBlock(samples=40), 40, "observed")
    launches = measurer.pool.launches
    if killed:
        os.kill(trial.process.pid, signal.SIGKILL)
    record = measurer.profile(arm(), tmp_path / "own.json.gz")

    assert (record.failed, record.start) == ("", 0)
    assert measurer.pool.launches == launches + killed
    assert (record.trained >= trial.position) is not killed
    assert [path.name for path in tmp_path.iterdir()] == ["own.json.gz"]


@pytest.mark.parametrize(("events", "steps"), [(10**6, 3), (700, 2), (1, 1)])
def test_no_more_steps_are_profiled_than_can_be_read(
    events: int, steps: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first step tells how many events there are in one. The time is that of the steps that are read."""
    monkeypatch.setattr(profiling_module, "EVENTS_AT_MOST", events)
    profiling = Profiling(HostClock(), 3, phase=lambda: "other")
    while not profiling.ended:
        for _ in range(100):
            torch.ones(1)
        profiling.step_ends()
    record = profiling.read(tmp_path / "trace.json.gz")

    assert record.steps == steps
    assert sum(o.calls for o in record.operators if o.name == "aten::ones") == 100 * steps


def test_a_step_of_too_many_events_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says so, and it waits for no further step."""
    monkeypatch.setattr(profiling_module, "UNREADABLE", 10)
    profiling = Profiling(HostClock(), 3, phase=lambda: "other")
    for _ in range(20):
        torch.ones(1)
    profiling.step_ends()

    assert profiling.ended
    assert re.fullmatch(r"one step has \d+ events, too many to be read", profiling.failed)


class OfDevice(HostClock):
    """The clock of a stand-in device, which tells these moments in turn."""

    kind = "cuda"

    def __init__(self, *moments: float):
        self.moments = list(moments)

    def mark(self) -> float:  # type: ignore[override]
        return self.moments.pop(0)

    def begin(self) -> float:
        return self.mark()

    def ended(self, mark: float) -> float:
        return mark


def on_device(*kernels: tuple[float, float]) -> Profiling:
    """A profiler of one step on a device that was at earlier work until 10 s of its clock, and has ended at 12.5 s.

    `kernels` are the starts and ends, in us, of what it is seen to run.
    """
    profiling = Profiling(OfDevice(0.0, 10.0, 12.5), 1, phase=lambda: "other")
    while not profiling.ended:
        torch.ones(1)
        profiling.step_ends()
    spans = [SimpleNamespace(start=start, end=end) for start, end in kernels]
    seen = [SimpleNamespace(name="sgemm", time_range=one, self_device_time_total=one.end - one.start) for one in spans]
    profiling.profiled.__dict__["_on_device"] = seen
    return profiling


@pytest.mark.filterwarnings("ignore:.*CUDA is not available")
def test_a_device_that_still_was_at_earlier_work_was_not_idle(tmp_path: Path) -> None:
    """The host runs ahead of a busy device, which begins the profiled steps when it has ended those before them."""
    record = on_device((0, 1e6), (1.5e6, 2.5e6)).read(tmp_path / "trace.json.gz")

    assert (record.device, record.seconds) == ("cuda", 2.5)
    assert record.idle == pytest.approx(0.2)
    assert (record.gaps_per_step, record.gap_seconds) == (1, pytest.approx(0.5))


@pytest.mark.filterwarnings("ignore:.*CUDA is not available")
def test_a_device_of_which_nothing_is_seen_is_not_called_idle(tmp_path: Path) -> None:
    """Systems that let no user trace a device show the profiler its launches alone."""
    record = on_device().read(tmp_path / "trace.json.gz")

    assert record.failed == profiled_steps.NO_KERNEL
    assert record.operators == []


@pytest.fixture
def busy_core() -> Iterator[None]:
    """Has this thread share its only core with another process."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, own)


@pytest.mark.parametrize("sleeps", [True, False])
def test_what_other_processes_take_of_a_core_is_no_pause(sleeps: bool, busy_core: None, tmp_path: Path) -> None:
    """Between two operators a thread may wait for its core. A sleep of its own is a pause."""
    profiling = Profiling(HostClock(), 3, phase=lambda: "other")
    while not profiling.ended:
        for _ in range(100):
            sum(range(5000))  # most of the time no operator runs, and never for long
            torch.ones(1)
        if sleeps:
            time.sleep(1.0)
        profiling.step_ends()
    record = profiling.read(tmp_path / "trace.json.gz")

    assert (sum(record.pauses.values()) > 0.1 * record.seconds) is sleeps


@pytest.mark.parametrize(("stands", "line"), [(0, 10), (4, 11), (6, 11), (8, 12), (10, 12)])
def test_a_jump_without_a_line_stands_at_the_line_before_it(stands: int, line: int) -> None:
    """A loop's jump back may have no line, and a look at the stack often falls on it."""
    lines = [(0, 2, None), (2, 6, 11), (6, 8, None), (8, 10, 12), (10, 12, None)]
    code = SimpleNamespace(co_firstlineno=10, co_lines=lambda: lines)

    assert line_of(SimpleNamespace(f_lineno=None, f_code=code, f_lasti=stands)) == line


def test_the_trace_can_be_opened(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """It is a whole Chrome trace, as Perfetto reads it, and the record names the file."""
    record, trace, _ = profiled
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]

    assert record.trace == trace.name
    assert any(e.get("name") == "aten::mm" or e.get("name") == "aten::addmm" for e in events)


def test_a_profiled_trial_serves_for_nothing_else(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """Nothing that was profiled stays resident to be measured."""
    assert profiled[2] == {}


def test_two_profiles_stand_side_by_side(profiled: tuple[ProfileRecord, Path, dict]) -> None:
    """Chart and table show both, and one that failed is left out."""
    both = {"baseline": profiled[0], "final": profiled[0]}
    failed = {"other": replace(profiled[0], failed="crashed: SIGKILL")}

    assert {"operator", "baseline", "final"} == set(operators(both).rows[0])
    assert len(device_idle(both | failed).rows) == 2
    assert "SIGKILL" in repr(device_idle(failed))


def test_a_profile_that_fails_is_a_record_that_says_why(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """It is kept like any other, so that no notebook tries again in silence."""
    record = measurer.profile(arm(Raises), Path("none.json.gz"))

    assert record.failed.startswith("crashed: ")
    assert record.operators == []


def test_overlapping_spans_are_covered_once() -> None:
    """Operators of several threads, nested ones and gaps: the union of what they cover."""
    assert covered([(0, 4), (1, 2), (3, 6), (8, 9), (8, 8.5)]) == [(0, 6), (8, 9)]
    assert covered([]) == []
    rng = np.random.default_rng(0)
    for _ in range(50):
        spans = [(a, a + d) for a, d in rng.integers(0, 20, (8, 2))]
        points = {t for a, b in spans for t in range(2 * a, 2 * b)}
        assert sum(end - begin for begin, end in covered(spans)) == len(points) / 2


def test_the_probe_is_no_code_of_the_users() -> None:
    """A call that passes through the probe stands at the line of the user's own code."""
    given: dict[str, object] = {"sys": sys}
    exec(compile("frame = sys._getframe()", slowstep_probe.probe.probe.__file__, "exec"), given)
    where, own = place_of(given["frame"])

    assert own
    assert "test_profile.py" in where


def test_an_error_stands_where_the_users_code_raised_it(tmp_path: Path) -> None:
    """Also where a library passes it on as another one, and not where torch.compile has written code."""
    compiled, library = tmp_path / "torchinductor_me" / "ab" / "code.py", tmp_path / "site-packages" / "library.py"
    given: dict[str, object] = {}
    exec(compile("def call():\n    raise MemoryError('full')", str(compiled), "exec"), given)
    passing = (
        "def pass_on(of):\n    try:\n        of()\n    except KeyError as error:\n        raise OSError('x') from error"
    )
    exec(compile(passing, str(library), "exec"), given)
    called, passed = failed(given["call"]), failed(lambda: given["pass_on"](collate))

    assert raised_at(called).function == "failed"
    assert raised(called).startswith("MemoryError: full (")
    assert raised_at(passed).function == "collate"
    assert raised(passed).startswith("OSError: x (")


def collate() -> None:
    """Fails."""
    raise KeyError("label")


def failed(work: Callable[[], object]) -> BaseException:
    """What something fails with."""
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError


def test_a_place_names_the_function_around_a_comprehension() -> None:
    """A generator or a lambda has no name that anybody knows; the function in which it stands has one."""
    (generated,) = (place_of(sys._getframe()) for _ in range(1))
    by_lambda = (lambda: place_of(sys._getframe()))()

    for where, own in (generated, by_lambda):
        assert own
        assert where.endswith("in test_a_place_names_the_function_around_a_comprehension")


def test_a_lambda_is_named_by_what_holds_it_or_by_its_line() -> None:
    """A library calls it, so nothing else of its file need be on the stack; `<lambda>` is no name to look for."""
    nameless = "lambda: (place_of(sys._getframe())[0], standing(sys._getframe()))"
    module: dict[str, Any] = {"sys": sys, "place_of": place_of, "standing": standing}
    exec(
        compile(f"alone = {nameless}\ndef holder():\n    return {nameless}\nheld = holder()", __file__, "exec"), module
    )
    alone, held = ([where.rpartition("/")[2] for where in module[name]()] for name in ("alone", "held"))

    assert alone == ["test_profile.py:1"] * 2
    assert held == ["test_profile.py:3 in holder"] * 2


def loop() -> None:
    """Some milliseconds in which the interpreter is never let go of."""
    total = 0
    for i in range(60_000):
        total += i


def hashes() -> None:
    """Some milliseconds in which it is let go of hundreds of times, for some ten microseconds each."""
    for _ in range(400):
        hashlib.sha256(TEXT)


def operator() -> None:
    """Some milliseconds in which it is let go of."""
    SQUARE @ SQUARE


SQUARE, TEXT = torch.randn(400, 400), b"x" * 4096


def in_this_thread(act: Callable[[], None]) -> None:
    """Call it."""
    act()


def in_another_thread(act: Callable[[], None]) -> None:
    """Call it in a thread, as a program that trains in one."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def where_the_signal_is_used(act: Callable[[], None]) -> None:
    """Call it in a program that uses the sampler's signal itself."""
    rung = list[int]()
    before = signal.signal(RING, lambda *_: rung.append(1))
    act()
    own = signal.signal(RING, before)
    assert own.__name__ == "<lambda>"
    assert not rung


def with_an_alarm(act: Callable[[], None]) -> None:
    """Call it in a program that limits the time of a call by SIGALRM."""
    rung = list[float]()
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    act()
    signal.signal(signal.SIGALRM, before)
    assert len(rung) == 1
    assert rung[0] - began >= 0.5


@pytest.mark.parametrize(
    ("run", "code", "near"),
    [
        (in_this_thread, loop, 0.15),
        (in_this_thread, hashes, 0.15),
        (in_another_thread, loop, 0.3),
        (where_the_signal_is_used, loop, 0.3),
        (with_an_alarm, loop, 0.15),
    ],
)
def test_time_in_python_is_seen_as_that_of_an_operator(
    run: Callable[[Callable[[], None]], None], code: Callable[[], None], near: float
) -> None:
    """A thread alone gets the interpreter late, and least where it is let go of for moments: Python is seen less.

    The second best of five looks at the most counts, since something else may keep the cores busy in the others. Beside
    processes that keep both cores busy, shares were off by up to 0.14 in all five, and by less than 0.1 where nothing
    else ran.
    """
    off: list[float] = []

    def look() -> None:
        spent, places = {code.__name__: 0.0, "operator": 0.0}, Places(lambda: 0)
        places.begin()
        while sum(spent.values()) < 0.8:
            for act in (code, operator):
                began = time.perf_counter()
                act()
                spent[act.__name__] += time.perf_counter() - began
        seen = sum(p.share for p in places.stop(["other"]) if p.where.endswith(f" in {code.__name__}"))
        off.append(abs(seen - spent[code.__name__] / sum(spent.values())))

    while sum(each <= near for each in off) < 2 and len(off) < 5:
        run(look)

    assert sorted(off)[1] <= near


def train_step(at: Callable[[str], None]) -> None:
    """A step of a program's own: the phases begin where `at` is called with their names."""
    at("forward")
    operator()
    at("other")
    loss()
    at("backward")
    operator()
    at("optimizer")
    operator()
    at("other")
    average()


def loss() -> None:
    """What a program computes beside its model."""
    sum(range(200_000))


def average() -> None:
    """What trains nothing: two lines, each in a function of its own."""
    hashes()
    loop()


def test_lines_that_one_function_runs_are_told_to_be_so() -> None:
    """It is the outermost that trains nothing: neither the step's own, nor those that the loss is made in."""
    marks = [""]
    places = Places(lambda: len(marks) - 1)
    places.begin()
    began = time.perf_counter()
    while time.perf_counter() - began < 1.5:
        train_step(marks.append)
    within = {p.where.rpartition(" ")[2]: p.within.rpartition(" ")[2] for p in places.stop(marks) if p.phase == "other"}

    assert {"loss": "", "hashes": "average", "loop": "average"}.items() <= within.items()


def test_a_wait_for_a_device_at_earlier_work_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that reads its loss back waits there for all that the device still has to do, and loses none of it.

    The device comes to the end of the backward pass 0.6 s after the host. What is done from then on, it waits for.
    """
    phases, mark = ["other", "backward", "other", "optimizer"], [0]
    places, now = Places(lambda: mark[0]), 10.0
    for module in (stack_sampler, time_by_place):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))

    def look(seconds: float) -> None:
        nonlocal now
        now += seconds
        places.look(sys._getframe(1), round(1e6 * seconds))

    def launches() -> None:
        look(0.1)

    def reads_back() -> None:
        look(0.5)

    def in_numpy() -> None:
        look(0.3)

    for mark[0], acts in enumerate([(), (launches,), (reads_back, in_numpy), (launches,)]):
        for act in acts:
            act()
    places.begin()
    found = places.stop(phases, lambda: [10.0, 10.0, 10.65, 11.0])
    shares = {(place.phase, place.where.rpartition(" ")[2]): place.share for place in found}

    assert shares == {
        ("backward", "launches"): pytest.approx(0.1),
        ("other", "in_numpy"): pytest.approx(0.3),
        ("optimizer", "launches"): pytest.approx(0.1),
    }


def test_the_moments_are_those_at_which_training_came_to_each_mark() -> None:
    """By the clock of a device, from the moment on at which the block began."""
    tape = Tape(OfDevice(5.0, 5.2, 6.0), ())
    before = time.monotonic()
    tape.open()
    for phase in ("forward", "backward"):
        tape.mark(phase)
    first, *others = tape.reached()

    assert before <= first <= time.monotonic()
    assert others == [pytest.approx(first + 0.2), pytest.approx(first + 1.0)]


def test_what_updates_the_weights_trains_whoever_wrote_it() -> None:
    """An optimizer that is none of PyTorch's runs between the phases. What stands beside it there is lost as ever."""
    marks, phases = [0], ["data", "forward", "backward", "other"]
    weight = torch.nn.Parameter(torch.zeros(8))
    places = Places(lambda: marks[-1], lambda: [weight])

    def look() -> None:
        places.look(sys._getframe(1), 1000)

    def update() -> None:
        look()
        weight.data += 1
        look()

    def logs() -> None:
        look()
        look()

    def step() -> None:
        for mark in range(3):
            marks.append(mark)
            look()
        marks.append(3)
        logs()
        update()
        logs()

    step()
    step()
    found = placed(places.found, phases, places.updates.found)
    spent = {(p.phase, p.where.rpartition(" ")[2]) for p in found}

    assert {("optimizer", "update"), ("other", "logs")} <= spent
    assert not {("other", "update"), ("optimizer", "logs"), ("optimizer", "step")} & spent


def test_a_line_that_calls_what_trains_says_what_runs_there() -> None:
    """All phases of a library's loop stand at the line that called it, so its function is told; a line of the user's
    own loop says enough."""
    fit, own = ("train.py:9 in <module>", True), ("data.py:3 in __getitem__", True)
    looks = {
        StackLook(0, *fit, "PIL/ImageFile.py in load"): 50,
        StackLook(0, *fit): 5,
        StackLook(0, *own, "PIL/ImageFile.py in load"): 20,
        StackLook(1, *fit, "fastai/learner.py in one_batch"): 5,
        StackLook(1, *fit, "fastai/layers.py in forward"): 5,
        StackLook(1, *fit, "timm/layers/norm.py in forward"): 5,
        StackLook(1, *fit): 10,
    }
    found = placed(Counter(looks), ["data", "forward"])

    assert [("data", fit[0], "PIL/ImageFile.py in load"), ("forward", fit[0], ""), ("data", own[0], "")] == [
        (p.phase, p.where, p.inside) for p in found
    ]
    assert all(p.inside == "" for p in placed(Counter(looks), ["data", "data"]))
    assert "train.py:9 in <module> (there mostly PIL/ImageFile.py in load)" in str(parts_of(found, "data", 0.05))


def test_a_model_that_is_run_without_training_is_told_by_the_line_that_runs_it() -> None:
    """Its own lines are those of training as well. A line that calls a whole training says no more than they do."""
    within, acts, fit = "net.py:9 in forward", "ppo.py:50 in collect", "ppo.py:90 in <module>"
    looks = {
        StackLook(0, within, True, caller=acts): 50,
        StackLook(1, within, True, caller="ppo.py:70 in update"): 20,
        StackLook(2, within, True, caller=fit): 10,
        StackLook(1, fit, True): 5,
        StackLook(3, fit, True): 5,
    }
    found = placed(Counter(looks), ["evaluate", "forward", "evaluate", "data"])

    assert {("evaluate", acts), ("forward", within), ("evaluate", within)} <= {(p.phase, p.where) for p in found}
    assert ("evaluate", fit) not in {(p.phase, p.where) for p in found}


def test_a_line_that_two_functions_run_counts_once() -> None:
    """What both read by a helper of theirs is the part of one of them, and not of each."""
    sample, update = (Function("replay.py", line, name) for line, name in ((30, "sample"), (50, "update")))
    reads, draws, writes = "replay.py:9 in read", "replay.py:33 in sample", "replay.py:19 in write"
    looks = {
        StackLook(0, reads, True, functions=(sample,)): 25,
        StackLook(0, reads, True, functions=(update,)): 30,
        StackLook(0, draws, True, functions=(sample,)): 15,
        StackLook(0, writes, True, functions=(update,)): 30,
    }
    found = {p.where: (p.within.rpartition(" ")[2], p.together) for p in placed(Counter(looks), ["other"])}

    assert found == {reads: ("update", 0.85), draws: ("sample", 0.15), writes: ("update", 0.85)}


class Doubles(torch.nn.Module):
    """A user's own module that takes a while."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            x = x + 0
        return x


def test_the_line_that_runs_a_model_is_seen() -> None:
    """It stands outside of the outermost module."""
    model = torch.nn.Sequential(Doubles(), Doubles())

    def collect() -> None:
        for _ in range(10):
            model(torch.ones(2))

    places = Places(lambda: 0)
    places.begin()
    collect()
    found = places.stop(["evaluate"])

    assert found[0].where.endswith("in collect")


def test_the_function_of_a_package_is_seen_under_the_line_that_calls_it() -> None:
    """What the standard library and torch do there says little."""
    places = Places(lambda: 0)
    places.begin()
    began = time.perf_counter()
    while time.perf_counter() - began < 0.5:
        yaml.load("- [1, 2, {a: b}]\n" * 20, Loader=yaml.SafeLoader)
    places.stop(["other"])
    inside = Counter[str]()
    for seen, count in places.found.items():
        inside[seen.inside.partition("/")[0]] += count * seen.own

    assert inside["yaml"] > inside.total() / 2
