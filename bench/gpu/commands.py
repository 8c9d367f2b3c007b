"""A script of a user's own on a device, by its command alone: as it is, and with causes planted in its text.

The script is `scripts/gpt.py`. Its size without the kit is what it prints of its own throughput, with the cause and
without it, by turns.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, Part
from bench.gpu.planted import DIAGNOSED, NOTHING, SIZE, TRUTH_TIMEOUT, gains_of, said_first, size_agrees
from bench.gpu.scale import Scale
from bench.gpu.trials import investigated, with_minutes
from bench.own_scripts.script import changed, throughput
from slowstep.launch.surveyed_run import surveyed_for, write
from slowstep.launch.surveyor import SurveyOrder
from slowstep.settings import load

SCRIPT = Path(__file__).parent / "scripts" / "gpt.py"

HEALTHY = "untouched"

LEAST_NAMED = 3
"""The fewest causes to be named, of four."""


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
    names = list(CAUSES)[1 : 1 + scale.of_a_kind] if scale.of_a_kind else list(CAUSES)
    groups = {f"command-{1 + i // 2}": names[i : i + 2] for i in range(0, len(names), 2)}
    goals = [
        Goal(
            asked=f"causes named first, with a size that agrees, of {len(names) - (HEALTHY in names)}",
            wanted=f"at least {LEAST_NAMED}",
            value=lambda cells: sum(_is_right(name, cells) for name in names if name != HEALTHY),
            holds=lambda count: count >= LEAST_NAMED,
        ),
        Goal(
            asked="what is named first of the script as it is",
            wanted=NOTHING,
            value=lambda cells: said_first(cells[f"{HEALTHY}, {DIAGNOSED}"]),
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
    return changed(text, given | CAUSES[name].replaced)


def _cells(name: str) -> list[Cell]:
    cells = [Cell(name=f"{name}, {DIAGNOSED}", measure=partial(_diagnosed, name), minutes=2.5)]
    if name != HEALTHY:
        cells.append(Cell(name=f"{name}, {SIZE}", measure=partial(_size, name), minutes=1.2))
    return cells


def written(name: str, bench: Bench) -> Path:
    """Write the script with a cause into a folder that holds nothing else, and return its path."""
    path = bench.work / "scripts" / re.sub(r"\W+", "_", name) / SCRIPT.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(name, bench), encoding="utf-8")
    return path


def _diagnosed(name: str, bench: Bench) -> Figures:
    """Survey the command and measure its investigation, as `slowstep measure -- python gpt.py` does."""
    path = written(name, bench)
    with contextlib.chdir(path.parent):
        order = SurveyOrder(epoch_seconds=3.0)
        seen, folder = surveyed_for([sys.executable, path.name], order, bench.work, f"command_{path.parent.name}")
    file = write(seen, folder)
    found = investigated(with_minutes(load(file).settings, bench.scale.command_minutes), bench)
    first = found["causes"][0]["text"] if found["causes"] else NOTHING
    factor = found["causes"][0]["name"] if found["causes"] else NOTHING
    cause = CAUSES[name]
    numbers = [i for i, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if cause.line in text]
    place = f"{path.name}:{numbers[0]} " if cause.line else ""
    return {"first": first, "factor": factor, "factors": list(cause.factors), "place": place, **found}


def _size(name: str, bench: Bench) -> Figures:
    """Run the script with the cause and without it, by turns."""
    with_cause, without = written(name, bench), written(HEALTHY, bench)
    command = [sys.executable, SCRIPT.name, str(bench.scale.script_steps)]
    runs = (partial(throughput, command, path.parent, timeout=TRUTH_TIMEOUT) for path in (with_cause, without))
    return gains_of(bench.scale.turns, *runs)


def _is_right(name: str, cells: Cells) -> bool:
    found, size = cells[f"{name}, {DIAGNOSED}"], cells[f"{name}, {SIZE}"]
    first = said_first(found) or ""
    named = found["factor"] in found["factors"] or (found["place"] and found["place"] in first)
    return bool(first and named) and size_agrees(found, size)
