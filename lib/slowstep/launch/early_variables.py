"""Environment variables of changes that somebody else may have found: those that can't lead to his code.

`changes.json` is made to be shared, and a program starts with its variables. Of a stranger's file PYTHONPATH would run
whatever lies beside it. So a variable is only set if it tunes a library that is imported with torch, and names neither
a file nor an address. The program's own code sets the others, too, and it does so before it imports what reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TUNES = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|NUMEXPR|DNNL|ONEDNN|CUDA|CUDNN|CUBLAS|CUBLASLT|NCCL|PYTORCH|TORCH|TORCHINDUCTOR|"
    r"TOKENIZERS|MALLOC)_\w+"
)
"""The names of variables by which arithmetic, memory and exchange are tuned."""

LEADS = re.compile(r"PATH|DIR|FILE|HOME|ROOT|CACHE|LIBRAR|PLUGIN|PRELOAD|INJECTION|LOG|TRACE|DUMP|ADDR|COMM_ID")
"""Parts of such names with which a variable says what is loaded, where something is written, or who is asked."""

PLAIN = re.compile(r"[\w.,:+={}()*-]*")
"""Values that are no path and nothing that a shell obeys: numbers, words and lists of them."""


def harmless(early: Mapping[str, str]) -> dict[str, str]:
    """Return those of these environment variables with which a program may start, whoever found them."""
    return {
        name: value
        for name, value in early.items()
        if TUNES.fullmatch(name) and not LEADS.search(name) and PLAIN.fullmatch(value)
    }
