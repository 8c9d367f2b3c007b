"""Other differences of two rows than the factor of a claim, which may have made its gain."""

from __future__ import annotations

from collections.abc import Mapping

from slowstep.audit.device_words import is_about_devices
from slowstep.audit.differences import changed, differences
from slowstep.audit.equal_work import equal_work
from slowstep.audit.figures import Figure
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.run import ReportedRun, batches, same_devices, unknown_differences
from slowstep.factors import CATALOGUE
from slowstep.factors.factor import show_all
from slowstep.settings.reported import Claim

PARTS_OF_BATCH = {"per_device_train_batch_size", "auto_find_batch_size", "gradient_accumulation_steps"}
"""Settings that make up the samples of a step."""

OF_BATCHES = {
    *("per_device_train_batch_size", "gradient_accumulation_steps"),
    *("larger_micro_batches", "larger_batches", "processes"),
}
"""Factors that make up the samples of a step."""

AS_FIGURES = {"processes": "devices"}
"""Factors that a figure of another name says where no column is called as they are: each process has a device."""

OTHER_STEP = 0.1
"""The share by which the samples of two steps differ that are of another size, and not only rounded."""


def confounded(claim: Claim, a: ReportedRun, b: ReportedRun) -> list[Finding]:
    """Find that other settings differ than the claim's factor alone, so that the gain may be that of all of them."""
    differ, factor = changed(a.settings, b.settings), CATALOGUE.get(claim.factor or "")
    if not factor and not same_devices(a, b) and not is_about_devices(claim, a, b):
        text = f"{_trained_on(b)}, and {_trained_on(a)}{_a_device(claim, a, b)}: is the claim on their number?"
        return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    if factor and not same_devices(a, b) and not all(_counts_devices(claim.factor, run) for run in (a, b)):
        text = f"'{b.label}' was trained on {counted_devices(b)}, and '{a.label}' on {counted_devices(a)}"
        return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    if factor and claim.factor not in OF_BATCHES and not changed(a.settings, b.settings).keys() & PARTS_OF_BATCH:
        before, after = batches(a, b)
        if before and after and before.gap(after) > OTHER_STEP:
            text = f"a step of '{b.label}' trains on {after} samples, and one of '{a.label}' on {before}"
            return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    prices = [run.solved.known.get("price_per_hour") for run in (a, b)]
    if factor and claim.quantity == "cost" and None not in prices and not _same_prices(a, b, *prices):
        text = f"an hour of '{b.label}' costs {prices[1]}, and one of '{a.label}' {prices[0]}"
        return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    unknown = unknown_differences(a, b, claim.factor)
    if factor and unknown:
        also = "also differ" if differ else "differ"
        text = f"'{a.label}' and '{b.label}' {also} in {unknown}"
        return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    held = {in_column(claim.factor, run) for run in (a, b)}
    by_column = None not in held and len(held) > 1
    if not factor or (by_column and not differ) or _only_factor_differs(claim.factor, differ, a, b):
        return []
    names = show_all(differ)
    if by_column:
        text = f"'{b.label}' differs from '{a.label}' in more than {claim.factor}: {names}"
    elif None not in held and not differ:
        text = f"'{a.label}' and '{b.label}' have the same {claim.factor}"
    elif not differ:
        text = f"the report doesn't say which settings differ, so the gain can't be put down to {claim.factor}"
    elif factor.current(a.settings.run) == factor.current(b.settings.run) and {*differ} == {claim.factor}:
        text = f"'{a.label}' and '{b.label}' have the same {claim.factor}, given or by default"
    elif factor.current(a.settings.run) == factor.current(b.settings.run):
        text = f"'{b.label}' does not differ from '{a.label}' in {claim.factor}, but in {names}"
    elif len(differ) > 1:
        text = f"'{b.label}' differs from '{a.label}' in more than {claim.factor}: {names}"
    else:
        return []
    return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]


def beside_the_factor(claim: Claim, a: ReportedRun, b: ReportedRun) -> str:
    """Return in words what else differs in two rows of a claim that holds: devices, prices, columns; or nothing."""
    devices = "" if same_devices(a, b) else f", on {counted_devices(b)} and {a.devices}"
    also = unknown_differences(a, b, claim.factor)
    prices = [run.given.get("price_per_hour") for run in (a, b)]
    if claim.quantity == "cost" and None not in prices and not _same_prices(a, b, *prices):
        also = " and ".join(filter(None, (f"the price of an hour ({', '.join(map(str, prices))})", also)))
    return devices + (f"; the two also differ in {also}" if also else "")


def _same_prices(a: ReportedRun, b: ReportedRun, of_a: Figure, of_b: Figure) -> bool:
    """Return whether the prices of an hour are the same: of a device, or of nodes that have as many devices more."""
    return of_a.meets(of_b) or (of_a * b.devices).meets(of_b * a.devices)


def in_column(factor: str | None, run: ReportedRun) -> str | None:
    """Return what a column called as a factor says, also where it is read as a figure (`save_steps`); None for none."""
    given = run.given.get(factor or "")
    own = str(given) if given else run.unknown.get(factor or "")
    beside = run.given.get(AS_FIGURES.get(factor or "", ""))
    return str(beside) if own is None and beside else own


def _counts_devices(factor: str | None, run: ReportedRun) -> bool:
    """Return whether a factor is the number of a run's devices, as far as the two are given."""
    return factor in AS_FIGURES and in_column(factor, run) == str(run.devices)


def _a_device(claim: Claim, a: ReportedRun, b: ReportedRun) -> str:
    """Return in words how many times as fast one device of `b` is; empty where that does not follow."""
    gain, unit = equal_work(a, b, claim.quantity)
    if not gain or not unit or any("devices" not in run.solved.known for run in (a, b)):
        return ""
    return f"; by device it is {times((gain / (b.devices / a.devices)).middle)} as fast"


def _trained_on(run: ReportedRun) -> str:
    if "devices" not in run.solved.known:
        return f"nobody says on how many devices '{run.label}' was"
    return f"'{run.label}' was trained on {counted_devices(run)}"


def counted_devices(run: ReportedRun) -> str:
    """Return the number of a run's devices in words, and whether it only follows from its figures."""
    follows = run.devices.middle != 1 and "devices" not in run.given
    return f"{run.devices} device{'s' * (run.devices.middle != 1)}{' (by its figures)' * follows}"


def _only_factor_differs(factor: str, differ: Mapping[str, object], a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether all settings that differ belong to one level of the factor.

    An example is accumulation: the same samples a step in fewer and larger parts.
    """
    levels = differences(a.settings, b.settings)
    sets = {key.rpartition(".")[2] for _, level in levels for key in level.changes}
    return [f.name for f, _ in levels] == [factor] and differ.keys() <= sets
