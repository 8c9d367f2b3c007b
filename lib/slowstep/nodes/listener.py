"""The port at which other nodes connect. Strangers are sent away, whatever they say.

Few connections are greeted at the same time, and each for a limited time, so that strangers can't use up the files and
threads of this process. Where there are too many of them, a node waits, and asks again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from slowstep.nodes.greeting import NotGreeted, accept
from slowstep.settings.errors import SettingsError
from slowstep.text.terminal import say
from slowstep_probe.processes.wire import Wire

AT_ONCE = 32
"""The most connections that are greeted at the same time. Others wait until one of them is done."""

GREETING = "greeting"
"""The name of a thread that greets."""

PAUSE = 0.05
"""The seconds until the next try where the system opens no more files."""


class Listener:
    """Listens at a port, and hands connections whose other end knows the key to `admit`, each in its own thread."""

    def __init__(self, port: int, key: bytes, admit: Callable[[Wire], None]):
        self._key, self._admit = key, admit
        self._room = threading.Semaphore(AT_ONCE)
        self._closed = False
        try:
            self._socket = (
                socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
                if socket.has_dualstack_ipv6()
                else socket.create_server(("", port))
            )
        except OSError as error:
            raise SettingsError(
                f"port {port} can't be listened at: {error.strerror}; give another one by --port"
            ) from None
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, name="session", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed:
            self._room.acquire()
            own = None
            try:
                own, address = self._socket.accept()
                threading.Thread(target=self._greet, args=(own, address[0]), name=GREETING, daemon=True).start()
            except (OSError, RuntimeError):  # it is closed, or the system opens no more files or starts no more threads
                if own is not None:
                    own.close()
                self._room.release()
                time.sleep(PAUSE)

    def _greet(self, own: socket.socket, address: str) -> None:
        try:
            self._admit(accept(own, self._key))
        except NotGreeted as why:
            say(f"{address.removeprefix('::ffff:')} was sent away: {why}", error=True)
        finally:
            self._room.release()
