"""Checks of reported MFU and HFU against each other, against throughput, and against the device's peak.

MFU counts the FLOPs that the model needs. HFU also counts those of recomputation (PaLM, arXiv 2204.02311, appendix B).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slowstep.audit.differences import changed
from slowstep.audit.figures import Figure, exact, shown
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.physics import Sizes, per_token
from slowstep.audit.run import ReportedRun
from slowstep.audit.subjects import named_peak, other_subject
from slowstep.judgement.devices import peak_of

RECOMPUTED = 3 / 2
"""The most that HFU over MFU can be. A frozen base needs 4 N FLOPs a token, and 6 N if its forward pass is computed
again. If all weights are trained the ratio is less: 8 N over 6 N."""

SPARE = 0.1
"""The share by which a utilisation may lie beyond every known way to count FLOPs, since people count differently."""

FEW_BITS = re.compile(r"(?:fp|float|int|mxfp|nvfp)[ _-]?[48](?!\d)|\be[45]m[23]|sparse", re.IGNORECASE)
"""Words of arithmetic that is faster than that of the peak."""

OFF = 0.05
"""The share by which an MFU may differ from that of its FLOPs a second, as peaks are rounded."""

LEAST = 0.7
"""The least that MFU over HFU can be, with some room: 6 N over 8 N."""

OTHER_PEAKS = (0.25, 0.5, 2.0, 4.0)
"""What the peaks of other arithmetic are of that of dense bf16: of tf32, and of fewer bits or sparse weights."""

APART = 1.25
"""The ratio by which the MFU a token of two rows may differ without a question."""


def impossible_utilisation(run: ReportedRun) -> list[Finding]:
    """Find utilisation beyond the device's peak, and model FLOPs beyond all FLOPs."""
    mfu, hfu = run.given.get("mfu"), run.given.get("hfu")
    texts = [
        f"{name} of {value} % is more than the device can compute: it, the FLOPs or the peak is not what is given"
        for name, value in (("an MFU", mfu), ("an HFU", hfu))
        if value and value.low > 100
    ]
    busy, devices = run.given.get("utilisation"), run.given.get("devices")
    if busy and devices and busy.low > 100 * devices.high:
        texts.append(f"{devices} device{'s' * (devices.middle != 1)} can't be busy for {busy} % of the time")
    if mfu and hfu and hfu.high < mfu.low:
        texts.append(
            f"an HFU of {hfu} % is less than the MFU of {mfu} %, and it counts all that MFU counts, and recomputation"
        )
    if mfu and hfu and mfu.bounded and (hfu / mfu).low > RECOMPUTED * (1 + SPARE):
        texts.append(
            f"an HFU of {hfu} % is {times((hfu / mfu).middle)} the MFU of {mfu} %, and computing the forward pass "
            f"again makes it {RECOMPUTED:g} times at most"
        )
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text) for text in texts]


def beyond_peak(run: ReportedRun, device: str | None) -> list[Finding]:
    """Find FLOPs a second beyond the device's peak, unless the row may have computed in fewer bits than the peak's."""
    said, (name, tflops) = run.given.get("tflops_per_device"), _named_peak(run, device)
    if not said or not tflops or said.low <= tflops:
        return []
    text = (
        f"{said} TFLOP/s a device is more than the {shown(tflops)} that a {name} can do: they, the device or "
        "its number is not what is given"
    )
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text)]


def unlike_peaks(runs: Sequence[ReportedRun], device: str | None) -> list[Finding]:
    """Find rows whose MFU is not that of their FLOPs a second and the peak of their device.

    FLOPs that count recomputation are up to 4/3 of those of the MFU, and a peak may be that of sparse or other numbers.
    """
    found = []
    for run, mfu, follows, peak in _by_peaks(runs, device):
        ratio = mfu / follows
        if ratio.gap(exact(1)) > OFF and (ratio.high < LEAST or ratio.low > 1) and not _is_other_peak(ratio):
            text = f"its FLOPs a second are {follows} % of {peak}, and its MFU is given as {mfu} %"
            found.append(Finding(kind=FindingKind.ARITHMETIC, where=run.label, text=text))
    return found


def recomputed_flops(runs: Sequence[ReportedRun], device: str | None) -> list[str]:
    """Ask whether FLOPs a second count recomputation, where they are more than those of the MFU."""
    return [
        f"Do the FLOPs a second of '{run.label}' count recomputation? They are {follows} % of {peak}, and its MFU is "
        f"given as {mfu} %"
        for run, mfu, follows, peak in _by_peaks(runs, device)
        if (mfu / follows).gap(exact(1)) > OFF
        and LEAST <= (mfu / follows).high < 1
        and not _is_other_peak(mfu / follows)
    ]


def _by_peaks(runs: Sequence[ReportedRun], device: str | None) -> Iterator[tuple[ReportedRun, Figure, Figure, str]]:
    """Yield rows with their MFU, what their FLOPs a second are in percent of the peak, and that peak in words."""
    for run in runs:
        flops, mfu, (name, tflops) = *(run.given.get(q) for q in ("tflops_per_device", "mfu")), _named_peak(run, device)
        if flops and mfu and tflops and flops.bounded and mfu.bounded:
            yield run, mfu, flops * (100 / tflops), f"the {shown(tflops)} TFLOP/s that a {name} can do"


def _is_other_peak(ratio: Figure) -> bool:
    return any(ratio.gap(exact(other)) <= OFF for other in OTHER_PEAKS)


def _named_peak(run: ReportedRun, device: str | None) -> tuple[str, float]:
    """Return the device of a row and its peak: the report's, or the one that its words name; 0 if that is not clear.

    Words of arithmetic in fewer bits leave it open. So does a name that several devices share whose peaks differ.
    """
    few_bits = any(map(FEW_BITS.search, (run.label, *run.unknown.values(), *run.remarks)))
    return ("", 0.0) if few_bits else named_peak(run, device, "tflops")


def unlike_flops(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows whose ratio of FLOPs a second to MFU, or to the tokens of a device, differs from the first row's.

    One device has one peak, and one model needs as many FLOPs for each token of a length.
    """
    used = [r for r in runs if (said := r.given.get("tflops_per_device")) and said.bounded]
    for quantity, unit in (("mfu", "MFU"), ("tokens_per_second_per_device", "tokens a second")):
        each = [(r, r.given["tflops_per_device"], r.given[quantity]) for r in used if quantity in r.given]
        alike = each[:1] + [one for one in each[1:] if not other_subject(one[0], [each[0][0]])]
        if asked := _unlike(alike, "FLOPs", unit):
            return asked
    return []


def _unlike(each: Sequence[tuple[ReportedRun, Figure, Figure]], rate: str, other: str) -> list[str]:
    """Ask about the first row of the same work whose two figures are not as many times those of the first of all."""
    for run, *figures in each[1:]:
        first, *before = each[0]
        more, times_other = (now / then for now, then in zip(figures, before, strict=True))
        same = not {"max_length", "model_type", "name_or_path"} & changed(first.settings, run.settings).keys()
        if same and more.bounded and times_other.bounded and more.gap(times_other) > APART - 1:
            return [
                f"'{run.label}' has {times(more.middle)} the {rate} a second of '{first.label}' on each device, and "
                f"{times(times_other.middle)} its {other}: were they of another model, length or device?"
            ]
    return []


def against_throughput(run: ReportedRun, sizes: Sizes | None, device: str | None) -> list[Finding]:
    """Find a reported MFU or HFU that does not follow from tokens a second, the model's FLOPs and the device's peak."""
    flops, peak, rate = per_token(run, sizes), peak_of(device), run.tokens_at_full_length
    if not flops or not peak or not rate or not rate.bounded:
        return []
    whole = 6.0 * sizes["matmul_parameters"]  # some people count this even where most weights are frozen
    least, most = flops.weights + flops.adapter, max(flops.needed, whole + flops.attention)
    counted = "tokens_per_second" in run.solved.known
    found = []
    for name, again in (("mfu", 0.0), ("hfu", flops.recomputation)):
        said = run.given.get(name)
        if said is None or said.low > 100:
            continue
        of_peak = 100 / (peak.tflops * 1e12)
        follows = rate * ((flops.needed + again) * of_peak) / run.devices
        low, high = ((rate * ((f + again) * of_peak) / run.devices) for f in (least, most))
        allowed = Figure(low.low * (1 - SPARE) if counted else 0.0, high.high * (1 + SPARE), follows.middle)
        if not said.meets(allowed):
            at = "as if each sample were as long as it may be, " if not counted else ""
            found.append(
                f"{name.upper()} is given as {said} %, and follows as {follows} % from {rate} tokens/s ({at}on "
                f"{shown(run.devices.middle)} × {device}): {times((said / follows).middle)} what it should be, if the "
                "model, the device and its number are as given"
            )
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text) for text in found]


def unlike_speeds(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows whose ratio of MFU to speed differs from the first row's.

    The speed is that of tokens, or of samples where no row says the tokens.
    """
    used = [r for r in runs if "mfu" in r.given and r.given["mfu"].bounded]
    rates = [(r, r.tokens_at_full_length) for r in used]
    unit = "tokens"
    if not any(rate for _, rate in rates):
        rates, unit = [(r, r.solved.known.get("samples_per_second")) for r in used], "samples"
    each = [(r, rate / r.devices, r.given["mfu"]) for r, rate in rates if rate and rate.bounded]
    return _unlike(each, unit, "MFU")
