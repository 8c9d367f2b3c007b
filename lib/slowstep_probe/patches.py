"""Functions of libraries that are replaced while a program runs, and put back afterwards."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

from slowstep_probe.looks import looking

Around = Callable[..., Any]
"""`around(original, *args, **kwargs)`: called in place of the original, which it calls itself."""

ITERATORS = ("__iter__", "_get_iterator")
"""The methods that give an iterator over a DataLoader. The first calls the second, and so do loaders of subclasses that
keep one iterator for all epochs."""


class Patches:
    """Replaced functions. They stand on classes and modules, so no object carries one when it is pickled."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def around(self, owner: Any, name: str | tuple[str, ...], function: Around) -> None:
        """Have `function(original, *args, **kwargs)` called in place of the attribute `name` of a class or a module.

        Several names are methods that may call each other: only the outermost call of an object is replaced. What is
        awaited (`async def`) is so afterwards, too, whether `function` returns something to await or not.
        """
        if isinstance(name, tuple):
            outermost = _outermost(function)
            for each in name:
                self.around(owner, each, outermost)
            return
        own = name in vars(owner)
        original = getattr(owner, name)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        @functools.wraps(original)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            result = function(original, *args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        setattr(owner, name, awaited if inspect.iscoroutinefunction(original) else patched)
        self._undo.append(lambda: setattr(owner, name, original) if own else delattr(owner, name))

    def class_method(self, owner: type, name: str, function: Around) -> None:
        """Replace a class method as `around` does: `function(original, cls, …)` is called with the class asked."""
        kept = vars(owner)[name]

        @functools.wraps(kept.__func__)
        def patched(cls: type, /, *args: Any, **kwargs: Any) -> Any:
            return function(kept.__func__, cls, *args, **kwargs)

        setattr(owner, name, classmethod(patched))
        self._undo.append(lambda: setattr(owner, name, kept))

    def of_subclasses(self, base: type, functions: Mapping[str, Around]) -> None:
        """Replace methods by name as `around` does, in a class and in each subclass that has a method of its own.

        Subclasses that are yet to come are among them. Where a method calls its parent's, both are replaced.
        """

        def replace_own(kind: type) -> None:
            for name, function in functions.items():
                if name in vars(kind):
                    self.around(kind, name, function)

        def born(original: Callable[..., None], cls: type, **kwargs: Any) -> None:
            original(cls, **kwargs)
            replace_own(cls)

        for kind in (base, *_descendants(base)):
            replace_own(kind)
        own = "__init_subclass__" in vars(base)
        if not own:
            base.__init_subclass__ = classmethod(lambda cls, **kwargs: super(base, cls).__init_subclass__(**kwargs))  # type: ignore[assignment,misc]
            self._undo.append(lambda: delattr(base, "__init_subclass__"))
        self.class_method(base, "__init_subclass__", born)

    def everywhere(self, module: ModuleType, name: str, function: Around) -> None:
        """Replace a function of a module as `around` does, and wherever a module has imported it, by whatever name."""
        self.all_everywhere(module, {name: function})

    def all_everywhere(self, module: ModuleType, functions: Mapping[str, Around]) -> None:
        """Replace several functions of a module as `everywhere` does, and look through all modules once."""
        originals = {name: getattr(module, name) for name in functions}
        for name, function in functions.items():
            self.around(module, name, function)
        patched = {id(original): getattr(module, name) for name, original in originals.items()}
        for holder in list(sys.modules.values()):
            held = getattr(holder, "__dict__", None)
            found = [(key, id(value)) for key, value in list(held.items())] if type(held) is dict else []
            for own, original in found:
                if original in patched:
                    self.replace(holder, own, patched[original])

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Have the attribute `name` of a class or a module, which is its own, be `value`."""
        original = getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, original))

    def after(self, owner: Any, name: str | tuple[str, ...], function: Callable[..., None]) -> None:
        """Have `function(result, *args, **kwargs)` called after the attribute `name` of a class or a module."""

        def around(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            function(result, *args, **kwargs)
            return result

        self.around(owner, name, around)

    def look(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        """Have a function that only looks called as `after` does: nothing that it raises reaches the program.

        It is not called within what torch.compile makes a graph of.
        """
        self.around(owner, name, _looking_after(function))

    def look_everywhere(self, module: ModuleType, name: str, function: Callable[..., Any]) -> None:
        """Have a function of a module looked at as `look` does, wherever a module has imported it."""
        self.everywhere(module, name, _looking_after(function))

    def on_removal(self, function: Callable[[], Any]) -> None:
        """Have a function called when everything is put back."""
        self._undo.append(function)

    def remove(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            self._undo.pop()()


def _looking_after(function: Callable[..., Any]) -> Around:
    """Return what calls the original, and then a function that only looks, with the result and the arguments."""
    looks = looking(function)

    def around(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not torch.compiler.is_compiling():
            looks(result, *args, **kwargs)
        return result

    return around


def _outermost(function: Around) -> Around:
    """Return what leaves out `function` where a method is called by another one of the same object."""
    within = threading.local()

    def around(original: Callable[..., Any], one: Any, *args: Any, **kwargs: Any) -> Any:
        objects = vars(within).setdefault("objects", [])
        if any(each is one for each in objects):
            return original(one, *args, **kwargs)

        def noted(*args: Any, **kwargs: Any) -> Any:
            objects.append(one)
            try:
                return original(*args, **kwargs)
            finally:
                objects.pop()

        return function(noted, one, *args, **kwargs)

    return around


def _descendants(kind: type) -> list[type]:
    return [each for child in kind.__subclasses__() for each in (child, *_descendants(child))]
