"""Workloads with one cause of slowness each, planted by construction; the library knows none of them.

Each is the built-in fine-tune with one thing added where users' code has it: in the dataset, the collator, a callback
or the model. The sizes are constants here, decided before anything was run.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info
from transformers import TrainerCallback

from slowstep.workloads import data
from slowstep.workloads.finetune import FineTune

SLOW_TOKENISER = 20
"""Times the work of the fast tokenizer that the planted one does, which is what Python tokenizers take."""

DISK_SECONDS = 0.006
"""An item from the slow disk."""

REMOTE_SECONDS = 0.016
"""An item from the remote store."""

SEEK_SECONDS = 0.002
"""An item from the disk that has to seek: this long for one reader, and the square of the readers times it for more."""

INDEX_SECONDS = 0.8
"""Opening the index, once a process."""

TRACKER_SECONDS = 0.03
"""A call of the experiment tracker."""

STALL_SECONDS, STALL_EVERY = 0.4, 8
"""A housekeeping job in every so many steps."""

SHARD_ITEMS, SHARD_SECONDS = 480, 1.5
"""Items of a shard, and opening the next one: a stall in one of sixty steps of eight items."""

ITEM_SECONDS, HEAVY_EVERY, HEAVY_TIMES = 0.001, 50, 100
"""An item, how often one is heavy, and how many times as long that takes."""

LOOK_EVERY, LOOK_BATCHES, LOOK_BATCH = 20, 20, 8
"""Steps between two looks at the accuracy on the training set, the batches of one, and the samples of a batch."""

MASK_ROWS = 96
"""Rows of a mask that is filled element by element."""

HIDDEN_SECONDS = 0.03
"""A wait in the forward pass."""


class Slow(Dataset):
    """Examples that take a while to come by."""

    def __init__(self, examples: Sequence[Any], wait: Callable[[], None]):
        self.examples, self.wait = examples, wait

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Any:
        self.wait()
        return self.examples[index]


class TokenisingCollator(data.Collator):
    """Tokenises as it collates, slowly; takes raw examples."""

    def __init__(self, plain: data.Collator, encode: Callable[[Any], Any]):
        super().__init__(plain.pad_id, plain.length)
        self.encode = encode

    def __call__(self, examples: list[Any]) -> data.Batch:
        for _ in range(SLOW_TOKENISER - 1):
            [self.encode(e) for e in examples]
        return super().__call__([self.encode(e) for e in examples])


class InCollator(FineTune):
    """A slow tokenizer in the collator, unless examples are tokenised once."""

    def load(self) -> tuple[Sequence[Any], Any]:
        examples, collate = super().load()
        if isinstance(examples, data.OnTheFly):
            encode, examples.encode = examples.encode, lambda example: example
            collate = TokenisingCollator(collate, encode)
        return examples, collate


class OnSlowDisk(FineTune):
    """Reading an item waits for the disk."""

    seconds = DISK_SECONDS

    def load(self) -> tuple[Sequence[Any], Any]:
        examples, collate = super().load()
        return Slow(examples, lambda: time.sleep(self.seconds)), collate


class OnRemoteStore(OnSlowDisk):
    """Reading an item waits for the network."""

    seconds = REMOTE_SECONDS


class OnSeekingDisk(FineTune):
    """The more readers, the slower each."""

    def load(self) -> tuple[Sequence[Any], Any]:
        examples, collate = super().load()

        def read() -> None:
            worker = get_worker_info()
            readers = worker.num_workers if worker else 1
            time.sleep(SEEK_SECONDS * readers**2)

        return Slow(examples, read), collate


class OpensIndex(FineTune):
    """Every process that reads opens an index first."""

    def load(self) -> tuple[Sequence[Any], Any]:
        examples, collate = super().load()
        opened: list[bool] = []

        def read() -> None:
            if not opened:
                opened.append(True)
                time.sleep(INDEX_SECONDS)

        return Slow(examples, read), collate


class OpensShards(FineTune):
    """Now and then the next shard of the data is opened, and everybody waits."""

    def load(self) -> tuple[Sequence[Any], Any]:
        examples, collate = super().load()
        read = itertools.count(1)

        def wait() -> None:
            if next(read) % SHARD_ITEMS == 0:
                time.sleep(SHARD_SECONDS)

        return Slow(examples, wait), collate


class HeavyItems(FineTune):
    """Most items come at once, and one in fifty takes a hundred times as long."""

    def load(self) -> tuple[Sequence[Any], Any]:
        examples, collate = super().load()
        heavy = random.Random(0)

        def wait() -> None:
            time.sleep(ITEM_SECONDS * (HEAVY_TIMES if heavy.random() * HEAVY_EVERY < 1 else 1))

        return Slow(examples, wait), collate


class LooksAtAccuracy(FineTune):
    """Now and then the run evaluates on some batches of its training set, to see that it learns."""

    def build_trainer(self) -> None:
        super().build_trainer()
        loader = DataLoader(self.examples, batch_size=LOOK_BATCH, collate_fn=self.collate)
        self.trainer.add_callback(Look(loader))


class Look(TrainerCallback):
    """The look of `LooksAtAccuracy`: no call of `evaluate`, but a loop of one's own."""

    def __init__(self, loader: DataLoader):
        self.loader = loader

    def on_step_end(self, args: Any, state: Any, control: Any, model: nn.Module, **_: Any) -> None:
        if state.global_step % LOOK_EVERY:
            return
        model.eval()
        right = seen = 0
        with torch.no_grad():
            for batch in itertools.islice(self.loader, LOOK_BATCHES):
                found = model(**batch).logits.argmax(-1)
                for row, labels in zip(found.tolist(), batch["labels"].tolist(), strict=True):
                    right += sum(a == b for a, b in zip(row, labels, strict=True))
                    seen += len(labels)
        print(f"accuracy {right / seen:.3f}")
        model.train()


class BuildsMask(FineTune):
    """A hook before the forward pass fills a mask in Python."""

    def build_model(self) -> None:
        super().build_model()

        def build(*_: Any) -> None:
            mask = torch.zeros(MASK_ROWS, MASK_ROWS)
            for row in range(MASK_ROWS):
                for column in range(row):
                    mask[row, column] = 1.0

        self.model.register_forward_pre_hook(build)


class CallsTracker(FineTune):
    """Each log is sent somewhere, and waited for."""

    def build_trainer(self) -> None:
        super().build_trainer()
        self.trainer.add_callback(Tracker())


class Tracker(TrainerCallback):
    """The tracker of `CallsTracker`."""

    def on_log(self, *_: Any, **__: Any) -> None:
        time.sleep(TRACKER_SECONDS)


class Stalls(FineTune):
    """Every few steps something else is done."""

    def build_trainer(self) -> None:
        super().build_trainer()
        self.trainer.add_callback(Housekeeping())


class Housekeeping(TrainerCallback):
    """The job of `Stalls`."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % STALL_EVERY == 0:
            time.sleep(STALL_SECONDS)


class WaitsInForward(FineTune):
    """A layer reads a value back and waits for it."""

    def build_model(self) -> None:
        super().build_model()

        def wait(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            output.detach().abs().max().item()
            time.sleep(HIDDEN_SECONDS)

        self.model.get_output_embeddings().register_forward_hook(wait)


class Recompiles(FineTune):
    """A compiled model is told to take each length for itself, and allowed to do so for ever."""

    def build_model(self) -> None:
        super().build_model()
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10**9
