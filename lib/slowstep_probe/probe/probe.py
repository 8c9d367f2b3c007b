"""The probe: it shows where a training step's time goes. It is attached to PyTorch and not to the user's code.

It puts marks at the places where PyTorch, accelerate and Trainer pass from one phase to the next. So it works the same
for the built-in workload, for a Trainer script and for a plain loop. It relies on the following.

Which phase it is:

- Data wait and the copy to the device happen before `on_step_begin` of Trainer's callbacks, and accelerate fetches
  one batch ahead. Callbacks can't see them, so the loader's own `__next__` is marked.
- The model is whatever module is called outermost. A global hook finds it in the first steps, and makes way for hooks
  on that module alone while it runs: a global hook would slow down every submodule's call, and torch.compile would
  compile the model once with it and once without.
- A compiled function that makes a forward pass is one from its first line to its end, or to a backward pass in it.
  Hooks on the modules that it calls would be a part of its graph, and do nothing there.
- Phases do not nest: what happens inside one (the loader inside an evaluation) belongs to it. All hooks of a forward
  pass belong to it, too. What lies between the forward passes of an evaluation in the loop belongs to the evaluation
  (see `marks`), also where they leave gradients on (see `modes`).
- Gradients that are asked for (torch.autograd.grad, on which torch.func rests) are a backward pass where a program
  makes no other. Beside one they are a part of it, as a penalty on gradients is.
- What an optimizer's closure computes is no part of the optimizer.

When a step ends (see `step_ends`):

- A step ends where the next one asks for data, so that logging, saving and evaluating, which Trainer does after
  `on_step_end`, belong to the step they follow. Training that draws from no loader begins its next step with a forward
  pass. Several optimizers that step on one batch make one step.
- Ranks that train together pass a step's end only where a loader is asked that feeds the training, or, where another
  one was asked, with the next forward pass: one of them may validate by itself while the others wait for it. Where only
  some of them have a loader, and hand on what it gives, they pass it as soon as the optimizer has stepped: the one that
  asks its loader is the one that the others wait for.
- Where backward passes go on and neither a loader is asked nor a module called (functions over bare parameters, or all
  of it within a closure), nothing tells where a step begins, and a step ends where its optimizer's step does.

Which process and which thread train (see `training_thread`):

- One process trains: this one, or one that it forks. A child of one that trains already does not, and neither does a
  child before it has made a step.
- One thread trains: that in which backward passes and optimizer steps are made. Of what runs beside it in another one,
  only the batches count that are fetched there and trained on here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.utils.data.dataloader as loading
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import looking
from slowstep_probe.measured import Block, Steps, Work
from slowstep_probe.own_time import time
from slowstep_probe.patches import ITERATORS, Patches
from slowstep_probe.probe import batch_work
from slowstep_probe.probe.batches import Batches
from slowstep_probe.probe.clock import Clock, HostClock
from slowstep_probe.probe.loader_workers import Workers
from slowstep_probe.probe.model_inputs import ModelInputs
from slowstep_probe.probe.modes import Modes
from slowstep_probe.probe.optimizer_calls import OptimizerCalls
from slowstep_probe.probe.outermost import Outermost
from slowstep_probe.probe.phases import Phases
from slowstep_probe.probe.step_ends import StepEnds
from slowstep_probe.probe.tape import Tape
from slowstep_probe.probe.training_thread import TrainingThread

_count_inputs, _can_learn = looking(batch_work.count_inputs), looking(batch_work.can_learn)


class Probe:
    """Marks phases and counts work while it is attached, and gathers them into blocks.

    `at_step_boundary` is called between steps: before the first, and whenever the loop comes for data after an
    optimizer step. It may wait there for any time, since nothing is counted between `close` and `open`.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        at_step_boundary: Callable[[], None] = lambda: None,
        together: bool = False,
        meets_after: int = 0,
        epoch_of_longest: bool = False,
    ):
        """Make a probe. `together` is True if other ranks train with this one, which meet it at step boundaries.

        `meets_after` is the number of optimizer steps after which ranks meet that have not all a loader; else it is 0.
        `epoch_of_longest` tells which loader ends an epoch, see `Batches`.
        """
        self.at_step_boundary = at_step_boundary
        self.together, self.meets_after = together, meets_after
        self.fetched, self.inputs = Batches(epoch_of_longest), ModelInputs()
        self.tape = Tape(clock or HostClock(), self.fetched.training)
        self.phases = Phases(self.tape)
        self.steps = StepEnds()
        self._modes = Modes()
        self.outermost = Outermost(self._forward_begins, self._forward_ended, is_inside=self._is_within_or_elsewhere)
        self._trained = False
        """True if a step ends at the next step boundary; False before the first step."""
        self.optimizer: torch.optim.Optimizer | None = None
        """The optimizer that stepped last."""
        self._thread = TrainingThread(lambda: self.steps.begun, self._begin_in_child)
        self._fed_beside = False
        """True if the batches are fetched in another thread."""
        self._optimizers = OptimizerCalls(self.phases)
        self._late = LateImports()
        self._boundary_due = True
        self._put_off = False
        """True if the boundary that is due was not passed where a loader was asked that may not feed the training."""
        self.looked_since = 0.0
        """The moment of the first pass without gradients, by the process's clock; 0 for none."""
        self._batch_begins = True
        self._tells_later = False
        """True if the last batch of a loader shows its samples where the model is called with parts of it."""
        self._looked_at: Work | None = None
        """The work of a call since the last backward pass that can give no gradients, if no other was counted."""
        self._at_boundary = False
        self._patches = Patches()

    @property
    def clock(self) -> Clock:
        """The clock of the marks. Where another one is taken, a block begins when it is opened."""
        return self.tape.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.tape.clock = clock

    @property
    def device(self) -> str | None:
        """The kind of device that the loss lies on: 'cpu' or 'cuda'."""
        return None if self.steps.place is None else self.steps.place.type

    @property
    def models(self) -> list[torch.nn.Module]:
        """The modules that are called outermost: the model, and a loss if it is one."""
        return self.outermost.modules

    @property
    def compiled(self) -> list[Any]:
        """The functions that torch.compile made, and that make a forward pass."""
        return self.outermost.functions

    @property
    def loader(self) -> Any:
        """The loader whose batches are trained on; None if training has none."""
        return self.fetched.loader

    @property
    def workers(self) -> Workers:
        """The workers of the loader that training draws from."""
        return self.fetched.workers

    @property
    def position(self) -> int:
        """Samples trained on while attached, see `Tape.position`."""
        return self.tape.position

    def holds_steps(self, iterator: Any) -> bool:
        """Return whether the loop over a loader's iterator, which has given its last batch, holds whole steps.

        One within an optimizer's closure, or within the step of gradients that a whole epoch gives, is a part of a
        step. Where nothing ever ends a step, the first epoch is taken for such a part, in case one ends it.
        """
        if self._optimizers.in_closure:
            return False
        if self.steps.by_passes:
            return self.fetched.epochs > 1
        return self.steps.updates > self.fetched.updates_before(iterator)

    def of_training(self, errors: Mapping[int, BaseException]) -> BaseException | None:
        """Return the error that ended the thread that trains, of those that ended threads; None if it is another."""
        return self._thread.ended_by(errors)

    # -- blocks --

    @property
    def passed(self) -> Steps:
        """The steps between the last two blocks; known when the second one has ended."""
        return self.tape.passed

    def open(self) -> None:
        """Begin a block at this moment.

        By now the program may have been seen to train on another device than the one whose clock was read so far.
        """
        self.clock = self.clock.on(self.steps.place)
        self.tape.open()

    def close(self) -> tuple[Block, Steps]:
        """End the block at this moment, and return it as a whole and step by step, without a step that is under way."""
        return self.tape.close(self.step_is_due)

    @property
    def step_is_due(self) -> bool:
        """True if a step has ended whose boundary is still to come."""
        return self._trained and self._boundary_due

    @property
    def has_steps(self) -> bool:
        """True if a step has ended in the open block."""
        return self.tape.has_steps or self.step_is_due

    # -- step boundaries --

    def _boundary(self) -> None:
        """Call `at_step_boundary` before the first step or after an optimizer step, as soon as no phase is open."""
        if self._boundary_due and not self.phases.is_open and not self._at_boundary:
            self._boundary_due = self._put_off = False
            if not self._thread.takes_right():
                return
            if self._trained:
                self.tape.end_step()
                self.steps.count()
                self.outermost.step_ended()
            self._trained = self._at_boundary = True
            try:
                self.at_step_boundary()
            finally:
                self._at_boundary = False
            if not self.tape.marks:
                self.tape.mark("other")

    def _begin_in_child(self) -> None:
        self._boundary_due = False

    # -- places --

    @contextmanager
    def attached(self) -> Iterator[Probe]:
        """Attach to PyTorch, and to accelerate and transformers if they are imported, while the `with` block runs."""
        self._attach()
        try:
            yield self
        finally:
            self._patches.remove()

    def _attach(self) -> None:
        self.fetched.drawn.attach(self._patches)
        self._wrap(loading.DataLoader, ITERATORS, "data", before=self._loader_asked, after=self._iterator_made)
        self._wrap(
            loading._BaseDataLoaderIter, "__next__", "data", before=self._loader_asked, after=self._fetched_batch
        )
        self._wrap(torch.autograd, "backward", "backward", before=self._backward)  # Tensor.backward calls it
        self._wrap(torch.autograd, "grad", "backward", before=self._gradients_asked)
        self._wrap(torch.amp.GradScaler, "scale", "backward", after=self.steps.losses.scaled)
        self._wrap(torch.optim.Optimizer, "zero_grad", "optimizer", after=self._gradients_dropped)
        self._wrap(torch.nn.Module, "zero_grad", "optimizer", after=self._gradients_dropped)
        self._wrap(torch.nn.utils, "clip_grad_norm_", "optimizer")
        self._wrap(torch, "save", "save")
        self._late.on("accelerate.data_loader", lambda it: self._wrap(it, "send_to_device", "host_to_device"))
        self._late.on("transformers.trainer", self._attach_trainer)
        # callbacks that copy a checkpoint elsewhere; those on log and evaluate are called inside of Trainer's own
        self._late.on("transformers.trainer_callback", lambda it: self._wrap(it.CallbackHandler, "on_save", "save"))
        self._patches.on_removal(self._late.remove)
        self._patches.after(torch.amp.GradScaler, "step", self._not_used)
        self._patches.after(torch.optim.Optimizer, "__init__", self._optimizer_made)
        hooks = (
            register_optimizer_step_pre_hook(self._optimizer_steps),
            register_optimizer_step_post_hook(lambda optimizer, *_: self._optimizer_stepped(optimizer)),
        )
        for remove in (*(hook.remove for hook in hooks), self.outermost.remove):
            self._patches.on_removal(remove)
        self.outermost.attach()

    def _optimizer_made(self, _: None, optimizer: torch.optim.Optimizer, *__: Any, **___: Any) -> None:
        self.steps.optimizer_made(optimizer)

    def _attach_trainer(self, module: Any) -> None:
        self._wrap(module.Trainer, "log", "log")
        self._wrap(module.Trainer, "_save_checkpoint", "save")
        self._wrap(module.Trainer, "evaluate", "evaluate")

    def _wrap(
        self,
        owner: Any,
        name: str | tuple[str, ...],
        phase: str,
        before: Callable[..., int | None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        """Mark a phase around each call of a function of a class or a module, with what is done before and after it."""

        def marked(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            if phase == "backward":
                self._trains_here()
            if self._thread.is_elsewhere(fetching=phase == "data"):
                result = original(*args, **kwargs)
                if phase == "data" and after is not None:
                    after(result, *args, **kwargs)
                return result
            if phase in ("backward", "optimizer"):
                self.outermost.goes_on()
            iterator = None if before is None else before(*args, **kwargs)
            self.phases.enter(phase, iterator)
            try:
                result = original(*args, **kwargs)
            except StopIteration:
                self.fetched.exhaust(iterator)
                raise
            finally:
                self.phases.leave()
            if after is not None:
                after(result, *args, **kwargs)
            if phase == "backward":  # optimizers may have stepped within it, one for each weight
                self._meet_after_updates()
            return result

        self._patches.around(owner, name, marked)

    def _trains_here(self) -> None:
        """Take this thread for the one that trains, unless another one is within a phase."""
        if not self.phases.is_open:
            self._thread.is_here()

    def _is_within_or_elsewhere(self) -> bool:
        return self.phases.is_open or self._thread.is_elsewhere()

    def _loader_asked(self, asked: Any) -> int | None:
        """Pass a step boundary that is due, and return the number of the iterator that is asked; None for a loader."""
        iterator = asked if isinstance(asked, loading._BaseDataLoaderIter) else None
        self._leave_failed_optimizer()
        if not self.phases.is_open:
            self.steps.loader_asked()
            if iterator is not None:
                self._fed_beside = False
                self.fetched.ask(iterator)
        # one that only this rank asks, for a validation that the others wait for, is no place where all can meet
        self._put_off = self.together and (self.meets_after > 0 or not self.fetched.feeds(asked))
        if not self._put_off:
            self._boundary()
        return None if iterator is None else self.fetched.number(iterator)

    def _iterator_made(self, iterator: Any, loader: Any) -> None:
        """Note whose time the start of the workers was: that of the iterator that was made."""
        if not isinstance(iterator, loading._BaseDataLoaderIter):
            return
        self.fetched.made(iterator, loader, self.steps.updates)
        if not self.phases.is_open and not self._thread.is_elsewhere(fetching=True):
            self.tape.belongs_to(self.fetched.number(iterator))

    def _fetched_batch(self, batch: Any, iterator: Any) -> None:
        if self._thread.is_elsewhere(fetching=True):
            self._fed_beside = True
            self.fetched.ask(iterator)
            self.fetched.give(batch, iterator)
        elif not self.phases.is_open:
            self.fetched.give(batch, iterator)

    def _backward(self, tensors: Any, *_: Any, **__: Any) -> None:
        if self.phases.open != "backward":  # a checkpoint makes passes of its own
            self.steps.backward_begins()
            self._passed(tensors)

    def _gradients_asked(self, outputs: Any = None, *_: Any, **__: Any) -> None:
        """Take gradients that are asked for as a backward pass, in training that never makes one (torch.func)."""
        if not self.steps.goes_back and not self.phases.is_open:
            first = outputs[0] if isinstance(outputs, list | tuple) and outputs else outputs
            if isinstance(loss := batch_work.unwrapped(first), torch.Tensor):
                self._passed(loss)

    def _passed(self, loss: Any) -> None:
        """Count a backward pass that begins."""
        self.clock.follow()
        if self._batch_begins and self._looked_at is not None:
            self.tape.add(self._looked_at)
        self._looked_at = None
        self.fetched.feed()
        self._modes.backward()
        self._batch_begins = True
        if self.steps.passed(loss, self._optimizers.in_closure, self.models):
            self._step_ended()

    def _optimizer_steps(self, _: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Enter an optimizer's step; returns its arguments if they have to be others."""
        self._trains_here()
        if self._thread.is_elsewhere():
            return None
        self.outermost.goes_on()
        self.clock.follow()
        self.steps.has_optimizer = True
        return self._optimizers.enter(args, kwargs)

    def _leave_failed_optimizer(self) -> None:
        """End the step of an optimizer that raised an error: the program caught it, and goes on."""
        if self._optimizers.leave_failed():
            self._step_ended()

    def _optimizer_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        if self._thread.is_elsewhere():
            # an optimizer for each weight steps in a hook of the backward pass, as soon as the weight has its gradient
            if self._thread.is_of_autograd and self.phases.open == "backward":
                self._update(optimizer)
            return
        self._optimizers.leave()
        self._update(optimizer)

    def _update(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer has stepped, which ends a step."""
        self.optimizer = optimizer
        self.steps.updated(optimizer)
        self._step_ended()

    def _gradients_dropped(self, *_: Any, **__: Any) -> None:
        """Take gradients that were dropped for the end of a step, in a program without optimizers.

        Where there is one, they may be dropped within a step: after each sample whose gradient is clipped, or those of
        a critic between micro-batches.
        """
        if not self.steps.has_optimizer:
            self._not_used()

    def _not_used(self, *_: Any, **__: Any) -> None:
        """End a step whose gradients no optimizer has used, if any are left: a GradScaler leaves such steps out."""
        in_training = not self.phases.is_open and not self._optimizers.in_closure and not self._thread.is_elsewhere()
        if self.steps.losses and in_training:
            self.steps.updated()
            self._step_ended()

    def _step_ended(self) -> None:
        has_passes = self.steps.ended()
        if not has_passes and self.steps.are_unannounced and not self._meets_by_updates:
            return  # one of several optimizers, as of one for each weight: the first has passed the boundary
        self._boundary_due = self._batch_begins = True
        if self._meets_by_updates:
            self._meet_after_updates()
        elif self.steps.are_unannounced:
            self._boundary()

    def _meet_after_updates(self) -> None:
        """Pass a boundary that is due, once all optimizers of a step have stepped and no phase is open any more."""
        if self._meets_by_updates and self.steps.updates % self.meets_after == 0:
            self._boundary()

    @property
    def _meets_by_updates(self) -> bool:
        """True if step boundaries are passed when the optimizer has stepped, as all are but the first."""
        return self.meets_after > 0 and self._trained

    def _forward_ended(self) -> None:
        if self._thread.is_elsewhere():
            return
        self.phases.leave()
        if not self.phases.is_open:
            self.outermost.seek()

    def _forward_begins(self, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Enter the forward pass of a module or a function, and return whether it is one of the thread that trains."""
        if self._thread.is_elsewhere():
            return False
        inside = self.phases.is_open
        training = torch.is_grad_enabled() and (inside or not self._modes.only_looks(module))
        if training and self._thread.number is None:
            self._trains_here()
        self._leave_failed_optimizer()
        if not self.phases.is_open and not training:
            self.fetched.look_begins()
            self.looked_since = self.looked_since or time.monotonic()
            self.steps.looks += 1
        if not self.phases.is_open and training:
            self.fetched.pass_begins()
            if not self._optimizers.in_closure:
                self.steps.model_called()
                no_loader = not self.fetched.feeds_next or self._fed_beside or self.steps.asks_no_loader
                if (no_loader or self._put_off) and not self._meets_by_updates:
                    self._boundary()
            if self._batch_begins:
                self._batch_met(module, args, kwargs)
        self.phases.enter("forward" if training else "evaluate")
        return True

    def _batch_met(self, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count the work of the batch that training begins with: a loader's, or what the model is called with.

        What a call that can give no gradients is made with counts only where no other call comes before the backward
        pass: such a module may look at more, or have its weights from elsewhere.
        """
        done = self.fetched.take()
        no_loader = not self.fetched.training or (self.steps.asks_no_loader and not self._fed_beside)
        if done is not None:
            self.steps.batch_taken()
            self.inputs.add(done.samples, args, kwargs)
            self._tells_later = not done.samples
            if not done.samples:  # it becomes tensors after the loader has given it, maybe part by part
                done = replace(done, samples=(_count_inputs(args, kwargs, module) or done).samples)
        elif (no_loader or self._tells_later) and not (self._optimizers.in_closure and self.steps.losses):
            done = _count_inputs(args, kwargs, module)
            if _can_learn(module, args, kwargs) is False:
                self._looked_at, done = self._looked_at or done, None
        if done is not None:
            self.tape.add(done)
            self._batch_begins, self._looked_at = False, None
