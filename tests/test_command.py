"""Commands are resolved to an interpreter and a program. Their options are rewritten in the form that they have."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from slowstep import __version__
from slowstep.cli.main import main
from slowstep.cli.survey_lines import lines
from slowstep.command.options import rewritten
from slowstep.command.resolve import CommandError, resolve
from slowstep.launch import surveyed_run
from slowstep.launch.changed_run import changes_in
from slowstep.launch.surveyed_run import folder_for
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord
from slowstep.processes.lock import locked
from slowstep.records import Store
from slowstep.settings import SettingsError, load
from slowstep.settings.command import CHANGES, Command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with a program and scripts of other kinds."""
    (tmp_path / "train.py").write_text("print(1)\n")
    for name, first in (
        ("tool", f"#!{sys.executable}"),
        ("by_env", "#!/usr/bin/env python3"),
        ("long", f"""#!/bin/sh\n'''exec' "{sys.executable}" "$0" "$@"\n' '''"""),
        ("shell", "#!/bin/bash"),
    ):
        (tmp_path / name).write_text(f"{first}\nprint(1)\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


PATHS = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("words", "options", "arguments"),
    [
        ([sys.executable, "train.py", "--lr", "1"], [], ["train.py", "--lr", "1"]),
        ([sys.executable, "-u", "-X", "dev", "train.py", "-m", "x"], ["-u", "-X", "dev"], ["train.py", "-m", "x"]),
        ([sys.executable, "-O", "-m", "json.tool", "-h"], ["-O"], ["-m", "json.tool", "-h"]),
        (["env", "A=1", sys.executable, "train.py"], [], ["train.py"]),
    ],
)
def test_a_python_command_is_told_apart(
    words: list[str], options: list[str], arguments: list[str], folder: Path
) -> None:
    """The interpreter's own options end where the program begins, and what follows is the program's."""
    command = resolve(words, folder, os.environ)

    assert (sys.executable, options, arguments) == (command.python, command.options, command.arguments)
    assert command.env == ({"A": "1"} if words[0] == "env" else {})
    assert command.torch_version[:1].isdigit()


@pytest.mark.parametrize("name", ["tool", "long"])
def test_a_console_script_is_a_program(name: str, folder: Path) -> None:
    """A script with a Python shebang, in pip's long form, too, is run by the interpreter that it names."""
    command = resolve([f"./{name}", "sft"], folder, os.environ)

    assert os.path.realpath(command.python) == os.path.realpath(sys.executable)
    assert [os.path.realpath(folder / name), "sft"] == [os.path.realpath(command.arguments[0]), *command.arguments[1:]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command was given"),
        (["nowhere_to_be_found"], "command not found"),
        (["./shell"], "no Python"),
        (["/bin/ls"], "no Python program"),
        ([sys.executable], "name a file"),
        ([sys.executable, "-c", "1"], "into a file"),
        ([sys.executable, "gone.py"], "no such file"),
        (["train.py"], "start it by `python train.py"),
        (["python train.py"], "it stands in quotes as one word"),
        (["./train.py"], "start it by its interpreter"),
        (["mpirun", "-n", "2", "python", "train.py"], "several processes"),
        (["/usr/bin/srun", "-n2", "python", "train.py"], "several processes"),
    ],
)
def test_what_can_not_be_diagnosed_is_refused(words: list[str], said: str, folder: Path) -> None:
    """One sentence says why, and what to do."""
    with pytest.raises(CommandError, match=said):
        resolve(words, folder, os.environ | PATHS)


def test_a_folder_is_run_by_its_main_file(folder: Path) -> None:
    """As Python does."""
    (folder / "package").mkdir()
    (folder / "package" / "__main__.py").touch()
    command = resolve([sys.executable, "package", "--lr", "1"], folder, os.environ)

    assert (["package/__main__.py", "--lr", "1"], "package") == (command.arguments, command.name)


def test_an_archive_is_to_be_unpacked(folder: Path) -> None:
    """Python would run it, and nobody could name or change a line of it."""
    (folder / "app").mkdir()
    (folder / "app" / "__main__.py").touch()
    zipapp.create_archive(folder / "app", folder / "app.pyz")

    with pytest.raises(
        CommandError, match=r"app\.pyz: it is an archive .*-m zipfile -e app\.pyz app`\), and give `python app`"
    ):
        resolve([sys.executable, "app.pyz"], folder, os.environ)


def test_a_command_in_quotes_is_taken_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can mean nothing else."""
    for options in ([], ["--steps", "5"]):
        assert main(["survey", *options, f"{sys.executable} gone.py"]) == 2
        assert "gone.py: there is no such file" in capsys.readouterr().err


def test_accelerate_with_one_process_is_the_program_that_it_starts(folder: Path) -> None:
    """Its options become the environment that it would set."""
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "1",
        "train.py",
        "--lr",
        "1",
    ]
    command = resolve(launch, folder, os.environ)

    assert command.arguments == ["train.py", "--lr", "1"]
    assert command.env["ACCELERATE_USE_CPU"].lower() == "true"


@pytest.mark.parametrize(
    ("arguments", "changes", "wanted"),
    [
        (["t.py", "--lr", "1", "-b", "4"], {"--lr": 2}, ["t.py", "--lr", "2", "-b", "4"]),
        (["t.py", "--lr=1"], {"--lr": 2}, ["t.py", "--lr=2"]),
        (["t.py", "--shift", "-1"], {"--shift": -2}, ["t.py", "--shift", "-2"]),
        (["t.py", "--fast", "--lr", "1"], {"--fast": False}, ["t.py", "--lr", "1"]),
        (["t.py", "--bf16", "True", "--lr", "1"], {"--bf16": False}, ["t.py", "--bf16", "False", "--lr", "1"]),
        (["t.py", "--lr", "1"], {"--fast": True, "--workers": 4}, ["t.py", "--lr", "1", "--fast", "--workers", "4"]),
        (["t.py", "data", "--lr", "1"], {"--lr": None}, ["t.py", "data"]),
        (["t.py", "--lr", "1", "--", "--lr", "5"], {"--lr": 2}, ["t.py", "--lr", "2", "--", "--lr", "5"]),
        (["t.py", "--fast", "data"], {"--fast": True}, ["t.py", "--fast", "data"]),
        (["t.py", "--amp=true"], {"--amp": False}, ["t.py", "--amp=false"]),
        (["t.py", "--amp", "False"], {"--amp": True}, ["t.py", "--amp", "True"]),
        (["t.py", "amp=no"], {"amp": True}, ["t.py", "amp=yes"]),
        (["t.py", "lr=1"], {"amp": False}, ["t.py", "lr=1", "amp=false"]),
        (["t.py", "-b4", "data"], {"-b": 8}, ["t.py", "-b8", "data"]),
        (["t.py", "-vb", "4"], {"-v": True}, ["t.py", "-vb", "4", "-v"]),
        (["t.py", "--lr=1"], {"--steps": 5}, ["t.py", "--lr=1", "--steps=5"]),
        (["t.py", "--sizes", "1", "2", "--x"], {"--sizes": [3]}, ["t.py", "--sizes", "3", "--x"]),
        (["t.py", "lr=1", "model=a"], {"lr": 2, "depth": 3}, ["t.py", "lr=2", "model=a", "depth=3"]),
    ],
)
def test_options_are_rewritten_as_they_stand(arguments: list[str], changes: dict, wanted: list[str]) -> None:
    """What the user wrote stays but for the values that are changed."""
    assert wanted == rewritten(arguments, changes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["diagnose", "python", "train.py"],
            "put -- before the command that trains: slowstep diagnose -- python train.py",
        ),
        (["measure", "train.py"], "put -- before the command"),
        (
            ["diagnose", "--minutes", "5", "python", "train.py", "--lr", "1e-4"],
            "--minutes 5 -- python train.py --lr 1e-4",
        ),
        (["survey", "python", "train.py"], "slowstep survey -- python train.py"),
        (["python", "train.py"], "say what to do with it, as in `slowstep diagnose -- python train.py`"),
        (["--", "python", "train.py"], "as in `slowstep diagnose -- python train.py`"),
        (["diagnos", "--", "python", "train.py"], "diagnos: there is no such command. Did you mean 'diagnose'?"),
        (["diagnose", "--minuts", "2", "--", "python", "train.py"], "option --minuts. Did you mean '--minutes'?"),
        (["run", "--wiht=final", "--", "python", "train.py"], "option --wiht. Did you mean '--with'?"),
        (["report", "--static", "-x"], "slowstep report: error: unrecognized arguments: -x"),
        (["check", "--slow", "a.yaml"], "option --slow. Allowed: --help, --outputs, --set."),
        (["--minutes", "2", "measure", "a.yaml"], "behind the command that it belongs to: slowstep measure --minutes"),
        (["--verbose"], "unrecognized option --verbose. Did you mean '--version'?"),
        ([], "show in half a page what a command"),
        (["run", "python", "train.py", "--with", "final"], "; slowstep's own options stand before it"),
        (["diagnose", "--name", "mine", "a.yaml"], "--name is for a command after --; a parameter file has a value"),
        (["measure", "--unprotected", "a.yaml"], "--unprotected is for a command after --"),
        (["check", "a.yaml", "seed=1"], "put --set before seed=1: slowstep check FILE ... --set seed=1"),
        (["diagnose", "--minutes", "0", "--", "python", "train.py"], "'0' is not a number above 0"),
        (["diagnose", "--minutes", "soon", "--", "python", "train.py"], "'soon' is not a number above 0"),
        (["diagnose", "--startup", "nan", "--", "python", "train.py"], "'nan' is not a number above 0"),
        (["survey", "--steps", "-3", "--", "python", "train.py"], "'-3' is not a whole number above 0"),
    ],
)
def test_a_command_line_that_can_not_be_meant_is_refused_at_once(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program without `--` is no parameter file, and no survey begins for a time that can't be.

    The usage is that of the command that was meant.
    """
    with pytest.raises(SystemExit):
        main(words)

    told = capsys.readouterr().err
    assert said in told
    known = words[:1] and words[0] in ("survey", "run", "diagnose", "measure", "check", "report")
    assert told.startswith(f"usage: slowstep {words[0]} " if known else "usage: slowstep [-h]")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reports a mistake is asked for it."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert (ended.value.code, capsys.readouterr().out) == (0, f"slowstep {__version__}\n")


def test_an_abbreviated_option_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Argparse takes it, so it is not refused as a mistyped one."""
    assert main(["check", "--outp", str(tmp_path), str(tmp_path / "gone.yaml")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_asking_an_interpreter_runs_no_file_of_the_users(folder: Path) -> None:
    """One of its folder may have the name of a module of Python's, which the program itself never imports."""
    (folder / "json.py").write_text("open('changed', 'w')")
    (folder / "own").mkdir()
    (folder / "own" / "train.py").write_text("print(1)\n")
    resolve([sys.executable, "own/train.py"], folder, os.environ)

    assert not (folder / "changed").exists()
    assert not (folder / "__pycache__").exists()


def test_an_interpreter_without_torch_is_refused_with_an_example(folder: Path) -> None:
    """The interpreter of a version manager is often not the one that trains."""
    (folder / "python").write_text("""#!/bin/sh\necho '{"python": "3.12.1", "torch": ""}'\n""")
    (folder / "python").chmod(0o755)

    with pytest.raises(CommandError, match=r"has no torch; activate .* as in `/path/to/env/bin/python train.py`"):
        resolve(["./python", "train.py"], folder, os.environ)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            {
                "ended": "it called sys.exit(2)",
                "failed": True,
                "output": "usage: …\ntrain.py: error: no --learning-rate\n",
            },
            "before its first training step it called sys.exit(2); its last words: "
            "train.py: error: no --learning-rate. `slowstep survey`",
        ),
        (
            {"ended": "it returned"},
            "before its first training step it returned; it had made no optimizer and no loader of PyTorch's by then: "
            "what another library trains can't be measured. `slowstep survey`",
        ),
        (
            {"ended": "it returned", "constructed": [{"kind": "loader", "name": "DataLoader"}]},
            "before its first training step it returned. `slowstep survey`",
        ),
        (
            {"ended": "it called sys.exit(0)", "constructed": [{"kind": "started", "name": "python train.py"}]},
            "before its first training step it called sys.exit(0), and had started `python train.py`; give that "
            "command in place of this one. `slow",
        ),
        (
            {"ended": "it returned", "constructed": [{"kind": "started", "name": "python a.py"}]},
            "before its first training step it returned, and had started `python a.py`; give that command",
        ),
        ({"ended": "it returned", "steps": 1}, "after 1 training step it returned. `slowstep survey`"),
        (
            {"ended": "ValueError: no data. (train.py:3 in load)", "failed": True},
            "before its first training step it failed: ValueError: no data. (train.py:3 in load). `slowstep",
        ),
        (
            {"standing": "train.py:4 in load"},
            "before its first training step it was at train.py:4 in load when its time was up (--startup allows more); "
            "it had made no optimizer and no loader",
        ),
    ],
)
def test_a_program_that_never_trains_is_refused_in_whole_sentences(
    seen: dict, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it ended stands before what it printed, so that nobody takes that for the program's words."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(surveyed_run, "survey", lambda command, *_: SurveyRecord(command=command, **seen))

    with pytest.raises(SettingsError) as refused:
        surveyed_run.surveyed_for([sys.executable, "train.py"], SurveyOrder(), folder / "out")
    assert f"train.py: there is nothing to diagnose: {said}" in str(refused.value)


# -- the folder of a command's investigation --


def another(folder: Path, outputs: Path, name: str) -> None:
    """The investigation of a program of another folder, as far as its survey came."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=f"{folder}/another")
    surveyed_run.write(SurveyRecord(command=command), outputs / name)


def described(folder: Path, outputs: Path, name: str) -> None:
    """The investigation of what a parameter file describes."""
    record = {"settings": {"name": name, "command": None}, "source": "params/quick.yaml"}
    Store(outputs / name / "records").write(record, "investigation", "last")


OWNERS = pytest.mark.parametrize(
    ("owned", "owner"),
    [(another, "`python train.py`, started in {}/another"), (described, "what params/quick.yaml describes")],
)


@pytest.fixture
def unsurveyed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were surveyed, each in no time."""
    surveyed: list[str] = []

    def survey(command: Command, *_: object) -> SurveyRecord:
        surveyed.append(str(command))
        return SurveyRecord(command=command, steps=20, ended="it returned")

    monkeypatch.setattr(surveyed_run, "survey", survey)
    monkeypatch.chdir(folder)
    return surveyed


@OWNERS
def test_a_name_that_is_taken_is_refused_before_anything_runs(
    owned: Callable, owner: str, folder: Path, unsurveyed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of the other investigation is overwritten; whoever chose the name reads whose it is, and the way on."""
    outputs = folder / "out"
    owned(folder, outputs, "train")
    before = {path: path.read_bytes() for path in outputs.rglob("*") if path.is_file()}
    words = ["diagnose", "--name", "train", "--outputs", str(outputs), "--", sys.executable, "train.py"]

    assert main(words) == 2
    told = capsys.readouterr().err
    assert f"the name 'train' is taken: {outputs}/train holds the investigation of {owner.format(folder)}." in told
    assert "Choose another name, or none" in told
    assert (before, []) == ({path: path.read_bytes() for path in before}, unsurveyed)


@OWNERS
def test_without_a_name_a_free_folder_is_found(owned: Callable, owner: str, folder: Path) -> None:
    """A numbered one, whatever kind of investigation has taken the program's own."""
    owned(folder, folder / "out", "train")
    owned(folder, folder / "out", "train_2")

    assert folder_for(resolve([sys.executable, "train.py"], folder, os.environ), folder / "out").name == "train_3"


def test_a_parameter_file_takes_no_commands_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its reports would overwrite those of the command. The command's own parameter file is no other one."""
    another(folder, folder / "out", "train")
    (folder / "mine.yaml").write_text("name: train\nmodel: {init: random, model_type: llama}\n")

    assert main(["check", str(folder / "mine.yaml"), "--outputs", str(folder / "out")]) == 2
    assert f"mine.yaml:1: name: 'train' is taken: {folder}/out/train holds" in capsys.readouterr().err
    command = load(folder / "out" / "train" / "investigation.yaml").settings.command
    assert "" == surveyed_run.other_owner(folder / "out" / "train", command)


def no_folder(outputs: Path) -> None:
    outputs.write_text("mine")


def at_work(outputs: Path) -> contextlib.AbstractContextManager:
    return locked(outputs / "train")


def unreadable(outputs: Path) -> None:
    (outputs / "train").mkdir(parents=True)
    (outputs / "train" / "investigation.yaml").write_text("name: [")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(no_folder, "out"), (at_work, "another slowstep is working there"), (unreadable, "not readable")],
)
def test_results_that_have_no_place_are_told_before_anything_runs(
    wrong: Callable, said: str, folder: Path, unsurveyed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A survey takes seconds to minutes, and would be lost."""
    outputs = folder / "out"
    with wrong(outputs) or contextlib.nullcontext():
        status = main(["diagnose", "--outputs", str(outputs), "--", sys.executable, "train.py"])

    assert (status, unsurveyed) == (2, [])
    assert said in capsys.readouterr().err


def test_a_survey_that_fails_leaves_no_folder(folder: Path, unsurveyed: list[str]) -> None:
    """Whether there is room for results is tried in a folder that goes again."""
    assert main(["diagnose", "--outputs", str(folder / "new" / "out"), "--", sys.executable, "train.py"]) == 2
    assert (len(unsurveyed), (folder / "new").exists()) == (1, False)


@pytest.mark.parametrize(("first", "limit"), [(8.0, 600.0), (900.0, 2700.0)])
def test_trials_may_start_as_slowly_as_the_program(first: float, limit: float, folder: Path) -> None:
    """A first step for which the survey was given more time would come too late in every trial."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))
    seen = SurveyRecord(command=command, first_step_boundary=first)

    path = surveyed_run.write(seen, folder / "out")
    assert limit == load(path).settings.budget.startup_timeout_seconds


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ((0.002, 0.004, 0.009, 0.0), (0.002,) * 4),
        ((0.2, 0.3, 0.11), (0.2,) * 3),
        ((0.2, 0.01, 0.2), (0.2, 0.01, 0.2)),
        ((0.008, 0.012, 0.04, 0.06), (0.008, 0.012, 0.04, 0.06)),
    ],
)
def test_a_share_that_was_found_about_as_large_is_as_it_was(
    found: tuple[float, ...], kept: tuple[float, ...], folder: Path
) -> None:
    """No two surveys find it alike; by another value the same run would be another one, and be drawn anew each time."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))
    training = {"facts": {}, "step_seconds": [0.1], "work": {"samples": 1}}
    told = []
    for share in found:
        seen = SurveyRecord(command=command, training=training | {"garbage_collection_share": share})
        settings = load(surveyed_run.write(seen, folder / "out")).settings
        told.append(settings.surveyed.values["garbage_collection_share"].value)

    assert list(kept) == told


@pytest.mark.parametrize(("by_trainer", "expected"), [(True, 8), (False, 5)])
def test_a_trainers_accumulation_is_what_it_is_told(by_trainer: bool, expected: int, folder: Path) -> None:
    """An epoch of five batches is one step, whatever the Trainer would accumulate. Without a Trainer nothing acts on
    arguments."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))
    one = {"name": "", "place": {"file": "", "line": 0}, "values": {}}
    made = [one | {"kind": kind} for kind in ("arguments", "trainer")[: 1 + by_trainer]]
    name = "gradient_accumulation_steps"
    training = {"facts": {name: 5}, "arguments": {name: 8}, "step_seconds": [0.1], "work": {"samples": 1}}
    seen = SurveyRecord(command=command, constructed=made, training=training)

    assert expected == surveyed_run.surveyed(seen).values[name].value


@pytest.mark.parametrize(("losses", "accumulated"), [(1, 4), (2, 1), (2, 4)])
def test_several_losses_of_a_batch_are_no_accumulation(losses: int, accumulated: int, folder: Path) -> None:
    """A step has the samples of its batches, and exchanges gradients after each backward pass."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))
    facts = {"gradient_accumulation_steps": accumulated, "per_device_train_batch_size": 8}
    of_step = {"passes": losses * accumulated, "batches": accumulated}
    training = {"facts": facts, "step_seconds": [0.1], "work": {"samples": 1}} | of_step
    settings = load(surveyed_run.write(SurveyRecord(command=command, training=training), folder / "out")).settings

    assert settings.effective_batch_size == 8 * accumulated
    assert settings.run.backward_passes == losses * accumulated


def test_a_parameter_file_shows_where_options_to_try_stand(folder: Path) -> None:
    """Nothing of it is tried as it is. What loses its `# ` is, and it outlives the next survey."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))
    path = surveyed_run.write(SurveyRecord(command=command), folder / "out")
    shown = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"^# (arguments:|  --batch-size:)", r"\1", shown, flags=re.M), encoding="utf-8")
    surveyed_run.write(SurveyRecord(command=command), folder / "out")

    assert {"arguments", "files"}.isdisjoint(yaml.safe_load(shown))
    assert {"--batch-size": {"levels": [16, 32]}} == yaml.safe_load(path.read_text(encoding="utf-8"))["arguments"]
    assert "# files:" in path.read_text(encoding="utf-8")


def test_a_loader_that_a_library_makes_anew_is_one(folder: Path) -> None:
    """accelerate makes a Trainer's loader again, from the same line and with the same values."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))
    place = {"file": f"{folder}/train.py", "line": 36}
    one = {"kind": "loader", "name": "torch.DataLoader", "times": 1}
    made = [
        one | {"place": place | {"through": through}, "values": {"batch_size": size}}
        for through, size in ((["get_train_dataloader"], 8), (["prepare"], 8), ([], 9))
    ]
    training = {"loader": 1, "step_seconds": [0.1], "passes": 1, "phases": {}, "facts": {"optimizer": "SGD"}}
    work = {"samples": 0, "useful_tokens": 0}
    seen = SurveyRecord(command=command, constructed=made, training=training | {"work": work}, first_step_boundary=1.0)
    told = lines(seen)

    assert [
        "train.py:36  DataLoader(batch_size=8), which feeds the training",
        "train.py:36  DataLoader(batch_size=9)",
    ] == [line.partition("loader")[2].strip() for line in told if line.startswith("loader")]


# -- a run for real --


def test_a_run_without_a_change_says_so_and_trains(folder: Path) -> None:
    """An investigation that adopted nothing leaves an empty record; its user would think that something was changed."""
    (folder / "final").mkdir()
    (folder / "final" / CHANGES).write_text('{"values": {}, "feeding": [], "given": {}, "freed_memory": "returned"}')
    words = [sys.executable, "-m", "slowstep.cli", "run", "--with", "final", "--", sys.executable, "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "no change was adopted, so nothing is changed: the program trains as it is" in done.stderr


def test_a_run_with_an_investigation_names_its_changes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder that reports stand in is the one that is at hand."""
    (folder / "final").mkdir()
    (folder / "final" / CHANGES).write_text("{}")

    assert main(["run", "--with", str(folder), "--", sys.executable, "train.py"]) == 2
    assert f"give its folder of changes, {folder / 'final'}." in capsys.readouterr().err


def test_an_empty_tracker_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable of the shell that is not set would write to a database that nobody named."""
    assert main(["export", "--outputs", str(folder), "--mlflow", ""]) == 2
    assert "name one tracker" in capsys.readouterr().err


def test_a_run_may_name_the_file_of_its_changes(folder: Path) -> None:
    """The name of the file is as near at hand as that of its folder."""
    none = {"values": {}, "feeding": [], "given": {}, "freed_memory": "returned"}
    (folder / CHANGES).write_text(json.dumps(none))

    assert changes_in(folder / CHANGES) == changes_in(folder)


SCRIPT = """#!/bin/sh
# python is set up by the module
set -e
export OMP_NUM_THREADS=2
python prepare.py
exec python -u train.py \\
    --lr 0.1 \\
    "$@"
if [ $# -gt 9 ]; then python evaluate.py; fi
echo done with python
"""


@pytest.mark.parametrize("words", [["./train.sh", "--epochs", "3"], ["sh", "train.sh"], ["bash", "-e", "train.sh"]])
def test_a_script_of_a_shell_is_refused_with_the_command_that_it_starts(words: list[str], folder: Path) -> None:
    """It may change files that nobody protects, and what is to be given instead stands in it."""
    script = folder / "train.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    with pytest.raises(CommandError, match="name the Python command that it starts") as refused:
        resolve(words, folder, PATHS)

    said = str(refused.value)
    assert 'line 6 `exec python -u train.py --lr 0.1 "$@"`, line 9 `if [' in said
    assert "done with" not in said


@pytest.mark.parametrize("words", [["bash", "-c", "python train.py " + "x" * 300], ["nice", "python", "train.py"]])
def test_other_words_of_a_shell_or_a_wrapper_are_no_script(words: list[str], folder: Path) -> None:
    """Nothing is read, whatever they are."""
    with pytest.raises(CommandError, match="as in `slowstep survey"):
        resolve(words, folder, PATHS)


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("train.py", "train.py"),
        ("src/model.py", "src/model.py"),
        ("venv/lib/python3.11/site-packages/trl/scripts/sft.py", "trl/scripts/sft.py"),
        ("../elsewhere/lib/python3/dist-packages/trainer/loop.py", "trainer/loop.py"),
    ],
)
def test_a_place_is_written_as_its_user_would(file: str, shown: str, folder: Path) -> None:
    """A file of an installed package is known by its package, wherever that is installed."""
    command = resolve([sys.executable, "train.py"], folder, PATHS)
    assert command.shown(os.path.realpath(folder / file)) == shown


def test_a_place_elsewhere_keeps_its_path(folder: Path) -> None:
    """It can't be found by anything less."""
    command = resolve([sys.executable, "train.py"], folder, PATHS)
    assert command.shown("/elsewhere/common/loop.py") == "/elsewhere/common/loop.py"
