"""Imports point one way, and what judges and reports runs where torch is not installed."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from slowstep.environment.own_code import JUDGING

LIB = Path(__file__).resolve().parents[1] / "lib"
PACKAGE = LIB / "slowstep"

LEFT = {
    "text": set(),
    "environment": set(),
    "settings": set(),
    "processes": {"text", "environment"},
    "command": {"settings"},
    "factors": {"settings", "environment", "text", "command"},
    "records": {"settings", "environment"},
    "nodes": {"settings", "environment", "records", "text"},
    "judgement": {"settings", "factors", "records", "text"},
    "wording": {"settings", "factors", "records", "judgement", "text"},
    "audit": {"settings", "factors", "records", "judgement", "environment", "text"},
    "workloads": {"settings", "records"},
    "launch": {"settings", "factors", "records", "environment", "processes", "workloads", "command", "nodes"},
    "measure": {"settings", "factors", "records", "judgement", "environment", "processes", "nodes", "launch", "text"},
    "investigation": {
        "settings",
        "factors",
        "records",
        "judgement",
        "environment",
        "audit",
        "launch",
        "measure",
        "text",
    },
    "report": {
        *("settings", "factors", "records", "judgement", "environment", "audit", "investigation", "wording", "text"),
        "processes",
    },
    "export": {"records", "report"},
    "final": {
        *("settings", "factors", "records", "judgement", "environment", "workloads", "investigation", "report"),
        *("wording", "text", "command"),
    },
    "batch": {
        *("settings", "records", "judgement", "environment", "processes", "launch", "measure", "investigation"),
        *("report", "final", "text", "factors"),
    },
    "cli": {
        *("settings", "factors", "records", "judgement", "environment", "processes", "audit", "launch", "measure"),
        *("investigation", "report", "final", "batch", "wording", "text", "command", "export", "nodes"),
    },
}
"""What each layer may import: what stands to its left on the way of the data (docs/architecture.md)."""

WITHOUT_TORCH = tuple(layer for layer in LEFT if layer != "workloads")
"""The layers that never name torch."""

HEAVY = ("torch", "transformers", "accelerate", "peft", "bitsandbytes", "datasets")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(LIB).with_suffix("").parts).removesuffix(".__init__")


def sources(layer: str) -> list[Path]:
    return sorted((PACKAGE / layer).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Full names of all that a file imports anywhere, inside functions too, read and not run."""
    inside = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), inside)
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def test_every_package_has_its_place() -> None:
    """A new folder of the library is a layer, and somebody said what it may import."""
    folders = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}

    assert set() == folders - LEFT.keys()


@pytest.mark.parametrize("layer", LEFT)
def test_imports_point_one_way(layer: str) -> None:
    """A layer imports only what stands to its left, so that it can be understood and tested without the rest."""
    allowed = LEFT[layer] | {layer, "__version__"}
    wrong = {
        f"{path.relative_to(LIB)} imports {name}"
        for path in sources(layer)
        for name in imported(path)
        if name.startswith("slowstep.") and name.split(".")[1] not in allowed
    }

    assert set() == wrong


def test_no_file_imports_itself_by_a_detour() -> None:
    """There are no circles: a file can be read, and tested, knowing only those that it imports."""
    files = {module_name(path): path for layer in LEFT for path in sources(layer)}
    graph = {
        name: {full if full in files else full.rpartition(".")[0] for full in imported(path)} & files.keys()
        for name, path in files.items()
    }
    while leaves := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}

    assert {} == {name: sorted(needs & graph.keys()) for name, needs in graph.items()}


def test_charts_alone_need_what_draws_them() -> None:
    """A bare machine can measure: only reports name plotly, pandas and what runs and renders notebooks."""
    drawing = ("plotly", "pandas", "nbconvert", "nbformat", "papermill", "nbclient")
    naming = {
        layer
        for layer in LEFT
        for path in sources(layer)
        if any(name.partition(".")[0] in drawing for name in imported(path))
    }

    assert naming <= {"report", "batch"}


def test_the_probe_needs_the_standard_library_and_torch_alone() -> None:
    """It runs in the user's interpreter, where nothing of the kit is installed."""
    allowed = {*sys.stdlib_module_names, "torch", "slowstep_probe"}
    wrong = {
        f"{path.name} imports {name}"
        for path in sorted((LIB / "slowstep_probe").rglob("*.py"))
        for name in imported(path)
        if name.partition(".")[0] not in allowed
    }

    assert set() == wrong


@pytest.mark.parametrize("layer", WITHOUT_TORCH)
def test_no_torch_is_named(layer: str) -> None:
    """Outside of trials no file imports torch or what pulls it in, not even inside a function."""
    found = {
        f"{path.relative_to(LIB)} imports {name}"
        for path in sources(layer)
        for name in imported(path)
        if name.split(".")[0] in HEAVY
    }

    assert set() == found


def test_no_torch_is_loaded() -> None:
    """Records can be judged and reported on a laptop without torch: importing all of that loads none of it."""
    modules = [module_name(path) for layer in WITHOUT_TORCH for path in sources(layer)]
    program = f"import importlib, sys; [importlib.import_module(m) for m in {modules}]; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(found.stdout.split())

    assert set(modules) <= loaded
    assert set() == loaded & set(HEAVY)


def test_settings_are_checked_without_torch() -> None:
    """Naming a mistyped training argument takes no import of transformers, which would take seconds."""
    path = PACKAGE.parents[1] / "params" / "quick.yaml"
    program = f"import sys; from slowstep.settings import load; load({str(path)!r}); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert set() == set(found.stdout.split()) & set(HEAVY)


def test_the_code_that_judges_is_all_that_conclusions_come_from() -> None:
    """A conclusion is made by the layers to the left of `final`. Others decide no verdict."""
    asked = {"investigation", "final"}
    while more := {layer for one in asked for layer in LEFT[one]} - asked:
        asked |= more

    others = {"environment", "processes", "command", "nodes", "audit", "workloads", "launch", "measure", "report"}
    assert asked == {*JUDGING, *others}
