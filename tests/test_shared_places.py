"""What workers could not share is found however a data set comes by it: what it reads, and what is changed in place."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slowstep_probe.data_sets.changes import ChangesBetween
from slowstep_probe.data_sets.open_files import opened
from slowstep_probe.data_sets.shared_places import SharedPlaces

SIZE = 100_000


def kept_open(path: Path, flags: int = os.O_RDONLY) -> Any:
    """Return a file that stays open."""
    return os.fdopen(os.open(path, flags), "w" if flags & os.O_WRONLY else "rb")


class Reads:
    """A data set whose items call a function; how that comes by its file only its maker knows."""

    def __init__(self, read: Callable[[int], Any]):
        self.read = read

    def __getitem__(self, i: int) -> Any:
        return self.read(i)


def a_descriptor(path: Path) -> Reads:
    fd = os.open(path, os.O_RDONLY)
    return Reads(lambda i: (os.lseek(fd, i, os.SEEK_SET), os.read(fd, 4)))


def a_class_attribute(path: Path) -> Reads:
    class Of(Reads):
        file = kept_open(path)

    return Of(lambda i: (Of.file.seek(i), Of.file.read(4)))


def a_slot(path: Path) -> Reads:
    class Slotted:
        __slots__ = ("file",)

    one = Slotted()
    one.file = kept_open(path)
    return Reads(lambda i: (one.file.seek(i), one.file.read(4)))


def a_partial(path: Path) -> Reads:
    def read(file: Any, i: int) -> bytes:
        file.seek(i)
        return file.read(4)

    return Reads(functools.partial(read, kept_open(path)))


def a_generator(path: Path) -> Reads:
    def lines() -> Iterator[bytes]:
        with open(path, "rb") as file:
            while True:
                yield file.read(5_000)

    source = lines()
    next(source)
    return Reads(lambda i: next(source))


def an_iterator_over_lines(path: Path) -> Reads:
    lines = iter(enumerate(kept_open(path)))
    return Reads(lambda i: next(lines))


def a_connection(path: Path) -> Reads:
    served = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        one, _ = served.accept()
        while one.recv(1):
            one.sendall(b"answer")

    threading.Thread(target=answer, daemon=True).start()
    client = socket.create_connection(served.getsockname())
    return Reads(lambda i: (client.sendall(b"?"), client.recv(6)))


def a_pipe(path: Path) -> Reads:
    source = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    return Reads(lambda i: source.stdout.read(4))


SHARED = [a_descriptor, a_class_attribute, a_slot, a_partial, a_generator, an_iterator_over_lines, a_connection]


def found(data: Any, batches: int = 20) -> str:
    """Return what is found of a data set of which some batches are made."""
    places = SharedPlaces()
    places.epoch_begins(data)
    for batch in range(batches):
        places.asked(data)
        for i in range(4):
            data[(batch * 4 + i) * 1000 % SIZE]
        places.made(data)
    return places.found.get(data, "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows.bin"
    path.write_bytes(b"0123456\n" * (SIZE // 8))
    return path


@pytest.mark.parametrize("of", SHARED)
def test_a_place_that_moves_is_found(of: Callable[[Path], Reads], path: Path) -> None:
    """By its file's name where it has one."""
    assert ("a connection" if of is a_connection else "rows.bin") == found(of(path))


@pytest.mark.parametrize("of", [a_class_attribute, a_slot, a_partial, a_connection, a_pipe])
def test_what_is_open_is_found_before_a_batch_is_made(of: Callable[[Path], Reads], path: Path) -> None:
    """It may be read ahead so far that its place does not move."""
    assert opened(of(path))


def test_a_file_that_an_item_opens_is_its_own(path: Path) -> None:
    """Each worker would open it by itself, and many may read one file at places that they name themselves."""

    class Lazy:
        file: Any = None

        def __getitem__(self, i: int) -> bytes:
            self.file = self.file or kept_open(path)
            self.file.seek(i)
            return self.file.read(4)

    fd = os.open(path, os.O_RDONLY)
    mapped, monitored = np.memmap(path, mode="r"), os.open("/proc/self/statm", os.O_RDONLY)
    reads = (lambda i: os.pread(fd, 4, i), mapped.__getitem__, lambda i: os.read(monitored, 1))

    assert [""] * 4 == [found(one) for one in (Lazy(), *map(Reads, reads))]


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR])
def test_a_log_that_is_written_is_no_data(flags: int, tmp_path: Path) -> None:
    """Its place moves, and nobody reads there."""
    log = os.open(tmp_path / "log.txt", flags | os.O_CREAT)

    assert "" == found(Reads(lambda i: os.write(log, b"line")))


@pytest.mark.parametrize("quiet", [-1, 6])
def test_what_others_hear_is_no_data(quiet: int) -> None:
    """A tracker's connection hears something at any time, while a batch is made and between two."""
    served = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(served.getsockname())
    there, _ = served.accept()
    places, data = SharedPlaces(), Reads(int)
    places.epoch_begins(data)
    for batch in range(50):
        places.asked(data)
        if batch > quiet:
            there.sendall(b"of the tracker")
            client.recv(100)
        places.made(data)
        if batch > quiet:
            there.sendall(b"and more")
            client.recv(100)

    assert [] == [*places.found]


def test_a_look_leaves_connections_as_they_are() -> None:
    """A socket that waits still does, whatever sockets of Python's are told to do from now on."""
    here, there = socket.socketpair()
    socket.setdefaulttimeout(10)
    try:
        found(Reads(int))
    finally:
        socket.setdefaulttimeout(None)
    there.sendall(b"x")

    assert os.get_blocking(here.fileno())
    assert b"x" == here.recv(1)


@pytest.mark.parametrize(("opens", "said"), [("in_init", "rows.bin"), ("in_iter", "")])
def test_an_iterator_opens_a_file_of_its_own(opens: str, said: str, path: Path) -> None:
    """Each worker makes an iterator. What the data set itself holds they share."""

    class Lines(torch.utils.data.IterableDataset):
        def __init__(self) -> None:
            self.lines = iter(kept_open(path)) if opens == "in_init" else None

        def __iter__(self) -> Iterator[bytes]:
            return map(bytes, self.lines or iter(kept_open(path)))

    data, places = Lines(), SharedPlaces()
    places.epoch_begins(data)
    rows = iter(torch.utils.data.DataLoader(data, batch_size=2000, collate_fn=list))
    for _ in range(5):
        places.asked(data)
        next(rows)
        places.made(data)

    assert said == places.found.get(data, "")


@pytest.mark.parametrize(
    ("held", "change"),
    [
        ([0] * 9, lambda held: held.__setitem__(4, "other")),
        (deque(range(9)), lambda held: held.append(9)),
        ({"a": 1}, lambda held: held.update(a="other")),
        (np.zeros((50, 4)), lambda held: held.__setitem__(7, 1.0)),
        (torch.zeros(50, 4), lambda held: held[7].fill_(1.0)),
        ((torch.zeros(50, 4),), lambda held: held[0][7].fill_(1.0)),
    ],
)
def test_what_is_changed_in_its_place_is_found(held: Any, change: Callable[[Any], Any]) -> None:
    """Between two batches by the program, and not by the data set while it makes one."""
    data, untouched = Reads(int), Reads(int)
    data.held, untouched.held = held, [0] * 9
    changes = ChangesBetween()
    for one in (data, untouched):
        changes.epoch_begins(one)
        changes.asked(one)
        changes.made(one)
    changes.asked(untouched)
    change(held)
    changes.asked(data)
    changes.made(untouched)
    changes.asked(untouched)
    assert ".held" == changes.within[data]
    assert untouched not in changes.within
