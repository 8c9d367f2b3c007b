"""`python -m bench.faults [NUMBER ...]`: make faults for real, print pass or fail, write bench/results/faults.json.

As root, on Linux: mounting and control groups need it.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.faults.making import FAULTS, make
from slowstep.environment.machine import this_machine, versions
from slowstep.settings.convert import to_plain

RESULTS = Path(__file__).resolve().parents[1] / "results" / "faults.json"


def main(numbers: list[str]) -> int:
    """Make the faults of those numbers or names (all of them without one); 0 if the kit stood all of them."""
    wanted = [fault for fault in FAULTS if not numbers or {str(fault.number), fault.name} & set(numbers)]
    failed, made = 0, []
    for fault in wanted:
        passed, said = make(fault)
        failed += not passed
        print(f"{fault.number:>2}  {'pass' if passed else 'FAIL'}  {fault.name}: {said}", flush=True)
        made.append(
            {
                "number": fault.number,
                "fault": fault.name,
                "outcome": "pass" if passed else "fail",
                "said": said,
                "date": datetime.now(UTC).date().isoformat(),
            }
        )
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["faults"] if RESULTS.is_file() else []
    known = [each for each in known if each["fault"] not in [new["fault"] for new in made]] + made
    known.sort(key=lambda each: (each["number"], each["fault"]))
    about = {"machine": to_plain(this_machine()), "versions": versions(), "faults": known}
    RESULTS.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
