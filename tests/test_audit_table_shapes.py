"""Tables whose rows are no runs: phases in lines, rows and columns of changes, cells of both ends of a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.read import read_file
from slowstep.audit.terminal_lines import compared
from slowstep.settings import SettingsError
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
        with pytest.raises(SettingsError, match="no column holds a figure"):
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


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (("412,5", "1.077,6"), (412.5, 1077.6)),
        (("1.412", "77,6 "), (1412, 77.6)),
        (("0,412", "1,234"), (0.412, 1.234)),
        (("412,5 ± 3,1", "2.048,25"), (412.5, 2048.25)),
    ],
)
def test_commas_are_decimal_points_where_one_can_be_nothing_else(cells: tuple[str, str], read: tuple) -> None:
    """In a table whose cells no commas part. Points part thousands there."""
    lines = [["run", "s/it", "images/s"], ["a", *cells]]
    tables = ["".join(f"{sign.join(line)}\n" for line in lines) for sign in (";", "\t")]
    drawn = "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], ["---"] * 3, lines[1]))
    turned = f"| run | a |\n|---|---|\n| s/it | {cells[0]} |\n| images/s | **{cells[1]}** |\n"
    for table in (*tables, drawn, turned):
        (run,) = report(table).runs

        assert read == (pytest.approx(run.given["seconds_per_step"].middle), run.given["samples_per_second"].middle)


def test_a_list_of_devices_is_no_number_with_a_decimal_comma() -> None:
    """Else thousands beside it would be a thousandth."""
    for header in ("CUDA devices", "GPUs"):
        table = f"| run | {header} | tok/s |\n|---|---|---|\n| a | 0,1 | 12,480 |\n| b | 2,3 | 9,970 |\n"
        found = _read_or_refused(table)

        assert found is None or [12480, 9970] == [run.given["tokens_per_second"].middle for run in found.runs]


def _read_or_refused(table: str) -> Audit | None:
    try:
        return report(table)
    except SettingsError:
        return None


@pytest.mark.parametrize(
    "cells", [("1,234", "2,345"), ("412,5", "77.6"), ("412,5", "0.776"), ("412,5", "1,234.5"), ("412,5", "1,234,567")]
)
def test_a_comma_that_could_part_thousands_is_asked_about(cells: tuple[str, str]) -> None:
    """Also where another number has a decimal point."""
    with pytest.raises(SettingsError, match="is the comma a decimal point"):
        report(f"run;s/it;images/s\na;{cells[0]};{cells[1]}\n")


@pytest.mark.parametrize(
    ("header", "cells", "why"),
    [
        ("epoch time", ("18:04", "13:06"), "minutes and seconds, or hours and minutes"),
        ("GPU util", ("~55%", ">95%"), "expected a number, found '>95%'"),
        ("train_step_time", ("315", "200"), "in what unit"),
        ("s/step", ("0.3", "slow"), "expected a number, found 'slow'"),
    ],
)
def test_a_column_with_a_cell_that_is_unclear_is_left_out_beside_a_speed(header: str, cells: tuple, why: str) -> None:
    """It is asked about once. Without another speed the table is refused."""
    for speed in ("images/s,301.5", "speed,301.5 img/s", "train_images_per_sec,301.5"):
        name, cell = speed.split(",")
        found = report(f"run,{header},{name}\na,{cells[0]},{cell}\nb,{cells[1]},{cell}\n")
        asked = [question for question in found.questions if f"'{header}'" in question or f" {header}" in question]

        assert [301.5] * 2 == [run.given["samples_per_second"].middle for run in found.runs]
        assert [True] == [f"'{header}' is left out" in question and why in question for question in asked]
    with pytest.raises(SettingsError):
        report(f"run,{header},loss\na,{cells[0]},3\nb,{cells[1]},3\n")


def test_a_step_or_an_epoch_that_takes_a_time_is_one_of_so_many_seconds() -> None:
    """The unit in each cell tells, and a number of epochs has none."""
    found = report("run,epoch,time to train,step\na,11m 08s,14h 20m,300 ms\nb,6m 29s,4h 05m,0.2 s\n")

    assert [668, 389] == [run.given["seconds_per_epoch"].middle for run in found.runs]
    assert {"a": 0.3, "b": 0.2} == seconds(found)
    assert [51600, 14700] == [run.given["seconds"].middle for run in found.runs]
    with pytest.raises(SettingsError, match="the seconds of an epoch"):
        report("run,epoch\na,3\nb,4\n")


@pytest.mark.parametrize(
    "header", ["optim,run 1 (s/it),run 2 (s/it)", "optim,s/it (seed 0),s/it (seed 1)", "run,s/it run 1,s/it run 2"]
)
def test_a_column_for_each_repeat_makes_repeats(header: str) -> None:
    """Which stand in rows of one name elsewhere."""
    found = report(f"{header}\nadamw,1.02,1.08\nfused,1.00,1.05\n")

    assert [("adamw", [1.02, 1.08]), ("fused", [1.0, 1.05])] == [
        (run.label, run.repeats["seconds_per_step"]) for run in found.runs
    ]


def test_a_column_for_each_device_is_no_repeat() -> None:
    """Two speeds in a row stay a question."""
    with pytest.raises(SettingsError, match="has s/step twice"):
        report("run,s/it,step (s)\na,1.02,0.61\n")


def test_parts_of_a_run_are_no_runs() -> None:
    """A profiler prints how often each was called; a table of runs beside it is read."""
    parts = "| Action | Num calls | Total time (s) |\n|---|---|---|\n| batch | 1500 | 177.0 |\n| val | 150 | 0.3 |\n"

    with pytest.raises(SettingsError, match="its rows are parts of a run"):
        report(parts)
    assert ["a"] == [run.label for run in report(f"{parts}\n| run | s/it |\n|---|---|\n| a | 0.1 |\n").runs]


def test_an_arrow_between_dates_is_no_change() -> None:
    table = "| run | period | s/it |\n|---|---|---|\n| a | 2024-01-01 → 2024-01-03 | 2.1 |\n"

    assert ["a"] == [run.label for run in report(table).runs]


def test_phases_alone_are_read_and_compared_by_nothing() -> None:
    """In columns and in lines. A step may do more than they say, and which is what is asked."""
    rows = "run,data (ms),forward (ms),memory (GB)\na,12,91,3\nb,250,91,4\n"
    lines = "| phase | a (ms) | b (ms) |\n|---|---|---|\n| data | 12 | 250 |\n| forward | 91 | 91 |\n"
    for table in (rows, lines):
        found = report(table)

        assert [("a", 0.012), ("b", 0.25)] == [(run.label, run.phases["data"].middle) for run in found.runs]
        assert any("How long is a whole step of 'a' and 'b'?" in question for question in found.questions)
        assert [] == compared(found)


ALIGNED = {
    "pandas": "                run  batch_size  sec_per_it\n0          baseline          16       0.412\n"
    "1               amp          16       0.268\n",
    "columns": "config        step(ms)   tok/s\n------------------------------\nbaseline      412        39741\n"
    "amp           268        48347\n",
    "bars": "config|batch|s/it\nbaseline|16|0.412\namp|16|0.268\n",
    "jira": "||Config||Step time (ms)||Images/s||\n|baseline|412|604|\n|amp|268|785|\n",
    "rst": "We measured:\n\n=========  ======  =========\nConfig     Batch   s/iter\n=========  ======  =========\n"
    "baseline   32      0.412\namp        32      0.268\n=========  ======  =========\n",
}


@pytest.mark.parametrize("name", ALIGNED)
def test_a_table_of_aligned_columns_is_read_where_a_text_is_no_log(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ALIGNED[name])
    found = audit(validate({"name": "own", "reported": {"files": [str(tmp_path / "t.txt")]}}, "own"))

    assert {"baseline": 0.412, "amp": 0.268} == seconds(found)


@pytest.mark.parametrize(
    "text", ["a  b\nc  d\n", "the loss  fell\nstep 1  2.3\nstep 2  2.2\n", "x\n", "run  s/it\na  fast\n"]
)
def test_another_text_stays_refused_as_a_log(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(text)

    with pytest.raises(SettingsError, match="no bar of tqdm"):
        audit(validate({"name": "own", "reported": {"files": [str(tmp_path / "t.txt")]}}, "own"))


@pytest.mark.parametrize(
    ("said", "asked"),
    [("151.5", False), ("150", False), ("141.7", True)],
    ids=["all work", "rounded", "mean of speeds"],
)
def test_the_speed_of_all_runs_is_all_their_work_in_all_their_time(said: str, asked: bool) -> None:
    """The mean of their speeds is none, where the slower one takes longer than its share."""
    rows = "short texts,900000,60,250\nlong texts,100000,50,33.3\n"
    table = f"dataset,samples,time per epoch (min),samples/s\n{rows}overall,1000000,110,{said}\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert 2 == len(found.runs)
    assert asked is any("all the work of the other rows in all their time is 151.5" in text for text in found.questions)


@pytest.mark.parametrize("divider", ["|----+----+------|", "-----+----+------", "|----|----|------|"])
@pytest.mark.parametrize("name", ["t.org", "t.rst", "t.txt", "t.md"])
def test_columns_may_be_parted_by_plus_signs_below_the_header(divider: str, name: str, tmp_path: Path) -> None:
    """As Org and psql write them."""
    bar = "|" if divider.startswith("|") else " "
    rows = "".join(f"{bar} {a} | {b} | {c} {bar}\n" for a, b, c in (("a", 16, "1.84"), ("b", 16, "1.21")))
    (tmp_path / name).write_text(f"{bar} run | bs | s/it {bar}\n{divider}\n{rows}")

    assert ["1.84", "1.21"] == [row["figures"]["seconds_per_step"] for row in read_file(tmp_path / name)]


def test_a_batch_that_is_the_same_in_all_rows_counts_nothing() -> None:
    """So it is the size of a batch."""
    table = "run,batch,s/step,samples/s\na,16,0.412,38.8\nb,16,0.301,53.2\nc,16,0.255,62.7\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert [16, 16, 16] == [run.settings.training("per_device_train_batch_size") for run in found.runs]


FASTAI = (
    "epoch     train_loss  valid_loss  accuracy  time    \n0         0.52        0.31        0.90      {}     \n"
    "1         0.40        0.28        0.91      {}     \n"
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (FASTAI.format("01:12", "01:14"), 74.0),
        ("epoch,loss,time\n1,2.1,0:01:12\n2,1.9,0:01:14\n", 74.0),
        ("epoch,loss,time\n1,2.1,1m 12s\n2,1.9,1m 14s\n", 74.0),
        ("epoch,loss,time,it/s\n1,2.1,0:01:12,4.0\n2,1.9,0:02:26,4.0\n", None),
        ("epoch,loss,time,it/s\n1,2.1,01:12,4.0\n2,1.9,01:14,4.0\n", None),
    ],
    ids=["fastai", "hours", "units", "since the start", "hours or minutes"],
)
def test_the_time_beside_an_epoch_is_its_own_where_it_does_not_grow(
    text: str, seconds: float | None, tmp_path: Path
) -> None:
    """Two parts of a clock are minutes and seconds where fastai wrote them."""
    path = tmp_path / ("t.csv" if "," in text else "t.txt")
    path.write_text(text)
    (run,) = audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own")).runs

    assert seconds == (run.given["seconds_per_epoch"].middle if "seconds_per_epoch" in run.given else None)


def test_a_path_may_say_that_a_speed_is_of_one_device(tmp_path: Path) -> None:
    """Its batches are no steps, since one library counts those of all devices and another one a share of them."""
    rows = "".join(f"{n * 50},1.9{n},60.{n},{n}6.1\n" for n in range(1, 9))
    (tmp_path / "metrics.csv").write_text(f"step,device/batches_per_sec,device/samples_per_sec,time/total\n{rows}")
    (row,) = read_file(tmp_path / "metrics.csv")

    assert ["samples_per_second_per_device"] == [*row["figures"]]
