"""The notebooks, run by papermill over params/smoke.yaml as `make diagnose` runs them, and what they leave behind."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slowstep.batch import notebook as notebook_runs
from slowstep.cli.main import main
from slowstep.factors import CATALOGUE
from slowstep.investigation.results import NotebookRun, Summary
from slowstep.records import ComparisonRecord, Store
from slowstep.settings import LEVEL_SECTIONS, load
from slowstep.settings.sections import SECTIONS

ROOT = Path(__file__).parents[1]
NAMES = [
    "00_baseline",
    "10_data_loading",
    "20_gradient_checkpointing",
    "30_sequence_length",
    "40_compute",
    "50_overheads",
    "90_final_config",
]


def store(outputs: Path) -> Store:
    return Store(outputs / "smoke" / "records")


def test_every_notebook_ran_to_its_end(diagnosed):
    """A whole investigation of a healthy run ends with every notebook done and its report beside it."""
    runs = [store(diagnosed).read(NotebookRun, "notebooks", name) for name in NAMES]

    assert [section.notebook for section in SECTIONS] == [
        *NAMES[:-1],
        "55_own_options",
        "60_processes",
        NAMES[-1],
        "95_reported_figures",
    ]
    assert not (diagnosed / "smoke" / "95_reported_figures.html").exists()  # nothing was reported
    assert [run.status for run in runs] == ["ok"] * len(NAMES)
    assert all((diagnosed / "smoke" / run.report).is_file() for run in runs)


def test_every_listed_level_has_a_verdict_from_real_pairs_or_a_reason(diagnosed):
    """No hypothesis that the parameter file lists gets lost, and none is judged without evidence or a reason."""
    verdicts = [v for name in NAMES[1:6] for v in store(diagnosed).read(Summary, "summaries", name).verdicts]
    judged = {v.factor for v in verdicts}
    settings = load(ROOT / "params" / "smoke.yaml").settings
    listed = {factor for section in LEVEL_SECTIONS for factor in getattr(settings, section)}

    assert listed == judged
    assert listed <= set(CATALOGUE)
    assert all(v.reason for v in verdicts)
    assert all((v.effect is not None and v.effect.n >= 3) or v.outcome == "not testable here" for v in verdicts)


def test_pinned_memory_is_not_testable_without_a_device(diagnosed):
    """What the machine can't show is said, with the reason, instead of being measured as nothing."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device, where pinned memory is testable")
    verdicts = store(diagnosed).read(Summary, "summaries", "10_data_loading").verdicts
    pinned = next(v for v in verdicts if v.factor == "dataloader_pin_memory")

    assert pinned.outcome == "not testable here"
    assert "CUDA" in pinned.reason


def test_records_hold_whole_pairs_of_real_work(diagnosed):
    """Every measured block has steps, tokens and phases that sum to its wall time."""
    folder = diagnosed / "smoke" / "records" / "comparisons"
    records = [store(diagnosed).read(ComparisonRecord, "comparisons", p.stem) for p in folder.glob("*.json")]
    blocks = [b for r in records for p in r.pairs for b in (p.baseline, p.treatment)]

    assert len(records) >= 10
    assert all(b.steps == len(b.step_seconds) for b in blocks)
    assert all(0 < b.work.useful_tokens <= b.work.padded_tokens for b in blocks)
    assert all(sum(b.phases.values()) == pytest.approx(b.seconds) for b in blocks)


def test_the_final_files_are_what_the_ecosystem_reads(diagnosed, tmp_path):
    """final/ can be trained with as it is: TrainingArguments and LoraConfig take it, and so does the next diagnosis."""
    from peft import LoraConfig
    from transformers import TrainingArguments

    final = diagnosed / "smoke" / "final"
    given = yaml.safe_load((final / "training_args.yaml").read_text())
    arguments = TrainingArguments(**given | {"output_dir": str(tmp_path), "use_cpu": True})
    lora = LoraConfig(**yaml.safe_load((final / "lora_config.yaml").read_text()))
    again = load(final / "smoke_final.yaml").settings

    assert given["per_device_train_batch_size"] == arguments.per_device_train_batch_size
    assert lora.r == again.peft["r"]
    assert arguments.num_train_epochs == again.job.epochs
    assert again.name == "smoke_final"
    decision = (final / "decision.md").read_text()
    assert all(part in decision for part in ("Status: ", "## Options", "as it is", "## Decision", "## Consequences"))
    compile((final / "train.py").read_text(), "train.py", "exec")


def test_a_second_run_measures_nothing_again(diagnosed, capsys):
    """With nothing changed, every notebook is up to date and no record is touched."""
    before = {p: p.stat().st_mtime_ns for p in (diagnosed / "smoke" / "records").rglob("*.json")}
    status = main(["diagnose", str(ROOT / "params" / "smoke.yaml"), "--outputs", str(diagnosed)])
    after = {p: p.stat().st_mtime_ns for p in (diagnosed / "smoke" / "records").rglob("*.json")}

    assert status == 0
    assert before == after
    assert capsys.readouterr().out.count("up to date") == len(NAMES)


def test_a_notebook_runs_by_itself_with_its_defaults_overridden(diagnosed):
    """Opened alone, a notebook builds the same settings from its parameters, and its records are found again."""
    code = [
        "from slowstep import open_investigation",
        f"lab = open_investigation('smoke.yaml', outputs={str(diagnosed)!r}, notebook='alone')",
        "print(len(lab.test('data_loading')), lab.measurer.steps)",
    ]
    shown = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, cwd=ROOT / "notebooks", check=True
    )

    assert shown.stdout.split() == ["3", "0"]


def test_one_failing_notebook_fails_the_run_and_not_the_others(diagnosed, tmp_path, monkeypatch, capsys):
    """A notebook whose kernel dies is shown as failed in the index, the others run, and the exit status says so."""
    broken, outputs = tmp_path / "notebooks", tmp_path / "outputs"
    broken.mkdir()
    shutil.copytree(diagnosed / "smoke", outputs / "smoke")  # nothing is left to measure
    sources = {"00_baseline": "import os; os._exit(0)", "10_data_loading": "raise ValueError('<b>no</b>')"}
    for name in NAMES:
        notebook = json.loads((ROOT / "notebooks" / "00_baseline.ipynb").read_text())
        last = notebook["cells"][2] | {"source": sources.get(name, "1"), "metadata": {}}
        notebook["cells"] = [*notebook["cells"][:2], last]
        (broken / f"{name}.ipynb").write_text(json.dumps(notebook))
    monkeypatch.setattr(notebook_runs, "NOTEBOOKS", broken)
    status = main(["diagnose", str(ROOT / "params" / "smoke.yaml"), "--outputs", str(outputs)])
    page = (outputs / "index.html").read_text()

    runs = [store(outputs).read(NotebookRun, "notebooks", n) for n in NAMES]
    assert status == 1
    assert [run.status for run in runs] == ["failed", "failed", *["ok"] * (len(NAMES) - 2)]
    assert "ValueError" in runs[1].reason
    assert "<b>no</b>" not in page
    assert "&lt;b&gt;no" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.yaml"], ["nowhere.yaml", "no such file"]),
        (["params/smok.yaml"], ["smok.yaml", "smoke.yaml"]),
        (["params/smoke.yaml", "--set", "training_arguments.learning_rat=1"], ["learning_rat", "learning_rate"]),
        (["params/smoke.yaml", "--set", "model.model_type=lama"], ["lama", "llama"]),
        (["params/smoke.yaml", "--set", "data_loading.tokenize=[twice]"], ["tokenize", "twice", "on_the_fly"]),
        pytest.param(
            ["params/smoke.yaml", "--set", "training_arguments.optim=adamw_torh"],
            ["adamw_torh", "TrainingArguments"],
            marks=pytest.mark.trials,  # the real class is asked, in a process of its own
        ),
        (
            ["params/smoke.yaml", "--set", "model.init=pretrained", "model.name_or_path=./nothing"],
            ["model.name_or_path", "./nothing"],
        ),
    ],
)
def test_bad_input_is_refused_in_words_before_anything_starts(arguments, words, tmp_path, monkeypatch, capsys):
    """Whatever is wrong, the user gets a message that names it, no traceback, status 2, and nothing is trained."""
    monkeypatch.chdir(ROOT)
    status = main(["diagnose", *arguments, "--outputs", str(tmp_path)])
    said = capsys.readouterr().err

    assert status == 2
    assert all(word in said for word in words)
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("*.ipynb"))
