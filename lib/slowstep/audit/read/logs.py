"""Reading of console logs of Trainer and tqdm."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from slowstep.audit.figures import parse
from slowstep.audit.read.bar_names import ends_with_metric, is_loss, shows_no_loss
from slowstep.audit.read.course_figures import changed_midway, without_whole_times
from slowstep.audit.read.heads import Heads, heads_of, with_heads
from slowstep.audit.read.other_work import evaluates_first, is_beforehand
from slowstep.audit.read.partial_rows import last_error
from slowstep.audit.read.progress_bars import Said, Scanned, lines_of, scan
from slowstep.audit.read.separate_runs import are_twice_in_an_epoch, outer_bars, separate_runs
from slowstep.audit.read.source_text import Unreadable
from slowstep.audit.read.spoken_lines import SPEEDS
from slowstep.audit.read.spoken_speeds import Spoken, spoken_speeds
from slowstep.audit.read.stretches import BEHIND, CLOCKS, Pace, Stretch, begins_again, settled
from slowstep.audit.read.trainer_state import counts_as_many, last_words, samples_of, steps_of, told_once
from slowstep.audit.relations import TITLES
from slowstep.settings.reported import MICRO_BATCH
from slowstep.text.sentences import capitalised

TRAINING_BARS = re.compile(r"epoch|train|fine-?tun|step|iter", re.IGNORECASE)
"""Words in the names of bars over training steps. Other named bars load weights or map examples."""

BARE_EPOCHS = re.compile(r"\W*epochs?\W*", re.IGNORECASE)
"""The names of bars that may be over epochs."""

IN_BOX = re.compile(r"\s*[|+].*[|+]\s*$")
"""The lines of a table that is drawn as a box, such as that of nvidia-smi."""

OFF = 0.01
"""The share by which steps computed from a rounded speed may be off, and the share that a training's bars may miss."""

PART = 0.5
"""The share of the time by Trainer's last words that bars must hold to be believed where the two disagree."""

MANY = 5
"""The most totals that a message names."""

ROW = "Write what is meant as a row of `reported.rows`"
SAY_IT = (
    "Say in `columns` what a name holds (as an override: reported.columns.time=s/step), or write what is meant as a "
    "row of `reported.rows`"
)

LEFT_OUT = "Trainer's last words that stand before the first bar are left out: were they another training's?"
TAKEN = "Trainer's last words stand before the bar, which is not all there: are they this training's?"


@dataclass(frozen=True)
class Training:
    """The bars of one training: one for each epoch, or one for all steps, perhaps with interruptions."""

    stretches: list[Stretch]
    nested: bool = False
    """True if another bar counts its epochs."""

    @property
    def at(self) -> int:
        """Return the place in the log where it begins, in characters."""
        return self.stretches[0].at

    @property
    def total(self) -> int:
        """Return the number of steps that its bars go up to."""
        return self.stretches[0].total

    @property
    def room(self) -> float:
        """Return the number of steps that its bars may leave out."""
        return max(1, OFF * self.total)

    @property
    def rests_on(self) -> dict[str, float]:
        """Return how many steps its bars show, in how many seconds, and how many they go up to."""
        if self.stretches[0].counts != "step":
            return {}
        steps = sum(stretch.covered for stretch in self.stretches)
        seconds = sum(epoch[-1].elapsed[-1] for epoch in self.epochs)
        return {"steps": steps, "seconds": seconds, "planned": max(self.total, steps)}

    @property
    def epochs(self) -> list[list[Stretch]]:
        """Return the bars from each beginning to the next; if there are several, each is an epoch."""
        found: list[list[Stretch]] = []
        for stretch in self.stretches:
            if not found or begins_again(found[-1][-1], stretch):
                found.append([])
            found[-1].append(stretch)
        return found

    @property
    def parts(self) -> list[list[Stretch]]:
        """Return the bars from each start of the program to the next: one that resumed has a new clock."""
        found: list[list[Stretch]] = []
        for stretch in self.stretches:
            if not found or not found[-1][-1].began_before(stretch.elapsed[0]):
                found.append([])
            found[-1].append(stretch)
        return found


def read_log(path: Path, columns: Mapping[str, str] | None = None, beside_box: bool = False) -> list[dict[str, Any]]:
    """Return a row for each training: the median pace of its later bars, or without bars Trainer's last words.

    Where there are both, the last words tell how many samples make a step. Unreadable if there is no speed, or if it is
    not clear which bars are of training. `columns` gives the meaning of names in its lines that could mean several
    things. `beside_box` says that it also holds a table without figures, drawn as a box, whose lines say no speed.
    """
    heads = heads_of(path)
    log, ends, trainings = _read_by(scan(path), path, heads)
    if any(stretch.name for stretch in log.stretches) and not any(map(_is_told_apart, trainings)):
        lasting = _read_by(
            scan(path, with_metrics=False), path, heads
        )  # bars that are trainings may say another loss each
        log, ends, trainings = lasting if lasting[2] else (log, ends, trainings)
    _refuse_bare_epochs(trainings, path)
    known = bool(ends) or len(trainings) == 1  # otherwise bars of one length may be epochs or trainings
    left_out, own = _with_ends(trainings, ends)
    found = [_row(training, end, known) for training, end in own]
    rests_on = [{} if row[0] is end else training.rests_on for row, (training, end) in zip(found, own, strict=True)]
    if found and left_out:
        found[0][1].append(left_out)
    words = [_step_word(training) for training, _ in own]
    found = found or [(figures, []) for _, figures in ends]
    if not found:
        spoken = _spoken(path, log, columns, beside_box)
        found, rests_on = [(spoken.figures, spoken.questions)], [{"steps": spoken.steps} if spoken.steps else {}]
        words = [spoken.step_word]
    parts = zip_longest(found, rests_on, words)
    rows = [
        {
            "label": path.stem,
            "figures": row[0],
            "place": str(path),
            "questions": row[1],
            "rests_on": steps or {},
            "step_word": word or "",
        }
        for row, steps, word in parts
    ]
    if not ends and (error := last_error(path)):
        rows[-1]["questions"].append(f"its log ends with '{error}': did it train to its end?")
    begun = [(training.at, training.stretches[-1].at) for training in trainings] or [(at, at) for at, _ in ends]
    return with_heads(rows, heads, begun)


def _step_word(training: Training) -> str:
    """Return what the bars of a training count where that may be micro-batches. Trainer's bar counts its steps.

    A bar for each epoch goes over the batches of a loader, and a loop may accumulate several of them.
    """
    if any(stretch.of_batches for stretch in training.stretches):
        return MICRO_BATCH
    return "it" if training.nested or len(training.epochs) > 1 or "epoch" in training.stretches[-1].name.lower() else ""


def _is_told_apart(training: Training) -> bool:
    """Return whether the bars of a training have a name that is no other one with each bar."""
    name, bars = training.stretches[0].name, sum(len(stretch.paces) for stretch in training.stretches)
    return bool(name) and (not ends_with_metric(name) or bars > 2 * len(training.stretches))


def _read_by(
    log: Scanned, path: Path, heads: Heads
) -> tuple[Scanned, list[tuple[int, dict[str, Any]]], list[Training]]:
    """Return a log with Trainer's last words, with their places, and with its trainings."""
    dictionaries = [said for said in log.ends if said.text.startswith("{")]
    ends = _ends(dictionaries, path) or _ends(log.ends, path)  # scripts print the same once more as a list
    ends = told_once(ends, [stretch.at for stretch in log.stretches])
    return log, ends, _trainings(log.stretches, [figures for _, figures in ends], heads, path)


def _ends(each: Sequence[Said], path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the figures of Trainer's last words, where they say some, with their places in the log."""
    return [(at, figures) for at, figures in (last_words(said, path) for said in each) if figures]


def _with_ends(
    trainings: Sequence[Training], ends: Sequence[tuple[int, dict[str, Any]]]
) -> tuple[str, list[tuple[Training, dict[str, Any]]]]:
    """Return a question on last words before the first bar, if there is one, and the trainings with their last words.

    Where the two streams of a program stand one behind the other, all last words come before all bars.
    """
    first = trainings[0].at if trainings else math.inf
    before = [figures for at, figures in ends if at < first]
    boundaries = [*(training.at for training in trainings), math.inf]
    own = [next((said for at, said in reversed(ends) if a <= at < b), {}) for a, b in pairwise(boundaries)]
    pairs = list(zip(trainings, before, strict=False))
    if len(before) == len(trainings) and not any(own) and all(_may_end(*pair) for pair in pairs):
        return "" if all(_is_all_there(training) for training, _ in pairs) else TAKEN, pairs
    others = [end for end in before if "steps_per_second" in end and end not in own]
    return LEFT_OUT if others else "", list(zip(trainings, own, strict=True))


def _may_end(training: Training, end: dict[str, Any]) -> bool:
    """Return whether last words may be of a training: they count its steps, and its time if its bars hold all of it."""
    if not _counts_all(end, training):
        return False
    clock, seconds = training.stretches[-1].elapsed[-1], parse(end["seconds"]).middle
    return not _is_all_there(training) or abs(clock - seconds) <= BEHIND * seconds + CLOCKS


def _is_all_there(training: Training) -> bool:
    return training.total - training.stretches[-1].last <= training.room


def _counts_all(end: dict[str, Any], training: Training) -> bool:
    """Return whether last words say a time and speeds, over as many steps as its bars go up to."""
    of_epoch = len(training.epochs) > 1 or training.nested
    return math.isfinite(steps_of(end)) and counts_as_many(end, training.total, of_epoch, OFF)


def _spoken(path: Path, log: Scanned, columns: Mapping[str, str] | None, beside_box: bool) -> Spoken:
    """Return the speeds that lines say in words, and questions; Unreadable, with what was found, if they say none."""
    lines = (line for line in lines_of(path) if not (beside_box and IN_BOX.match(line)))
    spoken = spoken_speeds(lines, columns)
    if any(map(SPEEDS.fullmatch, spoken.figures)):
        return spoken
    names = list(dict.fromkeys(repr(stretch.name) if stretch.name else "without a name" for stretch in log.stretches))
    bars = f"no bar of tqdm over training steps (but bars {', '.join(names[:MANY])})" if names else ""
    unclear = [*(f"It has {text}" for text in spoken.unclear.values()), *map(capitalised, spoken.questions)]
    asked = "".join(f" {text}." for text in unclear[:MANY]).replace("?.", "?")
    nothing = "its lines differ" if spoken.questions else "no lines say a number with a unit such as s/it or tokens/s"
    why = (
        f"holds {bars or 'no bar of tqdm over training steps'} and no train_runtime, and {nothing}, so it says no "
        f"speed.{asked} {SAY_IT if spoken.unclear else ROW}"
    )
    raise Unreadable(str(path), log.lines, 1, why)


def _trainings(
    stretches: Sequence[Stretch], ends: Sequence[dict[str, Any]], heads: Heads, path: Path
) -> list[Training]:
    """Return the bars of each training. Trainer has one bar without a name over all steps; others name their epochs."""
    outer = outer_bars(stretches)
    inner = [s for s in stretches if (s.name, s.total) not in outer]
    own = _own([s for s in inner if not shows_no_loss(s.name)], bool(outer), bool(ends))
    own = own or _own(inner, bool(outer), bool(ends))
    if not own:
        return []
    said = _said_totals(own, ends) | heads.planned(own)
    counting = [s for s in stretches if (s.name, s.total) in outer]
    found: list[Training] = []
    runs = separate_runs(own, counting)
    if are_twice_in_an_epoch(runs):
        why = f"holds two bars called '{own[0].name}', and two in each epoch: which are training? "
        raise Unreadable(str(path), 1, 1, f"{why}Leave only those in the log")
    for run in runs:
        found.append(Training([], bool(outer)))
        for stretch in _without_evaluations(_of_steps(run, said, path)):
            last = found[-1].stretches[-1] if found[-1].stretches else None
            again = last and (begins_again(last, stretch) or stretch.total != last.total)
            # a named bar that begins again is the next epoch, and so is one whose runs another bar counts
            if again and not (last.name or outer):
                found.append(Training([], bool(outer)))
            found[-1].stretches.append(stretch)
    return [training for training in found if training.stretches]


def _own(inner: Sequence[Stretch], counted: bool, ended: bool) -> list[Stretch]:
    """Return those bars that are of training, and of no other work.

    It is `counted` if other bars count its epochs, and `ended` if Trainer's last words are there.
    """
    by_steps = [s for s in inner if s.counts == "step"]
    nameless = [s for s in by_steps if not s.name]
    named = [s for s in by_steps if s.name and (_of_training(s.name) or is_loss(s.name))]
    # a longer bar that is named as a training's is one, and what has no name beside it is a sampling or an evaluation
    longest = max((s.total for s in nameless), default=0)
    own = named if max((s.total for s in named), default=0) > longest else nameless
    with_loss = {s.name for s in named if s.shows_loss}
    if with_loss and not ended and not any(s.shows_loss for s in nameless):  # whatever its length
        own = [s for s in named if s.name in with_loss]
    own = own or [s for s in by_steps if _of_training(s.name, counted)]
    # Trainer's own bar counts steps, and one of samples beside its last words is of what came before
    own = own or [s for s in inner if _of_training(s.name) and not ended]
    return own or [s for s in inner if s.counts == "token" and not s.name]


def _said_totals(own: Sequence[Stretch], ends: Sequence[dict[str, Any]]) -> set[int]:
    """Return the totals of bars that count as many steps as Trainer's last words."""
    totals = list(dict.fromkeys(s.total for s in own))
    nearest = [min(totals, key=lambda total: abs(steps_of(end) - total)) for end in ends]
    return {t for end, t in zip(ends, nearest, strict=True) if abs(steps_of(end) - t) <= 1 + OFF * t}


def _of_steps(run: Sequence[Stretch], said: Collection[int], path: Path) -> list[Stretch]:
    """Return the bars of a run that count its steps: those of a total that is `said`, or else the longest.

    Trainer's bar over the steps comes first, and evaluations have shorter ones. Unreadable if the longest one is not
    first, or if a bar of the longest one's name has another total and does not come between two of those.
    """
    totals = list(dict.fromkeys(s.total for s in run))
    if said:
        return [s for s in run if s.total in said]
    own = [s for s in run if s.total == max(totals)]
    names = {s.name for s in own if s.name}
    unclear = [s for s in run if s.name in names and s.total < own[0].total and s.at > own[-1].at]
    between = any(s.at < own[-1].at for s in run if s.total < own[0].total)
    if totals[0] != own[0].total or (unclear and not between):
        several = " and ".join(map(str, totals[:MANY])) + (" and more" if len(totals) > MANY else "")
        raise Unreadable(
            str(path), 1, 1, f"holds bars of {several} steps: which are training? Leave only those in the log"
        )
    return own


def _refuse_bare_epochs(trainings: Sequence[Training], path: Path) -> None:
    """Raise Unreadable for a bar `Epoch` that runs once: it may count epochs, or the steps of a single one."""
    for training in trainings:
        last = training.stretches[-1]
        if BARE_EPOCHS.fullmatch(last.name) and last.counts == "step" and not training.nested and training.total > 1:
            if len(training.epochs) > 1:
                continue
            why = (
                f"the bar '{last.name}' goes up to {last.total} once: does it count epochs, or the steps of one epoch? "
            )
            what = "Leave the log out, and write its pace as the figure of a row, seconds_per_epoch or seconds_per_step"
            raise Unreadable(str(path), 1, 1, why + what)


def _of_training(name: str, nested: bool = False) -> bool:
    """Return whether a bar of this name is over training steps.

    One whose runs another bar counts needs no such name.
    """
    of_training = nested or bool(TRAINING_BARS.search(name))
    return of_training and not evaluates_first(name) and not is_beforehand(name)


def _without_evaluations(own: Sequence[Stretch]) -> list[Stretch]:
    """Return the bars without the full ones between which another bar goes on where it had stopped.

    An evaluation may have as many steps as the training that it interrupts. Then the one behind its end is left out,
    too.
    """
    found: list[Stretch] = []
    evaluates = False
    for i, stretch in enumerate(own):
        last = found[-1] if found else None
        again = last and (last.name, last.total) == (stretch.name, stretch.total) and stretch.first < last.last
        if last and again and stretch.is_whole:
            ended = last.last >= last.total
            onward = None if ended else next((s for s in own[i:] if not s.is_whole), None)
            goes_on = onward and onward.total == last.total and onward.first >= last.last
            if goes_on or (ended and evaluates):
                evaluates = bool(goes_on)
                continue
        found.append(stretch)
    return found


def _row(training: Training, end: dict[str, Any], known: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of a training, the speed of its steps without start, evaluations and saves; and questions.

    The number of steps and the whole time are left out if the training was resumed or stopped early, or if it is not
    `known` that a bar is over all steps. The parts of a resumed training count as measured one by one. The samples of
    a step are left out if Trainer's last words count other steps than the bar.
    """
    middle, name = settled(training.stretches), training.stretches[-1].name
    # only complete epochs count
    epochs = [each for each in training.epochs if training.total - each[-1].last <= training.room]
    of_epoch = "epoch" in name.lower() or len(epochs) > 1 or training.nested
    found, questions, asked = {middle.quantity: middle.text}, [], []
    if middle.counts == "step" and not counts_as_many(end, training.total, of_epoch, OFF):
        questions.append(
            f"its bar goes up to {training.total:,} and Trainer's last words count {steps_of(end):,.0f} steps: does "
            "the bar count micro-batches? Trainer's samples a step are left out"
        )
    else:
        found |= samples_of(end)
    paces = [pace for stretch in training.stretches for pace in stretch.paces]
    if middle in paces and len({pace.quantity for pace in paces}) == 1:  # else counts and clocks contradict them
        asked = changed_midway({middle.quantity: [pace.text for pace in paces]})
        questions += asked
    if len(epochs) > 1:
        found |= _paces(epochs)
    if of_epoch:
        return found | _count(f"{middle.counts}s_per_epoch", training.total), questions
    if len(training.parts) > 1:
        long = [part for part in training.parts if part[-1].last - part[0].first > BEHIND * training.total]
        return found | (_paces(long) if len(long) > 1 else {}), questions
    missing = max(training.stretches[0].first, training.total - training.stretches[-1].last)
    if known and missing > training.room and _is_faster_than_its_bars(training, middle, end):
        return _faster_than_its_bars(training, middle, end, found, questions)
    if missing > training.room or not known:
        return found, questions
    found |= _count(f"{middle.counts}s", training.total)
    if "seconds" not in end:
        return found, questions
    found |= {"seconds": end["seconds"]}
    if not asked:
        asked = _slower_later(training, middle, end["seconds"])
        questions += asked
    found, words = without_whole_times(found) if asked else (found, [])
    return found, [*questions, *words]


def _slower_later(training: Training, pace: Pace, seconds: str) -> list[str]:
    """Ask about a training whose later steps, which count, are slower than its clock allows for all steps.

    The clock of its bar and its time by Trainer's last words agree, so that no other figure can be wrong.
    """
    last, shown = training.stretches[-1], parse(pace.text)
    least = (shown if pace.quantity.startswith("seconds") else 1 / shown).low
    clock, whole = last.elapsed[-1], parse(seconds).middle
    if abs(clock - whole) > BEHIND * whole + CLOCKS or least * last.last <= clock + CLOCKS:
        return []
    title = TITLES.get(pace.quantity, pace.quantity)
    return [
        f"its later steps, which count, are slower at {pace.text} {title} than its clock allows for all: what changed?"
    ]


def _is_faster_than_its_bars(training: Training, pace: Pace, end: dict[str, Any]) -> bool:
    """Return whether all steps took less by Trainer's last words than they would at the pace of some of them."""
    if not _counts_all(end, training):
        return False
    shown = parse(pace.text)
    least = (shown if pace.quantity.startswith("seconds") else 1 / shown).low
    return least * training.total > (1 + BEHIND) * parse(end["seconds"]).middle + CLOCKS


def _faster_than_its_bars(
    training: Training, pace: Pace, end: dict[str, Any], found: dict[str, Any], questions: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of such a training, and questions: by its bars, or by the words if these hold more.

    A training that was stopped early, or resumed, has last words that count steps which it did not make.
    """
    last, clock = training.stretches[-1].last, training.stretches[-1].elapsed[-1]
    seconds = parse(end["seconds"]).middle
    shown = f"its bars go up to step {last:,} of {training.total:,}, after {clock:,} s"
    if clock < PART * seconds:
        pace = f"{pace.text} {TITLES.get(pace.quantity, pace.quantity)}"
        why = "where all steps took less by Trainer's last words, which count: are the later bars missing?"
        return end, [*questions, f"{shown}, and show {pace}, {why}"]
    if abs(clock - seconds) > BEHIND * seconds + CLOCKS:
        told = f"{shown}, and Trainer's last words count all steps within {end['seconds']} s"
        return found, [*questions, f"{told}: was it stopped or resumed? The bars count"]
    return found, questions


def _count(quantity: str, count: int) -> dict[str, Any]:
    return {quantity: count} if quantity in TITLES else {}


def _paces(parts: Sequence[Sequence[Stretch]]) -> dict[str, Any]:
    """Return the paces of epochs, or of a resumed run's parts, as one figure that was measured several times.

    Nothing is returned if their units differ.
    """
    paces = [settled(stretches) for stretches in parts]
    same = len({pace.quantity for pace in paces}) == 1
    return {paces[0].quantity: [pace.text for pace in paces]} if same else {}
