"""docs/method.md's worked example: what the page says is what the library computes from the record."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.method.example import Example, example, figures, looks_table, pairs_table
from bench.method.picture import PICTURE, picture
from slowstep.judgement.comparison import LOOKS
from slowstep.judgement.intervals import NOMINAL_P
from slowstep.judgement.timeline import steps_to_see
from slowstep.judgement.verdict import Outcome

ROOT = Path(__file__).resolve().parents[1]

PAGE = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("\n## One comparison")[2].partition("\n## ")[0]
WORDS = " ".join(EXAMPLE.split())


@pytest.fixture(scope="module")
def told() -> Example:
    return example()


def test_the_tables_of_the_page_are_computed(told: Example) -> None:
    """Both tables of the example stand in the page as the library computes them."""
    assert pairs_table(told) in EXAMPLE
    assert looks_table(told) in EXAMPLE


def test_the_text_names_the_figures_that_are_computed(told: Example) -> None:
    """Every figure that is printed stands in the text, and the text has no change in percent that is not computed."""
    computed = figures(told)
    known = " ".join([*computed.values(), pairs_table(told), looks_table(told)])

    assert [] == [name for name, figure in computed.items() if figure not in WORDS]
    assert [] == [change for change in re.findall(r"[+-]\d+(?:\.\d)? %", WORDS) if change not in known]


def test_the_picture_is_drawn_from_the_record(told: Example) -> None:
    """docs/method.svg is what is drawn now, is well-formed and is the picture that the page shows."""
    drawn = picture(told)

    assert drawn == PICTURE.read_text(encoding="utf-8")
    assert "{http://www.w3.org/2000/svg}svg" == ET.fromstring(drawn).tag
    assert f"]({PICTURE.name})" in EXAMPLE


def test_only_the_last_look_decides_the_example(told: Example) -> None:
    """The example is measured until it is decided and no longer, and Holm's correction can't undo its support."""
    assert [False] * (len(told.looks) - 1) + [True] == [look.decided for look in told.looks]
    assert told.looks[-1].pairs == len(told.pairs)
    assert Outcome.SUPPORTED is told.verdict.outcome
    assert told.verdict.effect.p * len(told.section) <= NOMINAL_P


def test_the_rules_name_the_constants_that_are_used() -> None:
    """The looks, their p and the steps that a bound of a wait needs are those of the library."""
    rules = " ".join(PAGE.partition("\n## The rules")[2].split())
    looks = ", ".join(map(str, LOOKS[:-1]))

    assert f"After {looks} and {LOOKS[-1]} pairs" in rules
    assert f"p = {NOMINAL_P} " in rules
    assert f"{steps_to_see(500):,} steps for one in 500" in rules
