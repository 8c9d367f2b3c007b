"""`python -m bench.gpu`: list the parts, or measure some of them. docs/gpu.md says how."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.gpu.part import Bench, Part
from bench.gpu.parts import parts
from bench.gpu.running import DONE, FAILED, OtherFigures, open_cells, run, seconds, state
from bench.gpu.scale import DRY, REAL
from slowstep.environment.home import ROOT

SIGNS = {True: "✔", False: "✘", None: "?"}


def main(arguments: Sequence[str]) -> int:
    """List the parts; or measure those named, or with `--minutes` those that are open. 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description="prove the GPU path, part by part")
    parser.add_argument("names", nargs="*", metavar="part", help="what to measure")
    parser.add_argument("--minutes", type=float, help="measure open parts in order, as far as they fit")
    parser.add_argument("--cells", type=int, help="measure at most so many cells of each part")
    parser.add_argument("--dry", action="store_true", help="tiny sizes, which a CPU trains in seconds")
    parser.add_argument("--out", type=Path, help="the folder of the results")
    parser.add_argument("--commit", default="", help="the commit of this tree, where git can't tell it")
    given = parser.parse_args(arguments)
    if given.dry and given.out is None:
        parser.error("--dry needs --out FOLDER: figures of tiny models must not stand among the results")
    scale = DRY if given.dry else REAL
    every = {part.name: part for part in parts(scale)}
    unknown = [name for name in given.names if name not in every]
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are {', '.join(every)}", file=sys.stderr)
        return 2
    deadline = time.monotonic() + 60 * given.minutes if given.minutes is not None else float("inf")
    out = (given.out or ROOT / "bench" / "results").resolve()
    most = float("inf") if given.cells is None else given.cells
    bench = Bench(scale=scale, out=out, deadline=deadline, cells=most, commit=given.commit)
    asked = [every[name] for name in given.names] or (list(every.values()) if given.minutes is not None else [])
    os.environ |= environment()
    try:
        for part in asked:
            if given.names or state(part, bench) != FAILED:  # what failed is tried again where it is named
                run(part, bench)
    except OtherFigures as why:
        print(why, file=sys.stderr)
        return 2
    for part in asked if given.names else every.values():
        show(part, bench)
    return int(any(state(part, bench) == FAILED for part in asked))


def environment() -> dict[str, str]:
    """Return the variables of all trials: this tree's code first, then what was given, such as packages beside it.

    Nothing finds what another trial compiled, so that each start-up is measured as a job's own.
    """
    paths = [str(ROOT / "lib"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def show(part: Part, bench: Bench) -> None:
    """Print a part's state, and its goals as far as something of it was measured."""
    now, left = state(part, bench), len(open_cells(part, bench))
    took = seconds(part, bench)
    rest = "" if now == DONE else f" ({left} of {len(part.cells)} cells left, of about {part.minutes:.1f} min)"
    print(f"{part.name:<18} {now:<8} {took:5.0f} s  {part.title}{rest}")
    if took:
        for goal in part.judged(bench):
            measured = "not known yet" if goal["measured"] is None else goal["measured"]
            shown = f"{measured:.4g}" if isinstance(measured, float) else measured
            print(f"{'':18} {SIGNS[goal['holds']]} {goal['asked']}: {shown} (wanted: {goal['wanted']})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
