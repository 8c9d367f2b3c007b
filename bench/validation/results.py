"""bench/results/validation.json: what each part measured, with the machine, versions, date and commit it holds for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from slowstep.environment.machine import this_machine, versions
from slowstep.investigation import ROOT
from slowstep.records.store import write_atomically
from slowstep.settings.convert import to_plain

RESULTS = ROOT / "bench" / "results" / "validation.json"

ABOUT = ("machine", "versions", "date", "commit")

SUMS = (
    ("planted", "correct", "correct"),
    ("healthy", "correct", "correct"),
    ("prediction", "within_5pct", "within"),
    ("prediction", "returned_within_5pct", "within, returned"),
)


def read() -> dict[str, Any]:
    """What is known, by the name of its part: `{key, machine, versions, date, commit, figures}`."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def write(name: str, known: dict[str, Any]) -> None:
    """Keep what is known of a part beside the others."""
    write_atomically(RESULTS, json.dumps(read() | {name: known}, indent=1) + "\n")


def here_and_now() -> dict[str, Any]:
    """What figures hold for that are measured now: each of `ABOUT`."""
    return {
        "machine": to_plain(this_machine()),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
    }


def collected(names: Iterable[str]) -> dict[str, Any]:
    """The figures of those of these parts that are known, as page and table show them.

    Rooms (`planted/…`, `healthy/…`, `prediction/…`) become their rows with their sums.
    """
    known, figures = read(), {}
    for name in (n for n in names if "figures" in known.get(n, {})):
        room, _, one = name.partition("/")
        row = known[name]["figures"] | {about: known[name][about] for about in ABOUT} | {"part": one}
        row["earlier"] = known[name].get("earlier", [])
        if one:
            figures.setdefault(room, {"rows": []})["rows"].append(row)
        else:
            figures[room] = row
    for room, key, counted in SUMS:
        figures[room][key] = sum(row[counted] for row in figures[room]["rows"])
        figures[room]["total"] = len(figures[room]["rows"])
    return figures


def missing(names: Iterable[str]) -> list[str]:
    """Return the parts among `names` that were never measured."""
    known = read()
    return [name for name in names if "figures" not in known.get(name, {})]


def where(names: Iterable[str]) -> str:
    """Machines, versions and dates of these parts, each once, and how many commits they were measured at."""
    about = [part for name, part in read().items() if name in set(names)]
    machines = _each_once(machine(part["machine"]) for part in about)
    packages = _each_once(f"{name} {part['versions'][name]}" for name in ("torch", "transformers") for part in about)
    dates = sorted({part["date"] for part in about})
    commits = len(_each_once(part["commit"] for part in about))
    days = f"{dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}"
    return f"{'; '.join(machines)}; {', '.join(packages)}; {days}, at {commits} commit{'s' * (commits > 1)}."


def machine(about: dict[str, Any]) -> str:
    """A machine in a few words."""
    return f"{about['processor']}, {about['cores']} cores, {about['gpu'] or 'no GPU'}"


def _each_once(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _commit() -> str:
    """The commit, and whether what matters differs from it."""
    changed = _git("status", "--porcelain", "lib", "bench", "notebooks", "params", ":!bench/results")
    return _git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
