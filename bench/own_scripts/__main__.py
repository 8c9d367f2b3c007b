"""`python -m bench.own_scripts [NAME …]`: scripts, untouched and with planted causes, diagnosed by their commands.

For each the whole command runs as a user types it, in a folder that holds nothing but the script. The truth is measured
by the script alone: what it prints of its own throughput, with and without the cause, in turns. What is known stays in
bench/results/own_scripts.json; `--again` measures it once more, and `--reread` judges its records in outputs/ by the
causes as they are told today. `healthy/SCRIPT` names an untouched script.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.own_scripts.on_nodes import TORCHRUN, two_nodes
from bench.own_scripts.script import changed, throughput
from bench.validation.results import here_and_now
from slowstep.environment.home import ROOT
from slowstep.factors import CATALOGUE
from slowstep.factors.in_code import KEEPS_FREED_MEMORY
from slowstep.records.store import Store, write_atomically
from slowstep.report.overview import Overview
from slowstep.report.read_overview import overview
from slowstep.text.markdown import escape_cell
from slowstep.wording.causes import Cause

HERE = Path(__file__).resolve().parent
RESULTS = ROOT / "bench" / "results" / "own_scripts.json"
OUTPUTS = ROOT / "outputs" / "own_scripts"
TURNS = (3, 5)
"""The fewest and the most runs of the script with and without the cause, for the truth."""

NEAR_LENGTH = 0.1
"""The part by which the length of an exchange may be missed."""

NEAR = 1.2
"""The ratio between the extremes of the runs below which the truth is known well enough."""

KEPT = dict(pair.split("=") for pair in KEEPS_FREED_MEMORY.split())
"""glibc's variables for keeping freed memory."""

WITHOUT_EXCHANGE = "ddp_comm_hook=none"
"""The change by which the ranks train apart."""

NOTHING = "nothing"
"""What is named first where no cause was."""

FAR = math.log(1.25)
"""Two estimates of a gain may differ by so much."""


def main(arguments: list[str]) -> int:
    """Diagnose what is named, or all that is not known yet."""
    parser = argparse.ArgumentParser(prog="python -m bench.own_scripts", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--again", action="store_true")
    parser.add_argument(
        "--reread", action="store_true", help="judge the records in outputs/ again, and measure nothing"
    )
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--table", action="store_true", help="print what is known as a table, and measure nothing")
    given = parser.parse_args(arguments)
    if given.table:
        print(table(json.loads(RESULTS.read_text())))
        return 0
    scripts = [str(path.relative_to(HERE / "scripts")) for path in sorted((HERE / "scripts").rglob("*.py"))]
    every = {f"healthy/{name.removesuffix('.py')}": {"script": name} for name in scripts} | planted()
    for name in given.names or every:
        known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        if given.reread:
            known |= reread(name, every[name], known.get(name))
        elif name not in known or given.again:
            known[name] = diagnosed(name, every[name], given.minutes) | here_and_now()
        write_atomically(RESULTS, json.dumps(known, indent=1) + "\n")
        if name in known:
            print(f"{name}: {'right' if known[name]['right'] else 'WRONG'}: {known[name]['first']}", flush=True)
    return 0


def table(known: Mapping[str, Mapping[str, Any]]) -> str:
    """What is known, as the table of docs/validation.md."""
    head = ("script or cause", "", "named first", "said", "truth", "minutes, asked and taken")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, row in known.items():
        sign, first = "✔" if row["right"] else "✘", escape_cell(named_first(row["first"]))
        said, truth = (percentages(row[key]) if row[key] else "" for key in ("said", "truth"))
        took = f"{row['asked_minutes']:g}, {row['call_seconds'] / 60:.1f}" if row.get("call_seconds") else ""
        lines.append(f"| {name} | {sign} | {first} | {said} | {truth} | {took} |")
    return "\n".join(lines)


def named_first(text: str) -> str:
    """The change that shows the first cause; or the time that no change explains, with the place of most of it."""
    cause = text.split(" (+")[0]
    if " It is " not in cause:
        return cause.rpartition("shown by ")[2][:110]
    place = text.partition(" It is ")[2].split(". ")[0].split("; ")[0]
    return f"{text.split('; ')[0]}: {place}"


def percentages(ratios: list[float]) -> str:
    """Ratios as gains in per cent: the estimate, and its ends where they are known."""
    first, *ends = (f"{100 * (ratio - 1):.0f}" for ratio in ratios)
    return f"+{first} %" + (f" [{', '.join(ends)}]" if ends else "")


def planted() -> dict[str, dict[str, Any]]:
    """The planted causes, by name."""
    return yaml.safe_load((HERE / "planted.yaml").read_text(encoding="utf-8"))


def diagnosed(name: str, scenario: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """The truth, and what the kit says first; whether that names the cause with a size that agrees."""
    with tempfile.TemporaryDirectory() as folder:
        home, plain = Path(folder) / "home", Path(folder) / "plain"
        home.mkdir()
        plain.mkdir()
        text = (HERE / "scripts" / scenario["script"]).read_text(encoding="utf-8")
        script = Path(scenario["script"]).name
        ill = changed(text, scenario.get("replace", {}))
        (home / script).write_text(ill)
        words = [sys.executable, "-m", "slowstep.cli", "diagnose", "--minutes", str(minutes), "--outputs", folder]
        with setting_of(name, scenario, home / script) as setting:
            command = [*setting.within, *words, "--name", "found", *setting.options, "--", *setting.command, script]
            began = time.monotonic()
            with setting.beside:
                done = subprocess.run(command, cwd=home, env=healthy_environment(), capture_output=True, text=True)
            took = time.monotonic() - began
            if (Path(folder) / "found").is_dir():
                shutil.rmtree(OUTPUTS / name, ignore_errors=True)
                shutil.copytree(Path(folder) / "found", OUTPUTS / name, symlinks=True)
            found = said_first(name, scenario)
            # a change is held against itself made by hand, and time that no change takes away against its cause undone
            cure = made_by_hand(found, scenario)
            without = ill if "slow_node" in scenario else text  # the other node trains the same
            (plain / script).write_text(without if cure is None else changed(ill, cure))
            asked = "expected" in scenario or cure is not None
            truth = ratio(plain / script, home / script, setting) if asked else None
    row = {"truth": truth, "status": done.returncode, "asked_minutes": minutes, "call_seconds": round(took, 1)}
    return found | row | {"right": is_right(found | row, scenario)}


def made_by_hand(row: Mapping[str, Any], scenario: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The replacements that make the named change by hand, whose gain is the truth; None where that of the cause is."""
    if row["factor"] in scenario.get("gains", {}):
        return scenario["gains"][row["factor"]]
    return scenario.get("cure") if row["factor"] in CATALOGUE and row["named"] else None


def reread(name: str, scenario: Mapping[str, Any], known: Mapping[str, Any] | None) -> dict[str, Any]:
    """A known row by the causes as they are told today; {} where its records are gone, or need another truth."""
    if known is None or not (OUTPUTS / name).is_dir():
        return {}
    row = dict(known) | said_first(name, scenario)
    if made_by_hand(row, scenario) != made_by_hand(known, scenario):
        print(f"{name}: it is named otherwise now, and its truth is another one; measure it again", flush=True)
        return {}
    return {name: row | {"right": is_right(row, scenario)}}


def said_first(name: str, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What an investigation in outputs/own_scripts says first, by the causes as they are told today."""
    seen = overview(OUTPUTS / name) if (OUTPUTS / name).is_dir() else None
    first = seen.causes[0] if seen and seen.causes else None
    return {
        "first": first.text if first else NOTHING,
        "factor": first.factor if first else None,
        "named": name_of(first, scenario.get("expected", [])) if first else None,
        "said": list(first.size) if first else [],
        "seconds": round(seen.seconds, 1) if seen else None,
        "measured_seconds": round(seen.measured_seconds, 1) if seen else None,
    } | ({"exchange_ms": exchange(seen, OUTPUTS / name)} if seen and "exchange_ms" in scenario else {})


def exchange(seen: Overview, folder: Path) -> list[float]:
    """Milliseconds of a step that the exchange of gradients takes, by the arm without it: the estimate and its ends.

    Nothing if that was not measured.
    """
    effect = next((v.effect for v in seen.verdicts if v.name == WITHOUT_EXCHANGE), None)
    store = Store(folder / "records")
    texts = [store.path("comparisons", name).read_text(encoding="utf-8") for name in store.names("comparisons")]
    found = [d["record"]["pairs"] for d in map(json.loads, texts) if d["about"]["name"] == WITHOUT_EXCHANGE]
    if effect is None or not found:
        return []
    step = statistics.mean(1e3 * pair["baseline"]["seconds"] / pair["baseline"]["steps"] for pair in found[0])
    return [step * (1 - 1 / ratio) for ratio in (effect.ratio, effect.low, effect.high)]


def name_of(cause: Cause, expected: Sequence[str]) -> str | None:
    """Return the first of the expected names that a cause has; None if none. A factor counts if the cause is named by
    it, and any other name if it is a part of the text."""
    text = cause.text.lower()
    factors = [name for name in expected if name == cause.factor]
    return next(iter(factors or [n for n in expected if n not in CATALOGUE and n.lower() in text]), None)


def is_right(row: Mapping[str, Any], scenario: Mapping[str, Any]) -> bool:
    """Return whether what stands first is right: named with a size that agrees, or nothing where there is nothing.

    A script as it is may be told of a change by which it gains as much when that is made by hand. An exchange of known
    length must be found within a tenth. Where the command failed nothing was diagnosed, and so nothing was left alone.
    """
    if row["status"] != 0:
        return False
    if "expected" not in scenario:
        gains = bool(row["truth"]) and row["truth"][1] > 1 and agrees(row["said"], row["truth"])
        return row["first"] == NOTHING or gains
    length = scenario.get("exchange_ms")
    found = row.get("exchange_ms") or [math.inf]
    agreed = length is None or abs(found[0] / length - 1) <= NEAR_LENGTH
    return bool(row["named"]) and agrees(row["said"], row["truth"]) and agreed


def agrees(said: list[float], truth: list[float] | None) -> bool:
    """Whether the intervals meet, or the estimates are near."""
    if not said or truth is None:
        return False
    return (said[1] <= truth[2] and truth[1] <= said[2]) or abs(math.log(said[0] / truth[0])) < FAR


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a scenario's commands are started: words before `slowstep` and before the script, and what runs beside."""

    command: list[str]
    """The words before the script, where it is diagnosed."""
    without: list[str]
    """The words before the script that trains without the cause."""
    planted: list[str]
    """The words before the script that trains with it."""
    within: list[str] = field(default_factory=list)
    """The words before `slowstep`."""
    options: list[str] = field(default_factory=list)
    """More options of `slowstep diagnose`."""
    beside: AbstractContextManager[None] = field(default_factory=nullcontext)
    """What runs while the script is diagnosed."""


@contextmanager
def setting_of(name: str, scenario: Mapping[str, Any], script: Path) -> Iterator[Setting]:
    """Give the setting of a scenario: two nodes for those in nodes/, two processes for scripts in ranks/, or one."""
    if Path(name.removeprefix("healthy/")).parts[0] == "nodes":
        slow = scenario.get("slow_node")
        with two_nodes(slow) as nodes:
            yield Setting(
                within=nodes.within[0],
                options=nodes.diagnose(),
                command=nodes.launcher(0),
                without=nodes.alone(1 - (slow or 0)),
                planted=nodes.alone(slow or 0),
                beside=nodes.second(script, healthy_environment()),
            )
        return
    ranked = Path(scenario["script"]).parts[0] == "ranks"
    words = [TORCHRUN, "--nproc-per-node", "2"] if ranked else [sys.executable]
    yield Setting(command=words, without=words, planted=words)


def ratio(plain: Path, planted: Path, setting: Setting) -> list[float]:
    """The throughput without the cause over that with it, by turns: the median, the lowest, the highest."""
    env = healthy_environment()

    def pace(script: Path, launcher: Sequence[str]) -> float:
        return throughput([*launcher, script.name], script.parent, env)

    pace(plain, setting.without), pace(planted, setting.planted)
    pairs: list[float] = []
    while len(pairs) < TURNS[0] or (len(pairs) < TURNS[1] and max(pairs) / min(pairs) > NEAR):
        pairs.append(pace(plain, setting.without) / pace(planted, setting.planted))
    return [statistics.median(pairs), min(pairs), max(pairs)]


def healthy_environment() -> dict[str, str]:
    """An environment in which a script lacks nothing: as many threads as it likes, and freed memory kept.

    glibc gives freed memory back, which costs each of these scripts 10 to 20 % on a CPU: a cause of its own.
    """
    return {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | KEPT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
