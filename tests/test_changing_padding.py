"""Columns of padding alone: found where they can be left out, and left out without another training."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForTokenClassification, Trainer
from transformers.tokenization_utils_base import BatchEncoding

from slowstep_probe.changing.alone import changed
from slowstep_probe.changing.padding import IGNORED, ON_DEVICE, PaddedColumns, columns_varied, length_needed, trimmed
from slowstep_probe.measured import WHY_NOT
from slowstep_probe.patches import Patches

LENGTH = 32
SHAPE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}


class Wrapped(MutableMapping):
    """A mapping of a program's own, whose copy shares what it holds."""

    def __init__(self, **held: Any):
        self.held = held

    def __getitem__(self, name: str) -> Any:
        return self.held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.held[name] = value

    def __delitem__(self, name: str) -> None:
        del self.held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


def batch(used: int, length: int = LENGTH, **beside: Any) -> dict[str, Any]:
    """Two rows, the longer one with so many tokens."""
    mask = torch.zeros(2, length, dtype=torch.long)
    mask[0, :used], mask[1, : used - 1] = 1, 1
    return {"input_ids": mask * 5, "attention_mask": mask, **beside}


def ignored(used: int) -> torch.Tensor:
    return torch.where(torch.arange(LENGTH) < used, 1, IGNORED).repeat(2, 1)


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        (batch(9), 16),
        (batch(16), 16),
        (batch(25), None),
        (batch(9, labels=ignored(9)), 16),
        (batch(9, labels=ignored(16)), 16),
        (batch(9, labels=ignored(17)), None),
        (batch(9, labels=torch.ones(2, dtype=torch.long)), 16),
        (batch(9, scores=torch.zeros(2, 1, LENGTH, LENGTH)), None),
        (batch(9) | {"attention_mask": batch(9)["attention_mask"].flip(1)}, None),
        (batch(9) | {"attention_mask": torch.zeros(2, LENGTH)}, None),
        (batch(9) | {"attention_mask": None}, None),
        (batch(9, doc_ids=torch.arange(2 * LENGTH).view(2, LENGTH)), None),
        (batch(9, weights=torch.ones(2, LENGTH)), 16),
        (batch(9) | {"input_ids": torch.arange(2 * LENGTH).view(2, LENGTH)}, None),
        (batch(9) | {"attention_mask": (batch(9)["attention_mask"] - 1) * 1e9}, None),
        (Wrapped(**batch(9)), None),
        ({"pixel_values": torch.zeros(2, 3)}, None),
        ((torch.zeros(2, LENGTH), torch.zeros(2)), None),
    ],
)
def test_only_what_counts_for_nothing_is_left_out(given: Any, needed: int | None) -> None:
    """Neither a label that counts, nor tokens behind padding on the left, nor what may be no token's."""
    assert length_needed(given) == needed


def test_all_that_tokens_have_is_trimmed_and_nothing_else() -> None:
    given = BatchEncoding(batch(9, token_type_ids=torch.zeros(2, LENGTH), labels=torch.ones(2), texts=["a", "b"]))
    cut = trimmed(given)

    assert {name: tuple(getattr(value, "shape", ())) for name, value in cut.items()} == {
        **dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (2, 16)),
        "labels": (2,),
        "texts": (),
    }


def tokens(first: int, used: int, length: int = LENGTH) -> torch.Tensor:
    """Two rows of padding, the longer one with so many tokens from the first one on."""
    ids = torch.zeros(2, length, dtype=torch.long)
    ids[0, first : first + used] = torch.arange(2, used + 2)
    ids[1, first + 1 : first + used] = 2
    return ids


class Pair(NamedTuple):
    ids: torch.Tensor
    labels: torch.Tensor


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        (tokens(0, 9), (0, 16)),
        (tokens(LENGTH - 9, 9), (16, LENGTH)),
        (tokens(10, 9), (10, 26)),
        (tokens(0, 25), None),
        ((tokens(0, 9), tokens(0, 9) > 0), (0, 16)),
        (({"ids": tokens(0, 9)}, torch.arange(2)), (0, 16)),
        (Pair(tokens(0, 9), tokens(0, 20)), (0, 24)),
        ([tokens(0, 9), torch.zeros(2, LENGTH, 4)], (0, 16)),
        ([tokens(0, 9), torch.rand(2, LENGTH, 4)], None),
        ([tokens(0, 9), torch.zeros(2, LENGTH, LENGTH)], None),
        (torch.zeros(2, LENGTH, dtype=torch.long), None),
        ((tokens(0, 9) > 0).long(), None),
        (tokens(0, 9).float(), None),
        (tokens(0, 9)[:0], None),
        (tokens(0, 3, 4), None),
        ({"text": ["a", "b"]}, None),
        (None, None),
        (torch.cat([torch.full((2, 1), 7), tokens(0, 8)[:, 1:]], 1), (0, 8)),
        ((tokens(0, 9), torch.arange(LENGTH)), None),
        ((tokens(0, 9), torch.zeros(1, LENGTH)), None),
        ([tokens(0, 9), [1, 2, 3]], (0, 16)),
        (Wrapped(ids=tokens(0, 9)), None),
    ],
)
def test_columns_of_one_value_are_found_in_any_batch(given: Any, columns: tuple[int, int] | None) -> None:
    """Where all that tokens have holds one value, and no tensor tells of them in another way."""
    kept = columns_varied(given)

    assert [(one.start, one.stop) for one in kept.values()] == ([columns] if columns else [])
    assert columns is None or columns_varied(trimmed(given, columns_varied)) == {}


def test_what_stands_inside_of_a_batch_forbids_to_call_its_columns_padding() -> None:
    """Labels in a mapping of their own may count where the mask says nothing."""
    given = batch(9, targets={"labels": torch.arange(2 * LENGTH).view(2, LENGTH)})

    assert trimmed(given) is given
    assert trimmed(given, columns_varied) is given


def test_batches_keep_their_kind_when_columns_are_left_out() -> None:
    """Whatever a program unpacks or reads from them is there still."""
    inside = {"ids": tokens(10, 9), "names": ["a", "b"], "y": torch.arange(2)}
    given = (Pair(tokens(10, 9), tokens(10, 9)), [inside, None])
    pair, (mapping, nothing) = trimmed(given, columns_varied)

    assert type(pair) is Pair
    assert [tuple(one.shape) for one in (*pair, mapping["ids"], mapping["y"])] == [(2, 16)] * 3 + [(2,)]
    assert (mapping["names"], nothing) == (["a", "b"], None)
    assert torch.equal(pair.ids, tokens(0, 9, 16))
    assert tuple(inside["ids"].shape) == (2, LENGTH)


class Read(UserDict):
    """A batch that notes when somebody looks into it."""

    reads = 0

    def values(self) -> Any:
        Read.reads += 1
        return super().values()


def test_few_batches_are_looked_at_and_none_once_the_facts_are_known() -> None:
    """As many in both arms of a comparison, of which only the warm-up is longer by it."""
    looks, patches, reads = PaddedColumns(), Patches(), list[int]()
    looks.attach(patches)
    loader = DataLoader(range(100), collate_fn=lambda _: Read(batch(9)))
    Read.reads = 0
    for number, _ in enumerate(loader, 1):
        reads += [number] * (Read.reads > 0)
        Read.reads = 0
        if number == 40:
            facts = looks.facts(loader)
    patches.remove()

    assert [1, 2, 3, 4, 8, 16, 32] == reads
    assert {"padded_columns": True, "constant_columns": False} == facts


def test_no_batch_on_a_device_is_trimmed() -> None:
    """Whoever reads one waits for all that the program has launched. The reason is told with the facts."""
    given = {name: value.to("meta") for name, value in batch(9).items()}
    done = list[str]()

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            done.append(str(func))
            return func(*args, **(kwargs or {}))

    with Noting():
        assert trimmed(given) is given

    assert [] == done

    looks, patches = PaddedColumns(), Patches()
    looks.attach(patches)
    loaders = [DataLoader(range(2), collate_fn=lambda _, of=one: of) for one in (given, batch(9))]
    _ = [list(loader) for loader in loaders]
    patches.remove()

    assert {"padded_columns": False, "constant_columns": False} == looks.facts(None)
    assert [ON_DEVICE, None] == [looks.facts(loader).get(f"{WHY_NOT}padded_columns") for loader in loaders]


class Tokens(torch.utils.data.Dataset):
    """Examples that are padded to one length."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> dict[str, Any]:
        used = torch.arange(LENGTH) < 5 + i % 4
        ids = (torch.arange(LENGTH) * (i + 1) % 31 + 1) * used
        return {"input_ids": ids, "attention_mask": used.long(), "labels": torch.where(used, ids % 2, IGNORED)}


def plain(model: Any, workers: int) -> list[float]:
    """A loop written by hand."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for rows in DataLoader(Tokens(), batch_size=4, num_workers=workers):
        loss = model(**rows).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def by_trainer(model: Any, workers: int) -> list[float]:
    """transformers' Trainer, whose loaders go through accelerate."""
    losses: list[float] = []

    class Noting(Trainer):
        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            losses.append(float(loss := super().compute_loss(*args, **kwargs)))
            return loss

    arguments = {"per_device_train_batch_size": 4, "report_to": "none", "save_strategy": "no", "num_train_epochs": 1}
    arguments |= {"learning_rate": 0.05, "use_cpu": True, "disable_tqdm": True, "dataloader_num_workers": workers}
    trained = Noting(model=model, train_dataset=Tokens())
    for name, value in arguments.items():
        setattr(trained.args, name, value)
    trained.train()
    return losses


@pytest.mark.parametrize("train", [plain, by_trainer])
@pytest.mark.parametrize("workers", [0, 1])
def test_training_without_columns_of_padding_is_the_same(
    train: Callable[[Any, int], list[float]], workers: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss by loss, in fewer columns."""
    monkeypatch.chdir(tmp_path)
    lengths: dict[bool, set[int]] = {}
    losses, padded = {}, {}
    for trim in (False, True):
        torch.manual_seed(0)
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        model = BertForTokenClassification(BertConfig(**SHAPE, **quiet))
        seen = lengths.setdefault(trim, set())
        model.bert.register_forward_pre_hook(
            lambda _, args, kwargs, to=seen: to.add((args[0] if args else kwargs["input_ids"]).shape[1]),
            with_kwargs=True,
        )
        looks, patches, outer, loaders = PaddedColumns(), Patches(), Patches(), list[Any]()
        outer.after(DataLoader, "__init__", lambda _, loader, *args, to=loaders, **kwargs: to.append(loader))
        with changed({"dataset.trim_padding": True} if trim else {}, [], "returned") as made:
            looks.attach(patches)
            losses[trim] = train(model, workers)
            patches.remove()
        outer.remove()  # what is attached first goes last
        padded[trim] = looks.facts(loaders[-1])["padded_columns"]
        assert {one.key for one in made} == ({"dataset.trim_padding"} if trim else set())

    assert losses[True] == pytest.approx(losses[False], rel=1e-4)
    assert lengths == {False: {LENGTH}, True: {8}}
    assert padded == {False: True, True: False}
