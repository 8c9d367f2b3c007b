"""The committed files: pins that agree, notebooks without outputs, clear docstrings, nothing of the machine."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from slowstep import report

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RANGE = re.compile(r"[A-Za-z0-9._-]+>=[0-9]+(\.[0-9]+)*")
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+")
PARAMETER = re.compile(r"(\w+): (int|float|str|bool|list|dict) = (.+?)  # \S.*")

PACKAGE = ROOT / "lib" / "slowstep"

PREPOSITIONS = (
    "about above across after against along among around as at before behind below beneath beside besides between "
    "beyond by despite during except for from in inside into of on onto outside over per since than through "
    "throughout till to toward towards under until upon via with within without"
)
CONJUNCTIONS = (
    "although and because but if lest nor or so that though unless when whenever where whereas wherever whether "
    "while yet"
)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def git(*words: str) -> subprocess.CompletedProcess[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def lines(cell: dict) -> list[str]:
    return [line for line in "".join(cell["source"]).splitlines() if line.strip()]


# -- make --


@pytest.mark.parametrize("status", [0, 3])
def test_setup_tells_a_line_for_each_package(status: int, tmp_path: Path) -> None:
    """It takes minutes, in which somebody waits; what pip says of each package in four lines is not read by anybody.

    Where pip fails, so does make.
    """
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    pip = tmp_path / ".venv" / "bin" / "python"
    pip.write_text(
        "#!/bin/sh\ncat <<END\nCollecting torch==2.13\n  Downloading torch-2.13.whl.metadata (30 kB)\n"
        "  Using cached numpy-2.whl (16 MB)\nDownloading torch-2.13.whl (190 MB)\n"
        f"Installing collected packages: numpy, torch\nEND\nexit {status}\n"
    )
    pip.chmod(0o755)
    words = ["make", "--silent", "--file", str(ROOT / "Makefile"), "setup", f"PYTHON={sys.executable}"]
    made = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    said = ["Using cached numpy-2.whl (16 MB)", "Downloading torch-2.13.whl (190 MB)", "Installing them"]
    assert said == [line.strip() for line in made.stdout.splitlines()]
    assert (made.returncode == 0, (tmp_path / ".venv" / ".ready").exists()) == (status == 0, status == 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "PARAM=a.yaml"], "PARAM: there is no such variable; make takes PARAMS, SET, CMD, LAB and PYTHON"),
        (["measure", "CMD=python t.py", "SET=seed=1"], "slowstep measure --set seed=1 -- python t.py"),
        (["diagnose", "PARAMS=a.yaml b.yaml", "SET=seed=1"], "slowstep diagnose a.yaml b.yaml --set seed=1"),
    ],
)
def test_make_leaves_nothing_out_that_it_is_given(words: list[str], said: str) -> None:
    """A mistyped PARAMS, or a command where none was expected, would train the example for minutes."""
    asked = ["make", "--dry-run", "--old-file", ".venv/.ready", *words]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)

    assert said in told.stdout + told.stderr


# -- pins --


def requirements() -> list[str]:
    """Everything that the project asks for, its extras included."""
    extras = [one for group in project()["optional-dependencies"].values() for one in group]
    return [one for one in project()["dependencies"] + extras if not one.startswith("slowstep")]


def test_dependencies_are_ranges_with_a_minimum() -> None:
    """What a user has installed stays: nothing is asked for at one version, and nothing without a tested minimum."""
    assert [] == [one for one in requirements() if not RANGE.fullmatch(one)]


def test_extras_hold_what_measuring_does_without() -> None:
    """A bare box needs neither Jupyter nor plotly."""
    bare = {re.split(r"[<>=]", one)[0] for one in project()["dependencies"]}

    assert set() == bare & {"jupyterlab", "papermill", "nbconvert", "plotly", "pandas", "ipykernel"}
    assert {"report", "lab", "dev", "export", "slurm"} == project()["optional-dependencies"].keys()


def test_constraints_fix_every_dependency_within_its_range() -> None:
    """What CI and README's commands install is one version each, and no older than the project allows."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    fixed = dict(line.split(";")[0].strip().split("==") for line in text.splitlines() if "==" in line.split(";")[0])

    for one in requirements():
        name, least = one.split(">=")
        assert Version(fixed[name.lower()]) >= Version(least)


def test_conda_users_get_everything_at_the_tested_versions() -> None:
    """environment.yml installs the kit with Jupyter, under the same constraints."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (by_pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]

    assert ["-c constraints.txt", "-e .[lab]"] == by_pip


def test_constraints_hold_versions_alone() -> None:
    """constraints.txt names no index and no address: where packages come from is the user's to say."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    content = [line.split("#")[0].split(";")[0].strip() for line in text.splitlines()]

    assert [] == [line for line in content if line and not PIN.fullmatch(line)]


# -- notebooks --


def test_notebooks_are_committed_bare() -> None:
    """No outputs, execution counts or traces of a run: stripping them as CONTRIBUTING.md says changes nothing."""
    keys = "metadata.papermill cell.metadata.papermill"
    command = [sys.executable, "-m", "nbstripout", "--verify", "--extra-keys", keys, *map(str, NOTEBOOKS)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (0, "") == (found.returncode, found.stdout)


@each_notebook
def test_a_notebook_is_an_argument(path: Path) -> None:
    """Notebooks hold no definitions: what needs a function is in the library, where it can be tested."""
    code = [line for cell in cells(path) if cell["cell_type"] == "code" for line in lines(cell)]

    assert code
    assert [] == [line for line in code if re.match(r"\s*(async def|def|class) ", line)]


@each_notebook
def test_parameters_are_plain_typed_values(path: Path) -> None:
    """One cell is tagged for papermill; each line is `name: type = value  # help`, the value of that type.

    The page to start from is not run by papermill, and has none.
    """
    if path.stem == "start":
        return
    (tagged,) = [c for c in cells(path) if "parameters" in c["metadata"].get("tags", [])]
    found = [PARAMETER.fullmatch(line) for line in lines(tagged)]

    assert found
    assert all(found), lines(tagged)
    assert [m[2] for m in found] == [type(ast.literal_eval(m[3])).__name__ for m in found]


@each_notebook
def test_notebooks_run_in_the_project_environment(path: Path) -> None:
    """The kernel is the environment's own, whatever kernels a user has installed."""
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]

    assert "python3" == metadata["kernelspec"]["name"]


# -- the repository --


def test_the_library_is_not_ignored() -> None:
    """Usual .gitignore templates leave out lib/, and with it the whole library."""
    modules = [str(p.relative_to(ROOT)) for p in (ROOT / "lib" / "slowstep").rglob("*.py")]

    assert modules
    assert "" == git("check-ignore", "--no-index", *modules).stdout


def test_outputs_are_ignored() -> None:
    """What an investigation writes is never committed by accident."""
    assert "outputs/quick/index.html" == git("check-ignore", "--no-index", "outputs/quick/index.html").stdout.strip()


def test_no_file_speaks_of_the_machine_it_was_written_on() -> None:
    """No tracked file holds a path of this machine or the address of a package index."""
    folders = {str(ROOT), str(Path.home()), "/" + "work", "/" + "root"} - {"/"}
    index = "|".join([r"https?://\S+/" + "simple" + r"\b", "index" + r"[-_]url\s*=?\s*\S*https?:", "trusted" + "-host"])
    paths = "|".join(rf"(?<![\w.\])}}]){re.escape(folder)}/" for folder in sorted(folders))
    pattern = re.compile(f"{paths}|{index}")
    found = []
    for name in git("ls-files").stdout.splitlines():
        path = ROOT / name
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {m[0]}" for m in pattern.finditer(text)]

    assert [] == found


# -- docstrings --


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring in a file, those below constants and fields included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [s.value for s in node.body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)]
            yield from [(text.lineno, text.value) for text in texts if isinstance(text.value, str)]


def test_docstrings_begin_with_a_verb_or_name_the_thing() -> None:
    """No docstring begins with a preposition or a conjunction, so that it is understood without the code around it."""
    unclear = {*PREPOSITIONS.split(), *CONJUNCTIONS.split()}
    found = [(path, line, text) for path in PACKAGE.rglob("*.py") for line, text in docstrings(path)]

    assert found
    assert [] == [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]}"
        for path, line, text in found
        if re.search(r"\w+|$", text)[0].lower() in unclear | {""}
    ]


@pytest.mark.exhaustive
def test_every_bench_can_be_imported() -> None:
    """A name that moved would be noticed when its figures are wanted, and not before."""
    code = """
import importlib, pkgutil, bench
names = [m.name for m in pkgutil.walk_packages(bench.__path__, "bench.") if ".scripts" not in m.name]
[importlib.import_module(name) for name in names]
print(len(names))
"""
    path = f"{ROOT / 'lib'}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 40


def test_all_that_notebooks_ask_of_the_report_is_there() -> None:
    """A name that is missing would be met when a notebook runs, at the end of a measurement."""
    asked = {
        name
        for path in (ROOT / "notebooks").glob("*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
        for name in re.findall(r"\breport\.(\w+)", "".join(cell["source"]))
    }

    assert asked <= set(report.__all__)
    assert [] == [name for name in report.__all__ if not hasattr(report, name)]


# -- pages --

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def headings(page: Path) -> set[str]:
    """Return the addresses of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    """Whoever follows a link of a page finds the file, and the heading in it."""
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8"))
    places = [(page.parent / name if name else page, heading) for name, heading in links]

    assert [] == [str(place) for place, _ in places if not place.exists()]
    assert [] == [heading for place, heading in places if heading and heading not in headings(place)]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "gallery").rglob("*.html")), ids=lambda page: page.stem)
def test_links_of_the_gallery_lead_somewhere(page: Path) -> None:
    """Whoever follows a link of a kept report finds the file, or the part of the page."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r'href="(?!https?:|data:)([^"#]*)(?:#([^"]+))?"', text)

    assert [] == [name for name, _ in links if name and not (page.parent / name).exists()]
    assert [] == [part for name, part in links if part and not name and f'id="{part}"' not in text]


@pytest.mark.parametrize("name", ["architecture", "adding-a-factor", "method"])
def test_pages_name_files_that_are_there(name: str) -> None:
    """Whoever looks for a module where a page says it is finds it."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    there = [f"/{path.relative_to(ROOT)}" for room in ("lib", "bench", "tests") for path in (ROOT / room).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", text)) - {"final/train.py"}  # which the kit writes

    assert named
    assert [] == [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in there)]
