"""Commands are resolved to an interpreter and a program. Their options are rewritten in the form that they have."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slowstep.cli.main import main
from slowstep.command.options import rewritten
from slowstep.command.resolve import CommandError, resolve


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
        (["./train.py"], "start it by its interpreter"),
        (["mpirun", "-n", "2", "python", "train.py"], "several processes"),
        (["/usr/bin/srun", "-n2", "python", "train.py"], "several processes"),
    ],
)
def test_what_can_not_be_diagnosed_is_refused(words: list[str], said: str, folder: Path) -> None:
    """One sentence says why, and what to do."""
    with pytest.raises(CommandError, match=said):
        resolve(words, folder, os.environ | PATHS)


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
        (["diagnose", "--minutes", "0", "--", "python", "train.py"], "'0' is not a number of minutes"),
        (["diagnose", "--minutes", "soon", "--", "python", "train.py"], "'soon' is not a number of minutes"),
    ],
)
def test_a_command_line_that_can_not_be_meant_is_refused_at_once(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program without `--` is no parameter file, and no survey begins for a time that can't be."""
    with pytest.raises(SystemExit):
        main(words)

    assert said in capsys.readouterr().err


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
