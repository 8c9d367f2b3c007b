"""Tables whose rows are no runs: phases in lines, rows and columns of changes, cells of both ends of a change."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.settings.load import validate


def report(table: str) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table}}, "own"))


def faults(found: Audit) -> list[str]:
    return [f"{f.where}: {f.text}" for f in found.findings if f.kind is FindingKind.ARITHMETIC]


def seconds(found: Audit) -> dict[str, float]:
    return {run.label: pytest.approx(run.given["seconds_per_step"].middle) for run in found.runs}


PHASES = """| {} | {} | {} | {} |
|---|---|---|---|
| Data loading | 142.3 | 4.1 | -97% |
| Forward | 88.2 | 87.9 | 0% |
| Backward pass | 171.5 | 172.0 | 0% |
| Optimizer step | 31.0 | 12.4 | -60% |
| **Total** | **442.8** | **286.0** | **{}** |
"""


@pytest.mark.parametrize(
    "headers",
    [
        ("Phase", "old (ms)", "new (ms)", "Change"),
        ("Phase (ms)", "old", "new", "Δ"),
        ("", "old [ms]", "new [ms]", "diff"),
    ],
)
def test_phases_in_lines_are_those_of_a_run_in_each_column(headers: tuple[str, ...]) -> None:
    """Their sum is the step, and the change that the line of the sum states is held against it."""
    found = report(PHASES.format(*headers, "-35%"))

    assert {"old": 0.4428, "new": 0.286} == seconds(found)
    assert [["backward", "data", "forward", "optimizer"]] * 2 == [sorted(run.phases) for run in found.runs]
    assert [] == faults(found)
    assert ["new: the time is said to fall by 55 %"] == [
        text.partition(",")[0] for text in faults(report(PHASES.format(*headers, "-55%")))
    ]


def test_shares_of_a_step_beside_its_phases_are_no_run() -> None:
    """A profile of one run has a column of times and one of their shares; a unit may stand in each cell."""
    lines = (
        "| data | 142.3 ms | 44 % |\n| fwd | 88.2 ms | 27 % |\n| bwd | 94.0 ms | 29 % |\n| total | 324.5 ms | 100 % |\n"
    )
    (run,) = report(f"| phase | time | % of step |\n|---|---|---|\n{lines}").runs

    assert 0.3245 == pytest.approx(run.given["seconds_per_step"].middle)
    assert 0.1423 == pytest.approx(run.phases["data"].middle)


def test_phases_of_other_units_stay_unread() -> None:
    """Lines of which some are called alike are no phases of one step, and neither is one phase alone."""
    for lines in ("| forward | 2 | 3 |\n| forward | 2 | 3 |\n", "| forward | 2 | 3 |\n| loss | 2 | 3 |\n"):
        with pytest.raises(Exception, match="no column holds a figure"):
            report(f"| phase | a (ms) | b (ms) |\n|---|---|---|\n{lines}")


CHANGES = """| | step (ms) | images/s | mem (GB) |
|---|---|---|---|
| old | 212.4 | 301.3 | 18 |
| new | 143.9 | 444.8 | 14 |
"""


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| Change | -32% | +48% | -23% |", []),
        ("| Speedup | 1.48x faster | 1.48x | - |", []),
        ("| Δ | ↓ -32 % | ↑ +48 % | |", []),
        ("| Improvement | -48% | +48% | -23% |", ["said to fall by 48 %", "48 % is how much faster it is"]),
        ("| Change | -32% | +32% | -23% |", ["given as 1.32, and by samples/s it is 1.48 times"]),
    ],
)
def test_a_row_of_changes_is_no_run_and_is_held_against_the_two_above(row: str, found: list[str]) -> None:
    told = report(CHANGES + row)

    assert ["old", "new"] == [run.label for run in told.runs]
    assert len(faults(told)) == bool(found)
    assert all(words in text for text in faults(told) for words in found)


def test_a_row_that_measured_shares_is_a_run() -> None:
    """Whatever it is called: the row above measured them, too."""
    rows = "| base | 2.0 | 41 % |\n| improved | 1.5 | 52 % |\n"

    assert ["base", "improved"] == [run.label for run in report(f"| run | s/step | MFU |\n|---|---|---|\n{rows}").runs]


TURNED = """| Metric | Baseline | Optimized | Improvement |
|---|---|---|---|
| Step time (ms) | 850 | 520 | {} |
| Throughput (samples/s) | 75.3 | 123.1 | {} |
| GPU utilization | 62% | 91% | +29pp |
| Cost per epoch | $4.12 | $2.52 | -39% |
"""


@pytest.mark.parametrize(("cells", "count"), [(("1.63x faster", "+63%"), 0), (("-39%", "+39%"), 1), (("-63%", "-"), 1)])
def test_a_column_of_changes_beside_runs_in_columns_is_none(cells: tuple[str, str], count: int) -> None:
    found = report(TURNED.format(*cells))

    assert {"Baseline": 0.85, "Optimized": 0.52} == seconds(found)
    assert count == len(faults(found))


@pytest.mark.parametrize("arrow", ["→", "->", "=>", " → "])
def test_both_ends_of_a_change_are_a_row_each(arrow: str) -> None:
    """The unit may stand behind the second alone."""
    found = report(
        f"| model | step time | throughput |\n|---|---|---|\n| small | 212{arrow}178 ms | 77.3k{arrow}92.0k tok/s |\n"
    )

    assert {"small (before)": 0.212, "small (after)": 0.178} == seconds(found)
    assert [77300, 92000] == [pytest.approx(run.given["tokens_per_second"].middle) for run in found.runs]


def test_rows_are_called_by_the_words_of_the_first_columns() -> None:
    """Where no column names them, and these words are others in each row."""
    table = (
        "| Model | Method | s/step |\n|---|---|---|\n| 7B | DDP | 1.92 |\n| 7B | FSDP | 1.71 |\n| 13B | DDP | 3.80 |\n"
    )
    repeats = "| Method | s/step |\n|---|---|\n| DDP | 1.92 |\n| DDP | 1.90 |\n"

    assert ["7B DDP", "7B FSDP", "13B DDP"] == [run.label for run in report(table).runs]
    assert ["row 1", "row 2"] == [run.label for run in report(repeats).runs]
