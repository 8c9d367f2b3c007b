"""A node that has joined a session: it starts its part of each survey and of each trial, and says how that ended.

All that it starts ends with the connection over which it is led, and with the session.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slowstep.command.resolve import CommandError
from slowstep.factors import Arm
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.of_command import warmed
from slowstep.launch.started_trial import Start, memory_limit, start_trial
from slowstep.launch.surveyor import SurveyOrder, survey_part
from slowstep.launch.warm_interpreter import NotStarted
from slowstep.nodes.greeting import SECONDS, NotGreeted
from slowstep.nodes.hello import own_hello
from slowstep.processes import tree
from slowstep.processes.cpu_times import read
from slowstep.records import Status
from slowstep.settings import Settings, SettingsError
from slowstep.settings.command import Command
from slowstep.settings.convert import from_plain, to_plain
from slowstep_probe.plain import from_plain as message_from
from slowstep_probe.processes.log import last_words, log_tail
from slowstep_probe.processes.scratch import folder_prefix
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.rank import Group

LOOK = 0.2
"""The seconds between two looks at what runs here."""


@dataclass
class NodeTrial:
    """This node's part of a trial."""

    guarded: Guarded
    log: Path
    limit: int


class _SessionEnded(Exception):
    """The end of the connection to the session."""


class OwnNode:
    """This node in the session at the other end of a wire. `connected` makes further connections to it."""

    def __init__(self, command: Command, nodes: int, node: int | None, wire: Wire, connected: Callable[[], Wire]):
        self.command, self._wire, self._connected = command, wire, connected
        self._parts: dict[str, NodeTrial] = {}
        hello = to_plain(own_hello(command, nodes, node, command.processes))
        try:
            wire.send({"hello": hello})
            told = wire.receive(SECONDS)
        except (OSError, EOFError, TimeoutError):
            raise SettingsError("the session has ended, or does not answer") from None
        if "refused" in told:
            raise SettingsError(told["refused"])
        self.number, self.leader = int(told["node"]), str(told["host"])
        self._folder = tempfile.TemporaryDirectory(prefix=folder_prefix("node"), ignore_cleanup_errors=True)
        self._record = Path(self._folder.name) / "survey.json"

    def serve(self) -> None:
        """Do what the session asks until it ends; then end all that was started here.

        OSError for what this node's own system refuses beyond a launch: a full disk, for example.
        """
        try:
            while True:
                order = self._received()
                if order is not None:
                    self._do(order)
                self._tell_ends()
        except _SessionEnded:
            return
        finally:
            self.close()

    def _received(self) -> dict[str, Any] | None:
        """Return the next order; None if none comes while something runs here."""
        try:
            return self._wire.receive(LOOK if self._parts else None)
        except TimeoutError:
            return None
        except EOFError:
            raise _SessionEnded from None

    def _send(self, message: dict[str, Any]) -> None:
        """Send a message to the session."""
        try:
            self._wire.send(message)
        except OSError:
            raise _SessionEnded from None

    def close(self) -> None:
        """Leave the session, and end all that was started here."""
        self._wire.close()
        for part in self._parts.values():
            part.guarded.end()
        self._parts.clear()
        self._folder.cleanup()

    def _do(self, order: Mapping[str, Any]) -> None:
        if order["do"] == "know":
            self._record.write_text(order["record"], encoding="utf-8")
            return
        if order["do"] == "load":
            own = sum(tree.cpu_seconds(part.guarded.guard) for part in self._parts.values())
            self._send({"launch": order["launch"], "times": asdict(read(own))})
            return
        line = None
        try:
            line = self._line(order)
            if order["do"] == "survey":
                self._survey(order, line)
            else:
                self._train(order, line)
        except (CommandError, NotGreeted, TimeoutError, EOFError, OSError) as error:
            if line is not None:
                line.close()
            self._send({"launch": order["launch"], "reason": str(error) or "it could not start its part"})

    def _line(self, order: Mapping[str, Any]) -> Wire:
        """Return a connection for a launch, to the process that leads it."""
        line = self._connected()
        line.send({"launch": order["launch"], "node": order["node"]})
        return line

    def _survey(self, order: Mapping[str, Any], line: Wire) -> None:
        command = replace(self.command, protected=bool(order["protected"]))
        survey_part(command, SurveyOrder(**order["order"]), os.environ, message_from(Group, order["group"]), line)

    def _train(self, order: Mapping[str, Any], line: Wire) -> None:
        asked = time.monotonic()
        settings = self._own(from_plain(Settings, order["settings"]))
        interpreter = warmed(settings)
        try:
            interpreter.wait(settings.budget.startup_timeout_seconds)
        except (NotStarted, TimeoutError):
            interpreter.close()
            raise
        folder = Path(self._folder.name)
        start = Start(
            arm=Arm(label=order["label"], settings=settings),
            log=folder / f"{order['launch']}.log",
            cache=folder / order["cache"],
            limit=memory_limit(settings.budget),
            asked=asked,
            group=message_from(Group, order["group"]),
        )
        self._parts[order["launch"]] = NodeTrial(
            guarded=start_trial(start, interpreter, line), log=start.log, limit=start.limit
        )

    def _own(self, settings: Settings) -> Settings:
        """Return settings with this node's own command: its interpreter, its folders, its environment."""
        theirs = settings.command
        command = replace(self.command, nodes=theirs.nodes, protected=theirs.protected)
        feeding = [place.replace(theirs.folder, command.folder, 1) for place in settings.surveyed.feeding]
        surveyed = replace(settings.surveyed, feeding=feeding, record=str(self._record))
        return replace(settings, command=command, surveyed=surveyed)

    def _tell_ends(self) -> None:
        """Tell how parts have ended that are over."""
        for launch, part in list(self._parts.items()):
            if not part.guarded.has_ended():
                continue
            ended = part.guarded.end()
            del self._parts[launch]
            told: dict[str, Any] = {"launch": launch, "log": log_tail(part.log)}
            if ended.over or ended.peak > part.limit:
                gib = 2**30
                told["status"] = Status.OUT_OF_MEMORY.value
                told["reason"] = (
                    f"its part of the trial took {ended.peak / gib:.3g} GiB of host memory; "
                    f"{part.limit / gib:.3g} GiB are allowed there"
                )
            elif ended.code:
                said = last_words(told["log"])
                how = f"ended by {signal.Signals(-ended.code).name}" if ended.code < 0 else f"status {ended.code}"
                told["reason"] = f"its part of the trial ended ({how})" + (f"; its last words: {said}" if said else "")
            part.log.unlink(missing_ok=True)
            self._send(told)
