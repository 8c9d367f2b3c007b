"""Checks of figures against the needs of the model and the peak of the device. Most need the model's sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.read.columns import MEMORY
from slowstep.audit.run import BESIDE, ReportedRun
from slowstep.audit.subjects import named_peak
from slowstep.judgement.devices import peak_of
from slowstep.judgement.flops import ALLOWANCE, TokenFlops, token_flops
from slowstep.text.numbers import percentage

BITS = {"float32": 32, "bfloat16": 16, "float16": 16}

CACHEABLE = 1e9
"""Bytes of weights below which a device's caches may keep some of them from one pass to the next."""

Sizes = Mapping[str, Any]
"""Sizes of the model as a trial would observe them: parameters that multiply or are trained, layers, hidden size."""

PADDED = 0.05
"""The share by which a sample may be longer than its `max_length`, as padding may fill it up to a round number."""

PAIR, SEVERAL = 2, 4
"""The most sequences of a sample, as a pair of a chosen and a rejected answer has, and of one whose words say more."""

ALIKE = 1.5
"""How many times as many tokens for its length a sample of one row may have as one of another row on the same data."""

OF_SEVERAL = re.compile(
    r"\b(?:[dko]po|ipo|orpo|simpo|rewards?|preferences?|pair\w*|siamese|(?:bi|dual|cross)-?encoders?|clip|contrastive|"
    r"triplets?|negatives?|retriev\w*|embedd\w*|m?t5|bart|seq2seq|encoder|multiple[ -]choice)\b",
    re.IGNORECASE,
)
"""Words of trainings whose samples are several sequences: pairs, triplets, answers to choose from."""

OF_MEMORY = re.compile(r"(?<![a-z])(?:mem(?:ory)?|vram)(?![a-z])", re.IGNORECASE)
OF_A_HOST = re.compile(r"cpu|host|system|(?<![a-z])ram|total|sum|all|free|left|saved", re.IGNORECASE)
"""Headers of memory, and words by which it is not that of one device."""

DECIMAL = 2**30 / 1e9
"""A device of 80 GiB holds 86 GB, as scripts print that divide bytes by 1e9; a report seldom says which it means."""


def per_token(run: ReportedRun, sizes: Sizes | None) -> TokenFlops | None:
    """Return the FLOPs a token of the run's model at its full length; None if sizes or length are not known."""
    if not sizes or not run.length:
        return None
    s = run.settings
    observed = {"lora_r": (s.peft or {}).get("r", 8) if s.peft else None}
    return token_flops(
        observed | {"gradient_checkpointing": bool(s.training("gradient_checkpointing"))} | sizes, run.length
    )


def mfu(run: ReportedRun, sizes: Sizes | None, device: str | None) -> Figure | None:
    """Return the model FLOPs utilisation as a share, by the given tokens, or as if every sample had its full length."""
    rate, flops, peak = run.tokens_at_full_length, per_token(run, sizes), peak_of(device)
    return rate * (flops.needed / (peak.tflops * 1e12)) / run.devices if rate and flops and peak else None


def beyond_the_device(run: ReportedRun, sizes: Sizes | None, device: str | None) -> list[Finding]:
    """Find more than the device can compute, read or hold: the figures, the device or the model are wrong."""
    return [
        *_beyond_compute(run, sizes, device),
        *_beyond_bandwidth(run, sizes, device),
        *_beyond_memory(run, sizes, device),
    ]


def beyond_the_batch(run: ReportedRun, runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find more tokens in a step than its samples can have, where all that makes up a step is given.

    None are found where all `runs` have as many more, as if each sample were several sequences.
    """
    too_many, _, sequences = _more_than_the_batch(run)
    if not too_many or (sequences and _are_alike(runs)) or not _knows_its_parts(run):
        return []
    text = f"{too_many}: the speed, the batch or the length is not what is given"
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text)]


def batches_that_hold(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about devices and accumulation where a step has more tokens than the samples of one batch can have.

    Where these are known, a sample may be several sequences.
    """
    asked = [(run, *_more_than_the_batch(run)) for run in runs if not run.projected]
    return [
        f"Has a sample of '{run.label}' {sequences} sequences, as a pair of answers has? {too_many}"
        if _knows_its_parts(run)
        else f"Was '{run.label}' trained on {times_as_many} devices, or were batches accumulated? {too_many}"
        for run, too_many, times_as_many, sequences in asked
        if too_many and (not _knows_its_parts(run) or (sequences and _are_alike(runs)))
    ]


def _knows_its_parts(run: ReportedRun) -> bool:
    """Return whether the samples of a step are given, or its accumulation and devices."""
    each = "micro_batches_per_step" in run.solved.known and "devices" in run.given
    return each or "samples_per_step" in run.given


def _are_alike(runs: Sequence[ReportedRun]) -> bool:
    """Return whether the samples of all rows of known parts have about as many tokens for their length."""
    each = [held.middle for run in runs if run.measured and _knows_its_parts(run) and (held := _tokens_held(run))]
    return not each or max(each) <= ALIKE * min(each)


def _tokens_held(run: ReportedRun) -> Figure | None:
    """Return the tokens of a step by those that its samples can have; None where that is not known.

    Tokens of a sample that were counted may be those of the text before it was cut.
    """
    known, length = run.solved.known, run.length
    packed = run.settings.effective_batch_size * run.copies if run.says_batch and run.copies else None
    tokens, samples = known.get("tokens_per_step"), packed if run.packed else known.get("samples_per_step")
    if not length or not tokens or not samples or "tokens_per_sample" in run.given or samples.low <= 0:
        return None
    return tokens / (samples * length)


def _more_than_the_batch(run: ReportedRun) -> tuple[str, str, int]:
    """Return in words that a step has more tokens than its samples can have, and how many batches would hold them.

    The third is the number of sequences a sample that would hold them; 0 if those are more than samples have. All are
    empty where a step has no more, or where that is not known.
    """
    held = _tokens_held(run)
    if not held or held.low <= 1 + PADDED:
        return "", "", 0
    tokens, length = run.solved.known["tokens_per_step"], run.length
    samples = tokens / held / length
    batches, whole = f"{held.middle:.0f}", abs(held.middle / round(held.middle) - 1) < PADDED
    text = f"{tokens} tokens a step are more than {samples} samples of at most {length} tokens have"
    sequences = 0 if run.packed else math.ceil(held.low / (1 + PADDED))
    most = SEVERAL if any(map(OF_SEVERAL.search, (run.label, *run.unknown.values(), *run.remarks))) else PAIR
    return text, batches if whole and batches != "1" else "several", sequences if sequences <= most else 0


def weight_bytes(run: ReportedRun, sizes: Sizes) -> float:
    """Return the bytes of the stored weights that multiply, without the constants of quantisation."""
    quantised = run.settings.quantization or {}
    bits = (
        4 if quantised.get("load_in_4bit") else 8 if quantised.get("load_in_8bit") else BITS[run.settings.model.dtype]
    )
    return sizes["matmul_parameters"] * bits / 8


def _beyond_bandwidth(run: ReportedRun, sizes: Sizes | None, device: str | None) -> list[Finding]:
    """Find a step that is too short to read the weights.

    Each micro-batch reads them in the forward pass, in the backward pass, and once more to recompute; at most 16 bit of
    each weight count.
    """
    peak, step = peak_of(device), run.solved.known.get("seconds_per_step")
    if not sizes or not peak or not step or run.devices.high > 1:
        return []
    passes = 3 if run.settings.training("gradient_checkpointing") else 2
    size = min(weight_bytes(run, sizes), sizes["matmul_parameters"] * 2)
    micro_batches = run.solved.known.get("micro_batches_per_step", exact(1)).low
    least = size * passes * micro_batches / (peak.bandwidth * 1e9)
    if size < CACHEABLE or step.high >= least:
        return []
    text = (
        f"a step of {step} s is shorter than the {least:.2g} s in which {device} can read the {size / 1e9:.3g} GB of "
        f"weights {passes * micro_batches:.0f} times: the speed, the device or the model is not what is given"
    )
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text)]


def _beyond_memory(run: ReportedRun, sizes: Sizes | None, device: str | None) -> list[Finding]:
    """Find more memory than the device has, or less than the weights alone take where one device holds them all."""
    peak, found = peak_of(device), []
    alone = run.devices.high <= 1 and not run.elsewhere
    for name in (n for n in ("memory_allocated_gib", "memory_reserved_gib", "memory_used_gib") if n in run.given):
        used, what = run.given[name], BESIDE[name]
        if peak and peak.memory and used.low > peak.memory * DECIMAL * max(1.0, run.devices.high):
            found.append(f"{used} {what} are more than the {peak.memory:g} GB that {device} has")
        elif sizes and alone and used.high * 2**30 < weight_bytes(run, sizes):
            found.append(
                f"{used} {what} are less than the {weight_bytes(run, sizes) / 2**30:.3g} GiB of the weights alone"
            )
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text) for text in found]


def of_all_devices(runs: Sequence[ReportedRun], device: str | None) -> list[str]:
    """Ask about memory that is more than one device has, unless it is known that all of a row's devices have less.

    The device may be named by a row. Memory that a column says in no way that is read counts, too.
    """
    found = []
    for run in runs:
        given = {f"{f} {BESIDE[q]}": f.low for q, f in run.given.items() if q.startswith("memory_")}
        unread = {f"{v:g} of '{name}'": v * _gib(name) for name, v in run.beside.items() if not device}
        name, memory = named_peak(run, device, "memory")
        told = "devices" in run.given or device
        for what, used in (given | unread).items() if memory else ():
            if memory * DECIMAL < used and (used <= memory * DECIMAL * run.devices.high or not told):
                whose = f"all its {run.devices} devices" if told else "several devices, or of the host"
                found.append(f"Are the {what} of '{run.label}' those of {whose}? One {name} has {memory:g} GB")
    return found


def _gib(header: str) -> float:
    """Return the size in GiB of the unit of a column of a device's memory; 0 for another one."""
    unit = MEMORY.get((re.findall(r"[(\[](\w+)[)\]]$", header.lower()) or [""])[0], 0.0)
    return unit if OF_MEMORY.search(header) and not OF_A_HOST.search(header) else 0.0


def _beyond_compute(run: ReportedRun, sizes: Sizes | None, device: str | None) -> list[Finding]:
    used = mfu(run, sizes, device)
    if used is None or used.low <= 1 or _may_be_shorter(run):
        return []
    several = "" if "devices" in run.given else f", unless it was trained on {math.ceil(used.low)} devices or more"
    text = (
        f"at {run.tokens_at_full_length} tokens/s the model would need {percentage(used.middle)} of what {device} can "
        f"compute: the speed, the device or the model is not what is given{several}"
    )
    return [Finding(kind=FindingKind.PHYSICS, where=run.label, text=text)]


def unknown(sizes: Sizes | None) -> list[str]:
    """Ask for the model where its sizes were looked for and not found, so that nothing was compared with it."""
    if sizes is None or sizes:
        return []
    return [
        "Which model is it? It could not be loaded here (model.name_or_path, or init: random with a model_type), so no "
        "figure was compared with what it needs"
    ]


def lengths(runs: Sequence[ReportedRun], sizes: Sizes | None, device: str | None) -> list[str]:
    """Ask about measured rows whose speed no device could reach if all their samples had the full length."""
    found = []
    for run in (r for r in runs if not r.projected):
        used = mfu(run, sizes, device)
        if used and used.low > 1 and _may_be_shorter(run):
            found.append(
                f"How many tokens has a sample of '{run.label}'? With {run.length} each the model would need "
                f"{percentage(used.middle)} of what {device} can compute: most are shorter, or the speed, the device "
                "or the model is not what is given"
            )
    return found


def _may_be_shorter(run: ReportedRun) -> bool:
    """Return whether samples may be shorter than the full length, as their tokens were not counted."""
    return "tokens_per_second" not in run.solved.known and run.settings.dataset.padding == "longest"


def most_of_length(a: ReportedRun, b: ReportedRun, sizes: Sizes | None) -> tuple[float, str] | None:
    """Return the most that a shorter length can bring per token, as a ratio, and why; None if not known.

    Only attention's quadratic part shrinks.
    """
    long, short = per_token(a, sizes), per_token(b, sizes)
    if long is None or short is None or b.length >= a.length:
        return None
    share = min(ALLOWANCE * long.attention_share, 0.9)
    bound = 1 / (1 - share * (1 - b.length / a.length))
    return (
        bound,
        f"attention's quadratic part is {percentage(long.attention_share)} of the work at length {a.length:g}, so per "
        f"token {b.length:g} brings {times(bound)} at the very most (with {ALLOWANCE:g} times that share allowed for "
        "its time); the rest is that a sample is shorter, and not that length is slow",
    )
