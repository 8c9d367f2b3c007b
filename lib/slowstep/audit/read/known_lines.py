"""Times of a step that a line says without a unit or without the word `step`, where its form tells what they are.

A time beside that of its data is the one of a step, as the meters of training loops print both for each step: those of
the examples of PyTorch and torchvision, of Detectron2 and of MMEngine. They print seconds, with three decimals or more,
and the mean in brackets or the time that is left. Other lines are known by their whole form, which one program writes.
"""

from __future__ import annotations

import re

POSITION = re.compile(
    r"(?<![a-z])(?:iter(?:ation)?|step|epoch)\b\W{0,3}\d|\[\s{0,8}\d{1,9}\s?/\s?\d{1,9}[\s\]()]", re.IGNORECASE
)
"""The place in a training or in an epoch that a line is of."""

NUMBER = r"(?P<number>\d{1,5}\.\d{3,8}(?=[\s,;|)(]|\Z)|\d{1,7}(?:\.\d{1,8})?(?=\s?(?:ms|s)\b))\s?(?P<unit>ms|s)?\b"
TIME = re.compile(rf"(?<![\w.])(?P<name>time)(?:\s?[:=]\s{{0,8}}|\s{{1,8}}){NUMBER}", re.IGNORECASE)
OF_DATA = re.compile(rf"(?<![\w.])data(?:[_ ]time)?(?:\s?[:=]\s{{0,8}}|\s{{1,8}}){NUMBER}", re.IGNORECASE)
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

LONGEST = 60
"""The most characters of a number with its name that are shown."""

Known = tuple[str, str, str]
"""The name before a number, the number with its unit, and what the line says."""


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
    shown, before = found[0][-LONGEST:], line[: found.start()]
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
