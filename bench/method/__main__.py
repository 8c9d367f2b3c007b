"""`python -m bench.method`: print the figures of docs/method.md's worked example, and draw its picture.

All come from the library's own functions; a test holds the page against them. `--keep` takes another comparison
for the example, and the text of the page has to follow.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.method.example import example, figures, keep, looks_table, pairs_table
from bench.method.picture import PICTURE, picture
from slowstep.records.store import write_atomically


def main() -> None:
    """Print, and draw."""
    parser = argparse.ArgumentParser(prog="python -m bench.method", description="the worked example of docs/method.md")
    files = ("PARAMS", "RECORD", "CONFIRMATION")
    parser.add_argument("--keep", nargs=3, type=Path, metavar=files, help="take this comparison for the example")
    asked = parser.parse_args()
    if asked.keep:
        keep(*asked.keep)
    told = example()
    print(f"{told.contrast.name} against the baseline\n\n{pairs_table(told)}\n\n{looks_table(told)}\n")
    for name, figure in figures(told).items():
        print(f"{name}: {figure}")
    write_atomically(PICTURE, picture(told))
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
