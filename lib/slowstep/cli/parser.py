"""The parser of the command line. Whoever mistypes an option or a command is told the nearest one, and its usage."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from slowstep.settings.errors import nearest
from slowstep.text.terminal import say_lines

OPTION = re.compile(r"--[^\s=]+(?=$|=)")
"""A word that argparse takes for an option, whatever stands before it. What follows `=` is its value."""


class Commands(argparse.ArgumentParser):
    """A parser whose first argument names a command, which has a parser of its own."""

    def __init__(self, **about: Any):
        super().__init__(**about)
        self._commands = self.add_subparsers(dest="command", required=True, parser_class=argparse.ArgumentParser)

    def add_command(self, name: str, text: str) -> argparse.ArgumentParser:
        """Add a command, and return its parser."""
        return self._commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")

    @property
    def commands(self) -> Mapping[str, argparse.ArgumentParser]:
        """The parsers of all commands, by name."""
        return self._commands.choices

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the parsed words. The process ends if they can't be meant, and says why."""
        self._refuse_unknown_command(words)
        own = self.commands.get(words[0]) if words else None
        if own is None:
            return self.parse_args(words)
        for word in words[1:]:
            if (found := OPTION.match(word)) and not any(o.startswith(found.group()) for o in _options(own)):
                own.error(f"unrecognized option {found.group()}.{_nearest_option(found.group(), own)}")
        given, left = self.parse_known_args(words)
        if left:
            own.error(f"unrecognized arguments: {' '.join(left)}")
        return given

    def refuse(self, command: str, why: str) -> NoReturn:
        """End the process with the usage of a command, and the reason."""
        self.commands[command].error(why)

    def _refuse_unknown_command(self, words: Sequence[str]) -> None:
        """End the process if the first word is no command: an option of one, or a mistyped one."""
        if not words:
            say_lines(self.format_help().rstrip(), error=True)
            self.exit(2)
        first = words[0]
        if not first.startswith("-"):
            if first not in self.commands:
                self.error(f"{first}: there is no such command.{nearest(first, self.commands)}")
            return
        option = first.partition("=")[0]
        if option in _options(self):
            return
        named = next((word for word in words if word in self.commands), "")
        takes = [name for name, own in self.commands.items() if option in _options(own)]
        if takes:
            command = named if named in takes else takes[0]
            self.error(f"{option} goes behind the command that it belongs to: slowstep {command} {option} …")
        self.error(f"unrecognized option {option}.{nearest(option, _options(self))}")


def _options(parser: argparse.ArgumentParser) -> Iterable[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _nearest_option(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the hint for a mistyped option: the nearest one, or all."""
    return nearest(name, [option for option in _options(parser) if option.startswith("--")])
