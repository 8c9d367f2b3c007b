"""Speeds that a log says in words, line by line: `tps: 7,812`, `32ms/step`, `elapsed time per iteration (ms): 2345.6`.

Names and units are read by the grammar of table headers. What that does not understand is named, and never guessed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slowstep.audit.read.columns import OF_EVALUATION, Column, column, figure
from slowstep.audit.read.courses import middle
from slowstep.audit.read.unit_grammar import DEVICES, PER_DEVICE, ratio
from slowstep.audit.run import QUESTIONS

NUMBER = r"(?<![\w.,:/-])(\d[\d,_]{0,20}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?)(?![\d:])"
WITH_UNIT = re.compile(
    rf"{NUMBER}\s?([A-Za-zµ]{{1,12}}(?:\s?(?:/|per\b)\s?[A-Za-z]{{1,12}}){{1,2}})(?![\w/])", re.IGNORECASE
)
"""A number with a unit of its own, `31ms/step`."""

NAMED = re.compile(
    r"(?P<name>[A-Za-z#][\w#./-]{0,40}(?: [A-Za-z][\w/.-]{0,20}){0,5}(?: ?\([^()\n]{1,20}\))?)['\"]?"
    r"(?:\s{0,3}[:=]\s{0,9}|\s{1,3})" + NUMBER + r"\s?(?P<unit>%|(?:[uµm]?s|secs?|min|h)\b(?!\s*[:=]))?"
)
"""A number behind its name, `global batch size:   256` or `time 253.00ms`."""

BAR_OR_BEFORE = re.compile(
    r"\d/\d+(?:\.\d+)?[kMGT]? \[\d|\A\W*(?:load|map|cach|download|fetch|build|generat|filter|tokeni[sz]|sav)",
    re.IGNORECASE,
)
"""What makes a line none of training: a bar with a total, which says by its name what it is, or what comes before."""

HINT = re.compile(
    r"\d ?[a-zµ]{1,12} ?(?:/|per\b)|[a-z] ?/ ?(?:s|sec|second|h|it|iter|step|sample|token|batch|epoch|img|image)s?\b|"
    r"[_ ]per[_ ]|PerSec|time|sec\b|seconds|tps|tgs|ups|speed|throughput|duration",
    re.IGNORECASE,
)
"""What a line has that says a speed; most lines of most logs are looked at no further."""

LONGEST = 1_000
"""The characters of a line that are looked at."""

WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""The place in a name where another word begins, as in `CurrSamplesPerSec`."""

SPEEDS = re.compile(r"seconds_per_(step|sample|epoch)|(steps|samples|tokens)_per_second(_per_device)?")
BESIDE = ("samples_per_step", "tokens_per_step", "mfu", "hfu")
"""Figures that are read beside a speed. Others, such as seconds in all, grow as training goes on."""

ASKED = ("time", "duration", "speed", "throughput")
"""Names of speeds that could mean several things."""

AVERAGED = re.compile(r"avg|average|running|mean|smooth|ema\b|total|cumul", re.IGNORECASE)
"""Words of a speed that counts the start of the run, which one of single lines does not."""

FEWEST = 2
"""The number of lines from which on a figure is that of the run."""


@dataclass
class Spoken:
    """What a log says of its speed in words."""

    figures: dict[str, str] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    """Names of speeds that could mean several things, or have no unit, each with what was found and the question."""


def spoken_speeds(lines: Iterable[str]) -> Spoken:
    """Return the figures that several lines of training say, each as the median of its later half."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    unclear: dict[str, list[tuple[str, str]]] = {}
    for i, line in enumerate(lines):
        if not HINT.search(line) or BAR_OR_BEFORE.search(line):
            continue
        if OF_EVALUATION.search(line) and "train" not in line.lower():
            continue
        line = rest = line[:LONGEST]
        for match in WITH_UNIT.finditer(line):
            if ratio(match[2]):
                known = figure(f"{match[1]} {match[2]}", column("", set()))
                rest = rest.replace(match[0], " ")
                if known and SPEEDS.fullmatch(known[0]):
                    found.setdefault((known[0], ""), []).append((i, known[1]))
        for match in NAMED.finditer(rest):
            name, number = match["name"], match[2] + (match["unit"] or "")
            held, question = _meaning(name)
            try:
                known = figure(number, held) if held else None
            except ValueError as error:
                known, question = None, str(error)
            if question:
                unclear.setdefault(name, []).append((number, question))
            elif known:
                found.setdefault((known[0], name), []).append((i, known[1]))
    several = {key: [value for _, value in said] for key, said in found.items() if len({i for i, _ in said}) >= FEWEST}
    figures: dict[str, str] = {}
    for quantity, name in sorted(several, key=lambda key: bool(AVERAGED.search(key[1]))):
        figures.setdefault(quantity, middle(several[quantity, name]))
    asked = {name: f"'{name} {said[0][0]}' in {len(said)} lines: {said[0][1]}" for name, said in unclear.items()}
    return Spoken(figures, {name: text for name, text in asked.items() if len(unclear[name]) >= FEWEST})


@functools.lru_cache(maxsize=4096)
def _meaning(name: str) -> tuple[Column | None, str]:
    """Return what a name holds, and the question if it could be several things; None and no question if no speed.

    A name may be the path of a metric, `throughput/device/tokens_per_sec`, or follow other words, `step 10 tps`.
    """
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
