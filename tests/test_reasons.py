"""The reason of a failure is told in whole sentences, or in whole words where one has no end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from slowstep_probe.measured import Memory
from slowstep_probe.plain import shortened
from slowstep_probe.trial.failure import failure, raised

UNUSED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
    "\nmaking sure all `forward` function outputs participate in calculating loss. \nIf you already have done the "
    "above, then the distributed data parallel module wasn't able to locate the output tensors in the return value."
)
"""What PyTorch says of weights that a step did not use, where its lines end in the middle of sentences."""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (UNUSED, "RuntimeError: " + UNUSED.partition(" \nIf")[0].replace("\n", "")),
        ("shapes differ:\n(2, 3)\n\nmore", "RuntimeError: shapes differ: (2, 3)"),
        ("CUDA error\nCompile with TORCH_USE_CUDA_DSA", "RuntimeError: CUDA error"),
        ("it can't be read.\nas was said", "RuntimeError: it can't be read."),
        ("", "RuntimeError"),
    ],
)
def test_a_reason_ends_where_a_sentence_does(text: str, told: str) -> None:
    error = RuntimeError(text)

    assert told == raised(error)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("short", "short"),
        ("One is here. Two is there. Three is nowhere.", "One is here. Two is there."),
        ("no end of it is to be seen anywhere at all", "no end of it is to be seen …"),
        ("x" * 40, "x" * 30 + " …"),
    ],
)
def test_a_text_is_cut_between_sentences_or_words(text: str, told: str) -> None:
    assert told == shortened(text, 30)


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this PyTorch has one name for TF32")
def test_what_transformers_sets_and_pytorch_refuses_is_told_with_a_way_out() -> None:
    """Products are tuned (max-autotune) by asking for the precision by its older name, which then raises an error."""
    torch.backends.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError) as refused:
            torch.get_float32_matmul_precision()
    finally:
        torch.backends.fp32_precision = "none"

    assert "give `tf32: false`" in failure(refused.value, Memory()).reason


FILLED = """
import ctypes, os, sys
from slowstep_probe.processes import protection
from slowstep_probe.trial.failure import on_full_disk
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(protection.NEW_MOUNTS) == 0
assert libc.mount(b"none", b"/", None, protection.RECURSIVE | protection.PRIVATE, None) == 0
assert libc.mount(b"none", sys.argv[1].encode(), b"tmpfs", 0, b"size=8m") == 0
os.environ["TMPDIR"] = sys.argv[1]
written = RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")
print(repr(on_full_disk(written)))
print(on_full_disk(OSError(28, "No space left on device", "big.bin")))  # a copy of a file that is larger than the room
try:
    with open(sys.argv[1] + "/checkpoint.pt", "wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
except OSError:
    print(on_full_disk(written))
"""


def test_a_disk_that_trials_fill_is_named_with_its_room(tmp_path: Path) -> None:
    """What a program writes goes to the disk of TMPDIR, while that of the file that the error names may be empty."""
    done = subprocess.run([sys.executable, "-c", FILLED, str(tmp_path)], capture_output=True, text=True, check=True)
    nothing, asked, full = done.stdout.splitlines()

    assert nothing == "''"
    assert f"temporary files first ({tmp_path}, which has 8 MiB left)" in asked
    assert f"temporary files first ({tmp_path}, which has 0 MiB left); make room there, or set TMPDIR" in full
