"""The file of a part, gpu-<part>.json: its cells as they were measured, what they hold for, and its goals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.validation.results import here_and_now
from slowstep.environment.home import ROOT
from slowstep.environment.machine import this_machine, versions
from slowstep.records.store import write_atomically
from slowstep.settings.convert import to_plain


def path(out: Path, part: str) -> Path:
    """Return the file of a part in the folder `out`."""
    return out / f"gpu-{part}.json"


def read(out: Path, part: str) -> dict[str, Any]:
    """Return all that is known of a part; {} if it was never run."""
    file = path(out, part)
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write(out: Path, part: str, known: dict[str, Any]) -> None:
    """Keep what is known of a part."""
    write_atomically(path(out, part), json.dumps(to_plain(known), indent=1, default=str) + "\n")


def figures(out: Path, part: str) -> dict[str, Any]:
    """Return the figures of the cells that were measured, by name."""
    cells = read(out, part).get("cells", {})
    return {name: cell["figures"] for name, cell in cells.items() if "figures" in cell}


def about(commit: str) -> dict[str, Any]:
    """Return what figures hold for that are measured now: machine with device and driver, versions, date, commit.

    A copy of the tree without git does not know its `commit`, which is then taken as it was given; "" is not known.
    """
    if commit or not (ROOT / ".git").exists():
        here = {"machine": to_plain(this_machine()), "versions": versions()}
        return here | {"date": datetime.now(UTC).date().isoformat(), "commit": commit}
    return here_and_now()
