"""What the fork server imports once, for all trials. Imports only: no tensor may be touched before the fork."""
# ruff: noqa: E402  the logger is quietened before what it speaks for is imported

import encodings.idna  # noqa: F401
import gc
import logging

# on a machine without its kernels bitsandbytes would say so on the user's terminal
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

import peft.tuners.lora
import peft.utils.transformers_weight_conversion  # noqa: F401
import scipy.io  # noqa: F401  datasets asks for it when it first reads a file

import slowstep.trials.child  # noqa: F401

# A trial's first gc.collect() would walk half a million imported objects (0.2 s of its start) and unshare the pages
# they lie on. Frozen, they are left alone.
gc.collect()
gc.freeze()
