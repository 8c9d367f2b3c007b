"""Workloads that do to their process, their machine or their log what real ones do now and then."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import torch

from workloads_for_tests import MIB, Tiny

ESCAPED = "escaped-from-a-trial"
"""Stands in the command line of every process that tries to outlive its trial, with its trial's folder."""


def escaped(folder: Path) -> list[str]:
    """The program of such a process: it ignores what can be ignored, and ends by itself in the end."""
    code = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(300)"
    return [sys.executable, "-c", code, ESCAPED, str(folder)]


class StartsOthers(Tiny):
    """Starts processes in sessions of their own, and others whose parent ends at once (as daemons are started)."""

    def build_model(self) -> None:
        super().build_model()
        for _ in range(2):
            subprocess.Popen(escaped(self.folder), start_new_session=True)
        for _ in range(2):
            if os.fork() == 0:
                os.setsid()
                subprocess.Popen(escaped(self.folder), start_new_session=True)
                os._exit(0)
            os.wait()


class StartsOthersAndDies(StartsOthers):
    """Does so and ends by a broken extension."""

    def fail(self) -> None:
        ctypes.string_at(0)


class StartsOthersForEver(StartsOthers):
    """Has a process that forks without end: whoever kills by a list kills the last generation but one."""

    def build_model(self) -> None:
        super().build_model()
        code = (
            "import os, time\n"
            "while True:\n"
            "    time.sleep(0.002)\n"
            "    if os.fork():\n"
            "        os._exit(0)\n"
            "    os.setsid()\n"
        )
        subprocess.Popen([sys.executable, "-c", code, ESCAPED, str(self.folder)], start_new_session=True)


class Hoards(Tiny):
    """Takes half a GiB while its model is built, and gives it back within milliseconds."""

    def build_model(self) -> None:
        super().build_model()
        taken = torch.ones(512 * MIB, dtype=torch.uint8)
        del taken


class HoardsInAStep(Tiny):
    """Does so in a step."""

    def fail(self) -> None:
        taken = torch.ones(512 * MIB, dtype=torch.uint8)
        del taken


class HoardsWhileIdle(Tiny):
    """Takes more and more of the memory while it waits for its turn, by a thread in one long call of a library."""

    def observe(self) -> dict:
        import threading

        before = self._held()
        threading.Thread(target=self._hoard, daemon=True).start()
        while self._held() < before + 32 * MIB:  # from then on it asks for no interpreter
            time.sleep(0.001)
        return super().observe()

    def _hoard(self) -> None:
        self.taken = torch.randn(256 * MIB)

    @staticmethod
    def _held() -> int:
        return psutil.Process().memory_info().rss


class ReadsAMappedFile(Tiny):
    """Reads a GiB of data that is mapped from a file, of which most is empty."""

    def build_model(self) -> None:
        super().build_model()
        path = self.folder / "data"
        with path.open("wb") as file:
            file.truncate(1024 * MIB)
        self.mapped = torch.from_file(str(path), size=1024 * MIB, dtype=torch.uint8)
        assert not self.mapped.max()


class MapsAFileAndFails(ReadsAMappedFile):
    """Does so and stops with an exception of its own."""

    def fail(self) -> None:
        raise ValueError("its own reason")


class HoardsInAWorker(Tiny):
    """Another process than the trial's own takes the memory."""

    def fail(self) -> None:
        code = f"x = bytearray(b'1') * {768 * MIB}; import time; time.sleep(120)"
        subprocess.run([sys.executable, "-c", code], check=False)


class Babbles(Tiny):
    """Prints 20 MiB in all ways there are, then ends by a broken extension."""

    LINES = 10_000

    def fail(self) -> None:
        print("the first words")
        line = "x" * 511
        for _ in range(self.LINES):
            print(line)
        sys.stdout.flush()
        for _ in range(self.LINES):
            os.write(2, line.encode() + b"\n")
        subprocess.run(["head", "-c", str(10 * MIB), "/dev/zero"], check=True)
        os.write(1, b"\nthe last words\n")
        ctypes.string_at(0)


class Faulty(torch.utils.data.Dataset):
    """Items that can't be had, each in another way; in the process that draws them."""

    def __init__(self, way: str, length: int):
        self.way, self.length = way, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index >= 40:
            getattr(self, self.way)(index)
        return torch.ones(4), torch.ones(1)

    def raises(self, index: int) -> None:
        raise ValueError(f"row {index} has no text")

    def raises_key(self, index: int) -> None:
        raise KeyError("text")

    def chained(self, index: int) -> None:
        try:
            self.raises_key(index)
        except KeyError as error:
            raise LookupError("the column is not there\nand more lines") from error

    def killed(self, index: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def full(self, index: int) -> None:
        raise OSError(28, "No space left on device")

    def files(self, index: int) -> None:
        raise OSError(24, "Too many open files")

    def bus_error(self, index: int) -> None:
        """A page of a mapped file that is not there, as in a /dev/shm that is full."""
        import mmap
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.truncate(mmap.PAGESIZE)
            mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE)
            file.truncate(0)
            ctypes.string_at(ctypes.addressof(ctypes.c_char.from_buffer(mapped)), 1)


class FaultyData(Tiny):
    """Its items can't be had from the forty-first on."""

    way = "raises"

    def prepare_data(self) -> None:
        self.data = Faulty(self.way, 400)


class WorkerRaises(FaultyData):
    """A worker's own exception."""


class WorkerRaisesKey(FaultyData):
    """One whose text PyTorch wraps in another way."""

    way = "raises_key"


class WorkerChains(FaultyData):
    """One that follows another, of several lines."""

    way = "chained"


class WorkersKilled(FaultyData):
    """All workers are killed, one after the other, as the kernel does when memory runs out."""

    way = "killed"


class WorkerBusError(FaultyData):
    """A worker meets a full /dev/shm."""

    way = "bus_error"


class WorkerFullDisk(FaultyData):
    """A worker meets a full disk."""

    way = "full"


class WorkerFiles(FaultyData):
    """A worker may open no more files."""

    way = "files"


class LosesItsWorkers(Tiny):
    """All its workers are killed within milliseconds: each one's end makes the loader's handler raise once more."""

    def fail(self) -> None:
        code = "import os, sys, time; time.sleep(0.2); [(time.sleep(0.003), os.kill(int(p), 9)) for p in sys.argv[1:]]"
        pids = [str(worker.pid) for worker in multiprocessing.active_children()]
        subprocess.Popen([sys.executable, "-S", "-c", code, *pids])
        time.sleep(60)


class ClockJumpsBack(Tiny):
    """The wall clock is set back by a day in the third step, as by a time server."""

    def fail(self) -> None:
        real = time.time
        time.time = lambda: real() - 86400.0
