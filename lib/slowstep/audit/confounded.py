"""Other differences of two rows than the factor of a claim, which may have made its gain."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
    text = _other_conditions(claim, a, b, differ)
    if factor and not text:
        text = _other_settings(claim.factor, a, b, differ)
    return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)] if text else []


def _other_conditions(claim: Claim, a: ReportedRun, b: ReportedRun, differ: Collection[str]) -> str:
    """Return in what the rows differ beside their settings: devices, samples of a step, prices, columns; or nothing."""
    if claim.factor not in CATALOGUE:
        if same_devices(a, b) or is_about_devices(claim, a, b):
            return ""
        return f"{_trained_on(b)}, and {_trained_on(a)}{_a_device(claim, a, b)}: is the claim on their number?"
    if not same_devices(a, b) and not all(_counts_devices(claim.factor, run) for run in (a, b)):
        return f"'{b.label}' was trained on {counted_devices(b)}, and '{a.label}' on {counted_devices(a)}"
    before, after = batches(a, b)
    may_differ = claim.factor in OF_BATCHES or {*differ} & PARTS_OF_BATCH
    if before and after and not may_differ and before.gap(after) > OTHER_STEP:
        return f"a step of '{b.label}' trains on {after} samples, and one of '{a.label}' on {before}"
    prices = [run.solved.known.get("price_per_hour") for run in (a, b)]
    if claim.quantity == "cost" and None not in prices and not _same_prices(a, b, *prices):
        return f"an hour of '{b.label}' costs {prices[1]}, and one of '{a.label}' {prices[0]}"
    unknown = unknown_differences(a, b, claim.factor)
    return f"'{a.label}' and '{b.label}' {'also ' * bool(differ)}differ in {unknown}" if unknown else ""


def _other_settings(name: str, a: ReportedRun, b: ReportedRun, differ: Mapping[str, object]) -> str:
    """Return how the settings that `differ` are others than the factor of this name alone; or nothing."""
    held = {in_column(name, run) for run in (a, b)}
    by_column = None not in held and len(held) > 1
    if (by_column and not differ) or _only_factor_differs(name, differ, a, b):
        return ""
    values, names = [CATALOGUE[name].current(run.settings.run) for run in (a, b)], show_all(differ)
    if not differ and None not in held:
        return f"'{a.label}' and '{b.label}' have the same {name}"
    if not differ:
        return f"the report doesn't say which settings differ, so the gain can't be put down to {name}"
    if values[0] == values[1] and not by_column:
        if {*differ} == {name}:
            return f"'{a.label}' and '{b.label}' have the same {name}, given or by default"
        return f"'{b.label}' does not differ from '{a.label}' in {name}, but in {names}"
    more = by_column or len(differ) > 1
    return f"'{b.label}' differs from '{a.label}' in more than {name}: {names}" if more else ""


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
