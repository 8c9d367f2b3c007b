"""Every level that the catalogue gives as an example, really launched: it takes effect, or says why it can't here."""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.factors_page import markdown
from slowstep.environment.machine import this_machine
from slowstep.factors import CATALOGUE, Arm, Contrast, Factor, Level, clash, combine
from slowstep.factors.catalogue import BY_SECTION
from slowstep.factors.factor import show
from slowstep.launch.trial_process import TrialEnded
from slowstep.measure.local import LocalMeasurer
from slowstep.records import identity
from slowstep.settings import Settings, load, override
from slowstep.settings.sections import TESTED, Section

ROOT = Path(__file__).resolve().parents[1]
OFTEN = {
    *("cached_batches=50", "dataloader_num_workers=2", "padding=packing", "tokenize=once", "storage=local_copy"),
    *("gradient_checkpointing=false", "every_n_layers=2", "gradient_accumulation_steps=2", "max_length=32"),
    *("precision=bf16", "optim=adamw_bnb_8bit", "foreach=true", "fused=true", "lora_r=4", "attn_implementation=eager"),
    *("sdpa_backend=math", "save_steps=50", "report_to=tensorboard", "freed_memory=returned"),
}
"""One level of each shape, of each binding, and of each place that facts are read from; the others are launched by
`make test-all`."""


def example(factor: Factor, value: Any) -> Any:
    """A level as a case of a test."""
    name = f"{factor.name}={show(value)}"
    return pytest.param(factor, value, id=name, marks=() if name in OFTEN else pytest.mark.exhaustive)


EXAMPLES = [example(factor, value) for factor in CATALOGUE.values() for value in factor.examples]
IN_FOUR_BITS = {
    "quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": "float16"},
}


OF_ONE_LAYER = {
    "model.config.num_hidden_layers": 1,
    "peft": None,
    "training_arguments.gradient_checkpointing": False,
}

BASES = {
    "as it is": {},
    "in four bits": IN_FOUR_BITS,
    "whole": {"peft": None},
    "by SGD": {"training_arguments.optim": "sgd"},
    "of one layer": OF_ONE_LAYER,
    "traced": OF_ONE_LAYER
    | {"training_arguments.torch_compile": True, "training_arguments.torch_compile_backend": "eager"},
    "in 16 bit": {"training_arguments.bf16": True},
    "in two processes": {
        "processes": 2,
        "training_arguments.gradient_checkpointing": False,
        "ddp.find_unused_parameters": True,
    },
    "accumulating in two processes": {"processes": 2, "training_arguments.gradient_accumulation_steps": 2},
}
"""Runs that have what some factors act on; bitsandbytes keeps small states in 32 bit, and LoRA's are small here. What
the compiler takes grows with the layers, and where a graph is only traced it takes nothing."""

SMOKE = load(ROOT / "params" / "smoke.yaml").settings
RUNS = {name: override(SMOKE, changes) for name, changes in BASES.items()}

Seen = Callable[[Arm], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A level that is tried on a run."""

    factor: Factor
    level: Level
    base: str
    """The name of the run."""
    settings: Settings
    """The run, with another value of the factor where it has this one already."""

    @property
    def contrast(self) -> Contrast:
        """The level by itself."""
        return combine(self.settings, [self.pick], this_machine())

    @property
    def pick(self) -> tuple[Factor, Level]:
        return self.factor, self.level

    @property
    def may_have_company(self) -> bool:
        """Whether it may be launched with others: it needs nothing besides, and nothing is compiled."""
        found = self.contrast
        alone = found.untestable or found.unmet or self.level.held_constant or "torch_compile" in self.factor.name
        return not alone and self.settings == RUNS[self.base]


def case_of(factor: Factor, value: Any) -> Case:
    """Return a level with the run that it is tried on."""
    name = base(factor, value)
    settings = elsewhere(factor, value, RUNS[name])
    return Case(factor, factor.level(value, settings.run), name, settings)


def base(factor: Factor, value: Any) -> str:
    """The name of the run that a factor is tried on."""
    if factor.name == "optim":
        return "whole"
    if factor.name == "fused":
        return "by SGD"
    if factor.name == "torch_compile_dynamic":
        return "traced"
    if factor.name.startswith("torch_compile"):
        return "of one layer"
    if factor in BY_SECTION["parallelism"]:
        return "accumulating in two processes" if factor.name == "sync_each_batch" else "in two processes"
    if value == "flash_attention_2":
        return "in 16 bit"
    return "in four bits" if factor.refuses(value, SMOKE.run) else "as it is"


def elsewhere(factor: Factor, value: Any, settings: Settings) -> Settings:
    """The run with another value of the factor, where it has this one already."""
    if value != factor.current(settings.run):
        return settings
    other = next((v for v in factor.examples if v != value), None)
    if other is None:
        return settings
    return combine(settings, [(factor, factor.level(other, settings.run))], this_machine()).treatment.settings


MOST_TOGETHER = 6
"""The most levels that one trial tries."""


def companies() -> dict[str, list[Case]]:
    """Return the levels that one trial tries together, for each of them: those that can be had together, and of which
    none sets what another one sets, or is proved by what proves another one."""
    groups: list[list[Case]] = []
    often_first = sorted(EXAMPLES, key=lambda example: example.id not in OFTEN)
    for case in (case_of(*example.values) for example in often_first):
        if case.may_have_company:
            group = next((group for group in groups if fits(case, group)), [])
            groups += [] if group else [group]
            group.append(case)
    return {case.contrast.name: group for group in groups for case in group}


def fits(case: Case, group: Sequence[Case]) -> bool:
    """Return whether a level can be tried in the trial of others."""
    if len(group) == MOST_TOGETHER or group[0].base != case.base:
        return False
    known = [(*one.level.changes, *one.level.expects) for one in group]
    own = {*case.level.changes, *case.level.expects}
    picks = [one.pick for one in (*group, case)]
    return own.isdisjoint(itertools.chain(*known)) and not clash(case.settings, picks, this_machine())


@pytest.fixture(scope="module")
def together() -> dict[str, list[Case]]:
    """The levels that are launched together, by the name of each."""
    return companies()


@pytest.fixture(scope="module")
def seen(measurer: LocalMeasurer) -> Seen:
    """Returns what a trial of an arm says of itself once it is warm. Arms that train the same are launched once."""
    known: dict[str, dict[str, Any] | TrialEnded] = {}

    def launched(arm: Arm) -> dict[str, Any]:
        key = identity(arm.determinants())
        if key not in known:
            try:
                known[key] = measurer.pool.launch(arm, "only").record.observed
            except TrialEnded as ended:
                known[key] = ended
            finally:
                measurer.pool.keep_only(set())
        if isinstance(found := known[key], TrialEnded):
            raise found
        return found

    return launched


@pytest.fixture(scope="module")
def shown(seen: Seen, together: dict[str, list[Case]]) -> Callable[[Case], dict[str, Any]]:
    """Returns what a trial of a level says of itself.

    Levels that do not meet are seen in one trial. One that is not seen there, or whose trial fails, is tried alone.
    """

    def facts(case: Case) -> dict[str, Any]:
        made, found = case.contrast, dict[str, Any]()
        if group := together.get(made.name):
            with contextlib.suppress(TrialEnded):
                found = seen(combine(case.settings, [one.pick for one in group], this_machine()).treatment)
        return found if made.expects.items() <= found.items() else seen(made.treatment)

    return facts


@pytest.mark.parametrize(("factor", "value"), EXAMPLES)
def test_a_level_proves_its_effect_or_says_why_not(
    factor: Factor, value: Any, seen: Seen, shown: Callable[[Case], dict[str, Any]]
) -> None:
    """The trial observes what the level expects, and the unchanged run does not; or there is a reason in words."""
    case = case_of(factor, value)
    made = case.contrast
    reason = made.untestable or made.unmet
    assert factor.wrong_with(value) is None
    assert factor.refuses(value, case.settings.run) is None
    if reason:
        assert any(word in reason for word in (" needs ", " acts "))
        pytest.skip(reason)
    found, unlike = shown(case), factor.current(case.settings.run)
    unchanged = case.settings == RUNS[case.base]
    before = seen(Arm(label="unchanged", settings=case.settings)) if unchanged else shown(case_of(factor, unlike))

    assert made.expects == {fact: found.get(fact) for fact in made.expects}
    if value != unlike:
        assert made.expects != {fact: before.get(fact) for fact in made.expects}


def test_the_levels_that_are_launched_often_exist() -> None:
    """A level that was renamed is not left out in silence."""
    assert {one.id for one in EXAMPLES} >= OFTEN


def test_no_factor_is_in_two_rooms() -> None:
    """A name means one factor."""
    names = [factor.name for room in BY_SECTION.values() for factor in room]

    assert len(names) == len(set(names)) == len(CATALOGUE)


@pytest.mark.parametrize("section", [s for s in TESTED if s.catalogued], ids=lambda s: s.name)
def test_readme_lists_each_factor_in_its_section(section: Section) -> None:
    """Whoever looks for a factor in README finds it where the catalogue has it, by itself or with its like."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {section.name} \| (.*) \|$", text, re.MULTILINE)
    named, own = set(re.findall(r"`(\w+)`", row)), {factor.name for factor in BY_SECTION[section.name]}
    alike = ("bnb_4bit_", "torch_compile_", "zero_")

    assert set() == {name for name in own - named if not name.startswith(alike)}
    assert set() == (named & CATALOGUE.keys()) - own - set(section.crossed)


def test_the_page_of_the_factors_is_current() -> None:
    """docs/factors.md is what the catalogue says; `make docs` writes it."""
    assert markdown() == (ROOT / "docs" / "factors.md").read_text(encoding="utf-8")


def test_the_page_is_written_by_one_command() -> None:
    """What `make docs` calls prints the page."""
    command = [sys.executable, "-m", "bench.factors_page"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)

    assert markdown() == done.stdout
