"""Columns that were not read: which of them may say how a run was made, and which say what came of it."""

from __future__ import annotations

import functools
import re

from slowstep.audit.read.columns import MEMORY
from slowstep.audit.read.unit_grammar import TIMES

UNSET = ("", "none", "null", "nan", "-")
"""Texts that an export writes for a parameter that was not given."""

EACH_ITS_OWN = re.compile(
    r"id\b|id$|uuid|seed|date|time|start|creat|updat|end|host|user|note|comment|remark|name|url|path|dir|commit|status|state",
    re.IGNORECASE,
)
"""Words in the headers of columns that differ between repeats of one measurement."""

MEASURED_BESIDE = re.compile(
    r"loss|\bacc(?:uracy)?\b|ppl|perplex|bleu|rouge|score|flop|grad.?norm|\btemp|power|watt|energy|duration|elapsed|"
    r"latency|mem|vram|step|epoch|iter|^rank$|index|^#$|^no\.?$|repeat|trial|attempt|fold|speed|faster|slower|gain\b|"
    r"\bdiff|relative|^vs|improve|overhead|ratio|saving|verdict|result|conclusion|finding|observ|summary|descr|reason|"
    r"why|util|\bpeak\b|\ballocated\b|\breserved \(?(?:mem|[gm]i?b)|\bmax\b.*\b[gm]i?b\b|\bw\b(?!/)|\bhours?\b|"
    r"\bseen\b|\bprocessed\b|\bretries\b|\booms?\b|\bwarnings\b|[%Δ$€]|"
    r"\brun (?:#|no\b|number)|\bruns\b|\breps?\b|replic|\bround\b",
    re.IGNORECASE,
)
"""Words in the headers of columns that hold what a run came to, or number the rows."""

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

    Other numbers are measured, and so is what a header calls a result.
    """
    if not text or _of_a_result(header):
        return False
    measured = MEASURED_AMOUNT.fullmatch(text)
    if measured and measured[1] != "M" and measured[1].lower() in {"%", "x", "×", *TIMES, *MEMORY}:
        return False
    return is_word(text) or (text.isdigit() and not OF_A_TRACKER.match(header))


@functools.lru_cache(maxsize=4096)
def _of_a_result(header: str) -> bool:
    """Return whether a column may differ between repeats of one measurement, or holds what a run came to."""
    return bool(EACH_ITS_OWN.search(header) or MEASURED_BESIDE.search(header) or _in_a_unit(header))


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
