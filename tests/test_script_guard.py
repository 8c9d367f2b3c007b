"""Nothing of a parameter file becomes code in what is generated from it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slowstep.final.script import script
from slowstep.settings import Settings, SettingsError, load, validate
from slowstep.settings.convert import to_plain

PARAMS = Path(__file__).resolve().parents[1] / "params"

FULL: dict[str, Any] = {
    "name": "full",
    "model": {
        "init": "random",
        "model_type": "llama",
        "config": {"hidden_size": 32, "rope_scaling": {"rope_type": "default", "factors": [1.0, 2.5]}},
        "tokenizer": "someone/tokenizer",
        "attn_implementation": "sdpa",
        "sdpa_backend": "math",
        "torch_compile_dynamic": True,
    },
    "dataset": {
        "name_or_path": "someone/data",
        "name": "part",
        "split": "train",
        "prompt_field": "question",
        "response_field": "answer",
        "max_length": 64,
        "storage": "local_copy",
    },
    "training_arguments": {
        "per_device_train_batch_size": 2,
        "learning_rate": 1.0e-4,
        "torch_compile": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "optim": "adamw_torch",
        "run_name": "mine",
        "bf16": True,
        "eval_strategy": "steps",
        "eval_steps": 10,
    },
    "peft": {"r": 4, "target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 8}},
    "quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "optimizer_kwargs": {"fused": True, "betas": [0.9, 0.99]},
    "job": {"samples": 10, "epochs": 1.5},
}
"""A value of every kind in every section that the script is made of."""

HOSTILE = [
    "hidden_act='silu', zz=__import__('os').system('true'), yy",
    "x)\n__import__('os').system('true')\n(",
    '"); __import__("os").system("true"); ("',
    '"""\n__import__("os").system("true")\n"""',
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{# #}",
    "a\\",
    "a\\\"; evil()",
    "'", '"', "\\", "#", "\n", "\r", "\t", "", " ", "x\r\nimport os",
    "\u2028import os", "\u2029", "\u202eevil", "\x0c", "\x1b[2J\x1b]0;owned\x07", "\x85", "\x9b31m",
    "lambda", "class", "None", "1x", "a-b", "a b", "a.b", "x=1", "*args", "**kw", "ＡＢ", "é", "\U0001f600",
    "${HOME}", "$(id)", "`id`", "%s", "{0.__class__}", "<script>", "__class__",
]  # fmt: skip

VALUES = [*HOSTILE, float("inf"), float("-inf"), float("nan"), -(2**63), 1e308, [[], {}, [None]], {"a": [True]}, None]


def leaves(data: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of every key and item, at any depth."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from leaves(value, (*path, key))


def accepted(data: dict[str, Any]) -> Settings | None:
    """The settings, or None after a refusal that names file and key."""
    try:
        return validate(data, "my.yaml")
    except SettingsError as error:
        for problem in error.problems:
            assert problem.startswith("my.yaml: "), problem
            assert problem.removeprefix("my.yaml: ").partition(": ")[0], problem
        return None


def place(data: Any, path: tuple) -> Any:
    for key in path:
        data = data[key]
    return data


def words(text: str) -> set[str]:
    """What a script calls, imports, reads and defines; all but its literals and the names of arguments."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(f".{node.attr}")
        elif isinstance(node, ast.alias):
            found.add(f"import {node.name}")
        elif isinstance(node, ast.stmt):
            found.add(type(node).__name__)
    return found


VARIANTS: list[dict[str, Any]] = [
    {},
    {"peft": None, "quantization": None, "model.sdpa_backend": None, "model.torch_compile_dynamic": None},
    {"quantization": None, "model.init": "pretrained", "model.name_or_path": "someone/model"},
    {"dataset.text_field": "text", "dataset.tokenize": "once", "dataset.padding": "packing", "model.tokenizer": None},
    {"dataset.tokenize": "once", "dataset.batched_fetching": False, "dataset.storage": "in_memory"},
    {"dataset.name_or_path": "python_stdlib", "freed_memory": "returned", "job": {}},
]
"""Every branch of the template is taken by one of them."""


def variant(changes: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(FULL)
    for key, value in changes.items():
        *sections, last = key.split(".")
        place(data, tuple(sections))[last] = copy.deepcopy(value)
    return data


@pytest.mark.parametrize(
    ("changes", "every"),
    [
        # every fifth value at each place, so that each variant meets every value at some of its places
        *(pytest.param(c, 5, id=" ".join(c) or "full") for c in VARIANTS),
        pytest.param({}, 1, id="all values", marks=pytest.mark.exhaustive),
    ],
)
def test_no_value_becomes_code(changes: dict[str, Any], every: int) -> None:
    """Whatever text or number stands in place of any value, the script calls and names what it did before (an infinite
    number is a call of `float`), or the file is refused with the key's name."""
    base = variant(changes)
    known = {w for c in VARIANTS for w in words(script(validate(variant(c), "x")))} | {"float"}
    taken = 0
    for i, path in enumerate(leaves(base)):
        for value in VALUES[i % every :: every]:
            data = copy.deepcopy(base)
            place(data, path[:-1])[path[-1]] = value
            settings = accepted(data)
            if settings is None:
                continue
            taken += 1
            try:
                text = script(settings)
            except OSError:  # a built-in text that this machine can't hold
                continue
            assert words(text) <= known, (path, value)

    assert taken > 100


@pytest.mark.parametrize("changes", [VARIANTS[0], VARIANTS[2]], ids=["random", "pretrained"])
def test_no_key_becomes_code(changes: dict[str, Any]) -> None:
    """Whatever key is put beside any other, the same holds; one that is the name of an argument stays that."""
    base = variant(changes)
    known = {w for c in VARIANTS for w in words(script(validate(variant(c), "x")))}
    mappings = [(), *(path for path in leaves(base) if isinstance(place(base, path), dict))]
    taken = 0
    for path in mappings:
        for key in HOSTILE:
            data = copy.deepcopy(base)
            place(data, path)[key] = "value"
            settings = accepted(data)
            if settings is not None:
                taken += 1
                assert words(script(settings)) <= known, (path, key)

    assert taken > 20


def arguments(text: str, function: str) -> dict[str, Any]:
    """The literal arguments of the call of `function`."""
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func) == function]
    found = {}
    for keyword in calls[0].keywords:
        try:
            found[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            found[keyword.arg] = ast.unparse(keyword.value)
    return found


@pytest.mark.parametrize("value", [*HOSTILE, -(2**63), 1e308, 0.1, {"a": [None, True]}], ids=repr)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """A script holds what the parameter file says, whatever marks are in it, in a line that a terminal can show."""
    data = variant({})
    data["model"]["config"]["note"] = {"deep": [value]}
    data["peft"]["rank_pattern"] = {"pattern": value, "other": value}
    if isinstance(value, str):
        data["peft"]["rank_pattern"] = {value: 3}
    text = script(validate(data, "x"))

    assert arguments(text, "AutoConfig.for_model")["note"] == {"deep": [value]}
    assert arguments(text, "LoraConfig")["rank_pattern"] == data["peft"]["rank_pattern"]
    assert all(c.isprintable() or c == "\n" for c in text)


def test_what_is_no_number_is_valid_python() -> None:
    """`.inf` of YAML is no name in Python; the script writes what makes it."""
    data = variant({})
    data["model"]["config"] |= {"a": float("inf"), "b": float("-inf")}
    call = arguments(script(validate(data, "x")), "AutoConfig.for_model")

    assert [float("inf"), float("-inf")] == [eval(call[k], {"float": float}) for k in "ab"]


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("model.config", HOSTILE[0]),
        ("model.config", "lambda"),
        ("optimizer_kwargs", "a b"),
        ("training_arguments.gradient_checkpointing_kwargs", "x=1"),
    ],
)
def test_a_key_that_is_no_name_is_refused_where_it_stands(tmp_path: Path, section: str, key: str) -> None:
    """The message has the file, the line and the section, and the key as it was found."""
    data = variant({})
    place(data, tuple(section.split(".")))[key] = 1
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(path)

    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:")
    assert f": {section}: found the key {key!r}" in problem


@pytest.mark.parametrize("key", ["trust_remote_code", "use_safetensors", "weights_only", "auto_map"])
def test_a_configuration_decides_nothing_about_loading(key: str) -> None:
    """No value of model.config makes the script load code from a repository, or weights that can hold code."""
    data = variant({"model.init": "pretrained", "model.name_or_path": "someone/model"})
    data["model"]["config"][key] = True
    with pytest.raises(SettingsError, match=rf"model\.config\.{key}"):
        validate(data, "my.yaml")


@pytest.mark.parametrize("path", sorted(PARAMS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_parameter_file_makes_a_script(path: Path) -> None:
    """What lies in params/ and names a model becomes a script that can be read, and settings that come back."""
    settings = load(path).settings
    if not settings.figures_alone:
        ast.parse(script(settings))

    assert settings == validate(to_plain(settings), "again")
