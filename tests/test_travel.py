"""Records travel: measured where there is no Jupyter, drawn where there is no torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def figures(page: Path) -> list[str]:
    """The data of the charts of a report, without what names the moment of its drawing."""
    return re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.S)


@pytest.mark.trials
def test_records_are_drawn_elsewhere(tmp_path: Path) -> None:
    """Measured without Jupyter and plotly; the folder is copied, and drawn twice: with torch and without. The figures
    are the same, and no file of the first machine is needed, not even the data."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f'{{"text": "a line of number {i} and some words"}}\n' for i in range(400)))
    overrides = ["--set", "budget.exhaustive=false", "data_loading={tokenize: [once]}", "compute={}", "overheads={}"]
    overrides += [f"dataset={{name_or_path: {data}, text_field: text, max_length: 64}}"]
    overrides += ["sequence_length={}", "gradient_checkpointing={gradient_checkpointing: [false]}"]
    here = without(tmp_path / "bare", NOTEBOOKS)
    measured = slowstep("measure", "params/smoke.yaml", *overrides, "--outputs", str(tmp_path / "box"), env=here)
    assert (measured.returncode, measured.stderr) == (0, "")
    assert "gradient_checkpointing=false" in measured.stdout
    data.unlink()

    pages = []
    for name, absent in (("with", ()), ("home", TRAINING)):
        folder = shutil.copytree(tmp_path / "box" / "smoke", tmp_path / name / "smoke")
        drawn = slowstep("report", str(folder), env=without(tmp_path / f"{name}_env", absent))
        assert drawn.returncode == 0, drawn.stdout + drawn.stderr
        pages.append({page.name: figures(page) for page in sorted(folder.glob("*.html"))})

    assert pages[0].keys() >= {"00_baseline.html", "10_data_loading.html", "90_final_config.html"}
    assert pages[0] == pages[1]
    assert any(pages[0].values())
