"""Speeds that the lines of a log say in words: the figures that several lines say, and questions about the others."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slowstep.audit.read.columns import in_own_unit
from slowstep.audit.read.course_figures import changed_midway
from slowstep.audit.read.courses import middle
from slowstep.audit.read.line_sources import LineSources, StepCount, chosen, far_apart
from slowstep.audit.read.other_work import MESSAGE_BEFOREHAND, OF_TRAINING, PROGRAM, evaluates
from slowstep.audit.read.spoken_lines import SPEEDS, WHOSE, Given, SpokenFigure, said_in
from slowstep.audit.relations import TITLES
from slowstep.audit.unclear_batches import OF_STEPS, step_word

COUNTER = re.compile(r"((?:iter|iteration|it|step|epoch|ep|batch)[-_ ]?)\d+", re.IGNORECASE)
"""A name that only counts: `iter12`. Another number in a name may be that of one of several things."""

BAR_WITH_TOTAL = re.compile(r"\bClass\s+Images\b|\d/\d+(?:\.\d+)?[kMGT]? \[\d(?![^,\]]{0,40},\s?[A-Za-z_]\w{0,40}=)")
"""A bar with a total, which says by its name what it is, and the columns of a validation. One without a pace of its own
may say it in words: `10/1000 [00:42<1:10:12, loss=10.2, train_step_timing in s=4.21]`."""

HINT = re.compile(
    r"\d ?[a-zµ]{1,12} ?(?:/|per\b)|[a-z] ?/ ?(?:s|sec|second|h|it|iter|step|sample|token|batch|epoch|img|image)s?\b|"
    r"[_ ]per[_ ]|PerSec|time|timing|took|step_avg|\bin \d|sec\b|seconds|tps|tgs|ups|sps|speed|throughput|duration",
    re.IGNORECASE,
)
"""What a line has that says a speed; most lines of most logs are looked at no further."""

WHETHER_OF_ALL = "is it the speed of the whole training?"
OF_AN_EVALUATION = "it is of an evaluation"
OF_OTHER_LINES = "is it of training, whose lines stand apart from these?"

OF_THE_START = re.compile(
    r"warm(?:ing|ed)?[-_ ]?up|\bcompil|\bfirst (?:step|iter|batch|epoch)|\bcalibrat|\bprofil|\bsanity", re.IGNORECASE
)
"""Words of a line that says the speed of a start, and so not that of a whole training."""

DIGITS = re.compile(r"\d+")

LONGEST = 1_000
"""The characters of a line that are looked at."""

OF_AGENTS = re.compile(
    r"\b(?:surrogate|episod\w*|ep_rew\w*|mean[ _]reward|collection:|env(?:ironment)?s?[ _]?(?:steps|frames))",
    re.IGNORECASE,
)
"""Words of a log of reinforcement learning, whose steps may be those of an environment."""

AGENTS = ("surrogate", "episod", "ep_rew", "reward", "collection", "env")
"""What each of those words holds."""

OF_AN_ENVIRONMENT = "are they steps of an environment, or of the optimizer? They are left out"

COUNTS_STEPS = re.compile(r"steps?\b", re.IGNORECASE)

FEWEST = 2
"""The number of lines from which on a figure is that of the run."""

OF_A_WHOLE_TRAINING = ("train_samples_per_second", "train_steps_per_second", "train_tokens_per_second")
"""Names that Trainer gives to the speeds of all of a training, which one line says."""

Key = tuple[str, str]
"""A quantity, and the name under which lines say it."""


@dataclass
class Spoken:
    """What a log says of its speed in words."""

    figures: dict[str, str] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    """Names of speeds that could mean several things, or have no unit, each with what was found and the question."""
    questions: list[str] = field(default_factory=list)
    """Questions about quantities that are said in several ways."""
    steps: int = 0
    """How many steps its lines count; 0 if they count none."""
    step_word: str = ""
    """What its lines call a step that may be a micro-batch."""


def spoken_speeds(lines: Iterable[str], columns: Mapping[str, str] | None = None) -> Spoken:
    """Return the figures that several lines of training say, each as the median of its later half.

    `columns` gives the meaning of names that could mean several things.
    """
    gathered = _Gathering(tuple((columns or {}).items()))
    for i, line in enumerate(lines):
        gathered.add(i, line)
    return gathered.spoken()


class _Gathering:
    """What the lines of a log say of speeds, gathered line by line. `spoken` is asked for once, at the end."""

    def __init__(self, given: Given = ()) -> None:
        self._given = given
        self._found: dict[Key, list[tuple[int, str]]] = {}
        """Each speed, with the numbers of the lines that say it and what they say."""
        self._unclear: dict[str, list[SpokenFigure]] = {}
        """Numbers that could mean several things, by their name."""
        self._shown: dict[Key, str] = {}
        """Each speed, with the first words that say it and are not of a start."""
        self._of_steps: set[Key] = set()
        """The speeds that are said in `steps`, which could be those of an environment."""
        self._of_agents = 0
        """The lines of reinforcement learning."""
        self._of_training: set[int] = set()
        """The numbers of the lines that name training."""
        self._words: dict[Key, str] = {}
        """What each pace of steps is called after."""
        self._sources: dict[Key, LineSources] = {}
        self._steps = StepCount()

    def add(self, i: int, line: str) -> None:
        """Add a line with its number."""
        says_speed, of_evaluation, says_agents = _kind(DIGITS.sub("0", line))
        self._of_agents += says_agents
        says_speed = says_speed or any(name in line for name, _ in self._given)
        for said in said_in(line[:LONGEST], self._given) if says_speed else ():
            if of_evaluation and not (said.known or said.question == WHOSE):
                continue
            if OF_TRAINING.search(PROGRAM.sub("", line)):
                self._of_training.add(i)
            if said.known and not of_evaluation:
                self._keep(said, *said.known, i, line)
                continue
            asked = replace(said, known=None, question=OF_AN_EVALUATION) if of_evaluation else said
            self._unclear.setdefault(_kept(said.name), []).append(replace(asked, at=i))

    def _keep(self, said: SpokenFigure, quantity: str, number: str, i: int, line: str) -> None:
        """Keep a speed that a line says. A line may say it twice under one name."""
        key = (quantity, _kept(said.name))
        while self._found.get(key, [(-1, "")])[-1][0] == i:
            key = (quantity, f"{key[1]} again")
        self._found.setdefault(key, []).append((i, number))
        self._words |= {key: said.step_word} if quantity in OF_STEPS else {}
        if SPEEDS.fullmatch(quantity):
            self._steps.add(line, i)
            self._sources.setdefault(key, LineSources()).add(line[:LONGEST], said.shown)
        if not OF_THE_START.search(line):
            self._shown.setdefault(key, said.shown)
        if quantity == "steps_per_second" and COUNTS_STEPS.search(said.shown):
            self._of_steps.add(key)

    def spoken(self) -> Spoken:
        """Return what all lines say together."""
        doubted = self._doubt()
        several = {
            key: [value for _, value in said]
            for key, said in self._found.items()
            if len({i for i, _ in said}) >= FEWEST or key[1].rpartition("/")[2] in OF_A_WHOLE_TRAINING
        }
        unclear = {
            name: f"'{said[0].shown}' in {len(said)} lines: {said[0].question}"
            for name, said in self._unclear.items()
            if len(said) >= FEWEST
        }
        if not any(SPEEDS.fullmatch(quantity) for quantity, _ in several):
            unclear = self._said_once() | unclear
        questions = []
        words = [self._words[key] for key in several if key in self._words]
        if (parts := self._steps.micro_batches) > 1 and (of_parts := [key for key in several if _of_iterations(key)]):
            several |= {key: _of_a_step(key[0], several[key], parts) for key in of_parts}
            words = []
            questions.append(
                f"its lines count {parts} iterations in a step, so their pace is turned into that of a step: is it so?"
            )
        for key in self._of_steps & several.keys() if self._of_agents >= FEWEST else ():
            questions.append(f"its lines say {middle(several.pop(key))} steps/s: {OF_AN_ENVIRONMENT}")
        figures, asked = _figures_of(several)
        if figures:  # else all that is unclear is told
            questions += [text for name, text in unclear.items() if name in doubted]
        return Spoken(figures, unclear, [*questions, *asked], self._steps.steps.counted, "".join(words[:1]))

    def _doubt(self) -> set[str]:
        """Turn speeds into questions whose lines may be of other work than the training, or of several trainings.

        Return their names.
        """
        asked = dict.fromkeys(_beside_training(self._found, self._unclear, self._of_training), OF_OTHER_LINES)
        for key, sources in self._sources.items():
            if key not in asked and (question := sources.question(key[0])):
                asked[key] = question
        for key, question in asked.items():
            said = SpokenFigure(name=key[1], shown=self._shown.get(key, key[1]), question=question)
            self._unclear.setdefault(key[1], [said] * len(self._found.pop(key)))
        return {name for _, name in asked}

    def _said_once(self) -> dict[str, str]:
        """Return the speeds, by name, that may be said by one line alone, each with the question about it."""
        return {
            name: f"'{text}' in one line: {WHETHER_OF_ALL}"
            for (quantity, name), text in self._shown.items()
            if SPEEDS.fullmatch(quantity)
        }


def _of_iterations(key: Key) -> bool:
    quantity, name = key
    return quantity in OF_STEPS and bool(step_word(name))


def _of_a_step(quantity: str, values: Sequence[str], parts: int) -> list[str]:
    """Return paces of iterations, of which so many make a step, as paces of steps."""
    return [in_own_unit(quantity, value, parts if quantity.startswith("seconds") else 1 / parts)[1] for value in values]


def _figures_of(several: Mapping[Key, Sequence[str]]) -> tuple[dict[str, str], list[str]]:
    """Return the figure of each quantity that several lines say, and the questions about them."""
    figures: dict[str, str] = {}
    questions: list[str] = []
    courses: dict[str, Sequence[str]] = {}
    for quantity in dict.fromkeys(quantity for quantity, _ in several):
        by_name = {name: values for (of, name), values in several.items() if of == quantity}
        figure, question = chosen(TITLES.get(quantity, quantity), by_name)
        figures |= {quantity: figure} if figure else {}
        questions += [question] if question else []
        if figure and SPEEDS.fullmatch(quantity):
            courses[quantity] = next(values for values in by_name.values() if middle(values) == figure)
    questions += changed_midway(courses)
    questions += filter(None, (far_apart(TITLES[of], values) for of, values in [*courses.items()][:1]))
    return figures, questions


def _beside_training(
    found: Mapping[Key, Sequence[tuple[int, str]]],
    unclear: Mapping[str, Sequence[SpokenFigure]],
    of_training: Collection[int],
) -> list[Key]:
    """Return the speeds of lines that stand all before or all behind those of training, and name no training.

    The lines of training say speeds themselves, or what could be several things, so that the others may be of other
    work.
    """
    places = {key: {i for i, _ in said} for key, said in found.items()}
    said = [said.at for each in unclear.values() for said in each]
    said += [i for (quantity, _), each in places.items() if SPEEDS.fullmatch(quantity) for i in each]
    trained = [i for i in said if i in of_training]
    if len(trained) < FEWEST:
        return []
    apart = (key for key, each in places.items() if max(each) < min(trained) or min(each) > max(trained))
    return [key for key in apart if SPEEDS.fullmatch(key[0]) and not places[key] & {*of_training}]


@functools.lru_cache(maxsize=4096)  # most lines of a log differ in their numbers alone
def _kind(line: str) -> tuple[bool, bool, bool]:
    """Return whether a line may say a speed, whether it is of an evaluation, and whether of reinforcement learning."""
    low = line.lower()  # words are looked for first, which is ten times as fast as the patterns with them
    of_agents = any(word in low for word in AGENTS) and bool(OF_AGENTS.search(line))
    if not HINT.search(line) or BAR_WITH_TOTAL.search(line) or MESSAGE_BEFOREHAND.match(line):
        return False, False, of_agents
    return True, evaluates(line), of_agents


def _kept(name: str) -> str:
    """Return the name under which numbers of several lines belong together."""
    found = COUNTER.fullmatch(name)
    return found[1] if found else name
