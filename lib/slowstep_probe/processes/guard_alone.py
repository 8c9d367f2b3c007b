"""A guard that nobody forks: it starts a program anew, for which no interpreter may be warm.

It is started as `python -c "…; main(CONNECTION, REPORT)"` with a socket at each descriptor and with its order, as JSON,
on standard input: an order holds an environment, which no other user may read in the list of processes.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from slowstep_probe.plain import from_plain
from slowstep_probe.processes.guard import Order, guard
from slowstep_probe.processes.wire import Wire


def main(connection: int, report: int) -> NoReturn:
    """Guard what the order says until it ends, or has to be ended."""
    order = from_plain(Order, json.load(sys.stdin))
    for one in (connection, report):
        os.set_inheritable(one, False)
    guard(Wire.of(report), Wire.of(connection), order)
    os._exit(0)


def become(wire: Wire, words: list[str], order: dict[str, object], env: dict[str, str]) -> NoReturn:
    """Run a program in place of this one, with an order as its last word, whose `result` is the wire's descriptor."""
    os.set_inheritable(wire.fileno(), True)
    os.execve(words[0], [*words, json.dumps(order | {"result": wire.fileno()})], env)
