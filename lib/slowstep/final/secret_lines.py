"""Lines of a program that show a secret: its patch is made to be shared, and shows lines beside those that change."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence

from slowstep_probe.secret import LONG, cleaned, is_secret

CONTEXT = 3
"""The lines that a diff shows on each side of a change, as git does."""


def shared_diff(before: Sequence[str], after: Sequence[str], names: tuple[str, str]) -> list[str] | None:
    """Return the lines of a unified diff that shows no secret, with as much context as that allows.

    None where a line that changes, or one right beside it, shows one: without context a diff can't be applied safely.
    """
    secret = {line.strip() for lines in (before, after) for line in secret_lines("".join(lines))}
    for context in range(CONTEXT, 0, -1):
        lines = list(difflib.unified_diff(before, after, *names, n=context))
        if not any(cleaned(line) != line or line[1:].strip() in secret for line in lines):
            return lines
    return None


def secret_lines(source: str) -> Iterator[str]:
    """Yield the lines of a program's source with texts that are secrets by the names of what they are given to.

    Short ones are names of columns and the like (`text_key="text"`), and a line that is as short tells nothing.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.split("\n")
    for node in ast.walk(tree):
        for name, value in _given(node):
            text = value.value if isinstance(value, ast.Constant) else None
            if isinstance(text, str) and len(text) >= LONG and is_secret(name, text):
                spanned = lines[value.lineno - 1 : value.end_lineno]
                yield from (line for line in spanned if len(line.strip()) >= LONG)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the names in a node of a program that are given a value, with that value."""
    match node:
        case ast.Call(args=args, keywords=keywords):
            yield from ((one.arg or "", one.value) for one in keywords)
            if name := _name(args[0] if args and isinstance(args[0], ast.Constant) else None):
                yield from ((name, value) for value in (*args[1:], *(one.value for one in keywords)))
        case ast.Assign(targets=targets, value=value):
            yield from ((_name(target), value) for target in targets)
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield _name(target), value
        case ast.Dict(keys=keys, values=values):
            yield from ((_name(key), value) for key, value in zip(keys, values, strict=True))
        case ast.arguments(posonlyargs=first, args=args, kwonlyargs=named, defaults=defaults, kw_defaults=of_named):
            with_default = [*first, *args][len(first) + len(args) - len(defaults) :]
            by_place = zip(with_default, defaults, strict=True)
            yield from ((arg.arg, value) for arg, value in (*by_place, *zip(named, of_named, strict=True)))


def _name(target: ast.AST | None) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
        case ast.Subscript(slice=key):
            return _name(key)
    return ""
