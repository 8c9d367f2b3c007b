"""`slowstep check`: what can't be used is refused before anything is trained, what can't be tested here is named."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from slowstep.cli.arguments import OF_COMMANDS
from slowstep.cli.main import main
from slowstep.environment.machine import too_old

MODEL = "{init: random, model_type: llama, config: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2}}"


def checked(text: str, tmp_path: Path) -> int:
    path = tmp_path / "asked.yaml"
    path.write_text(f"name: asked\nmodel: {MODEL}\n{text}\n")
    return main(["check", str(path), "--outputs", str(tmp_path / "out")])


@pytest.mark.skipif(torch.cuda.is_available(), reason="tf32 can be tested on this device")
def test_what_can_not_be_tested_here_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level that needs another machine is no mistake; who reads the answer knows before the run."""
    status = checked("compute: {torch_compile: [true], tf32: [true]}", tmp_path)
    said = capsys.readouterr().out

    assert status == 0
    assert "can be used" in said
    assert "not testable here: compute.tf32=true: " in said
    assert "to try: compute.torch_compile=true\n" in said


def test_a_check_leaves_nothing(tmp_path: Path) -> None:
    """No folder that an export would take for an investigation, and no file in one that is there."""
    assert checked("", tmp_path) == 0
    assert [tmp_path / "asked.yaml"] == list(tmp_path.iterdir())

    (tmp_path / "out" / "asked").mkdir(parents=True)
    assert checked("", tmp_path) == 0
    assert [] == list((tmp_path / "out" / "asked").iterdir())


@pytest.mark.parametrize("workload", ["nosuch:Thing", "os:nothing", "os:getcwd"])
def test_a_workload_that_can_not_be_had_is_refused(
    workload: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A module that is not there, and a name in it that is no class, are told by key and without a traceback."""
    assert checked(f"workload: '{workload}'", tmp_path) == 2
    said = capfd.readouterr().err
    assert "workload: it can't be had" in said
    assert "Traceback" not in said


@pytest.mark.skipif(importlib.util.find_spec("comet_ml") is not None, reason="comet_ml is installed")
def test_a_tracker_that_is_not_installed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trainer would refuse it at the first step of each trial."""
    assert checked("training_arguments: {report_to: [comet_ml]}", tmp_path) == 2
    assert "training_arguments.report_to: its tracker can't be had" in capsys.readouterr().err


def test_versions_that_were_not_tested_are_refused_in_words() -> None:
    """Whatever the local part of a version is; packages that are not installed are told elsewhere."""
    (said,) = too_old({"torch": "2.5.1+cu124", "transformers": "5.0.0"})

    assert said.startswith("torch 2.5.1+cu124 is installed, and slowstep needs 2.6")
    assert [] == too_old({"torch": "2.13.0+cpu", "transformers": "5.23.0"})
    assert [] == too_old({})


@pytest.mark.parametrize("command", ["diagnose", "measure", "check", "audit", "report", "export"])
def test_help_speaks_of_a_command_where_one_can_be_given(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Who asks a command for its help is told of `-- COMMAND` only where that is taken."""
    with pytest.raises(SystemExit):
        main([command, "--help"])

    assert (command in OF_COMMANDS) is ("-- COMMAND" in " ".join(capsys.readouterr().out.split()))
