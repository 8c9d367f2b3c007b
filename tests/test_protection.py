"""What a trial writes is thrown away, whatever the user's files are mounted from."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slowstep_probe.processes import protection

PROGRAM = """
import ctypes, json, os, sys
from slowstep_probe.processes import protection
host, file, folder, largest = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(protection.NEW_MOUNTS) == 0  # no mount of this test is seen elsewhere
assert libc.mount(b"none", b"/", None, protection.RECURSIVE | protection.PRIVATE, None) == 0
assert libc.mount(host.encode(), file.encode(), None, protection.BIND, None) == 0
protection.LARGEST_COPY = int(largest)
found = protection.protect(folder, [folder])
told = {"open": found.open, "read": open(file).read()}
try:
    with open(file, "a") as text:
        text.write("of the trial")
    told["written"] = open(file).read()
except OSError as error:
    told["refused"] = error.strerror
print(json.dumps(told | {"names": found.written()}))
"""


HIDDEN = """
import ctypes, sys
from slowstep_probe.processes import protection
inner, outer, other, folder = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(protection.NEW_MOUNTS) == 0
assert libc.mount(b"none", b"/", None, protection.RECURSIVE | protection.PRIVATE, None) == 0
for what, where in ((other, inner), (other, outer)):
    assert libc.mount(what.encode(), where.encode(), None, protection.BIND, None) == 0
print(protection.protect(folder, [folder]).open)
"""


def test_a_mount_that_can_not_be_reached_is_left_alone(tmp_path: Path) -> None:
    """One lies under another, or in a folder of another user, as the mounts of his containers do."""
    for name in ("outer/inner", "other", "trial"):
        (tmp_path / name).mkdir(parents=True)
    folders = [str(tmp_path / name) for name in ("outer/inner", "outer", "other", "trial")]
    done = subprocess.run([sys.executable, "-c", HIDDEN, *folders], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("largest", [protection.LARGEST_COPY, 3])
def test_a_file_that_is_a_mount_of_its_own_is_safe(largest: int, tmp_path: Path) -> None:
    """As with `docker run -v results.csv:/app/results.csv`: it is written in a copy, or can only be read."""
    host, file, folder = tmp_path / "host.csv", tmp_path / "app" / "results.csv", tmp_path / "trial"
    file.parent.mkdir()
    file.touch()
    folder.mkdir()
    host.write_text("of the user, ")
    words = [sys.executable, "-c", PROGRAM, str(host), str(file), str(folder), str(largest)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert host.read_text() == told["read"] == "of the user, "
    assert told["open"] == []
    if largest > len("of the user, "):
        assert told["written"] == "of the user, of the trial"
        assert told["names"] == [str(file)]
    else:
        assert "Read-only" in told["refused"]


MOUNTED = """
import ctypes, os, sys
from slowstep_probe.processes import protection
place, folder, kind, inside = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(protection.NEW_MOUNTS) == 0
assert libc.mount(b"none", b"/", None, protection.RECURSIVE | protection.PRIVATE, None) == 0
at = place
if inside:  # the folder is mounted in one that can only be read
    assert libc.mount(b"none", place.encode(), b"tmpfs", 0, None) == 0
    os.mkdir(at := place + "/own")
assert libc.mount(b"none", at.encode(), kind.encode(), 0, None) == 0
if inside:
    assert libc.mount(b"none", place.encode(), b"tmpfs", protection.REMOUNT | protection.READ_ONLY, None) == 0
with open(at + "/file", "w") as file:
    file.write("of the user")
below = os.open(at, os.O_PATH)
assert protection.protect(folder, [folder]).open == []
try:
    with open(at + "/file", "w") as file:
        file.write("of the trial")
except OSError:
    pass
print(open(f"/proc/self/fd/{below}/file").read())
"""


@pytest.mark.parametrize("kind", ["ramfs", "tmpfs"])
@pytest.mark.parametrize("inside", ["", "read-only"])
def test_a_folder_in_memory_is_safe_wherever_it_is_mounted(kind: str, inside: str, tmp_path: Path) -> None:
    """It may lie in a folder of a disk, and in a mount that can only be read and is let through with all within it."""
    for name in ("place", "trial"):
        (tmp_path / name).mkdir()
    words = [sys.executable, "-c", MOUNTED, str(tmp_path / "place"), str(tmp_path / "trial"), kind, inside]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "of the user"), done.stderr


SERVED = """
import os, socket, sys
from slowstep_probe.processes import protection
folder, path, asked = sys.argv[1:]
assert protection.protect(folder, [folder]).open == []
here = socket.socket(socket.AF_UNIX)
here.connect(path)
here.sendall(asked.encode())
open(path + ".txt", "w").write("of the trial")
print(here.recv(100).decode())
"""


def test_a_server_that_listens_at_a_socket_is_heard(tmp_path: Path) -> None:
    """A database or a service of the device is reached as without the kit; files beside the socket stay as they are."""
    (folder := tmp_path / "trial").mkdir()
    path = tmp_path / "served"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        words = [sys.executable, "-c", SERVED, str(folder), str(path), "who is there?"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            server.settimeout(30)
            there, _ = server.accept()
            with there:
                there.sendall(b"told: " + there.recv(100))
            said, wrong = client.communicate(timeout=30)

    assert ("told: who is there?", "") == (said.strip(), wrong)
    assert not Path(f"{path}.txt").exists()


IN_MEMORY = """
import json, os, sys
from multiprocessing import resource_tracker, shared_memory
from slowstep_probe.processes import protection
folder, name, driver = sys.argv[1:]
protection.OF_NVIDIA = driver
found = protection.protect(folder, [folder])
resource_tracker.register = lambda *_: None  # as where all processes of a trial are ended at once
told = {"open": found.open, "written": found.written(), "names": os.listdir(protection.SHARED_MEMORY)}
shared_memory.SharedMemory(name=f"{name}-made", create=True, size=100)
for path in (f"{protection.SHARED_MEMORY}/{name}-{own}" for own in ("file", "folder/file")):
    told[path] = open(path).read()
    with open(path, "w") as text:
        text.write("of the trial")
print(json.dumps(told))
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(("driver", "kept"), [("/nowhere", {"file", "folder/file"}), ("/dev/null", {"folder/file"})])
def test_shared_memory_of_the_user_is_safe(driver: str, kept: set[str], tmp_path: Path) -> None:
    """A data set that was copied there, and a name that two trials use; beside NVIDIA's driver folders are safe."""
    name = f"slowstep-test-{os.getpid()}"
    at = {own: Path(protection.SHARED_MEMORY) / f"{name}-{own}" for own in ("folder", "file", "folder/file", "made")}
    at["folder"].mkdir()
    try:
        for own in ("file", "folder/file"):
            at[own].write_text("of the user")
        for trial in ("a", "b"):
            at["made"].unlink(missing_ok=True) if driver == "/dev/null" else None
            (tmp_path / trial).mkdir()
            words = [sys.executable, "-c", IN_MEMORY, str(tmp_path / trial), name, driver]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout)
            assert (told["open"], told["written"]) == ([], [])
            assert told[str(at["folder/file"])] == "of the user"

        assert kept == {own for own in ("file", "folder/file") if at[own].read_text() == "of the user"}
        assert at["made"].exists() is (driver == "/dev/null")
    finally:
        shutil.rmtree(at["folder"])
        at["file"].unlink()
        at["made"].unlink(missing_ok=True)


OF_THE_SYSTEM = """
import ctypes, os, sys
from slowstep_probe.processes import protection
folder, key, setting = sys.argv[1:]
before = set(os.listdir("/sys/fs")), os.listdir("/sys/fs/cgroup")
assert protection.protect(folder, [folder]).open == []
assert before == (set(os.listdir("/sys/fs")), os.listdir("/sys/fs/cgroup"))
assert ctypes.CDLL(None).shmget(int(key), 100, 0o1666) >= 0
try:
    open(setting, "r+").write("0")
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.skipif(
    not os.access("/proc/sys/vm/laptop_mode", os.W_OK), reason="only root may change the system's settings"
)
def test_the_system_stays_as_it_is(tmp_path: Path) -> None:
    """Its settings can only be read, and nobody else has a segment that a trial shares by a number."""
    setting, key = Path("/proc/sys/vm/laptop_mode"), 0x51057E9
    before = setting.read_text()
    words = [sys.executable, "-c", OF_THE_SYSTEM, str(tmp_path), str(key), str(setting)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "Read-only file system"), done.stderr
    assert setting.read_text() == before
    assert str(key) not in Path("/proc/sysvipc/shm").read_text()


def test_a_trial_may_have_its_own_files_in_memory(tmp_path: Path) -> None:
    """Where temporary files lie there, all of it stays as it is, and other folders are safe."""
    folder = Path(tempfile.mkdtemp(dir=protection.SHARED_MEMORY))
    outside = tmp_path / "of_the_user.txt"
    outside.write_text("of the user")
    program = (
        "import sys; from slowstep_probe.processes import protection; folder, outside = sys.argv[1:]\n"
        "assert protection.protect(folder, [folder]).open == []\n"
        "for path in (folder + '/result.txt', outside): open(path, 'w').write('of the trial')"
    )
    try:
        words = [sys.executable, "-c", program, str(folder), str(outside)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

        assert (folder / "result.txt").read_text() == "of the trial"
        assert outside.read_text() == "of the user"
    finally:
        shutil.rmtree(folder)


def test_bytecode_of_the_kit_is_no_file_of_the_program(tmp_path: Path) -> None:
    """An interpreter that ignores the environment keeps it; what else is written beside it is told."""
    package = Path(protection.OWN)
    (tmp_path / package.name / "__pycache__").mkdir(parents=True)
    for name in (f"{package.name}/__pycache__/a.pyc", "result.txt"):
        (tmp_path / name).touch()
    found = protection.Protection(str(tmp_path))
    found.over = {str(package.parent): str(tmp_path)}

    assert [str(package.parent / "result.txt")] == found.written()


MOVES = """
import ctypes, json, os, pathlib, sys
from slowstep_probe.processes import protection
outer, elsewhere, folder = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(protection.NEW_MOUNTS) == 0
assert libc.mount(b"none", b"/", None, protection.RECURSIVE | protection.PRIVATE, None) == 0
for place in (outer, elsewhere):  # each has an overlay of its own then
    assert libc.mount(place.encode(), place.encode(), None, protection.BIND, None) == 0
    assert libc.mount(b"none", (place + "/memory").encode(), b"tmpfs", 0, None) == 0
assert protection.protect(folder, [folder]).open == []
outer, elsewhere = pathlib.Path(outer), pathlib.Path(elsewhere)
(outer / "last").rename(outer / "before")  # it lies beneath the overlay
os.replace(elsewhere / "new.pt", outer / "model.pt")
os.rename(elsewhere / "folder", outer / "folder")
os.rename(elsewhere / "link", outer / "link")
os.link(outer / "model.pt", elsewhere / "named.pt")
refused = []
for what, where in (("before", "folder"), ("model.pt", "folder"), ("model.pt", "memory/x")):
    for move in (os.rename, os.link):
        try:
            move(outer / what, elsewhere / where if "/" in where else outer / where)
        except OSError as error:
            refused.append(type(error).__name__)
told = {str(p.relative_to(outer)): p.read_text() for p in outer.rglob("*") if p.is_file()}
left = sorted(p.name for p in elsewhere.iterdir())
print(json.dumps([told, os.readlink(outer / "link"), left, refused]))
"""


def test_what_one_disk_allows_is_done_between_overlays(tmp_path: Path) -> None:
    """A program renames the folder of its last run, and replaces its files by those that it has written in /tmp."""
    for name in ("a/last/sub", "a/memory", "b/folder/sub", "b/memory", "trial"):
        (tmp_path / name).mkdir(parents=True)
    for name, text in {"a/last/sub/log": "1", "a/model.pt": "old", "b/new.pt": "new", "b/folder/sub/x": "2"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "b" / "link").symlink_to("nowhere")
    before = sorted((str(p), p.is_file() and p.read_text()) for p in tmp_path.rglob("*"))
    words = [sys.executable, "-c", MOVES, *(str(tmp_path / name) for name in ("a", "b", "trial"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, link, left, refused = json.loads(done.stdout)
    after = sorted((str(p), p.is_file() and p.read_text()) for p in tmp_path.rglob("*") if "trial/" not in str(p))

    assert told == {"before/sub/log": "1", "model.pt": "new", "folder/sub/x": "2"}
    assert (link, left) == ("nowhere", ["memory", "named.pt"])
    assert len(refused) == 6  # a folder with files in it is in the way, and so is another disk
    assert after == before
