"""Parameter files: what is right becomes typed settings, what is wrong becomes one message that helps."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slowstep.audit.relations import TITLES
from slowstep.settings import Loaded, Settings, SettingsError, load, override, schema, validate
from slowstep.settings.command import Command
from slowstep.settings.convert import NOT_IN_FILES, to_plain
from slowstep.settings.reported import Claim, Percentage, Reported, Sum
from slowstep.settings.run import training_defaults
from slowstep.settings.slurm import Slurm

PARAMS = Path(__file__).resolve().parents[1] / "params"
QUICK: dict[str, Any] = yaml.safe_load((PARAMS / "quick.yaml").read_text(encoding="utf-8"))


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The data of quick.yaml with values replaced by dotted key."""
    data = copy.deepcopy(QUICK)
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = data
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return data


def refused(changes: dict[str, Any]) -> str:
    """The one message with which quick.yaml is refused after `changes`."""
    with pytest.raises(SettingsError) as caught:
        validate(changed(changes), "my.yaml")
    (problem,) = caught.value.problems
    return problem


def written(folder: Path, text: str) -> Loaded:
    path = folder / "my.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


@pytest.mark.parametrize("path", sorted(PARAMS.glob("*.yaml")), ids=lambda p: p.stem)
def test_the_parameter_files_are_valid(path: Path) -> None:
    """What lies in params/ can be used, and its name is the name of its file."""
    assert path.stem == load(path).settings.name


def test_settings_survive_the_way_through_plain_data(quick: Settings) -> None:
    """Settings written out and read again are equal: an exported configuration means what was measured."""
    assert quick == validate(to_plain(quick), "again")


def test_settings_cannot_be_changed(quick: Settings) -> None:
    """An arm's settings are what its record says, since nobody can alter them afterwards."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.budget.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        # names
        ({"modle": {}}, "modle", "no such key. Did you mean 'model'?"),
        ({"minutes": 2}, "minutes", "no such key. Did you mean 'budget.minutes'?"),
        ({"model.nam_or_path": "x"}, "model.nam_or_path", "Did you mean 'name_or_path'?"),
        ({"budget.minimal_effect": 0.1}, "budget.minimal_effect", "Did you mean 'minimum_effect'?"),
        (
            {"training_arguments.learnin_rate": 1e-4},
            "training_arguments.learnin_rate",
            "TrainingArguments has no such argument. Did you mean 'learning_rate'?",
        ),
        ({"peft.lora_aplha": 8}, "peft.lora_aplha", "LoraConfig has no such argument. Did you mean 'lora_alpha'?"),
        (
            {"quantization.load_in_4bits": True},
            "quantization.load_in_4bits",
            "BitsAndBytesConfig has no such argument. Did you mean 'load_in_4bit'?",
        ),
        # types
        ({"dataset.max_length": "192"}, "dataset.max_length", "expected a whole number, found '192' (a text)."),
        ({"dataset.max_length": 19.2}, "dataset.max_length", "expected a whole number, found 19.2 (a number)."),
        ({"dataset.max_length": True}, "dataset.max_length", "expected a whole number, found True (true or false)."),
        ({"dataset.max_length": None}, "dataset.max_length", "expected a whole number, found nothing (null)."),
        ({"budget.minimum_effect": "five"}, "budget.minimum_effect", "expected a number, found 'five' (a text)."),
        ({"allow.numerics": "yes"}, "allow.numerics", "expected true or false, found 'yes' (a text)."),
        ({"allow.never": "optim"}, "allow.never", "expected a list, found 'optim' (a text); write [optim]"),
        ({"data_loading.padding": "packing"}, "data_loading.padding", "write [packing] for a single value."),
        ({"model": "llama"}, "model", "expected a section with keys, found 'llama' (a text)."),
        ({"training_arguments": [1]}, "training_arguments", "expected a mapping of names to values, found [1]"),
        (
            {"training_arguments.learning_rate": "fast"},
            "training_arguments.learning_rate",
            "expected a number, found 'fast' (a text).",
        ),
        (
            {"training_arguments.per_device_train_batch_size": None},
            "training_arguments.per_device_train_batch_size",
            "expected a whole number, found nothing (null).",
        ),
        (
            {"training_arguments.gradient_checkpointing": "true"},
            "training_arguments.gradient_checkpointing",
            "expected true or false, found 'true' (a text).",
        ),
        (
            {"training_arguments.save_strategy": True},
            "training_arguments.save_strategy",
            "expected a text, found True (true or false).",
        ),
        # values out of what is possible
        ({"name": "my run"}, "name", "'my run' names a folder and must be an identifier"),
        ({"name": "class"}, "name", "'class' names a folder and must be an identifier"),
        ({"name": "../x"}, "name", "must be an identifier"),
        ({"model.init": "randm"}, "model.init", "found 'randm' (a text). Did you mean 'random'?"),
        ({"dataset.tokenize": "never"}, "dataset.tokenize", "Allowed: on_the_fly, once."),
        ({"workload": "finetun"}, "workload", "Did you mean 'finetune'?"),
        ({"workload": "my module:Class"}, "workload", "expected a registered workload, or module:Class"),
        ({"model.model_type": "lama"}, "model.model_type", "no architecture 'lama'. Did you mean 'llama'?"),
        ({"model.model_type": None}, "model.model_type", "init: random needs the architecture"),
        ({"model.init": "pretrained"}, "model.name_or_path", "init: pretrained needs a Hub id or a local folder"),
        ({"model.name_or_path": "./no/such"}, "model.name_or_path", "there is no folder './no/such'."),
        (
            {"model.name_or_path": "~no-such-user/model"},
            "model.name_or_path",
            "there is no folder '~no-such-user/model'.",
        ),
        ({"model.name_or_path": "./" + "x" * 300}, "model.name_or_path", "there is no folder"),
        ({"dataset.name_or_path": "no.jsonl"}, "dataset.name_or_path", "there is no file 'no.jsonl'."),
        ({"dataset.max_length": 1}, "dataset.max_length", "found 1; a sequence needs at least 2 tokens"),
        ({"dataset.max_length": 2048}, "dataset.max_length", "beyond the model's max_position_embeddings (1024)"),
        ({"dataset.num_samples": 0}, "dataset.num_samples", "found 0; it must be at least 1."),
        ({"dataset.cached_batches": -1}, "dataset.cached_batches", "found -1; it must be 0 or more."),
        ({"job.samples": -1}, "job.samples", "found -1; it must be above 0"),
        ({"job.samples": 0}, "job.samples", "found 0; it must be above 0"),
        ({"budget.rarest_stall": 0}, "budget.rarest_stall", "found 0; it must be at least 1."),
        ({"budget.observe_seconds": -5}, "budget.observe_seconds", "found -5.0; it must be 0 or more."),
        ({"processes": -2}, "processes", "found -2; it must be at least 1."),
        ({"training_arguments.save_steps": -5}, "training_arguments.save_steps", "found -5; it must be 0 or more."),
        ({"training_arguments.logging_steps": 0}, "training_arguments.logging_steps", "it must be above 0."),
        (
            {"training_arguments.torch_compile_backend": False},
            "training_arguments.torch_compile_backend",
            "expected a text, found False",
        ),
        (
            {"training_arguments.resume_from_checkpoint": False},
            "training_arguments.resume_from_checkpoint",
            "expected a text",
        ),
        ({"ddp.bucket_cap_mb": -1}, "ddp.bucket_cap_mb", "found -1.0; it must be above 0."),
        ({"zero_optimization.stage": 9}, "zero_optimization.stage", "the stages 0 to 3"),
        ({"job.epochs": float("inf")}, "job.epochs", "found inf"),
        ({"budget.minimum_effect": 0}, "budget.minimum_effect", "found 0.0; it must be above 0"),
        ({"budget.minimum_effect": float("nan")}, "budget.minimum_effect", "found nan"),
        ({"training_arguments.learning_rate": float("nan")}, "training_arguments.learning_rate", "found nan"),
        ({"training_arguments.learning_rate": "nan"}, "training_arguments.learning_rate", "expected a number, found"),
        ({"budget.block_seconds": -1.5}, "budget.block_seconds", "found -1.5; it must be above 0"),
        ({"budget.max_pairs": 2}, "budget.max_pairs", "found 2; an interval needs at least 3 pairs."),
        ({"budget.launches": 0}, "budget.launches", "found 0; it must be at least 1."),
        ({"budget.redo_blocks": -1}, "budget.redo_blocks", "found -1; it must be 0 or more."),
        # combinations that can't be
        ({"quantization": {"load_in_4bit": True, "load_in_8bit": True}}, "quantization", "are both true"),
        ({"quantization": {"load_in_4bit": True}, "peft": None}, "quantization", "add a peft section (LoRA)"),
        (
            {"training_arguments.dataloader_prefetch_factor": 4},
            "training_arguments.dataloader_prefetch_factor",
            "without workers (dataloader_num_workers: 0) nothing is prefetched",
        ),
        (
            {"training_arguments.dataloader_persistent_workers": True},
            "training_arguments.dataloader_persistent_workers",
            "there are no workers to persist",
        ),
        ({"training_arguments.bf16": True, "training_arguments.fp16": True}, "training_arguments.bf16", "both true"),
        (
            {"training_arguments.torch_compile": False, "training_arguments.torch_compile_mode": "default"},
            "training_arguments.torch_compile_mode",
            "with it Trainer compiles",
        ),
        (
            {"training_arguments.optim": "adafactor", "optimizer_kwargs": {"foreach": False}},
            "optimizer_kwargs.foreach",
            "adafactor takes no foreach",
        ),
        (
            {"training_arguments.optim": "adafactor", "optimizer_kwargs": {"fused": True}},
            "optimizer_kwargs.fused",
            "adafactor takes no fused",
        ),
        (
            {"training_arguments.optim": "sgd", "optimizer_kwargs": {"fused": True, "foreach": True}},
            "optimizer_kwargs.foreach",
            "takes no lists",
        ),
        (
            {"training_arguments.gradient_checkpointing_kwargs": '{"use_reentrant": true}'},
            "training_arguments.gradient_checkpointing_kwargs",
            "write it as a mapping",
        ),
        (
            {"training_arguments.per_device_train_batch_size": 0},
            "training_arguments.per_device_train_batch_size",
            "found 0; it must be at least 1.",
        ),
        ({"training_arguments.output_dir": "x"}, "training_arguments.output_dir", "remove this key"),
    ],
)
def test_what_is_wrong_is_one_message(changes: dict[str, Any], key: str, words: str) -> None:
    """Each mistake gives one message with the file, the key, what was found and what is allowed."""
    message = refused(changes)

    assert message.startswith(f"my.yaml: {key}: ")
    assert words in message


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    """An existing folder without a configuration, or without weights to load, is told apart from a missing one."""
    empty = refused({"model.name_or_path": str(tmp_path), "model.init": "pretrained"})
    (tmp_path / "config.json").write_text("{}")
    bare = refused({"model.name_or_path": str(tmp_path), "model.init": "pretrained"})

    assert "holds no config.json" in empty
    assert "holds no .safetensors file" in bare


def test_everything_wrong_is_told_at_once() -> None:
    """Three mistakes take one try to find, not three."""
    with pytest.raises(SettingsError) as caught:
        validate(changed({"modle": {}, "dataset.max_length": "x", "training_arguments.optimizer": "x"}), "my.yaml")

    assert 3 == len(caught.value.problems) == len(str(caught.value).splitlines())


def test_a_message_has_the_line(tmp_path: Path) -> None:
    """A mistake in a file is found by its line."""
    text = (PARAMS / "quick.yaml").read_text(encoding="utf-8").replace("learning_rate:", "learnin_rate:")
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "learnin_rate" in t)
    with pytest.raises(SettingsError, match="no such argument") as caught:
        written(tmp_path, text)

    assert str(caught.value).startswith(f"{tmp_path / 'my.yaml'}:{line}: training_arguments.learnin_rate: ")


def test_a_number_that_yaml_takes_for_text_is_a_number() -> None:
    """`1e-4` is text in YAML and a learning rate in training; it becomes the number in every section."""
    settings = validate(changed({"training_arguments.learning_rate": "1e-4", "budget.minimum_effect": "5e-2"}), "x")

    assert (1e-4, 0.05) == (settings.training("learning_rate"), settings.budget.minimum_effect)


def test_the_word_no_means_no(tmp_path: Path) -> None:
    """`save_strategy: no` is false in YAML and the word "no" in transformers."""
    text = (PARAMS / "quick.yaml").read_text(encoding="utf-8")
    loaded = written(tmp_path, text.replace("save_steps: 500", "save_strategy: no"))

    assert "no" == loaded.settings.training("save_strategy")


@pytest.mark.parametrize("module", ["my_own.py", "my_own_package/__init__.py", "my_own_package/tasks/vision.py"])
def test_the_code_of_a_workload_of_ones_own_counts(
    module: str, quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it trained before its author changed it is no figure of what it trains now. Nothing of it is imported."""
    (code := tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
    code.write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = dataclasses.replace(quick, workload=f"{module.partition('.')[0].partition('/')[0]}:Mine")
    before = settings.local_content()
    (code.parent / "log.txt").write_text("some run wrote this")
    beside = settings.local_content()
    code.write_text("raise SystemExit  # changed")

    assert beside == before
    assert settings.local_content() != before


def test_saving_the_best_needs_no_strategy_of_its_own(quick: Settings) -> None:
    """transformers saves after each evaluation that is the best so far."""
    arguments = {"load_best_model_at_end": True, "save_strategy": "best", "eval_strategy": "epoch"}
    arguments["metric_for_best_model"] = "loss"

    asked = to_plain(quick) | {"training_arguments": quick.training_arguments | arguments}
    assert validate(asked, "my.yaml").training("save_strategy") == "best"


def test_an_argument_that_is_not_given_has_its_default() -> None:
    """What a file leaves out is what the installed transformers does, and what it says wins."""
    settings = validate(changed({"training_arguments": {"logging_steps": 7}}), "x")

    assert (7, 8, 0) == tuple(
        settings.training(n) for n in ("logging_steps", "per_device_train_batch_size", "dataloader_num_workers")
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected sections with keys"),
        ("- name: x", "found list"),
        ("name: [", "not readable as YAML"),
        ("a: b: c", "not readable as YAML"),
        ("name: 2020-99-99", "month must be in 1..12"),
        ("a: &a\n  b: *a", "not readable as YAML"),
        ("name: x\nmodel: {}\nname: y", "name: given before, in line 1."),
        ("? [a]\n: b", "not readable as YAML"),
    ],
)
def test_a_file_that_is_no_parameter_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Whatever a file holds, the message names it and says what is wrong with it."""
    with pytest.raises(SettingsError) as caught:
        written(tmp_path, text)

    assert str(tmp_path / "my.yaml") in str(caught.value)
    assert words in str(caught.value)


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    """A file that is no text is no parameter file, and says so."""
    path = tmp_path / "my.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SettingsError, match="not readable as YAML"):
        load(path)


@pytest.mark.parametrize("name", ["quik.yaml", "quick.yml"])
def test_a_missing_file_names_the_nearest(name: str) -> None:
    """A mistyped file is answered with the one that was probably meant."""
    with pytest.raises(SettingsError, match=rf"there is no such file\. Did you mean '{PARAMS / 'quick.yaml'}'\?"):
        load(PARAMS / name)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("0.yaml", "There are mine.yaml, params/yours.yaml, params/zebra.yaml."),
        ("your.yaml", "Did you mean 'params/yours.yaml'?"),
        ("params/mine.yml", "Did you mean 'mine.yaml'?"),
    ],
)
def test_only_parameter_files_are_offered(
    asked: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beside the missing one and those of params/, each as it would be named; no YAML of other programs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params").mkdir()
    for name in ("mine", "params/yours", "params/zebra"):
        (tmp_path / f"{name}.yaml").write_text("name: own\nbudget: {minutes: 2}\n")
    (tmp_path / "environment.yml").write_text("name: slowstep\ndependencies: [python]\n")
    (tmp_path / "params" / "broken.yaml").write_text("{")

    with pytest.raises(SettingsError, match=re.escape(f"{asked}: there is no such file. {said}")):
        load(asked)


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_data_that_is_no_mapping_is_refused(value: object) -> None:
    """Settings from something that has no keys are refused by message, too."""
    with pytest.raises(SettingsError, match="expected a section with keys"):
        validate(value, "my.yaml")  # type: ignore[arg-type]


def test_a_value_knows_where_it_came_from() -> None:
    """Each value that isn't a default has its line in the file, or the words on the command line."""
    path = PARAMS / "quick.yaml"
    loaded = load(path, ["budget.max_pairs=5"])
    line = next(i for i, t in enumerate(path.read_text().splitlines(), 1) if "minimum_effect" in t)

    assert loaded.places["budget.minimum_effect"].endswith(f"quick.yaml:{line}")
    assert "override budget.max_pairs=5" == loaded.places["budget.max_pairs"]
    assert "budget.seed" not in loaded.places


def test_the_command_line_wins() -> None:
    """An override replaces the file's value, is read as YAML, and is validated like it."""
    loaded = load(PARAMS / "quick.yaml", ["training_arguments.gradient_checkpointing=false", "job.epochs=1e0"])

    assert (False, 1.0) == (loaded.settings.training("gradient_checkpointing"), loaded.settings.job.epochs)


@pytest.mark.parametrize(
    "text",
    ["max_pairs", "=5", "budget.max_pair=5", "budget.max_pairs=[", "budget=5", "name.x=1", ".=1", "name=2020-99-99"],
)
def test_an_override_that_cannot_be_is_refused(text: str) -> None:
    """A mistyped override ends with a message."""
    with pytest.raises(SettingsError):
        load(PARAMS / "quick.yaml", [text])


def test_overriding_leaves_the_original_alone(quick: Settings) -> None:
    """A treatment is a new object; the baseline keeps its values."""
    made = override(quick, {"training_arguments.gradient_checkpointing": False})

    assert (True, False) == (quick.training("gradient_checkpointing"), made.training("gradient_checkpointing"))


VALUES = [
    None, True, False, 0, -1, 7, 10**30, 0.5, -2.5, float("nan"), float("inf"), "", "x", "no", "1e-4",
    "~no-such-user/x", "./" + "y" * 300, "a/b/c", "no.jsonl", "x\0y", "ü", [], [1], [[None]], {}, {"a": 1},
    {1: {None: 2}}, datetime.date(2020, 1, 1), b"bytes",
]  # fmt: skip


def places(data: dict[Any, Any]) -> list[tuple[dict[Any, Any], Any]]:
    """Every mapping with each of its keys, at any depth."""
    below = [p for value in data.values() if isinstance(value, dict) for p in places(value)]
    return [(data, key) for key in data] + below


def mutate(rng: random.Random, data: dict[str, Any]) -> None:
    """One accident: a value replaced, a key lost, mistyped or invented."""
    place, key = rng.choice(places(data))
    accident = rng.randrange(5)
    if accident == 0:
        del place[key]
    elif accident == 1:
        place[rng.choice([str(key)[:-1], str(key) + "s", "", 3, None])] = place.pop(key)
    elif accident == 2:
        place[rng.choice(["name_or_path", "num_samples", "fp16", "load_in_8bit", "zzz"])] = rng.choice(VALUES)
    else:
        place[key] = copy.deepcopy(rng.choice(VALUES))


def test_no_accident_ends_in_a_traceback() -> None:
    """However a parameter file is mangled, it gives settings or a message, and never another error."""
    rng = random.Random(9)
    refusals = 0
    for _ in range(1500):
        data = copy.deepcopy(QUICK)
        for _ in range(rng.randint(1, 4)):
            if data:
                mutate(rng, data)
        try:
            said = str(validate(data, "my.yaml").effective_batch_size)
        except SettingsError as error:
            said = str(error)
            refusals += 1

        assert said.isdigit() or said.startswith("my.yaml: "), data

    assert 500 < refusals < 1500


def test_settings_of_another_machine_need_none_of_its_files(smoke: Settings, tmp_path: Path) -> None:
    """A level of a run that was measured elsewhere can be told, though data, model and architecture are not here."""
    there = dataclasses.replace(
        smoke,
        defaults=training_defaults() | {"an_argument_of_its_own": 1},
        dataset=dataclasses.replace(smoke.dataset, name_or_path=str(tmp_path / "gone.jsonl")),
        model=dataclasses.replace(smoke.model, model_type="of_a_later_version"),
        training_arguments=smoke.training_arguments | {"an_argument_of_its_own": 2},
    )

    assert override(there, {"dataset.max_length": 32}).dataset.max_length == 32
    with pytest.raises(SettingsError, match=r"gone\.jsonl"):
        override(dataclasses.replace(there, defaults={}, training_arguments={}), {"dataset.max_length": 32})


PAGE = (PARAMS.parent / "docs" / "parameter-file.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind",
    [
        *(
            Settings,
            Command,
            Slurm,
            schema.Model,
            schema.Dataset,
            schema.Process,
            schema.Ddp,
            schema.Fsdp,
            schema.Nodes,
        ),
        *(schema.ZeroOptimization, schema.Job, schema.Budget, schema.Allow),
    ],
)
def test_the_page_names_every_key(kind: type) -> None:
    """Whoever looks for a key of a parameter file finds it in docs/parameter-file.md."""
    keys = [one.name for one in dataclasses.fields(kind) if one.metadata != NOT_IN_FILES]

    assert [] == [key for key in keys if not re.search(rf"[`*]{key}[`*:]", PAGE)]


@pytest.mark.parametrize("kind", [Reported, Claim, Sum, Percentage])
def test_the_page_of_reported_figures_names_every_key(kind: type) -> None:
    """Whoever writes figures down finds each key, and the name of each quantity, in docs/reported-figures.md."""
    page = (PARAMS.parent / "docs" / "reported-figures.md").read_text(encoding="utf-8")
    keys = [one.name for one in dataclasses.fields(kind) if one.metadata != NOT_IN_FILES]

    assert [] == [key for key in keys if not re.search(rf"\b{key}\b", page)]
    assert [] == [name for name in TITLES if f"`{name}`" not in page]
