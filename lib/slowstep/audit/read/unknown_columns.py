"""Columns that were not read: which of them may say how a run was made, and which say what came of it."""

from __future__ import annotations

import functools
import re

from slowstep.audit.read.columns import MEMORY
from slowstep.audit.read.courses import number
from slowstep.audit.read.unit_grammar import TIMES

UNSET = ("", "none", "null", "nan", "-")
"""Texts that an export writes for a parameter that was not given."""

EACH_ITS_OWN = re.compile(
    r"\b(?:(?:run|job|task|trial|exp|sweep|group|user|uu|gu|u|p)?ids?|\w*seeds?|dates?|"
    r"\w*time(?:s|stamps?)?|start(?:ed)?|creat(?:ed|ion|or)|updat(?:e[sd]?)|end(?:ed)?|"
    r"host(?:names?|list)?|user(?:name)?|notes?|comments?|remarks?|(?:run|job|file|exp)?names?|ur[li]s?|paths?|"
    r"(?:log|out|run|work|save)?dir(?:s|ectory)?|commits?|status|state)\b",
    re.IGNORECASE,
)
"""Words in the headers of columns that differ between repeats of one measurement."""

MEASURED_BESIDE = re.compile(
    r"\b(?:\w*loss(?:es)?|acc(?:uracy)?|ppl|perplex\w*|\w*bleu\w*|rouge\w*|(?:f1)?scores?|\w*flops?|"
    r"grad(?:ient)?.?norm|temp(?:s|erature)?|power|watt(?:s|age)?|energy|durations?|elapsed|\w*latenc(?:y|ies)|"
    r"\w*(?:mem(?:ory)?|vram)(?:[gm]i?b)?|"
    r"(?:time|global|num|n|max|total|train)?(?:steps?|iters?|iterations?|epochs?)|index|repeat\w*|trials?|attempts?|"
    r"folds?|speed(?:s|ups?)?|faster|slower|gains?|diff(?:s|erences?)?|relative|improve\w*|overheads?|ratios?|savings?|"
    r"verdict|results?|conclusions?|findings?|observ\w*|summary|descr\w*|reasons?|why|(?:gpu|cpu)?util(?:i[sz]ation)?|"
    r"peak|allocated|hours?|seen|processed|retries|ooms?|warnings|runs|reps?|replicat\w*|round)\b|"
    r"^rank$|^#$|^no\.?$|^vs|\breserved \(?(?:mem|[gm]i?b)|\bmax\b.*\b[gm]i?b\b|\bw\b(?!/)|[%Δ$€]|"
    r"\brun (?:#|no\b|number)",
    re.IGNORECASE,
)
"""Words in the headers of columns that hold what a run came to, or number the rows."""

SET = re.compile(
    r"\bpin(?:ned)?\b|\b(?:back|front) end\b|\bdeep ?speed\b|\bmemory (?:efficient|format|layout|limit|fraction|pool)|"
    r"\b(?:model|dataset|data|tokenizer) (?:names?|paths?|ids?|urls?|dir)\b|\bname or path\b|"
    r"\b(?:[gc]pu|device|card|optim\w*|scheduler|backend|kernel|arch\w*) name\b|\boptim\w* states?\b|"
    r"\bloss (?:fn|func|function|type|kind|impl|kernel)|\bpower (?:limit|cap|mode|profile)|"
    r"\b(?:accum\w*|inner|local|unroll|sync\w*) (?:steps|iters|iterations|epochs)\b|"
    r"\b(?:mix\w*|mask\w*|compression|sparsity|expert|split) ratio\b|\brelative (?:pos|attention)|\bstart method\b|"
    r"\b(?:fast|code|kernel) path\b|\b(?:num|n|number of) hosts?\b",
    re.IGNORECASE,
)
"""Words of what is set, though one of them alone would be of a result or of each run's own."""

WORD = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])|_+")
"""What parts the words of a name as `startTime` or `start_time`."""

OF_A_UNIT = re.compile(
    r"(?:(?:/|\bper |_per_)\s*(?P<rate>[a-z]+)|[(\[]\s*(?:in )?(?P<time>[a-zµμ]+))\s*[)\]]?$|"
    r"\b(?:throughput|[tuws]ps|fps)\b",
    re.IGNORECASE,
)
"""The end of a header that says a speed or a time: `nodes/s`, `warmup (s)`, `eval tps`."""

SET_IN_A_UNIT = re.compile(
    r"interval|every|timeout|frequency|period|delay|limit|budget|"
    r"(?:net|link|interconnect|nic|disk|storage|ethernet|infiniband|bandwidth).*b(?:it|yte)?s?/s",
    re.IGNORECASE,
)
"""Words of what is set in a unit of time or speed: how often is saved, and what the hardware is."""

MEASURED_AMOUNT = re.compile(r"[-+~≈]?[\d.,]+\s*([%x×]|[a-zµμ]+)", re.IGNORECASE)
"""A cell that holds a percentage, a ratio, a time or an amount of memory (`+50%`, `1.9x`, `1.2h`, `18 GiB`), by its
unit. `350M` is a size in millions."""

OF_A_TRACKER = re.compile(r"(metrics\.|train/|eval/|test/|system/|perf/|_)", re.IGNORECASE)
"""The first letters of a tracker's columns of metrics."""


def may_be_setting(header: str, text: str) -> bool:
    """Return whether a cell that was not read may say how the run was made: words, or a whole number.

    Other numbers are measured for the most part, and so is what a header calls a result.
    """
    if not text or _of_a_result(header):
        return False
    measured = MEASURED_AMOUNT.fullmatch(text)
    if measured and measured[1] != "M" and measured[1].lower() in {"%", "x", "×", *TIMES, *MEMORY}:
        return False
    return is_word(text) or (text.isdigit() and not OF_A_TRACKER.match(header))


def may_be_size(header: str, text: str) -> bool:
    """Return whether a number with decimals may say how the run was made, as `7.0` billions of parameters does."""
    is_decimal = number(text) is not None and not text.isdigit()
    return is_decimal and not _of_a_result(header) and not OF_A_TRACKER.match(header)


@functools.lru_cache(maxsize=4096)
def _of_a_result(header: str) -> bool:
    """Return whether a column may differ between repeats of one measurement, or holds what a run came to."""
    words = WORD.sub(" ", header)
    apart = re.sub(r"[./-]+", " ", words)
    if SET.search(apart):
        return False
    return bool(EACH_ITS_OWN.search(apart) or MEASURED_BESIDE.search(words) or _in_a_unit(header))


def _in_a_unit(header: str) -> bool:
    """Return whether a header gives a unit of a speed or a time in which nothing is set."""
    found = OF_A_UNIT.search(header)
    if not found or SET_IN_A_UNIT.search(header):
        return False
    rate, time = found["rate"], found["time"]
    return (not rate or rate.lower() in TIMES) and (not time or time in TIMES.keys() - {"m", "h", "d"})  # `size (m)`


def is_word(text: str) -> bool:
    """Return whether a cell says something in words (`8B`, `A100`), and no number, which a measurement may be."""
    try:
        float(text)
    except ValueError:
        return any(c.isalpha() for c in text) and text.lower() not in UNSET
    return False
