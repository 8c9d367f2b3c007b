"""Exports of trackers: prefixes that only say what kind of value was logged, points in time, answers of servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slowstep.audit import Audit, audit
from slowstep.audit.read import Unreadable, read_file
from slowstep.settings.load import validate


def report(path: Path, text: str) -> Audit:
    path.write_text(text)
    return audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own"))


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (
            "number,datetime_start,params_lr,user_attrs_samples_per_sec,state",
            "{n},2024-05-01 10:0{n}:00.1,0.1,212.4,FAIL",
        ),
        ("Id,Creation time,parameters/lr,metrics/train/samples_per_second", "F-{n},2024/05/01 10:0{n}:00,0.1,212.4"),
        ("name,config/lr,metrics.samples_per_second", "r{n},0.1,212.4"),
    ],
)
def test_a_figure_behind_the_prefix_of_a_tracker_is_read(header: str, cells: str, tmp_path: Path) -> None:
    """A point in time beside it, in whatever way it is written, is no duration."""
    found = report(tmp_path / "t.csv", f"{header}\n{cells.format(n=1)}\n{cells.replace('212.4', '301').format(n=2)}\n")

    assert [212.4, 301] == [run.given["samples_per_second"].middle for run in found.runs]
    assert not any("number (" in question for question in found.questions)


def mlflow(name: str, speed: float, batch: int) -> dict:
    metrics = [{"key": "train_samples_per_second", "value": speed, "timestamp": 1714561200000, "step": 500}]
    params = [{"key": "per_device_train_batch_size", "value": str(batch)}]
    return {"info": {"run_name": name, "start_time": 1714557600000}, "data": {"metrics": metrics, "params": params}}


def test_the_answer_of_mlflows_server_is_read(tmp_path: Path) -> None:
    """A list of runs, each with lists of names and values."""
    runs = [mlflow("a", 12.41, 8), mlflow("b", 16.02, 32)]
    found = report(tmp_path / "runs.json", json.dumps({"runs": runs}))

    assert [("a", 12.41, 8), ("b", 16.02, 32)] == [
        (r.label, r.given["samples_per_second"].middle, r.settings.training("per_device_train_batch_size"))
        for r in found.runs
    ]


def test_a_history_of_one_metric_stays_a_list(tmp_path: Path) -> None:
    history = {"metrics": [{"key": "loss", "value": 1.0}, {"key": "loss", "value": 2.0}]}
    (tmp_path / "t.json").write_text(json.dumps(history))

    with pytest.raises(Unreadable):
        read_file(tmp_path / "t.json")


@pytest.mark.parametrize("path", ["time", "timing_s", "perf"])
def test_an_update_beside_what_it_is_made_on_is_no_step(path: str, tmp_path: Path) -> None:
    """In reinforcement learning a step also generates and scores. One that is called so is read."""
    line = {"step": 10, f"{path}/generate (s)": 12.4, f"{path}/update (s)": 4.1}
    lines = [line | {"step": step} for step in (10, 20)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    whole = "\n".join(json.dumps(one | {"step time (s)": 16.9}) for one in lines)

    with pytest.raises(Unreadable):
        read_file(tmp_path / "t.jsonl")
    assert [16.9] == [run.given["seconds_per_step"].middle for run in report(tmp_path / "w.jsonl", whole).runs]


def test_nobody_is_asked_what_a_loss_or_the_size_of_a_model_is(tmp_path: Path) -> None:
    table = (
        "| Model | Optimizer | val_loss | other | s/it |\n|---|---|---|---|---|\n| 7B | 8-bit Adam | 2.1 | 3 | 0.9 |\n"
    )
    found = report(tmp_path / "t.md", table)

    assert ["other"] == [*found.runs[0].unread]


def test_the_summary_of_a_tracker_says_the_speed_of_a_whole_training_in_one_line(tmp_path: Path) -> None:
    """By the name that Trainer gives it."""
    summary = "wandb: Run summary:\nwandb: train/train_samples_per_second 26.558\nwandb: train/train_runtime 301.23\n"
    (tmp_path / "t.log").write_text(summary)
    (row,) = read_file(tmp_path / "t.log")

    assert {"samples_per_second": "26.558"} == {name: str(float(v)) for name, v in row["figures"].items()}
