"""`slowstep join`: this node trains its part of what `slowstep diagnose` trains on several nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from slowstep.cli.numbers import is_port
from slowstep.command.resolve import resolve
from slowstep.launch.node_of_session import OwnNode
from slowstep.launch.surveyor import SurveyOrder, would_start
from slowstep.nodes.greeting import NotGreeted, Unanswered, connect
from slowstep.nodes.key import NoKey, read_key
from slowstep.nodes.listening import PORT
from slowstep.settings.errors import SettingsError
from slowstep.text.terminal import say
from slowstep_probe.processes.wire import Wire
from slowstep_probe.survey.early_environment import mattering

T = TypeVar("T")

RETRY = 0.5
"""The seconds after which a session is looked for again."""


def join(session: str, words: Sequence[str], key_file: str, startup: float, patience: float) -> int:
    """Join a session, serve it until it ends, and return 0; SettingsError says why this can't be done.

    A key and a session that are not there yet are waited for, as many seconds as `patience` says.
    """
    host, port = address(session)
    command = resolve(words, Path.cwd(), os.environ)
    command = replace(command, env=mattering(os.environ) | command.env)
    command, nodes, node = would_start(command, SurveyOrder(startup=startup), os.environ)
    deadline = time.monotonic() + patience
    key = found_key(key_file, deadline)
    wire = reached(host, port, key, deadline)
    joined = OwnNode(command, nodes, node, wire, lambda: connect(host, port, key))
    say(
        f"this is node {joined.number} of the session on {joined.leader}; its reports are there, and nothing stays here"
    )
    joined.serve()
    say(f"the session on {joined.leader} has ended")
    return 0


def found_key(file: str, deadline: float) -> bytes:
    """Return the key, as soon as there is one; SettingsError if there is none in time."""
    notice = "waiting for the key, which `slowstep diagnose` makes on node 0. {}"
    return awaited(lambda: read_key(file), NoKey, deadline, notice)


def reached(host: str, port: int, key: bytes, deadline: float) -> Wire:
    """Return a connection to a session, as soon as there is one; SettingsError if there is none in time."""
    notice = f"waiting for a session at {host}:{port}: `slowstep diagnose` begins one on node 0"
    try:
        return awaited(lambda: connect(host, port, key), Unanswered, deadline, notice)
    except NotGreeted as why:
        raise SettingsError(str(why)) from None


def awaited(ask: Callable[[], T], missing: type[Exception], deadline: float, notice: str) -> T:
    """Return what is asked for as soon as it is there; while it is `missing`, ask again until the deadline.

    The user sees the `notice` once; braces in it stand for what is missing.
    """
    waiting = False
    while True:
        try:
            return ask()
        except missing as why:
            if time.monotonic() > deadline:
                raise
            if not waiting:
                say(notice.replace("{}", str(why)))
        waiting = True
        time.sleep(RETRY)


def address(session: str) -> tuple[str, int]:
    """Return host and port of a session; SettingsError if they can't be told."""
    host, colon, port = session.rpartition(":")
    if not colon or "]" in port:
        host, port = session, str(PORT)
    if host.count(":") and not host.startswith("["):
        raise SettingsError(f"{session}: put an IPv6 address in brackets, as in [fe80::1]:{PORT}")
    if not host or not is_port(port):
        raise SettingsError(f"{session}: no host and port; give them as in host0:{PORT}")
    return host.strip("[]"), int(port)
