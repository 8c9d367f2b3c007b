"""The frozen bases of an investigation's models: each is built once, and every trial that trains over it maps it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slowstep.environment.machine import this_machine
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.warm_interpreter import own_interpreter, own_path
from slowstep.records import identity
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import Model
from slowstep.settings.settings import Settings
from slowstep_probe.processes.guard import Order

BUILD = "slowstep.workloads.build_base:main"
"""What builds a base, in a process of its own."""

HOLD = "slowstep.workloads.hold_base:main"
"""What holds a base on a device, in a process of its own."""

WORKLOADS = ("finetune", "plain_loop")
"""The workloads that can train over a mapped base."""

HARMLESS = frozenset(
    {
        *("r", "lora_alpha", "lora_dropout", "target_modules", "exclude_modules", "modules_to_save", "task_type"),
        *("rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern", "use_rslora", "use_dora"),
    }
)
"""The options of LoRA with any value of which the base is only read."""

READ_ONLY_DRAWS = (True, False, "gaussian")
"""The values of `init_lora_weights` that leave the base as it is. PiSSA and OLoRA subtract the adapter from it."""

SMALL = 20e6
"""The parameters below which a base is built in a moment, so that each trial may build its own."""

WIDTH, LAYERS = ("hidden_size", "n_embd", "d_model"), ("num_hidden_layers", "n_layer", "num_layers")
INNER = ("intermediate_size", "n_inner", "ffn_dim", "d_ff")
"""The names that architectures give to the sizes of their layers."""


@dataclass(frozen=True, kw_only=True)
class FrozenBase:
    """A base that was built."""

    arena: str
    """The file that holds its tensors."""
    seconds: float
    """The seconds that building it took."""


def is_shared(settings: Settings) -> bool:
    """Return whether trials of these settings have one base: they only read it, for all that is known, and it is large.

    On the CPU they share its pages, and on a device its memory, unless each rank has a device of its own.
    """
    if settings.command or settings.workload not in WORKLOADS or not settings.peft:
        return False
    if (settings.ranks > 1 and this_machine().gpu_count) or (parameters(settings.model) or math.inf) < SMALL:
        return False
    return all(_only_reads(name, value) for name, value in settings.peft.items())


def base_of(settings: Settings) -> str | None:
    """Return the name of the base that trials of these settings map; None if they share none."""
    if not is_shared(settings):
        return None
    alone = _alone(settings)
    return identity(
        alone.model, alone.quantization, alone.training("seed"), alone.training("use_cpu"), alone.local_content()
    )


def _alone(settings: Settings) -> Settings:
    """Return settings without what leaves the base as it is."""
    model = replace(settings.model, attn_implementation=None, sdpa_backend=None, torch_compile_dynamic=None)
    return replace(settings, model=model, peft={"r": 1})


def parameters(model: Model) -> float | None:
    """Return about how many parameters a model of random weights has; None if its configuration does not tell.

    A layer of width h has 4 h² in its attention and three times h by its inner width, as in a Llama.
    """
    width, layers = (_first(model.config, names) for names in (WIDTH, LAYERS))
    if not width or not layers or model.init != "random":
        return None
    inner = _first(model.config, INNER) or 4 * width
    return layers * (4 * width**2 + 3 * width * inner) + 2 * width * float(model.config.get("vocab_size") or 0)


def _first(config: Mapping[str, Any], names: Sequence[str]) -> float | None:
    return next((float(config[name]) for name in names if isinstance(config.get(name), int | float)), None)


def _only_reads(option: str, value: Any) -> bool:
    known: Mapping[str, Any] = {"init_lora_weights": READ_ONLY_DRAWS, "bias": ("none",)}
    return option in HARMLESS or any(value is one or value == one for one in known.get(option, ()))


class FrozenBases:
    """Builds bases when a trial first needs them, and has them held on the device for trials that live together.

    What is held takes up memory of the device that another arm may need. It is let go when the next arm is launched,
    unless that or another trial that lives maps it.
    """

    def __init__(self, folder: Path, logs: Path):
        self.folder, self.logs = folder, logs
        self._built: dict[str, FrozenBase | None] = {}
        """The bases by the identity of what each follows from; None for one that could not be built."""
        self._held: dict[str, tuple[Guarded, Path]] = {}
        """The processes that hold bases on the device, and the files by which trials find what they hold."""
        self._can_be_held = bool(this_machine().gpu_count)

    def of(self, settings: Settings, seconds: float, limit: int, alone: bool = False) -> FrozenBase | None:
        """Return the base of these settings; None if a trial is to build its own, and to say what fails with it.

        It may take so many `seconds` to build, and `limit` bytes of host memory. A trial that lives `alone` is to have
        the device for itself.
        """
        key = base_of(settings)
        if key is None:
            return None
        if key not in self._built:
            self._built[key] = self._build(_alone(settings), key, seconds, limit)
        base = self._built[key]
        if base and self._can_be_held and not alone and key not in self._held and not settings.training("use_cpu"):
            self._hold(key, base, seconds, limit)
        return base

    @property
    def guards(self) -> list[int]:
        """The numbers of the processes from which those descend that hold bases."""
        return [process.guard for process, _ in self._held.values()]

    def keep_only(self, needed: Collection[str | None]) -> bool:
        """Let go of what is held on the device but for the bases that are needed. Return whether there was any."""
        over = self._held.keys() - set(needed)
        for process, handle in map(self._held.pop, over):
            handle.unlink(missing_ok=True)
            process.end()
        return bool(over)

    def _hold(self, key: str, base: FrozenBase, seconds: float, limit: int) -> None:
        """Have a base held on the device. What fails here, trials do without: they copy it."""
        log, process = self.logs / f"base-{key}-held.log", None
        try:
            order = Order(target=HOLD, arguments=[base.arena], path=own_path(), log=str(log), limit=limit)
            process = Guarded(own_interpreter(), order)
            self._held[key] = process, Path(process.receive(seconds).value)
        except (EOFError, TimeoutError):
            self._can_be_held = False
        finally:
            if process and key not in self._held:
                process.end()

    def _build(self, settings: Settings, key: str, seconds: float, limit: int) -> FrozenBase | None:
        arena = self.folder / f"base-{key}"
        log = self.logs / f"base-{key}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        asked = [to_plain(settings), str(arena)]
        order, process = Order(target=BUILD, arguments=asked, path=own_path(), log=str(log), limit=limit), None
        try:
            interpreter = own_interpreter()
            interpreter.wait(seconds)
            process = Guarded(interpreter, order)
            built = process.receive(seconds).value
            return None if built is None else FrozenBase(arena=str(arena), seconds=built)
        except (EOFError, TimeoutError):
            for path in self.folder.glob(f"{arena.name}*"):  # half of it would only take up room
                path.unlink(missing_ok=True)
            return None
        finally:
            if process:
                process.end()
