"""`slowstep audit`: the verdicts on the terminal, a report, and an experiment that can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cases import PAGE, RESULTS, page
from slowstep import cli
from slowstep.records import Store
from slowstep.settings import load
from slowstep.summary import NotebookRun

ROOT = Path(__file__).resolve().parents[1]


def test_a_parameter_file_is_audited(audited: Path) -> None:
    """A report, an experiment beside it, and no trial."""
    folder = audited / "case_001"
    run = Store(folder / "records").read(NotebookRun, "notebooks", "95_reported_figures")

    assert ("ok", 0.0) == (run.status, run.measured_seconds)
    assert "sequence_length" in (folder / "case_001_experiment.yaml").read_text(encoding="utf-8")
    assert load(folder / "case_001_experiment.yaml").settings.name == "case_001_experiment"
    assert not (folder / "records" / "comparisons").exists()


def test_a_table_is_audited_by_itself(audited: Path) -> None:
    """No parameter file is needed, and nothing is reckoned from a model that nobody named."""
    text = (audited / "speeds" / "95_reported_figures.html").read_text(encoding="utf-8")

    assert "fastest depends on the unit" in text
    assert "tokens/s at full length" not in text


def test_without_a_claim_there_is_no_all_clear(
    audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table's trap is told, and that nothing was claimed; what is refused leaves no folder behind."""
    assert cli.main(["audit", str(audited / "speeds.csv"), "--outputs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    (tmp_path / "bad.csv").write_text("run,s/it\na,fast\n")
    status = cli.main(["audit", str(tmp_path / "bad.csv"), "--outputs", str(tmp_path)])

    assert "by steps/s it is 'small'" in said
    assert "no claim was given" in said
    assert status == 2
    assert not (tmp_path / "bad").exists()


def test_the_index_has_audits(audited: Path) -> None:
    """Beside investigations; of what was not trained no gain is told."""
    text = (audited / "index.html").read_text(encoding="utf-8")

    assert "speeds/95_reported_figures.html" in text
    assert "Reported figures were audited" in text
    assert "Gain, measured together" not in text


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "run,speed\na,1\n", "a.csv:2:2: speed: is it seconds a step"),
        ("a.xyz", "", "a.xyz:1:1: what kind of file is it?"),
        ("none.csv", None, "there is no such file"),
        ("a.csv", "run,s/it\na,-1.3\n", "expected more than 0"),
        ("quiet.yaml", "name: quiet\nmodel: {init: random, model_type: llama}\n", "holds no `reported` section"),
    ],
)
def test_what_can_not_be_audited_is_told(
    name: str, text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one line, with the place, and status 2."""
    if text is not None:
        (tmp_path / name).write_text(text)
    status = cli.main(["audit", str(tmp_path / name), "--outputs", str(tmp_path / "out")])
    said = capsys.readouterr().err

    assert status == 2
    assert words in said
    assert "Traceback" not in said


def test_the_page_of_the_cases_is_current() -> None:
    """docs/cases.md is what the audits say now, beside what `make cases` measured."""
    import json

    assert page(json.loads(RESULTS.read_text(encoding="utf-8"))) == PAGE.read_text(encoding="utf-8")
