"""The built-in workload: data that loses nothing, models that are what the settings say, arms that train the same."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import bitsandbytes as bnb
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig

from asking import compare
from recording import Recorded, record
from slowstep.factors import Arm
from slowstep.measure.local import LocalMeasurer
from slowstep.records import Status
from slowstep.settings import Settings, SettingsError, override
from slowstep.workloads import data, lengths, model
from slowstep.workloads.finetune import FineTune, training_arguments

CPU = torch.device("cpu")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(scope="module")
def tokenizer(smoke: Settings) -> object:
    """The built-in byte-level BPE."""
    return data.load_tokenizer(smoke)


@pytest.fixture
def train(smoke: Settings, tmp_path: Path) -> Callable[..., tuple[FineTune, Recorded]]:
    """Trains a few steps in this process: `train({"section.key": value})` gives the workload and what was recorded."""

    def run(changes: dict[str, object] | None = None, steps: int = 2) -> tuple[FineTune, Recorded]:
        workload = FineTune(override(smoke, changes or {}), tmp_path / "trial")
        workload.prepare_data()
        workload.build_model()
        workload.build_trainer()
        return workload, record(workload.train, steps)

    return run


def encoded(settings: Settings, tokenizer: object) -> list[data.Example]:
    """Every example of the settings' data, encoded on its own."""
    encode = data.Encoder(settings, tokenizer)
    return [encode(example) for example in data.read_examples(settings)]


def test_an_epoch_of_a_trial_is_as_long_as_the_jobs(smoke: Settings) -> None:
    """Few samples come again and again, so that what happens once an epoch is as rare as in the job."""
    few = tuple({"input_ids": [i]} for i in range(10))
    sizes = {n: override(smoke, {"job.samples": n}) for n in (None, 5, 25)}
    long = data.epoch(few, sizes[25])

    assert 25 == len(long)
    assert [few[i % 10] for i in range(25)] == [long[i] for i in range(25)]
    assert [10, 10] == [len(data.epoch(few, sizes[n])) for n in (None, 5)]
    packed = [{"samples": 5}, {"samples": 3}, {"samples": 2}]
    assert 6 == len(data.epoch(packed, override(smoke, {"job.samples": 20})))


@pytest.mark.parametrize("given", [None, True, False])
@pytest.mark.parametrize("tokenize", ["once", "on_the_fly"])
def test_a_batch_is_fetched_as_asked(smoke: Settings, tokenizer: object, tokenize: str, given: bool | None) -> None:
    """One by one or at once, the examples are the same; and PyTorch's loader can tell which it is."""
    settings = override(smoke, {"dataset.tokenize": tokenize, "dataset.batched_fetching": given, "job.samples": None})
    examples = data.epoch(
        data.tokenised(data.read_examples(settings), settings, data.Encoder(settings, tokenizer)), settings
    )
    at_once = getattr(examples, "__getitems__", None)
    loader = torch.utils.data.DataLoader(examples, batch_size=4, collate_fn=list)

    assert bool(at_once) is (tokenize == "once" if given is None else given)
    assert [e["input_ids"] for e in next(iter(loader))] == [examples[i]["input_ids"] for i in range(4)]


def test_a_local_copy_is_read_from_its_folder(smoke: Settings, tokenizer: object, tmp_path: Path) -> None:
    """Wherever the examples are read from they are the same; a copy lies in the folder, and memory needs no file."""
    where = {s: override(smoke, {"dataset.storage": s}) for s in ("as_is", "local_copy", "in_memory")}
    read = {s: data.read_examples(settings, tmp_path) for s, settings in where.items()}

    assert read["as_is"].to_list() == read["local_copy"].to_list() == read["in_memory"].to_list()
    assert all(Path(f["filename"]).is_relative_to(tmp_path) for f in read["local_copy"].cache_files)
    assert not any(Path(f["filename"]).is_relative_to(tmp_path) for f in read["as_is"].cache_files)
    assert not read["in_memory"].cache_files


def test_lengths_are_those_of_examples_that_have_tokens() -> None:
    """A few hundred stand for all; raw examples, which a collator tokenises, have none, and that is no error."""
    examples = [{"input_ids": [0] * (i % 7)} for i in range(600)]

    assert sorted(lengths.lengths(examples)) == sorted(i % 7 for i in range(600))
    assert [None, None] == [lengths.lengths(raw * 600) for raw in ([{"prompt": "x"}], [("x", "y")])]


def test_trials_of_the_same_data_look_at_it_once(smoke: Settings, tokenizer: object, tmp_path: Path) -> None:
    """What a look found is taken by others, which look at a few examples; other data, cuts and tokens are looked at."""
    asked = Counter()

    class Counting:
        """The tokenizer, with a count of the texts that it is given."""

        def __init__(self, name: str, more: int):
            self.name, self.more, self.eos_token_id = name, more, tokenizer.eos_token_id

        def __call__(self, *texts: object, **options: object) -> dict[str, list[int]]:
            asked[self.name] += 1
            return {k: v + v[:1] * self.more for k, v in tokenizer(*texts, **options).items()}

    def look(name: str, changes: dict[str, object] | None = None, more: int = 0) -> list[int]:
        settings = override(smoke, {"dataset.num_samples": 64, **(changes or {})})
        source = data.OnTheFly(data.read_examples(settings), data.Encoder(settings, Counting(name, more)))
        return lengths.lengths(source, tmp_path).tolist()

    first = look("first")
    assert first == look("again")
    assert 0 < asked["again"] < asked["first"] / 2

    others = {
        "shorter": look("shorter", {"dataset.max_length": 8}),
        "fewer": look("fewer", {"dataset.num_samples": 32}),
        "longer tokens": look("longer tokens", more=1),
    }
    assert max(others["shorter"]) == 8
    assert len(others["fewer"]) == 32
    assert others["longer tokens"] != first
    assert others["longer tokens"] == look("longer again", more=1)


def test_a_dataset_of_ones_own_is_not_asked_beside_training() -> None:
    """What it opens or caches when it is first asked would be there before the loader's workers start."""

    class Own(torch.utils.data.Dataset):
        asked = 0

        def __len__(self) -> int:
            return 600

        def __getitem__(self, index: int) -> dict:
            self.asked += 1
            return {"input_ids": [index]}

    own = Own()

    assert lengths.lengths(own) is None
    assert own.asked == 0


def test_the_longest_of_a_batch_is_longer_than_the_mean() -> None:
    """Of batches of one the mean, of large ones the maximum; what random batches give lies between, and agrees."""
    found = np.arange(1, 101)
    drawn = np.random.default_rng(0).choice(found, (20_000, 4)).max(1).mean()

    assert lengths.longest_of(found, 1) == pytest.approx(found.mean())
    assert lengths.longest_of(found, 10_000) == pytest.approx(100, rel=1e-3)
    assert lengths.longest_of(found, 4) == pytest.approx(drawn, rel=0.01)


def batches(settings: Settings, tokenizer: object, size: int = 4) -> list[data.Batch]:
    """All batches in order."""
    examples = data.tokenised(data.read_examples(settings), settings, data.Encoder(settings, tokenizer))
    collate = data.collator(settings, tokenizer)
    starts = range(0, len(examples), size)
    return [collate([examples[i] for i in range(s, min(s + size, len(examples)))]) for s in starts]


def same(a: list[data.Batch], b: list[data.Batch]) -> bool:
    """Whether two lists of batches hold the same tensors and counts."""
    return len(a) == len(b) and all(
        x.keys() == y.keys()
        and all(torch.equal(x[key], y[key]) for key in x)
        and (x.samples, x.cut_tokens) == (y.samples, y.cut_tokens)
        for x, y in zip(a, b, strict=True)
    )


# -- data --


def test_a_prompt_is_no_part_of_the_loss(smoke: Settings, tokenizer: object) -> None:
    """The labelled tokens of an example are its response and the end, nothing of its prompt."""
    settings = override(smoke, {"dataset.max_length": 256})
    encode = data.Encoder(settings, tokenizer)
    example = {"prompt": "def add(a, b):", "response": "Return the sum of a and b."}
    ids, labels = encode(example)["input_ids"], encode(example)["labels"]

    counted = [token for token in labels if token != data.IGNORED]
    assert example["response"] + tokenizer.eos_token == tokenizer.decode(counted)
    assert example["prompt"] + "\n" + example["response"] + tokenizer.eos_token == tokenizer.decode(ids)
    assert counted == ids[-len(counted) :]


def test_cut_tokens_are_those_that_truncation_removed(smoke: Settings, tokenizer: object) -> None:
    """Kept and cut together are the whole example, and no example is longer than allowed."""
    short, whole = (override(smoke, {"dataset.max_length": n}) for n in (24, 256))
    cut, full = encoded(short, tokenizer), encoded(override(whole, {"model.config": {}}), tokenizer)

    assert max(len(e["input_ids"]) for e in cut) == 24
    assert [len(e["input_ids"]) + e["cut"] for e in full] == [len(e["input_ids"]) + e["cut"] for e in cut]
    assert all(e["input_ids"] == f["input_ids"][:24] for e, f in zip(cut, full, strict=True))
    assert sum(b.cut_tokens for b in batches(short, tokenizer)) == sum(e["cut"] for e in cut) > 0


PACKED = {"dataset.padding": "packing", "dataset.tokenize": "once", "dataset.max_length": 256}


def test_packing_neither_cuts_nor_loses_a_token(smoke: Settings, tokenizer: object) -> None:
    """Packed sequences are the same examples, whole and in order, within the length."""
    settings = override(smoke, PACKED)
    alone = encoded(settings, tokenizer)
    packed = data.tokenised(data.read_examples(settings), settings, data.Encoder(settings, tokenizer))

    def joined(examples: list[data.Example], key: str) -> list[int]:
        return [token for e in examples for token in e[key]]

    assert len(packed) < len(alone)
    assert max(len(e["input_ids"]) for e in packed) <= settings.dataset.max_length
    assert joined(alone, "input_ids") == joined(packed, "input_ids")
    assert joined(alone, "labels") == joined(packed, "labels")
    assert (len(alone), sum(e["cut"] for e in alone)) == (
        sum(e["samples"] for e in packed),
        sum(e["cut"] for e in packed),
    )
    unread = iter(alone)
    for sequence in packed:
        members = [next(unread) for _ in range(sequence["samples"])]
        assert joined(members, "input_ids") == sequence["input_ids"]  # no example lies across two sequences


def test_packing_fills_sequences_to_the_last_position() -> None:
    """Examples of any lengths: the next one stays in a sequence if and only if it still fits."""
    for seed in range(50):
        lengths = random.Random(seed).choices(range(1, 9), k=30)
        packed = data.pack([{"input_ids": [n] * n, "samples": 1} for n in lengths], 8)

        sizes = [len(sequence["input_ids"]) for sequence in packed]
        assert max(sizes) <= 8
        assert all(size + after["input_ids"][0] > 8 for size, after in zip(sizes, packed[1:], strict=False))
        assert [n for n in lengths for _ in range(n)] == [n for sequence in packed for n in sequence["input_ids"]]


def test_a_packed_block_counts_its_examples(train: Callable) -> None:
    """Throughput in samples means examples, also where several share a sequence."""
    _, recorded = train(PACKED, steps=2)

    work = recorded.block.work
    assert work.samples > 2 * 4
    assert work.padded_tokens == 2 * 4 * 256
    assert work.loss_tokens < work.useful_tokens <= work.padded_tokens


def test_padding_to_the_maximum_adds_positions_and_no_work(smoke: Settings, tokenizer: object) -> None:
    """Every batch is max_length wide, and what counts in it is what counts in batches padded to the longest."""
    longest = batches(smoke, tokenizer)
    widest = batches(override(smoke, {"dataset.padding": "max_length"}), tokenizer)

    assert {smoke.dataset.max_length} == {b["input_ids"].shape[1] for b in widest}
    assert min(b["input_ids"].shape[1] for b in longest) < smoke.dataset.max_length
    for narrow, wide in zip(longest, widest, strict=True):
        width = narrow["input_ids"].shape[1]
        assert int(narrow["attention_mask"].sum()) == int(wide["attention_mask"].sum())
        assert all(torch.equal(narrow[key], wide[key][:, :width]) for key in narrow)
        assert (wide["labels"][:, width:] == data.IGNORED).all()


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_tokenised_once_is_the_same_data_as_on_the_fly(smoke: Settings, tokenizer: object, padding: str) -> None:
    """When the tokens are made changes nothing in any batch."""
    fly, once = (
        batches(override(smoke, {"dataset.tokenize": how, "dataset.padding": padding}), tokenizer)
        for how in ("on_the_fly", "once")
    )

    assert same(fly, once)


def test_cached_batches_are_real_batches_over_and_over(train: Callable, smoke: Settings, tokenizer: object) -> None:
    """The data-loading ceiling trains on the batches that the baseline draws, and beyond them on the same again."""
    _, plain = train({}, steps=8)
    _, ceiling = train({"dataset.cached_batches": 20}, steps=8)
    workload, beyond = train({"dataset.cached_batches": 8}, steps=12)

    assert plain.block.work == ceiling.block.work
    assert workload.observe()["cached_batches"] == 8
    assert len(workload.collate.batches) == 8
    assert beyond.block.work.samples == 12 * 4


def test_own_data_is_read_from_a_local_file(smoke: Settings, tokenizer: object, tmp_path: Path) -> None:
    """A .jsonl of the user's own columns; a column that isn't there is named with those that are."""
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps({"body": f"line {i}"}) + "\n" for i in range(5)), encoding="utf-8")
    settings = override(smoke, {"dataset.name_or_path": str(path), "dataset.text_field": "body"})

    assert [f"line {i}" for i in range(5)] == [e["body"] for e in data.read_examples(settings)]
    assert encoded(settings, tokenizer)[0]["labels"] == encoded(settings, tokenizer)[0]["input_ids"]
    with pytest.raises(ValueError, match=r"no column text.*it has body"):
        data.read_examples(override(settings, {"dataset.text_field": "text"}))


# -- models --


@pytest.mark.parametrize(("bits", "kind"), [(4, bnb.nn.Linear4bit), (8, bnb.nn.Linear8bitLt)], ids=["4 bit", "8 bit"])
def test_a_random_model_can_be_quantised(smoke: Settings, train: Callable, bits: int, kind: type) -> None:
    """Random weights in 4 or 8 bit really are: each linear layer of the body, stored small, and they train."""
    changes = {"quantization": {f"load_in_{bits}bit": True}}
    built = model.build(override(smoke, changes), CPU)
    layers = [m for m in built.modules() if isinstance(m, kind)]

    assert len(layers) == 7 * 2  # attention's four and the MLP's three, in each of two layers
    assert all(layer.weight.element_size() == 1 for layer in layers)
    stored = {4: 64 * 64 // 2, 8: 64 * 64}[bits]
    assert stored == built.get_submodule("base_model.model.model.layers.0.self_attn.q_proj.base_layer").weight.numel()
    assert model.weight_bits(built) == bits
    assert not any(p.is_meta for p in built.parameters())

    workload, recorded = train(changes, steps=2)
    assert workload.observe()["weight_bits"] == bits
    assert all(math.isfinite(loss) for loss in recorded.losses)
    assert abs(recorded.losses[0] - math.log(512)) < 1  # as of a model that knows nothing of 512 tokens


def test_a_pretrained_model_trains_from_a_local_folder(
    smoke: Settings, tokenizer: object, train: Callable, tmp_path: Path
) -> None:
    """Weights, tokenizer and data of the user's own, from disk alone: the very weights, and a block of training."""
    folder, path = tmp_path / "model", tmp_path / "own.jsonl"
    config = LlamaConfig(**smoke.model.config)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path.write_text("".join(json.dumps({"body": "word " * (i % 9 + 1)}) + "\n" for i in range(40)), encoding="utf-8")
    changes = {
        "model.init": "pretrained",
        "model.name_or_path": str(folder),
        "model.model_type": None,
        "model.config": {},
        "dataset.name_or_path": str(path),
        "dataset.text_field": "body",
    }
    loaded = model.build(override(smoke, changes | {"peft": None}), CPU).state_dict()
    _, recorded = train(changes, steps=3)

    saved = load_file(folder / "model.safetensors")
    assert saved.keys() <= loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    assert recorded.block.steps == 3
    assert all(math.isfinite(loss) for loss in recorded.losses)


# -- trials --


@pytest.mark.exhaustive
def test_gradient_checkpointing_trains_the_same(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """With and without it, from the same seed: the same losses, and each arm really ran its own way."""
    off = arm(changes={"training_arguments.gradient_checkpointing": False})
    record = compare(measurer, arm(), off, pairs=1)

    assert (record.baseline.status, record.treatment.status) == (Status.OK, Status.OK)
    assert record.baseline.observed["gradient_checkpointing"] is True
    assert record.treatment.observed["gradient_checkpointing"] is False
    common = min(len(record.baseline.losses), len(record.treatment.losses))  # as far as both had come by then
    assert common >= 4
    assert record.treatment.losses[:common] == pytest.approx(record.baseline.losses[:common], rel=1e-5)
    assert 1 == len(list(measurer.pool.shared.glob("lengths-*.json")))  # both looked at the same data


def test_rare_events_are_measured_on_their_own(
    measurer: LocalMeasurer, arm: Callable[..., Arm], smoke: Settings
) -> None:
    """Saving and evaluating happen in the trial when asked for, with what they write and how much they evaluate."""
    events = measurer.events(arm())

    assert {"save", "evaluate"} == events.seconds.keys()
    assert {3} == {len(seconds) for seconds in events.seconds.values()}
    assert events.bytes["save"] > 0
    assert smoke.dataset.eval_samples == events.samples["evaluate"]


def test_a_workload_is_named_or_refused(smoke: Settings) -> None:
    """A workload is a registered name or module:Class; anything else is refused with the nearest name."""
    assert override(smoke, {"workload": "package.module:Class"}).workload == "package.module:Class"
    with pytest.raises(SettingsError, match=r"workload: found 'fine-tune'.*Did you mean 'finetune'\?"):
        override(smoke, {"workload": "fine-tune"})
    with pytest.raises(SettingsError, match=r"expected a registered workload, or module:Class"):
        override(smoke, {"workload": "my module:Class"})


# -- with a device --


@pytest.mark.gpu
@needs_cuda
def test_memory_of_the_device_is_read(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """On a GPU the record tells need, reserved and limit in their order."""
    record = compare(measurer, arm(), arm(), pairs=1, twin=True)

    memory = record.treatment.memory
    assert record.treatment.observed["device"] == "cuda"
    assert 0 < memory.allocated <= memory.reserved <= memory.device <= memory.limit


@pytest.mark.gpu
@needs_cuda
def test_a_model_beyond_the_device_is_out_of_memory(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """A batch that no device holds is a status, with the device's own limit beside the peak."""
    huge = arm(
        changes={
            "training_arguments.per_device_train_batch_size": 400,
            "dataset.padding": "max_length",
            "model.config.vocab_size": 4_000_000,
        }
    )
    record = compare(measurer, arm(), huge, pairs=1)

    assert record.treatment.status is Status.OUT_OF_MEMORY
    assert record.treatment.memory.limit >= torch.cuda.get_device_properties(0).total_memory * 0.9


@pytest.mark.parametrize("schedule", ["reduce_lr_on_plateau", "linear"])
def test_a_schedule_that_looks_at_evaluations_is_tried(schedule: str, smoke: Settings, tmp_path: Path) -> None:
    """Evaluations that are rare are kept out of a trial, where Trainer would refuse a schedule without them."""
    rare = {"eval_strategy": "epoch", "lr_scheduler_type": schedule}
    asked = override(smoke, {f"training_arguments.{name}": value for name, value in rare.items()})
    held = training_arguments(asked, tmp_path)

    assert str(held.eval_strategy.value) == "no"
    assert held.lr_scheduler_type.value == ("linear" if schedule == "linear" else "constant")


def test_a_schedule_without_anything_to_look_at_is_refused(smoke: Settings, tmp_path: Path) -> None:
    """As the run itself would be, by Trainer."""
    given = {"lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "no"}
    asked = override(smoke, {f"training_arguments.{name}": value for name, value in given.items()})
    with pytest.raises(ValueError, match="eval"):
        training_arguments(asked, tmp_path)


def test_a_warm_up_is_as_long_as_the_jobs(smoke: Settings, tmp_path: Path) -> None:
    """A tenth of the job's 100 steps; of a trial's endless ones it would keep the learning rate at 0."""
    job = {"job.samples": 400, "job.epochs": 1, "training_arguments.warmup_steps": 0.1}
    unknown = job | {"job.samples": None}

    assert 10 == training_arguments(override(smoke, job), tmp_path).get_warmup_steps(10**9)
    assert 0 == training_arguments(override(smoke, unknown), tmp_path).get_warmup_steps(10**9)


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox"])
def test_other_architectures_train_and_are_observed(train: Callable, model_type: str) -> None:
    """Any decoder of transformers can be described, also one without LoRA, without linear layers or of other names."""
    sizes = {
        "gpt2": {"n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 64},
        "gpt_neox": {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64},
    }
    changes = {"model.model_type": model_type, "model.config": sizes[model_type] | {"vocab_size": 512}, "peft": None}
    workload, recorded = train(changes, steps=2)
    observed = workload.observe()

    assert recorded.block.work.samples == 2 * 4
    assert observed["weight_bits"] == 32
    assert (observed["layers"], observed["hidden_size"], observed["lora_r"]) == (1, 32, None)
    assert observed["trained_parameters"] > observed["layers"] * 12 * 32 * 32
