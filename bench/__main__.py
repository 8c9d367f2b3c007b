"""`make bench`: the kit's own costs, measured here and now. Parts can be named: `python -m bench probe start`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from slowstep.environment.machine import this_machine, versions
from slowstep.settings.convert import to_plain

RESULTS = Path(__file__).parent / "results"


def main(names: list[str]) -> None:
    """Run the named parts (all of them without a name), print each, and write it to bench/results/."""
    from bench import audit, diagnose, probe, start

    parts = {"probe": probe.measure, "start": start.measure, "audit": audit.measure, "diagnose": diagnose.measure}
    for name in names or parts:
        figures = parts[name]()
        for key, value in figures.items():
            print(f"{name}: {key}: {value}")
        about = {
            "machine": to_plain(this_machine()),
            "versions": versions(),
            "date": datetime.now(UTC).date().isoformat(),
        }
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(about | {"figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
