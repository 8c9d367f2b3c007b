"""Odd environments: closed streams, names that are no UTF-8, interpreters that print, files closed by a program."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slowstep.cli.main import main
from slowstep.command.resolve import CommandError, resolve
from slowstep.launch import of_command, surveyed_run
from slowstep.launch.environment import trial_environment
from slowstep.launch.surveyed_run import surveyed_for, write
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord
from slowstep.nodes.key import default_file
from slowstep.settings import SettingsError, load
from slowstep.settings.command import Command
from slowstep_probe.patches import Patches
from slowstep_probe.processes.own_descriptors import keep_open

CLOSED = "import os, sys; [os.close(int(number)) for number in sys.argv[1]]; os.execv(sys.executable, sys.argv[2:])"
"""Runs a command with standard streams closed."""

NO_TEXT = "caf\udce9"
"""A name in Latin-1, as Python shows its last byte."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a program, which is the working directory."""
    (tmp_path / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("closed", "said"), [("1", "no such file"), ("12", ""), ("012", "")])
def test_closed_streams_change_no_status(closed: str, said: str, tmp_path: Path) -> None:
    """A daemon has none, and `2>&-` is shorter than a file."""
    check = [sys.executable, "-m", "slowstep.cli", "check", str(tmp_path / "gone.yaml")]
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, closed, *check], stderr=subprocess.PIPE, text=True, check=False
    )

    assert (2, "Traceback" in done.stderr) == (done.returncode, False)
    assert said in done.stderr


def test_what_an_interpreter_prints_at_its_start_is_no_answer(folder: Path) -> None:
    """A `sitecustomize` may print JSON, also at the end, and bytes of any encoding."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        "import atexit, sys\nsys.stdout.buffer.write(b'{caf\\xe9}\\n'); sys.stdout.flush()\n"
        "atexit.register(print, '{\"note\": 1}')\nprint('no line end', end='')\n"
    )
    command = resolve([sys.executable, "train.py"], folder, os.environ | {"PYTHONPATH": str(folder / "site")})

    assert command.torch_version[:1].isdigit()


@pytest.mark.parametrize("kind", ["pipe", "descriptor"])
def test_a_program_that_can_be_read_once_is_refused(kind: str, folder: Path) -> None:
    """`python <(make_program)` names a pipe, and `/dev/stdin` may be a file that nobody has open in a trial."""
    os.mkfifo(folder / "pipe.py")
    with open(folder / "train.py") as opened:
        named = {"pipe": "pipe.py", "descriptor": f"/dev/fd/{opened.fileno()}"}
        with pytest.raises(CommandError, match="put it into a file"):
            resolve([sys.executable, named[kind]], folder, os.environ)


def test_names_that_no_file_of_text_can_hold_are_refused_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A survey would be lost, since its parameter file could not be read."""
    monkeypatch.setattr(surveyed_run, "survey", lambda *_: pytest.fail("it was surveyed"))
    with pytest.raises(SettingsError, match=r"the word .* holds bytes that are no UTF-8"):
        surveyed_for([sys.executable, "train.py", NO_TEXT], SurveyOrder(), folder / "out")
    monkeypatch.setenv("OMP_PLACES", NO_TEXT)
    with pytest.raises(SettingsError, match=r"the variable OMP_PLACES .* holds bytes that are no UTF-8"):
        surveyed_for([sys.executable, "train.py"], SurveyOrder(), folder / "out")
    with pytest.raises(SystemExit) as ended:
        main(["check", "run.yaml", "--outputs", NO_TEXT])

    assert 2 == ended.value.code
    assert "holds bytes that are no UTF-8" in capsys.readouterr().err
    assert ["train.py"] == os.listdir(folder)


def _command(folder: Path) -> Command:
    return Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(folder))


def test_what_a_survey_writes_can_be_read(folder: Path) -> None:
    """A program's options may hold what no parameter file can: they are left out."""
    options = {"--sep": "\0", "--seed": 2**127, "--name": NO_TEXT, "--mark": "\x1b", "--lr": float("inf"), "--b": 8}
    seen = SurveyRecord(command=_command(folder), options=options, configurations=[f"/{NO_TEXT}.yaml", "/fine.yaml"])
    settings = load(write(seen, folder / "out")).settings

    assert {"--mark": "\x1b", "--lr": float("inf"), "--b": 8} == settings.surveyed.options
    assert ["/fine.yaml"] == settings.surveyed.configurations


def test_a_command_without_a_program_is_refused(folder: Path) -> None:
    """Somebody may have edited the file."""
    path = write(SurveyRecord(command=_command(folder)), folder / "out")
    path.write_text(path.read_text().replace("arguments:\n  - train.py\n", "arguments: []\n"))
    with pytest.raises(SettingsError, match=r"yaml:\d+: command\.arguments: names no program"):
        load(path)


@pytest.mark.parametrize(
    "record",
    ["3", "[1]", "null", '{"training": 3}', '{"training": {"modules": 3, "model": []}}', '{"written": [1]}', "{"],
)
def test_a_survey_s_record_that_is_none_only_costs_time(record: str, folder: Path) -> None:
    """Trials need nothing of it."""
    settings = load(write(SurveyRecord(command=_command(folder)), folder / "out")).settings
    Path(settings.surveyed.record).write_text(record)

    assert [] == of_command._modules(settings)
    assert {} == of_command.extensions(settings, folder)
    assert not of_command._trains_over_frozen_weights(settings)


def test_modules_and_weights_are_known_from_a_survey_s_record(folder: Path) -> None:
    """Later versions may say more."""
    settings = load(write(SurveyRecord(command=_command(folder)), folder / "out")).settings
    training = {"modules": ["json"], "model": {"parameters": 9, "trained": 1, "more": 1}, "more": 1}
    Path(settings.surveyed.record).write_text(json.dumps({"training": training, "weights_seconds": 3.0, "more": 1}))

    assert ["json"] == of_command._modules(settings)
    assert of_command._trains_over_frozen_weights(settings)


def test_a_user_without_a_home_is_told_or_does_without(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Containers run under numbers that have no entry. No folder named `~` is made."""

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="no home folder is known here"):
        default_file()

    assert str(folder) == os.path.commonpath([folder, trial_environment(os.environ)["HF_HOME"]])
    assert not (folder / "~").exists()


def test_a_program_that_closes_all_descriptors_is_still_heard(tmp_path: Path) -> None:
    """Neither a range nor a loop closes what the kit hears it by. A process that it forks may close its copy."""
    heard, told = os.pipe()
    if not (child := os.fork()):
        keep_open([told], Patches())
        os.closerange(3, told + 9)
        for number in range(3, told + 9):
            try:
                os.close(number)
            except OSError:
                continue
        os.write(told, b"here")
        if not os.fork():
            os.closerange(3, told + 9)
            os._exit(0 if not os.path.exists(f"/proc/self/fd/{told}") else 1)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    os.close(told)

    assert (b"here", 0) == (os.read(heard, 9), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.close(heard)
