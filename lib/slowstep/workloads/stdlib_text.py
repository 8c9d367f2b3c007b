"""Real text that every machine has: functions and classes of the Python standard library with their docstrings."""

from __future__ import annotations

import ast
import json
import os
import platform
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from slowstep.records.store import write_atomically
from slowstep.settings import Settings

SHORTEST = 20
"""Docstrings of fewer characters say nothing to learn."""


VOCABULARY = 4096


def cache_folder() -> Path:
    """Where things made once per machine lie: the corpus and its tokenizer."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowstep"


def corpus() -> Path:
    """A .jsonl of {prompt, response} examples, several thousand, in a fixed shuffled order; made on first use."""
    path = cache_folder() / f"python_stdlib-{platform.python_version()}.jsonl"
    if not path.is_file():
        examples = sorted(_examples())
        random.Random(0).shuffle(examples)
        lines = (json.dumps({"prompt": p, "response": r}, ensure_ascii=False) for p, r in examples)
        write_atomically(path, "\n".join(lines) + "\n")
    return path


def tokenizer_file(settings: Settings) -> Path:
    """Where the byte-level BPE trained on the corpus lies, of as many tokens as the model has room for."""
    limit = settings.model.config.get("vocab_size")
    vocabulary = min(VOCABULARY, limit) if isinstance(limit, int) else VOCABULARY
    return corpus().with_name(f"{corpus().stem}-bpe{vocabulary}.json")


def _examples() -> Iterator[tuple[str, str]]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(root.rglob("*.py")):
        parts = set(file.relative_to(root).parts)
        if parts & {"site-packages", "test", "tests", "idle_test", "lib2to3"}:
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text and len(text) >= SHORTEST:
                    yield f"# module {module}\n{_signature(node)}", text


def _signature(node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(b) for b in node.bases)
        return f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}:"
