"""Run a function that needs torch in a process of its own, so that the caller stays without torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowstep.launch.guarded_process import Guarded


def run_in_subprocess(target: Callable[..., None], *arguments: Any, timeout: float = 600.0) -> Any:
    """Return what `target(connection, *arguments)` sends back.

    RuntimeError if it ends without an answer, or if none comes within `timeout` seconds.
    """
    process = Guarded(target, *arguments, name=f"slowstep {target.__name__}")
    try:
        return process.receive(timeout)
    except TimeoutError:
        raise RuntimeError(f"{target.__name__}: no answer within {timeout:.0f} s") from None
    except EOFError:
        raise RuntimeError(f"{target.__name__} ended without an answer") from None
    finally:
        process.end()
