"""The imports that the fork server makes once, for all trials.

Nothing but imports may happen here. A tensor touched before the fork leaves OpenMP's threads behind and hangs the
child, and a CUDA driver initialised before it is lost to every child. bitsandbytes initialises the driver when it is
imported, and peft imports it if it can. So it is hidden here, and imported by the trials that use it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import warnings
from collections.abc import Iterator

from slowstep.processes import adopt_orphans


@contextlib.contextmanager
def hidden(package: str) -> Iterator[None]:
    """Hide `package` from imports while the block runs, and afterwards forget what was cached about its absence."""
    sys.modules[package] = None
    try:
        yield
    finally:
        del sys.modules[package]
        for module in [m for name, m in sys.modules.items() if name.startswith(("peft", "transformers", "accelerate"))]:
            for name, value in list(vars(module).items()):
                if ("bnb" in name or package in name) and hasattr(value, "cache_clear"):
                    value.cache_clear()


began = time.perf_counter()

# An orphan comes to the server should a guard be killed, and the measurer finds it there.
adopt_orphans()
if any(action == "error" for action, *_ in warnings.filters):
    warnings.resetwarnings()  # what a library remarks is no reason to stop, whatever PYTHONWARNINGS asks for
    warnings.simplefilter("ignore", DeprecationWarning)
warnings.filterwarnings("ignore", message="forkserver: waitpid returned unexpected pid")

with hidden("bitsandbytes"):
    import encodings.idna  # noqa: F401

    import peft.tuners.lora
    import peft.utils.transformers_weight_conversion  # noqa: F401
    import scipy.io  # noqa: F401  datasets asks for it when it first reads a file

    import slowstep.trial.main  # noqa: F401

SECONDS = time.perf_counter() - began
"""The seconds of these imports. A script of the user's own spends them before anything else; trials find them done."""

# A trial's first gc.collect() would walk half a million imported objects (0.2 s of its start) and unshare the pages
# they lie on. Frozen, they are left alone.
gc.collect()
gc.freeze()

READY = time.monotonic()
"""The time, by `time.monotonic()`, from which on trials can be forked. One that is asked for earlier waits."""
