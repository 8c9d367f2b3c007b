"""The proof of the verdicts: its scenarios are fair, and the figures shown are those that were measured."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from bench.own_scripts import __main__ as own_scripts
from bench.validation import page, results, table
from bench.validation import parts as validation_parts
from bench.validation.__main__ import keep, renew
from bench.validation.__main__ import main as validate
from bench.validation.agreement import agree
from bench.validation.diagnosed import score
from bench.validation.parts import Part, parts
from bench.validation.scenarios import Scenario, scenarios
from bench.validation.truth import Truth
from slowstep.factors import CATALOGUE, check_levels
from slowstep.records import PHASES
from slowstep.settings import LEVEL_SECTIONS, load, override

ROOT = Path(__file__).resolve().parents[1]

CASES = [case for kind in scenarios().values() for case in kind]
PLANTED = scenarios()["planted"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_scenario_is_a_parameter_file_like_any_other(case: Scenario, tmp_path: Path) -> None:
    """The kit takes it as it takes a user's, its cure included, and it does not hold the truth."""
    path = case.write(tmp_path)
    loaded = load(path)
    override(loaded.settings, case.cure)

    assert [] == check_levels(loaded.settings, str(path))
    assert not {"expect", "follows", "cure"} & set(case.data)


@pytest.mark.parametrize("case", PLANTED, ids=lambda c: c.name)
def test_a_planted_cause_has_a_truth(case: Scenario) -> None:
    """What must come out is a factor that the file lists, or a phase; and something undoes it."""
    listed = {name for section in LEVEL_SECTIONS for name in case.data.get(section, {})}

    assert (case.factor in listed) if case.factor else (case.phase in PHASES)
    assert case.follows <= CATALOGUE.keys()
    assert case.cure


def test_enough_is_planted() -> None:
    """At least 16 causes, four healthy runs, eight jobs, and 20 comparisons of identical arms."""
    kinds = {kind: len(cases) for kind, cases in scenarios().items()}

    assert kinds["planted"] >= 16
    assert kinds["healthy"] >= 4
    assert kinds["jobs"] >= 8
    assert kinds["identical"] * 3 >= 20


def test_the_library_knows_nothing_of_them() -> None:
    """No scenario and no planted workload is named in the library or the notebooks."""
    sources = [*ROOT.glob("lib/**/*.py"), *ROOT.glob("notebooks/*.ipynb")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    names = [c.name for c in PLANTED] + ["bench.validation", "planted"]

    assert [] == [name for name in names if name in text]


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture) -> None:
    """`python -m bench.validation nosuch` says which parts there are."""
    assert 2 == validate(["nosuch"])
    assert "no such part: nosuch; there are truth, planted" in capsys.readouterr().err


def test_a_run_that_did_not_happen_is_not_right(tmp_path: Path) -> None:
    """A healthy scenario of which nothing was measured has no false alarm, and is no proof either."""
    scored = score(scenarios()["healthy"][0], tmp_path, None)

    assert ("nothing", False) == (scored.found, scored.correct)
    assert any("00_baseline" in why for why in scored.failed)
    assert not any("95_" in why for why in scored.failed)  # nothing is reported, so there is nothing to audit


@pytest.mark.parametrize(
    ("stated", "agrees"),
    [
        ((2.0, 1.9, 2.1), True),
        ((1.9, 1.7, 2.1), True),
        ((1.8, 1.75, 1.85), False),  # precise, and wrong
        ((1.5, 1.0, 2.5), False),  # so wide that it holds anything
    ],
)
def test_a_size_must_be_near_and_its_interval_meet(stated: tuple[float, float, float], agrees: bool) -> None:
    """Neither a wide interval nor a near miss alone counts as having told the size of a gain."""
    assert agrees == agree(stated, Truth(ratio=2.0, low=1.95, high=2.05, pairs=3))


@pytest.fixture(scope="module")
def committed() -> dict:
    """The figures of every part."""
    return results.collected(parts())


def test_every_figure_that_is_asked_for_was_measured(committed: dict) -> None:
    """bench/results/validation.json has them all, with the machine, versions, date and commit that they hold for; a
    scenario that was not measured yet is named in README."""
    numbers = [page.value(committed, one.key) for one in page.WANTED]
    totals = [f"{part}.total" for part in ("planted", "healthy", "prediction")]
    numbers += [
        page.value(committed, key) for key in (*totals, "aa.comparisons", "price.steps_kit", "price.steps_grid")
    ]

    assert all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers)
    assert results.read().keys() | set(results.missing(parts())) == parts().keys()
    assert all(part[about] for part in results.read().values() for about in results.ABOUT)
    for kind in ("planted", "healthy"):
        rows = committed[kind]["rows"]
        unmeasured = {name.partition("/")[2] for name in results.missing(parts()) if name.startswith(f"{kind}/")}
        assert {r["name"] for r in rows} == {case.name for case in scenarios()[kind]} - unmeasured
        told = table.README.read_text(encoding="utf-8").partition("Not measured yet: ")[2].partition("\n")[0]
        assert [] == [name for name in unmeasured if f"{kind}/{name.replace('_', ' ')}" not in told]
        assert (committed[kind]["correct"], committed[kind]["total"]) == (sum(r["correct"] for r in rows), len(rows))


def test_the_readme_shows_the_committed_figures() -> None:
    """The table in README is made from the file, and nobody has touched either since."""
    text = table.README.read_text(encoding="utf-8")

    assert table.renewed(text) == text


def test_the_page_shows_every_scenario(committed: dict, tmp_path: Path) -> None:
    """Failures are not left out, and what was measured can be found again by its commit."""
    page.write(committed, "", tmp_path / "index.html")
    shown = (tmp_path / "index.html").read_text(encoding="utf-8")
    rows = [r for kind in ("planted", "healthy") for r in committed[kind]["rows"]]

    assert [] == [r["name"] for r in rows if r["name"].replace("_", " ") not in shown]
    assert [] == [part["commit"] for part in results.read().values() if part["commit"] not in shown]


def test_a_part_is_measured_once_and_kept_with_what_it_holds_for(tmp_path: Path, monkeypatch: Any) -> None:
    """A second run measures nothing; other sources ask for it again; the other parts are left as they are."""
    monkeypatch.setattr(results, "RESULTS", tmp_path / "validation.json")
    monkeypatch.setattr(validation_parts, "OUTPUTS", tmp_path)
    measured: list[int] = []

    def part(*sources: str) -> Part:
        return Part(name="aa", measure=lambda: {"n": measured.append(1) or len(measured)}, sources=sources)

    results.write("other", {"key": "k", "commit": "c", "figures": {}})
    for each in (part(), part(), part("pyproject.toml")):
        keep(each)

    assert [{"n": 2}, {}] == [results.read()[name]["figures"] for name in ("aa", "other")]
    assert 2 == len(measured)
    assert set(results.ABOUT) < results.read()["aa"].keys()


@pytest.mark.parametrize("lost", [False, True], ids=["records at hand", "records lost"])
def test_a_part_whose_judging_was_stopped_is_judged_next_time(lost: bool, tmp_path: Path, monkeypatch: Any) -> None:
    """It is measured again only where its records are lost; until then nothing is known of it that could be shown."""
    monkeypatch.setattr(results, "RESULTS", tmp_path / "validation.json")
    monkeypatch.setattr(validation_parts, "OUTPUTS", tmp_path)
    measured: list[int] = []

    def part(judge: Any) -> Part:
        return Part(name="aa", measure=lambda: measured.append(1) or {}, sources=(), judge=judge)

    with pytest.raises(ZeroDivisionError):
        keep(part(lambda figures, at_hand: figures | {"judged": 1 / 0}))
    assert "aa" not in results.read()
    if lost:
        (tmp_path / "records of" / "aa.json").unlink()
    keep(part(lambda figures, at_hand: figures | {"judged": at_hand}))

    assert {"judged": True} == results.read()["aa"]["figures"]
    assert "measured" not in results.read()["aa"]
    assert (2 if lost else 1) == len(measured)


def test_what_was_measured_elsewhere_is_not_judged_from_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """Known figures whose records lie on another machine are told so; with the records they are judged again."""
    monkeypatch.setattr(validation_parts, "OUTPUTS", tmp_path)
    part = Part(name="aa", measure=lambda: {"raw": 1}, sources=(), judge=lambda figures, here: figures | {"here": here})

    assert {"raw": 2, "here": False} == part.judged({"raw": 2})
    assert {"raw": 1} == part.measured()
    assert {"raw": 2, "here": True} == part.judged({"raw": 2})


@pytest.mark.parametrize("elsewhere", [False, True], ids=["this machine", "another machine"])
def test_a_cause_is_held_against_its_size_as_it_is_known_now(
    elsewhere: bool, committed: dict, tmp_path: Path, monkeypatch: Any
) -> None:
    """A size that is measured again counts for what was diagnosed before, on the same machine, without its records."""
    case = PLANTED[0]
    monkeypatch.setattr(results, "RESULTS", tmp_path / "validation.json")
    monkeypatch.setattr(validation_parts, "OUTPUTS", tmp_path)
    row, part = committed["planted"]["rows"][0], parts()[f"planted/{case.name}"]
    stated = row["size"][0]
    size = {"ratio": stated * 2, "low": stated * 1.9, "high": stated * 2.1, "pairs": 3}
    results.write(f"truth/{case.name}", {"machine": {"processor": "a"}, "figures": size})
    results.write(part.name, {"machine": {"processor": "b" if elsewhere else "a"}, "figures": row})
    renew(part, results.read()[part.name])
    known = results.read()[part.name]["figures"]

    assert known["agrees"] is known["correct"] is elsewhere
    assert (row["truth"] if elsewhere else size) == known["truth"]
    assert (row["found"], row["size"]) == (known["found"], known["size"])


def test_the_page_shows_what_is_known_of_scripts() -> None:
    """The table of docs/validation.md and the numbers above it are those of bench/results/own_scripts.json."""
    known = json.loads(own_scripts.RESULTS.read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    rooms: list[dict[str, list[bool]]] = [{"planted": [], "healthy": []} for _ in range(3)]
    for name, row in known.items():
        several = 1 if "ranks/" in name else 2 if "nodes/" in name else 0
        rooms[several]["healthy" if name.startswith("healthy/") else "planted"].append(row["right"])

    assert own_scripts.table(known) in text
    assert [0] * len(known) == [row["status"] for row in known.values()]
    for room, line in zip(rooms, ("one process", "two processes", "two nodes"), strict=True):
        told = [f"{sum(room[kind])} of {len(room[kind])}" for kind in ("planted", "healthy")]
        (row,) = [row for row in text.splitlines() if row.startswith(f"| {line}")]
        assert told == re.findall(r"\d+ of \d+", row)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_command_that_failed_left_no_script_alone(status: int) -> None:
    """Nothing is named where nothing was diagnosed, and that is no sign of a healthy script."""
    row = {"status": status, "first": own_scripts.NOTHING, "named": False, "said": [], "truth": None}

    assert (status == 0) is own_scripts.is_right(row, {"script": "with_lightning.py"})


def test_the_method_quotes_the_committed_figures(committed: dict) -> None:
    """What docs/method.md says of simulated machines is what was measured last."""
    text = " ".join((ROOT / "docs" / "method.md").read_text(encoding="utf-8").split())
    rates = {(row["regime"], row["rule"]): 100 * row["false readings"] for row in committed["calibration"]["rows"]}
    steady, drifting = "correlated steps (AR 0.9)", "AR 0.9, drift 10 %"
    of_tests, of_rank, own = (
        f"{rates[steady, rule]:.0f} %" for rule in ("t-test on steps", "Mann-Whitney on steps", "slowstep")
    )

    assert f"apart in {of_tests} of the comparisons, a Mann-Whitney test in {of_rank}, and this rule in {own}." in text
    assert f"nearly always do, and this rule in {rates[drifting, 'slowstep']:.0f} %" in text
    assert f"a wait worth the minimum effect in {100 * committed['shares']['false_max']:.1f} % of the runs" in text
    assert f"the nominal 95 % covers {100 * committed['shares']['coverage_min']:.1f} % at worst" in text
