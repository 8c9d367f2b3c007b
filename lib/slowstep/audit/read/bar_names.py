"""The name of a progress bar, by which the bars of a training are told from others, and those of its epochs from each
other.

A description may be drawn anew with each bar, since it holds the last loss: `Epoch 1 | loss: 1.8231`. What changes in
it names nothing. Without it an evaluation's bar may have the training's name, so a log is read by it only where its
bars are not told apart by their whole descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from slowstep.audit.read.launcher_prefixes import is_prefix
from slowstep.audit.read.other_work import evaluates_first, is_beforehand

LONGEST, LONGEST_METRIC = 60, 100
"""The most characters of a name, and of a metric with its number."""

WORDS = r"\[[^:|\[\]{}<]{1,20}\]"
OF_SOMETHING = rf"(?<=[A-Za-z]):(?=\s?\d{{1,5}}(?:/\d{{1,5}})?(?:\s?{WORDS})?\Z)"
NAME = re.compile(rf"(?:[^:|\[\]{{}}]|{WORDS}|{OF_SOMETHING})*\Z")
"""A bar's name, which may hold words in brackets (`Epoch 1/2 [train]`) and the number of something (`Epoch: 1/2`),
behind an earlier bar or a line of the log."""

DECIMAL = r"[-+]?(?:\d{0,12}\.\d{1,20}(?:e[-+]?\d{1,3})?|\d{1,3}e[-+]?\d{1,3}|nan|inf)(?:\s?(?:%|[kMGT]i?B?|m?s))?"
CALLED = r"(?P<name>(?!(?:epoch|step|iter)\b)(?:(?:train|val(?:id(?:ation)?)?|eval|test|dev) )?[A-Za-z][\w./-]{0,30})"
BETWEEN = r"\s,;|(\["
METRIC = re.compile(
    rf"(?<![{BETWEEN}])[{BETWEEN}]*+(?:{CALLED}\s?[:= ]\s?{DECIMAL}|(?<=\|)\s?\d{{1,12}})[)\]]?\Z", re.IGNORECASE
)
"""A metric, or a count of steps, at the end of a description. A whole number that is called something may name a bar:
`Epoch: 3`."""

LOSS = re.compile(r"(?:train\w*[_./-])?loss\w*", re.IGNORECASE)
"""The name of the metric that a training's bar shows first."""

SHOWS = "shows "
"""What stands in a name before that of another metric which a bar shows first."""

OF_EPOCH = re.compile(
    r"(?:\A|[:\]]) ?(?:(?P<of_all>\d{1,5}/\d{1,5}) [\d.]+[KMGT]?B? |(?P<first>\d{1,5})\|\d{1,12}\|[Ll]oss: )[^:|]*\Z"
)
"""A description that holds the epoch and what was measured in it: `1/3 4.21G 1.234 37 640` of Ultralytics,
`1|120|Loss: 1.8231` of torchtune."""


def bar_name(head: str, prefixes: Collection[str], with_metrics: bool) -> str:
    """Return the name of a bar from what stands before its percentage, `Epoch 1/3:`; empty if it has none.

    It is told `with_metrics`, by the whole description, or without. What a launcher writes before each line is none.
    `prefixes` are the hosts and processes that it names there.
    """
    if not head.endswith(":") or is_prefix(head[:-1], prefixes):
        return ""
    description = " ".join(head[:-1].split())
    if epoch := OF_EPOCH.search(description):
        before = description[: epoch.start()]
        named = f"Epoch {epoch['of_all'] or epoch['first']}"
        return f"{before[-LONGEST:]} {named}" if evaluates_first(before) else named
    lasting, metrics = (description, []) if with_metrics else _without_metrics(description)
    name = NAME.search(lasting)[0].strip()
    if metrics and not is_loss(metrics[0]):
        name = f"{name} {SHOWS}{metrics[0]}".strip()
    name = name or next(iter(metrics), "")
    return name if len(name) <= LONGEST else ""


def ends_with_metric(name: str) -> bool:
    """Return whether a whole description ends with a metric, which may be another one with each bar."""
    return bool(METRIC.search(name))


def shows_no_loss(name: str) -> bool:
    """Return whether a bar of this name shows another metric first than a training's loss.

    Beside bars that do not, it may be an evaluation's.
    """
    return SHOWS in name


def is_loss(name: str) -> bool:
    """Return whether a bar is called after a training's loss, or a metric is one."""
    return bool(LOSS.fullmatch(name))


def _without_metrics(description: str) -> tuple[str, list[str]]:
    """Return a description up to the metrics at its end, and their names in the order in which they stand there.

    What is done stays, though a number follows it: `Evaluating: 0.85`.
    """
    names: list[str] = []
    while found := METRIC.search(description, max(0, len(description) - LONGEST_METRIC)):
        called = (found["name"] or "").replace(" ", "_")
        before = description[: found.start()].rstrip(" :,;|-")
        if evaluates_first(called) or is_beforehand(called):
            return f"{before} {called}", names
        names[:0] = [called] if called else []
        description = before
    return description, names
