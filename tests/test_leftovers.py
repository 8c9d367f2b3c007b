"""How a run ends that is told to, or killed; what it leaves; and what a folder may hold that it works in."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from family import descendants, living, wait, words
from forked_surveys import forked
from slowstep.cli.main import main
from slowstep.command.resolve import resolve
from slowstep.environment.machine import versions
from slowstep.factors import Arm
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.measure.local import here
from slowstep.processes.lock import Busy, locked
from slowstep.records import identity
from slowstep.records.store import write_atomically
from slowstep.settings import load
from slowstep.settings.schema import Budget
from slowstep_probe.processes import process_mark, scratch

ROOT = Path(__file__).resolve().parents[1]
SOON = 120.0

PROGRAM = ROOT / "tests" / "programs" / "plain_loop.py"
"""A program that imports nothing but torch."""

FILE = ROOT / "params" / "smoke.yaml"
EXHAUSTIVE = pytest.mark.exhaustive


def made(folder: Path) -> list[Path]:
    """What the kit made in a folder for temporary files."""
    return [p for kind in ("slowstep-*", "pymp-*") for p in folder.glob(kind)]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program of the kit with a TMPDIR of its own, in a session of its own."""
    started = []

    def start(*command: str) -> subprocess.Popen[str]:
        temporary = tmp_path / "tmp"
        temporary.mkdir(exist_ok=True)
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        started.append(
            subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(temporary)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def diagnose(of: Path, tmp_path: Path) -> list[str]:
    """The arguments of a diagnosis of a program or of a parameter file."""
    start = ["-m", "slowstep.cli", "diagnose", "--outputs", str(tmp_path / "outputs")]
    return [*start, "--", sys.executable, str(of)] if of.suffix == ".py" else [*start, str(of)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    """An arm that trains the program."""
    command = resolve([sys.executable, str(PROGRAM)], ROOT, os.environ)
    with forked():
        seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)
    return Arm(label="trial", settings=load(write(seen, tmp_path_factory.mktemp("surveyed"))).settings)


def holding(arm: Arm, budget: Budget, tmp_path: Path) -> list[str]:
    """The arguments of a plain Python that measures, and prints the numbers of all its processes."""
    launch = tmp_path / "launch.pickle"
    launch.write_bytes(pickle.dumps(([arm], budget, str(tmp_path / "logs"), 0)))
    return ["-m", "holding", str(launch)]


# -- told to end --


@pytest.mark.parametrize(
    ("signals", "status", "word", "of"),
    [
        ([signal.SIGTERM], 128 + signal.SIGTERM, "ended by SIGTERM", PROGRAM),
        pytest.param([signal.SIGINT, signal.SIGINT, signal.SIGINT], 130, "interrupted", PROGRAM, marks=EXHAUSTIVE),
        pytest.param([signal.SIGHUP, signal.SIGTERM], 128 + signal.SIGHUP, "ended by SIGHUP", FILE, marks=EXHAUSTIVE),
    ],
    ids=["TERM", "Ctrl-C thrice", "HUP and TERM, a described run"],
)
def test_a_diagnosis_ends_when_it_is_told_to(
    signals: list[int], status: int, word: str, of: Path, run: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """It says so, its status tells the signal, and neither process nor temporary folder is left."""
    process = run(*diagnose(of, tmp_path))
    began = wait(lambda: list((tmp_path / "tmp").glob("slowstep-trial-*")))
    family = descendants(process.pid)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.02)
    _, said = process.communicate(timeout=SOON)

    assert began
    assert status == process.returncode
    assert word in said
    assert "Traceback" not in said
    assert [] == living(family)
    assert [] == made(tmp_path / "tmp")


def test_a_plain_python_that_measures_ends_when_it_is_told_to(
    run: Callable[..., subprocess.Popen[str]],
    trained: Arm,
    budget: Budget,
    tmp_path: Path,
) -> None:
    """A script of one's own that measures: trials end, nothing is left, the status tells the signal."""
    process = run(*holding(trained, budget, tmp_path))
    family = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=SOON)

    assert 128 + signal.SIGHUP == process.returncode
    assert "ended by SIGHUP" in said
    assert len(family) >= 3
    assert wait(lambda: not living(family))
    assert [] == made(tmp_path / "tmp")


def test_a_notebook_kernel_ends_when_it_is_told_to(trained: Arm, budget: Budget, tmp_path: Path) -> None:
    """SIGTERM in the middle of a cell, which would take an exception for its own: kernel and trial are gone."""
    from jupyter_client.manager import KernelManager

    (tmp_path / "tmp").mkdir()
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel(env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(tmp_path / "tmp")}, cwd=str(ROOT))
    client = kernel.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SOON)
        client.execute(
            "import pickle; from holding import hold; from pathlib import Path\n"
            f"hold(*pickle.loads(Path({holding(trained, budget, tmp_path)[-1]!r}).read_bytes()))"
        )
        pid = kernel.provisioner.pid
        began = wait(lambda: list((tmp_path / "logs").glob("*")))
        family = descendants(pid)
        os.kill(pid, signal.SIGTERM)

        assert began
        assert wait(lambda: kernel.provisioner.process.poll() is not None)
        assert wait(lambda: not living(family))
        assert wait(lambda: not made(tmp_path / "tmp"))
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


# -- killed --

SERVES = """
import subprocess, time
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("never seen")
time.sleep(600)
"""
"""A program that starts a server, as for TensorBoard, and takes long to load its data."""


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)],
)
def test_nothing_outlives_a_survey(
    number: int, status: int, run: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """However slowstep ends meanwhile, the program ends with what it started, and its folder is gone."""
    (program := tmp_path / "serves.py").write_text(SERVES)
    process = run(*diagnose(program, tmp_path))
    began = wait(lambda: any("sleep" in words(each).split() for each in descendants(process.pid)))
    family = descendants(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=SOON)

    assert began
    assert len(family) >= 2
    assert wait(lambda: not living(family))
    assert wait(lambda: not made(tmp_path / "tmp"))
    assert "Traceback" not in said
    assert process.returncode == status


@pytest.mark.parametrize("victim", ["guard_alone", "serves.py"])
def test_nothing_is_left_of_a_survey_in_which_somebody_is_killed(
    victim: str, run: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Guard or program: slowstep says that it ended, and ends what is left."""
    (program := tmp_path / "serves.py").write_text(SERVES)
    process = run(*diagnose(program, tmp_path))
    began = wait(lambda: any("sleep" in words(each).split() for each in descendants(process.pid)))
    family = descendants(process.pid)
    next(each for each in family if victim in words(each)).kill()
    _, said = process.communicate(timeout=SOON)

    assert began
    assert process.returncode == 2
    assert "before anything was seen of it" in said
    assert wait(lambda: not living(family))
    assert wait(lambda: not made(tmp_path / "tmp"))


def test_what_a_killed_run_left_is_removed_at_the_next_start(
    run: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Folders and half-written files of a process that was killed go; those of one that lives, and others', stay."""
    temporary, outputs = tmp_path / "tmp", tmp_path / "outputs"
    temporary.mkdir()
    code = (
        "import os, sys, time; from pathlib import Path; import tempfile\n"
        "from slowstep_probe.processes import scratch\n"
        "os.fsync = lambda _: (print('written', flush=True), time.sleep(600))\n"
        "from slowstep.records.store import write_atomically\n"
        "tempfile.mkdtemp(prefix=scratch.folder_prefix('run'))\n"
        f"write_atomically(Path({str(outputs / 'smoke' / 'records' / 'x.json')!r}), 'half')"
    )
    killed, living_one = run("-c", code), run("-c", code.replace("x.json", "y.json"))
    for process in (killed, living_one):
        assert process.stdout.readline() == "written\n"
    theirs = temporary / "slowstep-someone-elses"
    theirs.mkdir()
    (outputs / "smoke" / ".hidden.json.abcdefgh").write_text("the user's")
    killed.kill()
    killed.wait()
    before = made(temporary)
    with locked(outputs / "smoke"):
        removed = scratch.remove_abandoned_folders(temporary) + scratch.remove_abandoned_files(outputs / "smoke")

    assert 3 == len(before)
    assert 2 == len(removed)
    assert all(f"-{killed.pid}-" in path.name for path in removed)
    assert 2 == len(made(temporary))
    assert theirs.is_dir()
    left = [path.name for path in (outputs / "smoke").rglob(".*.json.*")]
    assert 2 == len(left)
    assert ".hidden.json.abcdefgh" in left


def test_measuring_begins_by_removing_what_others_left(
    run: Callable[..., subprocess.Popen[str]], trained: Arm, budget: Budget, tmp_path: Path
) -> None:
    """Measurer and guard killed at once leave the trial's folder; the next start on the machine removes it."""
    process = run(*holding(trained, budget, tmp_path))
    family = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
    for each in [psutil.Process(process.pid), *family]:
        each.kill()
    process.wait()
    left = made(tmp_path / "tmp")
    following = run(*holding(trained, budget, tmp_path))
    following.stdout.readline()
    still = set(made(tmp_path / "tmp")) & set(left)
    following.send_signal(signal.SIGTERM)
    following.wait()

    assert len(left) >= 2
    assert set() == still


def test_a_mark_of_another_place_is_never_judged() -> None:
    """Another container's process numbers, or an earlier start's of the machine, say nothing here."""
    here, pid, start = process_mark.mark().split("-")
    elsewhere = f"{int(here, 16) ^ 1:08x}"

    assert not process_mark.is_dead(process_mark.mark())
    assert process_mark.is_dead(f"{here}-{pid}-{int(start) + 1}")
    assert not process_mark.is_dead(f"{elsewhere}-{pid}-{int(start) + 1}")
    assert not process_mark.is_dead("nonsense")


def test_a_link_named_like_scratch_is_left_alone(tmp_path: Path) -> None:
    """Neither it nor what it leads to, whether its process was killed or came to its end."""
    here, pid, start = process_mark.mark().split("-")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / f"slowstep-run-{here}-{pid}-{int(start) + 1}-abcdefgh").symlink_to(tmp_path / "precious")

    own = f"(Path({str(tmp_path)!r}) / (scratch.folder_prefix('run') + 'abcdefgh'))"
    code = (
        "from pathlib import Path; from slowstep_probe.processes import scratch\n"
        f"{own}.symlink_to({str(tmp_path / 'precious')!r})"
    )
    path = os.pathsep.join(sys.path)
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)

    assert [] == scratch.remove_abandoned_folders(tmp_path)
    assert 3 == len(list(tmp_path.iterdir()))
    assert (tmp_path / "precious" / "file").exists()


# -- the folder that a run works in --


def test_a_lock_that_is_a_link_is_refused_and_its_target_kept(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The file that it leads to keeps its content; the run says which link it was."""
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke" / ".lock").symlink_to(precious)
    with pytest.raises(Busy, match=r"\.lock"), locked(tmp_path / "smoke"):
        pass

    assert precious.read_text() == "kept"


@pytest.mark.parametrize("place", ["records", "final", "00_baseline.html", "records/logs/x.log", "", "circle"])
def test_links_that_lead_out_of_the_folder_are_refused(place: str, tmp_path: Path) -> None:
    """Wherever they stand: nothing outside is written, nothing deleted, and the link is named."""
    outside, folder = tmp_path / "outside", tmp_path / "outputs" / "smoke"
    outside.mkdir()
    (outside / "file").write_text("kept")
    link = folder / place if place else folder
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(link if place == "circle" else outside)
    with pytest.raises(Busy, match="symbolic link"), locked(folder):
        pass

    assert ["file"] == [path.name for path in outside.iterdir()]
    assert (outside / "file").read_text() == "kept"


def test_links_within_the_folder_are_fine(tmp_path: Path) -> None:
    """Someone's shortcut to a report does no harm."""
    (tmp_path / "a.html").touch()
    (tmp_path / "latest.html").symlink_to("a.html")
    with locked(tmp_path):
        held = (tmp_path / ".lock").is_file()

    assert held


def test_a_lock_keeps_its_content_and_shuts_out_others(tmp_path: Path) -> None:
    """The file is opened as it is; a second holder is told who works there; it is free again afterwards."""
    (tmp_path / ".lock").write_text("whatever")
    with locked(tmp_path):
        with pytest.raises(Busy, match="another slowstep"), locked(tmp_path):
            pass
        content = (tmp_path / ".lock").read_text()
    with (tmp_path / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert content == "whatever"


def test_a_folder_in_the_lock_s_place_gives_words(tmp_path: Path) -> None:
    """The path, and what to do."""
    (tmp_path / ".lock").mkdir()
    with pytest.raises(Busy, match=r"\.lock: .*Remove"), locked(tmp_path):
        pass


def test_the_command_tells_of_a_link_and_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """`slowstep audit` on a folder that leads elsewhere ends with status 2 and words."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "case_001").mkdir()
    (tmp_path / "case_001" / "final").symlink_to(tmp_path / "outside")
    status = main(["audit", str(ROOT / "params" / "case_001.yaml"), "--outputs", str(tmp_path)])

    assert status == 2
    assert "symbolic link" in capsys.readouterr().err
    assert [] == list((tmp_path / "outside").iterdir())


ORPHANS = """
import os, subprocess, time
from slowstep_probe.processes.tree import adopt_orphans, descendants, end_descendants, reap_adopted

adopt_orphans()
own = subprocess.Popen(["sleep", "600"])
before = descendants(os.getpid())
subprocess.run(["sh", "-c", "setsid sleep 600 & sleep 600 &"], check=True)
while len(descendants(os.getpid())) < 3:
    time.sleep(0.01)
end_descendants(os.getpid(), keep=before)
ended = len(descendants(os.getpid()))
reap_adopted(keep=before)
print(ended, descendants(os.getpid()) == before, own.poll())
own.kill()
"""


def test_adopted_orphans_leave_no_trace() -> None:
    """What a notebook left and the batch adopted is killed, and does not stay as a zombie while the others run; what is
    somebody else's to wait for is left alone."""
    done = subprocess.run([sys.executable, "-c", ORPHANS], capture_output=True, text=True, check=True, timeout=60)

    assert "3 True None" == done.stdout.strip()


def test_a_temporary_file_is_named_by_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next start can tell whose it was."""
    seen: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(Path(a).name), replace(a, b)))
    write_atomically(tmp_path / "x.json", "{}")

    assert scratch.FILE.fullmatch(seen[0])["owner"] == process_mark.mark()


def test_other_versions_are_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured with another PyTorch is no record of what this one does."""
    before = here()
    monkeypatch.setattr("slowstep.measure.local.versions", lambda: versions() | {"torch": "0.0.1"})

    assert identity(before.determinants) != identity(here().determinants)
