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
    r"loss|acc|ppl|perplex|error|score|bleu|rouge|(?:bp[bc]|f1|mse|mae|rmse|auc|wer|cer|m?iou|every|interval)(?![a-z])"
)
"""What an evaluation came to, or how often there is one. A line of training may hold the last evaluation's."""

OF_EVALUATION = re.compile(
    rf"{BEGINS}(?:eval(?:s|uat(?:e[sd]?|ing|ions?|ors?))?|val(?:s|idat(?:e[sd]?|ing|ions?|ors?))?|valid(?![ _]?tok)|"
    rf"test(?:s|ed|ing)?(?!-time)|(?<![/.+\d])dev(?:set)?(?!/|\W{{0,3}}(?:cuda|[cg]pu|\d))|"
    rf"inference|decode|prefill|generation|loading){ENDS}(?!\W?_?(?:{METRICS}))",
    re.IGNORECASE,
)
"""Words in bars and lines of a log that evaluate. `valid tokens` are those that are no padding."""

STEMS = ("val", "dev", "test", "inference", "decode", "prefill", "generation", "loading")
"""What each of those words holds, in lower case."""

OF_TRAINING = re.compile(rf"{BEGINS}(?:pre-?|re-?)?train(?:s|ed|ing)?{ENDS}", re.IGNORECASE)
"""Words that train."""

PROGRAM = re.compile(r"[\w./-]{0,80}train[\w./-]{0,80}\.(?:py|sh)\b", re.IGNORECASE)
"""The name of a program that trains, which says nothing of a line that it writes."""

PREPARING = (
    r"(?:truncat|(?:un)?pack|padd?|add|apply|convert|filter|extract|format|prepar|pre-?process|pre-?fetch|group|chunk|"
    r"cast|flatten|shuffl|concatenat|encod|creat|writ|copy|upload|restor|export|warm|compil|initiali[sz]|seriali[sz]|"
    r"index|shard|de-?duplicat|clean|collat|tokeni[sz]|load|map|cach|download|fetch|build|generat|sav|checkpoint|resum)"
    r"\w{0,2}ing(?![a-z])(?!\W*(?:eff|ratio|factor|loss))"
)
"""What is done before training or beside it, as a bar or a message begins to say it."""

BEFOREHAND = re.compile(
    rf"load|token|map|cach|download|fetch|build|generat|data ?sets?\b|\bsplits?\b|\A\W*{PREPARING}", re.IGNORECASE
)
"""Words in the names of bars over what comes before training. A bar over a data set or a part of one is none of it."""

LEVEL = r"(?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)"
PREFIX = (
    rf"\A(?:.{{0,80}}?\b{LEVEL}\b\W*(?:[\w./-]{{1,60}}\.py(?::\d+)?\W+|"
    r"(?!step|iter|epoch|batch)[\w.]{1,40}(?::\d+)?\s?[:|\]>-]+\s?){0,2}|"
    r"(?:[\[(][^\[\]()]{0,60}\d[\])]|[\W\d_]|T(?=\d)|Z\b|[AP]M\b|(?:rank|worker|pid|gpu|node)(?=\W?\d)|"
    r"[\w/-]{1,60}\.py\b)*+)"
)
"""What stands before a message: a time, a process, the level and the name of a logger."""

MESSAGE_BEFOREHAND = re.compile(
    rf"{PREFIX}(?:load(?!\w{{0,9}}\s?[:=]?\s?[\d.]+\s?m?s\b)|map|cach|download|fetch|build|generat|filter|tokeni[sz]|"
    rf"sav|{PREPARING}|checkpoint\b|"
    r"data[ -]?(?:set\b|load(?:ing|er)\b|preparation\b|pre-?processing\b))",
    re.IGNORECASE,
)
"""The beginning of a line whose message is of what comes before training or beside it.

A line of training may begin with the time that a load takes.
"""

PREPARES = re.compile(rf"(?<![a-z])(?:{PREPARING}|tokeni[sz])", re.IGNORECASE)
"""Words in the name of a number that is of such work."""


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
    """Return whether the last word before a number that says what is done is an evaluation's and not training's."""
    if not _may_evaluate(before):
        return False
    text = PROGRAM.sub("", before)
    evaluation, training = (
        max((found.end() for found in words.finditer(text)), default=-1) for words in (OF_EVALUATION, OF_TRAINING)
    )
    return evaluation > training


def _may_evaluate(text: str) -> bool:
    """Return whether a text has the letters of an evaluation, which is told ten times as fast as its words."""
    low = text.lower()
    return any(stem in low for stem in STEMS)
