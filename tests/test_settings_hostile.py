"""Hostile parameter files: one message with file, line and what to do; nothing hangs, runs or ends in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import audit
from slowstep.audit.experiment_file import write_experiment
from slowstep.settings import SettingsError, load, validate

HEAD = "name: x\nmodel:\n  init: random\n  model_type: llama\n  config: "


def bomb(item: str, first: str) -> str:
    """Nine levels of ten aliases each: a milliard values in four hundred bytes."""
    lines = [f"  a: &a {first}"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"  {name}: &{name} " + item.format(", ".join([f"*{before}"] * 10)))
    return "\n" + "\n".join(f"  {line}" for line in lines)


FILES = {
    "aliases of aliases": (HEAD + bomb("[{}]", "[x, x]"), None, "aliases"),
    "merges of merges": (HEAD + bomb("{{<<: [{}]}}", "{x: 1}"), None, "aliases"),
    "itself": (HEAD + "&a {b: *a}", 5, "stands inside of what it names"),
    "itself in a list": (HEAD + "{b: &a [*a]}", 5, "stands inside of what it names"),
    "huge number": (HEAD + "{vocab_size: " + "9" * 5000 + "}", 5, "too many digits"),
    "huge hexadecimal number": (HEAD + "{vocab_size: 0x" + "f" * 5000 + "}", 5, "64 bits"),
    "too large a number": (HEAD + "{vocab_size: 99999999999999999999}", 5, "64 bits"),
    "twice on a line": (HEAD + "{a: 1, a: 2}", 5, "given before, in line 5"),
    "twice in a list": ("name: x\nreported:\n  rows: [{label: a, label: b}]", 3, "given before"),
    "tag": (HEAD + "!!python/object/apply:os.system ['touch owned']", 5, "tags"),
    "own tag": (HEAD + "!mine x", 5, "tags"),
    "deep list": (HEAD + "[" * 5000, 5, "nested"),
    "deep mapping": (HEAD + "{a: " * 300 + "}" * 300, 5, "nested"),
    "deep lines": (HEAD + "\n" + "".join(" " * (4 + i) + "a:\n" for i in range(300)), 43, "nested"),
    "number as a key": (HEAD + "{3: 4}", 5, "which is no text"),
    "null as a key": (HEAD + "{null: 4}", 5, "which is no text"),
    "truth as a key": (HEAD + "{on: 4}", 5, "which is no text"),
    "list as a key": (HEAD + "{? [a] : 4}", 5, "can't be a key"),
    "date": (HEAD + "{a: 2020-01-01}", 5, "write it in quotes"),
    "bytes": (HEAD + "{a: !!binary aGVsbG8=}", 5, "write it in quotes"),
    "set": (HEAD + "{a: !!set {b}}", 5, "write it in quotes"),
    "empty number": (HEAD + "{a: !!int ''}", 5, "no value of its kind"),
    "zero byte": (HEAD + "{a: \0}", 5, "U+0000"),
    "zero byte, escaped": (HEAD + '{a: "\\0"}', 5, "U+0000"),
    "half of a pair": (HEAD + '{a: "\\ud800"}', 5, "U+D800"),
    "half of a pair in a key": (HEAD + '{"\\ud800": 1}', 5, "U+D800"),
    "escape byte": (HEAD + "{a: \x1b[2J}", 5, "U+001B"),
    "tab": (HEAD + "\n\t\ta: 1", 6, "tab"),
    "unknown alias": (HEAD + "*nowhere", 5, "undefined alias"),
    "two documents": (HEAD + "{}\n---\nname: y", 6, "another document"),
    "list merged": (HEAD + "{<<: 3}", 5, "merging"),
    "open bracket": (HEAD + "[1, 2", 5, "expected ',' or ']'"),
}


@pytest.mark.parametrize(("text", "line", "words"), FILES.values(), ids=FILES)
def test_a_hostile_file_is_refused_by_one_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    """The message has the file, the line, and what is wrong; no value is made of it, and nothing is run."""
    path = tmp_path / "my.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SettingsError) as caught:
        load(path)

    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:{line}: " if line else str(path))
    assert words in problem
    assert "\n" not in problem
    assert len(problem) < 600
    assert [path] == list(tmp_path.iterdir())


BYTES = {
    "byte of another encoding": (b"name: x\nmodel:\n  tokenizer: caf\xe9\n", ":3: ", "0xe9 is no UTF-8"),
    "UTF-16": ("name: x\n".encode("utf-16"), ": ", "UTF-16"),
    "UTF-16 without a mark": ("name: x\n".encode("utf-16-le"), ": ", "UTF-16"),
    "100 MB": (b"x" * 100_000_000, ": ", "100 MB"),
    "nothing": (b"", ": ", "found NoneType"),
    "comments": (b"# nothing\n", ": ", "found NoneType"),
}


@pytest.mark.parametrize(("data", "place", "words"), BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, data: bytes, place: str, words: str) -> None:
    """Another encoding is named with the line of its first byte, and a file of 100 MB is not read."""
    path = tmp_path / "my.yaml"
    path.write_bytes(data)
    with pytest.raises(SettingsError) as caught:
        load(path)

    assert str(caught.value).startswith(f"{path}{place}")
    assert words in str(caught.value)


@pytest.mark.parametrize("value", ["0x" + "f" * 5000, "9" * 5000, "[" * 5000, "&a [*a]", "!!python/name:os.system x"])
def test_a_hostile_override_is_refused(value: str) -> None:
    """What can't stand in a file can't be given on the command line."""
    with pytest.raises(SettingsError) as caught:
        load(Path(__file__).resolve().parents[1] / "params" / "quick.yaml", [f"model.config.vocab_size={value}"])

    assert str(caught.value).startswith("override model.config.vocab_size=") or "override" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_mark_at_the_start_is_no_mistake(tmp_path: Path) -> None:
    """Editors of Windows put a byte-order mark there; anchors and merges are YAML and stay."""
    path = tmp_path / "my.yaml"
    path.write_text(HEAD + "&c {hidden_size: 32}\njob: {samples: 3}\n", encoding="utf-8-sig")

    assert {"hidden_size": 32} == load(path).settings.model.config


def test_what_is_merged_yields_to_what_stands_beside_it(tmp_path: Path) -> None:
    """A merge key is no second time of the same key."""
    path = tmp_path / "my.yaml"
    path.write_text(HEAD + "{<<: {hidden_size: 32, num_hidden_layers: 1}, hidden_size: 64}\n")

    assert {"hidden_size": 64, "num_hidden_layers": 1} == load(path).settings.model.config


def test_data_that_holds_itself_is_refused() -> None:
    """Plain data from elsewhere is bounded like a file's."""
    data: dict = {"name": "x", "model": {"config": {}}}
    data["model"]["config"]["again"] = data
    with pytest.raises(SettingsError, match="nested more than"):
        validate(data, "my.yaml")


def test_a_generated_parameter_file_says_only_what_it_should(tmp_path: Path) -> None:
    """The source of a report stands in a comment of the experiment that its audit writes; a line end in it does not end
    the comment."""
    model = "{init: random, model_type: llama, config: {hidden_size: 32}}"
    runs = [
        f"{{label: {n}, settings: {{per_device_train_batch_size: {b}}}, figures: {{seconds_per_step: {b}}}}}"
        for n, b in (("a", 2), ("b", 4))
    ]
    claim = "{text: c, baseline: a, treatment: b, speed_up: 2}"
    path = tmp_path / "my.yaml"
    path.write_text(
        f'name: x\nmodel: {model}\nreported:\n  source: "mine\\nworkload: os:system\\r\\x85\\u2028y: 1"\n'
        f"  rows: [{', '.join(runs)}]\n  claims: [{claim}]\n"
    )
    settings = load(path).settings
    written = write_experiment(settings, audit(settings), tmp_path)

    assert "finetune" == load(written).settings.workload
    assert 1 == sum(line.startswith("#") for line in written.read_text().splitlines())
