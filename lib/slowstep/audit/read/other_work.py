"""What a log says of other work than training steps: of an evaluation, and of what comes before training or beside it.

Its speeds may be ten times as high as those of training. So a line, a bar or a number that is of such work is no
training's, even if it also names the training data (`Tokenizing train dataset`) or the program (`train.py:88`).
"""

from __future__ import annotations

import re

BEGINS = r"(?:(?<![a-z])|(?-i:(?<=[a-z])(?=[A-Z])))"
ENDS = r"(?:(?![a-z])|(?-i:(?<=[a-z])(?=[A-Z])))"
"""The borders of a word, which may also stand beside an underscore or in `evalSamplesPerSec`."""

METRICS = (
    r"loss|acc|ppl|perplex|error|score|bleu|rouge|dice|precision|recall|(?:bp[bc]|f1|mse|mae|rmse|auc|wer|cer|m?iou|"
    r"nll|err|top-?\d|ce|psnr|ssim|kld?|m?ap|fid|every|interval)(?![a-z])"
)
"""What an evaluation came to, or how often there is one. A line of training may hold the last evaluation's."""

NO_METRIC = r"per|sec|speed|time|throughput|took|duration|tps|step|batch|iter|epoch|sample|example|token|num|size|count"
NAMED = rf"[_/.](?!\w{{0,20}}(?:{NO_METRIC}))[a-z]\w{{0,20}}['\"]?\s?[:= ]\s?[-+]?\d[\d.,e+-]*+(?!\s?\w+\s?/)"
"""The rest of the name of another metric, with its number: `_nll 2.3`."""

OF_EVALUATION = re.compile(
    rf"{BEGINS}(?:eval(?:s|uat(?:e[sd]?|ing|ions?|ors?))?|val(?:s|idat(?:e[sd]?|ing|ions?|ors?))?|valid(?![ _]?tok)|"
    rf"test(?:s|ed|ing)?(?!-time)|(?<![/.+\d])dev(?:set)?(?!/|\W{{0,3}}(?:cuda|[cg]pu|\d))|"
    rf"inference|decode|prefill|generation|loading(?!\s?[:=]?\s?\d[\d.]{{0,20}} ?m?s\b))"
    rf"{ENDS}(?!\W?_?(?:{METRICS})|{NAMED})",
    re.IGNORECASE,
)
"""Words in bars and lines of a log that evaluate. `valid tokens` are those that are no padding."""

LETTERS = ("val", "dev", "test", "inference", "decode", "prefill", "generation", "loading")
"""What each of those words holds, in lower case."""

OF_LOADING = re.compile(
    r"(?:only |just )?(?:the )?(?:data ?load\w*|loaders?|input pipeline|io|i/o)(?:,? (?:only|alone|speed|throughput))?",
    re.IGNORECASE,
)
"""What stands in brackets behind a speed that is of loading alone."""

OF_TRAINING = re.compile(rf"{BEGINS}(?:pre-?|re-?)?train(?:s|ed|ing)?{ENDS}", re.IGNORECASE)
"""Words that train."""

OWN_NUMBER = re.compile(
    rf"{BEGINS}(?:eval|val(?:id(?:ation)?)?|test|dev){ENDS}\s?[:=]?\s?"
    r"(?:\d{1,12}\.\d+ ?%?|\d[\d.]{0,20} ?m?s\b|n/?a\b|none\b|-+(?=\s|\Z))"
    r"(?!\s?\w+\s?/|\s?/)",
    re.IGNORECASE,
)
"""An evaluation with a number of its own, which is a metric or a time: `val 0.251`, `val 132.2 s`, or `val: n/a`."""

PROGRAM = re.compile(r"[\w./-]{0,80}train[\w./-]{0,80}\.(?:py|sh)\b", re.IGNORECASE)
"""The name of a program that trains, which says nothing of a line that it writes."""

STEMS = (
    r"truncat|(?:un)?pack|padd?|add|apply|convert|filter|extract|format|prepar|pre-?process|pre-?fetch|group|chunk|"
    r"cast|flatten|shuffl|concatenat|encod|creat|writ|copy|upload|restor|export|warm|compil|initiali[sz]|seriali[sz]|"
    r"index|shard|de-?duplicat|clean|collat|checkpoint|resum|count|rank|scan|read|pars|split"
)
"""What is done before training or beside it, where it is called so by a word in `-ing`: others are names of things."""

STEMS_OF_BARS = "load|map|cach|download|fetch|build|generat|tokeni[sz]|sav|filter"
"""What is done so where it has any ending, such as `Map` or `Loaded`, since training has no such bars."""

DOING = rf"(?:{STEMS}|{STEMS_OF_BARS})\w{{0,2}}ing(?![a-z])(?!\W*(?:eff|ratio|factor|loss))"
DONE = rf"(?:{STEMS_OF_BARS})(?:p?ed|p?ers?|e[sr]?|s|(?:at)?ions?)?(?![a-z])"
"""The endings of both, decided once."""

DATA = r"data[ -]?(?:set|load(?:ing|er)|preparation|pre-?processing)\b"
"""Things of that work at the beginning of a message."""

LEVEL = (
    r"(?:(?:(?-i:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|"
    r"\b(?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)(?=\s?[\]:|-]))(?!\W{0,3}\d*\.\d))"
)
"""The level of a message. In small letters it has a sign behind it; with a number behind it, it is a metric."""

PREFIX = (
    rf"\A(?:.{{0,80}}?\b{LEVEL}\W*(?:[\w./-]{{1,60}}\.py(?::\d+)?\W+|"
    r"(?!step|iter|epoch|batch)[\w.]{1,40}(?::\d+)?\s?[:|\]>-]+\s?){0,2}|"
    r"(?:[\[(][^\[\]()]{0,60}\d[\])]|[\W\d_]|T(?=\d)|Z\b|[AP]M\b|(?:rank|worker|pid|gpu|node)(?=\W?\d)|"
    r"[\w/-]{1,60}\.py\b)*+)"
)
"""What stands before a message: a time, a process, the level and the name of a logger."""

WORD = r"(?!(?:took|in|for|after|done)\b)[a-z][\w-]{0,20}"
OF_A_STEP = (
    rf"(?!\w{{1,20}}(?:ing|ed) (?!time|wait)[a-z]){WORD}(?: {WORD}){{0,2}}"
    r"\s?[:=]?\s?(?:\d+(?:\.\d+)?\s?m?s\b|\d*\.\d+\s*[|,;])|"
    r"(?!\w{1,20}(?:ing|ed)\b)[a-z][\w -]{0,40}\s?[:=][^|,;]{0,80}[|,;]\s?(?:global[ _]?)?(?:step|iter|it\b|epoch|loss)"
    r"|\w{1,20}ed\s?[:=]\s?\d[\d.]{0,12}\s?\w{0,5}\s?[|,;]\s?(?:global[ _]?)?(?:step|iter|it\b|epoch)"
)
"""How a line of training may begin: with the time or the metric that a word names, or a field before the step's, which
may be how much was done (`cached: 12 GiB`).

What is done to something is none: `Building index: 0.5 s`.
"""

MESSAGE_BEFOREHAND = re.compile(rf"{PREFIX}(?!{OF_A_STEP})(?:{DOING}|{DONE}|{DATA}|checkpoints?\b)", re.IGNORECASE)
"""The beginning of a line whose message is of what comes before training or beside it."""

PREPARES = re.compile(rf"(?<![a-z]){DOING}", re.IGNORECASE)
"""Words in the name of a number that is of such work."""

DOES_BEFOREHAND = re.compile(
    rf"{BEGINS}(?:pre|re|un|up|off|data)?-?(?:(?:{STEMS_OF_BARS})\w{{0,2}}ing(?![a-z])|{DONE})|\A\W*{DOING}",
    re.IGNORECASE,
)
"""Words in the names of bars over what comes before training."""

OF_SAMPLING = re.compile(
    rf"{BEGINS}(?:sampling|denoising|ddi[mp]|predict(?:ing|ions?)?|rollouts?|scoring|beam[ -]?search|k-?means){ENDS}",
    re.IGNORECASE,
)
"""Words in the names of bars over what a model is asked for, or over what is computed from its outputs."""

OVER_DATA = re.compile(r"(?:data ?sets?|\bsplits?)\b(?!\W{0,2}\d)", re.IGNORECASE)
"""What is read or written there. One with a number is a part that is trained on."""

OVER_A_LOADER = re.compile(r"\W*train(?:ing)?[ _-]?(?:data)?[ _-]?loader\W*\d{0,5}\W*", re.IGNORECASE)
"""A bar that is called after the loader that it draws from, as loops of training are."""

OF_AN_EPOCH = re.compile(r"epoch|\btraining (?:on|with)\b", re.IGNORECASE)
"""Words of a bar that trains on a data set, or with one that was cached."""


def is_beforehand(name: str) -> bool:
    """Return whether a bar of this name is over what comes before training."""
    deed, training = DOES_BEFOREHAND.search(name), OF_AN_EPOCH.search(name)
    if OVER_A_LOADER.fullmatch(name):
        return False
    if (sampling := OF_SAMPLING.search(name)) and not OF_TRAINING.search(name, 0, sampling.start()):
        return True
    if deed:
        return not (training and "training" in training[0].lower() and training.start() < deed.start())
    return bool(OVER_DATA.search(name)) and not training


def prepares(name: str) -> bool:
    """Return whether the name of a number may be of what comes before training: no word of training is behind it."""
    found = max((match.end() for match in PREPARES.finditer(name)), default=-1)
    return found >= 0 and not OF_TRAINING.search(name, found)


def evaluates(text: str) -> bool:
    """Return whether a line is of an evaluation, and says nothing of training."""
    if not _may_evaluate(text):
        return False
    text = PROGRAM.sub("", text)
    return bool(OF_EVALUATION.search(text)) and not OF_TRAINING.search(text)


def evaluates_first(name: str) -> bool:
    """Return whether the name of a bar or a speed names an evaluation, and not a training before it."""
    evaluation, training = OF_EVALUATION.search(name), OF_TRAINING.search(name)
    return bool(evaluation) and not (training and training.start() < evaluation.start())


def evaluates_last(before: str) -> bool:
    """Return whether the last word before a number that says what is done is an evaluation's and not training's.

    One that names another number before it does not count.
    """
    if not _may_evaluate(before):
        return False
    text = OWN_NUMBER.sub("", PROGRAM.sub("", before))
    evaluation, training = (
        max((found.end() for found in words.finditer(text)), default=-1) for words in (OF_EVALUATION, OF_TRAINING)
    )
    return evaluation > training


def _may_evaluate(text: str) -> bool:
    """Return whether a text has the letters of an evaluation, which is told ten times as fast as its words."""
    low = text.lower()
    return any(stem in low for stem in LETTERS)
