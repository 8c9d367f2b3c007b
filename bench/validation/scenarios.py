"""The scenarios as parameter files; what must come out of them stays here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slowstep.settings import Settings, load, override

TRUTH = ("expect", "admits", "follows", "cure")
"""Keys of scenarios.yaml that the kit never sees."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A parameter file and its truth. `factor` or `phase` must stand first in the index; both None: nothing wrong."""

    name: str
    data: dict[str, Any]
    factor: str | None
    phase: str | None
    follows: frozenset[str]
    cure: dict[str, Any]
    admits: tuple[str, str] | None = None
    """A phase that may stand first in the index of a healthy run, and the operator that must then be named. Its size
    must agree with what the cure brings."""

    def write(self, folder: Path) -> Path:
        """The parameter file, without a word of the truth."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(self.data, sort_keys=False), encoding="utf-8")
        return path

    def arms(self, folder: Path) -> tuple[Settings, Settings]:
        """The run as it is, and cured."""
        settings = load(self.write(folder)).settings
        return settings, override(settings, self.cure)


def scenarios() -> dict[str, list[Scenario]]:
    """`planted` and `healthy`, in the order of the file."""
    given = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    base = given.pop("base")
    return {kind: [_scenario(name, base, own) for name, own in cases.items()] for kind, cases in given.items()}


def _scenario(name: str, base: dict[str, Any], own: dict[str, Any]) -> Scenario:
    truth = {key: own[key] for key in TRUTH if key in own}
    expect = truth.get("expect")
    return Scenario(
        name=name,
        data={"name": name} | _merged(base, {k: v for k, v in own.items() if k not in TRUTH}),
        factor=expect if isinstance(expect, str) else None,
        phase=expect["unexplained"] if isinstance(expect, dict) else None,
        follows=frozenset(truth.get("follows", [])),
        cure=truth.get("cure", {}),
        admits=(admits["unexplained"], admits["by"]) if (admits := truth.get("admits")) else None,
    )


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    both = {k: _merged(base[k], own[k]) for k in base.keys() & own.keys() if isinstance(own[k], dict)}
    return base | own | both
