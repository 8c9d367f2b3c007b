"""Runs that stand in columns, in the lines of a chat, and behind the marks of a quotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.read import Unreadable, read_file
from slowstep.settings import SettingsError
from slowstep.settings.load import validate


def report(table: str) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table}}, "own"))


def speeds(found: Audit, quantity: str = "samples_per_second") -> dict[str, float]:
    return {run.label: run.given[quantity].middle for run in found.runs}


@pytest.mark.parametrize(
    "headers", ["V100 (img/s) | A100 (img/s)", "V100 img/s | A100 img/s", "img/s (V100) | img/s (A100)"]
)
def test_a_column_for_each_run_makes_rows(headers: str) -> None:
    found = report(f"| Model | {headers} |\n|---|---|---|\n| R50 | 390 | 1180 |\n| ViT | 210 | 690 |\n")

    assert {"R50 V100": 390, "R50 A100": 1180, "ViT V100": 210, "ViT A100": 690} == speeds(found)


@pytest.mark.parametrize(
    ("headers", "cells"),
    [
        ("V100 (img/s) | A100 (img/s)", ("390 | 1180", "260 | 900")),
        ("new img/s | old img/s", ("1180 | 390", "900 | 260")),
    ],
)
def test_a_ratio_beside_two_runs_is_that_of_the_faster_one(headers: str, cells: tuple[str, str]) -> None:
    """Each is held against the run of its own row."""
    rows = f"| R50 | {cells[0]} | 3.03x |\n| CNX | {cells[1]} | 2.46x |\n"
    found = report(f"| Model | {headers} | speedup |\n|---|---|---|---|\n{rows}")

    assert [headers.split()[0 if "new" in headers else 3]] == [
        f.where.removeprefix("CNX ") for f in found.findings if f.kind is FindingKind.ARITHMETIC
    ]


@pytest.mark.parametrize(
    "headers",
    [
        "median ms/step | p99 ms/step",
        "train samples/s | eval samples/s",
        "compute tokens/s | total tokens/s",
        "fwd ms/step | bwd ms/step",
        "warmup s/it | steady s/it",
    ],
)
def test_parts_and_statistics_of_a_run_are_no_runs(headers: str) -> None:
    try:
        found = report(f"| Model | {headers} |\n|---|---|---|\n| R50 | 390 | 1180 |\n| ViT | 210 | 690 |\n")
    except SettingsError:
        return
    assert ["R50", "ViT"] == [run.label for run in found.runs]


def test_phases_before_and_after_are_those_of_two_runs() -> None:
    table = "stage,before (ms/step),after (ms/step)\ndata,44.2,12.0\nforward,80,79.5\nbackward,161,160.2\n"

    assert ["before", "after"] == [run.label for run in report(table).runs]
    assert ["data", "forward", "backward"] == [*report(table).runs[0].phases]


def test_a_unit_behind_the_name_of_each_line_is_that_of_its_cells() -> None:
    table = "| | timm | ours |\n|---|---|---|\n| ViT-S (im/s) | 1,310 | 3,010 |\n| ViT-B (im/s) | 560 | 1,090 |\n"

    assert {"ViT-S timm": 1310, "ViT-S ours": 3010, "ViT-B timm": 560, "ViT-B ours": 1090} == speeds(report(table))


CHAT = """\
maria  10:45 AM
baseline: 1.84 s/it, bs 8, 4.3 samples/s
with flash attn: 1.21 s/it, bs 8, 6.6 samples/s

tom  10:47 AM
nice, 1.5x
"""


@pytest.mark.parametrize("name", ["chat.txt", "chat.md"])
def test_lines_that_name_a_run_and_its_speeds_are_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(CHAT, encoding="utf-8")
    rows = read_file(path)

    assert ["baseline", "with flash attn"] == [row["label"] for row in rows]
    assert ["1.84", "1.21"] == [row["figures"]["seconds_per_step"] for row in rows]
    assert ["4.3", "6.6"] == [row["figures"]["samples_per_second"] for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1: 1.84 s/it\nepoch 2: 1.80 s/it\n",
        "rank 0: 412 samples/s\nrank 1: 410 samples/s\n",
        "train: 1.84 s/it\nval: 0.41 s/it\n",
        "mean: 1.84 s/it\nmax: 2.31 s/it\n",
        "data: 0.20 s/it\ntotal: 1.84 s/it\n",
        "base: 1.84 s/it\nnow: 3.1 samples/s\n",
        "base: 1.84 s/it\nnow: 1.51 s/it\nand 1.3 s/it on the other one\n",
    ],
)
def test_lines_of_one_run_are_no_rows(tmp_path: Path, text: str) -> None:
    """They count, or are of parts, or say other things; other lines say speeds, too."""
    path = tmp_path / "lines.txt"
    path.write_text(text, encoding="utf-8")
    try:
        rows = read_file(path)
    except Unreadable:
        return
    assert ["lines"] == [row["label"] for row in rows]


def test_a_quoted_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "issue.md"
    path.write_text(
        "> our numbers:\n>\n> | run | s/it |\n> |---|---|\n> | a | 1.2 |\n> | b | 1.4 |\n", encoding="utf-8"
    )

    assert ["a", "b"] == [row["label"] for row in read_file(path)]


@pytest.mark.parametrize(
    ("header", "quantity"),
    [
        ("step time (ms, mean ± std, n=5)", "seconds_per_step"),
        ("ms/step (A100, bf16)", "seconds_per_step"),
        ("TFLOPS per GPU (A100-SXM4-80GB, bf16)", "tflops_per_device"),
        ("img/s ¹", "samples_per_second"),
        ("tokens/s (per GPU, bf16)", "tokens_per_second_per_device"),
    ],
)
def test_a_header_may_say_how_its_numbers_came_about(header: str, quantity: str) -> None:
    found = report(f"| run | {header} | s/epoch |\n|---|---|---|\n| a | 120 | 9 |\n| b | 100 | 8 |\n")

    assert [True, True] == [quantity in run.given for run in found.runs]


@pytest.mark.parametrize("header", ["step time (ms, max)", "img/s (eval, bf16)", "tokens/s (per node, bf16)"])
def test_a_header_of_other_work_stays_unread(header: str) -> None:
    found = report(f"| run | {header} | s/epoch |\n|---|---|---|\n| a | 120 | 9 |\n| b | 100 | 8 |\n")

    assert [{"seconds_per_epoch"}] * 2 == [{*run.given} for run in found.runs]


def test_the_cost_of_a_million_tokens_follows_from_price_and_speed() -> None:
    table = "gpu,tokens_per_second,price_per_hour,cost_per_1M_tokens\nA100,3200,1.80,0.156\nH100,7900,2.90,0.051\n"

    assert ["H100"] == [f.where for f in report(table).findings if f.kind is FindingKind.ARITHMETIC]


def test_all_tokens_take_the_time_that_their_speed_says() -> None:
    rows = "a,1.21M,2.5B,34m 26s\nb,540k,2.5B,1h 17m\nc,152K,2.5B,2h 34m\n"
    found = report(f"run,tok/s,total tokens,wall time\n{rows}")

    assert ["c"] == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


def test_a_total_in_a_currency_is_a_cost() -> None:
    found = report(
        "| run | $/hr | hours | Total |\n|---|---|---|---|\n| a | $14.32 | 38 | $544 |\n| c | $2.99 | 140 | $318 |\n"
    )

    assert ["c"] == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


def test_a_price_may_be_that_of_one_device_where_nobody_counts_them() -> None:
    found = report(
        "| run | $/h | hours | cost |\n|---|---|---|---|\n| a | 1.79 | 38 | $544 |\n| b | 2.99 | 17 | $407 |\n"
    )

    assert [] == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


@pytest.mark.parametrize("batch", ["batch size per GPU,GPUs", "batch,GPUs"])
def test_a_step_of_other_samples_than_its_batch_is_told(batch: str) -> None:
    rows = "base,16,4,0.412,155.3\nbf16,16,4,0.231,277.1\nwrong,16,4,0.200,340.0\n"
    found = report(f"run,{batch},s/step,samples/s\n{rows}")

    assert ["wrong"] == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


def test_a_sample_of_more_tokens_than_its_length_is_asked_about() -> None:
    """Of fewer it may be, as samples are shorter than they may be."""
    table = "run,s/step,global batch,tokens/s,seq\na,4.10,256,{},8192\nb,3.28,256,{},8192\n"

    assert any("10,652 tokens a sample" in text for text in report(table.format(511488, 831360)).questions)
    assert not any("tokens a sample" in text for text in report(table.format(511488, 431360)).questions)


def test_the_time_of_an_ultralytics_history_is_that_since_its_start() -> None:
    """Elsewhere a column `time` without a unit is asked about."""
    rows = "".join(f"{e},{15 + 62.4 * e:.1f},{1.2 - 0.03 * e:.2f}\n" for e in range(1, 9))
    found = report(f"epoch,time,train/box_loss\n{rows}")

    assert "62.4" == str(found.runs[0].given["seconds_per_epoch"])
    with pytest.raises(SettingsError, match="is it of a step, an epoch or the whole job"):
        report(f"epoch,time,train/loss\n{rows}")


def test_an_elapsed_time_may_have_its_unit_in_its_header() -> None:
    rows = "".join(f"{i * 100},{i * 1092}\n" for i in range(1, 9))

    assert "10.92" == str(report(f"step,elapsed_s\n{rows}").runs[0].given["seconds_per_step"])


@pytest.mark.parametrize(("header", "told"), [("Reduction", ["c"]), ("Saved (%)", ["c"]), ("improvement", [])])
def test_what_is_less_of_the_one_time_is_held_against_it(header: str, told: list[str]) -> None:
    rows = "| a | 1h 23m | – |\n| b | 52m 10s | 37 % |\n| c | 31m 30s | 72 % |\n"
    found = report(f"| run | Epoch time | {header} |\n|---|---|---|\n{rows}")

    assert told == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


def test_a_speed_that_falls_by_more_than_all_of_it_is_asked_about() -> None:
    table = "| run | samples/s | vs baseline |\n|---|---|---|\n| a | 250 | |\n| b | 190 | -24% |\n| c | 75 | -233% |\n"

    assert any("'-233%', which is not read" in text for text in report(table).questions)


ALIGNED = """\
Configuration        Batch   Step time   Samples/s
                     size    (ms)
------------------   -----   ---------   ---------
baseline             16      412         38.8
with bf16 and        16      231         69.3
  torch.compile
"""


def test_cells_of_several_lines_are_joined_below_a_ruler(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text(ALIGNED, encoding="utf-8")

    assert ["baseline", "with bf16 and torch.compile"] == [row["label"] for row in read_file(path)]


def test_units_of_siunitx_are_read(tmp_path: Path) -> None:
    path = tmp_path / "table.tex"
    head = r"Method & {Time (\si{\milli\second\per step})} & {Rate (\unit{img\per\second})} \\"
    path.write_text(
        f"\\begin{{tabular}}{{lSS}}\n{head}\nbase & 412.0 & 155.3 \\\\\n\\end{{tabular}}\n", encoding="utf-8"
    )

    assert [{"seconds_per_step", "samples_per_second"}] == [{*row["figures"]} for row in read_file(path)]


@pytest.mark.parametrize(
    ("gpu", "flops", "mfu", "told", "asked"),
    [
        ("H100 SXM", 396, 40.0, False, False),
        ("H100 SXM", 396, 55.0, True, False),
        ("8x A100", 188, 50.3, False, True),
        ("H100 SXM", 433, 21.9, False, False),
        ("H100", 396, 55.0, False, False),
    ],
)
def test_an_mfu_follows_from_flops_and_the_peak_of_the_device(
    gpu: str, flops: float, mfu: float, told: bool, asked: bool
) -> None:
    """FLOPs may count recomputation, and a peak may be that of sparse weights. `H100` alone has no peak."""
    found = report(f"run,GPU,TFLOPS/GPU,MFU (%),s/step\na,{gpu},{flops},{mfu},3.1\nb,{gpu},{flops},{mfu},3.2\n")

    assert told == any("MFU is given as" in f.text for f in found.findings)
    assert asked == any("count recomputation" in text for text in found.questions)


def test_flops_are_held_against_the_peak_of_a_device_in_the_header() -> None:
    found = report('run,"TFLOPS per GPU (A100, bf16)",s/step\nours,345,3.1\nother,178,6.0\n')

    assert ["ours"] == [f.where for f in found.findings if f.kind is FindingKind.PHYSICS]
