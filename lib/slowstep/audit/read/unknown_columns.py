"""Columns that were not read: which of them may say how a run was made, and which say what came of it."""

from __future__ import annotations

import functools
import math
import re

from slowstep.audit.model_parallel import names_a_way
from slowstep.audit.read.header_names import without_statistic
from slowstep.audit.read.measures import is_measure, number
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
    r"^rank$|^#$|^no\.?$|^number$|^vs|\breserved \(?(?:mem|[gm]i?b)|\bmax\b.*\b[gm]i?b\b|\bw\b(?!/)|[%Δ$€]|"
    r"\brun (?:#|no\b|number)|\bp\d\d\b|\bstd(?:ev|dev)?\b",
    re.IGNORECASE,
)
"""Words in the headers of columns that hold what a run came to, or number the rows."""

IN_PERCENT = re.compile(r"\b(?:pct|percent(?:ages?)?)\b", re.IGNORECASE)
SHARE_OF_A_STEP = re.compile(
    r"\b(?:data(?:load\w*)?|load\w*|input|io|wait\w*|stall\w*|idle|busy|active|blocked|bubbles?|exposed|overlap\w*|"
    r"comm\w*|all ?reduce|nccl|sync\w*|compute|kernels?|forward|backward|fwd|bwd|optim\w*|step|gpu|cpu|sm|"
    r"pad(?:ded|ding)?|mfu|hfu|occupancy|saved?|error|change)\b",
    re.IGNORECASE,
)
"""Words of a share in percent that a run came to. Others, such as `sparsity percent`, may be set."""

SET = re.compile(
    r"\bpin(?:ned)?\b|\b(?:back|front) end\b|\bdeep ?speed\b|\bmemory (?:efficient|format|layout|limit|fraction|pool)|"
    r"\b(?:model|dataset|data|tokenizer) (?:names?|paths?|ids?|urls?|dir)\b|\bname or path\b|"
    r"\b(?:[gc]pu|device|card|optim\w*|scheduler|backend|kernel|arch\w*) name\b|\boptim\w* states?\b|"
    r"\bloss (?:fn|func|function|type|kind|impl|kernel)|\bpower (?:limit|cap|mode|profile)|"
    r"\b(?:accum\w*|inner|local|unroll|sync\w*) (?:steps|iters|iterations|epochs)\b|"
    r"\b(?:mix\w*|mask\w*|compression|sparsity|expert|split) ratio\b|\brelative (?:pos|attention)|\bstart method\b|"
    r"\b(?:fast|code|kernel) path\b|\b(?:num|n|number of) hosts?\b|"
    r"\b(?:sparsity|prun(?:ed?|ing)|frozen|freeze|dropout|mask(?:ed|ing)?)\b|\binit\w* std\b",
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

OF_A_SHARE = re.compile(r"\s*[(\[]\s*(?:per|each|/)\s*[a-z]+\s*[)\]]$", re.IGNORECASE)
"""The end of a header that says of what share a speed is: `tokens/s (per node)`."""

SET_IN_A_UNIT = re.compile(
    r"interval|every|timeout|frequency|period|delay|limit|budget|"
    r"(?:net|link|interconnect|nic|disk|storage|ethernet|infiniband|bandwidth).*b(?:it|yte)?s?/s",
    re.IGNORECASE,
)
"""Words of what is set in a unit of time or speed: how often is saved, and what the hardware is."""

SET_AS_AN_AMOUNT = re.compile(
    r"\b(?:limit|cap|budget|tdp|timeout)\b|\b(?:bucket|chunk|block|shard|buffer)(?: size\w*| [mk]b)?\b|"
    r"\b(?:save|saving|sav|checkpoint|ckpt|log|logging|eval|sync)\w* (?:interval|every|frequency|period)",
    re.IGNORECASE,
)
"""Words of what is set as an amount with a unit, so that `300W` is no measurement."""

SIZE_OF_A_MODEL = re.compile(
    r"^(?:(?:model|param\w*|lm|llm) )?size\b|\bparam(?:s|eters?)?\b|\bmodel(?: (?:name|variant|version|type))?$",
    re.IGNORECASE,
)
"""Headers below which `125m` is a size in millions and no time."""

LEARNED = re.compile(
    r"(?:(?:train(?:ing)?|eval|val(?:id(?:ation)?)?|test|final|best|mean|avg|ep|lm|cls|box|dfl) )*"
    r"(?:\w*loss|acc(?:uracy)?|ppl|perplexity|f1|rewards?|rew mean|score|lr|learning rate|grad norm)"
    r"(?: (?:total|mean|avg))?|best (?:epoch|step|iter(?:ation)?)",
    re.IGNORECASE,
)
"""Headers of what a model learned, and of what it learned by. Nobody needs to be asked what they hold."""

VERSION = re.compile(r"(?!(?:19|20)\d\d\b)\d+(?:\.(?!(?:19|20)\d\d\b)\d+){1,2}")
"""The version of a program. Four parts are an address, and those with a year are a date."""

OF_A_VERSION = re.compile(r"\b(?:version|ver)\b", re.IGNORECASE)
PROGRAM = re.compile(
    r"(?:py)?torch(?:vision|audio)?|cuda(?: (?:toolkit|driver|runtime))?|cudnn|nccl|rocm|(?:nvidia |gpu )?driver|"
    r"transformers|accelerate|deep ?speed|megatron|lightning|peft|trl|datasets|tokenizers|bitsandbytes|xformers|"
    r"flash (?:attn|attention)|triton|apex|python|jax|numpy|kernel",
    re.IGNORECASE,
)
"""Headers of columns of versions: those that say so, and names of programs."""

MILLIONS = re.compile(r"\d+(?:\.\d+)? ?m", re.IGNORECASE)

OF_A_TRACKER = re.compile(r"(metrics\.|train/|eval/|test/|system/|perf/|_)", re.IGNORECASE)
"""The first letters of a tracker's columns of metrics."""


def may_be_setting(header: str, text: str) -> bool:
    """Return whether a cell that was not read may say how the run was made: words, or a whole number.

    Other numbers are measured for the most part, and so is what a header calls a result.
    """
    if not text or _of_a_result(header):
        return False
    if is_measurement(header, text):
        return False
    whole = text.isdecimal() and not OF_A_TRACKER.match(header)
    return is_word(text) or whole or _is_version(header, text) or ("/" in text and names_a_way(header))


def _is_version(header: str, text: str) -> bool:
    """Return whether a cell is the version of a program, `2.1.0` or `2.1`, below a header that says so."""
    words = re.sub(r"[\s._-]+", " ", WORD.sub(" ", header)).strip()
    return bool(VERSION.fullmatch(text) and (OF_A_VERSION.search(words) or PROGRAM.fullmatch(words)))


def is_measurement(header: str, text: str) -> bool:
    """Return whether a cell holds a measurement with its unit (`+50%`, `1.2h`, `18 GiB`), and not what is set."""
    return is_measure(text) and not is_set_amount(header, text)


@functools.lru_cache(maxsize=4096)
def is_set_amount(header: str, text: str) -> bool:
    """Return whether a header says that an amount with its unit was set, or is the size of a model in millions."""
    words = re.sub(r"[\s./-]+", " ", WORD.sub(" ", header)).strip()
    return bool(SET_AS_AN_AMOUNT.search(words) or (MILLIONS.fullmatch(text) and SIZE_OF_A_MODEL.search(words)))


def may_be_size(header: str, text: str) -> bool:
    """Return whether a number with decimals may say how the run was made, as `7.0` billions of parameters does."""
    value = number(text)
    is_decimal = value is not None and math.isfinite(value) and not text.isdecimal()
    return is_decimal and not _of_a_result(header) and not OF_A_TRACKER.match(header)


@functools.lru_cache(maxsize=4096)
def _of_a_result(header: str) -> bool:
    """Return whether a column may differ between repeats of one measurement, or holds what a run came to."""
    header = without_statistic(header)
    words = WORD.sub(" ", header)
    apart = re.sub(r"[./-]+", " ", words)
    if SET.search(apart):
        return False
    share = IN_PERCENT.search(apart) and SHARE_OF_A_STEP.search(apart)
    return bool(share or EACH_ITS_OWN.search(apart) or MEASURED_BESIDE.search(words) or _in_a_unit(header))


def _in_a_unit(header: str) -> bool:
    """Return whether a header gives a unit of a speed or a time in which nothing is set, also before a share of it."""
    found = OF_A_UNIT.search(OF_A_SHARE.sub("", header))
    if not found or SET_IN_A_UNIT.search(header):
        return False
    rate, time = found["rate"], found["time"]
    return (not rate or rate.lower() in TIMES) and (not time or time in TIMES.keys() - {"m", "h", "d"})  # `size (m)`


@functools.lru_cache(maxsize=4096)
def is_no_speed(header: str) -> bool:
    """Return whether a header says that its numbers are the size of a model, or what it learned."""
    words = re.sub(r"[\s./-]+", " ", WORD.sub(" ", header)).strip()
    return bool(SIZE_OF_A_MODEL.search(words) or LEARNED.fullmatch(words))


def is_word(text: str) -> bool:
    """Return whether a cell says something in words (`8B`, `A100`), and no number, which a measurement may be."""
    try:
        float(text)
    except ValueError:
        return any(c.isalpha() for c in text) and text.lower() not in UNSET
    return False
