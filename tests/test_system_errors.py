"""What the system refuses is one line with the path and what to do, in every command; nothing is lost or left."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slowstep.cli.main import main
from slowstep.environment.system_errors import explained
from slowstep.measure import local
from slowstep.records.store import write_atomically
from slowstep.report.index import write_index

ROOT = Path(__file__).resolve().parents[1]
FILES = {"check": "params/smoke.yaml", "audit": "params/case_001.yaml", "diagnose": "params/smoke.yaml"}


def run(
    command: str, outputs: Path, *files: str, limit: int | None = None, room: int | None = None, **environment: str
) -> subprocess.CompletedProcess:
    """A command of the kit as a process; a file of it has at most `limit` bytes, and each process `room` of memory."""
    given = files or ([FILES[command]] if command in FILES else [])

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if room is not None:
            resource.setrlimit(resource.RLIMIT_AS, (room, room))

    return subprocess.run(
        [sys.executable, "-m", "slowstep.cli", command, *given, "--outputs", str(outputs)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
        preexec_fn=limited,
        check=False,
    )


def file_as_outputs(folder: Path) -> Path:
    (folder / "out").write_text("mine")
    return folder / "out"


def file_on_the_way(folder: Path) -> Path:
    return file_as_outputs(folder) / "deeper" / "out"


def file_as_investigation(folder: Path) -> Path:
    (folder / "smoke").write_text("mine")
    (folder / "case_001").write_text("mine")
    return folder


def no_file_system(folder: Path) -> Path:
    return Path("/proc/nowhere/out")


PLACES = [file_as_outputs, file_on_the_way, file_as_investigation, no_file_system]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("audit", file_as_outputs),
        *(pytest.param("audit", place, marks=pytest.mark.exhaustive) for place in PLACES[1:]),
        ("check", file_on_the_way),
        ("diagnose", file_as_investigation),
    ],
)
def test_outputs_that_can_not_be_written_are_named(command: str, place: Callable, tmp_path: Path) -> None:
    """One line on the stream of errors, with the path; what lies in the way stays as it is."""
    outputs = place(tmp_path)
    before = {p: p.read_text() for p in tmp_path.rglob("*")}
    done = run(command, outputs)

    assert done.returncode not in (0, 1)
    (line,) = done.stderr.splitlines()
    assert str(outputs) in line or "/proc/nowhere" in line
    assert "--outputs" in line or "make it" in line
    assert before == {p: p.read_text() for p in tmp_path.rglob("*")}


def test_nothing_is_tried_for_a_folder_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking the real libraries takes seconds: not for results that have no place, of this file or of the next."""
    asked = []
    monkeypatch.setattr(local, "checked", lambda settings: asked.append(settings.name) or [])
    (tmp_path / "smoke").write_text("mine")
    files = [str(ROOT / "params" / f"{name}.yaml") for name in ("quick", "smoke")]
    status = main(["check", *files, "--outputs", str(tmp_path)])

    assert (status, asked) == (2, [])


def test_a_report_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    """`slowstep report` over a folder in place of its index."""
    (tmp_path / "index.html").mkdir()
    done = run("report", tmp_path)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(tmp_path / "index.html") in line
    assert [tmp_path / "index.html"] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("command", "temporary"), [("check", "nowhere"), ("audit", "file"), ("diagnose", "nowhere")])
def test_a_folder_for_temporary_files_that_is_none_is_named(command: str, temporary: str, tmp_path: Path) -> None:
    """Python would take another in silence; who set TMPDIR had a reason."""
    (tmp_path / "file").write_text("mine")
    done = run(command, tmp_path / "out", TMPDIR=str(tmp_path / temporary))

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(tmp_path / temporary) in line
    assert not (tmp_path / "out").exists()


def test_a_file_that_may_not_grow_is_named(tmp_path: Path) -> None:
    """A write that fails in the middle, as on a full disk: the line names the file, and no half of it is left."""
    table = tmp_path / "speeds.csv"
    table.write_text("run,per_device_train_batch_size,s/it\nsmall,32,2.13\nlarge,96,6.33\n", encoding="utf-8")
    done = run("audit", tmp_path, str(table), limit=3000)
    said = (done.stdout + done.stderr).splitlines()
    told = [line for line in said if "File too large" in line]

    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stdout + done.stderr
    assert len(told) == len({line.partition(": ")[0] for line in told}) <= 2  # the index is too large as well
    assert "95_reported_figures.ipynb" in told[0]
    assert [] == [p for p in tmp_path.rglob(".*") if p.name != ".lock"]


def test_a_write_that_fails_names_its_file(tmp_path: Path) -> None:
    """Not the temporary one, of which nobody knows."""
    (tmp_path / "x.json").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_atomically(tmp_path / "x.json", "text")

    assert explained(caught.value).startswith(f"{tmp_path / 'x.json'}: Is a directory: ")
    assert [tmp_path / "x.json"] == list(tmp_path.iterdir())


def test_a_page_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    """A copied investigation may lie beside a page that has the index's name; an index of the kit's own is renewed."""
    (tmp_path / "index.html").write_text("<html>mine</html>")
    other = write_index(tmp_path, pytest.fail)
    (tmp_path / "own").mkdir()
    first = write_index(tmp_path / "own", pytest.fail)

    assert (tmp_path / "index.html").read_text() == "<html>mine</html>"
    assert other == write_index(tmp_path, pytest.fail) == tmp_path / "slowstep_index.html"
    assert first == write_index(tmp_path / "own", pytest.fail) == tmp_path / "own" / "index.html"


def test_what_others_keep_in_a_shared_folder_stops_no_index(tmp_path: Path) -> None:
    """A summary that can't be written is told in a line, and that investigation stands in the index all the same."""
    for name in ("mine", "theirs"):
        (tmp_path / name / "records" / "notebooks").mkdir(parents=True)
    (tmp_path / "theirs" / "summary.json").mkdir()
    told: list[str] = []
    index = write_index(tmp_path, told.append)

    assert [line.partition(": ")[0] for line in told] == ["theirs got no new summary"]
    assert str(tmp_path / "theirs" / "summary.json") in told[0]
    assert "mine" in index.read_text()
    assert "theirs" in index.read_text()
    assert (tmp_path / "mine" / "summary.json").is_file()


def test_an_index_that_cant_be_written_is_told_and_ends_nothing(tmp_path: Path) -> None:
    """The investigations are finished all the same, and have their summaries."""
    (tmp_path / "mine" / "records" / "notebooks").mkdir(parents=True)
    (tmp_path / "index.html").mkdir()
    told: list[str] = []

    assert write_index(tmp_path, told.append) is None
    assert told[0].startswith(f"no index was written: {tmp_path / 'index.html'}: Is a directory: ")
    assert (tmp_path / "mine" / "summary.json").is_file()


def test_a_process_that_finds_no_memory_is_told_with_what_to_do(tmp_path: Path) -> None:
    """As under `ulimit -v`: the model's sizes are found out by a process with PyTorch, which needs more."""
    done = run("audit", tmp_path, room=600_000 * 1024)

    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "see whether memory and limits suffice (`ulimit -a`)" in done.stderr


def test_a_folder_without_records_is_no_investigation_however_large_it_is(tmp_path: Path) -> None:
    """`slowstep report /` walked through all disks first. A pipe in it would have been told, had it been looked for."""
    os.mkfifo(tmp_path / "pipe")
    done = run("report", tmp_path, str(tmp_path))

    assert done.returncode == 2
    assert "pipe" not in done.stderr
