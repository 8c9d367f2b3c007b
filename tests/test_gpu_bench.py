"""The proof of the GPU path can be run: every part to its end with tiny sizes on a CPU, stopped and taken up again.

What a device says of the figures is not tested here. A dry run shows that nothing fails for a typing error there.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import cases, commands, compiling, matrix, memory, planted, probe, running, runs
from bench.gpu.__main__ import main
from bench.gpu.limits import within
from bench.gpu.part import MOST_MINUTES, Bench, Cell, Figures, Goal, NotYet, Part
from bench.gpu.parts import parts
from bench.gpu.running import DONE, FAILED, NOT_RUN, OPEN, OtherFigures, run, state
from bench.gpu.runs import RUNS, settings_of_run
from bench.gpu.scale import DRY, REAL, Scale
from bench.own_scripts.script import throughput
from slowstep.environment.machine import this_machine
from slowstep.factors import check_levels
from slowstep.settings import Settings, override
from slowstep.workloads import load_workload

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A dry bench in a folder of its own."""
    return Bench(scale=DRY, out=tmp_path)


def part_of(*measures: Callable[[Bench], Figures], goals: tuple[Goal, ...] = (), minutes: float = 1.0) -> Part:
    """Return a part with a cell for each function: `0`, `1` and so on."""
    cells = [Cell(name=str(i), measure=measure, minutes=minutes) for i, measure in enumerate(measures)]
    return Part(name="made-up", title="a made-up part", cells=cells, goals=goals)


# -- parts --


@pytest.mark.parametrize("scale", [REAL, DRY], ids=["real", "dry"])
def test_every_part_fits_into_a_call(scale: Scale) -> None:
    """No part is expected to take more than eight minutes, and names tell parts and cells apart."""
    every = parts(scale)
    cells = [(part.room or part.name, cell.name) for part in every for cell in part.cells]

    assert [] == [(part.name, part.minutes) for part in every if part.minutes > MOST_MINUTES + 1e-9]
    assert len({part.name for part in every}) == len(every)
    assert len(set(cells)) == len(cells)
    assert {name for part in every for name in part.room} <= {part.name for part in every}


def runs_at(scale: Scale) -> dict[str, Callable[[], Settings]]:
    """Return what gives the settings of each run that the parts train at a scale, by name."""
    bench = Bench(scale=scale, out=Path("nowhere"))
    found: dict[str, Callable[[], Settings]] = {}
    for length, batch, limit in itertools.product(scale.lengths, scale.batches, scale.host_limit_gib):
        found[f"{length} x {batch} within {limit}"] = partial(matrix.settings_of_cell, length, batch, limit, {}, bench)
    for name, changes in matrix.VARIANTS.items():
        found[name] = partial(matrix.settings_of_cell, scale.lengths[1], 4, 80, changes, bench)
    for name in RUNS:
        found[name] = partial(settings_of_run, name, bench)
    for name, changes in compiling.MODES.items():
        found[f"compile {name}"] = partial(settings_of_run, runs.LANGUAGE, bench, changes)
    for seed in ("001", *cases.SEEDS):
        found[f"seed {seed}"] = partial(cases.settings_of_case, seed, bench)
    for kind in planted.scenarios(scale).values():
        for name, data in kind.items():
            found[name] = partial(planted.settings_of_scenario, name, data, scale)
    return found


RUNS_AT = {f"{scale.name}, {name}": give for scale in (REAL, DRY) for name, give in runs_at(scale).items()}


@pytest.mark.parametrize("name", RUNS_AT)
def test_all_that_is_trained_is_taken_by_the_kit(name: str) -> None:
    """What is trained on a device is checked here as far as it can be without one: keys, levels, workloads."""
    settings = RUNS_AT[name]()

    assert [] == check_levels(settings, name)
    assert load_workload(settings.workload)


@pytest.mark.parametrize("scale", [REAL, DRY], ids=["real", "dry"])
def test_a_planted_cause_can_be_found_and_undone(scale: Scale) -> None:
    """Eight causes and two healthy runs: each cause is a factor that its file lists, or a phase, and has a cure."""
    known = planted.scenarios(scale)
    for name, data in known["planted"].items():
        settings = planted.settings_of_scenario(name, data, scale)
        sections = (settings.data_loading, settings.gradient_checkpointing, settings.compute, settings.overheads)
        listed = {factor for section in sections for factor in section}

        assert planted.expected(data) in listed | {"unexplained: other"}
        assert override(settings, data["cure"]) != settings or scale is DRY

    assert (8, 2) == (len(known["planted"]), len(known["healthy"]))


@pytest.mark.parametrize("name", commands.CAUSES)
@pytest.mark.parametrize("scale", [REAL, DRY], ids=["real", "dry"])
def test_a_cause_stands_in_the_script(scale: Scale, name: str) -> None:
    """The script holds each text that is replaced, is Python afterwards, and holds the line that may be named."""
    text = commands.script(name, Bench(scale=scale, out=Path("nowhere")))

    compile(text, "gpt.py", "exec")
    assert commands.CAUSES[name].line in text


@pytest.mark.trials
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", commands.CAUSES)
def test_a_script_with_a_cause_trains(name: str, bench: Bench) -> None:
    """A dry run diagnoses some of the scripts. The others train as well."""
    path = commands.written(name, bench)
    command = [sys.executable, path.name, "8"]

    assert throughput(command, path.parent) > 0


@pytest.mark.parametrize(
    ("first", "factor", "decided", "failed", "right"),
    [
        ("It is gpt.py:77 in main 40 %.", "unexplained: other", 1, {}, True),
        ("It is gpt.py:78 in main 40 %.", "unexplained: other", 1, {}, False),
        ("Waiting costs, shown by num_workers=4.", "dataloader_num_workers", 1, {}, True),
        ("Waiting costs, shown by num_workers=4.", "dataloader_num_workers", 0, {}, False),
        ("Waiting costs, shown by num_workers=4.", "dataloader_num_workers", 1, {"40_compute": "OSError"}, False),
        ("Memory costs, shown by freed_memory=kept.", "freed_memory", 1, {}, False),
    ],
)
def test_a_planted_line_or_its_factor_must_be_named(
    first: str, factor: str, decided: int, failed: dict[str, str], right: bool
) -> None:
    """Another line of the same function is wrong, and so is whatever is said where nothing was decided."""
    cause = {"ratio": 2.0, "low": 1.9, "high": 2.1}
    found: Figures = {"first": first, "factor": factor, "factors": ["dataloader_num_workers"], "place": "gpt.py:77 "}
    found |= {"decided": decided, "failed": failed, "causes": [cause]}
    size = {"ratio": 2.0, "low": 1.95, "high": 2.05, "pairs": 2}

    assert right == commands._is_right("slow items", {"slow items, diagnosed": found, "slow items, size": size})


def test_the_tests_for_a_device_are_all_run() -> None:
    """The part names each file that holds a test marked `gpu`."""
    marked = {f"tests/{p.name}" for p in (ROOT / "tests").glob("test_*.py") if "@pytest.mark" + ".gpu" in p.read_text()}

    assert set(probe.FILES) == marked


def test_tests_count_that_ended_before_the_time_was_over() -> None:
    """On a device there may be no time to run them again."""
    told = """tests/test_workload.py::test_memory PASSED                       [ 10%]
tests/test_frozen_base.py::test_a_base[4 bit] FAILED                     [ 20%]
tests/test_probe.py::test_time SKIPPED (needs a CUDA device)             [ 30%]
tests/test_ranks.py::test_a_wait """

    assert {"passed": 1, "failed": 1, "skipped": 1, "error": 0} == probe.counted(told)


def test_the_library_knows_nothing_of_the_proof() -> None:
    """No file of the library names what measures it."""
    assert [] == [str(p) for p in (ROOT / "lib").rglob("*.py") if "bench" + ".gpu" in p.read_text(encoding="utf-8")]


FOR_REPORTS = (
    "plotly",
    "nbformat",
    "nbconvert",
    "nbclient",
    "papermill",
    "jupyter_client",
    "ipykernel",
    "IPython",
    "nh3",
)
"""What a bare machine lacks: packages that only reports need."""


def on_a_bare_machine(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code where the packages that reports need are absent."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({FOR_REPORTS!r}))"
    return subprocess.run(
        [sys.executable, "-c", f"{blocked}; {code}"], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_bare_machine_can_run_the_parts(tmp_path: Path) -> None:
    """Neither Jupyter nor plotly is needed, nor anything else that only reports need."""
    done = on_a_bare_machine(f"from bench.gpu.__main__ import main; sys.exit(main(['--out', {str(tmp_path)!r}]))")

    assert (0, "") == (done.returncode, done.stderr)
    assert [part.name for part in parts(REAL)] == re.findall(r"^(\S+) +not run", done.stdout, re.MULTILINE)


def test_a_bare_machine_can_run_the_tests_for_a_device() -> None:
    """One file that can't be imported would stop all of them."""
    asked = ["-q", "-m", "gpu", "--collect-only", "-p", "no:cacheprovider", *probe.FILES]
    done = on_a_bare_machine(f"import pytest; sys.exit(pytest.main({asked!r}))")

    assert 0 == done.returncode, done.stdout[-2000:]


# -- running --


def test_a_part_that_was_stopped_goes_on_where_it_was(bench: Bench) -> None:
    """A cell is kept as soon as it is measured, and is not measured again; the stop itself loses only its own cell."""
    measured: list[str] = []

    def stopped(_: Bench) -> Figures:
        measured.append("stopped")
        if len(measured) == 2:
            raise KeyboardInterrupt
        return {}

    part = part_of(lambda _: measured.append("first") or {"figure": 1}, stopped)
    assert NOT_RUN == state(part, bench)
    with pytest.raises(KeyboardInterrupt):
        run(part, bench)
    assert (OPEN, {"0": {"figure": 1}}) == (state(part, bench), bench.known("made-up"))
    run(part, bench)

    assert DONE == state(part, bench)
    assert ["first", "stopped", "stopped"] == measured


def test_a_cell_that_fails_stops_no_other_and_is_tried_again(bench: Bench) -> None:
    """Its traceback is kept, the part is failed, and the next run of the part measures that cell alone."""
    tries: list[int] = []

    def fails_once(_: Bench) -> Figures:
        tries.append(1)
        return {"figure": 1 / (len(tries) - 1)}

    part = part_of(fails_once, lambda _: {"figure": 2})
    run(part, bench)
    kept = json.loads((bench.out / "gpu-made-up.json").read_text())
    assert (FAILED, {"1": {"figure": 2}}) == (state(part, bench), bench.known("made-up"))
    assert "ZeroDivisionError" in kept["cells"]["0"]["failed"]
    run(part, bench)

    assert (DONE, {"0": {"figure": 1.0}, "1": {"figure": 2}}) == (state(part, bench), bench.known("made-up"))


def test_a_cell_that_needs_another_one_stays_open(bench: Bench) -> None:
    """To ask for something too early is no failure."""

    def too_early(_: Bench) -> Figures:
        raise NotYet("it needs another cell")

    part = part_of(too_early, lambda _: {})
    run(part, bench)

    assert OPEN == state(part, bench)


def test_a_cell_that_does_not_fit_is_left_for_the_next_call(bench: Bench) -> None:
    """A call of ten minutes begins nothing that would be cut off."""
    late = Bench(scale=REAL, out=bench.out, deadline=time.monotonic() + 60)
    part = part_of(lambda _: {}, minutes=2.0)
    run(part, late)

    assert NOT_RUN == state(part, late)


def test_a_call_may_measure_a_few_cells_of_each_part(bench: Bench) -> None:
    """A short loan shows more by one cell of many parts than by all cells of one."""
    part = part_of(lambda _: {}, lambda _: {}, lambda _: {})
    few = replace(bench, cells=1)
    for known in (["0"], ["0", "1"]):
        run(part, few)
        assert known == list(bench.known("made-up"))


def test_figures_of_two_devices_do_not_mix(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file names one machine, so that figures of another one would be taken for its own."""
    part = part_of(lambda _: {}, lambda _: {})
    run(part, bench)
    other = replace(this_machine(), gpu="NVIDIA H200", gpu_memory=2**37)
    monkeypatch.setattr(running, "this_machine", lambda: other)

    with pytest.raises(OtherFigures, match="holds figures of a CPU, and here is NVIDIA H200; name another folder"):
        run(part, bench)


def test_dry_figures_do_not_mix_with_real_ones(bench: Bench) -> None:
    """A folder with a dry run takes no real one, and a dry run must say where it writes."""
    part = part_of(lambda _: {}, lambda _: {})
    run(part, bench)

    with pytest.raises(OtherFigures, match="figures of a dry run"):
        run(part, Bench(scale=REAL, out=bench.out))
    with pytest.raises(SystemExit):
        main(["--dry"])


@pytest.mark.parametrize(
    ("measured", "holds"), [({"ratio": 1.6}, True), ({"ratio": 1.4}, False), ({"other": 1}, None)], ids=str
)
def test_a_figure_that_misses_its_goal_is_told(measured: Figures, holds: bool | None, bench: Bench) -> None:
    """The file of a part says whether each goal holds; one whose figure is missing is not known, and never reached."""
    goal = Goal(asked="gain", wanted="1.5", value=lambda cells: cells["0"]["ratio"], holds=lambda ratio: ratio >= 1.5)
    part = part_of(lambda _: measured, goals=(goal,))
    run(part, bench)
    kept = json.loads((bench.out / "gpu-made-up.json").read_text())

    assert [{"asked": "gain", "measured": measured.get("ratio"), "wanted": "1.5", "holds": holds}] == kept["goals"]
    assert {"machine", "versions", "date", "commit", "scale", "state", "seconds", "cells", "goals"} <= kept.keys()


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    """`python -m bench.gpu nosuch` says which parts there are."""
    assert 2 == main(["nosuch", "--out", str(tmp_path)])
    assert "no such part: nosuch; there are tests, probe, " in capsys.readouterr().err


# -- single parts --


def test_a_limit_of_device_memory_is_a_workload() -> None:
    """Any number of GiB can be asked for by name, as a parameter file does."""
    assert 24.0 == load_workload(within(24)).limit_gib
    assert 12.5 == load_workload(within(12.5)).limit_gib
    with pytest.raises(AttributeError):
        load_workload("bench.gpu.workloads:WithinSomeGiB")


def test_memory_is_fitted_by_sizes() -> None:
    """Peaks that are made of parameters and tokens are found without error; one that is not stands out."""
    parameters, each = 10**8, 5e5

    def peak(tokens: int, more: float = 1.0) -> Figures:
        allocated = more * (parameters * memory.BYTES_OF_A_WEIGHT + each * tokens)
        return {
            "memory": {"allocated": allocated},
            "parameters": parameters,
            "tokens": tokens,
            "checkpointing": False,
        }

    cells = {str(t): peak(t) for t in (1024, 2048, 4096)}
    rows = memory.fitted(cells)
    odd = memory.fitted(cells | {"odd": peak(8192, more=1.5)})

    assert [0.0] * 3 == pytest.approx([row["error"] for row in rows], abs=1e-9)
    assert each == pytest.approx(rows[0]["bytes_a_token"])
    assert max(abs(row["error"]) for row in odd) > 0.1
    with pytest.raises(ValueError, match="no device memory"):
        memory.fitted({"cpu": {"memory": {"allocated": None}, "checkpointing": False}})


@pytest.mark.parametrize(
    ("first", "low", "high", "right"),
    [
        ("tf32", 1.9, 2.1, 1),
        ("precision", 1.9, 2.1, 0),  # another cause
        ("tf32", 2.8, 3.2, 0),  # another size
    ],
)
def test_a_cause_is_right_if_it_is_named_with_its_size(first: str, low: float, high: float, right: int) -> None:
    """The name alone is not enough, and a cause whose size is not known yet is not counted."""
    causes = [{"name": first, "ratio": (low * high) ** 0.5, "low": low, "high": high}]
    found = {"first": first, "expected": "tf32", "causes": causes, "failed": {}, "decided": 1}
    size = {"ratio": 2.0, "low": 1.95, "high": 2.05, "pairs": 2}

    assert right == planted._right(["no_tf32"], {"no_tf32, diagnosed": found, "no_tf32, size": size})


# -- dry --


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all dry runs: some parts need what others measured."""
    return tmp_path_factory.mktemp("dry")


OF_A_DEVICE = ("memory", "telemetry")
"""The parts with goals that nothing but a device can tell."""


@pytest.mark.trials
@pytest.mark.exhaustive
@pytest.mark.parametrize("part", parts(DRY), ids=lambda part: part.name)
def test_a_part_runs_dry_to_its_end(part: Part, dry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell has figures, each goal is judged or not known, and no file names a folder of this machine."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'lib'}:{ROOT}")
    needed = [p for p in parts(DRY) if p.name in part.room and p.name != part.name and p.name.startswith("job-")]
    status = main([*(p.name for p in needed[:1] if part.name == "job-trained"), part.name, "--dry", "--out", str(dry)])
    text = (dry / f"gpu-{part.name}.json").read_text()
    kept: dict[str, Any] = json.loads(text)

    assert [] == [cell["failed"] for cell in kept["cells"].values() if "failed" in cell]
    assert (0, DONE) == (status, kept["state"])
    assert {cell.name for cell in part.cells} == kept["cells"].keys()
    assert [goal.asked for goal in part.goals] == [goal["asked"] for goal in kept["goals"]]
    if not part.room and part.name not in OF_A_DEVICE:
        assert [] == [goal["asked"] for goal in kept["goals"] if goal["measured"] is None]
    assert str(dry) not in text
    assert str(ROOT) not in text
