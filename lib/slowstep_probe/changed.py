"""A program that runs for real, changed where it makes its objects and left alone otherwise: no probe, no protection.

It is started as `python -c "…; main(ORDER)"`, where ORDER is JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from typing import Any


def main(order: str) -> None:
    """Run the program of an order with its changes, as its command would. What was changed is said at the end.

    Several processes are forked here. Each goes on where the program's launcher would have started it, and the one that
    waits for them tidies.
    """
    asked: dict[str, Any] = json.loads(order)
    own = None
    if asked["processes"]:
        from slowstep_probe.ranks.on_their_own import rank_of

        named = asked["launcher"] == "environment"
        own = rank_of(asked["processes"], named=named, at_end=lambda: _tidy(asked["copies"]))
    from slowstep_probe.changing.alone import changed
    from slowstep_probe.program import Program

    speaks = own is None or own.number == 0
    program = Program(arguments=asked["arguments"], folder=asked["folder"], command=asked["command"])
    program.enter()
    if asked["without"] and speaks:
        _say(f"without {', '.join(asked['without'])} in the environment")
    if asked["copies"] and speaks:
        _say(f"changed copies of the command's configuration files are in {asked['copies']['folder']}")
    with changed(
        asked["values"], asked["feeding"], asked["freed_memory"], asked["micro_batches"], own, asked["launcher"]
    ) as made:
        try:
            program.run()
        finally:
            lines = [f"{one.place}: {one.name}: {one.key} was {one.before}, is {one.after}" for one in made]
            for line, times in Counter(lines).items() if speaks else ():
                _say(line + (f" ({times} of them)" if times > 1 else ""))
            if not (made or asked["without"]) and asked["values"] and speaks:
                _say("nothing was changed: the program made none of these objects, or made them at other lines")
            if own is None:
                _tidy(asked["copies"])


def files_in(folder: str) -> dict[str, int]:
    """Return the files in a folder and below, each with the time of its last change in ns. Links are left out."""
    files = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return {path: os.stat(path).st_mtime_ns for path in files if not os.path.islink(path)}


def _tidy(copies: dict[str, Any] | None) -> None:
    """Remove the changed copies of configuration files, if there are any, and the links beside them.

    All of them stay if the program wrote there, and this is said.
    """
    if copies is None:
        return
    written = [path for path, changed in files_in(copies["folder"]).items() if copies["files"].get(path) != changed]
    if written:
        _say(f"the program wrote beside the changed copy of its configuration: {written[0]}")
    else:
        shutil.rmtree(os.path.dirname(copies["folder"]), ignore_errors=True)


def _say(text: str) -> None:
    """Print a line to standard error, with nothing in it that a terminal would obey."""
    print("slowstep: " + "".join(c if c.isprintable() else "?" for c in text), file=sys.stderr)
