"""Factors: the things that can be changed about a training run, and what each change means."""

from slowstep.factors.arms import (
    Arm,
    Contrast,
    check_levels,
    clash,
    combine,
    comparison_families,
    comparison_family,
    is_undoing,
    label,
    levels_to_try,
    limited_by,
    matrix,
    plan,
    plan_all,
    touched_by,
    without_refused,
)
from slowstep.factors.catalogue import CATALOGUE
from slowstep.factors.factor import ALL_PHASES, Binding, Factor, Level, Meaning

__all__ = [
    "ALL_PHASES",
    "CATALOGUE",
    "Arm",
    "Binding",
    "Contrast",
    "Factor",
    "Level",
    "Meaning",
    "check_levels",
    "clash",
    "combine",
    "comparison_families",
    "comparison_family",
    "is_undoing",
    "label",
    "levels_to_try",
    "limited_by",
    "matrix",
    "plan",
    "plan_all",
    "touched_by",
    "without_refused",
]
