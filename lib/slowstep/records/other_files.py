"""Comparisons of other files: the program, or what it reads, was edited after they were measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slowstep.records.schema import Environment
from slowstep.records.store import Store
from slowstep.settings.convert import from_plain


@dataclass(frozen=True, kw_only=True)
class OfOtherFiles:
    """The comparisons of one machine that don't count, since files of it have changed."""

    count: int = 0
    of: int = 0
    """All comparisons of that machine, those that count among them."""
    files: tuple[str, ...] = ()
    """The names of the files that are not as they were."""


def of_other_files(store: Store, now: Environment) -> OfOtherFiles:
    """Return the comparisons that were measured in an environment as it is `now`, but for files of it that changed.

    A file that only one of both has is none of these, since other settings name other files.
    """
    here = replace(now, files=[]).determinants
    measured = filter(None, map(_environment, store.every(dict, "comparisons")))
    alike = [one for one in measured if replace(one, files=[]).determinants == here]
    names = [_names({*one.files} - {*now.files}) & _names({*now.files} - {*one.files}) for one in alike]
    changed = [found for found in names if found]
    return OfOtherFiles(count=len(changed), of=len(alike), files=tuple(sorted(set().union(*changed))))


def _names(files: Iterable[str]) -> set[str]:
    """Return the names of files, which stand before their size and their time of change."""
    return {text.rsplit(" ", 2)[0] for text in files}


def _environment(comparison: dict[str, object]) -> Environment | None:
    """Return where a comparison was measured, of whose record nothing else is read; None if that can't be read."""
    try:
        return from_plain(Environment, comparison.get("environment"))
    except ValueError:
        return None
