"""The kit's side of a warm interpreter: it starts one, tells it what to import, and has it fork guarded processes."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slowstep.environment.system_errors import NO_DIRECTORY
from slowstep.launch.environment import trial_environment
from slowstep.launch.probe_entry import LIBRARY, entry
from slowstep.processes.standard_streams import open_standard_streams
from slowstep_probe.plain import to_plain
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.log import last_words
from slowstep_probe.processes.tree import end_descendants, end_process_tree
from slowstep_probe.processes.wire import Wire, pair

ALWAYS = ("torch", "torch.profiler", "slowstep_probe.trial.main")
"""The modules that every interpreter needs that trials are forked from."""

DESCRIBED = (
    "encodings.idna",
    "transformers.trainer",
    "accelerate.data_loader",
    "peft.tuners.lora",
    "peft.utils.transformers_weight_conversion",
    "scipy.io",  # datasets asks for it when it first reads a file
    *("torch._inductor.compile_fx", "torch._dynamo.repro.after_dynamo"),  # bitsandbytes compiles when it is imported
    "slowstep.workloads.finetune",
)
"""The modules that trials of described runs need besides."""

END_SECONDS = 90.0
"""The seconds that an interpreter may take to fork a process, or to end what it forked and itself."""

MOST_IDLE = 3
"""The interpreters without trials that are kept beside a new one. Each holds its imports, some 0.3 GiB."""

LONGEST_IMPORTS = 1800.0
"""The seconds that an interpreter's imports may take where nobody says less."""

PRINTED = 65536
"""The bytes, from the end of what the imports printed, in which its last words are looked for."""

PASSING = re.compile(r"_|PWD|OLDPWD|SHLVL|COLUMNS|LINES|PYTEST_.*|SLOWSTEP_.*|JPY_.*")
"""Environment variables that change while a program runs, and that no training depends on."""


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """An interpreter to keep warm."""

    python: str
    options: tuple[str, ...] = ()
    """The interpreter's own options."""
    preload: tuple[str, ...] = ()
    """Modules that it imports beforehand, in this order."""
    env: tuple[tuple[str, str], ...]
    """Its whole environment: libraries read some of it when they are imported."""
    folder: str = ""
    """Its working directory, by which relative entries of PYTHONPATH are read; empty for that of the kit."""
    argv: tuple[str, ...] = ()
    """The words of its program as `sys.argv`, which libraries may look at when they are imported."""


@dataclass(frozen=True, kw_only=True)
class Preloaded:
    """What a warm interpreter says when its imports are made."""

    seconds: float
    ready: float
    """The time, by `time.monotonic()`, from which on it could fork."""
    failed: dict[str, str] = field(default_factory=dict)
    """The modules that could not be imported, with the reason."""
    opened: str = ""
    """The module whose import opened a device, after which nothing was imported; empty if none did."""


class NotStarted(EOFError):
    """A process could not be forked, for the reason that this says: it gives no answer, as one that has ended."""


class WarmInterpreter:
    """An interpreter that has made its imports, or still makes them, and forks guarded processes."""

    def __init__(self, about: Interpreter):
        self.about = about
        self.guards: set[int] = set()
        """The numbers of the guards that it forked and that have not been let go."""
        self._start(about.preload)
        atexit.register(self._close_at_exit)

    def _start(self, modules: Sequence[str]) -> None:
        """Start the process, and have it import modules."""
        about = self.about
        self._wire, theirs = pair()
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  it is read when the interpreter has ended
        program = entry("processes.server", f"{theirs.fileno()}, {self._printed.fileno()}")
        self.process = subprocess.Popen(
            [about.python, *about.options, "-c", program],
            env=dict(about.env),
            cwd=about.folder if os.path.isdir(about.folder) else None,
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), self._printed.fileno()),
            start_new_session=True,
        )
        theirs.close()
        self._preloaded: Preloaded | None = None
        self._requests = 0
        self._wire.send({"preload": list(modules), "argv": list(about.argv), "request": 0})

    @property
    def alive(self) -> bool:
        """True if it can fork."""
        return not self._wire.closed and self.process.poll() is None

    @property
    def last_words(self) -> str:
        """What its imports printed last; empty if they printed nothing."""
        size = os.fstat(self._printed.fileno()).st_size
        printed = os.pread(self._printed.fileno(), PRINTED, max(0, size - PRINTED))
        return last_words(printed.decode("utf-8", errors="replace"))

    @property
    def preloaded(self) -> Preloaded:
        """What it imported; NotStarted if it ended meanwhile. This waits for its imports."""
        try:
            self.wait(LONGEST_IMPORTS)
        except TimeoutError as late:
            raise NotStarted(str(late)) from None
        return self._preloaded  # type: ignore[return-value]

    def wait(self, seconds: float) -> None:
        """Wait for its imports; TimeoutError after so many seconds, NotStarted if it ended meanwhile. Both say why.

        Where an import opens a device, which no forked process could use any more, it begins anew with those before.
        """
        if self._preloaded is not None:
            return
        try:
            found = Preloaded(**self._reply(0, seconds))
            if found.opened:
                self._end()
                self._start(self.about.preload[: self.about.preload.index(found.opened)])
                found = Preloaded(**self._reply(0, seconds))
        except TimeoutError:
            raise TimeoutError(self._without(f"did not make its imports within {seconds:.0f} s")) from None
        except (EOFError, OSError):
            raise NotStarted(self._without("ended while it made its imports")) from None
        self._preloaded = found

    def _without(self, what: str) -> str:
        """Return what happened to it before it had made its imports, with its last words."""
        return f"{self.about.python} {what}" + (f"; its last words: {self.last_words}" if self.last_words else "")

    def fork(self, order: Order, connection: Wire, report: Wire) -> int:
        """Fork a guard that carries out an order; return its number.

        NotStarted if the interpreter has ended or does not answer, or if the system lets it have no more processes.
        `connection` and `report` are handed over, and closed here.
        """
        _ = self.preloaded
        self._requests += 1
        try:
            message = {"fork": to_plain(order), "request": self._requests}
            self._wire.send(message, descriptors=[connection.fileno(), report.fileno()])
            reply = self._reply(self._requests)
        except TimeoutError:
            raise NotStarted(f"the interpreter that forks it did not answer within {END_SECONDS:.0f} s") from None
        except (EOFError, OSError):
            raise NotStarted("the interpreter that forks it has ended") from None
        finally:
            connection.close()
            report.close()
        if "refused" in reply:
            raise NotStarted(f"the system refuses it: {reply['refused']}")
        self.guards.add(int(reply["guard"]))
        return int(reply["guard"])

    def _reply(self, request: int, seconds: float = END_SECONDS) -> dict[str, Any]:
        """Return the reply to a request. Replies to earlier ones, which nobody waited for in the end, are let go."""
        deadline = time.monotonic() + seconds
        while (reply := self._wire.receive(max(0.0, deadline - time.monotonic()))).pop("request") != request:
            pass
        return reply

    def end_orphans(self, guard: int) -> None:
        """End what is left of a guard that was killed: its processes came to the interpreter."""
        self.guards.discard(guard)
        end_descendants(self.process.pid, keep=self.guards)

    def close(self) -> None:
        """End it, with all that it forked. Repeating this is harmless."""
        if self._wire.closed:
            return
        self._end()
        atexit.unregister(self._close_at_exit)

    def _end(self) -> None:
        self._wire.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            end_process_tree(self.process.pid)
            self.process.wait()

    def _close_at_exit(self) -> None:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient Ctrl-C ends nothing sooner, and leaves more
        self.close()


_warm: dict[Interpreter, WarmInterpreter] = {}
"""The interpreters that this process keeps warm, in the order in which they were last asked for."""


def environment(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the environment of an interpreter, without what merely passes."""
    return tuple(sorted(item for item in variables.items() if not PASSING.fullmatch(item[0])))


def warm(about: Interpreter) -> WarmInterpreter:
    """Return a warm interpreter, which is started if there is none; one that has ended is replaced."""
    found = _warm.pop(about, None)
    if found is None or not found.alive:
        _let_go()
        open_standard_streams()  # so that no socket to a trial takes their numbers
        found = WarmInterpreter(about)
    _warm[about] = found
    return found


def _let_go() -> None:
    """End the interpreters that were asked for longest ago and have no trials, but for the last ones."""
    idle = [about for about, one in _warm.items() if not one.guards]
    for about in idle[:-MOST_IDLE]:
        _warm.pop(about).close()


def own_interpreter() -> WarmInterpreter:
    """Return the kit's own interpreter, warm, as trials of described runs need it.

    It makes its imports while the caller goes on. FileNotFoundError if the working directory has been deleted.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        raise FileNotFoundError(NO_DIRECTORY) from None
    return warm(of_the_kit((*ALWAYS, *DESCRIBED), trial_environment(os.environ)))


def of_the_kit(preload: tuple[str, ...], variables: Mapping[str, str]) -> Interpreter:
    """Return the interpreter that runs this, with such an environment in which it finds the kit's own modules."""
    path = os.pathsep.join(filter(None, (str(LIBRARY), variables.get("PYTHONPATH"))))
    return Interpreter(python=sys.executable, preload=preload, env=environment({**variables, "PYTHONPATH": path}))


def own_path() -> list[str]:
    """Return the folders on which this process finds modules."""
    return [place for place in sys.path if place]
