"""Damaged data and models: `slowstep check` says file, line or row, what was found, and what to do."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from slowstep.settings import Settings, SettingsError, override
from slowstep.workloads import data, data_check
from slowstep.workloads.base import NotTestable
from slowstep.workloads.finetune import FineTune

GOOD = '{"prompt": "What is it?", "response": "A word."}\n'

DAMAGED = {
    "empty": (b"", "the file is empty"),
    "blank": (b"\n \n\n", "holds no example"),
    "invalid UTF-8": (GOOD.encode() * 3 + b'{"prompt": "caf\xe9", "response": "x"}\n', "line 4: the byte 0xe9"),
    "UTF-16": (GOOD.encode("utf-16"), "line 1: the byte 0xff"),
    "cut short": (GOOD.encode() * 2 + GOOD.encode()[:20], "line 3: no JSON"),
    "null": (GOOD.encode() + b'{"prompt": "a", "response": null}\n', "line 2: column 'response' holds null"),
    "null row": (GOOD.encode() + b"null\n", "line 2: found null"),
    "list in place of a row": (GOOD.encode() + b"[1, 2]\n", "line 2: found a list"),
    "number": (GOOD.encode() + b'{"prompt": 3, "response": "x"}\n', "line 2: column 'prompt' holds a number"),
    "object": (GOOD.encode() + b'{"prompt": "x", "response": {"a": 1}}\n', "line 2: column 'response' holds an object"),
    "other columns": (b'{"question": "a", "answer": "b"}\n', "line 1: no column 'prompt'; it has question, answer"),
    "column missing later": (GOOD.encode() + b'{"prompt": "x"}\n', "line 2: no column 'response'"),
    "empty column": (b'{"prompt": "x", "response": ""}\n' * 5, "column 'response' is empty in all 5 rows"),
    "list, row": (b'[{"prompt": "x", "response": "y"}, {"prompt": "x", "response": null}]', "row 1: column"),
    "list, cut short": (b'[{"prompt": "x", "response": "y"},\n', "line 2: no JSON"),
    "empty list": (b"[]", "holds no example"),
    "deeply nested": (b"[" * 100_000, "line 1: no JSON that can be read"),
    "huge number": (b'{"prompt": ' + b"9" * 5000 + b', "response": "x"}', "line 1: no JSON that can be read"),
    "zero bytes": (b"\0" * 100, "line 1: no JSON"),
}


@pytest.mark.parametrize(("content", "words"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_data_is_told_with_its_line(content: bytes, words: str, smoke: Settings, tmp_path: Path) -> None:
    """A line of text says which file, where in it, what was found; the library's own error is none."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(content)
    settings = override(smoke, {"dataset.name_or_path": str(path)})
    with pytest.raises(data_check.Damaged) as caught:
        data.inspect(settings)

    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_data_that_is_whole_passes(smoke: Settings, tmp_path: Path) -> None:
    """A mark at the start, lines without anything and other columns are no damage."""
    path = tmp_path / "train.jsonl"
    path.write_text("\ufeff" + GOOD + "\n" + GOOD.replace("}", ', "more": null}') + GOOD, encoding="utf-8")

    data_check.check_file(path, override(smoke, {"dataset.name_or_path": str(path)}))


def test_a_saved_set_is_told_with_its_row(smoke: Settings, tmp_path: Path) -> None:
    """What `datasets` saved has rows and no lines."""
    made = datasets.Dataset.from_dict({"prompt": ["a", "b", "c"], "response": ["x", None, "z"]})
    made.save_to_disk(tmp_path / "saved")
    with pytest.raises(data_check.Damaged, match="row 1: column 'response' holds null"):
        data.inspect(override(smoke, {"dataset.name_or_path": str(tmp_path / "saved")}))


@pytest.fixture
def long_prompts(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"prompt": "word " * 300, "response": "yes"}) + "\n" + GOOD.replace("W", "w " * 300))
    return path


def test_prompts_that_fill_the_length_are_told(long_prompts: Path, smoke: Settings, tmp_path: Path) -> None:
    """Where truncation leaves no label, the loss is no number: the check says so, and a trial gives it as its reason,
    for the run and for a level of max_length."""
    settings = override(smoke, {"dataset.name_or_path": str(long_prompts), "dataset.max_length": 64})
    with pytest.raises(ValueError, match="no label is left in the loss: prompts fill max_length=64"):
        data.inspect(settings)
    with pytest.raises(NotTestable, match="no label is left in the loss: prompts fill max_length=64"):
        FineTune(settings, tmp_path).prepare_data()


def tensors(names: int = 2) -> bytes:
    """A whole safetensors file."""
    places = {f"t{i}": {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]} for i in range(names)}
    header = json.dumps(places | {"__metadata__": {"format": "pt"}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16 * names)


CONFIG = {"model_type": "llama"}
MODELS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "holds no config.json"),
    "config cut short": (lambda f: (f / "config.json").write_text('{"model_ty'), "config.json' is no JSON"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "describes no model"),
    "weights cut short": (lambda f: (f / "m.safetensors").write_bytes(tensors()[:-7]), "header speaks of"),
    "header cut short": (lambda f: (f / "m.safetensors").write_bytes(tensors()[:20]), "hold no header"),
    "header of garbage": (lambda f: (f / "m.safetensors").write_bytes(b"\x08" + b"\0" * 7 + b"garbage!"), "no list"),
    "empty weights": (lambda f: (f / "m.safetensors").write_bytes(b""), "0 bytes hold no header"),
    "pointer": (lambda f: (f / "m.safetensors").write_bytes(b"version https://git-lfs.github.com/"), "git lfs pull"),
    "part is missing": (
        lambda f: (f / "m.safetensors.index.json").write_text('{"weight_map": {"t0": "gone.safetensors"}}'),
        "not there: gone.safetensors",
    ),
    "index of garbage": (lambda f: (f / "m.safetensors.index.json").write_text("[]"), "no index of weights"),
    "pickle only": (
        lambda f: (f / "m.safetensors").rename(f / "pytorch_model.bin"),
        "other weight formats are not loaded",
    ),
}


@pytest.mark.parametrize(("damage", "words"), MODELS.values(), ids=MODELS)
def test_a_damaged_model_is_refused(damage: Callable, words: str, smoke: Settings, tmp_path: Path) -> None:
    """A folder of weights is looked at before anything is loaded, and the message names the file."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "m.safetensors").write_bytes(tensors())
    pretrained = {"model.init": "pretrained", "model.name_or_path": str(tmp_path), "model.model_type": None}
    override(smoke, pretrained | {"model.config": {}})
    damage(tmp_path)
    with pytest.raises(SettingsError) as caught:
        override(smoke, pretrained | {"model.config": {}})

    (problem,) = caught.value.problems
    assert "model.name_or_path: " in problem
    assert str(tmp_path) in problem
    assert words in problem
