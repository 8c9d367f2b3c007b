"""The names, types and defaults of the ecosystem's own configuration classes, without importing them.

Importing transformers takes seconds and loads torch, which the judging side must not do. The class bodies are plain
Python, so they are read from the installed source with `ast`. So the check follows the installed version.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowstep.settings.convert import NAMES, Problems, as_number, describe
from slowstep.settings.errors import nearest


def _installed(package: str) -> Path | None:
    """Return the folder of a package; None where it is not installed, and settings can only be read."""
    found = importlib.util.find_spec(package)
    return Path(found.submodule_search_locations[0]) if found else None


def _class_body(package: str, file: str, name: str) -> list[ast.stmt]:
    """Return the body of a class in a file of a package; nothing where the package is not installed."""
    root = _installed(package)
    if root is None:
        return []
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    return next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)


@dataclass(frozen=True, kw_only=True)
class Field:
    """One argument: its annotation as text, and its default where that is a literal."""

    annotation: str
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class MirroredSection:
    """A section of a parameter file that mirrors a configuration class of an installed package."""

    title: str
    package: str
    bases: tuple[tuple[str, str], ...]
    """Pairs (file inside the package, class), from the most basic class to the class itself."""

    @functools.cache  # noqa: B019  sections are module constants
    def fields(self) -> dict[str, Field]:
        """Return the fields of the class and its listed bases, by name; none where the package is not installed."""
        found: dict[str, Field] = {}
        for file, name in self.bases:
            if body := _class_body(self.package, file, name):
                found |= _annotated(body) or _constructor(body)
        return found


SECTIONS = {
    "training_arguments": MirroredSection(
        title="TrainingArguments",
        package="transformers",
        bases=(("training_args.py", "TrainingArguments"),),
    ),
    "peft": MirroredSection(
        title="LoraConfig",
        package="peft",
        bases=(
            ("config.py", "PeftConfigMixin"),
            ("config.py", "PeftConfig"),
            ("tuners/lora/config.py", "LoraConfig"),
        ),
    ),
    "quantization": MirroredSection(
        title="BitsAndBytesConfig",
        package="transformers",
        bases=(("utils/quantization_config.py", "BitsAndBytesConfig"),),
    ),
}


@functools.cache
def optimizer_names() -> frozenset[str]:
    """Return the values that `training_arguments.optim` may have; none where transformers is not installed."""
    body = _class_body("transformers", "training_args.py", "OptimizerNames")
    return frozenset(_literal(n.value) for n in body if isinstance(n, ast.Assign))


@functools.cache
def architectures() -> frozenset[str]:
    """Return the `model_type` names of transformers, its folders under models/; none where it is not installed."""
    root = _installed("transformers")
    if root is None:
        return frozenset()
    folders = (root / "models").iterdir()
    return frozenset(p.name for p in folders if (p / f"configuration_{p.name}.py").is_file())


FUSED = ("sgd", "adagrad", "torch.Adam")
"""The optimizers of PyTorch that can update in one kernel, beside AdamW, whose fused form has a name of its own."""

FOREACH = (
    *("adamw_torch", "sgd", "adagrad", "rmsprop"),
    *(f"torch.{name}" for name in ("Adadelta", "Adam", "Adamax", "ASGD", "NAdam", "RAdam", "Rprop")),
)
"""The optimizers of PyTorch that can go over lists of tensors."""

REPORTERS = {"tensorboard": ("tensorboard", "tensorboardX"), "mlflow": ("mlflow",), "wandb": ("wandb",)}
"""Experiment trackers that can write to a local folder, and the packages that bring them."""


RENAMED = {
    "activation_checkpointing": "gradient_checkpointing",
    "activation_checkpointing_kwargs": "gradient_checkpointing_kwargs",
}
"""Newer names in transformers, each with the older name of the same argument, which is the one that the kit uses."""


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def _annotated(body: list[ast.stmt]) -> dict[str, Field]:
    """Return the fields of a dataclass body: `name: type = default` or `= field(default=...)`."""
    found = {}
    for node in body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        value = node.value
        if isinstance(value, ast.Call):
            value = next((k.value for k in value.keywords if k.arg == "default"), None)
        found[node.target.id] = Field(annotation=ast.unparse(node.annotation), default=_literal(value))
    return found


def _constructor(body: list[ast.stmt]) -> dict[str, Field]:
    """Return the arguments of a plain class's `__init__`, typed by their defaults."""
    init = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    names = [a.arg for a in init.args.args[1:]]
    defaults = [_literal(d) for d in init.args.defaults]
    typed = zip(names, defaults, strict=True)
    return {n: Field(annotation=type(d).__name__ if d is not None else "Any", default=d) for n, d in typed}


OFF = {"save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no", "report_to": "none"}
"""The words by which arguments are switched off. YAML reads `no` as false: `save_strategy: no` arrives as false."""


def check(section: str, given: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """Return `given` with the numbers and words corrected that YAML misreads; all else that is wrong is a problem."""
    fields = SECTIONS[section].fields()
    if not fields:  # where the package is not installed, nothing is trained, and records tell what was
        return given
    title = SECTIONS[section].title
    checked = {}
    for name, value in given.items():
        key = f"{section}.{name}"
        name = RENAMED.get(name, name)
        if name not in fields:
            problems.add(key, f"{title} has no such argument.{nearest(name, fields)}")
            continue
        checked[name] = (
            OFF[name] if value is False and name in OFF else _checked_value(fields[name], value, problems, key)
        )
    return checked


def _checked_value(field: Field, value: Any, problems: Problems, key: str) -> Any:
    words = set(field.annotation.replace("[", " ").replace("]", " ").replace(",", " ").replace("|", " ").split())
    takes = {kind for kind in (bool, int, float, str, list, dict) if kind.__name__ in words}
    nullable = value is None and (field.default is None or words & {"None", "Optional"})
    if not takes or nullable or type(value) in takes:
        return value
    if float in takes and isinstance(value, int) and not isinstance(value, bool):
        return value
    if float in takes and isinstance(value, str) and (number := as_number(value)) is not None:
        return number
    expected = " or ".join(NAMES[kind] for kind in (bool, int, float, str, list, dict) if kind in takes)
    problems.add(key, f"expected {expected}, found {describe(value)}.")
    return value
