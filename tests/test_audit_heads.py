"""Heads of logs: what they state of the batch, the devices and the samples counts, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, audit
from slowstep.audit.read import read_file
from slowstep.settings.load import validate
from slowstep.settings.reported import Row

SPOKEN = "".join(f"step {n} | loss 2.1 | 0.50 s/step\n" for n in range(1, 41))


def bar(steps: int, seconds: float, name: str = "") -> str:
    """The bars of a training of so many steps."""
    shown = ((n, round(n * seconds)) for n in range(1, steps + 1))
    clocks = ((n, f"{s // 3600}:{s // 60 % 60:02}:{s % 60:02}") for n, s in shown)
    return "".join(f"\r{name}{100 * n // steps:3}%|##| {n}/{steps} [{s}<00:10, {seconds:.2f}s/it]" for n, s in clocks)


def trainer(batch: int, steps: int, seconds: float, *, devices: int = 1, accumulated: int = 1, prefix: str = "") -> str:
    """What Trainer prints of a training without its last words."""
    lines = (
        "***** Running training *****",
        "  Num examples = 12,000",
        "  Num Epochs = 3",
        f"  Instantaneous batch size per device = {batch:,}",
        f"  Total train batch size (w. parallel, distributed & accumulation) = {batch * accumulated * devices:,}",
        f"  Gradient Accumulation steps = {accumulated}",
        f"  Total optimization steps = {steps:,}",
        "  Number of trainable parameters = 7,241,732,096",
    )
    return "".join(f"{prefix}{line}\n" for line in lines) + bar(steps, seconds) + "\n"


def read(text: str, tmp_path: Path) -> list[Row]:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    return [Row(**row) for row in read_file(path)]


def judged(tmp_path: Path, logs: dict[str, str], **claim: str) -> Audit:
    """The audit of some logs with a claim on the first two."""
    files = [tmp_path / f"{name}.log" for name in logs]
    for path, text in zip(files, logs.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    on = {"text": "it is faster", "baseline": files[0].stem, "treatment": files[1].stem} | claim
    return audit(validate({"name": "own", "reported": {"files": list(map(str, files)), "claims": [on]}}, "own"))


@pytest.mark.parametrize("prefix", ["", "[INFO|trainer.py:2519] 2026-11-12 10:11:12,123 >> ", "[rank0]: "])
def test_a_training_states_its_batch_and_its_devices(prefix: str, tmp_path: Path) -> None:
    """Behind any prefix; the lines of an evaluation are left out."""
    evaluation = "***** Running Evaluation *****\n  Num examples = 100\n  Batch size = 16\n"
    (row,) = read(evaluation + trainer(8, 94, 1.0, devices=4, accumulated=2, prefix=prefix) + evaluation, tmp_path)

    assert {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2} == row.settings
    assert ("64", "4") == (row.figures["samples_per_step"], row.figures["devices"])


def test_a_model_that_is_split_has_more_devices_than_copies(tmp_path: Path) -> None:
    """Four batches a step are of four copies, each on two devices: how many they are in all is not reckoned."""
    (row,) = read("tensor_parallel_size: 2\n" + trainer(8, 94, 1.0, devices=4), tmp_path)

    assert "32" == row.figures["samples_per_step"]
    assert "devices" not in row.figures


@pytest.mark.parametrize(("speed_up", "verdict"), [("1/3", "contradicted"), ("1", "holds")])
def test_batches_in_heads_make_steps_comparable(speed_up: str, verdict: str, tmp_path: Path) -> None:
    """Three times the time for three times the samples."""
    logs = {"b32": trainer(32, 120, 1.0), "b96": trainer(96, 40, 3.0)}
    (claim,) = judged(tmp_path, logs, speed_up=speed_up, factor="per_device_train_batch_size").claims

    assert verdict == claim.judgement.value


def test_trainings_in_one_log_have_a_head_each(tmp_path: Path) -> None:
    """A shorter bar behind a head is no evaluation of the first training; of two beginnings the second one counts."""
    broke_off = trainer(64, 20, 1.0).split("\r")[0]
    first, second = read(broke_off + trainer(32, 120, 1.0) + trainer(96, 40, 3.0), tmp_path)

    assert (32, 96) == tuple(row.settings["per_device_train_batch_size"] for row in (first, second))
    assert ("1.00", "3.00") == tuple(row.figures["seconds_per_step"] for row in (first, second))


@pytest.mark.parametrize(
    ("head", "settings", "figures"),
    [
        (
            '{\n  "per_device_train_batch_size": 4,\n  "per_device_eval_batch_size": 9,\n  "bf16": true\n}\n',
            {"per_device_train_batch_size": 4, "bf16": True},
            {},
        ),
        (
            "data:\n  sequence_len: 2048\n  micro_batch_size: 2\nval_data:\n  micro_batch_size: 7\n",
            {"max_length": 2048, "per_device_train_batch_size": 2},
            {},
        ),
        (
            "  micro_batch_size ........... 2\n  global_batch_size ...... 512\n  world_size ....... 64\n"
            "  accumulate_grad_batches ..... 1\n",
            {"per_device_train_batch_size": 2},
            {"samples_per_step": "512", "devices": "64"},
        ),
        (
            "[INFO] train_micro_batch_size_per_gpu  4\n[INFO] train_batch_size ... 64\n"
            "[INFO] gradient_accumulation_steps .. 2\n[INFO] world_size ... 8\n",
            {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
            {"devices": "8"},
        ),
        (
            "Evaluation results:\n  accuracy: 0.5\nTraining:\n  micro_batch_size: 4\n",
            {"per_device_train_batch_size": 4},
            {},
        ),
        ("SFTConfig(\n_n_gpu=1,\nmax_length=1024,\n)\n", {"max_length": 1024}, {}),
        ('GenerationConfig {\n  "max_length": 20\n}\nLlamaTokenizer(x=1, model_max_length=4096)\n', {}, {}),
        ("max batch size: 64\ntotal batch size: 524,288\n{'eval': {'micro_batch_size': 3}}\n", {}, {}),
        ("world_size=1\nNum processes: 8\n", {}, {"devices": "8"}),
        ("$ accelerate launch --num_processes 4 train.py\n", {}, {"devices": "4"}),
    ],
)
def test_heads_are_read_in_any_form(head: str, settings: dict, figures: dict, tmp_path: Path) -> None:
    """JSON, YAML, arguments, dots; parts that are not of training say nothing of it."""
    (row,) = read(head + SPOKEN, tmp_path)

    assert settings == row.settings
    assert {"seconds_per_step": "0.50"} | figures == row.figures


def test_a_batch_that_may_be_of_all_devices_is_read_as_a_tables_is(tmp_path: Path) -> None:
    """Both meanings make the same ratio. With accumulation beside it they do not, and it is asked about."""

    def both(*accumulated: str) -> Audit:
        logs = {
            f"b{size}": f"Namespace(batch_size={size}, lr=0.1{more})\n{SPOKEN.replace('0.50', pace)}"
            for size, pace, more in zip((32, 64), ("0.50", "1.00"), accumulated, strict=True)
        }
        return judged(tmp_path, logs, speed_up="1/2")

    assert "contradicted" == both("", "").claims[0].judgement.value
    asked = both(", grad_accum_steps=4", ", grad_accum_steps=2")
    assert asked.claims[0].judgement.value not in ("holds", "contradicted")
    assert any("batch_size" in question for question in asked.questions)


def test_a_name_with_two_values_is_asked_about(tmp_path: Path) -> None:
    """And the others of a step say nothing without it."""
    (row,) = read("--micro_batch_size 4\nmicro_batch_size: 8\ngradient_accumulation_steps: 2\n" + SPOKEN, tmp_path)

    assert {} == row.settings
    assert ["its head says 'micro_batch_size' as 4 and 8: which counts?"] == row.questions


def test_settings_that_no_run_can_have_are_asked_about(tmp_path: Path) -> None:
    """The log is read all the same."""
    found = judged(tmp_path, dict.fromkeys("ab", "bf16: true\nfp16: true\n" + SPOKEN), speed_up="1")

    assert all(0.5 == run.solved.known["seconds_per_step"].middle for run in found.runs)
    assert any("bf16 and fp16 are both true" in question for question in found.questions)


def test_a_line_of_training_is_no_head(tmp_path: Path) -> None:
    """Its batch and its length may be those of one step."""
    lines = (f"step {n} | micro_batch_size={n} seq_len={100 + n} | {7000 + n} tok/s\n" for n in range(1, 30))
    (row,) = read("".join(lines), tmp_path)

    assert ({}, []) == (row.settings, [question for question in row.questions if "head" in question])


def test_a_log_without_a_head_was_not_trained_by_the_defaults(tmp_path: Path) -> None:
    """What one head states is no difference to a log that states nothing."""
    stated = "gradient_checkpointing=True\n" + trainer(32, 120, 1.0)
    logs = {"stated": stated, "silent": bar(120, 0.8)}
    (claim,) = judged(tmp_path, logs, speed_up="1.25", factor="gradient_checkpointing").claims

    assert claim.judgement.value not in ("holds", "contradicted")
    assert any("None are given" in question for question in claim.questions)


def test_switches_in_heads_are_what_differs(tmp_path: Path) -> None:
    """As in the arguments that a script prints, once in each log."""
    logs = {
        str(on): f"TrainingArguments(\ngradient_checkpointing={on},\n)\n{trainer(8, 100, pace)}"
        for on, pace in ((True, 2.0), (False, 1.6))
    }
    (claim,) = judged(tmp_path, logs, speed_up="1.25", factor="gradient_checkpointing").claims

    assert "holds" == claim.judgement.value


def test_a_packed_run_is_no_equal_work_to_one_that_is_not(tmp_path: Path) -> None:
    """By its samples, each of which holds several."""
    logs = {
        str(on): f"SFTConfig(\npacking={on},\n)\n{trainer(8, steps, pace)}"
        for on, steps, pace in ((False, 100, 1.0), (True, 25, 2.0))
    }
    (claim,) = judged(tmp_path, logs, speed_up="1/2").claims

    assert claim.judgement.value not in ("holds", "contradicted")


@pytest.mark.parametrize("names", [("gpu1", "gpu8"), ("before", "after")])
def test_a_batch_of_one_device_is_not_that_of_all(names: tuple[str, str], tmp_path: Path) -> None:
    """The names tell the devices, or an eighth of the steps does for as much data: nobody counted them."""
    head = "per_device_train_batch_size=4\ngradient_accumulation_steps=4\n"
    logs = {name: head + bar(steps, 1.0) for name, steps in zip(names, (752, 94), strict=True)}
    (claim,) = judged(tmp_path, logs, speed_up="8").claims

    assert claim.judgement.value not in ("holds", "contradicted")
    assert any("On how many devices" in question for question in claim.questions)


def test_a_batch_of_one_device_is_asked_about(tmp_path: Path) -> None:
    """Accumulation is stated, and on how many devices both trained is not."""
    head = "per_device_train_batch_size=4\ngradient_accumulation_steps=4\n"
    found = judged(tmp_path, {name: head + bar(100, pace) for name, pace in (("a", 1.2), ("b", 1.0))}, speed_up="1.2")

    assert any("over as many in all rows" in question for question in found.questions)


def test_last_words_count_the_devices_of_a_batch(tmp_path: Path) -> None:
    """64 samples a step are those of 8 devices with 8 each; 50 are of no number of them."""
    words = "\n{{'train_runtime': 100.0, 'train_samples_per_second': {}, 'train_steps_per_second': 1.0}}\n"
    head = "per_device_train_batch_size=8\ngradient_accumulation_steps=1\n"
    (eight,) = read(head + bar(100, 1.0) + words.format("64.0"), tmp_path)
    (odd,) = read(head + bar(100, 1.0) + words.format("50.0"), tmp_path)

    assert "8" == eight.figures["devices"]
    assert {} == odd.settings


def test_a_bar_of_micro_batches_is_not_taken_for_steps(tmp_path: Path) -> None:
    """Trainer says 32 samples a step and a fourth of the steps that the bars of the epochs show."""
    head = trainer(8, 200, 0.1, accumulated=4).split("\r")[0]
    (row,) = read(head + "".join(bar(400, 0.1, f"Epoch {n}: ") + "\n" for n in (1, 2)), tmp_path)

    assert "samples_per_step" not in row.figures
    assert 4 == row.settings["gradient_accumulation_steps"]


def test_the_parameter_file_overrides_a_head(tmp_path: Path) -> None:
    """Under any name of the setting; a figure of both may be the same."""
    (tmp_path / "a.log").write_text("seq_length: 512\n" + trainer(8, 120, 1.0, devices=4), encoding="utf-8")
    row = {"label": "a", "settings": {"dataset.max_length": 1024}, "figures": {"devices": "4"}}
    reported = {"files": [str(tmp_path / "a.log")], "rows": [row]}
    (run,) = audit(validate({"name": "own", "reported": reported}, "own")).runs

    assert (1024, 8) == (run.settings.dataset.max_length, run.settings.training("per_device_train_batch_size"))
