"""The patch changes.patch: keywords of calls in the user's code, for `git apply -p1` in the command's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from slowstep.final.literal import literal
from slowstep.final.secret_lines import shared_diff
from slowstep.settings.command import Command
from slowstep_probe.changing.intervention import NEED_WORKERS
from slowstep_probe.places import FOLDERS

MARK = "\ufeff"
"""The mark of byte order, with which editors of Windows begin a file. The parser leaves it out."""

PATCH = "changes.patch"
"""The file in final/ with the patch."""


def to_patch(made: Sequence[Mapping[str, Any]], command: Command) -> dict[Path, list[Mapping[str, Any]]]:
    """Return the changes that are keywords of a call in the command's own code, by file.

    `made` are changes as a trial tells them (`slowstep_probe.changing.wanted.Made`).
    """
    home = Path(command.folder).resolve()
    by_file: dict[Path, list[Mapping[str, Any]]] = {}
    for one in made:
        path = Path(one["place"]["file"]).resolve()
        if one["argument"] and path.is_relative_to(home) and not set(FOLDERS) & set(path.parts):
            by_file.setdefault(path, []).append(one)
    return by_file


def patch(by_file: Mapping[Path, Sequence[Mapping[str, Any]]], command: Command) -> str:
    """Return a unified diff that makes these changes (`to_patch`) in files that are as they were measured.

    It is empty if none can be made. The paths in it are relative to the command's folder.
    """
    home = Path(command.folder).resolve()
    return "".join(_diff(path, changes, path.relative_to(home)) for path, changes in by_file.items())


def by_hand(by_file: Mapping[Path, Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return the changes that the patch lacks: their call is not found, or its text does not tell enough.

    The changes in a file where a secret stands beside a change are not in the patch, either.
    """
    return [one for path, changes in by_file.items() for one in _left(path, changes)]


def _left(path: Path, changes: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    before, after, left = _edited_file(path, changes)
    return changes if shared_diff(_lines(before), _lines(after), ("a", "b")) is None else left


def _diff(path: Path, changes: Sequence[Mapping[str, Any]], name: Path) -> str:
    before, after, _ = _edited_file(path, changes)
    names = (f"a/{name.as_posix()}", f"b/{name.as_posix()}")
    lines = shared_diff(_lines(before), _lines(after), names) or ()
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _edited_file(path: Path, changes: Sequence[Mapping[str, Any]]) -> tuple[str, str, list[Mapping[str, Any]]]:
    """Return the text of a file before and after, and the changes that could not be made in it."""
    try:
        before = path.read_bytes().decode("utf-8")
        after, left = edit(before, changes)
        compile(after, str(path), "exec", dont_inherit=True)
        after = MARK + after if before.startswith(MARK) else after
    except (OSError, UnicodeDecodeError, cst.ParserSyntaxError, SyntaxError):
        return "", "", list(changes)
    return before, after, left


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each with its end. Only a line feed ends one, as for git."""
    return [line + "\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


def edit(source: str, changes: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the source of a module with the keywords of calls changed, and the changes that could not be made."""
    wrapper, lines = MetadataWrapper(cst.parse_module(source)), source.split("\n")
    asked = [_by_letters(one, lines) for one in changes]
    wrapper.visit(imports := _Imported())
    asked = [one | {"names": imports.names_of(one["name"])} for one in asked]
    wrapper.visit(count := _Counted(asked))
    edit = _Keywords({i: one for i, one in enumerate(asked) if count.found[i] == 1})
    after = wrapper.visit(edit).code
    return after, [one for i, one in enumerate(changes) if i not in edit.made]


def _by_letters(made: Mapping[str, Any], lines: Sequence[str]) -> Mapping[str, Any]:
    """Return a change with the column of its call in letters, as the parser counts. Python counts bytes."""
    place = made["place"]
    line = lines[place["line"] - 1] if 0 < place["line"] <= len(lines) else ""
    letters = len(line.encode()[: place["column"]].decode(errors="ignore"))
    return {**made, "place": place | {"column": letters}}


class _Imported(cst.CSTVisitor):
    """Finds other names under which a module imports what it calls: `from torch.utils.data import DataLoader as DL`."""

    def __init__(self) -> None:
        super().__init__()
        self.others: dict[str, set[str]] = {}

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        if node.asname is not None and isinstance(node.asname.name, cst.Name):
            self.others.setdefault(_last_name(node.name), set()).add(node.asname.name.value)

    def names_of(self, called: str) -> set[str]:
        """Return the names by which this module may call a function, whose dotted name is `called`."""
        last = called.rpartition(".")[2]
        return {last, *self.others.get(last, ())}


class _Counted(cst.CSTVisitor):
    """Counts the calls that each change may have been made in: Python before 3.11 does not tell the column."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, changes: Sequence[Mapping[str, Any]]):
        super().__init__()
        self.changes, self.found = changes, [0] * len(changes)

    def visit_Call(self, node: cst.Call) -> None:
        at = self.get_metadata(PositionProvider, node).start
        for i, one in enumerate(self.changes):
            self.found[i] += _is_called(one, node, at.line, at.column)


class _Keywords(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, changes: Mapping[int, Mapping[str, Any]]):
        super().__init__()
        self.changes = changes
        self.made: set[int] = set()
        """The numbers of the changes that were made."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        at = self.get_metadata(PositionProvider, original_node).start
        for number, one in self.changes.items():
            if _is_called(one, original_node, at.line, at.column):
                before, updated_node = updated_node, _with_keyword(updated_node, one)
                self.made |= {number} if updated_node is not before else set()
        return updated_node


def _is_called(made: Mapping[str, Any], call: cst.Call, line: int, column: int) -> bool:
    """Return whether a change was made in this call: by its name, and by its place as far as Python told it."""
    place = made["place"]
    return place["line"] == line and place["column"] in (0, column) and _last_name(call.func) in made["names"]


def _last_name(function: cst.BaseExpression) -> str:
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def _with_keyword(call: cst.Call, made: Mapping[str, Any]) -> cst.Call:
    """Return a call with an argument replaced, or added as a keyword; as it is where that can't be told."""
    value, position, slot = cst.parse_expression(literal(made["after"])), made.get("position"), made.get("slot")
    named = [a.keyword.value for a in call.args if a.keyword is not None]
    starred = any(argument.star for argument in call.args)
    if starred and made["argument"] not in named:
        return call  # it may be in what the stars stand for
    if made["argument"] == "num_workers" and made["after"] == 0:  # what only workers need is refused without them
        kept = [a for a in call.args if a.keyword is None or a.keyword.value not in NEED_WORKERS]
        if kept and kept[-1] is not call.args[-1]:
            kept[-1] = kept[-1].with_changes(comma=call.args[-1].comma)
        call = call.with_changes(args=kept)
    for i, argument in enumerate(call.args):
        by_name = argument.keyword is not None and argument.keyword.value == made["argument"]
        by_position = i in (position, slot) and argument.keyword is None and not argument.star
        if by_name or by_position:
            return call.with_changes(args=[*call.args[:i], argument.with_changes(value=value), *call.args[i + 1 :]])
    if position is not None:
        return call
    return call.with_changes(args=list(_appended(call.args, made["argument"], value)))


def _appended(args: Sequence[cst.Arg], name: str, value: cst.BaseExpression) -> Iterator[cst.Arg]:
    """Yield arguments with one more keyword, which stands as the last one does: on a line of its own, or beside it.

    A comment stays with the argument that it stands behind.
    """
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = cst.Arg(keyword=cst.Name(name), value=value, equal=equal)
    if not args:
        yield new
        return
    *rest, last = args
    yield from rest
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:  # it needs brackets beside another argument
        lone = last.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        last = last.with_changes(value=lone)
    between = rest[-1].comma.whitespace_after if rest and isinstance(rest[-1].comma, cst.Comma) else None
    if isinstance(last.comma, cst.Comma):  # a trailing comma: what follows it belongs to the closing parenthesis
        after = last.comma.whitespace_after
        yield last.with_changes(comma=last.comma.with_changes(whitespace_after=_between(between, after)))
        yield new.with_changes(comma=last.comma.with_changes(whitespace_after=_without_comment(after)))
    else:
        after = last.whitespace_after_arg
        comma = cst.Comma(whitespace_after=_between(between, after))
        yield last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
        yield new.with_changes(whitespace_after_arg=_without_comment(after))


Space = cst.BaseParenthesizableWhitespace


def _between(others: Space | None, after: Space) -> Space:
    """Return what stands between the last argument and a new one: as between `others`, with the last one's comment."""
    space = _without_comment(others or cst.SimpleWhitespace(" "))
    comment = after.first_line.comment if isinstance(after, cst.ParenthesizedWhitespace) else None
    if comment is None:
        return space
    if isinstance(space, cst.ParenthesizedWhitespace):
        return space.with_changes(first_line=after.first_line)  # type: ignore[attr-defined]
    return cst.ParenthesizedWhitespace(first_line=after.first_line, indent=True, last_line=after.last_line)  # type: ignore[attr-defined]


def _without_comment(space: Space) -> Space:
    """Return the white space between two arguments without comments and empty lines."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(newline=space.first_line.newline), empty_lines=[])
