"""Every level that the catalogue gives as an example, really launched: it takes effect, or says why it can't here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slowstep.environment.machine import this_machine
from slowstep.factors import CATALOGUE, Arm, Factor, combine
from slowstep.factors.catalogue import BY_SECTION
from slowstep.factors.docs_page import markdown
from slowstep.factors.factor import show
from slowstep.measure.local import LocalMeasurer
from slowstep.settings import Settings, override
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


BASES = {
    "as it is": {},
    "in four bits": IN_FOUR_BITS,
    "whole": {"peft": None},
    "by SGD": {"training_arguments.optim": "sgd"},
    "in 16 bit": {"training_arguments.bf16": True},
    "in two processes": {
        "processes": 2,
        "training_arguments.gradient_checkpointing": False,
        "ddp.find_unused_parameters": True,
    },
    "accumulating in two processes": {"processes": 2, "training_arguments.gradient_accumulation_steps": 2},
}
"""Runs that have what some factors act on; bitsandbytes keeps small states in 32 bit, and LoRA's are small here."""


def base(factor: Factor, value: Any, smoke: Settings) -> str:
    """The name of the run that a factor is tried on."""
    if factor.name == "optim":
        return "whole"
    if factor.name == "fused":
        return "by SGD"
    if factor in BY_SECTION["parallelism"]:
        return "accumulating in two processes" if factor.name == "sync_each_batch" else "in two processes"
    if value == "flash_attention_2":
        return "in 16 bit"
    return "in four bits" if factor.refuses(value, smoke.run) else "as it is"


def elsewhere(factor: Factor, value: Any, settings: Settings) -> Settings:
    """The run with another value of the factor, where it has this one already."""
    if value != factor.current(settings.run):
        return settings
    other = next((v for v in factor.examples if v != value), None)
    if other is None:
        return settings
    return combine(settings, [(factor, factor.level(other, settings.run))], this_machine()).treatment.settings


def observed(measurer: LocalMeasurer, arm: Arm) -> dict[str, Any]:
    """What a trial of `arm` says of itself once it is warm."""
    try:
        return measurer.pool.launch(arm, "only").record.observed
    finally:
        if "only" in measurer.pool.live:
            measurer.pool.end("only")


@pytest.fixture(scope="module")
def plain(measurer: LocalMeasurer, smoke: Settings) -> dict[str, dict[str, Any]]:
    """What the unchanged runs observe."""
    runs = {name: override(smoke, changes) for name, changes in BASES.items()}
    return {name: observed(measurer, Arm(label=name, settings=s)) for name, s in runs.items()}


@pytest.mark.parametrize(("factor", "value"), EXAMPLES)
def test_a_level_proves_its_effect_or_says_why_not(
    factor: Factor, value: Any, smoke: Settings, measurer: LocalMeasurer, plain: dict[str, dict[str, Any]]
) -> None:
    """The trial observes what the level expects, and the unchanged run does not; or there is a reason in words."""
    name = base(factor, value, smoke)
    run = override(smoke, BASES[name])
    settings = elsewhere(factor, value, run)
    made = combine(settings, [(factor, factor.level(value, settings.run))], this_machine())
    reason = made.untestable or made.unmet
    assert factor.accepts(value) is None
    assert factor.refuses(value, settings.run) is None
    if reason:
        assert any(word in reason for word in (" needs ", " acts "))
        pytest.skip(reason)
    seen = observed(measurer, made.treatment)
    before = plain[name] if settings == run else observed(measurer, Arm(label="otherwise", settings=settings))

    assert made.expects == {fact: seen.get(fact) for fact in made.expects}
    if value != factor.current(settings.run):
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
    command = [sys.executable, "-m", "slowstep.factors.docs_page"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)

    assert markdown() == done.stdout
