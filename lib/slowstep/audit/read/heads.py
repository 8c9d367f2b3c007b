"""What the head of a log states of its run: its batch, its devices, the length of its samples, and switches.

Libraries print it as labelled numbers (`Total train batch size (...) = 64`), as a program's arguments
(`Namespace(batch_size=32, ...)`), as JSON or YAML, or with dots (`micro_batch_size ........ 4`). All are read as a name
with a value behind it. A name that may mean several things stays as it is, like a table's column that was not read; a
name with two values is asked about.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowstep.audit.figures import Figure, figure
from slowstep.audit.read.header_names import BATCHES, LENGTHS, NAMES_OF_SETTINGS
from slowstep.audit.read.other_work import evaluates_first, evaluates_last
from slowstep.audit.read.progress_bars import placed_lines
from slowstep.audit.read.stretches import Stretch
from slowstep.audit.read.trainer_state import samples_of
from slowstep.audit.relations import FITS
from slowstep.settings.reported import MICRO_BATCH
from slowstep.text.sentences import listed

OPENS = re.compile(
    r"(?P<indent>\s*)(?:- )?['\"]?(?P<name>[A-Za-z][\w .-]{0,60}?)?['\"]?\s{0,3}[:=]?\s{0,3}(?P<bracket>[({\[]?)"
)
"""A line that opens a part: `dataset:`, `"optimizer": {`, `TrainingArguments(`."""

OPENING = (":", "=", "(", "{", "[")
"""The last characters of such lines."""

CLOSES = re.compile(r"\s*[)}\]]")
INLINE = re.compile(r"(?P<name>[A-Za-z][\w.]{0,60})?['\"]?\s{0,3}[:=]?\s{0,3}(?P<bracket>[({\[])|[)}\]]")


BATCH, ACCUMULATED, LENGTH = "per_device_train_batch_size", "gradient_accumulation_steps", "max_length"
SAMPLES, DEVICES, STEPS, PACKING = "samples_per_step", "devices", "steps", "packing"

UNCLEAR = "batch_size"
"""The batch of a device, or all samples of a step."""

OF_A_WAY = " parallel size"
"""The end of the names of ways to split a model."""

NUMBERS = (
    {name: meaning for name, meaning in NAMES_OF_SETTINGS.items() if " " in name and "/" not in name}
    | dict.fromkeys((*LENGTHS, "sequence len", "cutoff len", "encoder seq length", "max length"), LENGTH)
    | dict.fromkeys(
        (
            *("per device train batch size", "per gpu train batch size", "train micro batch size per gpu"),
            *("micro train batch size", "device train microbatch size"),
            *("instantaneous batch size per device", "instantaneous batch size per gpu"),
        ),
        BATCH,
    )
    | dict.fromkeys(
        (
            "gradient accumulation steps",
            "accumulate grad batches",
            "accum iter",
            "accumulate grad iterations",
            "update freq",
        ),
        ACCUMULATED,
    )
    | dict.fromkeys(("total train batch size", "global train batch size", "effective train batch size"), SAMPLES)
    | {f"{of} {batch}": SAMPLES for of in ("global", "effective") for batch in BATCHES}
    | dict.fromkeys(("batch", "batch size", "train batch size"), UNCLEAR)
    | {"num devices": DEVICES, "num processes": DEVICES, "world size": DEVICES}
    | {"total optimization steps": STEPS, "dataloader num workers": "dataloader_num_workers"}
    | dict.fromkeys(("image size", "img size", "imgsz"), "image size")
    | {
        f"{way}{model}{OF_A_WAY}": f"{way}{OF_A_WAY}"
        for way in ("tensor", "pipeline", "context")
        for model in ("", " model")
    }
)
"""Names of numbers in heads, each with what it states. Their words are parted by spaces, `_` or `-`."""

OF_A_STEP = {BATCH, ACCUMULATED, SAMPLES, UNCLEAR}
"""What makes up a step."""

SWITCHES = (
    dict.fromkeys(
        ("activation checkpointing", "enable activation checkpointing", "grad checkpointing"), "gradient_checkpointing"
    )
    | {"packing": PACKING, "sample packing": PACKING, "packed": PACKING}
    | {
        name.replace("_", " "): name
        for name in ("gradient_checkpointing", "bf16", "fp16", "tf32", "torch_compile", "use_liger_kernel")
    }
)
"""Names of switches in heads, each with what it states."""

SETTINGS = (BATCH, ACCUMULATED, LENGTH, "dataloader_num_workers", *dict.fromkeys(SWITCHES.values()))
"""What stands in a head and is a setting."""

LEAST = {LENGTH: 16, DEVICES: 2, "dataloader_num_workers": 0}
"""The smallest numbers that are read, where 1 is not. `world_size=1` may be a default that is set later."""

NAMES = "|".join(name.replace(" ", "[ _-]") for name in sorted((*NUMBERS, *SWITCHES), key=len, reverse=True))
LABELLED = re.compile(
    rf"(?<![\w./-])(?P<option>--)?(?P<name>{NAMES})(?:(?-i: [A-Z])\b)?(?: \([^()\n]{{1,60}}\))?['\"]?"
    r"(?(option)(?:=| {1,3})|(?: {0,3}(?:[:=]|\.{2,}) {0,9}| {0,40}\| {0,9}| {2,40}))['\"]?"
    r"(?P<value>\d{1,3}(?:,\d{3})+(?!\d)|\d{1,12}|true|false)(?=['\"]?(?:[\s,;)}\]|]|$))",
    re.IGNORECASE,
)
"""A name with its value: `"batch_size": 32,`, `--batch-size 32`, `micro_batch_size ...... 4`."""

LETTERS = (
    *("batch", "bs", "len", "ctx", "context", "window", "block", "acc", "device", "world", "process", "optimization"),
    *("worker", "parallel", "image", "img", "checkpoint", "pack", "freq", "bf16", "fp16", "tf32", "compile", "liger"),
)
"""What each of these lines holds."""

PROCESSES = re.compile(
    r"^Num processes: (?P<a>\d+)$|\bStarting with (?P<b>\d+) processes\b|total (?P<c>\d+), device cuda"
)
"""How accelerate, Lightning and timm count the processes of a training, each with its device."""

SECTION = re.compile(r"\*{3,} ?(?P<title>[A-Za-z][\w -]{2,60}?) ?\*{3,}")
BEGINS = re.compile(r"running training", re.IGNORECASE)
"""The title of a section with labelled numbers, and that of a training that begins."""

OF_SECTION = re.compile(r"\w(?: \([^()\n]{1,60}\))? = \S")
"""A line of a section: `  Num examples = 1,200`."""

OF_STEPS = re.compile(r"(?<![a-z])loss\W{0,3}\d|\d ?[a-z]{1,12}/s(?:ec)?\b", re.IGNORECASE)
"""What a line of training says, whose batch and length may be those of that step."""

DIGITS = re.compile(r"(?<![A-Za-z\d])\d+")

ARGUMENTS = 6
"""The fewest `=` in a line of arguments, in which `batch=16` is a size and counts no batches."""

QUALIFIED = re.compile(r"(?:^|[^\w.])([A-Za-z]+) $")
PLAIN_WORDS = {"using", "with", "the", "a", "and", "train", "training", "setting", "is", "of"}
"""The word before a name, and those that leave its meaning as it is: a `max batch size` or a `total batch size` of
tokens is another thing."""

OTHER_PARTS = re.compile(r"generat|infer|predict|sampl|teacher|(?<![a-z])ref|quant|tokenizer_config", re.IGNORECASE)
"""Parts of a configuration that are not of training, beside those of an evaluation."""

OF_TRAINING_ARGUMENTS = re.compile(r"sft|train", re.IGNORECASE)
"""The only parts whose `max_length` is that of samples, and not that of generated text."""


SHORT = 0.1
"""The share by which the samples of a step may be fewer by a run's figures, as the last batch of an epoch is short."""

PACKED = {"padding": "packing", "tokenize": "once"}
"""The settings of a run that packs several samples into one."""

OFF = 0.01
"""The share by which counts may be off that rounded speeds make."""


@dataclass(frozen=True)
class Stated:
    """A value that a head states."""

    at: int
    """Its place in the log, in characters."""
    what: str
    name: str
    value: int | bool
    by_training: bool = False
    """True if the training stated it when it began, so that it overrides its arguments."""


@dataclass(frozen=True)
class Head:
    """What was stated before a training began, by what it is, and questions about it."""

    values: Mapping[str, int | bool]
    questions: Sequence[str]


@dataclass(frozen=True)
class Heads:
    """All that the heads of a log state."""

    stated: Sequence[Stated] = ()
    starts: Sequence[int] = ()
    """The places where a training says that it begins."""

    def planned(self, bars: Sequence[Stretch]) -> set[int]:
        """Return the totals of bars that go up to as many steps as the training before them said that it will take."""
        said = [one for one in self.stated if one.what == STEPS and one.by_training]
        before = [next((one.value for one in reversed(said) if one.at <= bar.at), 0) for bar in bars]
        return {bar.total for bar, steps in zip(bars, before, strict=True) if bar.total == steps}

    def of(self, begin: float, end: float) -> Head:
        """Return what is stated from one place of the log to another. Of several beginnings the last one counts."""
        held = [one for one in self.stated if begin <= one.at < end]
        start = max((at for at in self.starts if begin <= at < end), default=math.inf)
        own = [one for one in held if one.by_training and one.at >= start]
        names = {one.what for one in own}
        names |= OF_A_STEP if BATCH in names else set()
        held = own + [one for one in held if not one.by_training and one.what not in names]
        if {BATCH, SAMPLES} & {one.what for one in held}:
            held = [one for one in held if one.what != UNCLEAR]
        several = {one.what: list(dict.fromkeys(o.value for o in held if o.what == one.what)) for one in held}
        values = {what: each[0] for what, each in several.items() if len(each) == 1}
        if OF_A_STEP & several.keys() - values.keys():  # the others make no step by themselves
            values = {what: value for what, value in values.items() if what not in OF_A_STEP}
        names_of = {one.what: one.name for one in reversed(held)}
        asked = {
            names_of[what]: [f"{v:,}" if v > 1 else str(v) for v in each]
            for what, each in several.items()
            if len(each) > 1
        }
        questions = [
            f"its head says '{name}' as {listed(each, ' and ')}: which counts?" for name, each in asked.items()
        ]
        return Head(_agreeing(values, bool(own)), questions)


def heads_of(path: Path) -> Heads:
    """Return what the heads of a log state, which may be of several trainings."""
    found: list[Stated] = []
    starts: list[int] = []
    around = NestedNames()
    section = ""
    for at, line in placed_lines(path):
        if "it/s" in line or "s/it" in line:  # a bar, of which a log may have a million
            continue
        if title := SECTION.search(line) if "***" in line else None:
            section = "training" if BEGINS.search(title["title"]) else "other" * _of_other(title["title"])
            around = NestedNames()
            starts += [at] if section == "training" else []
        elif section and not OF_SECTION.search(line):
            section = ""
        states = _may_state(line) and not OF_STEPS.search(line)
        if states or around.names or _nests(line):
            around.add(line)
        if states and section != "other":
            found += _stated(line, at, section == "training", around.names)
    return Heads(found, starts)


def _stated(line: str, at: int, by_training: bool, around: Sequence[str]) -> Iterator[Stated]:
    """Yield what a line states of a training. `around` are the parts of a configuration that it stands in."""
    if found := PROCESSES.search(line):
        yield from _read(at, DEVICES, found[0], found[found.lastgroup], by_training)
    for found in LABELLED.finditer(line):
        name = " ".join(re.split(r"[ _-]", found["name"].lower()))
        before = line[: found.start()]
        parts = [*around, *names_around(before)]
        if any(map(_of_other, parts)) or (not found["option"] and _is_of_other(re.split(r"[,;|({\[]", before)[-1])):
            continue
        if name == "max length" and not any(map(OF_TRAINING_ARGUMENTS.search, parts)):
            continue
        if name == "batch" and line.count("=") < ARGUMENTS:
            continue
        yield from _read(at, (NUMBERS | SWITCHES)[name], found["name"], found["value"], by_training, name in SWITCHES)


def _read(at: int, what: str, name: str, text: str, by_training: bool, switch: bool = False) -> Iterator[Stated]:
    """Yield a value that is stated if it is a switch or a number as it should be."""
    value = text.lower() == "true" if text[0] in "TtFf" else int(text.replace(",", ""))
    if isinstance(value, bool) == switch and (switch or value >= LEAST.get(what, 1)):
        yield Stated(at, what, name, value, by_training)


def _of_other(part: str) -> bool:
    return evaluates_first(part) or bool(OTHER_PARTS.search(part))


def _is_of_other(before: str) -> bool:
    """Return whether what stands directly before a name makes another thing of it, or is of an evaluation."""
    word = QUALIFIED.search(before)
    return bool(word and word[1].lower() not in PLAIN_WORDS) or evaluates_last(before)


def _agreeing(values: dict[str, int | bool], by_training: bool) -> dict[str, int | bool]:
    """Return the values of a head without those that its others make doubtful.

    Where a library is given all samples of a step and the micro-batch, it accumulates as often as it needs, whatever
    an argument says. A training that states all parts of a step has as many copies of the model as are left.
    """
    if not {BATCH, ACCUMULATED, SAMPLES} <= values.keys():
        return values
    copies, rest = divmod(values[SAMPLES], values[BATCH] * values[ACCUMULATED])
    if rest or not (by_training or copies == values.get(DEVICES)):
        values.pop(ACCUMULATED)
    elif copies > 1 and not any(what.endswith(OF_A_WAY) and size > 1 for what, size in values.items()):
        values.setdefault(DEVICES, copies)
    return values


def _nests(line: str) -> bool:
    """Return whether a line may open or close a part of a configuration."""
    return line.rstrip()[-1:] in OPENING or bool(CLOSES.match(line))


def _may_state(line: str) -> bool:
    """Return whether a line may state a value. Letters are looked for first, which is ten times as fast."""
    low = line.lower()
    return any(letters in low for letters in LETTERS) and _states(DIGITS.sub("0", line))


@functools.lru_cache(maxsize=4096)  # most lines of a log differ in their numbers alone
def _states(line: str) -> bool:
    return bool(LABELLED.search(line) or PROCESSES.search(line))


class NestedNames:
    """The parts that are open at a line of a log, read line by line: by their brackets, or by their indents."""

    def __init__(self) -> None:
        self._open: list[tuple[int, bool, str]] = []
        """The indent of each part, whether a bracket closes it, and its name."""

    @property
    def names(self) -> list[str]:
        """Return the names of the parts that are open, the outermost first."""
        return [name for *_, name in self._open]

    def add(self, line: str) -> None:
        """Add a line. A part by indents ends with a line that is not further in; one in brackets also further out."""
        indent = len(line) - len(line.lstrip())
        closes = bool(CLOSES.match(line))
        while self._open and (indent < self._open[-1][0] or (indent == self._open[-1][0] and not self._open[-1][1])):
            self._open.pop()
        if closes and self._open and self._open[-1][1]:
            self._open.pop()
        found = OPENS.fullmatch(line.rstrip())
        if found and (found["bracket"] or line.rstrip().endswith(":")):
            self._open.append((indent, bool(found["bracket"]), found["name"] or ""))


def names_around(before: str) -> list[str]:
    """Return the names of the parts of one line that are open behind the text `before`."""
    names: list[str] = []
    for found in INLINE.finditer(before):
        if found["bracket"]:
            names.append(found["name"] or "")
        elif names:
            names.pop()
    return names


def with_heads(rows: Sequence[dict[str, Any]], heads: Heads, places: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the rows of a log with what its heads state.

    `places` are those where the bars of each row begin, the first and the last of them, or where its last words stand.
    A log whose lines say its speed has one row and none of these; everything in it is of that row.
    """
    begins = [0, *(last for _, last in places[:-1])]
    ends = [first + 1 for first, _ in places] or [math.inf]
    return [_with_head(row, heads.of(begin, end)) for row, begin, end in zip(rows, begins, ends, strict=True)]


def _with_head(row: dict[str, Any], head: Head) -> dict[str, Any]:
    """Return a row with what its head states."""
    values, asked = _agreeing_with_figures(row, dict(head.values))
    settings = {what: values[what] for what in SETTINGS if what in values and what != PACKING}
    settings |= PACKED if values.get(PACKING) else {}
    unclear = [UNCLEAR] if UNCLEAR in values else []
    unread = [what for what in values if what not in SETTINGS and what not in (SAMPLES, DEVICES, STEPS, PACKING)]
    if unclear and settings.pop(ACCUMULATED, None):  # by itself it would make steps unlike that have as many samples
        unread.append(ACCUMULATED)
    return row | {
        "figures": row["figures"] | {what: str(values[what]) for what in (SAMPLES, DEVICES) if what in values},
        "settings": settings,
        "of_head": list(settings | (PACKED if PACKING in values else {})),
        "unknown": {what: str(values[what]) for what in unread},
        "unread": unclear,
        "questions": [*row["questions"], *head.questions, *asked],
    }


def _agreeing_with_figures(row: dict[str, Any], values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what a head states without what the figures of its row make doubtful, and questions about that.

    Samples a step follow from Trainer's last words, too, and are fewer there if the last batch of an epoch is short.
    """
    by_words = _samples_of(row["figures"])
    total = values.get(SAMPLES)
    if by_words and total and not (by_words.low <= total * (1 + OFF) and by_words.high >= total * (1 - SHORT)):
        asked = (
            f"its head says {total:,} samples a step, and its figures make {by_words.middle:.4g}: are the last batches "
            "of its epochs short?"
        )
        return {what: value for what, value in values.items() if what not in (*OF_A_STEP, DEVICES)}, [asked]
    if by_words and not total and {BATCH, ACCUMULATED} <= values.keys():
        devices = by_words.middle / (values[BATCH] * values[ACCUMULATED])
        near = 2 ** round(math.log2(devices))
        if near < 1 or abs(devices / near - 1) > FITS:  # as real nodes have; any number would fit otherwise
            return {what: value for what, value in values.items() if what not in OF_A_STEP}, []
        return values | ({DEVICES: near} if near > 1 and DEVICES not in values else {}), []
    if total and not _counts_steps(row, values):
        values.pop(SAMPLES)
        what = "does its bar" if "planned" in row["rests_on"] else "do its lines"
        asked = f"its head says {total:,} samples a step: {what} count steps, or the micro-batches of steps?"
        return values, [] if {ACCUMULATED, BATCH} <= values.keys() else [asked]
    return values, []


def _samples_of(figures: Mapping[str, Any]) -> Figure | None:
    """Return the samples of a step by the figures of a row, if they say some."""
    said = figures.get(SAMPLES) or samples_of(dict(figures)).get(SAMPLES)
    return figure(said) if said else None


def _counts_steps(row: dict[str, Any], values: Mapping[str, Any]) -> bool:
    """Return whether a row is known to count steps, or micro-batches of which a step is known to have so many."""
    by_lines = "planned" not in row["rests_on"] and not values.keys() & {ACCUMULATED}
    if not row["step_word"] or values.get(ACCUMULATED) == 1 or by_lines:
        return True
    if row["step_word"] == MICRO_BATCH:
        return ACCUMULATED in values
    steps = row["rests_on"].get("planned", 0)
    return bool(values.get(STEPS)) and abs(steps - values[STEPS]) <= OFF * values[STEPS]
