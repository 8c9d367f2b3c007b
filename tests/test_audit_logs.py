"""Progress bars in console logs: which of them count steps, and whether their clocks bear out what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import audit
from slowstep.audit.figures import figure, parse
from slowstep.audit.read import Unreadable, read_file
from slowstep.audit.read.line_sources import is_part
from slowstep.settings.load import validate


def bar(name: str, done: int, total: int, elapsed: float, pace: str) -> str:
    """One bar of tqdm, as it is redrawn."""
    clock = f"{int(elapsed) // 60:02}:{int(elapsed) % 60:02}"
    return f"\r{name}{': ' * bool(name)}{done * 100 // total:3}%|##| {done}/{total} [{clock}<01:00,  {pace}]"


def run(name: str, first: int, last: int, total: int, step: float, start: float = 0.0) -> str:
    """The bars of a run from one count to another, each of whose steps takes `step` seconds."""
    return "".join(
        bar(name, n, total, start + (n - first + 1) * step, f"{step:.2f}s/it") for n in range(first, last + 1)
    )


def read(text: str, tmp_path: Path) -> list[dict]:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    return [row["figures"] for row in read_file(path)]


@pytest.mark.parametrize("outer", ["Epoch", "Epochs", "Training", "", "fit"])
@pytest.mark.parametrize("inner", ["Batch", "Iteration", "train", ""])
def test_a_bar_that_another_one_makes_up_counts_epochs(outer: str, inner: str, tmp_path: Path) -> None:
    """Whatever both are called; the validation in each epoch is none of its steps."""
    colour = "\x1b[A\x1b[A"
    text = "".join(
        run(inner, 1, 50, 50, 2.0)
        + colour
        + run("Validation", 1, 10, 10, 1.0)
        + bar(outer, n, 3, 120 * n, "120.00s/it")
        for n in (1, 2, 3)
    )

    assert [{"seconds_per_step": ["2.00"] * 3, "steps_per_epoch": 50}] == read(text, tmp_path)


def test_an_evaluation_between_two_steps_makes_them_no_epochs(tmp_path: Path) -> None:
    """Only some counts of the training's bar come after a whole run of another one."""
    text = run("Map", 1, 300, 300, 0.1) + run("", 1, 10, 20, 3.0) + run("Evaluating", 1, 9, 9, 1.0)
    text += run("", 11, 20, 20, 3.0, start=40)

    assert [{"seconds_per_step": "3.00", "steps": 20}] == read(text, tmp_path)


def test_a_bar_over_epochs_or_steps_is_asked_about(tmp_path: Path) -> None:
    """A bar `Epoch` without a number that runs once could count either; where it says epochs, it is read."""
    with pytest.raises(Unreadable) as refused:
        read(run("Epoch", 1, 10, 10, 20.0), tmp_path)

    assert "does it count epochs, or the steps of one epoch?" in str(refused.value)
    assert [{"seconds_per_epoch": "20.00", "epochs": 10}] == read(
        run("Training", 1, 10, 10, 20.0).replace("s/it", "s/epoch"), tmp_path
    )


def test_a_resumed_run_is_measured_part_by_part(tmp_path: Path) -> None:
    """Trainer's time is that of the last part alone, and so are neither steps nor seconds in all."""
    ends = "{'train_runtime': 400.0, 'train_samples_per_second': 4.0, 'train_steps_per_second': 0.5}"
    path = tmp_path / "train.log"
    path.write_text(run("", 1, 100, 200, 2.0) + run("", 101, 200, 200, 4.0) + ends)
    reported = {"name": "own", "reported": {"files": [str(path)]}}
    (row,) = audit(validate(reported, "own")).runs

    assert [2.0, 4.0] == row.repeats["seconds_per_step"]
    assert not {"steps", "seconds"} & row.given.keys()
    assert () == row.solved.contradictions


def test_a_last_bar_that_shows_a_mean_of_skipped_steps_does_not_count(tmp_path: Path) -> None:
    """Steps that a resumed run skipped took no time: 19 steps took 38 s, and tqdm says 25 steps a second."""
    text = bar("", 981, 1000, 2, "490.50it/s") + bar("", 1000, 1000, 40, "25.00it/s")
    (figures,) = read(text, tmp_path)
    low, high = map(float, figures["seconds_per_step"].split(" - "))

    assert low < 2.0 < high
    assert (high - low) / 2.0 == pytest.approx(2 / 38, rel=0.1)


def test_evaluations_are_left_out_of_a_pace(tmp_path: Path) -> None:
    """The clock goes on in them, and the later bars show what a step takes all the same."""
    text, elapsed = "", 0.0
    for n in range(1, 201):
        elapsed += 0.5 + 25 * (n % 40 == 0)
        text += bar("", n, 200, elapsed, "2.00it/s")

    assert [{"steps_per_second": "2.00", "steps": 200}] == read(text, tmp_path)


@pytest.mark.parametrize(
    ("shown", "figures"),
    [
        ("1.20kit/s", {"steps_per_second": 1200, "steps": 100_000}),
        ("1200.50tok/s", {"tokens_per_second": 1200.5}),
        ("1.00ktok/s", {"tokens_per_second": 1000}),
    ],
)
def test_scaled_bars_and_bars_of_tokens_are_read(shown: str, figures: dict, tmp_path: Path) -> None:
    """As `unit` and `unit_scale` make them, in colour, and after days."""
    text = "".join(
        f"\r\x1b[32m{n:3}%\x1b[0m|##| {n}.0k/100k "
        f"[1 day, 3:{int(n / 1.2) // 60:02}:{int(n / 1.2) % 60:02}<2 days, 1:00:00, \x1b[34m{shown}\x1b[0m]"
        for n in range(1, 100)
    )

    (found,) = read(text, tmp_path)

    assert figures == {name: round(figure(value).middle, 3) for name, value in found.items()}


def test_a_bar_whose_name_is_what_was_measured_is_that_of_an_epoch(tmp_path: Path) -> None:
    """Ultralytics writes the epoch and the losses before its bar, and the columns of its validation before another."""
    text = ""
    for epoch in (1, 2, 3):
        measured = f"        {epoch}/3      4.21G      1.234      1.456      1.123         37        640"
        validation = "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)"
        text += "\n" + run(measured, 1, 50, 50, 2.0) + "\n" + run(validation, 1, 4, 4, 0.5) + "\n"

    assert [{"seconds_per_step": ["2.00"] * 3, "steps_per_epoch": 50}] == read(text, tmp_path)


def test_a_bar_and_last_words_that_count_other_steps_are_not_mixed(tmp_path: Path) -> None:
    """800 micro-batches at 4 a second are 200 steps of 16 samples, and no 64 samples a second."""
    words = "\n{{'train_runtime': 200.0, 'train_samples_per_second': 16.0, 'train_steps_per_second': {}}}\n"
    bars = run("", 1, 800, 800, 0.25)
    path = tmp_path / "train.log"
    path.write_text(bars + words.format("1.0"))
    (other,) = read_file(path)
    path.write_text(bars + words.format("4.0"))
    (same,) = read_file(path)

    assert "samples_per_step" not in other["figures"]
    assert "its bar goes up to 800 and Trainer's last words count 200 steps" in other["questions"][0]
    assert ("samples_per_step" in same["figures"], same["questions"]) == (True, [])


@pytest.mark.parametrize(
    ("name", "pattern", "head"),
    [("train.log", "step {n} | {pace:.2f} s/step\n", ""), ("train.csv", "{n},{pace:.2f}\n", "step,s/step\n")],
)
def test_a_pace_that_changes_midway_is_asked_about(name: str, pattern: str, head: str, tmp_path: Path) -> None:
    """A device that throttles, or a restart: the later half counts, and the reader learns that there was another."""
    path = tmp_path / name

    def asked(*paces: float) -> list[str]:
        path.write_text(head + "".join(pattern.format(n=n, pace=pace) for n, pace in enumerate(paces)))
        (row,) = read_file(path)
        return row["questions"]

    words = "it has 1.00 s/step in its first half and 2.00 in its second, which counts: what changed?"
    assert [words] == asked(*[1.0] * 50, *[2.0] * 50)
    assert [] == asked(*[9.0] * 10, *[1.0] * 90)
    assert [] == asked(*[1.0, 1.6] * 50)


def test_a_bar_that_slows_down_midway_is_asked_about(tmp_path: Path) -> None:
    """As in lines and tables."""
    path = tmp_path / "train.log"
    path.write_text(run("", 1, 200, 400, 1.0) + run("", 201, 400, 400, 2.0, start=200.0))
    (row,) = read_file(path)

    assert row["figures"]["seconds_per_step"] == "2.00"
    assert "it has 1.00 s/step in its first half and 2.00 in its second" in row["questions"][0]


# -- speeds in words --


def lines(text: str, times: int = 12) -> str:
    """A line of a log, several times, the first ones slower."""
    return "".join(text.format(n=n, slow=9 if n < 3 else 2) + "\n" for n in range(times))


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        (
            " iteration {n}00/ 50000 | elapsed time per iteration (ms): {slow}345.6 | learning rate: 1.5E-04 | "
            "global batch size:   256 | lm loss: 3.2E+00 |",
            {"seconds_per_step": 2.3456, "samples_per_step": 256},
        ),
        (
            "\x1b[31mstep: {n}  \x1b[32mloss: 7.8  memory: 47.39GiB(49%)  \x1b[34mtps: {slow},812  \x1b[35mmfu: 45.7%",
            {"tokens_per_second_per_device": 2812, "mfu": 45.7},  # by torchtitan's own words
        ),
        ("epoch 001: {n}00 / 1000 loss=8.1, ppl=300.1, ups={slow}.51, bsz=512, wall=50", {"steps_per_second": 2.51}),
        ("782/782 [=====] - 25s {slow}2ms/step - loss: 1.2 - val_loss: 0.4", {"seconds_per_step": 0.022}),
        (
            "step={n}, RunningAvgSamplesPerSec=28.15, CurrSamplesPerSec={slow}8.30, MemAllocated=12.3GB",
            {"samples_per_second": 28.3},
        ),
        (
            "Train throughput/device/samples_per_sec: {slow}3.47, "
            "throughput/device/batches_per_sec: 0.02, time/epoch: 0",
            {"samples_per_second_per_device": 23.47},
        ),
        ("completed step: {n}, seconds: {n}.1, Tokens/s/device: {slow}838.1", {"tokens_per_second_per_device": 2838.1}),
        ("{{'loss': 1.0, 'epoch': {n}, 'tokens_per_second': {slow}096.0}}", {"tokens_per_second": 2096}),
        ("{n}0it [00:{n:02}, {slow}.50it/s]", {"steps_per_second": 2.5}),
        ("epoch {n} tps: {slow}812 lr: 1e-3 data_time: 0.01 memory: 4512", {"tokens_per_second": 2812}),
        ("INFO:tensorflow:global_step/sec: {slow}.25", {"steps_per_second": 2.25}),
        ("Step {n} | {slow}.25 s/it | 1,300 examples seen", {"seconds_per_step": 2.25}),
        (
            "steps: {n} loss: 2.1900 iter time (s): {slow}.600 samples/sec: 40.0",
            {"seconds_per_step": 2.6, "samples_per_second": 40},
        ),
        ("step={n} loss=2.700 tokens/sec={slow}.21M", {"tokens_per_second": 2_210_000}),
        ("step {n} loss 2.1 tok/s/gpu={slow}200", {"tokens_per_second_per_device": 2200}),
        ("epoch 3 iter {n} lr 0.0003 samples/s {slow}12.3 loss 2.70", {"samples_per_second": 212.3}),
        ("step {n} samples/s: {slow} 234", {"samples_per_second": 2234}),
        ("step {n} | loss 2.700 | tps: {slow}.3k | mem 40.1G", {"tokens_per_second": 2300}),
        ("step {n} | {slow}2.4k tok/s | mem 40.1G", {"tokens_per_second": 22_400}),
        ("step {n} speed {slow}2.5 samples/s 45 GB", {"samples_per_second": 22.5}),
        ("step {n} speed {slow}12.2 tok/s 8 GPUs", {"tokens_per_second": 212.2}),
        ("step {n} speed {slow},345 tok/s 8", {"tokens_per_second": 2345}),
        ("throughput: {slow}5.2 samples/s 3 epochs done", {"samples_per_second": 25.2}),
        ("step {n} time {slow}.32 s/it 12 loss 2.1", {"seconds_per_step": 2.32}),
        (
            "step {n} samples/s {slow}12.2 tokens/s 9012",
            {"samples_per_second": 212.2, "tokens_per_second": 9012},
        ),
        ("iter{n} {slow}2.2 it/s", {"steps_per_second": 22.2}),
        ("step-{n}: {slow}2.2 it/s", {"steps_per_second": 22.2}),
        ("step 5 | 6400 samples {slow}12.2 samples/s", {"samples_per_second": 212.2}),
        ("bwd_time: 0.1 s/iter step_time: {slow}.2 s/iter", {"seconds_per_step": 2.2}),
        ("step {n} {slow}2.2Batches/s", {"steps_per_second": 22.2}),
        ("step {n}: {slow}412 SAMPLES PER SEC", {"samples_per_second": 2412}),
        (
            "Iter {n} | fwd: 0.210 s/iter | bwd: 0.440 s/iter | opt: 0.030 s/iter | total: {slow}.81 s/iter",
            {"seconds_per_step": 2.81},
        ),
        (
            "Step {n} | loss:1.99 lr:0.0003 tokens_per_second_per_gpu:{slow}11.00 peak_memory_active:14.21",
            {"tokens_per_second_per_device": 211},
        ),
        ("Train {n} train_step_timing in s: {slow}.2567 | lr: 0.1", {"seconds_per_step": 2.2567}),
        ("train {n} [{slow}.87ba/s]", {"steps_per_second": 2.87}),
        ("epoch {n} took {slow}1.2 s", {"seconds_per_epoch": 21.2}),
        ("[{n}] 100 steps in {slow}2.1 s", {"seconds_per_step": 0.221}),
        ("step {n}/900 loss 3.1 | 56.8% bf16 MFU | {slow}57834 tok/s", {"tokens_per_second": 257_834, "mfu": 56.8}),
        ("step:{n}/900 train_loss:3.1 step_avg:{slow}8.40ms", {"seconds_per_step": 0.0284}),
        ("step {n} loss 2.8 {slow}5120 tok/s at 12:30:45", {"tokens_per_second": 25_120}),
        (
            "epoch 1: {n} / 100 loss=8.1, ups={slow}.5, wps=41250, wpb=16500",
            {"steps_per_second": 2.5, "tokens_per_second": 41_250, "tokens_per_step": 16_500},
        ),
    ],
)
def test_speeds_in_words_are_read(line: str, figures: dict, tmp_path: Path) -> None:
    """By the grammar of tables, as one figure: the median of the later half; totals and losses are none."""
    (found,) = read(lines(line), tmp_path)

    assert figures == {name: pytest.approx(round(parse(value).middle, 6)) for name, value in found.items()}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("iter {n}: loss 4.0, time {slow}50.00ms, lr 0.1", "'time 950.00ms' in 12 lines: is it of a step, an epoch or"),
        (
            "step {n} | throughput: {slow}812 | loss: 1.2",
            "'throughput 9812' in 12 lines: is it samples or tokens a second",
        ),
        ("{{'loss': 1.0, 'step_time': {slow}.0}}", "'step_time 9.0' in 12 lines: in what unit?"),
        (
            "stage1 {slow}00 tok/s stage2 900 tok/s",
            "tokens/s twice, 200 as 'stage1' and 900 as 'stage2': which",
        ),
        ("Epoch: [0][{n}/100]\tTime  {slow}.412 ( 0.520)\tLoss 6.9", "'Time 9.412' in 12 lines: is it of a step"),
        ("Map: 9000 examples [00:0{slow}, 9000 examples/s]", "no lines say a number with a unit"),
        ("eval {n}: 9000 samples/s", "no lines say a number with a unit"),
        ("Schritt {n} Verlust 2,700 {slow}2,5 it/s", "'92,5 it/s' in 12 lines: found '92,5'; is the comma a decimal"),
    ],
)
def test_what_could_be_several_speeds_is_named(line: str, words: str, tmp_path: Path) -> None:
    """Nothing is guessed, and what was found stands in the message with its question."""
    with pytest.raises(Unreadable) as refused:
        read(lines(line), tmp_path)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("line", "speed"),
    [
        ("step {n} | read 812.1 MB/s | decode {slow}512.1 samples/s | train 211.3 samples/s", "211.3"),
        ("train.loss : 6.9  train.compute_ips : {slow}600.12 images/s train.ips : 2512.33 images/s", "2512.33"),
        ("train.compute_ips {slow}600.12 images/s  train.total_ips 812.33 images/s", "812.33"),
        ("step {n} samples/s 211.3 | peak samples/s {slow}450.1", "211.3"),
        ("eval {slow}00.1 samples/s train 211.3 samples/s", "211.3"),
        ("step {n} compute {slow}512.1 samples/s", "2512.1"),
    ],
)
def test_the_speed_of_a_part_is_not_that_of_training(line: str, speed: str, tmp_path: Path) -> None:
    """A decoder or a computation without its data may be ten times as fast; where nothing else is said, it is told."""
    assert [{"samples_per_second": speed}] == read(lines(line), tmp_path)


@pytest.mark.parametrize(
    ("averages", "asked"),
    [
        ([64.2] * 12, ["its lines say samples/s twice, 105.1 as 'instant' and 64.2 as 'average': which counts?"]),
        ([round(105.1 * n / (n + 4), 1) for n in range(1, 13)], []),
    ],
)
def test_an_average_that_stays_apart_is_asked_about(averages: list[float], asked: list[str], tmp_path: Path) -> None:
    """A slow start is in an average, which comes nearer and nearer to the steps; nothing explains one that does not."""
    path = tmp_path / "train.log"
    path.write_text("".join(f"instant 105.1 samples/s | average {a} samples/s\n" for a in averages))
    (row,) = read_file(path)
    (run,) = (found := audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own"))).runs

    assert row["figures"] == {"samples_per_second": "105.1"}
    assert [text.split("? ")[0] + "?" for text in run.questions] == asked
    assert all(any(text in question for question in found.questions) for text in asked)


def test_a_speed_that_is_said_now_and_then_takes_nothing_from_the_steps(tmp_path: Path) -> None:
    """The summary of each epoch, which holds its evaluation, stands beside the lines of its steps."""
    epoch = lines("step {n}: 0.50 s/step") + "epoch: 0.85 s/step\n"

    assert [{"seconds_per_step": "0.50"}] == read(epoch * 3, tmp_path)


def test_steps_of_an_environment_are_none_of_the_optimizer(tmp_path: Path) -> None:
    """A log of reinforcement learning may count either, so that they are asked about; updates and iterations count."""
    text = "Computation: 9532{n} steps/s (collection: 0.8s, learning 0.2s)\nIteration time: 1.03s\n"
    (tmp_path / "train.log").write_text(lines(text, 9))
    (row,) = read_file(tmp_path / "train.log")
    (found,) = read(lines("episode {n} | reward 3 | 51234 steps/s | 12.1 updates/s"), tmp_path)
    (plain,) = read(lines("step {n} | 51.2 steps/s"), tmp_path)
    with pytest.raises(Unreadable) as refused:
        read(lines("episode {n} | reward 3 | 51234 steps/s"), tmp_path)

    assert (row["figures"], row["questions"][0].split("?")[0]) == (
        {"seconds_per_step": "1.03"},
        "its lines say 95326 steps/s: are they steps of an environment, or of the optimizer",
    )
    assert found == {"steps_per_second": "12.1"}
    assert plain == {"steps_per_second": "51.2"}
    assert "steps of an environment" in str(refused.value)


def test_a_start_without_speed_is_left_out(tmp_path: Path) -> None:
    """The first line of many logs has nothing to divide by."""
    (found,) = read(lines("step {n} loss 2.8 0 tok/s") + lines("step {n} loss 2.8 {slow}5120 tok/s"), tmp_path)

    assert found == {"tokens_per_second": "25120"}


@pytest.mark.parametrize(
    "text",
    [
        '{{"train_runtime": {0}, "train_samples_per_second": 5.18, "train_steps_per_second": 0.081}}',
        "INFO:\n{{\n  'train_runtime': np.float64({0}),\n  'train_samples_per_second': 5.18,\n"
        "  'train_loss': nan, 'train_steps_per_second': 0.081}}",
        "***** train metrics *****\n  epoch = 3.0\n  train_runtime            = 0:20:34.56\n"
        "  train_samples_per_second =  5.18\n  train_steps_per_second   = 0.081\n",
        "{{'train_runtime': {0}, 'train_samples_per_second': 5.18, 'train_steps_per_second': 0.081}}\n"
        "***** train metrics *****\n  train_runtime = 0:20:34.56\n",
    ],
)
def test_trainers_last_words_are_read_however_they_are_printed(text: str, tmp_path: Path) -> None:
    """As Python or JSON, with numpy's numbers, or as a list of metrics; what is said twice counts once."""
    (found,) = read(text.format("1234.56"), tmp_path)

    assert {"seconds": "1234.56", "samples_per_second": "5.18", "steps_per_second": "0.081"} == found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\0\x01\xff\xfe" * 300, "is no text"),
        ("step 1".encode("utf-16-le") * 30, "is no text"),
        (b"{'train_runtime': nan}\n", "expected a number, 0 or more, found 'nan'"),
    ],
)
def test_a_file_without_text_is_told(content: bytes, words: str, tmp_path: Path) -> None:
    """An empty log, another file under a log's name; a figure is told as it stands there."""
    (tmp_path / "train.log").write_bytes(content)
    with pytest.raises(Unreadable) as refused:
        read_file(tmp_path / "train.log")

    assert words in str(refused.value)


@pytest.mark.parametrize(
    "odd",
    [
        "1/2 [99999999999999999999:00<00:01, 1.00s/it]",
        "999999999999T/999999999999T [00:01<00:01, 1.00s/it]",
        "1/2 [00:01<00:01, 0.{zeros}1s/it]",
        "1/2 [00:01<00:01, {nines}it/s]",
        "step 1 | {nines} s/it | time {nines}ms",
    ],
)
def test_numbers_that_no_run_has_never_crash(odd: str, tmp_path: Path) -> None:
    """Beside sound bars and alone they are a row, or a message with the place."""
    line = odd.format(zeros="0" * 120, nines="9" * 120)
    beside = read(line + "\n" + run("", 1, 20, 20, 2.0), tmp_path)
    try:
        alone = read((line + "\n") * 3, tmp_path)
    except Unreadable as refused:
        alone = [str(refused).startswith(f"{tmp_path}")]

    assert all(beside)
    assert all(alone)


@pytest.mark.parametrize("name", ["Steps", "train", "Fine-tuning"])
def test_a_short_bar_without_a_name_is_no_training_beside_a_longer_one(name: str, tmp_path: Path) -> None:
    """A pipeline that draws samples has such a bar, within the training or behind it."""
    sampling = run("", 1, 50, 50, 0.2)
    (figures,) = read(run(name, 1, 500, 500, 1.42) + sampling, tmp_path)

    assert (500, 1.42) == (float(figures["steps"]), float(figures["seconds_per_step"].split(" ")[0]))


@pytest.mark.parametrize("said", ["{{'train_runtime', 'train_loss'}}", "{{[1]: 2, 'train_runtime': 3}}"])
def test_a_set_that_names_trainers_figures_says_none(said: str, tmp_path: Path) -> None:
    """A warning may print one; the list of metrics behind it counts all the same."""
    metrics = "***** train metrics *****\n  train_runtime = 0:20:34.56\n  train_steps_per_second = 0.081\n"
    (found,) = read("Unexpected metrics: " + said.format() + "\n" + metrics, tmp_path)
    with pytest.raises(Unreadable, match="no bar of tqdm"):
        read("Unexpected metrics: " + said.format() + "\n", tmp_path)

    assert {"seconds": "1234.56", "steps_per_second": "0.081"} == found


@pytest.mark.parametrize(
    "name",
    [
        *("Truncating train dataset", "Packing train dataset", "Adding EOS to train dataset", "Shuffling train split"),
        *("Applying chat template to train dataset", "Converting train dataset to ChatML", "Filtering train >1024"),
        *("Extracting prompt in train dataset", "Preparing train", "Ranking train prompts"),
    ],
)
def test_bars_over_a_data_set_are_none_of_training(name: str, tmp_path: Path) -> None:
    """They count its samples before training begins; Trainer's last words tell its speed."""
    end = "{'train_runtime': 1234.56, 'train_samples_per_second': 42.1, 'train_steps_per_second': 0.66}\n"
    done = f"{name}: 100%|##########| 52002/52002 [00:05<00:00, 9500.12 examples/s]\n"
    (found,) = read(done + end, tmp_path)

    assert "42.1" == found["samples_per_second"]


@pytest.mark.parametrize(
    "name", ["Packing train dataset", "Truncating train", "Writing train split", "Resuming training"]
)
def test_a_bar_over_a_data_set_alone_is_no_training(name: str, tmp_path: Path) -> None:
    """Where nothing else is said, it is told that no bar is of training."""
    with pytest.raises(Unreadable, match="no bar of tqdm over training steps"):
        read(run(name, 1, 20, 20, 0.01), tmp_path)


@pytest.mark.parametrize("word", ["valid", "dev", "Validated", "tested", "evaluator", "val", "VALID"])
def test_an_evaluations_lines_and_bars_are_left_out(word: str, tmp_path: Path) -> None:
    """In whatever form it is called; its lines say higher speeds than those of training."""
    texts = [
        f"Epoch {n} | train | loss 2.1 | 211.3 samples/s\nEpoch {n} | {word} | 640.2 samples/s\n" for n in range(9)
    ]
    bars = [run(f"Epoch {n} [train]", 1, 50, 50, 2.0) + run(f"Epoch {n} [{word}]", 1, 50, 50, 0.5) for n in (1, 2)]

    assert [{"samples_per_second": "211.3"}] == read("".join(texts), tmp_path)
    assert [{"seconds_per_step": ["2.00"] * 2, "steps_per_epoch": 50}] == read("".join(bars), tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        *("step {n} | val_bpb 0.91 | 211.3 samples/s", "step {n} | valid tokens 8000 | 211.3 samples/s"),
        *("step {n} | dev cuda:0 | 211.3 samples/s", "torch 2.4.dev2024 | step {n} | 211.3 samples/s"),
        *("step {n} | saved in /dev/shm | 211.3 samples/s", "step {n} | invalid 0 | 211.3 samples/s"),
        *("step {n} | VALUES 3 | 211.3 samples/s", "INFO: learning rate 0.1 | 211.3 samples/s"),
        "2024-05-01 12:00:00 INFO train.py:88 | step {n} | data loaded | 211.3 samples/s",
    ],
)
def test_lines_of_training_may_name_other_things(line: str, tmp_path: Path) -> None:
    """The last evaluation's metric, tokens that are no padding, a device, a version: no evaluation is meant."""
    assert [{"samples_per_second": "211.3"}] == read(lines(line), tmp_path)


@pytest.mark.parametrize("source", ["train.py:131", "src.train:131 -", "[trainer]", "| train | INFO", "train - INFO -"])
@pytest.mark.parametrize(
    "said", ["| eval | 640.2 samples/s", "eval_samples_per_second: 640.2", "EvalSamplesPerSec=640.2"]
)
def test_a_program_that_is_called_train_makes_no_evaluation_a_training(source: str, said: str, tmp_path: Path) -> None:
    """Nor is an evaluation's speed taken where nothing else is said."""
    evaluation, training = f"INFO {source} {said}\n", f"INFO {source} step 100 | 211.3 samples/s\n"

    assert [{"samples_per_second": "211.3"}] == read((training + evaluation) * 9, tmp_path)
    with pytest.raises(Unreadable):
        read(evaluation * 9, tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        *("Evaluated 50 batches in 4.2 s", "Validated 50 batches in 4.2 s", "INFO tested 50 batches in 4.2 s"),
        *("2024-05-01 12:00:00 INFO Saving checkpoint of epoch 1 took 3.4 s", "Checkpoint of epoch 1 took 3.4 s"),
        *("INFO | Scored 50 batches in 4.2 s", "INFO: Wrote epoch 1 in 3.4 s"),
        *("[12:00:00] Uploading the weights of epoch 1 took 3.4 s", "Statistics for epoch 1 took 3.4 s"),
    ],
)
def test_what_is_done_beside_the_steps_is_no_speed(other: str, tmp_path: Path) -> None:
    """An evaluation that is over, and a save: an epoch's time is its own."""
    text = "".join(f"Epoch {n} took 61.2 s\n{other}\n{other}\n" for n in range(6))

    assert [{"seconds_per_epoch": "61.2"}] == read(text, tmp_path)


@pytest.mark.parametrize(
    "head",
    [
        *("", "2024-05-01 12:00:00 INFO ", "2024-05-01 12:00:00,123 - INFO - __main__ - ", "INFO:root:", "[rank0]: "),
        *("[2024-05-01 12:00:00][INFO] ", "2024-05-01T12:00:00Z ", "12:00 AM ", "INFO train.py:88 | ", "data.py:3 "),
        *("[train.py:88] ", "05/01/2024 12:00:00 - INFO - train - ", "(TrainWorker pid=123) "),
    ],
)
@pytest.mark.parametrize(
    "what", ["tokenizing", "Packing", "Filtering", "mapping", "Loading", "Dataset ready", "Shuffling"]
)
def test_what_comes_before_training_is_none_of_it_behind_any_prefix(head: str, what: str, tmp_path: Path) -> None:
    """A time, a level, a process and a logger may stand before a message."""
    text = f"{head}{what}: 9000 samples/s\n" * 2 + f"{head}step 10: 2.00 s/it\n" * 2

    assert [{"seconds_per_step": "2.00"}] == read(text, tmp_path)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "names", [("Training", "Training"), ("Train stage 1", "Train stage 2"), ("Epoch 1/1 train",) * 2]
)
def test_bars_of_training_with_other_totals_are_runs(names: tuple[str, str], order: int, tmp_path: Path) -> None:
    """In either order; none of them is left out."""
    runs = [run(names[0], 1, 200, 200, 1.0), run(names[1], 1, 100, 100, 1.5)][::order]

    assert ["1.00", "1.50"][::order] == [found["seconds_per_step"] for found in read("".join(runs), tmp_path)]


@pytest.mark.parametrize("name", ["Epoch {}/2", "Epoch {}/2 [train]", "Train [{}/2]"])
@pytest.mark.parametrize("total", [50, 20])
def test_epochs_that_begin_again_are_another_run(name: str, total: int, tmp_path: Path) -> None:
    """Its number falls; an epoch that broke off and begins again is of a run that was resumed."""
    one, other = (
        "".join(run(name.format(n), 1, of, of, step) for n in (1, 2)) for of, step in ((50, 1.0), (total, 2.0))
    )
    broken = run(name.format(1), 1, 20, 50, 3.0)

    assert [["1.00"] * 2, ["2.00"] * 2] == [found["seconds_per_step"] for found in read(one + other, tmp_path)]
    assert [["1.00"] * 2] == [found["seconds_per_step"] for found in read(broken + one, tmp_path)]


def test_bars_over_epochs_that_begin_again_are_another_run(tmp_path: Path) -> None:
    """The count of epochs falls, whatever the bars over steps are called."""
    one, other = (
        "".join(run("", 1, 50, 50, step) + bar("Epochs", n, 3, 120 * n, "120.00s/it") for n in (1, 2, 3))
        for step in (1.0, 2.0)
    )

    assert [["1.00"] * 3, ["2.00"] * 3] == [found["seconds_per_step"] for found in read(one + other, tmp_path)]
    assert ["1.00"] * 3 == read(one + run("", 1, 30, 50, 2.0), tmp_path)[0]["seconds_per_step"]


def test_bars_of_one_epoch_with_other_totals_are_asked_about(tmp_path: Path) -> None:
    """The shorter one may be an evaluation or another run; between two of training it is an evaluation."""
    train, other = run("Epoch 1", 1, 50, 50, 1.0), run("Epoch 1", 1, 10, 10, 2.0)
    with pytest.raises(Unreadable, match="holds bars of 50 and 10 steps: which are training"):
        read(train + other, tmp_path)
    both = (train + other) + (train + other).replace("Epoch 1", "Epoch 2")

    assert [{"seconds_per_step": ["1.00"] * 2, "steps_per_epoch": 50}] == read(both, tmp_path)


def test_a_speed_of_an_evaluation_alone_is_told_as_such(tmp_path: Path) -> None:
    """It is none of training, and the reader learns what was found."""
    with pytest.raises(Unreadable) as refused:
        read(lines("INFO train.py: eval_samples_per_second: {slow}81.2"), tmp_path)

    assert "'eval_samples_per_second 981.2' in 12 lines: it is of an evaluation" in str(refused.value)


def test_a_log_of_single_bars_has_several_runs_too(tmp_path: Path) -> None:
    """Only the last state of each bar may be left in a log; a process that is behind begins no other run."""
    one = "".join(bar(f"Epoch {n}/2", 200, 200, 200, "1.00s/it") for n in (1, 2))
    first, second = run("Epoch 1/2", 1, 99, 100, 1.0), run("Epoch 2/2", 4, 100, 100, 1.0)
    late = bar("Epoch 1/2", 100, 100, 100, "1.00s/it")
    begins = bar("Epoch 2/2", 1, 100, 1, "1.00s/it")

    assert 2 == len(read(one * 2, tmp_path))
    assert 1 == len(read(first + begins + late + late + begins + late + second, tmp_path))


def test_two_bars_of_one_name_in_each_epoch_are_asked_about(tmp_path: Path) -> None:
    """One of them may evaluate; an epoch that is whole and begins again alone is another run."""
    each = [run(f"Epoch {n}", 1, 50, 50, step) for n in (1, 2, 3) for step in (1.0, 0.3)]
    with pytest.raises(Unreadable, match="holds two bars called 'Epoch 1', and two in each epoch"):
        read("".join(each), tmp_path)

    assert ["1.00", "0.30"] == [found["seconds_per_step"] for found in read(each[0] + each[1], tmp_path)]


@pytest.mark.parametrize("done", ["Finished", "Completed", "INFO Trained", "Training of", "Time for", ""])
def test_an_epoch_that_was_trained_says_its_time(done: str, tmp_path: Path) -> None:
    """Whatever word of training or time stands before it."""
    assert [{"seconds_per_epoch": "61.2"}] == read(lines(f"{done} epoch {{n}} in 61.2 s"), tmp_path)


def test_names_of_metrics_may_be_paths(tmp_path: Path) -> None:
    """The part that says training or evaluation may be anywhere in them."""
    line = '{{"perf/eval/samples_per_second": 640.2, "perf/train/samples_per_second": 211.3}}'

    assert [{"samples_per_second": "211.3"}] == read(lines(line), tmp_path)


# -- what is not training, is told twice, or stands beside a log --

ULTRALYTICS = (
    "{n}/3      4.21G      1.234      1.456      1.123         37        640: 100% ━━━━━━━━━━━━ 50/50 {pace} 12.2s\n"
    "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
    "100% ━━━━━━━━━━━━ 4/4 8.2it/s 0.5s\n"
)


@pytest.mark.parametrize(("pace", "quantity"), [("4.1it/s", "steps_per_second"), ("1.3s/it", "seconds_per_step")])
def test_bars_without_brackets_are_told_apart_by_their_names(pace: str, quantity: str, tmp_path: Path) -> None:
    """Those of validation are none of training, whose epochs they follow."""
    (figures,) = read("".join(ULTRALYTICS.format(n=n, pace=pace) for n in (1, 2, 3)), tmp_path)

    assert {quantity: pace[:3], "steps_per_epoch": 50} == figures


def test_bars_without_brackets_may_be_drawn_again(tmp_path: Path) -> None:
    """Each state shows what was done so far, and what remains."""
    drawn = "\r1/1      4.21G      1.234         37        640: {}% ━━━╸──────── {}/50 4.1it/s {}s<9.0s"
    (figures,) = read("".join(drawn.format(2 * n, n, round(n / 4.1, 1)) for n in range(1, 51)), tmp_path)

    assert {"steps_per_second": "4.1", "steps_per_epoch": 50} == figures


LAST_WORDS = (
    "{{'train_runtime': {0}, 'train_samples_per_second': 5.18, 'train_steps_per_second': 0.081, 'epoch': 1.0}}\n"
)
RETURNED = (
    "TrainOutput(global_step=100, training_loss=2.1, metrics={{'train_runtime': {0}, 'train_samples_per_second': 5.18, "
    "'train_steps_per_second': 0.081}})\n"
)


def test_a_training_that_is_told_twice_is_one(tmp_path: Path) -> None:
    """A script prints what `train` returns, with more digits; a second training has a time of its own."""
    once = read(LAST_WORDS.format(1234.56) + RETURNED.format(1234.5601), tmp_path)
    twice = read(LAST_WORDS.format(1234.56) + LAST_WORDS.format(1250.11), tmp_path)

    assert ["1234.5601"] == [figures["seconds"] for figures in once]
    assert ["1234.56", "1250.11"] == [figures["seconds"] for figures in twice]


@pytest.mark.parametrize("every", [1, 50])
def test_a_run_that_slows_down_midway_contradicts_nothing(every: int, tmp_path: Path) -> None:
    """Its pace is that of the later half, and no factor of its whole time; what changed is asked."""
    ends = "\n{'train_runtime': 600.0, 'train_samples_per_second': 5.333, 'train_steps_per_second': 0.667}\n"
    counts = [1, *range(max(2, every), 401, every)]
    paces = [(n, min(n, 200) + 2 * max(0, n - 200)) for n in counts]
    path = tmp_path / "train.log"
    path.write_text("".join(bar("", n, 400, t, f"{1 + (n > 200)}.00s/it") for n, t in paces) + ends)
    found = audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own"))

    assert [] == found.findings
    assert 2.0 == found.runs[0].given["seconds_per_step"].middle
    assert any("what changed?" in question for question in found.questions)
    assert any("s in all (600.0) are left out" in question for question in found.questions)


STEPS = "".join(f"step {n} | 2.25 s/it\n" for n in range(10, 60, 10))
NVIDIA_SMI = """
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:04:00.0 Off |                    0 |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""


@pytest.mark.parametrize(
    "text",
    [
        NVIDIA_SMI + STEPS,
        "| key | value |\n|-----|-------|\n| optimizer | adamw |\n" + STEPS.replace(" |", ":"),
        "+-----+-------+\n| key | value |\n+-----+-------+\n| seed | x |\n+-----+-------+\n" + STEPS,
        "INFO\tstarting\n" + "".join(f"INFO\tstep {n}: 2.25 s/it\n" for n in (10, 20, 30)),
    ],
    ids=["nvidia-smi", "Markdown", "drawn", "tabs"],
)
def test_a_box_or_tabs_make_a_log_no_table(text: str, tmp_path: Path) -> None:
    """A table without a figure may stand in a log, whose lines say a speed."""
    assert [{"seconds_per_step": "2.25"}] == read(text, tmp_path)


def test_a_table_that_is_not_understood_is_no_log(tmp_path: Path) -> None:
    """Its rows are runs, and their middle is the speed of none."""
    for text in ("| run | note |\n|--|--|\n| a | 12.5 samples/s (fp16) |\n| b | 20 samples/s (fp32) |\n",
                 "run\tnote\na\t12.5 samples/s (fp16)\nb\t20 samples/s (fp32)\n"):  # fmt: skip
        with pytest.raises(Unreadable, match="no column holds a figure"):
            read(text, tmp_path)


@pytest.mark.parametrize("prefix", ["[default0]:", "[rank0]:", "0:", "[1,0]<stderr>:", "worker-0:", "gpu-3.cluster:"])
def test_what_a_launcher_writes_before_a_line_is_no_name(prefix: str, tmp_path: Path) -> None:
    """Neither of torchrun, nor of srun, mpirun or pdsh; a bar behind it keeps its own name."""
    words = "".join(f"{prefix} {text}\n" for text in ("starting", "loading", "ready", "training"))
    own = bar("", 250, 1000, 250, "1.00s/it")[1:], bar("", 500, 1000, 500, "1.00s/it")[1:]
    nameless = read(words + "".join(f"{prefix} {text}\n" for text in own), tmp_path)
    named = read(
        words + f"{prefix} " + bar("Loading", 5, 9, 5, "1.00s/it")[1:] + "\n" + f"{prefix} {own[1]}\n", tmp_path
    )

    assert [{"seconds_per_step": "1.00"}] == nameless == named


@pytest.mark.parametrize(
    "line",
    [
        "fwd: 0.21 s/iter | bwd: 0.44 s/iter | opt step: 0.03 s/iter | total: 0.81 s/iter",
        "embed: 0.21 s/iter | blocks: 0.44 s/iter | head: 0.13 s/iter | total: 0.81 s/iter",
        "update: 0.03 s/iter | total: 0.81 s/iter",
    ],
)
def test_a_total_time_counts_before_its_parts(line: str, tmp_path: Path) -> None:
    """It is their sum; a mean of the run that is called a total comes nearer to the times of single lines."""
    means = "".join(f"step {n} | 2.00 s/iter | total: {2 + 6 / n:.2f} s/iter\n" for n in range(1, 30))

    assert [{"seconds_per_step": "0.81"}] == read(f"{line}\n" * 6, tmp_path)
    assert [{"seconds_per_step": "2.00"}] == read(means, tmp_path)


def test_a_speed_of_reinforcement_learning_is_asked_about(tmp_path: Path) -> None:
    """`SPS` counts samples, or steps of an environment."""
    with pytest.raises(Unreadable, match="steps of an environment"):
        read("".join(f"global_step={n} SPS: 1{n}\n" for n in range(10, 20)), tmp_path)


def test_processes_behind_a_launchers_prefix_are_one_training(tmp_path: Path) -> None:
    """Each writes the bar of the same steps, with its number before it."""
    drawn = "".join(f"{rank}: {bar('', n, 100, 2 * n, '2.00s/it')[1:]}\n" for n in range(1, 101) for rank in (0, 1))

    assert [{"seconds_per_step": "2.00", "steps": 100}] == read(drawn, tmp_path)


# -- bars of a part of the steps --

WORDS_OF_ALL = "{'train_runtime': 312.4, 'train_samples_per_second': 25.6, 'train_steps_per_second': 1.6}"
WHOLE = {"samples_per_second": "25.6", "steps_per_second": "1.6", "seconds": "312.4"}
FIRST_BAR, OF_A_HALF = "  3%|##| 15/500 [00:20<10:47,  1.33s/it]", " 50%|##| 250/500 [05:32<05:32,  1.33s/it]"


@pytest.mark.parametrize(
    ("text", "figures", "asked"),
    [
        ([FIRST_BAR, WORDS_OF_ALL], [WHOLE], ["are the later bars missing"]),
        ([WORDS_OF_ALL, FIRST_BAR], [WHOLE], ["are the later bars missing", "which is not all there"]),  # two streams
        ([OF_A_HALF, WORDS_OF_ALL], [{"seconds_per_step": "1.33"}], ["was it stopped or resumed"]),
        ([WORDS_OF_ALL, FIRST_BAR.replace("500", "900")], [{"seconds_per_step": "1.33"}], ["are left out"]),
    ],
)
def test_bars_of_the_first_steps_are_not_the_speed_of_all(
    text: list[str], figures: list[dict], asked: list[str], tmp_path: Path
) -> None:
    """Trainer's last words are over all steps. Those of another training are asked about."""
    (tmp_path / "train.log").write_text("\n".join(text) + "\n")
    rows = read_file(tmp_path / "train.log")

    assert figures == [{k: v for k, v in row["figures"].items() if k != "samples_per_step"} for row in rows]
    questions = [question for row in rows for question in row["questions"]]
    assert len(asked) == len(questions)
    assert all(word in question for word, question in zip(asked, questions, strict=True))


# -- words that are of training after all --


@pytest.mark.parametrize("name", ["[Train {}]", "[Val {}]", "[Fine-tune {}]", "{}", "[{}]"])
def test_the_number_of_an_epoch_is_no_launchers_prefix(name: str, tmp_path: Path) -> None:
    """Each epoch would be a training of its own; one whose name does not say so is refused."""
    text = "starting\n" + "".join(run(name.format(n), 1, 50, 50, 2.0) + "\n" for n in (1, 2, 3))
    if "Train" in name or "Fine" in name:
        assert [{"seconds_per_step": ["2.00"] * 3, "steps_per_epoch": 50}] == read(text, tmp_path)
    else:
        with pytest.raises(Unreadable, match="no bar of tqdm over training steps"):
            read(text, tmp_path)


def test_a_validation_that_a_number_follows_is_none_of_training(tmp_path: Path) -> None:
    """Nor where both are in brackets."""
    text = "".join(run(f"[Train {n}]", 1, 50, 50, 2.0) + run(f"[Val {n}]", 1, 50, 50, 0.5) for n in (1, 2, 3))

    assert [{"seconds_per_step": ["2.00"] * 3, "steps_per_epoch": 50}] == read(text, tmp_path)


@pytest.mark.parametrize(
    ("line", "quantity"),
    [
        ("dataloader: 0.012 s | step: 0.31 s/it | 412 samples/s", "samples_per_second"),
        ("data loading: 0.01 s | 412 samples/s", "samples_per_second"),
        ("dataset: c4 | step {n} | 412 samples/s", "samples_per_second"),
        ("caching: 0.01 s | 412 samples/s", "samples_per_second"),
        ("cached: 12 GiB | step {n} | loss 2.31 | 412 samples/s", "samples_per_second"),
        ("step {n} | error 0.31 | mAP: 0.42 | 412 samples/s", "samples_per_second"),
        ("step {n} | error 0.31 | map 0.42, 412 samples/s", "samples_per_second"),
        ("mAP: 0.42 | 412 samples/s", "samples_per_second"),
        ("step {n} | warning 3.0 | saved: 0.1 | 412 samples/s", "samples_per_second"),
        ("mapping_head 0.2 | 412 samples/s", "samples_per_second"),
        ("epoch {n} train_nll 2.1 val_nll 2.3 | 412 samples/s", "samples_per_second"),
        ("epoch {n} train_nll 2.1 val_nll 2.3 | 412 tok/s", "tokens_per_second"),
        ("train_err 8.1 test_err 9.2 | 412 samples/s", "samples_per_second"),
        ("train 0.213 val 0.251 | 412 samples/s", "samples_per_second"),
        ("train/cost 2.1, val/cost 2.3, 412 samples/s", "samples_per_second"),
        ("Epoch {n}/3 done (train 480.1 s, val 132.2 s), 412 samples/s", "samples_per_second"),
        ("optimiser step: 0.03 s/iter | bwd: 0.2 s/iter | 412 samples/s", "samples_per_second"),
    ],
)
def test_a_line_of_training_may_say_the_numbers_of_other_work(line: str, quantity: str, tmp_path: Path) -> None:
    """The time of a load, the last evaluation's metric or an error: they name a number of their own."""
    assert "412" == read(lines(line), tmp_path)[0][quantity]


@pytest.mark.parametrize(
    "line",
    [
        "train 2.1 | eval | 640.2 samples/s",
        "train_nll 2.1 val_samples_per_second 640.2",
        "train 2.1 | val 640.2 samples/s",
        "train 2.1, eval_speed 640.2 samples/s",
        "Loading took 3.4 s, 9000 samples/s",
        "Building index: 0.5 s, 9000 samples/s",
        "Tokenizing: 300 of 900 | 9000 samples/s",
        "ERROR | Saved 3, 9000 samples/s",
        "Loading train: a.bin, epoch 1, 9000 samples/s",
        "error - mapping: 9000 samples/s",
    ],
)
def test_a_speed_of_other_work_stays_none_of_training(line: str, tmp_path: Path) -> None:
    """Though its line names training, or a time."""
    with pytest.raises(Unreadable):
        read(lines(line), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "Training split {}/5",
        "Epoch 1 dataset {}/3",
        "Training with cached features {}",
        "Training on dataset A {}",
        "Training generator {}",
    ],
)
def test_a_part_of_the_data_may_be_trained_on(name: str, tmp_path: Path) -> None:
    """A number tells which part it is; a bar over a data set without one prepares it."""
    (found,) = read(run(name.format(1), 1, 50, 50, 2.0), tmp_path)

    assert "2.00" == found["seconds_per_step"]
    for other in (
        *("train split", "Train dataset", "Epoch 1: loading data", "train: caching images", "Counting train tokens"),
        *("Preload train", "train tokenization", "trainCache", "Running tokenizer on train dataset", "Reloading train"),
    ):
        with pytest.raises(Unreadable, match="no bar of tqdm over training steps"):
            read(run(other, 1, 50, 50, 2.0), tmp_path)


@pytest.mark.parametrize("name", ["gradient checkpointing tokens/s", "sequence packing tokens/s", "packing_tokens/s"])
def test_a_speed_that_may_be_of_preparation_is_asked_about(name: str, tmp_path: Path) -> None:
    """Gradient checkpointing is of training, and packing may be; where training is named behind it, it is read."""
    with pytest.raises(Unreadable, match="is it of training, or of what is done before it"):
        read(lines(f"step {{n}} | {name}: 812"), tmp_path)

    assert [{"tokens_per_second": "812"}] == read(lines("step {n} | packing train tokens/s: 812"), tmp_path)


def test_parts_of_a_step_are_known_however_they_are_spelt(tmp_path: Path) -> None:
    """One list tells what is a part, to lines with one speed and to those with several."""
    for spelt in ("optimizer", "optimiser", "optim"):
        text = lines(f"{spelt} step: 0.03 s/iter | bwd: 0.20 s/iter | 0.81 s/iter")
        assert [{"seconds_per_step": "0.81"}] == read(text, tmp_path)
    for part in ("optimizer", "optimiser", "sync"):
        assert is_part(f"{part}_samples_per_second")


def test_the_only_part_of_a_total_is_far_below_it(tmp_path: Path) -> None:
    """A total a little above it may be a mean of the run; only several parts may add up to slightly more."""
    one = lines("update: 0.50 s/iter | total: 0.70 s/iter")
    several = lines("embed: 0.40 s/iter | blocks: 0.40 s/iter | total: 0.76 s/iter")

    assert [{"seconds_per_step": "0.50"}] == read(one, tmp_path)
    assert [{"seconds_per_step": "0.76"}] == read(several, tmp_path)


def test_numbers_may_stand_in_quotes(tmp_path: Path) -> None:
    """As in JSON that a logger writes with every value as a text."""
    line = '2025-06-12 09:00:35 | INFO | train_inner | {{"epoch": 1, "wps": "36571.4", "ups": "2.857", "wall": "{}"}}\n'
    (figures,) = read("".join(line.format(35 * i) for i in range(1, 20)), tmp_path)

    assert {"tokens_per_second": "36571.4", "steps_per_second": "2.857"} == figures


@pytest.mark.parametrize(
    "line",
    [
        '{{"time": "2025-06-12 09:00:{:02d}", "step": 1, "loss": "1.0"}}',
        "time: 2025-06-12 09:00:{:02d} step: 1",
        '{{"time": "412 of {}", "step": 1}}',
    ],
)
def test_a_date_is_no_number(line: str, tmp_path: Path) -> None:
    """A number in quotes has nothing beside it but its unit, and nobody asks what the year is the time of."""
    with pytest.raises(Unreadable) as error:
        read("".join(line.format(i) + "\n" for i in range(40)), tmp_path)

    assert "It has" not in str(error.value)


def test_the_speed_of_a_warm_up_is_not_asked_about(tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as error:
        read("warmup speed 3.2 it/s\n" + "step 1 loss 2\n" * 30, tmp_path)

    assert "whole training" not in str(error.value)


def test_a_speed_that_one_line_says_is_asked_about(tmp_path: Path) -> None:
    """It may be that of the whole run, and is told where nothing else is known."""
    lines = "".join(f"iter: {i}  total_loss: 1.6  time: 0.4201  data_time: 0.0213\n" for i in range(19, 400, 20))
    with pytest.raises(Unreadable, match=r"'0.4203 s / it' in one line: is it the speed of the whole training\?"):
        read(lines + "Overall training speed: 398 iterations in 0:02:47 (0.4203 s / it)\n", tmp_path)


BAR_OF_AN_EPOCH = "Epoch {}: {:3d}%|███| {}/{} [{:02d}:{:02d}<00:01,  {}it/s, {}train_loss=1.31]\n"


def epochs(pace: float, total: int, shown: str) -> str:
    """The log of two epochs of a bar each."""
    clocks = [(done, round(done / pace)) for done in (total // 4, total // 2, total)]
    return "".join(
        BAR_OF_AN_EPOCH.format(epoch, 100 * done // total, done, total, *divmod(clock, 60), pace, shown)
        for epoch in (0, 1)
        for done, clock in clocks
    )


@pytest.mark.parametrize(
    ("shown", "totals", "paces", "gain"),
    [
        ("v_num=0, ", (1250, 1250), (3.80, 4.06), 4.06 / 3.80),  # Lightning's
        ("v_num=0, ", (1250, 625), (3.80, 4.06), 4.06 / 3.80),  # half of the data
        ("", (1250, 1250), (3.80, 4.06), 4.06 / 3.80),  # an epoch has as many of them
        ("", (1000, 1000), (4.00, 1.02), 4 * 1.02 / 4.00),  # as many steps are called an epoch
        ("", (1250, 313), (4.00, 1.02), 4 * 1.02 / 4.00),
    ],
)
def test_a_bar_over_the_batches_of_a_loader_counts_micro_batches(
    tmp_path: Path, shown: str, totals: tuple[int, int], paces: tuple[float, float], gain: float
) -> None:
    """A bar that goes up to as much with four micro-batches a step as with one counts no steps."""
    rows = []
    for name, parts, total, pace in zip("ab", (1, 4), totals, paces, strict=True):
        (tmp_path / f"{name}.log").write_text(epochs(pace, total, shown), encoding="utf-8")
        settings = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": parts}
        rows.append({"label": name, "settings": settings})
    files = [str(tmp_path / f"{name}.log") for name in "ab"]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": f"{gain:.2f}"}
    data = {"name": "own", "reported": {"files": files, "rows": rows, "claims": [claim]}}
    (found,) = audit(validate(data, "own")).claims

    assert found.gain.middle == pytest.approx(gain, rel=0.01)
    assert "micro" not in found.reason
