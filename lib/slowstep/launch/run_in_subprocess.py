"""Run a function that needs torch in a process of its own, so that the caller stays without torch."""

from __future__ import annotations

from typing import Any

from slowstep.environment.system_errors import NotAnswered
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.warm_interpreter import NotStarted, own_interpreter, own_path
from slowstep.settings.convert import to_plain
from slowstep_probe.processes.guard import Order


def run_in_subprocess(target: str, *arguments: Any, timeout: float = 600.0) -> Any:
    """Return the value of the `Answer` that `target(wire, *arguments)` sends; both it and the arguments are plain data.

    `target` is `package.module:name`. NotAnswered if it ends without an answer, or if none comes within `timeout`
    seconds.
    """
    order = Order(target=target, arguments=[to_plain(one) for one in arguments], path=own_path())
    try:
        process = Guarded(own_interpreter(), order)
    except NotStarted as why:
        raise NotAnswered(f"{target} could not be started: {why}") from None
    try:
        return process.receive(timeout).value
    except TimeoutError:
        raise NotAnswered(f"{target}: no answer within {timeout:.0f} s") from None
    except EOFError:
        raise NotAnswered(f"{target} ended without an answer") from None
    finally:
        process.end()
