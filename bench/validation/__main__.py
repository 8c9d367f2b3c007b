"""`make validate`: measure all parts, write the page and bench/results/validation.json, and renew README's table.

What was measured on this machine with the same sources is kept, so that a stopped validation goes on where it was.
Parts can be named, one by one or by their room: `python -m bench.validation planted/slow_disk prediction`. The page
shows what is known of the others, wherever it was measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from bench.validation import page, prediction, results, table
from bench.validation.parts import OUTPUTS, Part, parts


def main(names: Sequence[str]) -> int:
    """Measure the named parts, or all, and draw the page if every part is known."""
    every = parts()
    unknown = [name for name in names if not any(_of(name, part) for part in every)]
    if unknown:
        rooms = ", ".join(dict.fromkeys(part.partition("/")[0] for part in every))
        print(f"no such part: {', '.join(unknown)}; there are {rooms}", file=sys.stderr)
        return 2
    os.environ.update(prediction.ENVIRONMENT)
    asked = [part for part in every.values() if not names or any(_of(name, part.name) for name in names)]
    kept = dict.fromkeys(name for part in asked for name in (*part.needs, part.name))
    for name in kept:
        keep(every[name])
    for part in every.values():
        if part.name not in kept and kept.keys() & set(part.needs):
            renew(part)
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


def keep(part: Part) -> None:
    """Measure a part if it was not, judge it, and keep it."""
    known, key = results.read().get(part.name), part.key()
    if known is None or known["key"] != key or ("figures" not in known and not part.at_hand()):
        known = {"key": key} | results.here_and_now()
        known |= {"measured": part.measured()}
        results.write(part.name, known)  # a stop while it is judged loses nothing
    renew(part)


def renew(part: Part) -> None:
    """Judge what is known of a part by today's code, and by the parts it needs if they are of its machine."""
    every = results.read()
    known = every.get(part.name, {})
    if "figures" not in known and not part.at_hand():
        return
    if any(every[need]["machine"] != known["machine"] for need in part.needs):
        return
    known["figures"] = part.judged(known.pop("measured") if "measured" in known else known["figures"])
    results.write(part.name, known)
    print(f"{part.name}: {part.tell(known['figures'])}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
