"""The factors of the catalogue in which two runs differ."""

from __future__ import annotations

from slowstep.factors import CATALOGUE, Factor, Level
from slowstep.factors.factor import Meaning
from slowstep.settings import TRAINED, Settings
from slowstep.settings.convert import to_plain

DETAILS = {
    "bnb_4bit_quant_type": "weights",
    "bnb_4bit_use_double_quant": "weights",
    "bnb_4bit_compute_dtype": "weights",
    "batched_fetching": "tokenize",
    "torch_compile": "torch_compile_mode",
}
"""Factors that have no meaning of their own where another factor changes, with that other one."""

FOLLOWS = {"tf32": ("torch_compile", "training_arguments.tf32")}
"""Factors that another one switches where their own key is not set in either run (Trainer compiles with tf32)."""


def changed(a: Settings, b: Settings) -> dict[str, object]:
    """Return the settings that differ, by their own names, with the values of `b`; details of others are left out."""
    if a is b:
        return {}
    before, after = ({s: to_plain(getattr(x, s)) for s in TRAINED} for x in (a, b))
    found: dict[str, object] = {}
    for section, now in after.items():
        was = before[section]
        if not isinstance(now, dict) or not isinstance(was, dict):
            found |= {section: now if now is not None else "none"} if now != was else {}
            continue
        found |= {k: now.get(k) for k in (*was, *now) if now.get(k) != was.get(k)}
    return {k: v for k, v in found.items() if not any(k != other and k.startswith(other) for other in found)}


def differences(a: Settings, b: Settings) -> list[tuple[Factor, Level]]:
    """Return the levels that turn `a` into `b`, as far as the catalogue knows them.

    Details of another change are left out, such as the format of quantised weights that are no longer quantised.
    """
    found = []
    if a is b:
        return found
    for factor in CATALOGUE.values():
        value = factor.current(b.run)
        if factor.meaning is Meaning.DIAGNOSTIC or value == factor.current(a.run):
            continue
        if factor.wrong_with(value) is None and factor.refuses(value, a.run) is None:
            found.append((factor, factor.level(value, a.run)))
    names = {factor.name for factor, _ in found}
    left_out = {detail for detail, whole in DETAILS.items() if whole in names}
    left_out |= {
        factor
        for factor, (other, key) in FOLLOWS.items()
        if other in names and not any(_given(run, key) for run in (a, b))
    }
    if "gradient_accumulation_steps" in names:
        # at equal work: the same samples a step, in parts as large as the other run's
        left_out.add("per_device_train_batch_size")
        parts, rest = divmod(a.effective_batch_size, int(b.training("per_device_train_batch_size")))
        factor = CATALOGUE["gradient_accumulation_steps"]
        if not rest and parts != factor.current(a.run):
            found = [(f, factor.level(parts, a.run) if f is factor else level) for f, level in found]
    return [pick for pick in found if pick[0].name not in left_out]


def _given(run: Settings, key: str) -> bool:
    section, _, name = key.partition(".")
    return name in getattr(run, section)
