"""The name of a progress bar, by which the bars of a training are told from others, and those of its epochs from each
other.

A description may be drawn anew with each bar, since it holds the last loss: `Epoch 1 | loss: 1.8231`. What changes in
it names nothing. Without it an evaluation's bar may have the training's name, so a log is read by it only where its
bars are not told apart by their whole descriptions.

What a launcher writes before each line (`[default0]:`, `worker-3:`, `0:`) is no name of a bar.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

from slowstep.audit.read.other_work import evaluates_first, is_beforehand

NO_HOST = r"epoch|train|step|iter|eval|val|test|fold|phase|stage|fine-?tun"
"""Words of a training or an evaluation, which are none of the name of a host or a process."""

NO_ROLE = rf"{NO_HOST}|dev(?!ice)|ep\d|batch|round|split|part"
"""Words that a process's name in brackets does not begin with."""

PROCESSES = r"(?:local_)?rank|proc(?:ess)?|node|worker|host|gpu|device"

OF_A_PROCESS = re.compile(
    rf"(?:\[(?!{NO_ROLE})(?:[a-z_-]{{2,}}|(?:{PROCESSES})[ :])\d{{1,5}}(?:,\d{{1,5}})?\]|\[\d{{1,5}},\d{{1,5}}\])"
    rf"(?:<std(?:err|out)>)?|\[\d{{1,5}},mpirank:\d{{1,5}},[\w.-]{{1,40}}\]<std(?:err|out)>|"
    rf"(?:{PROCESSES})[ _-]?\d{{1,5}}",
    re.IGNORECASE,
)
"""The prefix of a process: of torchrun (`[default0]`), of mpirun (`[1,0]<stderr>`), of SageMaker's
(`[1,mpirank:0,algo-1]<stdout>`), with a word (`rank 0`)."""

WHEN = re.compile(r"\s*\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?\s{1,3}")
"""The time before a line, which stands before what a launcher writes, too."""

SAYS_RANK = re.compile(r"(?<![a-z])rank['\"]?\s?[=:]?\s?(?P<number>\d{1,5})(?![\d.])", re.IGNORECASE)
"""The process that a line says it is of: `step 10 rank 3`, `"rank": 3`."""

NUMBERED = re.compile(r"(?P<number>\[\d{1,5}\]|(?:task[ _-]?)?\d{1,5}): ?(?=\D|\d{1,3}%)", re.IGNORECASE)
"""The beginning of a line that may be the number of a process, as `srun -l` writes it, or that of an epoch."""

COUNTED = re.compile(r"(?P<done>\d+)/(?P<total>\d+) \[\d")
"""The count of a bar."""

TOKEN = re.compile(r"(?P<token>(?=[^\s:]*\d)[A-Za-z][\w.-]{0,60}): ")
"""The beginning of a line that may be the name of a host, as pdsh writes it. It holds a number."""

WORDS_OF_TRAINING = re.compile(NO_HOST, re.IGNORECASE)

LINES = 4
"""The number of lines from which on it is no chance that all begin so."""


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


def prefixes_in(text: str) -> frozenset[str]:
    """Return what a launcher writes before the lines of a log's beginning: names of hosts and numbers of processes."""
    return _hosts_in(text) | _numbers_in(text)


def _hosts_in(text: str) -> frozenset[str]:
    """Return the words before a colon that all lines of a log's beginning begin with, where some line is of no bar."""
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    found = [TOKEN.match(line) for line in lines]
    plain = [line for line in lines if not _has_bar(line)]
    words = any(WORDS_OF_TRAINING.search(match["token"]) for match in found if match)
    if len(lines) < LINES or not all(found) or words or len(plain) < len(lines) / 4:
        return frozenset()
    return frozenset(match["token"] for match in found if match)


def _numbers_in(text: str) -> frozenset[str]:
    """Return the numbers before a colon that are of processes, and not of epochs.

    Those of processes stand before most lines before the first bar, or take turns while none of their bars is at its
    end.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    found = [NUMBERED.match(line) for line in lines]
    bars = [i for i, line in enumerate(lines) if _has_bar(line)]
    first = bars[0] if bars else len(lines)
    before = [match for match in found[:first] if match]
    if before and len(before) >= first / 2:
        return frozenset(match["number"] for match in found if match)
    drawn = [(found[i]["number"], _is_at_its_end(lines[i])) for i in bars if found[i]]
    turns = [a for (a, ended), (b, _) in pairwise(drawn) if a != b and not ended]
    return frozenset(number for number, _ in drawn) if len(turns) >= LINES else frozenset()


def _has_bar(line: str) -> bool:
    return "\r" in line or "%|" in line


def _is_at_its_end(line: str) -> bool:
    """Return whether the last bar of a line has counted all."""
    counts = COUNTED.findall(line)
    return not counts or counts[-1][0] == counts[-1][1]


def process_of(line: str) -> str:
    """Return what a line says of the process that wrote it; empty if it says nothing."""
    when = WHEN.match(line)
    rest = line[when.end() if when else 0 :].lstrip()
    found = OF_A_PROCESS.match(rest) or SAYS_RANK.search(rest)
    return found[0] if found else ""


def number_before(line: str) -> str:
    """Return the number before a line with its colon, which may be that of a process or of an epoch; empty if none."""
    found = NUMBERED.match(line)
    return found["number"] if found else ""


def is_prefix(head: str, prefixes: Collection[str]) -> bool:
    """Return whether what stands in a line before a bar is only what launchers write there, `[default0]:[rank0]`."""
    parts = [part.strip() for part in head.split(":")]
    return all(part in prefixes or OF_A_PROCESS.fullmatch(part) for part in parts)
