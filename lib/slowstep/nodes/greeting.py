"""Connections between nodes: both ends prove that they know the key before anything else is said.

Each end sends a random number, and the answer to the other's (HMAC-SHA256 with the key). So the key is never sent, and
what was overheard once is of no use. What is said afterwards is neither secret nor signed, as in the rendezvous of
`torch.distributed`: nodes train in a network that is trusted.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time

from slowstep_probe.processes.wire import Wire

MAGIC = b"slowstep-1"
"""The first bytes of a session, by which it is told from other programs, and from sessions that speak otherwise."""

NONCE = 32
ACCEPTED, REFUSED = b"y", b"n"

SECONDS = 10.0
"""The seconds that the other end has for the greeting, and then for what it says of itself."""

LOST_SECONDS = 2
"""The seconds of silence after which a connection counts as lost. The kernel of a host that lives answers each one."""


class NotGreeted(Exception):
    """The end of a connection whose other end is no node of this session. Its text says why."""


class Unanswered(NotGreeted):
    """The end of a connection that nobody answered. There may be a session later."""


def connect(host: str, port: int, key: bytes) -> Wire:
    """Return the connection to a session; NotGreeted if there is none, or if it has another key."""
    try:
        own = socket.create_connection((host, port), SECONDS)
    except OSError as error:
        raise Unanswered(f"nothing answers at {host}:{port} ({error.strerror or error})") from None
    deadline = time.monotonic() + SECONDS
    try:
        told = _exactly(own, len(MAGIC) + NONCE, deadline)
        if not told.startswith(MAGIC):
            raise NotGreeted(f"what answers at {host}:{port} is no session of this slowstep")
        theirs, ours = told[len(MAGIC) :], secrets.token_bytes(NONCE)
        own.sendall(ours + _proof(key, b"node", theirs, ours))
        if _exactly(own, 1, deadline) != ACCEPTED or not hmac.compare_digest(
            _exactly(own, NONCE, deadline), _proof(key, b"session", ours, theirs)
        ):
            raise NotGreeted(f"the key here is not that of the session at {host}:{port}")
    except TimeoutError:
        own.close()
        raise Unanswered(f"who listens at {host}:{port} has said nothing for {SECONDS:.0f} s") from None
    except (OSError, EOFError):
        own.close()
        raise NotGreeted(f"what answers at {host}:{port} is no session of this slowstep") from None
    except NotGreeted:
        own.close()
        raise
    return Wire(kept_alive(own))


def accept(own: socket.socket, key: bytes) -> Wire:
    """Return the connection to who has connected; NotGreeted if it does not know the key."""
    deadline = time.monotonic() + SECONDS
    own.settimeout(SECONDS)
    try:
        ours = secrets.token_bytes(NONCE)
        own.sendall(MAGIC + ours)
        told = _exactly(own, 2 * NONCE, deadline)
        theirs, proof = told[:NONCE], told[NONCE:]
        if not hmac.compare_digest(proof, _proof(key, b"node", ours, theirs)):
            own.sendall(REFUSED)
            raise NotGreeted("it does not have the key of this session")
        own.sendall(ACCEPTED + _proof(key, b"session", theirs, ours))
    except (OSError, EOFError):
        own.close()
        raise NotGreeted("it is no node of slowstep") from None
    except NotGreeted:
        own.close()
        raise
    return Wire(kept_alive(own))


def kept_alive(own: socket.socket) -> socket.socket:
    """Return a connection that waits without end, and that the kernel gives up when the other host is silent."""
    own.settimeout(None)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 1),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", LOST_SECONDS),
        ("TCP_USER_TIMEOUT", 1000 * LOST_SECONDS),
    ):
        with contextlib.suppress(AttributeError, OSError):  # not on every system
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return own


def _proof(key: bytes, who: bytes, asked: bytes, own: bytes) -> bytes:
    return hmac.digest(key, who + asked + own, "sha256")


def _exactly(own: socket.socket, size: int, deadline: float) -> bytes:
    """Return so many bytes, and read no more; EOFError if the other end closes before, TimeoutError at the deadline."""
    found = b""
    while len(found) < size:
        if (left := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        own.settimeout(left)
        portion = own.recv(size - len(found))
        if not portion:
            raise EOFError
        found += portion
    return found
