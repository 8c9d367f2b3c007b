"""The meaning of an exception for the arm that raised it: one status and one reason, with advice where there is any.

An exception of a loader worker arrives wrapped: "Caught ValueError in DataLoader worker process 0." stands above the
worker's own traceback (torch._utils.ExceptionWrapper). The reason is the worker's last line, with its place. A worker
that dies makes the loader's SIGCHLD handler raise wherever the trial stands, even while another exception is handled.
"""

from __future__ import annotations

import builtins
import os
import re
import signal
from collections.abc import Callable

import torch

from slowstep_probe import full_memory
from slowstep_probe.measured import Memory, Status
from slowstep_probe.places import from_here, raised_at
from slowstep_probe.plain import shortened
from slowstep_probe.secret import cleaned
from slowstep_probe.trial.messages import Failed
from slowstep_probe.trial.program_hooks import NotTestable

SHARED_MEMORY_TEXTS = ("shared memory", "</torch_", "is killed by signal: Bus error")
"""Parts of an exception's text by which a full /dev/shm is recognised. Loader workers hand over their batches through
it. The words are PyTorch's when it makes, resizes or maps a file there, or the kernel's."""

NO_SEMAPHORES = "loader workers need a /dev/shm that can be written ({room}), or set dataloader_num_workers to 0: "
"""The advice where multiprocessing finds no /dev/shm to make its semaphores in."""

OF_NCCL = re.compile(r"/dev/shm/nccl-\S*.*No space left", re.DOTALL)
"""NCCL's text where the ranks of a group find no room in /dev/shm for what they send each other."""

NCCL_MEMORY = (
    "the shared memory of NCCL ran out ({room}), by which the processes of a host send each other gradients; enlarge "
    "it (`docker run --shm-size=8g`, `mount -o remount,size=8G /dev/shm`): "
)

SHARED_MEMORY = (
    "the shared memory of the loader workers ran out ({room}); enlarge it (`docker run --shm-size=8g`, "
    "`mount -o remount,size=8G /dev/shm`), or lower dataloader_num_workers, dataloader_prefetch_factor or the batch: "
)
WORKER_KILLED = (
    "a loader worker was killed by SIGKILL, as the kernel does when memory runs out; "
    "fewer dataloader_num_workers take less: "
)
FILES = "too many files are open; raise the limit (`ulimit -n 4096`), or lower dataloader_num_workers: "
ADDRESS = (
    "another process has its address, and two trials run beside each other; let the program take a free port (0), or "
    "one that an option of the command names: "
)
DISK = (
    "a disk is full: what the program writes, and each file that it opens to write in it, goes to the folder for "
    "temporary files first ({room}); make room there, or set TMPDIR to a folder on another disk: "
)

TUNED = (
    "transformers sets TF32 by its newer name where it compiles, after which PyTorch 2.9 to 2.13 tune no products; "
    "give `tf32: false`, or call torch.set_float32_matmul_precision('high') once TrainingArguments are made: "
)

HINTS = {
    "[Errno 24]": FILES,
    "ddress already in use": ADDRESS,
    "mix of the legacy and new APIs": TUNED,
}
"""The advice on errors, by what an exception's text holds."""

FULL, LEFT = "[Errno 28]", 2**20
"""Part of an exception's text where a disk is full, and the free bytes below which it is, whatever a library says."""

SIGNAL_TEXTS = {signal.SIGKILL: "Killed", signal.SIGBUS: "Bus error"}
"""The names that the loader gives to signals, by strsignal(3)."""

WORKER_SECONDS = 1.0
"""The most seconds from a broken connection until the end of the worker is known."""

GOES_ON = re.compile(r"[\w,]$")
"""The end of a line that a line in small letters goes on from: no full stop stands there."""

LONGEST = 500
"""About the most characters of a reason."""

WRAPPED = re.compile(r"Caught \w+ (?:in|on) (?P<where>[^\n]*?)\.\s*\nOriginal Traceback", re.DOTALL)
FRAME = re.compile(r'^ +File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)


SCHEDULE_OVER = "The total number of steps is"
"""Part of what PyTorch's schedules of a fixed length (OneCycleLR) say when training goes on beyond it."""


class TrainingEnded(Exception):
    """The error of a program that ends by itself before its trial does. Its text says how."""

    def __init__(self, text: str, trained: bool):
        super().__init__(text)
        self.trained = trained
        """True if it ended after a training step."""


def failure(
    error: BaseException, memory: Memory, killed: Callable[[float], list[signal.Signals]] = lambda _: []
) -> Failed:
    """Return the last message of a trial that ended by `error`.

    `killed(seconds)` returns the signals that ended loader workers. It waits at most that long until one is known.
    """
    error = _first(error)
    text = _text(error)
    if isinstance(error, NotTestable):
        return Failed(status=Status.NOT_TESTABLE, reason=_plain(text), memory=memory)
    whole, reason = _whole(error), raised(error)
    if isinstance(error, TrainingEnded) or SCHEDULE_OVER in text:
        trained = not isinstance(error, TrainingEnded) or error.trained
        return Failed(status=Status.ENDED if trained else Status.CRASHED, reason=_line(text), memory=memory)
    # a worker that dies while it hands over a batch breaks a connection, and nothing else tells of it
    broken = isinstance(error, (ConnectionError, EOFError))
    if (broken or _of_loader(error)) and (numbers := killed(WORKER_SECONDS if broken else 0.0)):
        whole += f" is killed by signal: {SIGNAL_TEXTS.get(numbers[0], numbers[0].name)}"
        reason = f"a worker was ended by {numbers[0].name}: {reason}"
    if OF_NCCL.search(whole):
        return Failed(status=Status.OUT_OF_MEMORY, reason=NCCL_MEMORY.format(room=_room()) + reason, memory=memory)
    if any(t in whole for t in SHARED_MEMORY_TEXTS):
        return Failed(status=Status.CRASHED, reason=SHARED_MEMORY.format(room=_room()) + reason, memory=memory)
    if isinstance(error, OSError) and _raised_in(error, "multiprocessing/synchronize.py"):
        return Failed(status=Status.CRASHED, reason=NO_SEMAPHORES.format(room=_room()) + reason, memory=memory)
    if "is killed by signal: Killed" in whole:
        return Failed(status=Status.OUT_OF_MEMORY, reason=WORKER_KILLED + reason, memory=memory)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, (RuntimeError, OSError)) and full_memory.is_told(whole)
    ):
        return Failed(status=Status.OUT_OF_MEMORY, reason=reason, memory=memory)
    hint = next((hint for part, hint in HINTS.items() if part in whole), "") or on_full_disk(error)
    return Failed(status=Status.CRASHED, reason=hint + reason, memory=memory)


GROUPS = (builtins.BaseExceptionGroup,) if hasattr(builtins, "BaseExceptionGroup") else ()
"""The exception that holds others, which Python has since 3.11."""


def raised(error: BaseException) -> str:
    """Return what an exception says, in one line, and the place of the user's code where it was raised.

    A group of one exception says what that one does.
    """
    while isinstance(error, GROUPS) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = _text(error)
    if worker := _of_worker(text):
        return _line(worker)
    place = raised_at(error).in_words()
    return f"{_line(_whole(error))} ({place})" if place else _line(_whole(error))


def on_full_disk(error: BaseException) -> str:
    """Return the advice where an exception may come from a full disk; empty where it does not.

    What a program writes goes to the disk of temporary files, and its overlays tell the room that is there.
    """
    folder = os.environ.get("TMPDIR") or "/tmp"
    try:
        told = os.statvfs(folder)
    except OSError:
        return ""
    left = told.f_bavail * told.f_frsize
    room = f"{folder}, which has {left / 2**20:.0f} MiB left"
    return DISK.format(room=room) if FULL in _whole(error) or left < LEFT else ""


def _whole(error: BaseException) -> str:
    return f"{type(error).__name__}: {_text(error)}".rstrip(": ")


def _first(error: BaseException) -> BaseException:
    """Return the exception behind `error` that tells most about a loader worker that died; else `error` itself.

    If the loader's SIGCHLD handler raised while another exception was handled, this is the one that was handled. If
    the loader says only "exited unexpectedly", this is the earlier exception that names the signal.
    """
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    while len(chain) > 1 and _raised_in(chain[0], "_utils/signal_handling.py") and not _of_loader(chain[1]):
        if type(chain[1]).__module__ == "queue":  # the loader merely waited for its batch
            break
        chain.pop(0)
    if _of_loader(chain[0]):
        return next((each for each in chain if "is killed by signal" in _text(each)), chain[0])
    return chain[0]


def _of_loader(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and "DataLoader worker (pid" in _text(error)


def _raised_in(error: BaseException, file: str) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and place.tb_frame.f_code.co_filename.endswith(file)


def _text(error: BaseException) -> str:
    """Return the text of an exception. An exception class of the user may fail even at that."""
    try:
        return str(error)
    except Exception as another:
        return f"<its text can't be had: {type(another).__name__}>"


def _of_worker(text: str) -> str:
    """Return the last line of a worker's own traceback, with the worker and the place; an empty text if there is none.

    Where workers have started workers, this is the innermost worker.
    """
    wrapped = list(WRAPPED.finditer(text))
    if not wrapped:
        return ""
    told = text[wrapped[-1].end() :]
    frames = list(FRAME.finditer(told))
    if not frames:
        return ""
    lines = [line for line in told[frames[-1].end() :].splitlines() if line.strip() and not line.startswith(" ")]
    if not lines:
        return ""
    at = frames[-1]
    where = wrapped[-1]["where"].replace("DataLoader worker process", "loader worker")
    return f"{_line(lines[0])} ({where}, {from_here(at['file'])}:{at['line']} in {at['function']})"


def _line(text: str) -> str:
    """Return the first line of `text`, with those that a colon announces and those that end its sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    said = lines.pop(0)
    while lines and (said.endswith(":") or (GOES_ON.search(said) and lines[0][:1].islower())):
        said = f"{said} {lines.pop(0)}"
    return shortened(_plain(said), LONGEST)


def _plain(text: str) -> str:
    """Return `text` without secrets, and without what no file takes, such as half of a surrogate pair."""
    return cleaned(text.encode("utf-8", errors="replace").decode("utf-8"))


def _room() -> str:
    """Return the size of /dev/shm and its free space, in words."""
    try:
        told = os.statvfs("/dev/shm")
    except OSError:
        return "there is no /dev/shm"
    whole, free = (n * told.f_frsize / 2**20 for n in (told.f_blocks, told.f_bavail))
    return f"/dev/shm has {whole:.0f} MiB, {free:.0f} MiB free"
