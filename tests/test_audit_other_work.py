"""Logs that hold other work beside their training: a sampling, a benchmark, other configurations, other ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import audit
from slowstep.audit.read import Unreadable, read_log
from slowstep.settings.load import validate

STEPS = "Steps:  {}%|##| {}/40 [{}<01:04, 2.14s/it, lr=1e-5, step_loss=0.0812]\n"
TRAINED = "".join(STEPS.format(p, n, c) for p, n, c in ((25, 10, "00:21"), (50, 20, "00:43"), (100, 40, "01:25")))
SAMPLED = "".join(f" {2 * n}%|##| {n}/50 [00:0{n // 13}<00:02, 13.1it/s]\n" for n in (10, 30, 50))


def figures(path: Path, text: str) -> list[dict]:
    path.write_text(text)
    return [row["figures"] for row in read_log(path)]


def test_a_named_bar_with_a_loss_is_the_training_whatever_its_length(tmp_path: Path) -> None:
    """The sampling behind it has more steps, and no loss."""
    for text in (TRAINED + SAMPLED, SAMPLED + TRAINED, TRAINED.replace("/40", "/400") + SAMPLED):
        (found,) = figures(tmp_path / "t.log", text)

        assert "2.14" == found["seconds_per_step"]


def test_a_bar_without_a_name_that_shows_the_loss_stays_the_training(tmp_path: Path) -> None:
    """As does Trainer's own, whose last words are there, and a longer one beside bars that show no training's loss."""
    nameless = SAMPLED.replace("it/s]", "it/s, loss=0.31]")
    ends = "{'train_runtime': 3.8, 'train_samples_per_second': 13.1, 'train_steps_per_second': 13.1, 'epoch': 1.0}\n"
    for text in (TRAINED + nameless, TRAINED + SAMPLED + ends, TRAINED.replace("step_loss", "val_loss") + SAMPLED):
        assert {"13.1"} == {row["steps_per_second"] for row in figures(tmp_path / "t.log", text)}


TRAINING = "INFO - Epoch(train)  [1][{:>4}/7330]  lr: 1.0e-02  time: 0.43{}1  loss: 3.1\n"
DONE = "INFO - Done image [ {} / 2000], fps: 23.{} img/s, cuda memory: 1024 MB\n"


def test_speeds_apart_from_the_lines_of_training_are_asked_about(tmp_path: Path) -> None:
    """What these lines say could be several things, and a benchmark behind or before them says images a second."""
    trained, benchmark = ("".join(line.format(n, n // 50) for n in (50, 100, 150)) for line in (TRAINING, DONE))

    for text in (trained + benchmark, benchmark + trained):
        with pytest.raises(Unreadable, match=r"'23\.\d img/s' in 3 lines: is it of training, whose lines stand apart"):
            figures(tmp_path / "t.log", text)


def test_speeds_between_the_lines_of_training_are_theirs(tmp_path: Path) -> None:
    """Or in lines that name training themselves, or where the lines of training say nothing that is unclear."""
    trained, perf = [TRAINING.format(n, 1) for n in (50, 100, 150)], [f"perf: 23.{n} img/s\n" for n in (4, 5, 5)]
    between = "".join(line for pair in zip(trained, perf, strict=True) for line in pair)
    named = "".join([*trained, *(f"train {line}" for line in perf)])
    clear = "".join([*(line.replace(" time: ", " lr2: ") for line in trained), *perf])

    for text in (between, named, clear):
        assert [{"samples_per_second": "23.5"}] == figures(tmp_path / "t.log", text)


BENCH = "[bench] model=gpt2 seq={} bs={} dtype={} -> {} tok/s\n"
OTHERS = {
    "batches": [(1024, 4, "fp32", "11,234"), (1024, 8, "fp32", "12,034"), (1024, 16, "fp32", "12,911")],
    "types": [(1024, 8, "fp32", "12,034"), (1024, 8, "bf16", "38,911")],
    "lengths": [(1024, 8, "bf16", "38,911"), (512, 8, "bf16", "39,120")],
}


@pytest.mark.parametrize("name", OTHERS)
def test_lines_of_several_configurations_are_no_training(name: str, tmp_path: Path) -> None:
    text = "".join(BENCH.format(*cells) for cells in OTHERS[name])

    with pytest.raises(Unreadable, match="are they of several configurations"):
        figures(tmp_path / "t.log", text)


@pytest.mark.parametrize(
    "line",
    [
        "model=gpt2 seq=1024 bs=8 dtype=bf16 -> 7,1{0}2 tok/s\n",
        "step {0} | bs=1{0} seq_len=10{0} | 7,1{0}2 tok/s\n",  # a batch that grows
        "step {0} | batch: {0}/500 | 7,1{0}2 tok/s\n",
        "step {0} | device=cuda:{0} | 7,1{0}2 tok/s\n",
    ],
)
def test_lines_of_one_training_stay_one(line: str, tmp_path: Path) -> None:
    """Whatever changes in them from step to step."""
    text = "".join(line.format(n) for n in (1, 2, 3, 4))

    assert [{"tokens_per_second": "7,142"}] == figures(tmp_path / "t.log", text)


@pytest.mark.parametrize(
    ("prefixes", "unit", "asked"),
    [
        (("[default0]:", "[default1]:"), "tok/s", True),
        (("[rank0]: ", "[rank1]: "), "samples/s", True),
        (("0: INFO ", "1: INFO "), "samples/s", True),
        (
            ("2024-05-01T10:11:12.123+02:00 [1,mpirank:0,algo-1]<stdout>:", "[1,mpirank:8,algo-2]<stdout>:"),
            "img/s",
            True,
        ),
        (("10:11:12 rank=0 ", "10:11:12 rank=1 "), "tok/s", True),
        (("0: INFO ", "0: INFO "), "samples/s", False),
        (("0: INFO ", "1: INFO "), "steps/s", False),
        (("[default0]:", "[default0]:"), "tok/s", False),
        (("[default0]:", "[default1]:"), "steps/s", False),
        (("", ""), "tok/s", False),
    ],
)
def test_the_speed_of_several_processes_is_asked_about(
    prefixes: tuple[str, str], unit: str, asked: bool, tmp_path: Path
) -> None:
    """It may be that of each of them, or that of all; a step is one of all."""
    text = "".join(f"{prefix}step {n} | loss 7.1 | 7,104 {unit}\n" for n in (10, 20, 30) for prefix in prefixes)
    if asked:
        with pytest.raises(Unreadable, match="2 processes say it: is it the speed of each of them, or of all"):
            figures(tmp_path / "t.log", text)
    else:
        assert ["7,104"] == [value for row in figures(tmp_path / "t.log", text) for value in row.values()]


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        (("11,234", "11,240", "11,236", "31,234", "31,240", "31,236"), True),
        (("812", "7,905", "7,899"), False),  # the first one holds the start
        (("7,100", "7,905", "7,899", "8,120"), False),
    ],
)
def test_a_few_lines_that_are_far_apart_are_asked_about(values: tuple[str, ...], asked: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text("".join(f"step {n} loss 7.1 | {value} tok/s\n" for n, value in enumerate(values, 1)))
    (row,) = read_log(path)

    assert asked is any("its lines say from 11,236 to 31,240 tokens/s" in text for text in row["questions"])


def test_the_number_before_a_line_may_be_that_of_an_epoch(tmp_path: Path) -> None:
    """It does not come back."""
    text = "".join(f"{n}: loss 7.1 | 7,104 samples/s\n" for n in range(9))

    assert [{"samples_per_second": "7,104"}] == figures(tmp_path / "t.log", text)


def test_a_few_lines_that_name_their_runs_decide_nothing(tmp_path: Path) -> None:
    """Also where a number is a part of the name, and where what was quoted says other speeds."""
    text = (
        "> > On 2.3 we had 0.62 s/it, on 2.4 we see 0.81 s/it.\nThis morning:\n\n"
        "    torch 2.3    0.62 s/it\n    torch 2.4    0.81 s/it\n    2.4 + fix    0.63 s/it\n"
    )

    with pytest.raises(Unreadable, match="are they of several runs \\('torch', 'fix'\\)"):
        figures(tmp_path / "t.txt", text)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("Epoch 1 | iter {n} step {step} | loss: 1.9 | iter time: 312.50 ms", 5.0),
        ("micro_step={n} global_step={step} loss=1.9 3.2 it/s", 5.0),
        ("iter {n} step {step} | loss: 1.9 | step time: 312.50 ms", 0.3125),
        ("epoch 1 iter {n} step {n} | loss: 1.9 | iter time: 312.50 ms", 0.3125),
        ("iter {n} | loss: 1.9 | iter time: 312.50 ms", 0.3125),
        ("step {step} | 0.3125 s/it | 1,300 examples seen", 0.3125),
    ],
)
def test_a_pace_of_iterations_is_turned_into_that_of_steps(line: str, seconds: float, tmp_path: Path) -> None:
    """Where lines count both, and a step has several iterations. What is called the time of a step stays."""
    path = tmp_path / "t.log"
    path.write_text("".join(line.format(n=n, step=n // 16) + "\n" for n in range(1, 65)))
    (run,) = audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own")).runs

    assert seconds == pytest.approx(run.solved.known["seconds_per_step"].middle)


def test_a_name_with_brackets_is_none_of_the_number_before_it(tmp_path: Path) -> None:
    text = "".join(f"step {n * 10} tok/s (ema): 48{n}71 mfu (ema): 41.{n}%\n" for n in range(1, 9))
    (found,) = figures(tmp_path / "t.log", text)

    assert 48_600 < float(found["tokens_per_second"]) < 48_900
