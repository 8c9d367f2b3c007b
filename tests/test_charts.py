"""Charts and their tables: what stands in them, looked at as data and in the report's own HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import plotly.graph_objects as go
import pytest

from simulated import around, block, contrast, facts, pairs, record
from slowstep.factors import Meaning
from slowstep.investigation.results import Measured
from slowstep.judgement.bounds import Bound
from slowstep.judgement.comparison import result_of
from slowstep.judgement.intervals import Interval
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.throughput import throughput
from slowstep.records import PHASES, Block, Operator, ProfileRecord, Status, TrialRecord
from slowstep.report import Chart, arms, bounds, intervals, lost_time, matrix, operators, rank_times, remaining
from slowstep.report.arm_charts import NOTHING_MEASURED
from slowstep.report.baseline_charts import PHASE_COLOURS
from slowstep.report.baseline_tables import NOTHING_LOST
from slowstep.report.baseline_tables import facts as table_of_facts
from slowstep.report.chart import Table, text_on
from slowstep.report.chart import contrast as contrast_of
from slowstep.report.html import render
from slowstep.settings import Settings
from slowstep_probe.measured import Memory, OfRank, Telemetry

UNLIKE = [{"rank": "0", "forward": "50 %", "memory": "1 GiB"}, {"rank": "1", "saving": "7 %", "memory": "2 GiB"}]
"""Rows of different keys."""

READABLE = 4.5
"""The least contrast of text with its ground (WCAG 2.2, AA)."""


@pytest.fixture
def measured(quick: Settings) -> Callable[..., Measured]:
    """A change that was measured: `measured(0.2, optim="sgd")` brings 20 %."""

    def make(gain: float, family: str = "", **levels: object) -> Measured:
        made = contrast(quick, **levels)
        found = record(pairs(around(gain)), observed=made.expects)
        verdict = judge(before_trial(made, None, 0.05, None), made, found, 0.05, "cuda")
        return Measured(contrast=made, verdict=verdict, record=found, family=family)

    return make


def baseline_of(blocks: list[Block]) -> Any:
    """A baseline of these blocks, as far as charts ask it."""
    trial = TrialRecord(arm="baseline", status=Status.OK)
    facts = SimpleNamespace(blocks=blocks, throughput=throughput(blocks))
    return SimpleNamespace(facts=facts, record=SimpleNamespace(baseline=trial))


# -- tables --


def test_a_charts_figures_stand_under_their_headings(tmp_path: Path) -> None:
    """Also where rows lack some, and in the order of the chart, though a notebook sorts the keys of what it keeps."""
    chart = Chart(go.Figure(), "A chart.", UNLIKE)._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("display_data", chart)])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "own.ipynb")
    render(tmp_path / "own.ipynb", tmp_path / "own.html", "own", "own", interactive=False)
    html = (tmp_path / "own.html").read_text(encoding="utf-8").replace("&nbsp;", " ")
    rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]

    assert rows[0] == ["rank", "forward", "memory", "saving"]
    assert rows[1:] == [["0", "50 %", "1 GiB", ""], ["1", "", "2 GiB", "7 %"]]


def test_a_table_as_markdown_has_its_figures_under_their_headings() -> None:
    assert Table(UNLIKE).markdown.splitlines() == [
        "| rank | forward | memory | saving |",
        "|---|---|---|---|",
        "| 0 | 50 % | 1 GiB |  |",
        "| 1 |  | 2 GiB | 7 % |",
    ]


def test_fast_steps_are_told_apart() -> None:
    """3.6 ms and 4.4 ms a step are not the same 0.004 s."""
    shown = [arms(baseline_of([block([seconds] * 5)]), []).rows[0]["s/step"] for seconds in (0.0036, 0.0044, 1.044)]

    assert shown == ["0.0036", "0.0044", "1.04"]


@pytest.mark.parametrize(
    ("data", "said"),
    [((0.53, 0.0, 0.72), "Nothing is certain from these blocks: data wait takes 53 % [0.0, 72]."), ((0.01,) * 3, "")],
)
def test_a_large_share_that_is_not_certain_is_not_hidden(data: tuple[float, float, float], said: str) -> None:
    """Where a phase may take half of the time, nobody is told that nothing stands out."""
    small = SimpleNamespace(mean=0.0, lower=0.0, upper=0.0)
    span = SimpleNamespace(**dict(zip(("mean", "lower", "upper"), data, strict=True)))
    facts = SimpleNamespace(shares=dict.fromkeys(PHASES, small) | {"data": span})
    profiled, unprofiled = (SimpleNamespace(facts=facts, unprofiled=why) for why in ("", "no time was left for it"))

    assert lost_time([], profiled, 0.05).empty == (said or NOTHING_LOST)
    assert "The run was not profiled, so time" in lost_time([], unprofiled, 0.05).empty


def test_the_adopted_run_is_not_said_to_lose_nothing_where_that_is_not_certain() -> None:
    """Its few steps decide no more than the baseline's do, and could miss what comes rarely."""
    share = Interval(mean=0.15, lower=0.02, upper=0.33, p=1.0, n=12)
    missed = "a stall rarer than one in 17 steps could have been missed"
    few = Remaining(overrides={}, ratio=1.3, looked_at=list(PHASES), missed=missed)
    wait = Suspect(phase="data", share=share, why="it trains nothing")

    assert remaining(few).empty == f"{NOTHING_LOST} A stall rarer than one in 17 steps could have been missed."
    assert "Data wait takes 15 % [2.0, 33]" in remaining(replace(few, perhaps=[wait])).empty


@pytest.mark.parametrize(
    ("by_turns", "others", "told"),
    [(True, 0, True), (False, 0, False), (True, 1, False), (True, None, False)],
    ids=["alone", "beside the other arm", "beside another process", "not known"],
)
def test_memory_in_use_on_a_device_is_told_of_a_trial_that_had_it_alone(
    by_turns: bool, others: int | None, told: bool
) -> None:
    """The device counts what all processes hold there, and a run that takes 26 GiB needs no card of 52."""
    measured = record(pairs(around(0.0)), by_turns=by_turns)
    seen = [replace(p, baseline=replace(p.baseline, telemetry=Telemetry(others=others))) for p in measured.pairs]
    held = replace(measured.baseline, memory=Memory(reserved=25 << 30, device=52 << 30))
    baseline = SimpleNamespace(
        facts=facts(),
        reading=result_of(seen),
        record=replace(measured, pairs=seen, baseline=held),
        fails="",
        noise=None,
        block_length=None,
        peak=None,
        mfu=None,
    )
    shown = {row["figure"]: row["value"] for row in table_of_facts(baseline).rows}

    assert told is ("52.00 GiB" == shown.get("device memory in use"))
    assert "25.00 GiB" == shown["peak memory reserved"]


# -- arms --


def test_what_was_measured_again_is_not_called_confirmed(measured: Callable[..., Measured]) -> None:
    """Fresh pairs may refute what was found: the row says only that they are fresh, and the description is theirs. A
    change counts once."""
    found = measured(0.2, gradient_checkpointing=False)
    again = {
        outcome: replace(measured(gain, "final", gradient_checkpointing=False), contrast=found.contrast)
        for outcome, gain in (("supported", 0.19), ("refuted", 0.0))
    }
    doubtful = replace(again["supported"].verdict, outcome=again["refuted"].verdict.outcome.INCONCLUSIVE, effect=None)
    again["inconclusive"] = replace(again["supported"], verdict=doubtful)
    charts = {outcome: intervals([found, one], 0.05) for outcome, one in again.items()}

    for outcome, chart in charts.items():
        (row,) = [row for row in chart.rows if row["arm"] == "gradient_checkpointing=false, in fresh pairs"]
        assert row["verdict"].endswith(outcome)
        assert "confirmed" not in str(chart.rows)
        assert "changes here" not in chart.description
    assert "in fresh pairs brings +19 %" in charts["supported"].description
    for outcome in ("refuted", "inconclusive"):  # what fresh pairs did not confirm is no finding
        assert charts[outcome].description == "No change here was shown to bring +5 % useful tokens/s or more."


def test_changes_of_which_none_was_measured_are_a_sentence(measured: Callable[..., Measured]) -> None:
    """No empty chart is drawn, and none in a unit that nobody measured."""
    late = measured(0.2, optim="sgd")
    late = replace(late, verdict=replace(late.verdict, effect=None, status=None), record=None)

    assert repr(intervals([late], 0.05)) == NOTHING_MEASURED


def test_a_limit_far_beyond_the_changes_says_so_in_its_row(measured: Callable[..., Measured]) -> None:
    """The axis shows the changes; a limit near them is drawn, and one far away leaves no piece of an interval."""
    change, limit = measured(0.2, optim="sgd"), measured(0.5, gradient_checkpointing=False)
    limit = replace(limit, verdict=replace(limit.verdict, meaning=Meaning.DIAGNOSTIC))
    far = replace(limit, verdict=replace(limit.verdict, effect=measured(1.5, optim="sgd").verdict.effect))

    def drawn(*found: Measured) -> tuple[int, list[str]]:
        traces = intervals(found, 0.05).json["data"]
        points = sum(len(trace["x"]) for trace in traces if trace["mode"] == "markers")
        return points, [text for trace in traces for text in trace.get("text") or ()]

    assert drawn(change, limit) == (2, [])
    assert drawn(change, far) == (1, ["beyond this axis →"])


def cells_of(chart: Chart) -> list[str]:
    """The texts in the cells of a matrix."""
    return [text for trace in chart.json["data"] for text in trace["text"]]


def test_the_cells_of_a_matrix_say_how_fast_in_which_unit(measured: Callable[..., Measured]) -> None:
    """A step of 8 s trains one sample: that is 0.12 samples/s, and not 0/s."""
    change, crossed = measured(1.0, gradient_checkpointing=False), ("gradient_checkpointing", "optim")
    slow, fast = block([8.0] * 5, samples=1, tokens=None), block([1.0] * 5)
    by_samples, by_tokens = (matrix([change], *crossed, baseline_of([one] * 3)) for one in (slow, fast))

    assert {"baseline<br>0.12<br>samples/s", "+100 % [+97, +103]<br>0.25<br>samples/s"} == set(cells_of(by_samples))
    assert "baseline, 0.12 samples/s" in [row["change, and samples/s"] for row in by_samples.rows]
    assert "samples/s" in by_samples.description
    assert "baseline<br>800<br>tokens/s" in cells_of(by_tokens)
    assert "useful tokens/s" in by_tokens.description


def test_a_matrix_of_nothing_is_a_sentence() -> None:
    """No empty grid is drawn where no combination was measured."""
    found = matrix([], "gradient_checkpointing", "per_device_train_batch_size", baseline_of([block([1.0] * 5)]))

    assert repr(found) == "No combination was measured."


# -- bars --


def test_a_bound_below_nothing_has_no_bar(measured: Callable[..., Measured]) -> None:
    """A bar to the left of 0 would lie over the name of its row; the label says how far below it is."""
    verdict = replace(measured(0.2, optim="sgd").verdict, bound=Bound(ratio=0.9, why="it costs more than it saves"))
    drawn = [
        (x, text)
        for trace in bounds([verdict], 0.05).json["data"]
        for x, text in zip(trace["x"], trace["text"], strict=True)
    ]

    assert drawn == [(0.0, "-10 %")]
    assert bounds([verdict], 0.05).description == "0 of 1 changes with a bound could bring as much as counts (+5 %)."


@pytest.mark.parametrize("colour", PHASE_COLOURS)
def test_text_on_a_bar_can_be_read(colour: str) -> None:
    assert contrast_of(text_on(colour), colour) >= READABLE


def test_names_of_phases_stand_inside_the_bars_of_ranks() -> None:
    """Text beside a part of a stacked bar would be painted over by the next part."""
    phases: Mapping[str, float] = {"data": 0.2, "forward": 0.3, "backward": 0.4, "communication": 0.1}
    ranks = [OfRank(seconds=1.0, phases=dict(phases)) for _ in range(2)]
    drawn = rank_times(baseline_of([replace(block([0.2] * 5), ranks=ranks)] * 3)).json["data"]

    assert len(drawn) == len(phases)
    assert {trace["textposition"] for trace in drawn} == {"inside"}
    assert min(contrast_of(t["textfont"]["color"], t["marker"]["color"]) for t in drawn) >= READABLE


def test_kernels_with_long_names_keep_their_own_rows() -> None:
    """Signatures of C++ may differ in their middle alone, where they are shortened."""
    names = [f"void at::native::vectorized_elementwise_kernel<4, {middle}, std::array<char*, 3ul> >" for middle in "ab"]
    profile = ProfileRecord(
        device="cuda",
        steps=1,
        seconds=1.0,
        operators=[Operator(name=n, calls=1, seconds=s) for n, s in zip(names, (0.2, 0.1), strict=True)],
        idle=0.0,
        gaps_per_step=0,
        gap_seconds=0.0,
        trace="",
    )
    chart = operators({"baseline": profile})
    (trace,) = chart.json["data"]

    assert len(set(trace["y"])) == len(names)
    assert trace["x"] == [200.0, 100.0]
    assert [row["operator"] for row in chart.rows] == names
