"""Console logs of Trainer and tqdm."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from slowstep.audit.figures import figure
from slowstep.audit.read.progress_bars import Pace, Said, Stretch, scan
from slowstep.audit.read.trainer_state import FIGURES, refuse_odd
from slowstep.audit.read.units import Unreadable

TRAINING = re.compile(r"epoch|train|step|iter", re.IGNORECASE)
"""Names that people give to bars over training steps; other named bars load weights or map examples."""

OFF = 0.01
"""How much steps reckoned from a rounded speed may be off, and how much of a training its bars may leave out."""

MANY = 5
"""Totals that a message names."""

SETTLED = 0.5
"""Of the bars only the later half counts: the first ones hold the start."""


@dataclass(frozen=True)
class Training:
    """The bars of one training: an epoch each, or all steps in one, with interruptions perhaps."""

    stretches: list[Stretch]

    @property
    def at(self) -> int:
        """Where it begins in the log."""
        return self.stretches[0].at

    @property
    def total(self) -> int:
        """Steps that its bars go up to."""
        return self.stretches[0].total

    @property
    def room(self) -> float:
        """Steps that its bars may leave out."""
        return max(1, OFF * self.total)

    @property
    def epochs(self) -> list[list[Stretch]]:
        """The bars from each beginning to the next; of an epoch each if there are several."""
        found: list[list[Stretch]] = []
        for stretch in self.stretches:
            if not found or stretch.first < found[-1][-1].last:
                found.append([])
            found[-1].append(stretch)
        return found


def read_log(path: Path) -> list[dict[str, Any]]:
    """A row for each training: the median pace of its later bars, or what Trainer said at its end where there are none.

    Where there are both, the end tells how many samples make a step. Unreadable if no speed is there, or if bars
    could be of training as well as of something else.
    """
    log = scan(path)
    ends = [(at, figures) for at, figures in (_end(said, path) for said in log.ends) if figures]
    trainings = _trainings(log.stretches, [figures for _, figures in ends], path)
    borders = [*(training.at for training in trainings), math.inf]
    told = bool(ends) or len(trainings) == 1  # else bars of one length may be a plain loop's epochs, or trainings
    rows = [
        _row(training, next((said for at, said in reversed(ends) if first <= at < last), {}), told)
        for training, (first, last) in zip(trainings, pairwise(borders), strict=True)
    ]
    rows = rows or [figures for _, figures in ends]
    if not rows:
        raise Unreadable(str(path), log.lines, 1, "holds no bar of tqdm and no train_runtime, so it says no speed")
    return [{"label": path.stem, "figures": figures, "place": str(path)} for figures in rows]


def _trainings(stretches: Sequence[Stretch], ends: Sequence[dict[str, Any]], path: Path) -> list[Training]:
    """The bars of each training: Trainer's have no name, and there is one over all steps; others name their epochs."""
    own = [s for s in stretches if not s.name] or [s for s in stretches if TRAINING.search(s.name)]
    if not own:
        return []
    totals = list(dict.fromkeys(s.total for s in own))
    said = [t for end in ends for t in totals if abs(_steps(end) - t) <= 1 + OFF * t]
    # Trainer's bar over the steps comes first, and evaluations have shorter ones
    chosen = said or ([totals[0]] if totals[0] == max(totals) else [])
    if not chosen:
        several = " and ".join(map(str, totals[:MANY])) + (" and more" if len(totals) > MANY else "")
        raise Unreadable(
            str(path), 1, 1, f"holds bars of {several} steps: which are training? Leave only those in the log"
        )
    found: list[Training] = []
    for stretch in (s for s in own if s.total in chosen):
        last = found[-1].stretches[-1] if found else None
        again = last is None or stretch.first < last.last or stretch.total != last.total
        if again and (last is None or not last.name):  # a named bar that begins anew is the next epoch
            found.append(Training([]))
        found[-1].stretches.append(stretch)
    return found


def _row(training: Training, end: dict[str, Any], told: bool) -> dict[str, Any]:
    """The speed of the steps themselves: start, evaluations and saves are in the time of the whole, not in it.

    A training that was resumed or stopped early took neither all the steps nor the time of all; and whether a bar is
    over all of them must be `told`.
    """
    name, middle = _middle(training.stretches)
    found = {middle.quantity: middle.text} | _samples(end)
    # only epochs that came to their end count
    epochs = [each for each in training.epochs if training.total - each[-1].last <= training.room]
    if len(epochs) > 1:
        found |= _each(epochs)
    if "epoch" in name.lower() or len(epochs) > 1:
        return found | {"steps_per_epoch": training.total}
    missing = max(training.stretches[0].first, training.total - training.stretches[-1].last)
    if missing > training.room or not told:
        return found
    return found | {"steps": training.total} | {q: end[q] for q in ("seconds",) if q in end}


def _middle(stretches: Sequence[Stretch]) -> tuple[str, Pace]:
    """Of the later bars the one of the middle pace, with its name."""
    paces = [pace for stretch in stretches for pace in stretch.paces]
    names = [stretch.name for stretch in stretches]
    later = sorted(paces[int(SETTLED * len(paces)) :], key=lambda pace: pace.seconds)
    return names[-1], later[len(later) // 2]


def _each(epochs: Sequence[Sequence[Stretch]]) -> dict[str, Any]:
    """The pace of every epoch, as one figure that was measured several times, where all are in one unit."""
    paces = [_middle(stretches)[1] for stretches in epochs]
    same = len({pace.quantity for pace in paces}) == 1
    return {paces[0].quantity: [pace.text for pace in paces]} if same else {}


def _samples(end: dict[str, Any]) -> dict[str, Any]:
    """Samples a step: speeds over the whole time hold evaluations and saves too, their ratio does not."""
    try:
        step = figure(end["samples_per_second"]) / figure(end["steps_per_second"])
    except (KeyError, ValueError):
        return {}
    return {"samples_per_step": f"{step.low:.6g} - {step.high:.6g}"} if step.bounded else {}


def _steps(end: dict[str, Any]) -> float:
    """Steps of a training, by what was said at its end."""
    try:
        return figure(end["steps_per_second"]).middle * figure(end["seconds"]).middle
    except (KeyError, ValueError):
        return -math.inf


def _end(said: Said, path: Path) -> tuple[int, dict[str, Any]]:
    """What Trainer said when a training ended, over all of its time, and where."""
    try:
        held = ast.literal_eval(said.text)
    except (ValueError, SyntaxError, RecursionError):
        return said.at, {}
    for name in FIGURES.keys() & held.keys():
        before = said.text[: said.text.index(name) - 1]
        line, column = said.line + before.count("\n"), len(before) - before.rfind("\n")
        refuse_odd(name, held[name], path, (line, column if "\n" in before else said.column + len(before)))
    return said.at, {ours: str(held[name]) for name, ours in FIGURES.items() if name in held}
