"""The options of commands that train on several nodes, and `slowstep join`."""

from __future__ import annotations

import argparse

from slowstep.cli.numbers import is_port, positive_number
from slowstep.cli.parser import Commands
from slowstep.nodes.listening import PORT, Listening, listen_at


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a command that trains on several nodes, where this is the first of them."""
    nodes = command.add_argument_group("several nodes")
    nodes.add_argument("--port", type=_port, default=PORT, help=f"where other nodes join ({PORT})")
    key = "the key by which nodes know each other; made if it is missing"
    nodes.add_argument("--key-file", metavar="FILE", default="", help=key)
    wait = "most until all nodes have joined (5)"
    nodes.add_argument("--wait", type=positive_number, metavar="MINUTES", default=5.0, help=wait)


def listen_as(given: argparse.Namespace) -> None:
    """Let a session that begins from now on listen as these options say, if they say it."""
    if hasattr(given, "wait"):
        listen_at(Listening(port=given.port, key_file=given.key_file, seconds=60 * given.wait))


def add_join(parser: Commands) -> None:
    """Add `slowstep join`."""
    join = parser.add_command("join", "train this node's part of what slowstep diagnose trains on several nodes")
    join.usage = "slowstep join HOST[:PORT] [options] -- COMMAND"
    join.add_argument("session", metavar="HOST[:PORT]", help="the node where slowstep diagnose runs")
    join.add_argument("--key-file", metavar="FILE", default="", help="a copy of the session's key")
    startup, wait = "most until it starts processes (300)", "most until it is there (5)"
    join.add_argument("--startup", type=positive_number, metavar="SECONDS", default=300.0, help=startup)
    join.add_argument("--wait", dest="patience", type=positive_number, metavar="MINUTES", default=5.0, help=wait)


def join(given: argparse.Namespace) -> int:
    """Run `slowstep join`, and return its exit status."""
    from slowstep.cli.join import join as join_session

    return join_session(given.session, given.words, given.key_file, given.startup, 60 * given.patience)


def _port(text: str) -> int:
    """Return a port; an error of the command line if it is none."""
    if is_port(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is no port; give a number from 1 to {2**16 - 1}")
