"""The session of this process: there is one, which lives as long as the process."""

from __future__ import annotations

import atexit

from slowstep.nodes.hello import Hello, own_hello
from slowstep.nodes.listening import listening
from slowstep.nodes.session import Session
from slowstep.settings.command import Command

_session: Session | None = None


def session_of(command: Command, nodes: int, processes: int) -> Session:
    """Return the session for a command. One that begins waits until all nodes have joined; SettingsError if they don't.

    Another command begins another session. Nodes that have left one are waited for by its `gather`.
    """
    global _session
    own = own_hello(command, nodes, 0, processes)
    if _session is None or _command(_session.own) != _command(own) or _session.listening != listening():
        end_session()
        _session = Session(own, listening())
        atexit.register(_session.close)
        _session.gather()
    return _session


def open_session() -> Session | None:
    """Return the session of this process; None if there is none."""
    return _session


def end_session() -> None:
    """End the session of this process, if there is one."""
    global _session
    if _session is not None:
        _session.close()
        atexit.unregister(_session.close)
        _session = None


def _command(one: Hello) -> tuple[object, ...]:
    """Return what tells the command of a session from another one."""
    return one.program, one.launcher, one.nodes, one.processes
