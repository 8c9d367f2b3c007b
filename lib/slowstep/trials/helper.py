"""Short errands that need torch, run in a process of their own so that the caller stays without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowstep.trials.process import context


def errand(target: Callable[..., None], *arguments: Any, timeout: float = 600.0, daemon: bool = True) -> Any:
    """What `target(connection, *arguments)` sends back; RuntimeError if it ends without a word.

    A target that starts processes of its own (loader workers) can't be a `daemon`.
    """
    server = context()
    ours, theirs = server.Pipe()
    process = server.Process(target=target, args=(theirs, *arguments), daemon=daemon)
    process.start()
    theirs.close()
    try:
        if not ours.poll(timeout):
            raise RuntimeError(f"{target.__name__}: no answer within {timeout:.0f} s")
        return ours.recv()
    except EOFError:
        raise RuntimeError(f"{target.__name__} ended without an answer") from None
    finally:
        process.kill()
        process.join(10)
