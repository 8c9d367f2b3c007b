"""Tables whose rows stand below headings of their own, and headers that stand over several columns."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.terminal_lines import compared
from slowstep.settings import SettingsError
from slowstep.settings.load import validate

HEADER = "| Method | img/s | Mem (GB) |\n|---|---|---|\n"


def report(table: str) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table}}, "own"))


def speeds(found: Audit) -> dict[str, float]:
    return {run.label: run.given["samples_per_second"].middle for run in found.runs}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("| **A100** | | |", "| **V100** | | |"),
        ("| A100 | | |", "| V100 | | |"),
        ("| **A100** |", "| **V100** |"),
        ("| A100 | A100 | A100 |", "| V100 | V100 | V100 |"),
    ],
)
def test_a_line_of_one_text_heads_the_rows_below_it(first: str, second: str) -> None:
    """Also where its cell spans all columns. Rows of one name below two headings differ in these."""
    rows = "| fp32 | {} | 31 |\n| amp | {} | 20 |\n"
    found = report(f"{HEADER}{first}\n{rows.format(98, 231)}{second}\n{rows.format(52, 139)}")

    assert {"A100 fp32": 98, "A100 amp": 231, "V100 fp32": 52, "V100 amp": 139} == speeds(found)
    assert any("group (A100, V100)" in line for line in compared(found))


def test_a_note_below_the_rows_is_no_run() -> None:
    rows = "| fp32 | 98 | 31 |\n| amp | 231 | 20 |\n"

    assert {"fp32": 98, "amp": 231} == speeds(report(f"{HEADER}{rows}| *All runs: 224 px, 500 steps* | | |\n"))


def test_a_run_without_figures_heads_nothing() -> None:
    """It is not the first one, and its name is set as those of the others."""
    found = report(f"{HEADER}| fp32 | 98 | 31 |\n| fsdp | | |\n| amp | 231 | 20 |\n")

    assert ["fp32", "fsdp", "amp"] == [run.label for run in found.runs]
    assert not any("group" in run.unknown for run in found.runs)


@pytest.mark.parametrize(
    "head",
    [
        "| Config | Throughput | | Memory |\n|---|---|---|---|\n| | img/s | vs. base | GB |\n",
        "| Config | Throughput | Throughput | Memory |\n|---|---|---|---|\n| Config | img/s | vs. base | GB |\n",
    ],
)
def test_a_header_over_several_columns_stands_over_each(head: str) -> None:
    """In Markdown over the first of them, and in HTML over all. A speed beside the base is held against the speeds."""
    found = report(f"{head}| fp32 | 310 | 1.0x | 22.1 |\n| tf32 | 498 | 1.6x | 22.1 |\n| amp | 872 | 3.2x | 13.0 |\n")

    assert {"fp32": 310, "tf32": 498, "amp": 872} == speeds(found)
    assert ["amp"] == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


def test_a_first_row_of_words_is_no_header() -> None:
    """One that is out of memory, or that nobody measured."""
    found = report("| Config | img/s | img/s |\n|---|---|---|\n| big | OOM | OOM |\n| small | 310 | 310 |\n")

    assert [True, False] == [run.out_of_memory for run in found.runs]


def test_rows_of_one_name_in_several_tables_are_told_apart_by_their_headings() -> None:
    """Those of other names are called as they are, and so are all where no heading tells."""
    table = "| opt | img/s |\n|---|---|\n| sgd | {} |\n| {} | {} |\n"
    tables = [table.format(401, "adamw", 389), table.format(3050, "lion", 2920)]

    assert ["sgd (1 GPU)", "adamw", "sgd (8 GPUs)", "lion"] == [
        run.label for run in report(f"### 1 GPU\n\n{tables[0]}\n**8 GPUs**\n\n{tables[1]}").runs
    ]
    assert ["sgd", "adamw", "sgd (2)", "lion"] == [run.label for run in report("\n".join(tables)).runs]


def test_headers_of_groups_over_the_same_columns_are_of_runs_each() -> None:
    """They are told apart by the group."""
    head = "| | A100 | | H100 | |\n|---|---|---|---|---|\n| Config | img/s | MFU | img/s | MFU |\n"
    found = report(f"{head}| base | 1200 | 31% | 2310 | 24% |\n| compile | 1490 | 38% | 2980 | 31% |\n")

    assert {"base A100": 1200, "base H100": 2310, "compile A100": 1490, "compile H100": 2980} == speeds(found)
    assert [31, 24, 38, 31] == [run.given["mfu"].middle for run in found.runs]


@pytest.mark.parametrize(
    ("above", "corner"),
    [
        ("Table 3: Training throughput (images/s, batch size 16), higher is better.", "Model"),
        ("", "img/s"),
        ("### Throughput [images/s]", ""),
    ],
)
def test_the_unit_of_a_table_may_stand_above_it_or_in_its_corner(above: str, corner: str) -> None:
    """Then each cell is a run, called by its row and its column."""
    rows = "| ResNet | 812 | 1043.5 |\n| ViT | OOM | 301 |\n"
    found = report(f"{above}\n\n| {corner} | eager | compile |\n|---|---|---|\n{rows}")

    assert [True] == [run.out_of_memory for run in found.runs if "ViT eager" == run.label]
    assert {812, 1043.5, 301} == {r.given["samples_per_second"].middle for r in found.runs if r.given}
    assert "ResNet compile" in {run.label for run in found.runs}


@pytest.mark.parametrize(
    "above",
    [
        "Accuracy in percent",
        "Throughput (img/s):\n\nand what it came to:",
        "Speed (img/s), step time in ms",
        "Step time, lower is better",
        "Images/s on one A100",
    ],
)
def test_no_unit_is_taken_from_a_text_that_names_none_or_several(above: str) -> None:
    table = "| Model | eager | compile |\n|---|---|---|\n| ResNet | 812 | 1043 |\n"

    with pytest.raises(SettingsError, match="no column holds a figure"):
        report(f"{above}\n\n{table}")


def test_a_corner_may_call_what_stands_below_it_and_beside_it() -> None:
    """Then both may be numbers."""
    table = "| Seq len \\ Micro batch | 1 | 2 |\n|---|---|---|\n| 2048 | 8,120 | 9,870 |\n| 4096 | 7,610 | OOM |\n"
    found = report(f"#### Throughput (tokens/s/GPU)\n\n{table}")

    assert [(2048, 1, 8120), (2048, 2, 9870), (4096, 1, 7610), (4096, 2, None)] == [
        (
            run.length,
            run.settings.training("per_device_train_batch_size"),
            run.given["tokens_per_second_per_device"].middle if run.given else None,
        )
        for run in found.runs
    ]


def test_a_speed_up_is_held_against_the_base_of_its_group() -> None:
    """Each group has one, and the nearest is named."""
    rows = "| base | {} | 1.0x |\n| ours | {} | {}x |\n"
    table = "| Method | img/s | speedup |\n|---|---|---|\n| A100 | | |\n" + rows.format(1210, 1694, 1.4)
    found = report(f"{table}| H100 | | |\n{rows.format(2420, 2904, 1.5)}")

    assert ["the speed-up is given as 1.5, and by samples/s it is 1.20 times as fast as 'H100 base'"] == [
        f.text for f in found.findings if f.kind is FindingKind.ARITHMETIC
    ]


@pytest.mark.parametrize("names", [("loss", "val_loss"), ("memory", "batch"), ("top-1 acc", "top-5 acc")])
def test_columns_of_other_results_are_not_of_the_unit_above_them(names: tuple[str, str]) -> None:
    table = f"| Model | {names[0]} | {names[1]} |\n|---|---|---|\n| ResNet | 812 | 1043 |\n"

    with pytest.raises(SettingsError):
        report(f"Throughput (img/s)\n\n{table}")
