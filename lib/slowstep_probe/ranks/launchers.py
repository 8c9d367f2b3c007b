"""Launchers: programs and functions that start the processes that train.

Where this process is one of the ranks already, a launcher that would start them goes on as this rank. Where nothing is
known of ranks yet (a survey), it is told how many processes would be started, and in which way. A launcher of a single
process runs its program here, where it is watched.

| launcher | what is taken over |
|---|---|
| torchrun, `accelerate launch`, `trl`, ... | `elastic_launch` of torch.distributed, which all call, on each node |
| `accelerate launch` of one process | its `simple_launcher` |
| torch.multiprocessing.spawn, notebook_launcher | `start_processes` |
| a program's own loop over `multiprocessing.Process` | `start` (`slowstep_probe.ranks.processes`) |
| Lightning's strategies | the rank that its environment names; else the processes that it would start |
| deepspeed, axolotl, llamafactory-cli | the subprocess that is a launcher, or a rank |
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from string import Template
from types import ModuleType
from typing import Any

import torch

from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.program import AT_END, Program
from slowstep_probe.ranks.launched_commands import (
    is_launcher,
    is_program,
    is_remote,
    is_this_python,
    script,
    without_unbuffered,
)
from slowstep_probe.ranks.processes import RankAmongProcesses, function_of
from slowstep_probe.ranks.processes_heard import GroupListener
from slowstep_probe.ranks.rank import ENVIRONMENT, PROCESS, SPAWN, SUBPROCESS, TORCHRUN, Rank, way_of

LIGHTNING = ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric")
"""The packages that hold Lightning's launchers, in `strategies.launchers.subprocess_script`."""

ELASTIC = "a number of nodes that may change can't be diagnosed; give one number, as in --nnodes 2"

NODES_OF_LIGHTNING = (
    "Lightning starts its processes itself here, and over several nodes that can't be diagnosed; start it by torchrun "
    "on each node, as in `torchrun --nnodes 2 --node-rank 0 --rdzv-endpoint HOST:PORT train.py`"
)

NODES_OF_DEEPSPEED = (
    "deepspeed reaches other nodes by ssh or MPI, where nobody can follow; start the program by torchrun on each node, "
    "as in `torchrun --nnodes 2 --node-rank 0 --rdzv-endpoint HOST:PORT train.py --deepspeed …`"
)

OF_TORCHRUN = {
    "ROLE_NAME": "default",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
}
"""Environment variables that torchrun sets besides, and by which libraries know that it started them."""


def of_torchrun(own: Rank, nodes: int) -> dict[str, str]:
    """Return the environment variables that torchrun sets for a rank beside those of `torch.distributed`."""
    role = {"ROLE_RANK": str(own.number), "ROLE_WORLD_SIZE": str(own.size)}
    return OF_TORCHRUN | role | {"GROUP_WORLD_SIZE": str(1 if own.local_size == own.size else nodes)}


@dataclass(frozen=True, kw_only=True)
class Would:
    """What a program would start now."""

    processes: int
    """The number of processes on this node."""
    launcher: str
    """The way in which they are started."""
    launched: list[str] = field(default_factory=list)
    """The program that they run, as an interpreter is given it; empty where it is the one that runs here."""
    nodes: int = 1
    """The number of nodes on which it is started."""
    node: int | None = None
    """The number of this node, if its command says it."""
    refused: str = ""
    """Why these processes can't be followed; empty if they can."""


Several = Callable[[Would], None]
"""A function that is called where a program would start processes, and ends this one."""


class Launchers:
    """Takes over the launchers that a program calls.

    `own` is this process's rank, and `launcher` the way in which its program starts ranks: other ways are left alone,
    since the program may start processes that are no ranks. `processes` is the number of ranks that the program asks
    for on a node, where fewer may train; 0 where as many train. `several` is called where several would be started and
    none are known yet. Without either, launchers of several processes are left alone.

    What a program starts when it has trained by itself is no part of its training: it evaluates, for example.
    """

    def __init__(self, own: Rank | None = None, launcher: str = "", several: Several | None = None, processes: int = 0):
        self.own, self.launcher, self.several = own, launcher, several or _leave_alone
        self.processes = processes or (own.local_size if own else 0)
        self.has_trained: Callable[[], bool] = lambda: False
        """Tells whether the program has trained by itself."""
        self.no_ranks: list[int] = []
        """The numbers of processes that the program is known to spawn for something else: to prepare its data, say."""
        self.taken_over: Callable[[], None] = lambda: None
        """Called where a launcher's program begins."""
        self.process_started: Callable[[str], None] = lambda function: None
        """Called with the name of a function of the user's own that a process is started with."""
        self._all = own is not None or several is not None
        self._entered = False
        """True once the program that trains runs here."""
        self._launching = False
        """True once a launcher that a program started as a subprocess runs here."""
        self._threads = os.environ.get("OMP_NUM_THREADS", "")
        self._listening = GroupListener(self._joined)
        self._among: RankAmongProcesses | None = None
        """How processes are started where this one is one of them."""
        if own is not None and way_of(launcher) == PROCESS:
            self._among = RankAmongProcesses(launcher.partition(":")[2], own.local, self.processes)

    def attach(self, patches: Patches, late: LateImports) -> None:
        late.on("accelerate.commands.launch", lambda it: patches.around(it, "simple_launcher", self._accelerate(it)))
        if self._takes(TORCHRUN):
            late.on(
                "torch.distributed.launcher.api",
                lambda it: patches.around(it.elastic_launch, "__call__", self._elastic),
            )
        if self._takes(SPAWN):
            patches.everywhere(sys.modules["torch.multiprocessing.spawn"], "start_processes", self._spawned)
        if self._takes(PROCESS):
            patches.around(BaseProcess, "start", self._process)
            at_end = self._among.run_own if self._among else self._listening.end
            AT_END.append(at_end)
            patches.on_removal(lambda: AT_END.remove(at_end))
            if self._among is None:
                self._listening.attach(patches)
        if self._takes(ENVIRONMENT):
            for package in LIGHTNING:
                late.on(f"{package}.strategies.launchers.subprocess_script", lambda it: self._lightning(patches, it))
        if self._takes(SUBPROCESS) or self._takes(TORCHRUN):  # a program may start torchrun as a subprocess
            patches.around(subprocess.Popen, "__init__", self._subprocess)

    def _takes(self, launcher: str) -> bool:
        """Return whether a way of starting ranks is taken over."""
        return self._all and (self.own is None or launcher == way_of(self.launcher))

    # -- what is taken over --

    def _accelerate(self, module: ModuleType) -> Callable[..., None]:
        def launched(original: Callable[[Any], None], args: Any) -> None:
            command, env = module.prepare_simple_launcher_cmd_env(args)
            if not is_this_python(command):
                original(args)  # a program that is none of Python's
                return
            os.environ.update(env)
            self._run(command[1:], command)

        return launched

    def _elastic(self, original: Callable[..., Any], launch: Any, *arguments: Any) -> Any:
        """Go on as a rank where torchrun's agent would start the ranks: with a program, or with a function."""
        config, entry = launch._config, launch._entrypoint
        if self.has_trained() or (isinstance(entry, str) and not is_this_python([entry])):
            return original(launch, *arguments)
        if config.max_nodes != config.min_nodes:
            raise SystemExit(ELASTIC)
        words = without_unbuffered([str(word) for word in arguments]) if isinstance(entry, str) else []
        if self.own is None:
            node = config.rdzv_configs.get("rank") if config.rdzv_backend == "static" else None
            self.several(
                Would(
                    processes=config.nproc_per_node,
                    launcher=TORCHRUN,
                    launched=words,
                    nodes=config.max_nodes,
                    node=None if node is None or int(node) < 0 else int(node),
                )
            )
        own = self.own or Rank(number=0, size=1)
        os.environ.update(own.environment_in(os.environ) | of_torchrun(own, config.max_nodes))
        if not isinstance(entry, str):
            return {own.number: entry(*arguments)}
        words = [Template(word).safe_substitute(local_rank=own.local) for word in words]
        self._run(words, [entry, *words])
        return {}

    def _spawned(
        self,
        original: Callable[..., Any],
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        nprocs: int = 1,
        join: bool = True,
        *others: Any,
        **named: Any,
    ) -> Any:
        if self.has_trained():
            return original(fn, args, nprocs, join, *others, **named)
        if self.own is None or (nprocs not in (1, self.processes, *self.no_ranks)):
            self.several(Would(processes=nprocs, launcher=SPAWN))
        if self.processes > 1 and nprocs != self.processes:  # these are not the ranks
            return original(fn, args, nprocs, join, *others, **named)
        fn(self.own.local if self.own else 0, *args)
        return None if join else Joined()

    def _process(self, original: Callable[[Any], None], process: Any) -> None:
        name = function_of(process)
        if self._among is not None:
            self._among.start(original, process)
        elif name:
            self.process_started(name)
            self._listening.start(original, process, name)
        else:
            original(process)

    def _joined(self, size: int, ranks: str, refused: str) -> None:
        self.several(Would(processes=size, launcher=f"{PROCESS}:{ranks}", refused=refused))

    def _lightning(self, patches: Patches, module: ModuleType) -> None:
        def launched(original: Callable[..., Any], launcher: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(launcher, "num_nodes", 1) > 1:
                raise SystemExit(NODES_OF_LIGHTNING)
            if self.own is None:
                self.several(Would(processes=launcher.num_processes, launcher=ENVIRONMENT))
            return original(launcher, *args, **kwargs)

        patches.around(module._SubprocessScriptLauncher, "_call_children_scripts", launched)

    def _subprocess(self, original: Callable[..., None], process: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
        words = [os.fsdecode(word) for word in args] if isinstance(args, Sequence) and not isinstance(args, str) else []
        if self._entered or self.has_trained() or "LOCAL_RANK" in os.environ:  # what it starts now is its own affair
            return original(process, args, *rest, **kwargs)
        env: Mapping[str, str] = kwargs.get("env") or os.environ
        number, size = env.get("LOCAL_RANK", ""), env.get("WORLD_SIZE", "")
        ranked = number.isdecimal() and size.isdecimal() and (int(size) > 1 or self._launching)
        starts_rank = ranked and is_program(words)
        elsewhere = (words and is_remote(words)) or (starts_rank and env.get("CROSS_SIZE", "1") not in ("", "1"))
        if elsewhere and self._takes(SUBPROCESS):
            raise SystemExit(NODES_OF_DEEPSPEED)
        if starts_rank and self.own is None:
            self.several(Would(processes=int(size), launcher=SUBPROCESS, launched=without_unbuffered(words[1:])))
        if starts_rank and self.own is not None and int(number) != self.own.local:
            return original(process, ["sleep", "infinity"])  # another rank, which runs elsewhere
        if starts_rank or is_launcher(words):
            own = self.own.environment if starts_rank and self.own is not None else {}
            os.environ.update({**env, **own})
            command = words[1:] if is_this_python(words) else [script(words[0]), *words[1:]]
            self._run(without_unbuffered(command), words, trains=starts_rank)
            words = [sys.executable, "-c", ""]
            return original(process, words)
        return original(process, args, *rest, **kwargs)

    def _run(self, arguments: list[str], command: list[str], trains: bool = True) -> None:
        """Run a program in this process as its launcher would have started it: the one that trains, or a launcher."""
        self._entered, self._launching = trains, not trains
        self.taken_over()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        if threads != self._threads and threads.isdecimal():  # torch has read it before the launcher set it
            torch.set_num_threads(max(1, int(threads)))
        program = Program(arguments=arguments, folder=os.getcwd(), command=command)
        program.enter()
        program.run()


class Joined:
    """The context of processes that were started and have all ended, as `start_processes` returns it."""

    processes: tuple[Any, ...] = ()

    def join(self, timeout: float | None = None) -> bool:
        """Return that all of them have ended."""
        return True


def _leave_alone(would: Would) -> None:
    """Let a launcher start its processes itself."""
