"""The data's way from examples to token ids, and from these to batches."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from slowstep.settings import Settings
from slowstep.workloads import data_check, stdlib_text

IGNORED = -100
"""The label that the loss leaves out (PyTorch's cross_entropy default)."""

Example = dict[str, Any]


class Batch(dict):
    """The tensors of a batch, with the number of examples in it and the tokens that truncation cut from them."""

    samples: int | None = None
    cut_tokens: int | None = None


def read_examples(settings: Settings, folder: Path | None = None) -> datasets.Dataset:
    """Return the raw examples, at most `num_samples` of them; ValueError if a column is missing.

    They are read from a copy in `folder` if `storage` is local_copy.
    """
    d = settings.dataset
    name = stdlib_text.source(d.name_or_path)
    memory, local = d.storage == "in_memory", Path(os.path.expanduser(name))
    copy = str(folder / "dataset") if folder and d.storage == "local_copy" else None
    if name.endswith((".jsonl", ".json")):
        options = {"split": "train", "cache_dir": copy, "keep_in_memory": memory}
        try:
            raw = datasets.load_dataset("json", data_files=str(local), **options)
        except Exception:
            data_check.check_file(local, settings)  # says in which line, where the library says only that
            raise
    elif local.is_dir() and (local / "dataset_info.json").is_file():
        raw = datasets.load_from_disk(shutil.copytree(local, copy) if copy else local, keep_in_memory=memory)
    else:
        try:
            raw = datasets.load_dataset(name, d.name, split=d.split, cache_dir=copy, keep_in_memory=memory)
        except LookupError as error:  # of a folder that holds other things
            raise ValueError(f"`datasets` finds no examples in {name} ({type(error).__name__}: {error})") from error
    wanted = {d.text_field} if d.text_field else {d.prompt_field, d.response_field}
    missing = wanted - set(raw.column_names)
    if missing:
        raise ValueError(
            f"dataset: no column {', '.join(sorted(missing))} in {d.name_or_path}; "
            f"it has {', '.join(raw.column_names)}. Name the columns by dataset.text_field, or prompt_field and "
            "response_field."
        )
    # a job smaller than the data is an epoch of that size: what happens once an epoch then happens as often
    sizes = [n for n in (d.num_samples, settings.job.samples) if n]
    return raw.select(range(min([len(raw), *sizes])))


def inspect(settings: Settings) -> None:
    """Read the examples as a trial does and look at them for some seconds; ValueError says what is wrong and where."""
    d = settings.dataset
    name = stdlib_text.source(d.name_or_path)
    in_json = name.endswith((".jsonl", ".json"))
    if in_json and name == d.name_or_path:  # the built-in texts are the kit's own
        data_check.check_file(Path(os.path.expanduser(name)), settings)
    raw = read_examples(settings)
    if not in_json:
        data_check.check_rows(raw, settings)
    if why := data_check.no_label(OnTheFly(raw, Encoder(settings, load_tokenizer(settings))), settings, IGNORED):
        raise ValueError(f"{d.name_or_path}: {why}.")


def load_tokenizer(settings: Settings) -> Any:
    """Return the model's tokenizer; for a model without one, a byte-level BPE trained on the built-in text."""
    m = settings.model
    name = m.tokenizer or (m.name_or_path if m.init == "pretrained" else None)
    if name is None:
        return _trained_tokenizer(stdlib_text.tokenizer_file(settings))
    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _trained_tokenizer(path: Path) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if not path.is_file():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=int(path.stem.rpartition("bpe")[2]),
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        with stdlib_text.corpus().open(encoding="utf-8") as lines:
            examples = [json.loads(line) for line in lines]
        tokenizer.train_from_iterator((text for e in examples for text in e.values()), trainer)
        stdlib_text.write_atomically(path, tokenizer.to_str())
    return PreTrainedTokenizerFast(tokenizer_file=str(path), pad_token="<pad>", eos_token="<eos>")


class Encoder:
    """Makes `input_ids`, `labels` (the prompt left out of the loss), `cut` tokens and `length` of an example."""

    def __init__(self, settings: Settings, tokenizer: Any):
        self.columns, self.tokenizer = settings.dataset, tokenizer
        self.max_length = settings.dataset.max_length
        """Tokens at which an example is cut."""
        d = settings.dataset
        self.identity = repr((d.text_field, d.prompt_field, d.response_field, d.max_length, settings.model))
        """All that the encoded examples depend on, beside the raw ones and the files that the settings name."""

    def __call__(self, example: Example) -> Example:
        """Return the encoded example."""
        d, eos = self.columns, [self.tokenizer.eos_token_id]
        if d.text_field:
            prompt, text = [], self._tokens(_text(example, d.text_field)) + eos
        else:
            prompt = self._tokens(_text(example, d.prompt_field) + "\n")
            text = self._tokens(_text(example, d.response_field)) + eos
        ids, labels = prompt + text, [IGNORED] * len(prompt) + text
        return {
            "input_ids": ids[: self.max_length],
            "labels": labels[: self.max_length],
            "cut": max(0, len(ids) - self.max_length),
            "samples": 1,
            "length": min(len(ids), self.max_length),
        }

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def _text(example: Example, column: str) -> str:
    value = example[column]
    if not isinstance(value, str):
        beside = " ".join(str(v)[:60] for k, v in example.items() if k != column)
        raise ValueError(f"dataset: column '{column}' holds {value!r:.40} and no text, beside “{beside[:100]}”")
    return value


def tokenised(raw: datasets.Dataset, settings: Settings, encode: Encoder) -> Sequence[Example]:
    """Return examples ready to collate: encoded when drawn, or all of them now, packed if the settings say so."""
    if settings.dataset.tokenize == "on_the_fly" and settings.dataset.padding != "packing":
        return OnTheFly(raw, encode)
    # datasets can't hash a closure over a tokenizer and would tokenise again each time, so say what it depends on
    vocabulary = hashlib.sha256(json.dumps(encode.tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
    d = settings.dataset
    depends = f"{raw._fingerprint} {d.text_field} {d.prompt_field} {d.response_field} {d.max_length} {vocabulary}"
    fingerprint = hashlib.sha256(depends.encode()).hexdigest()[:16]
    memory = d.storage == "in_memory"
    done = raw.map(encode, remove_columns=raw.column_names, new_fingerprint=fingerprint, keep_in_memory=memory)
    return pack(done, d.max_length) if d.padding == "packing" else done


class OnTheFly(torch.utils.data.Dataset):
    """Encodes an example each time it is drawn."""

    def __init__(self, raw: datasets.Dataset, encode: Callable[[Example], Example]):
        self.raw, self.encode = raw, encode

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> Example:
        return self.encode(self.raw[index])

    def __getitems__(self, indices: list[int]) -> list[Example]:
        """Return the examples of a batch, read at once."""
        return [self.encode(example) for example in self.raw.__getitems__(indices)]


def epoch(examples: Sequence[Example], settings: Settings) -> Sequence[Example]:
    """Return the examples that the sampler draws from: at least as many as an epoch of the job has.

    What happens once an epoch (workers start, a last batch is short) then happens in a trial as often as in the job.
    """
    packed, wanted = isinstance(examples, list), settings.job.samples
    samples = sum(e["samples"] for e in examples) if packed else len(examples)
    length = max(len(examples), round(len(examples) * (wanted or 0) / samples))
    if isinstance(examples, datasets.Dataset) and settings.training("train_sampling_strategy") == "group_by_length":
        # only of its own kind of dataset does Trainer read the lengths from a column
        return examples.select([i % len(examples) for i in range(length)])
    return Epoch(examples, length, settings.run.batched_fetching)


class Epoch(torch.utils.data.Dataset):
    """The same examples over and over, up to `length`. They are fetched one by one, or if `batched` a batch at once."""

    def __init__(self, examples: Sequence[Example], length: int, batched: bool):
        self.examples, self.length = examples, length
        can = hasattr(examples, "__getitems__")
        self.__getitems__ = self._together if batched and can else None  # None is how PyTorch is told to ask singly

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Example:
        return self.examples[index % len(self.examples)]

    def _together(self, indices: list[int]) -> list[Example]:
        return self.examples.__getitems__([i % len(self.examples) for i in indices])


def pack(examples: Sequence[Example], max_length: int) -> list[Example]:
    """Return whole examples joined in order into sequences of at most `max_length` tokens. None is cut for it."""
    packed: list[Example] = []
    for example in examples:
        if packed and len(packed[-1]["input_ids"]) + len(example["input_ids"]) <= max_length:
            last = packed[-1]
            packed[-1] = {key: last[key] + example[key] for key in last}
        else:
            packed.append(dict(example))
    return packed


class Collator:
    """Pads examples to the longest of the batch, or to a fixed length."""

    def __init__(self, pad_id: int, length: int | None):
        self.pad_id, self.length = pad_id, length

    def __call__(self, examples: list[Example]) -> Batch:
        """Return a batch of tensors (len(examples), length): input_ids, attention_mask, labels."""
        length = self.length or max(len(e["input_ids"]) for e in examples)
        ids = torch.full((len(examples), length), self.pad_id)
        labels = torch.full((len(examples), length), IGNORED)
        mask = torch.zeros((len(examples), length), dtype=torch.long)
        for row, example in enumerate(examples):
            n = len(example["input_ids"])
            ids[row, :n] = torch.tensor(example["input_ids"])
            labels[row, :n] = torch.tensor(example["labels"])
            mask[row, :n] = 1
        batch = Batch(input_ids=ids, attention_mask=mask, labels=labels)
        batch.samples = sum(e["samples"] for e in examples)
        batch.cut_tokens = sum(e["cut"] for e in examples)
        return batch


def collator(settings: Settings, tokenizer: Any) -> Collator:
    """Return the collator that `dataset.padding` asks for."""
    fixed = settings.dataset.padding in ("max_length", "packing")
    return Collator(tokenizer.pad_token_id, settings.dataset.max_length if fixed else None)


class Cached:
    """Batches collated beforehand and served in place of new ones: the cached-batch ceiling.

    They take the place of the collator, and indices take the place of the dataset. The batches are those that the
    sampler will ask for, in its order, so that this arm trains on the very examples that the baseline draws.
    """

    def __init__(self, examples: Sequence[Example], collate: Collator):
        self.indices = range(len(examples))
        self.fresh, self.collate = examples, collate
        self.batches: dict[tuple[int, ...], Batch] = {}

    def fill(self, plan: Iterable[Sequence[int]]) -> None:
        """Collate the batches of `plan`, which holds the indices of each."""
        for indices in plan:
            self.batches[tuple(indices)] = self.collate([self.fresh[i] for i in indices])
        self.order = list(self.batches)

    def __call__(self, indices: list[int]) -> Batch:
        """Return the batch of these indices, or another one if training has gone beyond the plan."""
        if not isinstance(indices[0], int):
            return self.collate(indices)  # an evaluation, which draws examples
        return self.batches.get(tuple(indices)) or self.batches[self.order[indices[0] % len(self.order)]]
