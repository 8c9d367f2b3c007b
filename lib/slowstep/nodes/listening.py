"""The place where a session listens, and the time for which nodes wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

PORT = 29611
"""The port of a session if no other is named."""


@dataclass(frozen=True, kw_only=True)
class Listening:
    """The port and the key of a session, and the seconds for which it waits for nodes to join."""

    port: int = PORT
    key_file: str = ""
    seconds: float = 300.0


_here = Listening()


def listen_at(where: Listening) -> None:
    """Say where a session listens that begins from now on."""
    global _here
    _here = where


def listening() -> Listening:
    """Return where a session listens that begins now."""
    return _here
