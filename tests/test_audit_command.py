"""`slowstep audit`: the verdicts on the terminal, a report, and an experiment that can be run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.cases import PAGE, RESULTS, page
from slowstep.audit import audit
from slowstep.audit.terminal_lines import answer
from slowstep.cli.main import main
from slowstep.factors.factor import show
from slowstep.investigation.results import NotebookRun
from slowstep.records import Store
from slowstep.report.read_overview import overview
from slowstep.settings import LEVEL_SECTIONS, load

ROOT = Path(__file__).resolve().parents[1]


def test_a_parameter_file_is_audited(audited: Path) -> None:
    """A report, an experiment beside it, and no trial."""
    folder = audited / "case_001"
    run = Store(folder / "records").read(NotebookRun, "notebooks", "95_reported_figures")

    assert run.status == "ok"
    assert "sequence_length" in (folder / "case_001_experiment.yaml").read_text(encoding="utf-8")
    assert load(folder / "case_001_experiment.yaml").settings.name == "case_001_experiment"
    assert not (folder / "records" / "comparisons").exists()


def test_the_index_tells_what_an_audit_found(audited: Path) -> None:
    """At one glance: what becomes of the claims, and why; of a table without claims, how its first rows compare."""
    claims, rows = (overview(audited / name).answer for name in ("case_001", "speeds_csv"))
    contradicted = answer(audit(load(ROOT / "params" / "case_000.yaml").settings))

    assert re.match(r"Of 4 claims: 4 contradicted. “.+”: .+ was claimed", contradicted)
    assert re.match(r"Of \d+ claims: \d+ holds?, \d+ undecided", claims)
    assert " as fast as " in rows or "can't be compared" in rows
    assert claims.endswith(nothing := "Reported figures were audited, and nothing was trained.")
    assert rows.endswith(nothing)


def test_a_table_is_audited_by_itself(audited: Path) -> None:
    """No parameter file is needed, and nothing is reckoned from a model that nobody named."""
    text = (audited / "speeds_csv" / "95_reported_figures.html").read_text(encoding="utf-8")

    assert "fastest depends on the unit" in text
    assert "tokens/s at full length" not in text


def test_without_a_claim_there_is_no_all_clear(
    audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table's trap is told, and that nothing was claimed; what is refused leaves no folder behind."""
    assert main(["audit", str(audited / "speeds.csv"), "--outputs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    (tmp_path / "bad.csv").write_text("run,s/it\na,fast\n")
    status = main(["audit", str(tmp_path / "bad.csv"), "--outputs", str(tmp_path)])

    assert "by steps/s it is 'small'" in said
    assert "no claim was given" in said
    assert status == 2
    assert not list(tmp_path.glob("bad_*"))


def test_logs_are_audited_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after: what Trainer said at the end of each makes them rows of one report, which is that of the logs
    as they are now."""
    logs = [tmp_path / f"{name}.log" for name in ("before", "after")]

    def audited_with(*speeds: tuple[float, float]) -> str:
        for path, (samples, steps) in zip(logs, speeds, strict=True):
            ends = {"train_runtime": 4130.0, "train_samples_per_second": samples, "train_steps_per_second": steps}
            path.write_text(f"{ends}\n")
        assert main(["audit", *map(str, logs), "--outputs", str(tmp_path)]) == 0
        report = tmp_path / "before_log_and_after_log" / "95_reported_figures.html"
        return capsys.readouterr().out + report.read_text(encoding="utf-8")

    first, second = (audited_with((15.02, 0.4694), (speed, 0.158)) for speed in (15.17, 30.34))

    assert "by steps/s it is 'before'; by samples/s it is 'after'" in first
    assert first.count("'after' is 1.01 times as fast as 'before' in samples/s") == 2
    assert second.count("'after' is 2.02 times as fast as 'before' in samples/s") == 2


FIGURES = """name: figures
reported:
  rows:
    - {label: a, figures: {seconds_per_step: "2.13"}}
    - {label: b, figures: {seconds_per_step: "1.02"}}
  claims:
    - {text: twice as fast, baseline: a, treatment: b, speed_up: SPEED}
"""


def test_figures_need_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are judged by themselves; what was not named can't be trained, and `diagnose` says so."""
    path = tmp_path / "figures.yaml"
    path.write_text(FIGURES.replace("SPEED", '"2"'))
    audited = main(["audit", str(path), "--outputs", str(tmp_path / "out")])
    said = capsys.readouterr()
    diagnosed = main(["diagnose", str(path), "--outputs", str(tmp_path / "out")])

    assert (audited, diagnosed) == (0, 2)
    assert "twice as fast" in said.out
    assert not list(tmp_path.glob("out/*/*_experiment.yaml"))
    assert "nothing says what to train" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["audit", "diagnose"])
def test_a_wrong_figure_has_its_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is trained."""
    path = tmp_path / "figures.yaml"
    path.write_text(FIGURES.replace("SPEED", "twice") + "model: {init: random, model_type: llama}\n")
    status = main([command, str(path), "--outputs", str(tmp_path / "out")])

    assert status == 2
    assert f"{path}:7: reported.claims[0].speed_up: expected a number, found 'twice'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["000", "001", "002", "003", "004"])
def test_no_level_of_a_sibling_is_passed_over(name: str) -> None:
    """It stands on the page with its verdict, or among those that were not measured yet."""
    _, _, story = PAGE.read_text(encoding="utf-8").partition(f"`params/case_{name}_small.yaml`")
    story, _, _ = story.partition("\n## ")
    sibling = load(ROOT / "params" / f"case_{name}_small.yaml").settings
    listed = [f"{f}={show(v)}" for s in LEVEL_SECTIONS for f, values in getattr(sibling, s).items() for v in values]

    assert [level for level in listed if level not in story] == []
    assert all(f"| {level}" not in story for level in re.findall(r"yet: `([^`]+)`", story))


def test_the_page_of_the_cases_is_current() -> None:
    """docs/cases.md is what the audits say now, beside what `make cases` measured."""
    import json

    assert page(json.loads(RESULTS.read_text(encoding="utf-8"))) == PAGE.read_text(encoding="utf-8")
