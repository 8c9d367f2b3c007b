"""What a program calls outermost: its models, a loss if it is one, and functions of these that are compiled."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._pytree import tree_leaves

from slowstep_probe.looks import looking
from slowstep_probe.probe.graphs import COMPILED, dynamo
from slowstep_probe.probe.hooks import WatchingHook
from slowstep_probe.probe.own_calls import OwnCalls

SOUGHT = 2
"""The steps in which modules are sought that are called outermost. Some are first called after an optimizer's step, or
in every second step."""

MAKES_ANOTHER = (
    *((torch.jit, name) for name in ("script", "trace", "trace_module")),
    (torch.cuda, "make_graphed_callables"),
)
"""Functions that make something else of a module, and that hooks would be a part of, or that refuse a module with
hooks."""


class Outermost:
    """Finds the modules that are called outermost in the first steps, and puts hooks on those alone.

    `begins(module, args, kwargs)` and `ends()` are called around each of their passes; a pass for which `begins`
    returns False is none. `is_inside` tells whether something runs now within which a call is not outermost.

    Hooks would be a part of what torch.compile makes of a function, so no module is sought while a compiled function
    runs. Where one makes a forward pass, its call is the pass, up to its end or to a backward pass within it.
    """

    def __init__(
        self,
        begins: Callable[[torch.nn.Module | None, tuple[Any, ...], dict[str, Any]], bool],
        ends: Callable[[], None],
        is_inside: Callable[[], bool],
        steps: float = SOUGHT,
    ):
        """Make it. Modules are sought in as many `steps` as are told by `step_ended`."""
        self._sought = steps
        self._begins, self._ends, self._is_inside = begins, ends, is_inside
        self.modules: list[torch.nn.Module] = []
        """The modules that were called outermost, and those that compiled functions call."""
        self.functions: list[Any] = []
        """The compiled functions that make a forward pass."""
        self._called: list[_Watched] = []
        """The modules that have hooks, with these."""
        self._own = OwnCalls(self._own_call)
        self._passes: list[_Watched | _OwnPass] = []
        """The passes that are under way, outermost first."""
        self._steps = 0.0
        """Steps so far in which modules were sought."""
        self._discovery: Any = None
        """The global hook, while it is there."""
        self._undo: list[Callable[[], None]] = []
        self._in_function = self._went_on = False
        """Whether a compiled function makes a forward pass now; whether the one that runs has gone on to another
        phase."""
        self._watches = False
        """True while passes are told."""
        self.at_pass: Callable[[torch.nn.Module | None, tuple[Any, ...], dict[str, Any]], object] | None = None
        """Called at the beginning of each pass; None while nobody asks."""

    @property
    def is_open(self) -> bool:
        """True within a pass."""
        return bool(self._passes) or self._in_function

    def attach(self) -> None:
        self._watches = True
        original = torch.compile

        @functools.wraps(original)
        def compiling(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            leave_out_of_graphs()
            return self._watched(made) if inspect.isfunction(made) and hasattr(made, COMPILED) else made

        torch.compile = compiling
        self._undo.append(lambda: setattr(torch, "compile", original))
        for owner, name in MAKES_ANOTHER:
            self._lift_around(owner, name)
        self._own.attach()
        self._undo.append(self._own.remove)
        self.seek()

    def seek(self) -> None:
        """Seek modules, or go on with it after a pass."""
        if self._discovery is None and self._steps < self._sought:
            self._discovery = register_module_forward_pre_hook(self._discover)

    def step_ended(self) -> None:
        """Count a step. After enough of them no more modules are sought."""
        self._steps += 1
        if self._steps == self._sought:
            self._pause()
        for one in self._called:
            one.hook()  # the program may have cleared its hooks

    def rest(self) -> None:
        """Remove all hooks, leave compiled functions alone, and forget the modules, which may be gone soon."""
        self._pause()
        while self._called:
            self._called.pop().remove()
        self.modules.clear()
        self.functions.clear()
        self._passes.clear()
        self._in_function = self._watches = False
        self._steps = self._sought

    def seek_anew(self) -> None:
        """Seek modules in as many steps again. Outside of a pass those are forgotten that are known."""
        if not self.is_open:
            self.rest()
        self._watches, self._steps = True, 0.0
        if not self.is_open:
            self.seek()

    def remove(self) -> None:
        """Remove all hooks, and leave compiled functions alone. The modules stay known."""
        self._pause()
        while self._called:
            self._called.pop().remove()
        while self._undo:
            self._undo.pop()()
        self._watches, self._steps = False, self._sought

    def goes_on(self) -> None:
        """End the forward pass of the compiled function that runs: it goes on to another phase by itself.

        A pass whose hooks were cleared within it has no other end, either.
        """
        self._went_on = True
        if self._passes and not self._passes[0].ends:
            self._end(self._passes[0])
        if self._in_function:
            self._in_function = False
            self._ends()

    def _pause(self) -> None:
        if self._discovery is not None:
            self._discovery.remove()
            self._discovery = None

    def _discover(self, module: torch.nn.Module, *inputs: Any) -> None:
        if torch.compiler.is_compiling() or self._is_inside():
            return
        self._pause()
        if all(module is not known.module for known in self._called):
            one = _Watched(module, self._begin, self._end)
            self._called.append(one)
            self._meet(module)
            one.hook()
            self._begin(one, inputs[0] if inputs else (), {})

    def _begin(self, one: _Watched, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._enters(one.module, args, kwargs):
            self._passes.append(one)

    def _enters(self, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        begins = self._begins(module, args, kwargs)
        if begins and self.at_pass is not None:
            self.at_pass(module, args, kwargs)
        return begins

    def _own_call(self, original: Any, module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Answer the call of a module that takes no hooks, by its own, which is a pass until it trains by itself."""
        if torch.compiler.is_compiling() or not self._watches or self._is_inside():
            return original(module, *args, **kwargs)
        if all(module is not known for known in self.modules):
            if self._steps >= self._sought:
                return original(module, *args, **kwargs)
            self._meet(module)
        self._pause()
        one = _OwnPass()
        if self._enters(module, args, kwargs):
            self._passes.append(one)
        try:
            return original(module, *args, **kwargs)
        finally:
            self._end(one)
            if not self._is_inside():
                self.seek()

    def _end(self, one: _Watched | _OwnPass) -> None:
        """End the last pass of a module, and those within it that had no end. One that did not begin has none."""
        ends = one in self._passes
        while ends:
            ends = self._passes.pop() is not one
            self._ends()

    def _lift_around(self, owner: Any, name: str) -> None:
        """Have a function that makes something else of a module find it without hooks."""
        original = vars(owner).get(name)
        if original is None:
            return

        @functools.wraps(original)
        def lifted(*args: Any, **kwargs: Any) -> Any:
            if name == "script":  # it looks for names in the frame that calls it
                args, kwargs = args[:2], kwargs | {"_frames_up": kwargs.get("_frames_up", 0) + 1}
            self._pause()
            for one in self._called:
                one.remove()
            try:
                return original(*args, **kwargs)
            finally:
                for one in self._called:
                    one.hook()
                if not self._is_inside():
                    self.seek()

        setattr(owner, name, lifted)
        self._undo.append(lambda: setattr(owner, name, original))

    def _meet(self, module: torch.nn.Module) -> None:
        if all(module is not known for known in self.modules):
            self.modules.append(module)

    def _watched(self, function: Any) -> Any:
        """Return a compiled function whose calls are watched. Where it calls a module, it is known to make a pass.

        Any other one is known by its first call: what it returns has gradients, or it went on to a backward pass.
        """
        own = getattr(getattr(function, COMPILED), "__self__", None)
        makes_pass = isinstance(own, torch.nn.Module)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal makes_pass
            if torch.compiler.is_compiling() or not self._watches or self._is_inside():
                return function(*args, **kwargs)
            self._pause()
            self._went_on = False
            if makes_pass:
                self._function_begins(function, args, kwargs)
            try:
                result = function(*args, **kwargs)
            finally:
                if self._in_function:
                    self._in_function = False
                    self._ends()
                self.seek()
            if not makes_pass and (self._went_on or looking(_has_gradients)(result)):
                makes_pass = True
                self._function_begins(function, args, kwargs)
                self.goes_on()
            return result

        return watched

    def _function_begins(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        called = looking(modules_of)(getattr(function, COMPILED), args, kwargs) or []
        for module in called:
            self._meet(module)
        if all(function is not known for known in self.functions):
            self.functions.append(function)
        self._in_function = self._enters(called[0] if called else None, args, kwargs)


class _OwnPass:
    """A pass of a module that answers calls by itself. A backward pass or an update within it ends it."""

    ends = False


class _Watched:
    """A module that is called outermost, with its hooks.

    A module of TorchScript takes none. Hooks on all modules stand in for them, which look for this one: nothing within
    it is called by Python, so they slow nothing down.
    """

    def __init__(self, module: torch.nn.Module, begin: Callable[..., None], end: Callable[[_Watched], None]):
        self.module = module
        self._begin, self._end = begin, end
        self._pre: Any = None
        self._post: Any = None
        self._scripted = isinstance(module, torch.jit.ScriptModule)

    @property
    def ends(self) -> bool:
        """True if the hook that ends a pass is there."""
        return self._post is not None and (self._scripted or self._post.id in self.module._forward_hooks)

    def hook(self) -> None:
        """Put those hooks on the module that it lacks."""
        if self._scripted:
            if self._pre is None:
                self._pre = register_module_forward_pre_hook(WatchingHook(self._called))
                self._post = register_module_forward_hook(WatchingHook(self._returned), always_call=True)
            return
        if self._pre is None or self._pre.id not in self.module._forward_pre_hooks:
            # it holds this object, and not the module, of which there may be copies
            self._pre = self.module.register_forward_pre_hook(
                WatchingHook(self._called), prepend=True, with_kwargs=True
            )
        if not self.ends:
            self._post = self.module.register_forward_hook(WatchingHook(self._returned), always_call=True)

    def remove(self) -> None:
        """Remove the hooks."""
        for each in (self._pre, self._post):
            if each is not None:
                each.remove()
        self._pre = self._post = None

    def _called(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        if self._scripted and module is not self.module:
            return
        self.hook()
        if not self._scripted:  # hooks that were added since are part of the pass
            self.module._forward_hooks.move_to_end(self._post.id)
        self._begin(self, args, kwargs or {})

    def _returned(self, module: torch.nn.Module, *_: Any) -> None:
        if not self._scripted or module is self.module:
            self._end(self)


def leave_out_of_graphs() -> None:
    """Have torch.compile make no graphs of the kit's own functions that are called between two graphs of a program.

    They would run as if they were a part of a graph. Where they are a part of one they do nothing.
    """
    skip = getattr(dynamo("eval_frame"), "skip_code", None)
    for name, module in list(sys.modules.items()) if skip is not None else ():
        if name.partition(".")[0] == "slowstep_probe":
            for code in _codes(vars(module).values(), name):
                skip(code)


def _codes(values: Iterable[Any], module: str) -> Iterator[CodeType]:
    for value in values:
        if isinstance(value, CodeType):
            yield value
            yield from _codes(value.co_consts, module)
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes(list(vars(value).values()), module)
        elif isinstance(value, property):
            yield from _codes([value.fget], module)
        elif inspect.isfunction(value):
            yield from _codes([inspect.unwrap(value).__code__], module)


def modules_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.nn.Module]:
    """Return the modules with parameters that a function can call: those that it is given, knows, or belongs to."""
    held = [*args, *kwargs.values(), *_held_by(function)]
    found = {id(one): one for one in held if isinstance(one, torch.nn.Module)}
    return [one for one in found.values() if next(one.parameters(), None) is not None]


def _held_by(function: Any) -> Iterator[Any]:
    while isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        function = function.func
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield owner
    elif owner is not None:
        yield from getattr(owner, "__dict__", {}).values()
    if inspect.isfunction(function):
        known = inspect.getclosurevars(function)
        yield from (*known.nonlocals.values(), *known.globals.values())


def _has_gradients(result: Any) -> bool:
    return any(isinstance(one, torch.Tensor) and one.requires_grad for one in tree_leaves(result))
