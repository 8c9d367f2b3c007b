"""ZeRO's part of a DeepSpeed configuration is changed wherever it comes from, and nothing of the user's is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slowstep.environment.machine import this_machine
from slowstep.factors import CATALOGUE, in_code
from slowstep.settings.run import Origin, Run, Value
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.changing.zero import Zero, zero_facts
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

GIVEN = {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}


@pytest.fixture
def initialize(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Calls `deepspeed.initialize` with changes, and returns the configuration that it acts on and what was noted."""

    def original(
        args: Any = None, model: Any = None, optimizer: Any = None, config: Any = None, config_params: Any = None
    ) -> Any:
        """As DeepSpeed 0.19 takes its configuration."""
        config = config_params if config is None and config_params is not None else config
        file = getattr(args, "deepspeed_config", None)
        assert file is None or config is None, "Not sure how to proceed, we were given deepspeed configs twice"
        return json.loads(Path(file or config).read_text()) if isinstance(file or config, str) else config

    module = ModuleType("deepspeed")
    module.initialize = original
    monkeypatch.setitem(sys.modules, "deepspeed", module)
    patches = Patches()

    def call(changes: dict[str, Any], **given: Any) -> tuple[Any, Wanted]:
        wanted = Wanted(changes)
        Zero(wanted).attach(patches, LateImports())
        return module.initialize(**given), wanted

    yield call
    patches.remove()
    assert module.initialize is original


@pytest.mark.parametrize("way", ["mapping", "config_params", "file", "option", "nothing of it"])
def test_every_way_of_a_configuration_is_changed_in_a_copy(
    way: str, initialize: Callable[..., Any], tmp_path: Path
) -> None:
    """A mapping, a file, and a file that the command names."""
    known = {"train_batch_size": 8} if way == "nothing of it" else GIVEN
    path = tmp_path / "zero2.json"
    path.write_text(text := json.dumps(known))
    options = argparse.Namespace(local_rank=0, deepspeed_config=str(path))
    given = {
        "mapping": {"config": known},
        "config_params": {"config_params": known},
        "file": {"config": str(path)},
        "option": {"args": options},
        "nothing of it": {"config": known},
    }[way]

    acted, wanted = initialize({"zero_optimization.stage": 1, "zero_optimization.offload_optimizer": "none"}, **given)

    assert acted == {"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "none"}}}
    assert json.dumps(known) == path.read_text() == text
    assert options.deepspeed_config == str(path)
    before = {made.key: made.before for made in wanted.made}
    moved = {} if way == "nothing of it" else {"zero_optimization.offload_optimizer": "cpu"}
    assert before == {"zero_optimization.stage": None if way == "nothing of it" else 2} | moved
    assert all(("zero2.json" in made.name) == (way in ("file", "option")) for made in wanted.made)


@pytest.mark.parametrize("known", ["no such file.json", {"zero_optimization": True}, None])
def test_what_can_not_be_read_is_left_alone(known: Any, initialize: Callable[..., Any]) -> None:
    """The program goes on as it is; the change is then not seen in effect."""
    if isinstance(known, str):
        with pytest.raises(FileNotFoundError):
            initialize({"zero_optimization.stage": 1}, config=known)
    else:
        acted, wanted = initialize({"zero_optimization.stage": 1}, config=known)
        assert acted == known
        assert not wanted.made


class DeepSpeedEngine:
    """An engine as far as it says what is in effect."""

    def zero_optimization_stage(self) -> int:
        return 2

    def zero_overlap_comm(self) -> bool:
        return False


def test_values_in_effect_come_from_the_engine() -> None:
    """An engine of another version may not tell all of them."""
    assert zero_facts([object()]) == {}
    assert zero_facts([DeepSpeedEngine()]) == {
        "zero_optimization.stage": 2,
        "zero_optimization.overlap_comm": False,
        "zero_optimization.offload_optimizer": "none",
    }


@pytest.mark.parametrize(
    ("seen", "proposed"),
    [
        ({"stage": 2, "overlap_comm": False}, {"zero_stage": [1], "zero_overlap_comm": [True]}),
        ({"stage": 3, "overlap_comm": True}, {"zero_stage": [2], "zero_overlap_comm": [False]}),
        ({"stage": 1, "reduce_bucket_size": 10_000}, {"zero_stage": [], "zero_reduce_bucket_size": [500_000_000]}),
        ({"stage": 2, "offload_optimizer": "cpu"}, {"zero_offload_optimizer": ["none"]}),
        ({"stage": 2, "offload_optimizer": "none"}, {"zero_offload_optimizer": [], "zero_prefetch_bucket_size": []}),
    ],
)
def test_what_could_cost_time_is_proposed(seen: dict[str, Any], proposed: dict[str, list[Any]]) -> None:
    """Less is spread, small pieces become larger, and what was moved to the host comes back."""
    values = {f"zero_optimization.{k}": Value(value=v, origin=Origin.OBSERVED) for k, v in seen.items()}
    run = Run(values=values, objects=frozenset({"DeepSpeed"}))

    assert {name: CATALOGUE[name].proposals(run, this_machine()) for name in proposed} == proposed


def test_a_run_without_an_engine_has_no_levels_of_zero() -> None:
    """They are not testable there, with the reason."""
    factor = CATALOGUE["zero_stage"]

    assert "DeepSpeed" in factor.requires(1, Run(values={}, objects=frozenset({"DDP"})), this_machine())


def test_a_change_of_a_file_is_told_with_its_value(tmp_path: Path, initialize: Callable[..., Any]) -> None:
    """A reader is told the file, the key and the new value, and not only that something was changed."""
    path = tmp_path / "zero2.json"
    path.write_text(json.dumps(GIVEN))
    _, wanted = initialize({"zero_optimization.stage": 1}, config=str(path))
    (made,) = [asdict(one) for one in wanted.made]

    assert in_code.call(made) == ("", "zero2.json: zero_optimization.stage=1")
