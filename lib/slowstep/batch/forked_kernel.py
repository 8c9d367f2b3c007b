"""A kernel that is forked and not started anew: it finds the imports of the process that it comes from made.

It is forked before anything of Jupyter runs, and waits until it is told where to connect. A fork of a process with an
event loop or with sockets of ZeroMQ would share them.

It imports nothing from the folder that it runs in, which IPython would put on its path: whoever draws a report may
stand in one that was sent to him, among files of any name. Its sockets are files in a folder that its user alone may
enter, since all users of a host can read what comes out of a port.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from traitlets.config import Config

from slowstep_probe.processes.scratch import folder_prefix, places
from slowstep_probe.processes.tree import die_with_parent

NAME = "slowstep-forked"

NOT_OF_FOLDER = "--InteractiveShellApp.ignore_cwd=True"
"""The argument of a kernel by which the working directory is not on its path."""

CONNECTION, SOCKET = "k.json", "k-ipc-5"
"""The names of its connection file and, made of that by Jupyter, of the last of its sockets."""

LONGEST = 107
"""The most bytes in the path of a socket (unix(7))."""


class Kernel:
    """A forked process that waits to be a kernel, asked and ended as a `subprocess.Popen` is."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int, arguments: int):
        self.pid, self.returncode = pid, None
        self._arguments = arguments

    def begin(self, arguments: list[str]) -> None:
        """Have it be a kernel with the arguments of a command line."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._arguments, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(arguments))

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        """Return its exit status when it has ended."""
        return self._ended(0)

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Tell it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def fork_kernel() -> Kernel:
    """Fork a process that will be a kernel. It ends with this one."""
    parent = os.getpid()
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(reading)
        return Kernel(pid, writing)
    os.close(writing)
    status = 1
    try:
        die_with_parent(parent)
        os.setsid()  # its group is interrupted and ended alone
        with os.fdopen(reading, encoding="utf-8") as pipe:
            request = pipe.read()
        if request:
            from ipykernel.kernelapp import launch_new_instance

            launch_new_instance(argv=json.loads(request))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


@contextlib.contextmanager
def private_sockets() -> Iterator[Config]:
    """Make a temporary folder that its user alone may enter, and give Jupyter's settings by which a kernel's sockets
    are there."""
    prefix = folder_prefix("kernel")
    short = [p for p in places() if len(os.fsencode(p / f"{prefix}12345678" / SOCKET)) <= LONGEST]
    place = next((p for p in short if os.access(p, os.W_OK | os.X_OK)), None)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as folder:
        yield Config(ConnectionFileMixin={"transport": "ipc", "connection_file": os.path.join(folder, CONNECTION)})


@contextlib.contextmanager
def is_default(kernel: Kernel) -> Iterator[None]:
    """Have Jupyter take a waiting kernel for the next one that it starts in this process."""
    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name
    entry = EntryPoint(name=NAME, value=f"{__name__}:Provisioner", group=factory.GROUP_NAME)
    factory.provisioners[NAME], factory.default_provisioner_name = entry, NAME
    Provisioner.waiting.append(kernel)
    try:
        yield
    finally:
        factory.default_provisioner_name = before
        for unused in Provisioner.waiting:
            unused.kill()
        Provisioner.waiting.clear()


class Provisioner(LocalProvisioner):
    """Jupyter's way to a local kernel, but for how its process comes into being."""

    waiting: list[Kernel] = []

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Have a waiting kernel begin; start one of this interpreter where none waits. `cmd` is not used."""
        arguments = ["-f", self.parent.connection_file, NOT_OF_FOLDER]
        if not self.waiting:
            return await super().launch_kernel([sys.executable, "-P", "-m", "ipykernel_launcher", *arguments], **kwargs)
        kernel = self.waiting.pop()
        kernel.begin([*arguments, f"--IPKernelApp.parent_handle={os.getpid()}"])
        self.process, self.pid, self.pgid = kernel, kernel.pid, kernel.pid
        self.cwd = kwargs.get("cwd", os.getcwd())
        return self.connection_info
