"""Speeds that one line of a log says in words: `tps: 7,812`, `32ms/step`, `elapsed time per iteration (ms): 2345.6`.

Names and units are read by the grammar of table headers. What that does not understand is named, and never guessed.

Some times have no unit, or not the word `step`, and the form of their line tells what they are. A time beside that of
its data is the one of a step, as the meters of PyTorch's examples, of Detectron2 and of MMEngine print both: in seconds
with three decimals or more, beside the mean in brackets or the time that is left. Other lines are known by their whole
form, which one program writes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from slowstep.audit.read.columns import Column, column, figure
from slowstep.audit.read.line_sources import PARTS
from slowstep.audit.read.other_work import OF_TRAINING, evaluates_last, prepares
from slowstep.audit.read.unit_grammar import DEVICES, PER_DEVICE, ratio
from slowstep.audit.run import QUESTIONS
from slowstep.audit.unclear_batches import step_word

POSITION = re.compile(
    r"(?<![a-z])(?:iter(?:ation)?|step|epoch)\b\W{0,3}\d|\[\s{0,8}\d{1,9}\s?/\s?\d{1,9}[\s\]()]", re.IGNORECASE
)
"""The place in a training or in an epoch that a line is of."""

DECIMAL = r"(?P<number>\d{1,5}\.\d{3,8}(?=[\s,;|)(]|\Z)|\d{1,7}(?:\.\d{1,8})?(?=\s?(?:ms|s)\b))\s?(?P<unit>ms|s)?\b"
TIME = re.compile(rf"(?<![\w.])(?P<name>time)(?:\s?[:=]\s{{0,8}}|\s{{1,8}}){DECIMAL}", re.IGNORECASE)
OF_DATA = re.compile(rf"(?<![\w.])data(?:[_ ]time)?(?:\s?[:=]\s{{0,8}}|\s{{1,8}}){DECIMAL}", re.IGNORECASE)
"""The time of a step and, as a part of it, that of its data: the last one of each, or the mean of the last ones."""

OF_A_METER = re.compile(r"\beta\b|\btime\b[\s:=]{1,9}[\d.]{1,12}\s{0,3}\(\s{0,8}\d", re.IGNORECASE)
"""What stands beside a time in seconds without a unit: the time that is left, or the mean of the times."""

OF_NANOGPT = re.compile(r"\biter \d+: loss \d[\d.]*, (?P<name>time) (?P<number>\d[\d.]*)(?P<unit>ms), mfu -?\d[\d.]*%")
"""A line of nanoGPT, whose time is that of the iteration, and not of all iterations since the last line. Its MFU is the
share of an A100's peak on every device, and is left out."""

OF_TIMM = re.compile(
    r"(?<![\w.])(?P<name>Time): (?P<number>\d{1,5}\.\d{3})(?P<unit>s), {1,8}(?P<rate>\d{1,9}\.\d\d)/s\b"
)
"""A line of timm: the time of an update, and the samples of all devices a second."""

LONGEST_SHOWN = 60
"""The most characters of a number with its name that are shown."""

Known = tuple[str, str, str]
"""The name before a number, the number with its unit, and what the line says."""


LETTER = r"(?:[kKMB](?![A-Za-z]))?"
NUMBER = (
    rf"(?<![\w.,/-])(?<!\d:)(\d(?:[\d,_]{{0,20}}\d)?(?:\.\d{{1,20}})?(?:[eE][-+]?\d{{1,3}})?{LETTER})(?![\d:]|[.,]\d)"
)
"""A number, perhaps with a letter for thousands, and no time of day or version."""

WITH_UNIT = re.compile(
    rf"{NUMBER}\s?((?:[kKMB] )?[A-Za-zµ]{{1,12}}(?:\s?(?:/|(?i:per)\b)\s?[A-Za-z]{{1,12}}){{1,2}})(?![\w/])"
)
"""A number with a unit of its own, `31ms/step`."""

BEFORE = re.compile(r"([A-Za-z][\w-]{0,40})['\"]?(?:\s{0,3}[:=]\s{0,9}|\s{1,3})$")
"""The word before a number, which names it: `total: 0.81 s/iter`."""

NEAR = 80
"""The characters before a number that hold its name."""

NAMELESS = column("", set())
"""What a number holds that says it by its unit alone."""

ASSIGNED = re.compile(r"(?: ?\([^()\n]{1,20}\))?['\"]?\s{0,3}[:=]")
BARE_NUMBER = re.compile(
    rf"\s{{1,3}}\d[\d,.]{{0,20}}{LETTER}"
    r"(?=\s{0,3}(?:$|[,;|]|[A-Za-z][\w/.-]{0,40}['\"]?(?:\s{0,3}[:=]\s{0,3}|\s{1,3})[-+]?\d))"
)
"""What stands behind the name of a number: a sign, or a number with nothing or with the next name behind it."""

SPEED_WORDS = re.compile(
    r"speed|throughput|rate|pace|time|took|av(?:era)?g|mean|perf|total|curr|running", re.IGNORECASE
)
"""Words before a number that belongs to the unit behind it, whatever follows: `speed 412 tok/s 8`."""

THOUSANDS_BY_SPACES = re.compile(r"(?<=[:=] )\d{1,3}(?: \d{3})+(?=\s*(?:[,;|]|$))")
"""A number whose thousands are parted by spaces."""

A_PART = re.compile(rf"{PARTS}(?:[_-]?time)?", re.IGNORECASE)
"""Names of what is only a part of a step."""

OF_PARTS = ("step", "pass", "time", "wait")
PART_BEFORE = re.compile(
    rf"(?:^|[^A-Za-z])(?P<name>(?P<part>{A_PART.pattern}) (?:{'|'.join(OF_PARTS)}))['\"]?\s{{0,3}}[:=]\s{{0,9}}$",
    re.IGNORECASE,
)
"""The name of a part in two words, before its number: `opt step: 0.03 s/iter`."""

OPTIMIZER = re.compile(r"opt(?:im(?:i[sz]er)?)?", re.IGNORECASE)
"""What takes a step that is the whole one, unless other parts of it stand beside it."""

NAMED = re.compile(
    r"(?P<name>[A-Za-z#][\w#./-]{0,40}(?: [A-Za-z][\w/.-]{0,20}){0,5}(?: ?\([^()\n]{1,20}\))?)['\"]?"
    r"(?:\s{0,3}[:=]\s{0,9}(?P<quote>['\"])?|\s{1,3})(?P<number>" + NUMBER + r")(?!-\d\d-\d\d)"
    r"(?:\s?(?P<unit>%|(?:[uµm]?s|secs?|min|h)\b(?!\s*[:=])))?(?(quote)\s?(?P=quote))"
)
"""A number behind its name, `global batch size:   256` or `time 253.00ms`. In quotes nothing stands beside it."""

TOOK = re.compile(
    rf"(?P<what>\d[\d,]{{0,12}} (?:steps|iterations|iters|batches|updates)|epoch (?:#|no\. ?)?\d{{1,6}}) "
    rf"(?:took|in|done in|finished in|completed in) {NUMBER} ?(?P<unit>ms|s|secs?|seconds|min|minutes)\b",
    re.IGNORECASE,
)
"""What took how long: `epoch 1 took 61.2 s`, `100 steps in 42.1 s`."""

OF_SOMETHING_ELSE = re.compile(
    r"(?<!time )(?<!duration )\b(?:of|for|after|before|from|in|during|at|to)(?: the)? \Z", re.IGNORECASE
)
"""The text before an epoch that is not itself what took a time: `Saving the checkpoint of epoch 1 took 3.4 s`."""

OTHER_DEED = re.compile(
    r"\b(?!(?:\w*trained|completed|finished|ended|processed|performed|executed|logged|elapsed|timed|measured|passed)\b)"
    r"(?:[a-z]{2,20}ed|wrote|read|sent|built) (?:the )?\Z",
    re.IGNORECASE,
)
"""What was done to the steps or the epoch behind it, other than training: `Scored 50 batches in 3.2 s`."""

WHOSE = "is it of training, or of the evaluation that the line also speaks of?"
WHOSE_WORK = "is it of training, or of what is done before it?"
OF_ANOTHER_DEED = "is it of training?"

MFU = re.compile(rf"{NUMBER}\s?% (?:[a-z]+\d* )?(?P<what>[MH]FU)\b", re.IGNORECASE)
"""A utilisation whose name stands behind it: `56.8% bf16 MFU`."""

WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""The place in a name where another word begins, as in `CurrSamplesPerSec`."""

SPEEDS = re.compile(r"seconds_per_(step|sample|token|epoch)|(steps|samples|tokens)_per_second(_per_device)?")
BESIDE = ("samples_per_step", "tokens_per_step", "mfu", "hfu", "tflops_per_device")
"""Figures that are read beside a speed. Others, such as seconds in all, grow as training goes on."""

STEP_AVERAGE = re.compile(r"step_avg|avg_step", re.IGNORECASE)
"""The mean time of a step, whose unit stands behind it: `step_avg:78.40ms`."""

ASKED = ("time", "duration", "speed", "throughput", "sps")
"""Names of speeds that could mean several things."""

OF_EACH_DEVICE = re.compile(r"\bmemory:\s*[\d.]+GiB\([\d.]+%\)")
"""What a line of torchtitan holds, which says tokens a second of each device as `tps`, or `wps` before."""


Given = tuple[tuple[str, str], ...]
"""Names of numbers, each with the meaning that the reader of a log gives it, as a header would say it."""


@dataclass(frozen=True, kw_only=True)
class SpokenFigure:
    """A number that a line says."""

    name: str
    """The word before it; its unit if there is none."""
    shown: str
    known: tuple[str, str] | None = None
    """The quantity and its number in the kit's own unit; None where that is not clear."""
    question: str = ""
    at: int = -1
    """The number of its line."""
    step_word: str = ""
    """What it calls a step that may be a micro-batch."""


def said_in(line: str, given: Given = ()) -> Iterator[SpokenFigure]:
    """Yield the speeds that a line says, and what may be one: first numbers with a unit, then those behind a name.

    Names that are `given` a meaning have that one.
    """
    line = THOUSANDS_BY_SPACES.sub(lambda match: match[0].replace(" ", ""), line)
    known, before, line = known_in(line)
    for name, number, shown in known:
        if said := _said(name, number, NAMELESS, shown):
            yield _asked_whose(said, before)
    said, rest = _with_units(line)
    yield from said
    if " in " in rest or "took" in rest:
        yield from _took(rest)
        rest = TOOK.sub(";", rest)
    if "fu" in rest.lower():
        yield from (_said_as(match["what"].lower(), match[1]) for match in MFU.finditer(rest))
    yield from _named(rest, line, given)


def _with_units(line: str) -> tuple[list[SpokenFigure], str]:
    """Return the speeds that a line says with a unit of their own, and the line without them.

    Parts of a step do not count. `opt step` is the whole one, unless another part of it stands in the line.
    """
    rest = line
    whole: list[SpokenFigure] = []
    optimizers: list[SpokenFigure] = []
    has_parts = False
    for match in WITH_UNIT.finditer(line):
        name = BEFORE.search(line, max(0, match.start() - NEAR), match.start()) if ratio(match[2]) else None
        if not ratio(match[2]) or _is_name(line, match.end(), name[1] if name else ""):
            continue
        rest = rest.replace(match[0], ";")  # nothing before it is the name of what follows
        bare = f"{match[2]}, in brackets" if line[: match.start()].endswith("(") else match[2]
        two_words = name and name[1].lower() in OF_PARTS
        part = PART_BEFORE.search(line, max(0, match.start() - NEAR), match.start()) if two_words else None
        called = part["name"] if part else name[1] if name else bare
        said = _said(called, f"{match[1]} {match[2]}", NAMELESS, match[0])
        if A_PART.fullmatch(called) or (part and not OPTIMIZER.fullmatch(part["part"])):
            has_parts = True
        elif said and (said.question or SPEEDS.fullmatch(said.known[0])):
            (optimizers if part else whole).append(_asked_whose(said, line[: match.start()]))
    return (whole if has_parts else whole + optimizers), rest


def _took(line: str) -> Iterator[SpokenFigure]:
    """Yield the speeds that a line says as the time of some steps or an epoch."""
    for match in TOOK.finditer(line):
        what = "epoch" if match["what"].lower().startswith("epoch") else match["what"]
        said = _said(f"{what} took", f"{match[2]} {match['unit']}/{what}", NAMELESS, match[0])
        before = line[: match.start()]
        if said and not (what == "epoch" and OF_SOMETHING_ELSE.search(before) and not OF_TRAINING.search(before)):
            other = OTHER_DEED.search(before)
            yield replace(said, known=None, question=OF_ANOTHER_DEED) if other else _asked_whose(said, before)


def _named(rest: str, line: str, given: Given) -> Iterator[SpokenFigure]:
    """Yield the speeds whose unit is in their name, from the `rest` of a line without what was read before."""
    for match in NAMED.finditer(rest):
        name, number = match["name"], match["number"] + (match["unit"] or "")
        held, question = _given_meaning(name, given) or _meaning(name)
        if question:
            yield SpokenFigure(name=name, shown=f"{name} {number}", question=question)
        elif held and not rest[match.end() : match.end() + 1].isalpha():
            if held.name in PER_DEVICE and name.split(" ")[-1] in ("tps", "wps") and OF_EACH_DEVICE.search(line):
                held = replace(held, name=f"{held.name}_per_device")
            said = _said(name, number, held, f"{name} {number}")
            if said:
                yield _asked_whose(said, rest[: match.start("number")])


def _asked_whose(said: SpokenFigure, before: str) -> SpokenFigure:
    """Return what a number says, or a question in its place where the number may be of other work than training.

    That is where the text `before` it speaks of an evaluation last, or its own name of work that comes before training.
    """
    question = WHOSE if evaluates_last(before) else WHOSE_WORK if prepares(said.name) else ""
    return SpokenFigure(name=said.name, shown=said.shown, question=question) if question else said


def _of_a_log(question: str) -> str:
    """Return a question without the advice on headers and cells, which a log has not."""
    return question.split(" Write it in the header")[0]


def _said_as(quantity: str, percent: str) -> SpokenFigure:
    return SpokenFigure(name=quantity, shown=f"{percent}% {quantity}", known=(quantity, f"{percent}%"))


def _said(name: str, cell: str, held: Column, shown: str) -> SpokenFigure | None:
    """Return what a number says; None if it says nothing, as `0 tok/s` of a start."""
    try:
        known = figure(cell, held)
    except ValueError as error:
        return (
            None
            if re.match(r"[0.,]*(?![\d.,])", cell)
            else SpokenFigure(name=name, shown=shown, question=_of_a_log(str(error)))
        )
    return SpokenFigure(name=name, shown=shown, known=known, step_word=step_word(f"{name} {cell}")) if known else None


def _is_name(line: str, end: int, before: str) -> bool:
    """Return whether a unit that ends there is the name of the number behind it.

    The word `before` the number before it is that one's name then: `lr 0.0003 samples/s 412`.
    """
    other = before and not SPEED_WORDS.search(before)
    return bool(ASSIGNED.match(line, end) or (other and BARE_NUMBER.match(line, end)))


@functools.lru_cache(maxsize=4096)
def _given_meaning(name: str, given: Given) -> tuple[Column | None, str] | None:
    """Return what a name or its last words hold by the meaning that they are given; None if they are given none."""
    for called, text in given:
        if name != called and not name.endswith((f" {called}", f"/{called}")):
            continue
        held = column(text, set())
        is_speed = held.kind == "figure" and (SPEEDS.fullmatch(held.name) or held.name in BESIDE)
        return (held, "") if is_speed else (None, f"`columns` calls it '{text}', which is no speed")
    return None


@functools.lru_cache(maxsize=4096)
def _meaning(name: str) -> tuple[Column | None, str]:
    """Return what a name holds, and the question if it could be several things; None and no question if no speed.

    A name may be the path of a metric, `throughput/device/tokens_per_sec`, or follow other words, `step 10 tps`.
    """
    if STEP_AVERAGE.fullmatch(name):
        return Column("timed", "seconds_per_step"), ""
    *path, last = name.split("/")
    of_device = any(part.lower() in DEVICES for part in path)
    for part, shared in ((name, False), (last, of_device)):
        words = WORD.sub(" ", part).replace("_", " ").strip().split(" ")
        for start in range(len(words)):
            held = column(" ".join(words[start:]), set())
            if held.kind not in ("figure", "timed") or not (SPEEDS.fullmatch(held.name) or held.name in BESIDE):
                continue
            if shared and held.name in PER_DEVICE:
                held = replace(held, name=f"{held.name}_per_device")
            return (None, "") if shared and held.name.startswith(("steps", "seconds")) else (held, "")
    last = words[-1].lower()
    asked = held.kind in ("open", "timed") and last in ASKED and "data" not in name.lower()
    return None, QUESTIONS[last] if asked else ""


def known_in(line: str) -> tuple[list[Known], str, str]:
    """Return the speeds that a line says in such a way, what stands before them, and the line without them."""
    if "ime" not in line:  # told ten times as fast as by the patterns
        return [], "", line
    found = (OF_NANOGPT.search(line) if ", mfu " in line else None) or (OF_TIMM.search(line) if "/s" in line else None)
    if not found and "ata" in line and POSITION.search(line):
        found, data = TIME.search(line), OF_DATA.search(line)
        is_step = found and data and _is_part(data, found) and (found["unit"] or OF_A_METER.search(line))
        found = found if is_step else None
    if not found:
        return [], "", line
    shown, before = found[0][-LONGEST_SHOWN:], line[: found.start()]
    what = "step" if found.re in (OF_NANOGPT, OF_TIMM) else "it"  # meters count the batches of a loader
    said = [(found["name"], f"{found['number']} {found['unit'] or 's'}/{what}", shown)]
    if "rate" in found.re.groupindex:
        said.append((found["name"], f"{found['rate']} samples/s", shown))
    return said, before, f"{before};{line[found.end() :]}"


def _is_part(data: re.Match[str], whole: re.Match[str]) -> bool:
    """Return whether the time of the data is no more than that of its step. One without a unit has the other's."""
    if data["unit"] and whole["unit"] != data["unit"]:
        return False
    return float(data["number"]) <= float(whole["number"])
