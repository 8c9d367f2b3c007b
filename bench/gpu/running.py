"""Running parts: cell by cell, each kept at once, as many as fit into the minutes of a call."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import Any

from bench.gpu import kept
from bench.gpu.part import Bench, Cell, NotYet, Part
from slowstep.environment.machine import this_machine

NOT_RUN, OPEN, DONE, FAILED = "not run", "open", "done", "failed"
"""The states of a part. Some cells of an open part are not measured yet; a failed one has a cell that raised."""

LONGEST = 4000
"""The most characters of a traceback that are kept."""


class OtherFigures(Exception):
    """The folder holds figures of the other scale, or of another device."""


def state(part: Part, bench: Bench) -> str:
    """Return the state of a part."""
    cells = kept.read(bench.out, part.name).get("cells", {})
    if any("failed" in cells.get(cell.name, {}) for cell in part.cells):
        return FAILED
    measured = sum(cell.name in cells for cell in part.cells)
    return DONE if measured == len(part.cells) else OPEN if measured else NOT_RUN


def run(part: Part, bench: Bench) -> None:
    """Measure the cells of a part that are not known, as far as they fit, and keep each as soon as it is."""
    known = kept.read(bench.out, part.name)
    _refuse_others(part, bench, known)
    cells: dict[str, Any] = known.get("cells", {})
    tried = 0
    for cell in part.cells:
        if "figures" in cells.get(cell.name, {}):
            continue
        if tried == bench.cells:
            break
        tried += 1
        if cell.minutes * bench.scale.pace > bench.minutes_left:
            break
        began = time.monotonic()
        try:
            found = {"figures": cell.measure(bench)}
        except NotYet as why:
            print(f"{part.name}: {cell.name}: {why}", flush=True)
            continue
        except Exception:  # the next cell may go well
            found = {"failed": traceback.format_exc()[-LONGEST:]}
        cells[cell.name] = found | {"seconds": round(time.monotonic() - began, 1)}
        _keep(part, bench, cells)
        print(f"{part.name}: {cell.name}: {_said(cells[cell.name])}", flush=True)
    if cells:
        _keep(part, bench, cells)


def _refuse_others(part: Part, bench: Bench, known: dict[str, Any]) -> None:
    """Refuse a folder whose figures are not of this scale and this device: one file says for all of its cells."""
    if not known:
        return
    ran, device, here = known["scale"], known["machine"]["gpu"], this_machine().gpu
    file = kept.path(bench.out, part.name)
    if ran != bench.scale.name:
        raise OtherFigures(f"{file} holds figures of a {ran} run; name another folder by --out")
    if device != here:
        raise OtherFigures(
            f"{file} holds figures of {device or 'a CPU'}, and here is {here or 'a CPU'}; name another folder by --out"
        )


def open_cells(part: Part, bench: Bench) -> Sequence[Cell]:
    """Return the cells of a part that have no figures yet."""
    known = bench.known(part.name)
    return [cell for cell in part.cells if cell.name not in known]


def seconds(part: Part, bench: Bench) -> float:
    """Return the seconds that the cells of a part have taken."""
    return sum(cell["seconds"] for cell in kept.read(bench.out, part.name).get("cells", {}).values())


def _keep(part: Part, bench: Bench, cells: dict[str, Any]) -> None:
    known = {
        "part": part.name,
        "title": part.title,
        "scale": bench.scale.name,
        **kept.about(bench.commit),
        "cells": cells,
    }
    kept.write(bench.out, part.name, known)
    kept.write(
        bench.out,
        part.name,
        known | {"state": state(part, bench), "seconds": seconds(part, bench), "goals": part.judged(bench)},
    )


def _said(cell: dict[str, Any]) -> str:
    outcome = cell["failed"].strip().splitlines()[-1] if "failed" in cell else "measured"
    return f"{outcome}, {cell['seconds']:.0f} s"
