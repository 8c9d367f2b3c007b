"""Tables in the markups of wikis, reports of benchmarking tools, and rows that are of no whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, audit
from slowstep.audit.read.markups import as_markdown_tables
from slowstep.audit.terminal_lines import compared
from slowstep.settings.load import validate

MARKUPS = {
    "wiki.txt": '{| class="wikitable"\n|-\n! Config !! s/it !! samples/s\n|-\n| base || 1.60 || 10.0\n'
    '|-\n| style="color:red" | fused\n| 1.28\n| 12.5\n|}\n',
    "page.adoc": '.Speeds\n[cols="1,1,1",options="header"]\n|===\n|Config |s/it |samples/s\n\n|base\n|1.60\n|10.0\n\n'
    "|fused\n|1.28\n|12.5\n|===\n",
    "rows.txt": "[%header,cols=3*]\n|===\n|Config |s/it |samples/s\n|base |1.60 |10.0\n|fused |1.28 |12.5\n|===\n",
    "page.rst": ".. list-table:: Speeds\n   :header-rows: 1\n\n   * - Config\n     - s/it\n     - samples/s\n"
    "   * - base\n     - 1.60\n     - 10.0\n   * - fused\n     - 1.28\n     - 12.5\n",
}

HYPERFINE = """Benchmark 1: python train.py --compile
  Time (mean ± σ):     42.311 s ±  0.412 s    [User: 310.2 s, System: 12.1 s]
  Range (min … max):   41.802 s … 43.010 s    5 runs

Benchmark 2: python train.py
  Time (mean ± σ):     61.902 s ±  0.733 s    [User: 402.2 s, System: 12.9 s]
  Range (min … max):   61.010 s … 63.010 s    5 runs

Summary
  python train.py --compile ran
    {} ± 0.02 times faster than python train.py
"""

DEEPSPEED = """-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 10:
world size:                                                             8
model parallel size:                                                    1
batch size per GPU:                                                     4
fwd latency:                                                            81.21 ms
bwd latency:                                                            163.4 ms
step latency:                                                           12.1 ms
iter latency:                                                           256.71 ms
FLOPS per GPU = 3 * fwd flops per GPU / iter latency:                   119.2 TFLOPS
samples/second:                                                         {}
"""


def report(path: Path, text: str) -> Audit:
    path.write_text(text)
    return audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own"))


@pytest.mark.parametrize("name", MARKUPS)
def test_a_table_in_another_markup_is_read(name: str, tmp_path: Path) -> None:
    found = report(tmp_path / name, MARKUPS[name])

    assert ["base", "fused"] == [run.label for run in found.runs]
    assert compared(found)[0].startswith("'fused' is 1.25 times as fast as 'base' in samples/s")


@pytest.mark.parametrize(("size", "holds"), [("1.46", True), ("1.86", False)])
def test_a_summary_of_hyperfine_is_held_against_its_times(size: str, holds: bool, tmp_path: Path) -> None:
    found = report(tmp_path / "bench.txt", HYPERFINE.format(size))

    assert [42.311, 61.902] == [run.given["seconds"].middle for run in found.runs]
    asked = next(question for question in found.questions if f"{size} times faster" in question)
    assert holds is ("no two rows are so far apart" not in asked)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.md", "| Command | Mean [ms] | Min [ms] | Max [ms] |\n|---|---|---|---|\n| `a` | 900 ± 3 | 890 | 910 |\n"),
        ("t.csv", "command,mean,stddev,median,user,system,min,max\na,0.9,0.003,0.9,0.1,0.2,0.89,0.91\n"),
        ("t.json", '{"results": [{"command": "a", "mean": 0.9, "stddev": 0.003, "min": 0.89, "times": [0.89, 0.91]}]}'),
    ],
)
def test_a_command_of_hyperfine_is_a_run(name: str, text: str, tmp_path: Path) -> None:
    run = report(tmp_path / name, text).runs[0]

    assert ("a", "0.9") == (run.label, str(run.given["seconds"]))


@pytest.mark.parametrize(("speed", "faults"), [("124.65", 0), ("249.3", 1)])
def test_the_profile_of_deepspeed_is_one_run(speed: str, faults: int, tmp_path: Path) -> None:
    """Its `step latency` is the optimizer's, and its `iter latency` the time of a step."""
    found = report(tmp_path / "profile.txt", DEEPSPEED.format(speed))

    assert 0.25671 == pytest.approx(found.runs[0].given["seconds_per_step"].middle)
    assert 0.0121 == pytest.approx(found.runs[0].phases["optimizer"].middle)
    assert faults == len(found.faults)


METER = "Epoch: [0]  [{:4d}/2502]  eta: 0:12:00  loss: 6.91 (6.95)  time: 0.412{}  data: 0.0002  max mem: 12034\n"


@pytest.mark.parametrize(("accumulated", "known"), [("accum_iter=4, ", False), ("", True)])
def test_a_meter_counts_batches_of_which_a_step_may_have_several(accumulated: str, known: bool, tmp_path: Path) -> None:
    head = f"Namespace({accumulated}epochs=100, world_size=8)\neffective batch size: 2048\n"
    lines = "".join(METER.format(i * 20, i % 10) for i in range(12))
    found = report(tmp_path / "train.log", head + lines)

    assert known is ("samples_per_step" in found.runs[0].given)
    assert known is not any("micro-batches of steps" in question for question in found.questions)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("name,state,samples/s\na,finished,4.1\nb,crashed,6.2\n", "calls it 'crashed'"),
        ("rank,samples/s\n0,102.1\n1,101.9\n2,102.3\n", "processes of one run"),
        (
            "name,samples/s,power (W),J/sample\na,12.5,350,28.0\nb,25.0,380,28.0\n",
            "'J/sample' of 'b' (28) is 1.84 times",
        ),
        ("name,samples/s,$/hour,$ per 1k samples\na,12.5,2.5,0.0556\nb,25,2.5,0.0556\n", "is 2.00 times that of 'a'"),
        ("name,GPUs,total time (h),GPU-days\na,64,168,448\nb,128,168,448\n", "'GPU-days' of 'b' (448) is 0.5 times"),
        ("gpu,s/it,peak memory (GB)\nNVIDIA RTX 4090,0.8,31.7\n", "One NVIDIA RTX 4090 has 24 GB"),
        ("name,samples,epochs,hours,samples/s\na,50000,3,4.17,10.0\n", "those of one epoch?"),
        ("name,dataset size,batch size,min/epoch\na,100000,8,50\nb,50000,8,26\n", ""),
    ],
)
def test_what_rows_leave_open_is_asked(text: str, asked: str, tmp_path: Path) -> None:
    found = report(tmp_path / "t.csv", text)

    assert any(asked in question for question in (*found.questions, ""))
    assert not found.faults


@pytest.mark.parametrize(
    "text",
    [
        "name,state,samples/s\na,finished,4.1\nb,finished,6.2\n",
        "name,samples/s,power (W),J/sample\na,12.5,350,28.0\nb,25.0,380,15.2\n",
        "name,samples/s,$/hour,$ per 1k samples\na,12.5,2.5,0.0556\nb,25,2.5,0.0278\n",
        "gpu,s/it,peak memory (GB)\nNVIDIA RTX 4090,0.8,22.7\n",
        "gpu,GPUs,s/it,total memory (GB)\nNVIDIA RTX 4090,4,0.8,81\n",
    ],
)
def test_sound_rows_are_not_asked_about_in_that_way(text: str, tmp_path: Path) -> None:
    found = report(tmp_path / "t.csv", text)

    assert not any("wrong?" in question or "calls it" in question or "One " in question for question in found.questions)
    assert not found.faults


def test_an_epoch_of_half_the_data_is_no_speed_up(tmp_path: Path) -> None:
    found = report(tmp_path / "t.csv", "name,dataset size,min/epoch\nold,100000,50\nnew,50000,26\n")

    assert "'new' is 0.962 times as fast" in compared(found)[0]


def test_signs_of_a_pull_request_are_no_part_of_a_change(tmp_path: Path) -> None:
    rows = "| tokens/s | 41,210 | 44,832 | :white_check_mark: +{} |\n| step (ms) | 397.6 | 365.4 | :rocket: -8.1% |\n"
    each = [
        report(tmp_path / "t.md", "| | main | this PR | |\n|:-|-:|-:|-:|\n" + rows.format(by))
        for by in ("8.8%", "18.8%")
    ]

    assert [0, 1] == [len(found.faults) for found in each]


def test_a_column_of_scaling_is_held_against_speeds(tmp_path: Path) -> None:
    rows = "".join(f"{n},{speed},{said}\n" for n, speed, said in ((1, 100, "100%"), (2, 190, "95%"), (4, 300, "95%")))
    found = report(tmp_path / "t.csv", "GPUs,samples/s,scaling\n" + rows)

    assert ["row 3"] == [fault.where for fault in found.faults]


def test_a_log_that_ends_with_an_error_is_asked_about(tmp_path: Path) -> None:
    lines = "".join(f"step {i} 2.1{i} s/step\n" for i in range(1, 9))
    error = (
        "Traceback (most recent call last):\n  File 'train.py', line 2\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    )
    asked = [report(tmp_path / "a.log", lines + end).questions for end in (error, "")]

    assert [True, False] == [any("OutOfMemoryError" in question for question in each) for each in asked]


def test_sizes_that_a_chat_claims_are_looked_for(tmp_path: Path) -> None:
    found = report(tmp_path / "chat.txt", "base: 1.84 s/it\nwith flash: 1.51 s/it\nben\nso 40% faster, nice\n")

    assert any("“40% faster” (no two rows are so far apart)" in question for question in found.questions)


def test_sums_so_far_are_not_those_of_the_planned_steps(tmp_path: Path) -> None:
    rows = "".join(f"{i},300,{i * 16400},{i * 3.2}\n" for i in range(10, 100, 10))
    found = report(tmp_path / "t.csv", "step,total_steps,total_tokens,elapsed (s)\n" + rows)

    assert "steps" not in found.runs[0].given
    assert "tokens_per_step" not in found.runs[0].solved.known


@pytest.mark.parametrize(
    "line",
    [
        "{|",
        "|===",
        "[2026-12-01 09:00:00] step 7 loss 1.0 [x]",
        "[cols=2]\n|===\n|a",
        ".. list-table::",
        "  ",
        "  * - ",
    ],
)
def test_markups_without_an_end_are_read_in_linear_time(line: str) -> None:
    """Twice as many lines take twice the time. Were it four times, these would take minutes, and hours at eight."""
    for text in (f"{line}\n" * 20_001, f".. list-table::\n{line}\n" + "  \n" * 20_001):
        assert text.count("\n") <= as_markdown_tables(text).count("\n") + 40_002
