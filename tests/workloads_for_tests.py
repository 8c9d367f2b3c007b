"""Workloads that take milliseconds to build, each with one way to go wrong.

A trial imports them by name, so every class here is found in a process that knows nothing of the tests.
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from slowstep.settings import Settings
from slowstep.workloads import EventResult, NotTestable

BATCH = 8
FAILS_AT = 3
"""The step in which a workload that fails does so: after the trial has reported ready."""

MIB = 2**20


class Tiny:
    """A linear model trained by a plain loop; healthy."""

    device = "cpu"

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder

    def prepare_data(self) -> None:
        torch.manual_seed(0)
        x = torch.randn(40 * BATCH, 4)
        self.data = TensorDataset(x, x.sum(1, keepdim=True))

    def build_model(self) -> None:
        self.model = nn.Linear(4, 1)

    def build_trainer(self) -> None:
        workers = self.settings.training("dataloader_num_workers")
        self.loader = DataLoader(self.data, batch_size=BATCH, num_workers=workers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self) -> None:
        step = 0
        while True:
            for x, y in self.loader:
                step += 1
                self.during(step)
                self.loss(x, y).backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.model(x), y)

    def during(self, step: int) -> None:
        """What else happens in a step."""
        if step == FAILS_AT:
            self.fail()

    def fail(self) -> None:
        """The way this workload goes wrong."""

    def observe(self) -> dict[str, Any]:
        heap = torch.empty(MIB, dtype=torch.uint8).data_ptr()
        return {"pid": os.getpid(), "heap": heap, "dataloader_num_workers": self.loader.num_workers}

    def periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        return {}


class Averages(Tiny):
    """A hook on its optimizer takes most of each step."""

    def build_trainer(self) -> None:
        super().build_trainer()
        self.optimizer.register_step_post_hook(self.average)

    def average(self, *_: Any) -> None:
        time.sleep(0.01)


class Twin(Tiny):
    """The same again under another name."""


class Texts(Tiny):
    """Trains on texts of unlike lengths, so that blocks of other samples have other tokens."""

    def prepare_data(self) -> None:
        torch.manual_seed(0)
        size = 1009 * BATCH  # no two blocks of a test meet the same part of an epoch
        ids, lengths = torch.randint(64, (size, 16)), torch.randint(1, 17, (size, 1))
        mask = (torch.arange(16) < lengths).long()
        self.data = [{"input_ids": i, "attention_mask": m} for i, m in zip(ids, mask, strict=True)]

    def build_model(self) -> None:
        self.model = nn.Embedding(64, 1)

    def train(self) -> None:
        while True:
            for batch in self.loader:
                (self.model(batch["input_ids"]).squeeze(-1) * batch["attention_mask"]).mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()


class OtherTexts(Texts):
    """The same again under another name."""


class Built(Tiny):
    """Takes two seconds to build, and tells when it was built."""

    def build_model(self) -> None:
        began = time.monotonic()
        time.sleep(2)
        super().build_model()
        self.built = [began, time.monotonic()]

    def observe(self) -> dict[str, Any]:
        return super().observe() | {"built": self.built}


class Unbuilt(Tiny):
    """Can't be built."""

    def build_model(self) -> None:
        raise ValueError("no such width")


class Labours(Tiny):
    """Its dataset costs a millisecond of processor time an item, in whatever process draws it."""

    def prepare_data(self) -> None:
        super().prepare_data()
        self.data = Laboured(*self.data.tensors)


class Laboured(TensorDataset):
    """The data of `Labours`."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        began = time.process_time()
        while time.process_time() - began < 0.001:
            pass
        return super().__getitem__(index)


class Draws(Tiny):
    """Its dataset takes 20 ms an item and leaves a byte in a file for each, in whatever process draws it."""

    def prepare_data(self) -> None:
        super().prepare_data()
        self.drawn = self.folder / "drawn"
        self.data = Drawn(self.drawn, *self.data.tensors)

    def observe(self) -> dict[str, Any]:
        return super().observe() | {"drawn": str(self.drawn)}


class Drawn(TensorDataset):
    """The data of `Draws`."""

    def __init__(self, path: Path, *tensors: torch.Tensor):
        super().__init__(*tensors)
        self.path = path

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        time.sleep(0.02)
        with self.path.open("ab") as file:
            file.write(b".")
        return super().__getitem__(index)


class Raises(Tiny):
    """Stops with an exception of the user's own code."""

    def fail(self) -> None:
        raise KeyError("no such column")


class Exits(Tiny):
    """Leaves without a word."""

    def fail(self) -> None:
        os._exit(3)


class ExitsFull(Tiny):
    """Finds no memory in C++ code, which ends the process, as that of bitsandbytes does."""

    def fail(self) -> None:
        os.write(2, b"Error out of memory at line 59 in file /src/csrc/ops.cu\n")
        ctypes.CDLL(None).exit(1)


class Segfaults(Tiny):
    """Reads the address 0, as a broken extension does."""

    def fail(self) -> None:
        ctypes.string_at(0)


class Hangs(Tiny):
    """Never finishes a step, as a deadlocked loader does."""

    def fail(self) -> None:
        self.wait_for_what_never_comes()

    def wait_for_what_never_comes(self) -> None:
        """The name that the log must show."""
        while True:
            time.sleep(60)


class FillsDevice(Tiny):
    """Meets a full device, as an allocator tells it that is not PyTorch's own."""

    def fail(self) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


class WantsDevice(Tiny):
    """Takes a device that one process at a time may have, as in CUDA's mode "exclusive process"."""

    def during(self, step: int) -> None:
        if step == 1:
            self.taken = socket.socket(socket.AF_UNIX)
            try:
                self.taken.bind("\0a device of slowstep's tests")  # a name that the kernel gives back with the process
            except OSError:
                raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable") from None


class WantsDeviceToo(WantsDevice):
    """The same again under another name."""


class Eats(Tiny):
    """Takes host memory step by step; stops at `MOST`, so that a machine survives a limit that does not hold."""

    MOST = 3072 * MIB

    def during(self, step: int) -> None:
        if step < FAILS_AT:
            return
        held = []
        while len(held) * 32 * MIB < self.MOST:
            held.append(torch.ones(32 * MIB, dtype=torch.uint8))
            time.sleep(0.02)
        time.sleep(600)


class Holds(Tiny):
    """Holds three quarters of a GiB, well, for as long as it lives."""

    def build_model(self) -> None:
        super().build_model()
        self.ballast = torch.ones(768 * MIB, dtype=torch.uint8)


class HoldsToo(Holds):
    """The same again under another name."""


class LosesItself(Tiny):
    """Its loss stops being a number."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return super().loss(x, y) * float("nan")


class NotHere(Tiny):
    """Needs what this machine lacks."""

    def build_model(self) -> None:
        raise NotTestable("flux capacitors are not installed")
