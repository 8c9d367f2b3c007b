"""Changes of PyTorch's flags. A program may set them itself, so they are set again before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from slowstep_probe.changing.wanted import Wanted

SDPA = {
    "math": "math",
    "flash": "flash",
    "efficient": "mem_efficient",
    "cudnn": "cudnn",
}
"""The kernels of scaled_dot_product_attention, by the names of their flags (torch.backends.cuda.enable_…_sdp)."""


def tf32() -> bool:
    """Return whether 32-bit matrix products are rounded to TF32."""
    products = torch.backends.cuda.matmul
    if hasattr(products, "fp32_precision"):  # from torch 2.9 on the older name can't be read once this one was set
        return products.fp32_precision == "tf32"
    return bool(products.allow_tf32)


def _set_tf32(value: bool) -> None:
    products = torch.backends.cuda.matmul
    if hasattr(products, "fp32_precision"):
        products.fp32_precision = "tf32" if value else "ieee"
        return
    products.allow_tf32 = torch.backends.cudnn.allow_tf32 = value


def sdpa_backend() -> str | None:
    """Return the one kernel that attention may use; None if PyTorch chooses."""
    allowed = [name for name, flag in SDPA.items() if getattr(torch.backends.cuda, f"{flag}_sdp_enabled")()]
    return allowed[0] if len(allowed) == 1 else None


def _set_sdpa_backend(value: str) -> None:
    for name, flag in SDPA.items():
        getattr(torch.backends.cuda, f"enable_{flag}_sdp")(name == value)


FLAGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "training_arguments.tf32": (tf32, _set_tf32),
    "model.sdpa_backend": (sdpa_backend, _set_sdpa_backend),
}
"""How each flag is read and set, by canonical key."""


class Flags:
    """Sets flags before the program, and again before its first step."""

    def __init__(self, wanted: Wanted):
        self.wanted = wanted

    def set(self) -> None:
        """Set those that are wanted and differ."""
        for key, (read, write) in FLAGS.items():
            if key in self.wanted and (before := read()) != self.wanted[key]:
                write(self.wanted[key])
                self.wanted.note(key, key.rpartition(".")[2], before, self.wanted[key])
