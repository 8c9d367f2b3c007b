"""Real text that every machine has, from the Python standard library: short examples, and long ones.

`python_stdlib` is its functions and classes with their docstrings, `python_stdlib_modules` its modules whole.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import random
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from slowstep.records.store import write_atomically
from slowstep.settings import Settings

SHORTEST = 20
"""The fewest characters of a text that there is anything to learn from."""


VOCABULARY = 4096
"""The number of tokens of the tokenizer that is trained on the short examples."""


def cache_folder() -> Path:
    """Return the folder of what is made once per machine: the corpus and its tokenizer.

    If no home can be written it is a temporary folder, and they are made anew when that has been deleted;
    PermissionError if it belongs to somebody else.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowstep"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        folder = Path(tempfile.gettempdir(), f"slowstep-cache-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder}: belongs to somebody else; set XDG_CACHE_HOME to a folder.") from None
    return folder


def corpus(name: str = "python_stdlib") -> Path:
    """Return a .jsonl file of {prompt, response} examples in a fixed shuffled order, made on first use.

    KeyError if `name` is none of `CORPORA`.
    """
    path = cache_folder() / f"{name}-{platform.python_version()}.jsonl"
    if not path.is_file():
        examples = sorted(CORPORA[name]())
        random.Random(0).shuffle(examples)
        lines = (json.dumps({"prompt": p, "response": r}, ensure_ascii=False) for p, r in examples)
        write_atomically(path, "\n".join(lines) + "\n")
    return path


def source(name_or_path: str) -> str:
    """Return the name that `datasets` is asked for: the file of a built-in text, else the name as it is."""
    return str(corpus(name_or_path)) if name_or_path in CORPORA else name_or_path


def tokenizer_file(settings: Settings) -> Path:
    """Return the file of the byte-level BPE trained on the corpus, with as many tokens as the model has room for."""
    limit = settings.model.config.get("vocab_size")
    vocabulary = min(VOCABULARY, limit) if isinstance(limit, int) else VOCABULARY
    return corpus().with_name(f"{corpus().stem}-bpe{vocabulary}.json")


def _docstrings() -> Iterator[tuple[str, str]]:
    for module, _, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text and len(text) >= SHORTEST:
                    yield f"# module {module}\n{_signature(node)}", text


def _sources() -> Iterator[tuple[str, str]]:
    for module, text, _ in _modules():
        if len(text) >= SHORTEST:
            yield f"# module {module}", text


CORPORA = {"python_stdlib": _docstrings, "python_stdlib_modules": _sources}
"""The built-in texts by name: several thousand of some hundred characters, or several hundred of some ten thousand."""


def _modules() -> Iterator[tuple[str, str, ast.Module]]:
    """Yield name, source and syntax tree of each module of the standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(root.rglob("*.py")):
        parts = set(file.relative_to(root).parts)
        if parts & {"site-packages", "test", "tests", "idle_test", "lib2to3"}:
            continue
        try:
            text = file.read_text(encoding="utf-8")
            yield ".".join(file.relative_to(root).with_suffix("").parts), text, ast.parse(text)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue


def _signature(node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(b) for b in node.bases)
        return f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}:"
