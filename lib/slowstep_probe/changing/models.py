"""Changes of a model that has trained a step: checkpointing, attention, autocast, compiling."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

from slowstep_probe.changing.double_precision import is_double, to_single
from slowstep_probe.changing.idle_gradients import IdleGradients
from slowstep_probe.changing.optimizers import note_made, states_of
from slowstep_probe.changing.thrown_gradients import ThrownGradients
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, here
from slowstep_probe.probe.hooks import Hook
from slowstep_probe.probe.own_calls import takes_hooks

CHECKPOINTING = "training_arguments.gradient_checkpointing"
ATTENTION_KEY = "model.attn_implementation"
COMPILE = "training_arguments.torch_compile"
MODE = "training_arguments.torch_compile_mode"
BACKEND = "training_arguments.torch_compile_backend"
DYNAMIC = "model.torch_compile_dynamic"
MEMORY_FORMAT = "model.memory_format"
DOUBLE = "model.double_precision"
IDLE = "model.idle_gradients"
EXPERTS = "model.experts_implementation"
NUMBERS_OF_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""The names that configurations of transformers have for the number of experts."""
BY_ITSELF = (
    "the model's class answers calls by a `__call__` of its own, which comes to no hooks and to nothing compiled"
)
"""Why a change that is made around a model's calls has no place."""
IMAGE = 4
"""The dimensions of a batch of images, and of a convolution's weights."""
BF16 = "training_arguments.bf16"
AUTOCAST = {BF16: torch.bfloat16, "training_arguments.fp16": torch.float16}

CALLS = 64
"""The calls of a model whose lines are noted."""

AROUND_CALLS = ((MEMORY_FORMAT, "channels_last"), (DOUBLE, False), (COMPILE, True), *((key, True) for key in AUTOCAST))
"""The changes that are made around a model's calls."""


class ModelChanges:
    """Changes models when they are known: after their first step.

    Where the program trains by Trainer, its TrainingArguments say what becomes of checkpointing, compiling and autocast
    (`slowstep_probe.changing.configurations`), and only attention is changed here.
    """

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self._switched_off = False
        self._optimizers: WeakSet[torch.optim.Optimizer] = WeakSet()
        self._met: WeakSet[torch.nn.Module] = WeakSet()
        self._changed: WeakSet[torch.nn.Module] = WeakSet()
        """The models that were known with weights to train, which are changed once."""

    def attach(self, patches: Patches) -> None:
        """Begin: switch off checkpointing that the program asks for, wherever it has the function from."""
        if self.wanted.values.get(CHECKPOINTING) is False:
            patches.everywhere(torch.utils.checkpoint, "checkpoint", self._passed_through)
        if self.wanted.values.get(IDLE) is False:
            for kind in (IdleGradients, ThrownGradients):
                kind(lambda: self._met, self._found_idle).attach(patches)
        if MEMORY_FORMAT in self.wanted or DOUBLE in self.wanted:
            note_made(patches, self._optimizers)
        arithmetic = [self.wanted[key] for key in AUTOCAST if key in self.wanted]
        if arithmetic and not any(arithmetic):
            patches.around(torch.amp.autocast_mode.autocast, "__enter__", self._not_entered)

    def _found_idle(self) -> None:
        self.wanted.note(IDLE, "requires_grad_", True, False)

    def _not_entered(self, original: Any, context: Any) -> Any:
        """Enter an autocast of the program's own as one that is switched off."""
        if context._enabled:
            key = next((key for key, dtype in AUTOCAST.items() if dtype == context.fast_dtype), BF16)
            self.wanted.note_once(key, "torch.autocast", True, False)
            context._enabled = False
        return original(context)

    def _passed_through(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._switched_off:
            self._switched_off = True
            self.wanted.note(CHECKPOINTING, "torch.utils.checkpoint.checkpoint", True, False)
        own = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")
        return function(*args, **{name: value for name, value in kwargs.items() if name not in own})

    def settle(self, models: Sequence[torch.nn.Module], by_trainer: bool) -> list[str]:
        """Make the changes in models that have trained, and that are new.

        Return why those were not made that have no place there. Beside models that were changed before, any may lack
        one.
        """
        self._met.update(models)
        first = not self._changed
        new = [one for one in models if _unwrapped(one) not in self._changed]
        trained = [one for one in new if any(p.requires_grad for p in one.parameters())]
        called = [_unwrapped(one) for one in trained]
        self._changed.update(called)
        if not called:
            return []
        inner = [one.get_base_model() if hasattr(one, "get_base_model") else one for one in called]
        refused = []
        if ATTENTION_KEY in self.wanted:
            refused.append(self._attention(inner))
        around = not by_trainer and any(self.wanted.values.get(key) == value for key, value in AROUND_CALLS)
        if around and not all(takes_hooks(type(one)) for one in (*trained, *called)):
            refused.append(BY_ITSELF)  # the others may be a loss, and no change of it is one of the model
            trained, called = [], []
        if self.wanted.values.get(MEMORY_FORMAT) == "channels_last":
            refused.append(self._channels_last(called))
        if EXPERTS in self.wanted:
            refused.append(self._experts(inner))
        if self.wanted.values.get(DOUBLE) is False:
            refused.append(self._single_precision(called))
        if not by_trainer:
            if self.wanted.values.get(CHECKPOINTING) is True:
                refused.append(self._checkpoint(inner))
            self._arithmetic(trained, called)
        return [why for why in refused if why and first]

    def _arithmetic(self, trained: Sequence[torch.nn.Module], called: Sequence[torch.nn.Module]) -> None:
        """Have models compiled, or computed under autocast: those `called`, which are inside of those `trained`."""
        if self.wanted.values.get(COMPILE):
            for one in called:
                mode, backend = self.wanted.values.get(MODE), self.wanted.values.get(BACKEND)
                more = {"backend": backend} if backend else {}
                _compile(one, mode=mode, dynamic=self.wanted.values.get(DYNAMIC), **more)
                self.wanted.note(COMPILE, type(one).__name__, False, True)
        for key, kind in AUTOCAST.items():
            if self.wanted.values.get(key):
                for outer, one in zip(trained, called, strict=True):
                    _under_autocast(_compiled_whole(outer) or one, kind, self._noting_calls(key, type(one).__name__))

    def _noting_calls(self, key: str, name: str) -> Callable[[], None]:
        """Note a change around a model's calls, and return what notes the lines of the first of them in its place.

        Before the model is called again, no more than the line of the loop is known.
        """
        self.wanted.note(key, name, False, True)
        first, lines, left = self.wanted.made[-1], set[CodePlace](), CALLS

        def note() -> None:
            nonlocal left
            if torch.compiler.is_compiling() or not left:
                return
            left -= 1
            if (line := here()) in lines:
                return
            if not lines:
                self.wanted.made.remove(first)
            lines.add(line)
            self.wanted.note(key, name, False, True, place=line)

        return note

    def _attention(self, models: Sequence[torch.nn.Module]) -> str | None:
        able = [part for one in models for part in _topmost(one, "set_attn_implementation")]
        if not able:
            return "the model is none of transformers', so its attention can't be exchanged"
        for one in able:
            before = getattr(one.config, "_attn_implementation", None)
            one.set_attn_implementation(self.wanted[ATTENTION_KEY])
            self.wanted.note(ATTENTION_KEY, type(one).__name__, before, self.wanted[ATTENTION_KEY])
        return None

    def _experts(self, models: Sequence[torch.nn.Module]) -> str | None:
        configurations = {id(c): c for one in models for c in configurations_of(one) if experts_of(c)}
        if not configurations:
            return "the model has no experts of transformers', so the way over them can't be exchanged"
        for configuration in configurations.values():
            before, configuration._experts_implementation = experts_of(configuration), self.wanted[EXPERTS]
            self.wanted.note(EXPERTS, type(configuration).__name__, before, self.wanted[EXPERTS])
        return None

    def _channels_last(self, models: Sequence[torch.nn.Module]) -> str | None:
        able = [one for one in models if any(isinstance(m, torch.nn.Conv2d) for m in one.modules())]
        if not able:
            return "the model has no convolutions, so it has no channels to put last"
        for one in able:
            for part in (*one.parameters(), *one.buffers()):
                if part.dim() == IMAGE:
                    part.data = part.data.to(memory_format=torch.channels_last)
            one.register_forward_pre_hook(Hook(_images_last), with_kwargs=True)
            self.wanted.note(MEMORY_FORMAT, type(one).__name__, "contiguous", "channels_last")
        for optimizer in self._optimizers:  # an update goes over weights and states side by side
            for _, state in states_of(optimizer):
                for name, value in state.items():
                    if isinstance(value, torch.Tensor) and value.dim() == IMAGE:
                        state[name] = value.to(memory_format=torch.channels_last)
        return None

    def _single_precision(self, models: Sequence[torch.nn.Module]) -> str | None:
        able = [one for one in models if is_double(one)]
        if not able:
            return "the model trains no weights of 64 bits"
        for one in able:
            to_single(one, self._optimizers)
            self.wanted.note(DOUBLE, type(one).__name__, True, False)
        return None

    def _checkpoint(self, models: Sequence[torch.nn.Module]) -> str | None:
        made = False
        for one in models:
            if getattr(one, "supports_gradient_checkpointing", False):
                one.gradient_checkpointing_enable({"use_reentrant": False})
            else:
                blocks = max(
                    (list(m) for m in one.modules() if isinstance(m, torch.nn.ModuleList)), key=len, default=[]
                )
                if not blocks:
                    continue
                for block in blocks:
                    block.forward = functools.partial(
                        torch.utils.checkpoint.checkpoint, block.forward, use_reentrant=False
                    )
            made = True
            self.wanted.note(CHECKPOINTING, type(one).__name__, False, True)
        return None if made else "the model has no list of blocks to recompute"


def _unwrapped(model: Any) -> Any:
    """Return the model inside of what runs it on several devices, or compiled. LoRA's is a model of its own."""
    while isinstance(getattr(model, "module", None), torch.nn.Module):
        model = model.module
    return getattr(model, "_orig_mod", model)


def _compiled_whole(model: Any) -> torch.nn.Module | None:
    """Return the module that torch.compile has made of a model, whose own hooks are no part of its graphs."""
    while not hasattr(model, "_orig_mod") and isinstance(getattr(model, "module", None), torch.nn.Module):
        model = model.module
    return model if hasattr(model, "_orig_mod") else None


def _topmost(module: torch.nn.Module, method: str) -> list[Any]:
    """Return the modules that have a method, and are in none that has it."""
    if hasattr(module, method):
        return [module]
    return [found for child in module.children() for found in _topmost(child, method)]


def _compile(model: torch.nn.Module, **given: Any) -> None:
    """Have a model's call compiled in place, as its own `compile()` does.

    Dynamo compiles no call of a class of PyTorch's own, as of torch.nn.Sequential, unless it is made by other code.
    """
    if type(model).forward.__module__.startswith("torch.nn.modules"):
        from torch._dynamo.external_utils import wrap_inline  # it takes seconds; torch.compile(model) does the same

        model._compiled_call_impl = torch.compile(wrap_inline(model._call_impl), **given)
    else:
        model.compile(**given)


def _under_autocast(model: torch.nn.Module, dtype: torch.dtype, called: Callable[[], None] = lambda: None) -> None:
    """Let a model compute under autocast. Copies do so, too; a model that is saved whole does not.

    `called` is called at each of its calls.

    Where its call is compiled in place, hooks would break its graph, and autocast is entered around that call. A copy
    of such a model has neither, as PyTorch copies no compiled call.
    """
    compiled = getattr(model, "_compiled_call_impl", None)
    if compiled is not None:

        @functools.wraps(compiled)
        def under_autocast(*args: Any, **kwargs: Any) -> Any:
            called()
            with torch.autocast(computes_on(model, (args, kwargs)), dtype):
                return compiled(*args, **kwargs)

        model._compiled_call_impl = under_autocast
        return
    entered: list[Any] = []

    def enter(_: torch.nn.Module, *given: Any) -> None:
        called()
        entered.append(torch.autocast(computes_on(model, given), dtype))
        entered[-1].__enter__()

    def leave(*_: Any) -> None:
        if entered:
            entered.pop().__exit__(None, None, None)

    model.register_forward_pre_hook(Hook(enter), with_kwargs=True)
    model.register_forward_hook(Hook(leave), always_call=True)


def computes_on(model: torch.nn.Module, given: Any) -> str:
    """Return the kind of device that a model computes on with what it is given.

    Weights may be kept in the host's memory until they are used (FSDP's and ZeRO's offloading), and a model may move
    its inputs to its device itself. So the host computes only where neither lies elsewhere.
    """
    inputs = [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
    kinds = (one.device.type for one in (*inputs, next(model.parameters())))
    return next((kind for kind in kinds if kind != "cpu"), "cpu")


def _images_last(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return the arguments of a forward pass with the channels of images last."""
    return tuple(map(_image_last, args)), {name: _image_last(value) for name, value in kwargs.items()}


def _image_last(value: Any) -> Any:
    image = isinstance(value, torch.Tensor) and value.dim() == IMAGE and value.is_floating_point()
    return value.to(memory_format=torch.channels_last) if image else value


def configurations_of(model: torch.nn.Module) -> list[Any]:
    """Return the configurations that the modules of a model of transformers hold."""
    found = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None}
    return list(found.values())


def experts_of(configuration: Any) -> str | None:
    """Return how a model of transformers goes over its experts; None if it has none, or no choice."""
    numbers = [getattr(configuration, name, None) for name in NUMBERS_OF_EXPERTS]
    has_experts = any(isinstance(number, int) and number > 1 for number in numbers)
    return getattr(configuration, "_experts_implementation", None) if has_experts else None
