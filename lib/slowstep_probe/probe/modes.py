"""The modes of modules, by which a validation that leaves its gradients on is told from training."""

from __future__ import annotations

from weakref import WeakSet

import torch


class Modes:
    """Tells passes that train from those that only look, by `module.training`.

    A validation switches its model to evaluation mode, though it may forget torch.no_grad(). Some programs train in
    that mode, too, on purpose or since they forget to switch back. So passes in it only look while every backward pass
    so far came after one in training mode.
    """

    def __init__(self) -> None:
        self._were: WeakSet[torch.nn.Module] = WeakSet()
        """The modules that were called in training mode. A frozen network that never was belongs to the step."""
        self._learning: WeakSet[torch.nn.Module] = WeakSet()
        """The modules that were called and have parameters."""
        self._now = True
        """The mode of the module that was called last. One without parameters, as a loss, has that of the model."""
        self._met: set[bool] = set()
        """The modes of passes since the last backward pass."""
        self._trained: set[bool] = set()
        """Whether backward passes came after a pass in training mode."""

    def only_looks(self, module: torch.nn.Module | None) -> bool:
        """Return whether a pass with gradients that begins is no part of training, as far as is known.

        That of a function whose module is not known has the mode of the module that was called last.
        """
        if module is not None and self._learns(module):
            if module.training:
                self._were.add(module)
            self._now = module.training or module not in self._were
        self._met.add(self._now)
        return not self._now and self._trained == {True}

    def _learns(self, module: torch.nn.Module) -> bool:
        """Return whether a module has parameters. To look for them takes a while, so it is looked once for each."""
        if module not in self._learning and next(module.parameters(), None) is not None:
            self._learning.add(module)
        return module in self._learning

    def backward(self) -> None:
        """Note a backward pass."""
        if self._met:
            self._trained.add(True in self._met)
            self._met.clear()
