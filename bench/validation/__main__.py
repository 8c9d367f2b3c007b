"""`make validate`: measure all parts, write the page and bench/results/validation.json, and renew README's table.

What was measured on this machine with the same sources is kept, so that a stopped validation goes on where it was.
Parts can be named, one by one or by their room: `python -m bench.validation planted/slow_disk prediction`. The page
shows what is known of the others, wherever it was measured. `--again` measures the named parts once more, and keeps
what came out before beside it; `--known-sizes` takes the sizes of the planted causes as they are known of
this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from bench.validation import page, prediction, results, table
from bench.validation.parts import OUTPUTS, Part, parts
from slowstep.records.schema import deciding


def main(arguments: Sequence[str]) -> int:
    """Measure the named parts, or all, and draw the page if every part is known."""
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description="measure how well slowstep judges")
    parser.add_argument("names", nargs="*", metavar="part", help="what to measure; all if none is named")
    parser.add_argument("--again", action="store_true", help="measure although it is known")
    parser.add_argument("--known-sizes", action="store_true", help="take the sizes of planted causes as they are known")
    options = parser.parse_args(arguments)
    every, names = parts(), options.names
    unknown = [name for name in names if not any(_of(name, part) for part in every)]
    if unknown:
        rooms = ", ".join(dict.fromkeys(part.partition("/")[0] for part in every))
        print(f"no such part: {', '.join(unknown)}; there are {rooms}", file=sys.stderr)
        return 2
    os.environ.update(prediction.ENVIRONMENT)
    asked = [part for part in every.values() if not names or any(_of(name, part.name) for name in names)]
    known = results.read() if options.known_sizes else {}
    here = _hardware(results.here_and_now())
    of_here = {name for name, one in known.items() if "figures" in one and _hardware(one) == here}
    needed = {name for part in asked for name in part.needs} - of_here
    kept = dict.fromkeys(name for part in asked for name in (*needed.intersection(part.needs), part.name))
    for name in kept:
        keep(every[name], again=options.again and name not in needed)
    for name, one in results.read().items():
        if name in every and name not in kept and kept.keys() & set(every[name].needs):
            renew(every[name], one)
    missing = results.missing(every)
    if missing:
        print(f"not measured yet: {', '.join(sorted(missing))}")
    figures = results.collected(every)
    page.write(figures, results.where(every), OUTPUTS / "index.html")
    table.renew()
    for row in page.summary(figures):
        print(f"{row['asked']}: {row['measured']} ({row['wanted']})")
    print(f"open {OUTPUTS / 'index.html'}")
    return 0


def _of(name: str, part: str) -> bool:
    """Whether a part is meant by its name or by its room's."""
    return part == name or part.startswith(f"{name}/")


def keep(part: Part, again: bool = False) -> None:
    """Measure a part if it was not, or `again`; judge it, and keep it with what came out of the same key before.

    Nothing is written between the two: a planted workload is of the package whose results these are, so its records
    would be those of another program. What a stop leaves unjudged lies beside its records.
    """
    known, key = results.read().get(part.name), part.key()
    if again or known is None or known["key"] != key:
        earlier = [*known.get("earlier", ()), known["figures"]] if known and known["key"] == key else []
        found = None if again else part.recorded()
        known = {"key": key} | results.here_and_now() | {"earlier": earlier}
        known |= {"measured": part.measured() if found is None else found}
    renew(part, known)


def renew(part: Part, known: dict[str, Any]) -> None:
    """Judge what is known of a part by today's code, and by the parts it needs if they are of its machine."""
    every = results.read()
    if any(_hardware(every[need]) != _hardware(known) for need in part.needs):
        return
    known["figures"] = part.judged(known.pop("measured") if "measured" in known else known["figures"])
    results.write(part.name, known)
    print(f"{part.name}: {part.tell(known['figures'])}", flush=True)


def _hardware(known: dict[str, Any]) -> dict[str, object]:
    """The machine on which a part was measured, without what is installed there."""
    return deciding(known["machine"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
