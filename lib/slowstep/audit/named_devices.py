"""Devices that words count (`8x H100`, `4 nodes` of 8), beside those that follow from a row's figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.device_words import counted_in
from slowstep.audit.figures import exact
from slowstep.audit.run import ReportedRun

NODES = re.compile(r"(?:num[ _]?|n[ _]?|#\s?)?nodes?", re.IGNORECASE)
PER_NODE = re.compile(r"(?:gpu|device|card|accelerator)s?[ _/]*(?:per|/|a)?[ _]*node", re.IGNORECASE)
"""Columns that count nodes, and the devices of one."""

SEVERAL_IN_ONE = re.compile(r"MI250|GB\d{3}|GH200 NVL|TPU v[23]\b|\b[HD]GX\b", re.IGNORECASE)
"""Parts that hold several devices, so that their number is none of devices."""


def named_devices(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows whose words count other devices than follow from their figures."""
    found = []
    for run in (r for r in runs if "devices" not in r.given and r.devices.middle != 1):
        count, words = _counted(run)
        if count and not run.devices.meets(exact(count)):
            by_figures = f"'{run.label}' has {run.devices} devices by its figures"
            found.append(f"{by_figures}, and {words} {count}: which of its figures is wrong?")
    return found


def _counted(run: ReportedRun) -> tuple[int, str]:
    """Return the devices that the words of a row count, with the words and a verb; 0 if they say none or several."""
    whole = {name: text for name, text in run.unknown.items() if text.isdecimal()}
    nodes = [int(text) for name, text in whole.items() if NODES.fullmatch(name.strip())]
    each = [int(text) for name, text in whole.items() if PER_NODE.fullmatch(name.strip())]
    if nodes and each:
        return nodes[0] * each[0], f"{nodes[0]} nodes of {each[0]} make"
    said = [(number, text) for text in (run.label, *run.unknown.values()) for number in _numbers(text)]
    several = len({number for number, _ in said}) != 1 or (nodes and nodes[0] > 1)
    return (0, "") if several else (int(said[0][0]), f"'{said[0][1]}' says")


def _numbers(text: str) -> set[str]:
    return set() if SEVERAL_IN_ONE.search(text) else counted_in(text)
