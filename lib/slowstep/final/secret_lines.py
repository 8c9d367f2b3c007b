"""Lines of a program that show a secret: its patch is made to be shared, and shows lines beside those that change."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence

from slowstep_probe.secret import cleaned, is_secret

CONTEXT = 3
"""The lines that a diff shows on each side of a change, as git does."""


def shared_diff(before: Sequence[str], after: Sequence[str], names: tuple[str, str]) -> list[str] | None:
    """Return the lines of a unified diff that shows no secret, with as much context as that allows.

    None where a line that changes, or one right beside it, shows one: without context a diff can't be applied safely.
    """
    secrets = set(literals("".join(before)))
    for context in range(CONTEXT, 0, -1):
        lines = list(difflib.unified_diff(before, after, *names, n=context))
        if not any(cleaned(line) != line or any(one in line for one in secrets) for line in lines):
            return lines
    return None


def literals(source: str) -> Iterator[str]:
    """Yield the texts in a program's source that are secrets by the names of what they are given to."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        for name, value in _given(node):
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and is_secret(name, value.value):
                yield value.value


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the names in a node of a program that are given a value, with that value."""
    match node:
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.Assign(targets=targets, value=value):
            yield from ((_name(target), value) for target in targets)
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield _name(target), value
        case ast.Dict(keys=keys, values=values):
            yield from ((_name(key), value) for key, value in zip(keys, values, strict=True))
        case ast.arguments(args=args, kwonlyargs=named, defaults=defaults, kw_defaults=of_named):
            yield from (
                (arg.arg, value) for arg, value in zip(args[len(args) - len(defaults) :], defaults, strict=True)
            )
            yield from ((arg.arg, value) for arg, value in zip(named, of_named, strict=True))


def _name(target: ast.AST | None) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
        case ast.Subscript(slice=key):
            return _name(key)
    return ""
