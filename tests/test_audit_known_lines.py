"""Lines of logs whose times have no unit or no word for a step, and that say by their form what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import audit
from slowstep.audit.figures import parse
from slowstep.audit.read import Unreadable, read_file
from slowstep.settings.load import validate


def figures(path: Path, text: str, columns: dict[str, str] | None = None) -> dict[str, float]:
    """The figures of a log that has one row."""
    path.write_text(text, encoding="utf-8")
    (row,) = read_file(path, columns)
    return {name: pytest.approx(parse(value).middle) for name, value in row["figures"].items()}


def lines(line: str, count: int = 30) -> str:
    """Lines of which the first steps are slower."""
    return "".join(line.format(n=10 * n, slow=9 if n < 3 else 0) + "\n" for n in range(count))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("iter {n}: loss 4.1234, time {slow}262.31ms, mfu 33.15%", {"seconds_per_step": 0.26231}),  # nanoGPT
        (
            "Train: 0 [{n:>4}/1251 ( 40%)]  Loss: 6.94 (6.94)  Time: {slow}.412s, 2485.44/s  (0.489s, 2094.07/s)  "
            "LR: 1.0e-05  Data: 0.008 (0.051)",  # timm
            {"seconds_per_step": 0.412, "samples_per_second": 2485.44},
        ),
        (
            "[03/04 11:00:00 d2.utils.events]:  eta: 1:23:01  iter: {n}  total_loss: 0.7  time: {slow}.4812  "
            "last_time: 0.4101  data_time: 0.1711  last_data_time: 0.0101  lr: 0.02  max_mem: 6012M",  # Detectron2
            {"seconds_per_step": 0.4812},
        ),
        (
            "10/12 12:00:01 - mmengine - INFO - Epoch(train)  [1][{n:>4}/7330]  lr: 1.0e-02  eta: 1:23:45  "
            "time: {slow}.4311  data_time: 0.0123  memory: 4321  loss: 3.1",  # MMEngine
            {"seconds_per_step": 0.4311},
        ),
        (
            "Epoch: [0]  [{n:>4}/5005]  eta: 0:36:02  lr: 0.1  loss: 6.9 (6.9)  time: {slow}.4321  data: 0.0021  "
            "max mem: 9000",  # torchvision
            {"seconds_per_step": 0.4321},
        ),
        (
            "Epoch: [0][{n:>4}/5005]\tTime  {slow}.412 ( 0.520)\tData  0.002 ( 0.210)\tLoss 6.9e+00 (6.9e+00)",
            {"seconds_per_step": 0.412},
        ),
        (
            "[2024-05-01 10:00:00,000] [INFO] [timer.py:264:stop] epoch=0/micro_step={n}/global_step={n}, "
            "RunningAvgSamplesPerSec=54.88629182391742, CurrSamplesPerSec={slow}55.38291823917423, MemAllocated=11.2GB",
            {"samples_per_second": 55.38291823917423},
        ),
        (
            "Epoch 1 | iter {n} step 2 | loss train: 1.81, val: n/a | iter time: {slow}351.23 ms (step)",  # LitGPT
            {"seconds_per_step": 0.35123},
        ),
    ],
)
def test_lines_of_training_loops_are_read(line: str, found: dict, tmp_path: Path) -> None:
    """As the time of a step, of which that of its data is a part."""
    assert found == figures(tmp_path / "t.log", lines(line))


@pytest.mark.parametrize(
    "line",
    [
        "iter {n}  loss 6.9  time: 412.31  data: 3.20",  # milliseconds, perhaps
        "iter {n}  loss 6.9  time: 18.213  data: 1.204",
        "iter {n}  loss 6.9  time: 0.412  data: 0.512",  # loading runs beside the steps, or the time is another one
        "loss 6.9  time: {n}.412  data: 0.002",  # of nothing that counts
        "iter {n}: loss 4.0, time 250.00ms, lr 0.1",
    ],
)
def test_a_time_of_which_nothing_tells_what_it_is_stays_asked_about(line: str, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="is it of a step, an epoch or the whole job"):
        figures(tmp_path / "t.log", lines(line))


def test_what_a_name_holds_can_be_said(tmp_path: Path) -> None:
    """As for the column of a table, with the unit that its numbers lack; the message says how."""
    path, text = tmp_path / "t.log", lines("step {n}: loss 4.0, time 250.00, lr 0.1")

    with pytest.raises(Unreadable, match=r"as an override: reported\.columns\.time=s/step"):
        figures(path, text)
    assert {"seconds_per_step": 0.25} == figures(path, text, {"time": "ms/step"})
    assert {"seconds_per_step": 0.025} == figures(path, text, {"time": "ms / 10 steps"})
    with pytest.raises(Unreadable, match="`columns` calls it 'so', which is no speed"):
        figures(path, text, {"time": "so"})


BOX = """+-----------------------+-----------------------+
| Parameter             | Value                 |
+-----------------------+-----------------------+
| micro batch size B    | {batch:<21} |
| sequence length T     | 1024                  |
| total batch size      | 524288                |
| learning rate (LR)    | 6.000000e-04          |
+-----------------------+-----------------------+
"""
STEP = "step {n:>4}/18865 | loss 7.1 (+0.12z)| norm 0.3 (+nanz)| lr 1e-04 | {ms} ms | 55.3% bf16 MFU | {speed} tok/s\n"


def test_a_box_of_parameters_is_no_table_of_runs(tmp_path: Path) -> None:
    """The head of llm.c has one, whose batch counts tokens and whose rate is that of learning. Lines say the speed."""
    for batch, ms, speed in ((32, 188.4, 2782845), (64, 181.9, 2882287)):
        text = BOX.format(batch=batch) + "".join(STEP.format(n=n, ms=ms, speed=speed) for n in range(1, 60))
        (tmp_path / f"b{batch}.log").write_text(text)
    files = [str(tmp_path / f"b{batch}.log") for batch in (32, 64)]
    found = audit(validate({"name": "own", "reported": {"files": files}}, "own"))

    assert [(2782845, 55.3), (2882287, 55.3)] == [
        (run.given["tokens_per_second"].middle, run.given["mfu"].middle) for run in found.runs
    ]
    assert [32, 64] == [run.settings.training("per_device_train_batch_size") for run in found.runs]
    assert [] == found.faults


def test_a_benchmark_beside_such_lines_is_asked_about(tmp_path: Path) -> None:
    """Its speed stands apart from the lines that name training, and theirs is read."""
    path = tmp_path / "t.log"
    trained = lines(
        "mmengine - INFO - Epoch(train)  [1][{n:>4}/7330]  eta: 1:02:03  time: 0.4311  data_time: 0.0123  loss: 3.1"
    )
    path.write_text(trained + lines("mmengine - INFO - Done image [{n:>4}/ 2000], fps: 23.5 img/s"))
    (row,) = read_file(path)

    assert {"seconds_per_step": "0.4311"} == row["figures"]
    assert ["'23.5 img/s' in 30 lines: is it of training, whose lines stand apart from these?"] == row["questions"]


def test_a_bar_without_a_pace_says_it_in_words(tmp_path: Path) -> None:
    """As NeMo's does. One with a pace says by its name what it is."""
    bar = "Epoch 0: :   1%| | {n}/1000 [00:42<1:10:12, train_loss=10.20, train_step_timing in s=4.210]\n"
    other = "Validation: {n}/20 [00:02<00:10, val_loss=10.20, val_step_timing in s=0.2{n}]\n"
    text = "".join(each.format(n=n) for n in (10, 20, 30, 40) for each in (bar, other))

    assert {"seconds_per_step": 4.21} == figures(tmp_path / "a.log", text)
