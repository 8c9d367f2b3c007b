"""Functions that run when a module is imported, however late the program imports it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType

Action = Callable[[ModuleType], None]


class LateImports(importlib.abc.MetaPathFinder):
    """Runs actions on modules: at once for those that are imported, else right after their code has run."""

    def __init__(self) -> None:
        self._actions: dict[str, list[Action]] = {}

    def on(self, name: str, action: Action) -> None:
        """Run `action(module)` as soon as the module `name` is there."""
        module = sys.modules.get(name)
        if module is not None and not _is_loading(module):
            action(module)
            return
        self._actions.setdefault(name, []).append(action)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Forget all actions that have not run."""
        self._actions.clear()
        if self in (sys.meta_path or ()):  # None where the interpreter ends
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> object:
        """Return the spec that the later finders give, with a loader that runs the actions; None for other modules."""
        if name not in self._actions:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]  # others of this kind are asked, and none asks back
        for finder in [f for f in later if hasattr(f, "find_spec")]:
            spec = finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, lambda module: self._run(name, module))
                return spec
        return None

    def _run(self, name: str, module: ModuleType) -> None:
        for action in self._actions.pop(name, []):
            action(module)


class _Loader(importlib.abc.Loader):
    """Another loader, and what is done after it."""

    def __init__(self, loader: importlib.abc.Loader, after: Action):
        self._loader, self._after = loader, after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader  # what reads its source finds the loader it knows
        self._loader.exec_module(module)
        self._after(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


def _is_loading(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
