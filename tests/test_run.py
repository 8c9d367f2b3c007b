"""A run: canonical keys with values and origins, and what factors propose for it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from simulated import CPU, GPU
from slowstep.factors import CATALOGUE, Binding, Meaning, levels_to_try, plan
from slowstep.settings import LEVEL_SECTIONS, Settings, load, override
from slowstep.settings.run import Origin

ROOT = Path(__file__).resolve().parents[1]


def test_every_value_says_where_it_comes_from() -> None:
    """From the file with its line, from the command line, or by default."""
    run = load(ROOT / "params" / "quick.yaml", ["training_arguments.learning_rate=1e-3"]).run

    given, overridden, default = (run.value(k) for k in ("optim", "learning_rate", "dataloader_num_workers"))
    assert (Origin.FILE, "adamw_torch") == (given.origin, given.value)
    assert given.place.startswith(str(ROOT / "params" / "quick.yaml")) or "quick.yaml:" in given.place
    assert (Origin.COMMAND_LINE, 1e-3) == (overridden.origin, overridden.value)
    assert (Origin.DEFAULT, 0) == (default.origin, default.value)


def test_a_key_that_does_not_exist_is_an_error(quick: Settings) -> None:
    """A factor that asks for a mistyped key is found by the first test that runs it."""
    with pytest.raises(KeyError):
        quick.run["dataloader_num_worker"]


def test_a_run_can_be_sent(quick: Settings) -> None:
    """Settings go to a trial's process, with whatever was asked of them before."""
    assert quick.run["optim"] == pickle.loads(pickle.dumps(quick)).run["optim"]


@pytest.mark.parametrize("machine", [CPU, GPU])
def test_proposed_levels_can_be_tried(quick: Settings, machine: object) -> None:
    """With `levels: auto` and nothing listed, what every section proposes can be had there and trains the same."""
    settings = override(quick, {section: {} for section in LEVEL_SECTIONS} | {"levels": "auto"})
    contrasts = [c for section in LEVEL_SECTIONS for c in plan(settings, section, machine)]

    assert len(contrasts) > 8
    assert [] == [c.name for c in contrasts if c.untestable]
    assert [] == [c.name for c in contrasts if c.meaning is Meaning.SEMANTICS]


def test_proposals_leave_alone_what_is_listed(quick: Settings) -> None:
    """A section that lists levels tries those; without `levels: auto` nothing is proposed."""
    auto = override(quick, {"compute": {}, "levels": "auto"})

    assert quick.data_loading == {f.name: values for f, values in levels_to_try(auto, "data_loading", CPU)}
    assert levels_to_try(auto, "compute", CPU)
    assert [] == levels_to_try(override(quick, {"compute": {}}), "compute", CPU)


def test_every_level_says_where_it_binds(quick: Settings) -> None:
    """A script is changed where its objects are made: each level knows which ones."""
    bindings = {name: f.level(f.examples[0], quick.run).binds for name, f in CATALOGUE.items()}

    assert [] == [name for name, binds in bindings.items() if not binds]
    assert {Binding.TORCH} == bindings["sdpa_backend"]
    assert {Binding.OPTIMIZER} == bindings["foreach"]
