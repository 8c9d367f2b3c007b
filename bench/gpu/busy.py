"""`python -m bench.gpu.busy SECONDS`: keep the device busy with products of matrices, or the cores without a device."""

from __future__ import annotations

import sys
import time

import torch

SIDE = {"cuda": 8192, "cpu": 512}


def main(seconds: float) -> None:
    """Multiply matrices for so long."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(SIDE[device], SIDE[device], device=device)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        a = (a @ a).clamp(-1, 1)
        if device == "cuda":
            torch.cuda.synchronize()


if __name__ == "__main__":
    main(float(sys.argv[1]))
