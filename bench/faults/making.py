"""The faults: each is a command run under a condition, and what its answer must hold."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300.0
PYTHON = sys.executable
CHECK = [PYTHON, "-m", "slowstep.cli", "check", str(ROOT / "params" / "smoke.yaml"), "--outputs", "outputs"]
COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "clang++")

MOUNT = "exec unshare --mount sh -c 'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec \"$@\"' - {{command}}"
GROUP = (
    "g=/sys/fs/cgroup/memory/slowstep-fault-$$; f=memory.limit_in_bytes; "
    "[ -d /sys/fs/cgroup/memory ] || {{ g=/sys/fs/cgroup/slowstep-fault-$$; f=memory.max; }}; "
    "mkdir $g && echo 1500M > $g/$f || exit 77; "
    "sh -c 'echo $$ > '$g'/cgroup.procs && exec \"$@\"' - {command}; s=$?; "
    "until rmdir $g 2>/dev/null; do sleep 0.2; done; exit $s"
)
USABLE = ("can be used",)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault by its number in docs/faults.md. `{command}` in the `shell` line stands for the command."""

    number: int
    name: str
    command: list[str]
    expected: tuple[str, ...]
    """What the answer holds, all of it."""
    status: int = 0
    shell: str = "exec {command}"
    environment: dict[str, str | None] = field(default_factory=dict)
    """Variables that are set, or removed (None)."""


def _trial(name: str, workers: int = 0) -> list[str]:
    return [PYTHON, "-m", "bench.faults.trial", name, str(workers)]


FAULTS = [
    Fault(
        number=2,
        name="the kernel is out of memory (a control group of 1500 MiB)",
        command=_trial("Eats"),
        shell=GROUP,
        expected=("out of memory: killed by SIGKILL", "as the kernel does when memory runs out"),
    ),
    Fault(
        number=13, name="no compiler", command=_trial("Compiled"), expected=(), environment={"PATH": "{no compiler}"}
    ),
    Fault(
        number=23,
        name="/dev/shm of 4 MiB",
        command=_trial("Wide", 2),
        shell=MOUNT.format(size="4m"),
        expected=("the shared memory of the loader workers ran out", "--shm-size"),
    ),
    Fault(
        number=23,
        name="no /dev/shm",
        command=_trial("Wide", 2),
        shell="exec unshare --mount sh -c 'mount --bind /dev/null /dev/shm 2>/dev/null || "
        'mount -t tmpfs -o ro,size=4k tmpfs /dev/shm && exec "$@"\' - {command}',
        expected=("/dev/shm",),
    ),
    Fault(
        number=25,
        name="make lab listens here only, and asks for its token",
        command=[str(Path(PYTHON).with_name("jupyter")), "lab", "--no-browser", "--allow-root", "--port", "0"],
        shell="exec timeout 30 {command}",
        expected=("http://localhost:", "token="),
        status=124,
    ),
    *(
        Fault(number=23, name=name, command=CHECK, expected=USABLE, environment=changed)
        for name, changed in (
            ("HOME unset", {"HOME": None}),
            ("HOME can't be written", {"HOME": "/proc/none"}),
            ("LANG=C", {"LANG": "C", "LC_ALL": "C"}),
            ("no locale at all", {"LANG": None, "LC_ALL": None, "LC_CTYPE": None}),
            ("PYTHONWARNINGS=error", {"PYTHONWARNINGS": "error"}),
            ("OMP_NUM_THREADS=many", {"OMP_NUM_THREADS": "many"}),
            ("OMP_NUM_THREADS=0", {"OMP_NUM_THREADS": "0"}),
            ("TMPDIR is missing", {"TMPDIR": "/nonexistent"}),
            ("TMPDIR with spaces", {"TMPDIR": "{spaces}"}),
            ("TMPDIR of 150 characters", {"TMPDIR": "{long}"}),
        )
    ),
    Fault(number=23, name="stdin closed", command=CHECK, expected=USABLE, shell="exec <&-; exec {command}"),
    Fault(number=23, name="umask 077", command=CHECK, expected=USABLE, shell="umask 077; exec {command}"),
    Fault(number=23, name="ulimit -n 64", command=CHECK, expected=USABLE, shell="ulimit -n 64; exec {command}"),
    Fault(
        number=23,
        name="working directory deleted",
        command=CHECK,
        shell='mkdir gone; cd gone; rmdir "$PWD"; exec {command}',
        expected=("the working directory has been deleted",),
        status=2,
    ),
]


def make(fault: Fault) -> tuple[bool, str]:
    """Make the fault; return whether the kit did what it should, and what it said."""
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        changed = {name: _made(value, Path(folder)) for name, value in fault.environment.items()}
        path = os.pathsep.join([str(ROOT / "lib"), str(ROOT)])
        environment = {k: v for k, v in (os.environ | {"PYTHONPATH": path} | changed).items() if v is not None}
        line = fault.shell.replace("{{", "{").replace("}}", "}").replace("{command}", '"$@"')
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", line, "-", *fault.command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, f"no end within {SECONDS:.0f} s"
    said = (done.stdout + done.stderr).strip()
    for path, name in ((folder, "TMP"), (str(ROOT), "."), (str(Path.home()), "~")):
        said = said.replace(path, name)
    passed = done.returncode == fault.status and "Traceback" not in said and all(w in said for w in fault.expected)
    return passed, " ".join(said.split())[:400] or f"status {done.returncode}"


def _made(value: str | None, folder: Path) -> str | None:
    """The value of a variable; what it names is made where need be."""
    if value == "{no compiler}":
        (folder / "bin").mkdir()
        for program in [p for place in os.get_exec_path() if Path(place).is_dir() for p in Path(place).iterdir()]:
            link = folder / "bin" / program.name
            if not program.name.startswith(COMPILERS) and not link.is_symlink():
                link.symlink_to(program)
        return str(folder / "bin")
    if value in ("{spaces}", "{long}"):
        made = folder / ("a b c" if value == "{spaces}" else "x" * 150)
        made.mkdir()
        return str(made)
    return value
