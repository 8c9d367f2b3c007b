"""Words that count devices, or speak of their number: in the names of rows and in the text of a claim."""

from __future__ import annotations

import re

from slowstep.audit.equal_work import OF_A_DEVICE, OF_PRICE
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
