"""Reading of YAML text as data, with the line of every key. An error names its line.

Texts are checked before they are turned into values. Three things are refused: those that PyYAML would accept silently
(the second of two equal keys), those that it would never finish (aliases of aliases), and those at which it fails with
an unclear error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from slowstep.settings.errors import SettingsError
from slowstep.settings.plain import DEEPEST, MOST_VALUES

LARGEST_FILE = 500_000
"""The largest file, in bytes. Parameter files are written by hand; the largest in params/ has 6 thousand."""

MERGE = "tag:yaml.org,2002:merge"

WHERE_TO = "Figures and data stand in files of their own, named by reported.files and dataset.name_or_path."


class UnreadableYaml(ValueError):
    """A problem of a YAML text, with the line (from 1), or None where the line is not known."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line


def read_yaml(path: Path) -> tuple[Any, dict[str, int]]:
    """Return the data of a file, and the line of each key by its dotted path; SettingsError says what is wrong."""
    try:
        return parse(_text(path))
    except UnreadableYaml as error:
        place = f"{path}:{error.line}" if error.line else str(path)
        raise SettingsError(f"{place}: not readable as YAML: {error}") from None


def parse(text: str) -> tuple[Any, dict[str, int]]:
    """Return the data of a text and the lines of its keys; UnreadableYaml if there is something wrong with it."""
    if found := re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text):
        line = text.count("\n", 0, found.start()) + 1
        raise UnreadableYaml(f"the character U+{ord(found.group()):04X} can't stand in YAML; remove it", line)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error) from None
    if node is None:
        return None, {}
    lines = _lines(node)
    return _constructed(node), lines


def _text(path: Path) -> str:
    """Return the file's text; UnreadableYaml if it is too large or no UTF-8."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise UnreadableYaml(
            f"{size / 1e6:.0f} MB are too many for a parameter file, which has a few thousand bytes. {WHERE_TO}"
        )
    data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or (b"\0" in data[:4] and data[:4].count(b"\0") > 1):
        raise UnreadableYaml("the text is in UTF-16 or UTF-32; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableYaml(
            f"the byte 0x{data[error.start]:02x} is no UTF-8 text; save the file as UTF-8", line
        ) from None


class _Loader(yaml.SafeLoader):
    """PyYAML's loader, stopped at a text that is nested too deeply before its recursion fails."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableYaml(f"nested more than {DEEPEST} levels deep", self.peek_event().start_mark.line + 1)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _lines(root: yaml.Node) -> dict[str, int]:
    """Return the line of each key, and of each item of a list, by dotted path.

    UnreadableYaml for a key that is given twice, for an alias that holds itself, and for aliases of aliases that would
    make more values than a parameter file can have.
    """
    found: dict[str, int] = {}
    budget = [MOST_VALUES]

    def visit(node: yaml.Node, prefix: str, inside: frozenset[int]) -> None:
        budget[0] -= 1
        line = node.start_mark.line + 1
        if budget[0] < 0:
            top = re.split(r"[.\[]", prefix)[0]
            raise UnreadableYaml(
                f"{top}: aliases (*name) written out make more than {MOST_VALUES} values", found.get(top)
            )
        if id(node) in inside:
            raise UnreadableYaml("an alias (*name) stands inside of what it names", line)
        inside |= {id(node)}
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                found.setdefault(f"{prefix}[{i}]", item.start_mark.line + 1)
                visit(item, f"{prefix}[{i}]", inside)
        elif isinstance(node, yaml.MappingNode):
            own: dict[str, int] = {}
            # keys from `<<` come last, since the keys beside it take precedence
            for key, value in sorted(node.value, key=lambda pair: pair[0].tag == MERGE):
                if key.tag == MERGE:
                    merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    for mapping in merged:
                        visit(mapping, prefix, inside)
                    continue
                if not isinstance(key, yaml.ScalarNode):
                    raise UnreadableYaml("a list or a mapping can't be a key", key.start_mark.line + 1)
                path, at = f"{prefix}.{key.value}" if prefix else key.value, key.start_mark.line + 1
                if key.value in own:
                    raise UnreadableYaml(f"{path}: given before, in line {own[key.value]}.", at)
                own[key.value] = at
                found.setdefault(path, at)
                visit(value, path, inside)

    visit(root, "", frozenset())
    return found


def _constructed(root: yaml.Node) -> Any:
    """Return the data. Each scalar is tried by itself first, so that the line of one that can't be a value is known."""
    loader = yaml.SafeLoader("")
    try:
        for node in _scalars(root):
            try:
                loader.construct_object(node)
            except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:  # `!!int ""`
                shown = node.value if len(node.value) < 60 else f"{node.value[:20]}… ({len(node.value)} characters)"
                why = "it has too many digits" if "digits" in str(error) else str(error)
                raise UnreadableYaml(f"'{shown}' is no value of its kind: {why}", node.start_mark.line + 1) from None
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error) from None
    finally:
        loader.dispose()


def _scalars(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield every scalar once, however often aliases name it."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            stack += [part for pair in node.value for part in pair if part.tag != MERGE]
        elif isinstance(node, yaml.SequenceNode):
            stack += node.value
        else:
            yield node


def _unreadable(error: yaml.MarkedYAMLError) -> UnreadableYaml:
    """Return PyYAML's error as ours, its words on one line."""
    mark = error.problem_mark or error.context_mark
    said = " ".join(filter(None, (error.problem, error.context and f"({error.context})")))
    if "'\\t'" in said:
        said = "a tab stands where only spaces can; YAML is indented by spaces"
    if "could not determine a constructor" in said or "!!python" in said:
        said = f"{said}; tags (!name) are not taken, write a plain value"
    return UnreadableYaml(said, mark.line + 1 if mark else None)
