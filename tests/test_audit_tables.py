"""Tables of many rows, of a run's course, and with columns whose meaning nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.read import read_table
from slowstep.audit.read.tables import table_rows
from slowstep.audit.terminal_lines import claim_lines
from slowstep.settings.load import validate


def report(table: str, *claims: dict) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table, "claims": list(claims)}}, "own"))


def claim(factor: str | None = None, speed_up: str = "2.5") -> dict:
    return {"text": "b is faster", "baseline": "a", "treatment": "b", "factor": factor, "speed_up": speed_up}


# -- the course of a run --


def test_a_history_of_steps_is_one_run(tmp_path: Path) -> None:
    """However long it is; the median of its later half counts, and epochs and the learning rate tell no runs apart."""
    path = tmp_path / "train.csv"
    steps = "".join(f"{i},{i / 100},{0.1 / (i + 1):.6f},{9000 if i < 999 else 4000 + i % 3}\n" for i in range(20_000))
    path.write_text("step,epoch,learning_rate,tokens/s\n" + steps)
    (row,) = read_table(path)

    assert ("train", {"tokens_per_second": "4001"}, {}) == (row["label"], row["figures"], row["settings"])


def test_steps_of_one_run_are_no_repeats() -> None:
    """Their spread says nothing about noise; a run that begins anew is measured again."""
    lines = "\n".join(f"{run},{i},8,{pace + i % 2 / 100:.2f}" for run, pace in (("a", 2), ("b", 1)) for i in range(40))
    header = "run,step,per_device_train_batch_size,s/it\n"
    once, rows = (
        [(r["label"], r["figures"]) for r in table_rows(header + text, "t")] for text in (lines, f"{lines}\n{lines}")
    )

    assert [("a", {"seconds_per_step": ["2.01", "2.01"]}), ("b", {"seconds_per_step": ["1.01", "1.01"]})] == rows
    assert [("a", {"seconds_per_step": "2.01"}), ("b", {"seconds_per_step": "1.01"})] == once


def test_rows_of_a_history_need_not_hold_every_figure() -> None:
    """A time that grows counts as its end, and a line of evaluation has no speed."""
    table = "global_step,samples/s,total time (s)\n10,8.0,100\n10,,\n20,8.1,200\n20,,\n30,8.2,300\n30,,310\n"
    (row,) = table_rows(table, "t.csv")

    assert {"samples_per_second": "8.2", "seconds": "310"} == row["figures"]


def test_numbered_measures_are_no_course() -> None:
    """What was changed stands beside the number."""
    table = "step,change,s/it\n1,baseline,2.0\n2,bf16,1.5\n3,compiled,1.2\n"

    assert ["2.0", "1.5", "1.2"] == [row["figures"]["seconds_per_step"] for row in table_rows(table, "t")]


# -- columns of unknown meaning --


@pytest.mark.parametrize(
    ("header", "a", "b"), [("GPU", "A100", "H100"), ("nodes", "1", "2"), ("storage", "NFS", "NVMe")]
)
def test_a_column_nobody_read_confounds_a_claim(header: str, a: str, b: str) -> None:
    """The factor that is blamed may not be the cause; without a factor the difference is told."""
    table = f"| run | {header} | per_device_train_batch_size | s/it |\n|--|--|--|--|\n"
    table += f"| a | {a} | 8 | 2.00 |\n| b | {b} | 16 | 1.60 |\n"
    blamed, told = report(table, claim("per_device_train_batch_size"), claim()).claims

    assert "can't be decided from these figures" == str(blamed.judgement)
    assert f"also differ in {header} ({a}, {b}), which was not read" in blamed.reason
    assert f"also differ in {header} ({a}, {b}), which was not read" in told.reason


def test_a_column_of_results_confounds_nothing() -> None:
    """A loss, a remark or a speed-up is what came out."""
    table = "| run | per_device_train_batch_size | s/it | loss | vs. a | note | peak temp |\n|--|--|--|--|--|--|--|\n"
    table += "| a | 8 | 2.000 | 1.2 | 1x | fine | 71 |\n| b | 16 | 1.600 | 1.1 | 2.5x | hot | 80 |\n"
    (held,) = report(table, claim("per_device_train_batch_size")).claims

    assert "holds" == str(held.judgement)
    assert [] == [f for f in held.findings if f.kind is FindingKind.CONFOUNDED]


def test_merged_cells_hold_for_the_rows_below() -> None:
    """An empty first cell is the one above it."""
    table = "| GPU | per_device_train_batch_size | s/it |\n|--|--|--|\n"
    table += "| A100 | 8 | 2.0 |\n| | 16 | 3.0 |\n| H100 | 8 | 1.0 |\n| | 16 | 1.6 |\n"
    lines = claim_lines(report(table))

    assert ["GPU" in line for line in lines[:3]] == [False, True, True]


@pytest.mark.parametrize("header", ["seq len", "seq_len", "Sequence length", "max_seq_length", "context length"])
def test_the_length_of_a_sample_has_many_names(header: str, tmp_path: Path) -> None:
    """Half the length is no equal work, in a table and in an export."""
    table = f"run,{header},samples/s\na,2048,4.00\nb,512,16.0\n"
    (judged,) = report(table, claim(speed_up="4")).claims
    path = tmp_path / "export.csv"
    path.write_text(
        table.replace("run,", "Name,")
        .replace("samples/s", "train_samples_per_second,State")
        .replace("0\n", "0,finished\n")
    )

    assert [2048, 512] == [row["settings"]["max_length"] for row in read_table(path)]
    assert "can't be decided from these figures" == str(judged.judgement)
