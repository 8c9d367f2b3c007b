"""Records travel: measured where there is no Jupyter, drawn where there is no torch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.batch.investigations import draw
from slowstep.cli.report import UNREAD, report
from slowstep.investigation import NotMeasured, open_lab, read_investigation
from slowstep.investigation.opening import DESCRIPTION
from slowstep.settings import Loaded, Settings, override

ROOT = Path(__file__).resolve().parents[1]

NOTEBOOKS = (
    *("papermill", "jupyterlab", "jupyter_client", "nbconvert", "nbformat", "ipykernel", "IPython"),
    "plotly",
)
"""The packages of notebooks and charts. pandas is not among them, since datasets needs it; the kit itself does not."""

TRAINING = ("torch", "transformers", "peft", "accelerate", "datasets", "bitsandbytes", "tokenizers")

BLOCK = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {names!r} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""


def without(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The environment of a machine on which these packages are not installed."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BLOCK.format(names=names), encoding="utf-8")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "lib")])}


def slowstep(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess:
    """Run the command line in such an environment."""
    command = [sys.executable, "-m", "slowstep.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env)


def shown(page: Path) -> list[str]:
    """The charts' data, the tables and the verdicts of a report: all that it says, without when it was drawn."""
    text = page.read_text(encoding="utf-8")
    charts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    verdicts = re.findall(r'<div class="cell verdict".*?</div>', text, re.DOTALL)
    return charts + tables + verdicts


@pytest.mark.trials
@pytest.mark.exhaustive
def test_measuring_needs_no_notebook(tmp_path: Path) -> None:
    """Without Jupyter and plotly all that the notebooks would measure is measured, and verdicts are printed."""
    overrides = ["--set", "budget.exhaustive=false", "data_loading={}", "compute={}", "overheads={}"]
    overrides += ["sequence_length={}", "gradient_checkpointing={gradient_checkpointing: [false]}"]
    here = without(tmp_path / "bare", NOTEBOOKS)
    measured = slowstep("measure", "params/smoke.yaml", *overrides, "--outputs", str(tmp_path / "box"), env=here)
    summaries = {path.stem for path in (tmp_path / "box" / "smoke" / "records" / "summaries").glob("*.json")}

    assert (measured.returncode, measured.stderr) == (0, "")
    assert "gradient_checkpointing=false" in measured.stdout
    assert summaries >= {"00_baseline", "20_gradient_checkpointing", "90_final_config"}


def test_nothing_is_written_beside_a_folder_that_is_no_investigation(tmp_path: Path) -> None:
    """Somebody's own folder may be named by mistake; an index in its parent would list what lies there by chance."""
    (own := tmp_path / "home" / "project").mkdir(parents=True)

    assert report([own], tmp_path / "outputs") == UNREAD
    assert list((tmp_path / "home").rglob("*")) == [own]


def test_a_description_of_an_unknown_machine_is_told_with_its_file(quick: Settings, tmp_path: Path) -> None:
    """Its fields may be those of another version, or a part of them."""
    measurer = SimulatedMeasurer(Truth(), quick.budget)
    lab = open_lab(Loaded(settings=quick, source="quick.yaml", places={}), tmp_path, "00_baseline", measurer)
    path = lab.evidence.store.path(*DESCRIPTION)
    known = json.loads(path.read_text(encoding="utf-8"))
    del known["record"]["environment"]["machine"]["memory"]
    path.write_text(json.dumps(known), encoding="utf-8")

    with pytest.raises(NotMeasured, match=f"{path}: .*memory: this key is required.*measure again"):
        read_investigation(lab.folder)
    assert report([lab.folder], tmp_path) == UNREAD


def test_a_description_without_a_proper_name_is_refused(quick: Settings, tmp_path: Path) -> None:
    """Files of final/ are named after it, so it may be no path."""
    measurer = SimulatedMeasurer(Truth(), quick.budget)
    lab = open_lab(Loaded(settings=quick, source="quick.yaml", places={}), tmp_path, "00_baseline", measurer)
    path = lab.evidence.store.path(*DESCRIPTION)
    known = json.loads(path.read_text(encoding="utf-8"))
    known["record"]["settings"]["name"] = str(tmp_path / "own")
    path.write_text(json.dumps(known), encoding="utf-8")

    with pytest.raises(NotMeasured, match=f"{path}: settings.name: .*must be an identifier"):
        read_investigation(lab.folder)


@pytest.mark.parametrize("stranger", ["link", "pipe"])
def test_what_is_no_file_of_a_folder_is_named_and_the_others_are_drawn(
    stranger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link out of a folder, or a pipe in it, is told with its path before anything is read, and left out of the
    index."""
    for name in ("one", "two"):
        (tmp_path / name / "records" / "investigation").mkdir(parents=True)
        (tmp_path / name / "records" / "notebooks").mkdir()
    path = tmp_path / "one" / "records" / "comparisons"
    path.mkdir()
    path /= "x.json"
    path.symlink_to("/dev/zero") if stranger == "link" else os.mkfifo(path)

    assert report([], tmp_path) == UNREAD
    told = capsys.readouterr().err
    assert f"{path}: is " in told
    assert f"{tmp_path / 'two'}: there is no records/investigation/last.json" in told
    assert "two" in (tmp_path / "index.html").read_text()
    assert "one is not in the index" in told


@pytest.mark.parametrize("known", [True, False], ids=["edited since", "of a stranger"])
def test_a_log_is_audited_again_only_as_it_was(known: bool, quick: Settings, tmp_path: Path) -> None:
    """Another one beside the old conclusion would contradict it, and a stranger may have named any of the reader's."""
    (log := tmp_path / "own.csv").write_text("run,tokens_per_second\na,1000\nb,2000\n")
    settings = override(quick, {"reported.files": [str(log)]})
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    lab = open_lab(loaded, tmp_path, "95_reported_figures", SimulatedMeasurer(Truth(), quick.budget))
    if known:
        log.write_text("run,tokens_per_second\na,1000\nb,3000\n")
    else:
        path = lab.evidence.store.path(*DESCRIPTION)
        told = json.loads(path.read_text(encoding="utf-8"))
        told["record"]["as_measured"]["digests"] = {}
        path.write_text(json.dumps(told), encoding="utf-8")
    said: list[str] = []

    assert draw(lab.folder, lambda line, _: said.append(line)) == []
    assert f"95_reported_figures: its report stays as it is, since {log} is not here, or is not known to be" in said[0]


@pytest.mark.parametrize("left_out", ["[1345]*", pytest.param("none", marks=pytest.mark.exhaustive)])
def test_reports_are_drawn_elsewhere_as_they_were(left_out: str, diagnosed: Path, tmp_path: Path) -> None:
    """A copy of the folder, under another name and without its reports, is drawn where torch and transformers are not
    installed: every chart, table and verdict is what it was where the run was measured."""
    folder = shutil.copytree(
        diagnosed / "smoke", tmp_path / "copied", ignore=shutil.ignore_patterns("*.html", "*.ipynb")
    )
    for kind in ("summaries", "notebooks"):
        for path in (folder / "records" / kind).glob(left_out):
            path.unlink()
    drawn = slowstep("report", str(folder), env=without(tmp_path / "home", TRAINING))
    pages = {page.name: shown(page) for page in folder.glob("*.html")}

    assert drawn.returncode == 0, drawn.stdout + drawn.stderr
    assert pages.keys() >= {"00_baseline.html", "90_final_config.html"}
    assert pages.keys() == {f"{path.stem}.html" for path in (folder / "records" / "notebooks").glob("*.json")}
    assert pages == {name: shown(diagnosed / "smoke" / name) for name in pages}
    assert all(pages.values())
