"""Words that count devices, or speak of their number, and speeds that may not be those of all devices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.equal_work import FULL_LENGTH, OF_A_DEVICE, OF_PRICE
from slowstep.audit.figures import exact, shown
from slowstep.audit.relations import FITS, TITLES, solve
from slowstep.audit.run import ReportedRun
from slowstep.settings.reported import Claim

COUNTED = re.compile(
    r"(?<![\w.])(?<!rtx )(?<!gtx )(?<!quadro )(?<!geforce )"
    r"(\d{1,5})\s?[x×]?[\s_-]?(?:gpu|device|card|chip|node|tpu)s?(?![a-z])"
    r"|(?:gpu|device)s?[\s_-]?([1-9]\d{0,4})(?!\d)",
    re.IGNORECASE,
)
"""Words that count devices: `64 GPUs`, `run_gpu8`."""

TIMES_A_DEVICE = re.compile(
    r"(?<![\w.])(\d{1,4})\s?[x×]\s?(?:nvidia |amd |google )?"
    r"(?:(?:A(?:10|16|30|40|100|800|[2456]000|[45]500)|H(?:20|100|200|800)|B[123]00|V100|P(?:4|40|100)|T4|"
    r"L(?:4|20|40)|GH200|GB[23]00|MI\d{2,3})(?!\d)|RTX|GTX|Quadro|TPU|GPU)",
    re.IGNORECASE,
)
"""A number of devices before their name. `4x T5 layers` and `2 x L2 norm` count no devices."""

THINGS = r"(?:[gtn]pus?|cards?|chips?|devices?|accelerators?|machines?|nodes?|hosts?|ranks?|processes|replicas?)"
NUMBERED = (
    r"(?:\d+|two|three|four|eight|sixteen|more|fewer|less|twice|doubl\w+|half|all|several|many|extra|additional|add\w*|"
    r"another|second|one|single|other|(?:number|count) of)"
)
OF_DEVICES = re.compile(
    rf"\b{NUMBERED}(?:[ -]\w+){{0,2}}[ -](?:{THINGS}|hardware|clusters?)\b|"
    rf"\b(?:new|other|bigger|larger|faster) (?:hardware|clusters?|{THINGS})\b|"
    r"\b(?:scale[sd]? (?:up|out|to|well|linearly)|(?<!loss )scaling|linearly)\b",
    re.IGNORECASE,
)
"""Words of a claim that is about the number of devices, or about other ones. Any recipe may use "the GPU better"."""

IN_PARALLEL = re.compile(r"\b(?:d?dp|fsdp2?|distributed|data[ -]?parallel\w*|multi-?\w*|horovod)\b", re.IGNORECASE)
"""Words of training on several devices, where the other row was trained on one."""


NODES = re.compile(r"(?:num[ _]?|n[ _]?|#\s?)?nodes?", re.IGNORECASE)
PER_NODE = re.compile(r"(?:gpu|device|card|accelerator)s?[ _/]*(?:per|/|a)?[ _]*node", re.IGNORECASE)
"""Columns that count nodes, and the devices of one."""

SEVERAL_IN_ONE = re.compile(r"MI250|GB\d{3}|GH200 NVL|TPU v[23]\b|\b[HD]GX\b", re.IGNORECASE)
"""Parts that hold several devices, so that their number is none of devices."""


DEVICES = "the figures don't say how many devices each was trained on"
OF_ONE = "the speeds are those of one device"
OF_A_BATCH = "the samples of a step are those of one device's batch"

COMPARED = re.compile(r"\b(?:as|than|vs\.?|versus|over|on)\s+(\d{1,4})(?=\s*(?:[,;)]|\.(?!\d)|$))", re.IGNORECASE)
"""A number that another one is compared with, without the thing that is counted: `64 GPUs are as fast as 8`."""

BY_BATCHES = (TITLES["samples_per_second"], TITLES["tokens_per_second"], FULL_LENGTH)
"""Units of speeds that may follow from steps and the batch of a device."""


def counted_in(words: str) -> set[str]:
    """Return the numbers of devices that words tell."""
    found = {number for each in COUNTED.findall(words) for number in each if number}
    return found | {*TIMES_A_DEVICE.findall(words)}


def is_about_devices(claim: Claim, a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether a claim on two rows is about their devices: by its quantity, its text, or the names of the rows.

    The cost of all that a run did, and the speed of one device, count the number of devices themselves.
    """
    if claim.quantity and (claim.quantity in OF_PRICE or claim.quantity.endswith(OF_A_DEVICE)):
        return True
    if OF_DEVICES.search(claim.text) or counted_in(claim.text):
        return True
    if 1 in (a.devices.middle, b.devices.middle) and IN_PARALLEL.search(" ".join((claim.text, a.label, b.label))):
        return True
    return all(counted_in(run.label) or _says(run.label, run) for run in (a, b)) and a.label != b.label


def _says(label: str, run: ReportedRun) -> bool:
    """Return whether the name of a row holds the number of its devices: `dp8`, `16`."""
    return f"{run.devices.middle:g}" in re.findall(r"\d+", label)


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


def uncounted_devices(a: ReportedRun, b: ReportedRun, unit: str, text: str = "") -> str:
    """Return why speeds of two rows may not be those of all their devices; empty where nothing says so.

    `unit` is that of their comparison, and `text` that of a claim on them.
    """
    told_unlike = _told_unlike(a, b, text)
    if told_unlike and all(map(_of_one_device, (a, b))):
        return f"{OF_ONE}, and {DEVICES}"
    if unit not in BY_BATCHES or not all(map(_by_batch, (a, b))):
        return ""
    if told_unlike:
        return f"{OF_A_BATCH}, and {DEVICES}"
    many = [_samples_in_all(run) for run in (a, b)]
    if None in many or not all(many):
        return ""
    ratio = max(many) / min(many)
    power_of_two = round(ratio) > 1 and round(ratio) & (round(ratio) - 1) == 0  # as in real nodes
    if not power_of_two or abs(ratio / round(ratio) - 1) > FITS:
        return ""
    said = " and ".join(f"'{run.label}' trained on {shown(each)}" for run, each in zip((a, b), many, strict=True))
    return f"{OF_A_BATCH}, by which {said} in all, and {DEVICES}"


def _told_unlike(a: ReportedRun, b: ReportedRun, text: str) -> bool:
    """Return whether the names of two rows, or the `text` of a claim, tell unlike numbers of devices."""
    counts = [counted_in(words) for words in (a.label, b.label)]
    if not all(counts):
        of_text = counted_in(text)
        counts = [of_text, of_text | {*COMPARED.findall(text)}] if of_text else []
    return len(set().union(*counts)) > 1


def _of_one_device(run: ReportedRun) -> bool:
    each = [q.removesuffix(OF_A_DEVICE) for q in run.given if q.endswith(OF_A_DEVICE)]
    return bool(each) and "devices" not in run.given and run.given.keys().isdisjoint(each)


def _by_batch(run: ReportedRun) -> bool:
    """Return whether the samples of a run's steps are known by its batch alone, and nobody counts its devices."""
    own = solve({q: f for q, f in run.given.items() if q in TITLES}).known
    return (
        run.says_batch
        and "devices" not in run.given
        and own.keys().isdisjoint(("samples_per_step", "samples_per_second"))
    )


def _samples_in_all(run: ReportedRun) -> float | None:
    """Return how many samples the steps of a log make up; None for other rows."""
    steps, samples = run.rests_on.get("planned"), run.solved.known.get("samples_per_step")
    return steps * samples.middle if steps and samples and samples.bounded else None
