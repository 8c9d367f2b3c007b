"""The sections of an investigation that have something to answer."""

from __future__ import annotations

from slowstep.environment.machine import Machine, this_machine
from slowstep.factors import plan
from slowstep.settings import Settings
from slowstep.settings.sections import AUDIT, SECTIONS, Section


def sections_to_answer(settings: Settings, machine: Machine | None = None) -> list[Section]:
    """Return the sections that have something to answer for a parameter file, on this machine or a given one."""
    return [section for section in SECTIONS if _has_question(section, settings, machine or this_machine())]


def _has_question(section: Section, settings: Settings, machine: Machine) -> bool:
    if section is AUDIT:
        return settings.reported is not None
    if not section.name:
        return True
    return (section.searches_batch and settings.budget.find_batch) or bool(plan(settings, section.name, machine))
