"""Whoever edits a program between two calls reads what still counts: in the output and in the index."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simulated import around, pairs, record
from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.cli.edited_files import edited_before
from slowstep.cli.load_and_check import checked
from slowstep.investigation import open_lab
from slowstep.launch.edited_command import edited_command
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyRecord
from slowstep.records import Environment, Store
from slowstep.records.other_files import of_other_files
from slowstep.report.read_overview import overview
from slowstep.settings import Loaded, Settings, SettingsError, load, override
from slowstep.settings.command import Command
from slowstep.wording.edited import not_counted


def test_a_program_that_was_edited_after_its_survey_is_told(tmp_path: Path) -> None:
    """Its parameter file holds the values of the old text, and trials run the new one; a new survey mends that."""
    (script := tmp_path / "train.py").write_text("workers = 0\n")
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(tmp_path))
    training = {"facts": {}, "step_seconds": [0.1], "work": {"samples": 1}, "files": [str(script)]}
    seen, outputs = SurveyRecord(command=command, training=training), tmp_path / "out"
    settings = load(write(seen, outputs / "train")).settings

    assert [] == list(edited_before(settings, outputs))
    script.write_text("workers = 4\n")
    (told,) = edited_before(settings, outputs)
    assert told.startswith("train.py was edited after the survey")
    assert "`slowstep diagnose -- python train.py`" in told
    assert [] == list(edited_before(load(write(seen, outputs / "train")).settings, outputs))


@pytest.mark.parametrize(
    ("key", "edited", "again"),
    [
        (
            "words",
            ["python", "train.py", "--lr", "1"],
            "`slowstep diagnose -- python train.py --lr 1` in {0}; what else",
        ),
        ("arguments", ["train.py", "--lr", "1"], "`slowstep diagnose -- COMMAND` in {0}; what else"),
        ("env", {"OMP_NUM_THREADS": "1"}, "`slowstep diagnose -- COMMAND` in {0}; what else"),
        ("protected", False, ""),
    ],
)
def test_a_command_edited_in_its_parameter_file_is_refused_with_what_to_do(
    key: str, edited: object, again: str, tmp_path: Path
) -> None:
    """Its words are resolved by a survey, so an edit of them would have no effect in any trial."""
    command = Command(words=["python", "train.py"], python="python", arguments=["train.py"], folder=str(tmp_path))
    training = {"facts": {}, "step_seconds": [0.1], "work": {"samples": 1}}
    file = write(SurveyRecord(command=command, training=training), tmp_path / "out" / "train")
    assert [] == edited_command(load(file))
    given = yaml.safe_load(file.read_text())
    given["command"][key] = edited
    file.write_text(yaml.safe_dump(given))

    told = edited_command(load(file))
    assert bool(again) == bool(told)
    if again:
        assert f"command.{key}: not as surveyed, and the run's values and what is tried are those of" in told[0]
        assert told[0].startswith(f"{file}:")
        assert again.format(tmp_path) in told[0]
        with pytest.raises(SettingsError, match=f"command.{key}: not as surveyed"):
            checked([str(file)], [], tmp_path / "out")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["train.py 10 1", "model.py 5 1"], ""),
        (["train.py 11 2", "model.py 5 1"], "train.py is not as when 2 of 2 comparisons"),
        (["train.py 10 1", "other.jsonl 9 9"], ""),
    ],
)
def test_comparisons_of_other_files_are_counted(files: list[str], told: str, tmp_path: Path) -> None:
    """Those of another machine are none of them: nobody edited anything there."""
    store, machine = Store(tmp_path), {"system": "a machine"}
    before = Environment(machine=machine, files=["train.py 10 1", "model.py 5 1"])
    for name, environment in {"a": before, "b": before, "c": Environment(files=["train.py 10 1"])}.items():
        store.write(record(pairs(around(0.0, n=3)), environment=environment), "comparisons", name)
    said = not_counted(of_other_files(store, Environment(machine=machine, files=files)))

    assert said.startswith(told)
    assert bool(said) is bool(told)


def test_the_index_says_what_does_not_count(quick: Settings, tmp_path: Path) -> None:
    """The data were edited between two calls, and only the second is told."""
    (data := tmp_path / "data.jsonl").write_text('{"text": "one"}\n')
    settings = override(quick, {"dataset.name_or_path": str(data), "dataset.text_field": "text"})
    loaded = Loaded(settings=settings, source="quick.yaml", places={})

    def measured() -> str:
        lab = open_lab(loaded, tmp_path, "00_baseline", SimulatedMeasurer(Truth(), settings.budget))
        lab.conclude()
        return overview(lab.folder).certainty

    assert "data.jsonl" not in measured()
    data.write_text('{"text": "another"}\n')
    assert next(edited_before(settings, tmp_path)).startswith("data.jsonl is not as when the comparison")
    assert (
        "data.jsonl is not as when 1 of 2 comparisons in records/ was measured: that one does not count" in measured()
    )
