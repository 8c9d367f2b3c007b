"""Console logs of Trainer and tqdm."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from slowstep.audit.figures import figure
from slowstep.audit.read.trainer_state import FIGURES, refuse_odd
from slowstep.audit.read.units import Unreadable, text_of

BAR = re.compile(
    r"(?:(?:(?P<name>[^:|\]}\r\n]{1,60}):)?\s{0,9}\d+%\|[^|\r\n]{0,300}\|)?\s{0,9}(?P<done>\d+)/(?P<total>\d+) "
    r"\[(?:\d+:)?\d+:\d+<[^,\]]*,\s*(?P<pace>\d+(?:\.\d+)?)\s*(?P<unit>s/it|it/s)[,\]]"
)
"""A bar of tqdm: `Epoch 1/3:  6%|▌  | 120/2000 [04:15<1:06:41, 2.13s/it]`; Trainer's own have no name."""

ENDS = re.compile(r"\{[^{}]*'train_runtime'[^{}]*\}")
"""What Trainer prints when training ends."""

TRAINING = re.compile(r"epoch|train|step|iter", re.IGNORECASE)
"""Names that people give to bars over training steps; other named bars load weights or map examples."""

OFF = 0.01
"""How much steps reckoned from a rounded speed may be off, and how much of a training its bars may leave out."""

SETTLED = 0.5
"""Of the bars only the later half counts: the first ones hold the start."""


@dataclass(frozen=True)
class Bar:
    """How far one was, and the pace it showed."""

    at: int
    """Its place in the text."""
    name: str
    done: int
    total: int
    pace: str
    unit: str

    @property
    def seconds(self) -> float:
        """A step."""
        return float(self.pace) if self.unit == "s/it" else 1 / float(self.pace)

    @property
    def quantity(self) -> str:
        """What the pace is of."""
        return "seconds_per_step" if self.unit == "s/it" else "steps_per_second"

    @property
    def room(self) -> float:
        """Steps that its bars may leave out of a whole training."""
        return max(1, OFF * self.total)


def read_log(path: Path) -> list[dict[str, Any]]:
    """A row for each training: the median pace of its later bars, or what Trainer said at its end where there are none.

    Where there are both, the end tells how many samples make a step. Unreadable if no speed is there, or if bars
    could be of training as well as of something else.
    """
    text = text_of(path, "replace")
    ends = dict(_ends(text, path))
    trainings = _trainings(_bars(text), list(ends.values()), path)
    borders = [*(bars[0].at for bars in trainings), len(text)]
    told = bool(ends) or len(trainings) == 1  # else bars of one length may be a plain loop's epochs, or trainings
    rows = [_row(bars, _between(ends, *place), told) for bars, place in zip(trainings, pairwise(borders), strict=True)]
    rows = rows or list(ends.values())
    if not rows:
        lines = text.count("\n") + 1
        raise Unreadable(str(path), lines, 1, "holds no bar of tqdm and no train_runtime, so it says no speed")
    return [{"label": path.stem, "figures": figures, "place": str(path)} for figures in rows]


def _bars(text: str) -> list[Bar]:
    found = (
        Bar(m.start(), (m["name"] or "").strip(), int(m["done"]), int(m["total"]), m["pace"], m["unit"])
        for m in BAR.finditer(text)
    )
    return [bar for bar in found if float(bar.pace) > 0]


def _trainings(bars: Sequence[Bar], ends: Sequence[dict[str, Any]], path: Path) -> list[list[Bar]]:
    """The bars of each training: Trainer's have no name, and there is one over all steps; others name their epochs."""
    own = [b for b in bars if not b.name] or [b for b in bars if TRAINING.search(b.name)]
    if not own:
        return []
    totals = list(dict.fromkeys(b.total for b in own))
    said = [t for end in ends for t in totals if abs(_steps(end) - t) <= 1 + OFF * t]
    # Trainer's bar over the steps comes first, and evaluations have shorter ones
    chosen = said or ([totals[0]] if totals[0] == max(totals) else [])
    if not chosen:
        several = " and ".join(map(str, totals))
        raise Unreadable(
            str(path), 1, 1, f"holds bars of {several} steps: which are training? Leave only those in the log"
        )
    found: list[list[Bar]] = []
    for bar in (b for b in own if b.total in chosen):
        last = found[-1][-1] if found else None
        again = last is None or bar.done < last.done or bar.total != last.total
        if again and (last is None or not last.name):  # a named bar that begins anew is the next epoch
            found.append([])
        found[-1].append(bar)
    return found


def _between(ends: Mapping[int, dict[str, Any]], first: int, last: int) -> dict[str, Any]:
    """What was said last from one place in the text to another; a training that broke off said nothing."""
    return next((said for at, said in reversed(ends.items()) if first <= at < last), {})


def _row(bars: Sequence[Bar], end: dict[str, Any], told: bool) -> dict[str, Any]:
    """The speed of the steps themselves: start, evaluations and saves are in the time of the whole, not in it.

    A training that was resumed or stopped early took neither all the steps nor the time of all; and whether a bar is
    over all of them must be `told`.
    """
    middle = _middle(bars)
    found = {middle.quantity: middle.pace} | _samples(end)
    epochs = _epochs(bars)
    if len(epochs) > 1:
        found |= _each(epochs)
    if "epoch" in middle.name.lower() or len(epochs) > 1:
        return found | {"steps_per_epoch": middle.total}
    missing = max(bars[0].done, middle.total - bars[-1].done)
    if missing > middle.room or not told:
        return found
    return found | {"steps": middle.total} | {q: end[q] for q in ("seconds",) if q in end}


def _middle(bars: Sequence[Bar]) -> Bar:
    """Of the later bars the one of the middle pace."""
    later = sorted(bars[int(SETTLED * len(bars)) :], key=lambda b: b.seconds)
    return later[len(later) // 2]


def _epochs(bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars of each epoch that came to its end, where a loop has one bar for each."""
    starts = [0, *(i for i, (last, bar) in enumerate(pairwise(bars), 1) if bar.done < last.done), len(bars)]
    each = [list(bars[a:b]) for a, b in pairwise(starts)]
    return [one for one in each if one[-1].total - one[-1].done <= one[-1].room]


def _each(epochs: Sequence[Sequence[Bar]]) -> dict[str, Any]:
    """The pace of every epoch, as one figure that was measured several times, where all are in one unit."""
    paces = [_middle(bars) for bars in epochs]
    return {paces[0].quantity: [b.pace for b in paces]} if len({b.unit for b in paces}) == 1 else {}


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


def _ends(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """What Trainer said when a training ended, over all of its time, and where."""
    for found in ENDS.finditer(text):
        try:
            said = ast.literal_eval(found[0])
        except (ValueError, SyntaxError, RecursionError):
            continue
        for name in FIGURES.keys() & said.keys():
            refuse_odd(name, said[name], path, text, found.start() + found[0].index(name) - 1)
        figures = {ours: str(said[name]) for name, ours in FIGURES.items() if name in said}
        if figures:
            yield found.start(), figures
