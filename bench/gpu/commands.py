"""A script of a user's own on a device, by its command alone: as it is, and with causes planted in its text.

The script is `scripts/gpt.py`. Its size without the kit is what it prints of its own throughput, with the cause and
without it, by turns.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, Part
from bench.gpu.planted import DIAGNOSED, NOTHING, SIZE, TRUTH_TIMEOUT, gains_of, truth_of
from bench.gpu.scale import Scale
from bench.gpu.trials import investigated, with_minutes
from bench.validation.agreement import agree
from slowstep.command.resolve import resolve
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.settings import load

SCRIPT = Path(__file__).parent / "scripts" / "gpt.py"

HEALTHY = "untouched"

LEAST_NAMED = 3
"""Of four causes."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A cause planted in the script: texts and what stands in their place, and what may be named first."""

    replaced: Mapping[str, str] = field(default_factory=dict)
    factors: Sequence[str] = ()
    """The factors of which one may be named."""
    line: str = ""
    """What stands in the line of the script that may be named."""


CAUSES = {
    HEALTHY: Planted(),
    "gradients read back": Planted(
        replaced={
            "        optimizer.step()": "        norms = [p.grad.norm().item() for p in model.parameters()]\n"
            "        optimizer.step()"
        },
        line="norms = ",
    ),
    "32-bit products": Planted(
        replaced={"with torch.autocast(device, torch.bfloat16):": "if True:"},
        factors=["precision", "tf32"],
    ),
    "slow items": Planted(
        replaced={"        piece = ": "        time.sleep(0.004)\n        piece = ", "num_workers=2": "num_workers=0"},
        factors=["dataloader_num_workers"],
        line="time.sleep(",
    ),
    "needless checkpointing": Planted(
        replaced={
            "            x = block(x)": "            x = checkpoint(block, x, use_reentrant=False)",
            "from torch.utils.data": "from torch.utils.checkpoint import checkpoint\nfrom torch.utils.data",
        },
        factors=["gradient_checkpointing"],
    ),
}


def parts(scale: Scale) -> list[Part]:
    """Return the parts: the script as it is with one cause, and the others."""
    names = list(CAUSES)
    groups = {"command-1": names[:2], "command-2": names[2:4], "command-3": names[4:]}
    goals = [
        Goal(
            asked=f"causes named first, with a size that agrees, of {len(names) - 1}",
            wanted=f"at least {LEAST_NAMED}",
            value=lambda cells: sum(_is_right(name, cells) for name in names if name != HEALTHY),
            holds=lambda count: count >= LEAST_NAMED,
        ),
        Goal(
            asked="what is named first of the script as it is",
            wanted=NOTHING,
            value=lambda cells: _first(cells[f"{HEALTHY}, {DIAGNOSED}"]),
            holds=lambda first: first == NOTHING,
        ),
    ]
    return [
        Part(
            name=part,
            title=f"a script of one's own: {', '.join(held)}",
            cells=[cell for name in held for cell in _cells(name)],
            goals=goals,
            room=tuple(groups),
        )
        for part, held in groups.items()
    ]


def script(name: str, bench: Bench) -> str:
    """Return the script with a cause; ValueError if it does not hold a text that is to be replaced."""
    text, sizes = SCRIPT.read_text(encoding="utf-8"), bench.scale.script
    line = next(line for line in text.splitlines() if line.startswith("width, "))
    names = line.partition(" = ")[0].split(", ")
    given = {line: f"{', '.join(names)} = {', '.join(str(sizes[name]) for name in names)}"} if sizes else {}
    for old, new in (given | CAUSES[name].replaced).items():
        if old not in text:
            raise ValueError(f"the script does not hold {old!r}")
        text = text.replace(old, new)
    return text


def _cells(name: str) -> list[Cell]:
    cells = [Cell(name=f"{name}, {DIAGNOSED}", measure=partial(_diagnosed, name), minutes=2.5)]
    if name != HEALTHY:
        cells.append(Cell(name=f"{name}, {SIZE}", measure=partial(_size, name), minutes=1.2))
    return cells


def _written(name: str, bench: Bench) -> Path:
    """Write the script with a cause into a folder that holds nothing else, and return its path."""
    path = bench.work / "scripts" / re.sub(r"\W+", "_", name) / SCRIPT.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(name, bench), encoding="utf-8")
    return path


def _diagnosed(name: str, bench: Bench) -> Figures:
    """Survey the command and measure its investigation, as `slowstep measure -- python gpt.py` does."""
    path = _written(name, bench)
    command = resolve([sys.executable, path.name], path.parent, {})
    seen = survey(replace(command, protected=True), SurveyOrder(epoch_seconds=3.0), {})
    if seen.training is None:
        raise RuntimeError(f"the survey saw no training: {seen.ended} {seen.standing[-500:]} {seen.output[-500:]}")
    file = write(seen, bench.work / f"command_{path.parent.name}")
    found = investigated(with_minutes(load(file).settings, bench.scale.command_minutes), bench)
    first = found["causes"][0]["text"] if found["causes"] else NOTHING
    factor = found["causes"][0]["name"] if found["causes"] else NOTHING
    cause = CAUSES[name]
    numbers = [i for i, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if cause.line in text]
    place = f"{path.name}:{numbers[0]} " if cause.line else ""
    return {"first": first, "factor": factor, "factors": list(cause.factors), "place": place, **found}


def _size(name: str, bench: Bench) -> Figures:
    """Run the script with the cause and without it, by turns."""
    with_cause, without = _written(name, bench), _written(HEALTHY, bench)
    runs = (partial(_throughput, path, bench.scale.script_steps) for path in (with_cause, without))
    return gains_of(bench.scale.turns, *runs)


def _throughput(path: Path, steps: int) -> float:
    """Run a script for so many steps, and return what it prints of its throughput, in samples a second."""
    command = [sys.executable, path.name, str(steps)]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False, timeout=TRUTH_TIMEOUT)
    told = re.search(r"([\d.e+]+) samples/s", done.stdout)
    if not told:
        raise RuntimeError(f"the script ended with status {done.returncode}: {done.stderr[-1000:]}")
    return float(told[1])


def _first(found: Figures) -> str | None:
    """Return what is named first; None where a section failed or nothing was decided, so that it says nothing."""
    return found["first"] if found["decided"] and not found["failed"] else None


def _is_right(name: str, cells: Cells) -> bool:
    found, size = cells[f"{name}, {DIAGNOSED}"], cells[f"{name}, {SIZE}"]
    first = _first(found) or ""
    if found["factor"] not in found["factors"] and not (found["place"] and found["place"] in first):
        return False
    stated = tuple(found["causes"][0][end] for end in ("ratio", "low", "high"))
    return bool(first) and agree(stated, truth_of(size))
