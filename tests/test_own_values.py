"""Options and files of a command: what the parameter file may say of them, and what is written for the user."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulated import around, pairs, record
from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.cli.main import main
from slowstep.command import command_line
from slowstep.command.own_files import changed_text, value_in
from slowstep.command.resolve import resolve
from slowstep.environment.machine import this_machine
from slowstep.factors import Arm, Meaning, check_levels, comparison_family, is_undoing, plan
from slowstep.final.choice import Choice, choose
from slowstep.final.code_changes import changes_page, without_variables
from slowstep.final.decision import decision_of
from slowstep.final.decision_record import decision
from slowstep.final.files import write_files
from slowstep.final.patch import by_hand, edit, patch, to_patch
from slowstep.investigation import open_lab, read_investigation
from slowstep.investigation.order import most_promising_first
from slowstep.judgement.intervals import Interval
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.verdict import Outcome
from slowstep.launch import changed_run
from slowstep.launch.changed_run import changes_in, outdated
from slowstep.records import ComparisonRecord, Status, TrialRecord
from slowstep.report.prose import conclusion, final_conclusion
from slowstep.settings import Settings, SettingsError, load
from slowstep.settings.command import CHANGES, COPIES, Command
from slowstep.settings.convert import to_plain
from slowstep_probe.changing.intervention import given_key
from slowstep_probe.changing.option_values import OptionValues, same
from slowstep_probe.changing.wanted import Made
from slowstep_probe.late_imports import LateImports
from slowstep_probe.parsed_words import as_written
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace

TEXTS = {
    "a.yaml": "# mine\nlr: 1e-4  # tried\nmodel:\n  layers:\n    - {width: 8}\non: yes\n",
    "a.json": '{"lr": 0.1, "model": {"layers": [{"width": 8}]}}\n',
    "a.toml": "# mine\nlr = 0.1  # tried\n[model]\nlayers = [{width = 8}]\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_keeps_all_but_the_changed_value(name: str, tmp_path: Path) -> None:
    """Comments, order and other values stay."""
    path = tmp_path / name
    path.write_text(TEXTS[name])
    text = changed_text(path, {"model.layers.0.width": 16, "lr": 1e-5})
    (changed := tmp_path / f"changed_{name}").write_text(text)

    assert path.read_text() == TEXTS[name]
    assert [value_in(one, "model.layers.0.width") for one in (path, changed)] == [8, 16]
    assert name != "a.yaml" or yaml.safe_load(text)["lr"] == 1e-5  # which YAML 1.1 would take for a text
    assert name == "a.json" or ("# mine" in text and "# tried" in text)
    assert {None} == {
        value_in(path, key) for key in ("nothing.here", "lr.x", "model.layers.9", "model.layers.²", "lr.²")
    }


def test_a_key_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A misspelt one would be added to the copy, and do nothing; the nearest is named."""
    (path := tmp_path / "a.yaml").write_text(TEXTS["a.yaml"])

    for key in ("lrr", "lr.x", "model.layers.9.width", "model.layers.x", "model.layers.².width", "model.widht"):
        with pytest.raises(SettingsError, match="it has no value"):
            changed_text(path, {key: 1})
    with pytest.raises(SettingsError, match="lr"):
        changed_text(path, {"lrr": 1})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gone.yaml", None, "can't be read"),
        ("a.yaml", "a: [1", "is no YAML"),
        ("a.json", "{", "is no JSON"),
        ("a.toml", "= 1", "is no TOML"),
        ("a.yaml", "- 1", "expected keys"),
        ("a.py", "lr = 1", "can't be changed"),
        ("a.json", b"\xff\xfe", "can't be read"),
        ("a.json", "[" * 100_000, "is no JSON"),
        (
            "a.yaml",
            "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 20)),
            "aliases",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_that_can_not_be_read_says_why(name: str, text: str | bytes | None, said: str, tmp_path: Path) -> None:
    """In one sentence with the file's name."""
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(SettingsError, match=said):
        value_in(path, "a")


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    """Returns the settings of a command's investigation that list levels of its own."""

    def settings(words: list[str], **sections: Any) -> Settings:
        (tmp_path / "train.py").write_text("")
        (tmp_path / "config.yml").write_text("sequence_len: 2048\n")
        command = resolve([sys.executable, "train.py", *words], tmp_path, os.environ)
        data = {"name": "own", "command": to_plain(command), "levels": "auto"} | sections
        (path := tmp_path / "own.yaml").write_text(json.dumps(data))
        loaded = load(path)
        problems = check_levels(loaded.settings, loaded.source)
        if problems:
            raise SettingsError(problems)
        return loaded.settings

    return settings


def test_a_number_that_yaml_takes_for_text_is_a_number(asked: Any) -> None:
    """`1e8` and `1e-4` mean numbers, and the same number is no change. What is quoted in the file is a text."""
    settings = asked(
        ["--config", "config.yml"],
        files={"config.yml": {"sequence_len": {"levels": ["2.048e3", "1e8", "1e-4", "0.5", "all"]}}},
    )

    found = [c.treatment.settings.given for c in plan(settings, "arguments", this_machine())]
    values = [one["config.yml:sequence_len"] for one in found]
    assert values == [10**8, 1e-4, "0.5", "all"]
    assert [type(value) for value in values] == [int, float, str, str]


def test_each_value_is_a_level_with_its_class(asked: Any) -> None:
    """Those that the command has already are not tried; what somebody says of the meaning holds."""
    settings = asked(
        ["--batch", "8", "--config", "config.yml"],
        arguments={"--batch": {"levels": ["8", 16]}, "--fast": {"levels": [True], "class": "exact"}},
        files={"config.yml": {"sequence_len": {"levels": [2048, 512]}}},
    )
    found = {c.name: c for c in plan(settings, "arguments", this_machine())}

    assert list(found) == ["--batch=16", "--fast=true", "config.yml:sequence_len=512"]
    assert found["--fast=true"].meaning is Meaning.EXACT
    assert found["--batch=16"].meaning is Meaning.SEMANTICS
    treated = found["config.yml:sequence_len=512"].treatment.settings
    assert {"config.yml:sequence_len": 512} == treated.given


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"arguments": {"--x": [1]}}, "arguments.--x"),
        ({"arguments": {"--x": {"levels": [1], "class": "harmless"}}}, "harmless"),
        ({"arguments": {"--x": {}}}, "required"),
        ({"files": {"other.yml": {"a": {"levels": [1]}}}}, "does not name the file other.yml"),
        ({"files": {"config.yml": {"a": {"levels": [1]}}}}, "does not name the file config.yml"),
        ({"files": {"train.py": {"a": {"levels": [1]}}}}, "does not name|can't be changed"),
    ],
)
def test_what_can_not_be_tried_is_refused(sections: dict[str, Any], said: str, asked: Any) -> None:
    """With the key, and in words."""
    with pytest.raises(SettingsError, match=said):
        asked(["--batch", "8"], **sections)


def test_a_described_run_has_no_options(tmp_path: Path) -> None:
    """It has no command that could take them."""
    (path := tmp_path / "a.yaml").write_text("name: a\narguments: {--lr: {levels: [1]}}\n")

    with pytest.raises(SettingsError, match="only a command has options"):
        load(path)


def test_the_new_command_names_the_changed_copies(tmp_path: Path, asked: Any) -> None:
    """What a launcher has before the program stays; the copy holds the value."""
    command = asked(["--batch", "8", "--config=config.yml"]).command
    words = command_line.words(command, {"--batch": 16, "config.yml:sequence_len": 512}, tmp_path / "final")
    arguments = command_line.arguments(command, {"--batch": 16, "config.yml:sequence_len": 512}, tmp_path / "final")

    assert words == [sys.executable, "train.py", "--batch", "16", f"--config={tmp_path / 'final' / 'config.yml'}"]
    assert arguments == words[1:]
    assert (tmp_path / "final" / "config.yml").read_text() == "sequence_len: 512\n"


CHANGED = {"configs/main.yml:lr": 2, "configs/deep/more.yml:b": 5, "base.yml:a": 7, "../elsewhere/far.yml:c": 9}


@pytest.mark.parametrize("links", [True, False])
def test_changed_copies_find_what_lies_beside_their_originals(links: bool, tmp_path: Path) -> None:
    """Several files, below one another and from elsewhere, twice into one folder: each copy holds its value, relative
    paths lead to copies or to originals, never to the folder of the copies, and no original is written to."""
    home, far = tmp_path / "home", tmp_path / "elsewhere"
    (home / "configs" / "deep").mkdir(parents=True)
    far.mkdir()
    (home / "train.py").write_text("print(1)")
    (home / "configs" / "other.json").write_text("{}")
    texts = {home / "base.yml": "a: 1\n", home / "configs" / "main.yml": "lr: 1\n"}
    texts |= {home / "configs" / "deep" / "more.yml": "b: 1\n", far / "far.yml": "c: 1\n", far / "near.txt": "near"}
    for path, text in texts.items():
        path.write_text(text)
    named = ["configs/main.yml", "configs/deep/more.yml", "base.yml", "../elsewhere/far.yml"]
    command = resolve([sys.executable, "train.py", *named], home, os.environ)
    copies = home / "outputs" / "copies"
    for _ in range(2):
        copies = copies / "again" if links else copies
        _, main, more, base, other = map(Path, command_line.arguments(command, CHANGED, copies, links))

        assert [path.read_text() for path in (main, more, base, other)] == ["lr: 2\n", "b: 5\n", "a: 7\n", "c: 9\n"]
        assert {path: path.read_text() for path in texts} == texts
        assert (main.parent / "../base.yml").resolve() == base
        assert (main.parent / "other.json").exists() is (other.parent / "near.txt").exists() is links
        assert not (copies / "outputs").exists()
    if links:
        with pytest.raises(FileExistsError):
            command_line.arguments(command, CHANGED, copies, links)


def test_one_value_of_an_option_that_takes_several_is_seen() -> None:
    """`--sizes 3` of a parser with nargs="+" is held as [3]."""
    assert same([3], 3)
    assert same(["0.1"], 0.1)
    assert not same([3, 4], 3)


SOURCE = """import torch
loader = DataLoader(data, batch_size=8)
other = torch.utils.data.DataLoader(
    data,
    num_workers=0,  # as ever
)
third = DataLoader(data, 8, True, None, None, 0)
lost = DataLoader(data, **more)
"""


def made(line: int, after: Any = 4, argument: str = "num_workers", position: int | None = None) -> dict[str, Any]:
    """A change as a trial tells it."""
    place = {"file": "", "line": line, "column": 0}
    return {
        "name": "torch.utils.data.DataLoader",
        "argument": argument,
        "after": after,
        "position": position,
        "place": place,
    }


def edited(source: str, changes: list[dict[str, Any]]) -> str:
    """The source with the changes made that can be made."""
    return edit(source, changes)[0]


def test_keywords_are_edited_where_they_stand() -> None:
    """A keyword is added or replaced, also where it is given without its name; comments and layout stay."""
    changes = [made(2), made(3), made(3, True, "persistent_workers"), made(7, 2, position=5), made(8)]

    assert edited(SOURCE, changes) == (
        SOURCE.replace("batch_size=8)", "batch_size=8, num_workers=4)")
        .replace("num_workers=0,  # as ever", "num_workers=4,  # as ever\n    persistent_workers=True,")
        .replace("None, 0)", "None, 2)")
    )


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("f(p for p in ps if p.q)", "f((p for p in ps if p.q), num_workers=4)"),
        ("f(data, **more)", None),
        ("f(data, num_workers=0, **more)", "f(data, num_workers=4, **more)"),
        ("f(\n  data,  # all\n  batch_size=8,\n)", "f(\n  data,  # all\n  batch_size=8,\n  num_workers=4,\n)"),
        ("f(\n  data,\n  batch_size=8  # each\n)", "f(\n  data,\n  batch_size=8,  # each\n  num_workers=4\n)"),
        ("f(data, batch_size=8,  # each\n)", "f(data, batch_size=8,  # each\nnum_workers=4,\n)"),
        ("'ü', f(data)", "'ü', f(data, num_workers=4)"),
        ("f(data, 1, 2)", "f(data, 1, 4)"),
    ],
)  # fmt: skip
def test_a_call_stays_what_it_was(call: str, after: str | None) -> None:
    """Comments stay with their arguments, a lone generator gets brackets, and what can't be told stays.

    Python tells a column in bytes. An argument whose place is known is not given twice.
    """
    change = made(1, position=None) | {"name": "f", "slot": 2}
    change["place"]["column"] = len(call.partition("f(")[0].encode())
    text = f"{call}\n"

    assert edited(text, [change]) == (text if after is None else f"{after}\n")


def test_a_call_is_found_under_another_name(tmp_path: Path) -> None:
    """By the name that it was imported under; a call that only leads to it is none. What can't be edited is named."""
    change = made(1) | {"place": {"file": "", "line": 1, "column": 4}}
    imports = "from torch.utils.data import DataLoader as DL\n"
    assert edited(f"a = DL(data)\n{imports}", [change]) == f"a = DL(data, num_workers=4)\n{imports}"
    assert edited(f"a = model.train(data)\n{imports}", [change]) == f"a = model.train(data)\n{imports}"
    path = tmp_path / "train.py"
    for text, left in (("a = DL(data)\n", []), ("a = DL(data, **more)\n", [change]), ("def broken(:\n", [change])):
        path.write_text(text + imports)
        assert by_hand({path: [change]}) == left


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize(("mark", "newline"), [("", "\n"), ("", "\r\n"), ("\ufeff", "\r\n")])
def test_git_applies_the_patch(mark: str, newline: str, end: str, tmp_path: Path, asked: Any) -> None:
    """In the command's folder, also inside a repository; whatever lines end with, and the file begins with."""
    command = asked([]).command
    text = mark + (SOURCE.rstrip() + end).replace("\n", newline)
    (path := tmp_path / "train.py").write_bytes(text.encode())
    change = made(2)
    change["place"]["file"] = str(path)
    (tmp_path / "changes.patch").write_bytes(patch(to_patch([change], command), command).encode())
    for folder in (tmp_path.parent, tmp_path):
        if folder is tmp_path.parent:
            subprocess.run(["git", "init", "-q", str(folder)], check=True)
        git = ["git", "-c", "core.autocrlf=false", "apply", "-p1", "changes.patch"]
        subprocess.run(git, cwd=tmp_path, check=True)
        assert path.read_bytes().decode() == text.replace("batch_size=8)", "batch_size=8, num_workers=4)")
        shutil.rmtree(tmp_path.parent / ".git", ignore_errors=True)
        path.write_bytes(text.encode())


def test_workers_are_taken_away_with_what_needs_them() -> None:
    """PyTorch refuses `prefetch_factor` without workers. Where two calls may be meant, neither is changed."""
    source = "a = DataLoader(d, num_workers=4, prefetch_factor=2)\nb, c = DataLoader(d), DataLoader(d)\n"

    assert edited(source, [made(1, 0), made(2)]) == source.replace("num_workers=4, prefetch_factor=2", "num_workers=0")


def test_a_library_is_not_patched(tmp_path: Path, asked: Any) -> None:
    """Not even one that lies in the command's own folder."""
    command = asked([]).command
    (path := tmp_path / ".venv" / "site-packages" / "m.py").parent.mkdir(parents=True)
    path.write_text(SOURCE)
    change = made(2)
    change["place"]["file"] = str(path)

    assert patch(to_patch([change], command), command) == ""


@pytest.mark.parametrize(
    ("option", "how", "words", "wanted"),
    [
        ("--no-amp", {"action": "store_false", "dest": "amp"}, ["--no-amp"], True),
        ("--no-amp", {"action": argparse.BooleanOptionalAction}, ["--no-amp"], True),
        ("--dtype", {"type": lambda text: ("kind", text)}, ["--dtype", "bf16"], "bf16"),
        ("--sizes", {"type": int, "nargs": "+"}, ["--sizes", "3", "4"], [3, 4]),
    ],
)
def test_what_a_parser_makes_of_a_value_is_the_value(
    option: str, how: dict, words: list[str], wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag that takes away, an object made of a text, several values; and what is told can be sent."""
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    seen, patches = OptionValues({f"given[{option}]": wanted}), Patches()
    seen.attach(patches, LateImports())
    try:
        parser = argparse.ArgumentParser()
        names = [option.replace("--no-", "--")] if how.get("action") is argparse.BooleanOptionalAction else [option]
        parser.add_argument(*names, **how)
        parser.parse_args(words)
        seen.look(None)
        assert seen.facts() == {f"given[{option}]": wanted}
        parser.parse_args([])
    finally:
        patches.remove()
    json.dumps(seen.facts())


@pytest.mark.parametrize(
    ("option", "how", "words", "stands"),
    [
        ("--no-amp", {"action": "store_false", "dest": "amp"}, ["--no-amp"], ("--no-amp", True)),
        ("--no-amp", {"action": "store_false", "dest": "amp"}, [], ("--no-amp", False)),
        ("--cpu", {"action": "store_const", "const": "cpu", "default": "cuda", "dest": "device"}, [], ("--cpu", False)),
        ("--amp", {"action": argparse.BooleanOptionalAction}, ["--no-amp"], ("--amp", False)),
        ("--dtype", {}, ["--dtype", "bf16"], ("--dtype", "bf16")),
    ],
)
def test_a_flag_is_told_as_it_stands_in_the_command(
    option: str, how: dict, words: list[str], stands: tuple[str, Any]
) -> None:
    """Whoever was given `--no-amp` holds amp=False; the flag is there, and a level that takes it away is another."""
    parser = argparse.ArgumentParser()
    action = parser.add_argument(option, **how)

    assert as_written(action, getattr(parser.parse_args(words), action.dest)) == stands


@pytest.mark.parametrize(
    ("now", "held"),
    [
        (32, 32),  # a program that takes a rounder number, or its own
        (16, 16),
        ("16 rows", 16),  # made of it, and not put in its place
    ],
)
def test_a_number_that_the_program_replaces_is_not_in_effect(
    now: Any, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both arms would train alike, and a change that was never made would count as one that brings nothing."""
    monkeypatch.setattr(sys, "argv", ["train.py", "--size", "16"])
    seen, patches = OptionValues({"given[--size]": 16}), Patches()
    seen.attach(patches, LateImports())
    try:
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int)
        given = parser.parse_args(["--size", "16"])
        given.size = now
        del given
        seen.look(None)
    finally:
        patches.remove()

    assert {"given[--size]": held} == {key: int(value) for key, value in seen.facts().items()}


@pytest.mark.parametrize(
    ("words", "batch", "said"),
    [
        (["--batch", "8"], {"--batch": {"levels": [16]}}, ["num_workers=0", "--batch 8"]),
        ([], {"--batch": {"levels": [16]}}, ["num_workers=0"]),  # nobody knows what the program does without it
    ],
)
def test_a_verdict_says_what_stands_there_now(words: list[str], batch: dict, said: list[str], asked: Any) -> None:
    """The argument that a trial replaced, and the option as the command gives it."""
    (contrast,) = plan(asked(words, arguments=batch), "arguments", this_machine())
    changed = made(3) | {"key": "training_arguments.dataloader_num_workers", "before": 0}
    measured = record(pairs(around(0.2)), {"changes": [changed]})
    found = judge(before_trial(contrast, None, 0.05, None), contrast, measured, 0.05, "cpu")

    assert found.replaces == said


def test_a_described_run_replaces_nothing_in_a_program() -> None:
    """Its values stand in the parameter file, which the index reads."""
    quick = load("params/quick.yaml").settings
    contrasts = plan(quick, "data_loading", this_machine()) + plan(quick, "gradient_checkpointing", this_machine())
    measured = record(pairs(around(0.2)))

    for contrast in contrasts:
        assert judge(before_trial(contrast, None, 0.05, None), contrast, measured, 0.05, "cpu").replaces == []


def test_what_lies_elsewhere_is_not_patched(tmp_path: Path, asked: Any) -> None:
    """A library's file, a program that can't be parsed, a file that is gone: no patch, and no failure."""
    command = asked([]).command
    for text in ("def broken(:\n", None):
        path = tmp_path / "train.py"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        change = made(1)
        change["place"]["file"] = str(path)
        assert patch(to_patch([change], command), command) == ""
    change = made(1)
    change["place"]["file"] = json.__file__
    assert patch(to_patch([change], command), command) == ""


def _change_named_after(how: dict[str, Any], words: list[str], before: Any, after: Any) -> Made:
    """Return a change with the option that a parser given `words` has for it."""
    seen, patches = OptionValues({}), Patches()
    seen.attach(patches, LateImports())
    try:
        parser = argparse.ArgumentParser()
        parser.add_argument("-s", "--save-all", **how)
        parser.parse_args(words)
    finally:
        patches.remove()
    return seen.with_option(Made("a.save_all", "Arguments", before, after, CodePlace(""), "save_all"))


@pytest.mark.parametrize(
    ("how", "words", "before", "after", "option", "given"),
    [
        ({"action": "store_true"}, [], False, True, "--save-all", True),
        ({"action": "store_true"}, ["--save-all"], True, False, "--save-all", False),
        ({"action": argparse.BooleanOptionalAction, "default": True}, [], True, False, "--no-save-all", True),
        ({"type": bool, "nargs": "?", "const": True, "default": True}, [], True, False, "--save-all", "False"),
        ({"type": int}, ["--save-all", "3"], 3, 4, "--save-all", "4"),
        ({"type": int}, ["--save-all", "3"], 0, 4, "", None),  # it means something else
        ({"action": "store_true", "dest": "other"}, [], True, 4, "", None),
    ],
)
def test_a_change_names_the_option_that_makes_it(
    how: dict[str, Any],
    words: list[str],
    before: Any,
    after: Any,
    option: str,
    given: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A flag stands there or does not; any other option is given the value's text, if it had the value before."""
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    told = _change_named_after(how, words, before, after)

    assert (told.option, told.option_value) == (option, given)


@pytest.mark.parametrize("command", [[], ["--steps", "5"]])
def test_a_parser_of_the_programs_own_words_has_no_option_of_the_command(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is given stands in the program, as in `parse_args(["--config", "sft.yaml"])`: no option reaches it."""
    monkeypatch.setattr(sys, "argv", ["train.py", *command])
    told = _change_named_after({"type": int}, ["--save-all", "3"], 3, 4)

    assert told.option == ""


PROGRAM = """from torch.utils.data import DataLoader
valid = DataLoader(data, num_workers=0)
train = DataLoader(data, num_workers=0)
"""

BATCH = "config.yml:batch"


class OfAProgram(SimulatedMeasurer):
    """Trials of a program that makes the loader it trains on with other workers, and holds what it is given."""

    def _trial(self, arm: Arm) -> TrialRecord:
        known, settings = super()._trial(arm), arm.settings
        seen = {given_key(name): value for name, value in settings.given.items()}
        if workers := settings.training_arguments.get("dataloader_num_workers"):
            file = Path(settings.command.folder, "train.py")
            line = file.read_text().partition("train =")[0].count("\n") + 1
            place = CodePlace(file=str(file), line=line, column=8)
            key = "training_arguments.dataloader_num_workers"
            seen["changes"] = [asdict(Made(key, "DataLoader", 0, workers, place, "num_workers"))]
        return replace(known, observed=known.observed | seen)


def gain(arm: Arm, purpose: str) -> float:
    """Workers bring 40 %, and the batch of the configuration file 20 %."""
    workers = bool(arm.settings.training_arguments.get("dataloader_num_workers"))
    return (1 + 0.4 * workers) * (1.2 if arm.settings.given.get(BATCH) == 32 else 1.0) - 1


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a program with its configuration file."""
    (home := tmp_path / "home").mkdir()
    (home / "train.py").write_text(PROGRAM)
    (home / "config.yml").write_text("batch: 16\n")
    return home


Investigated = Callable[..., Path]


@pytest.fixture
def investigated(home: Path, tmp_path: Path) -> Investigated:
    """Measures and writes an investigation of the program while its files are as they were, and returns its folder."""

    def make(
        gain: Callable[[Arm, str], float] = gain, batch: str = "exact", measurer: type[OfAProgram] = OfAProgram
    ) -> Path:
        (path := tmp_path / "own.yaml").write_text(json.dumps(asked_of(home, batch)))
        loaded = load(path)
        made = measurer(Truth(gain=gain, noise=0.001), loaded.settings.budget)
        lab = open_lab(loaded, tmp_path / "outputs", "90_final_config", made)
        choice = choose(lab)
        write_files(lab, choice)
        lab.conclude(decision=decision_of(choice))
        return lab.folder

    return make


@pytest.fixture
def folder(investigated: Investigated) -> Path:
    """The folder of the program's investigation."""
    return investigated()


def asked_of(home: Path, batch: str) -> dict[str, Any]:
    """The parameter file of the program, with the class of its batch."""
    values = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, "dataloader_num_workers": 0}
    command = resolve([sys.executable, "train.py", "--config", "config.yml"], home, os.environ)
    return {
        "name": "own",
        "command": to_plain(command),
        "surveyed": {
            "values": {f"training_arguments.{key}": {"value": value} for key, value in values.items()},
            "files": [str(home / "train.py")],
            "objects": ["loader"],
        },
        "data_loading": {"dataloader_num_workers": [2]},
        "files": {"config.yml": {"batch": {"levels": [16, 32], "class": batch}}},
    }


def drawn(folder: Path) -> Choice:
    """The choice as it is drawn from records alone, with its files written again."""
    lab = read_investigation(folder, "90_final_config")
    choice = choose(lab)
    write_files(lab, choice)
    return choice


def in_final(folder: Path) -> dict[str, str]:
    """The texts of all files in final/ that a command uses, by their paths."""
    final = folder / "final"
    names = ["changes.patch", CHANGES, *(str(path.relative_to(final)) for path in (final / COPIES).rglob("*.yml"))]
    return {name: (final / name).read_text() for name in names if (final / name).is_file()}


def advice_taken(home: Path) -> None:
    """Edit the files as changes.md says."""
    (home / "config.yml").write_text("batch: 32\n")
    (home / "train.py").write_text(PROGRAM.replace("train = DataLoader(data, num_workers=0)", "train = None"))


def line_inserted(home: Path) -> None:
    """Move the lines of the program, so that another call of that name stands where the changed one was."""
    (home / "train.py").write_text(f"import os\n{PROGRAM}")


def copied_elsewhere(home: Path) -> None:
    """Take the user's folder away, as on another machine."""
    shutil.rmtree(home)


@pytest.mark.parametrize("share", [0.02, 0.4])
def test_what_was_seen_to_take_little_waits_for_its_turn(share: float, home: Path, tmp_path: Path) -> None:
    """Garbage that takes 2 % of the time is collected in peace while the run waits for data; 40 % are tried first."""
    asked = asked_of(home, "exact") | {"compute": {"garbage_collection": ["frozen"]}, "budget": {"minutes": 1000}}
    asked["surveyed"]["values"]["garbage_collection_share"] = {"value": share}
    (path := tmp_path / "own.yaml").write_text(json.dumps(asked))
    loaded = load(path)
    truth = Truth(gain=gain, noise=0.001, phases={"data": 0.5, "forward": 0.4})
    lab = open_lab(loaded, tmp_path / "outputs", "plan", OfAProgram(truth, loaded.settings.budget))
    _ = lab.baseline
    families = [comparison_family(lab.settings, section, lab.machine) for section in ("data_loading", "compute")]
    names = [one.name for one in most_promising_first([c for family in families for c in family], lab.evidence)]

    assert (names[0] == "garbage_collection=frozen") == (share > 0.1)
    assert "garbage_collection=frozen" in names


@pytest.mark.parametrize("edit", [advice_taken, line_inserted, copied_elsewhere])
def test_a_report_says_the_same_whatever_became_of_the_files(
    edit: Callable[[Path], None], home: Path, folder: Path
) -> None:
    """All that was measured is still a level, what is adopted stays, and so do the files for it that were written. What
    is said of `changes.patch` is that the program is another one."""
    before, written = drawn(folder), in_final(folder)
    page = (folder / "final" / "changes.md").read_text()
    edit(home)
    after = drawn(folder)
    told = (folder / "final" / "changes.md").read_text()

    assert before.adopted
    assert {"changes.patch", CHANGES, f"{COPIES}/config.yml"} == written.keys()
    assert (after.verdict, after.verdicts) == (before.verdict, before.verdicts)
    assert in_final(folder) == written
    assert "was edited after this was measured" not in page
    assert "`train.py` can't be read here, or was edited after this was measured" in told
    assert ("`config.yml` can't be read here" in told) == (edit is not line_inserted)


SECRETS = ("sk_of_the_call", "pw_of_the_address", "sk_of_the_file")
CALLED = 'login(key="sk_of_the_call")\nstore("postgres://me:pw_of_the_address@host/db")\n'


@pytest.mark.parametrize(
    ("program", "patched"),
    [
        (CALLED + PROGRAM, True),  # as many lines are shown as hold none
        (PROGRAM + CALLED, False),
        (PROGRAM + 'def f(a=1, /, b="text", *, text_key="text"): pass\n', True),
        (PROGRAM + 'KEY = """-----BEGIN\n' + "sk_of_the_call\n" * 2 + '-----END"""\n', False),
        (PROGRAM + 'environ.setdefault("HF_TOKEN", "sk_of_the_call")\n', False),
        (PROGRAM.replace("num_workers=0)\n", 'num_workers=0, api_key="sk_of_the_call")\n'), False),
    ],
)
def test_what_is_made_to_be_shared_holds_no_secret_of_the_users_files(
    program: str, patched: bool, home: Path, investigated: Investigated
) -> None:
    """Neither the patch nor a copy of a configuration file; what they lack for it is to be done by hand."""
    (home / "train.py").write_text(program)
    (home / "config.yml").write_text("batch: 16\nwandb:\n  api_key: sk_of_the_file\n")
    folder = investigated()
    shared = "".join(path.read_text() for path in (folder / "final").rglob("*") if path.is_file())
    page = (folder / "final" / "changes.md").read_text()

    assert [one for one in SECRETS if one in shared] == []
    assert ("changes.patch" in in_final(folder)) == patched
    assert ("lacks these, edit them by hand" in page) != patched
    assert "config.yml` holds what reads as a secret" in page
    assert "num_workers" in page
    assert "`config.yml` `batch: 32`" in page
    assert f"final/{COPIES}" not in page


def test_a_patch_is_never_made_for_lines_that_were_not_measured(home: Path, folder: Path) -> None:
    """Where none is there that was made of the file before, none is written; and a run with the changes is warned."""
    line_inserted(home)
    (folder / "final" / "changes.patch").unlink()
    drawn(folder)
    changes, command = changes_in(folder / "final"), read_investigation(folder).settings.command

    assert not (folder / "final" / "changes.patch").exists()
    assert "no patch is written for it" in (folder / "final" / "changes.md").read_text()
    assert "train.py changed after these changes were found" in "".join(outdated(changes, command))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"nodes": "two"}, "nodes: expected a whole number, found 'two'"),
        ({"given": []}, "given: expected a mapping"),
        ({"sources": ["train.py"]}, "sources: expected a mapping"),
        ({"values": None}, "values: expected a mapping"),
        ({"early": {"A": 1}}, "early.A: expected a text"),
        ({"launching": "torchrun"}, "launching: expected a list"),
        ({"feeding": None}, "feeding: expected a list"),
        ({"given": {"--lr": "1\0"}}, r"given.--lr: found the character U\+0000"),
        ({"sources": {"a\ud800.py": "1"}}, r"sources: found the character U\+D800 in the key"),
        ([1], "expected a section with keys"),
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        (None, "it is no regular file"),
    ],
    ids=str,
)
def test_damaged_changes_are_told_with_what_is_wrong(damage: object, said: str, tmp_path: Path) -> None:
    """Whoever edits the file by hand, or copies half of it, reads its name, the key and what to do."""
    changes = {"values": {}, "feeding": [], "given": {}, "freed_memory": "kept", "of_a_later_version": 1}
    path = tmp_path / CHANGES
    if damage is None:
        path.mkdir()
    else:
        found = changes | damage if isinstance(damage, dict) else damage
        path.write_text(found if isinstance(found, str) else json.dumps(found))

    with pytest.raises(SettingsError, match=f"{path}: .*({said})"):
        changes_in(tmp_path)
    shutil.rmtree(path) if damage is None else path.unlink()
    path.write_text(json.dumps(changes))
    assert list(outdated(changes_in(tmp_path), resolve([sys.executable, __file__], tmp_path, {}))) == []


def variables(text: str) -> dict[str, str]:
    """Environment variables as a shell is given them."""
    return dict(one.split("=", 1) for one in text.split())


CODE = variables(
    "PYTHONPATH=final/files PYTHONSTARTUP=a.py LD_PRELOAD=a.so LD_LIBRARY_PATH=. PATH=. BASH_ENV=a.sh CC=a "
    "NCCL_NET_PLUGIN=a OMP_TOOL_LIBRARIES=a.so TRITON_CACHE_DIR=a TORCH_EXTENSIONS_DIR=a KERAS_BACKEND=a "
    "HF_ENDPOINT=https://a.example WANDB_BASE_URL=https://a.example PYTORCH_NVCC=a;b TORCH_ANYTHING=a/b "
    "CUBLAS_LOGDEST_DBG=train.py"
)
"""Variables by which a program would run other code, ask another server, or write over a file."""

TUNED = variables(
    "OMP_NUM_THREADS=2 CUDA_VISIBLE_DEVICES=0,1 KMP_AFFINITY=granularity=fine,compact,1,0 OMP_PLACES={0:4},{4:4} "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128 CUBLAS_WORKSPACE_CONFIG=:4096:8 "
    "TOKENIZERS_PARALLELISM=false NCCL_P2P_DISABLE=1"
)
"""Variables that programs set before they import torch."""


def test_changes_that_somebody_sent_run_no_code_of_his(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program starts with what tunes it. Each variable and each option is told, and what may lead to other code is
    told to be left out."""
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr(changed_run.os, "execve", lambda python, words, env: started.append(env))
    for name in CODE.keys() - {"PATH"} | TUNED.keys():
        monkeypatch.delenv(name, raising=False)
    own = os.environ.copy()
    changes = {"values": {}, "feeding": [], "given": {"--batch": 16}, "freed_memory": "kept", "early": CODE | TUNED}
    (tmp_path / CHANGES).write_text(json.dumps(changes))
    main(["run", "--with", str(tmp_path), "--", sys.executable, __file__])
    told = capsys.readouterr().err

    assert started == [own | TUNED]
    assert all(f"the program starts with {name}={value}\n" in told for name, value in TUNED.items())
    assert all(f"{name} is left to the program's own code" in told for name in CODE)
    assert "the command is given --batch 16\n" in told


def test_what_was_made_for_other_changes_does_not_stay(home: Path, folder: Path) -> None:
    """A patch and a copy beside another choice would be taken for those of this one."""
    final = folder / "final"
    (final / CHANGES).write_text((final / CHANGES).read_text().replace('"program"', '"another"'))
    copied_elsewhere(home)
    drawn(folder)

    assert in_final(folder).keys() == {CHANGES}


@pytest.mark.parametrize("known", [None, {"values": {}, "digests": {}}], ids=["an earlier version", "a stranger"])
def test_records_open_no_file_that_they_do_not_know(known: dict[str, Any] | None, home: Path, folder: Path) -> None:
    """Whoever sent them may name any file of their reader's, and gets the reports back. They are drawn without it."""
    path = folder / "records" / "investigation" / "last.json"
    told = json.loads(path.read_text())
    told["record"]["as_measured"] = known
    path.write_text(json.dumps(told))
    shutil.rmtree(folder / "final")
    opened: list[str] = []
    watching = [True]
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if watching and event == "open" else None)
    here = drawn(folder).verdict
    watching.clear()

    assert "num_workers" in here.name
    assert [name for name in opened if name.startswith(str(home))] == []
    assert in_final(folder).keys() == {CHANGES}
    assert changes_in(folder / "final").sources == {}
    copied_elsewhere(home)
    assert drawn(folder).verdict is not None


@pytest.mark.parametrize(("character", "named"), [("\0", "U+0000"), ("\ud800", "U+D800")])
def test_changes_with_a_character_that_no_path_holds_are_refused(character: str, named: str, tmp_path: Path) -> None:
    """They name the key, and no call of the system meets the character."""
    changes = {"values": {"a": 1}, "feeding": [], "given": {}, "freed_memory": "kept", "program": ""}
    (tmp_path / CHANGES).write_text(json.dumps(changes | {"sources": {f"a{character}b": "0"}}))

    with pytest.raises(SettingsError, match=rf"sources: found .*{re.escape(named)}"):
        changes_in(tmp_path)


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "none"])
def test_changes_that_somebody_sent_wait_for_no_file(kind: str, tmp_path: Path) -> None:
    """Their record names files whose content is compared; one that never ends, or is none, is another file."""
    places = {"device": "/dev/zero", "pipe": str(tmp_path / "pipe"), "folder": str(tmp_path)}
    os.mkfifo(tmp_path / "pipe")
    changes = {"values": {}, "feeding": [], "given": {}, "freed_memory": "kept", "program": ""}
    place = places.get(kind, "nowhere")
    (tmp_path / CHANGES).write_text(json.dumps(changes | {"sources": {place: "0"}, "values": {"a": 1}}))

    (said,) = outdated(changes_in(tmp_path), resolve([sys.executable, __file__], tmp_path, {}))
    assert "changed after these changes were found" in said


def pages(folder: Path) -> tuple[str, str]:
    """The texts of changes.md and decision.md, without escapes."""
    return tuple((folder / "final" / name).read_text().replace("\\", "") for name in ("changes.md", "decision.md"))


def test_what_is_not_taken_says_why_and_what_would_let_it_in(investigated: Investigated) -> None:
    """Both pages have the reason and the remedy of the decision. It is not said that no change was shown to pay."""
    folder = investigated(lambda arm, purpose: 0.2 * (arm.settings.given.get(BATCH) == 32), batch="semantics")
    (refused,) = decision_of(choose(read_investigation(folder, "90_final_config"))).refused
    changes, decision = pages(folder)

    assert "No change that may be made was shown to pay, so none is proposed." in changes
    for page in (changes, decision):
        assert f"{refused.why}; `{refused.remedy}` in investigation.yaml allows it" in page
    assert f"`{refused.verdict.shown}`: +20 %" in changes


class WithoutConfirmation(OfAProgram):
    """Has no time left to measure anything once more."""

    def compare(self, request: Any, *args: Any) -> ComparisonRecord | None:
        return None if request.purpose == "confirmation" else super().compare(request, *args)


@pytest.mark.parametrize("confirmed", [True, False, None], ids=["confirmed", "refuted", "too late"])
def test_pages_of_a_command_have_the_programs_own_words(confirmed: bool | None, investigated: Investigated) -> None:
    """The kit's own labels stand nowhere: not among options, nor in reasons, nor with what was left out."""
    measurer = WithoutConfirmation if confirmed is None else OfAProgram
    folder = investigated(lambda a, purpose: 0.0 if purpose and not confirmed else gain(a, purpose), measurer=measurer)
    choice = choose(read_investigation(folder, "90_final_config"))
    told = final_conclusion(choice.verdict, choice.verdicts, choice.left_out, []).markdown
    reasons = [one.why for one in decision_of(choice).refused]

    assert bool(confirmed) == choice.adopted
    assert any("together with train.py:3 DataLoader" in why for why in reasons) == (confirmed is None)
    for text in (*pages(folder), told, *choice.left_out, *reasons):
        assert "dataloader_num_workers=" not in text
        assert "batch=32" not in text
    assert all("num_workers=2" in text for text in (pages(folder)[1], told))


def test_a_conclusion_has_the_programs_own_words(folder: Path) -> None:
    """Whatever becomes of a change, measured or not."""
    (one, *_) = choose(read_investigation(folder, "90_final_config")).verdicts
    assert one.lines
    for outcome, status, effect in itertools.product(Outcome, [None, *Status], [one.effect, None]):
        if effect is None and outcome is Outcome.SUPPORTED:
            continue  # what is supported was measured
        v = replace(one, outcome=outcome, status=status, effect=effect, reason="why")
        texts = [conclusion("Subject", [v]).markdown, final_conclusion(None, [v], [], []).markdown]

        assert not any(one.name in text for text in texts), (outcome, status, effect)
        assert any("train.py:3 DataLoader" in text for text in texts), (outcome, status, effect)


PLACE = "mo~del.py:3: x[0] = *y * $z"
"""A place with all that is markup in Markdown."""


def with_limit(choice: Choice, factor: str, **about: Any) -> Choice:
    """Return the choice with a change beside the others that nobody trains with, and that is three times as fast."""
    whole = Interval(mean=1.1, lower=1.0, upper=1.2, p=1e-6, n=9)
    limit = replace(
        choice.tested[0].verdict,
        name=f"{factor}=false",
        factor=factor,
        cause="What is not needed",
        overrides={},
        lines=[PLACE],
        meaning=Meaning.DIAGNOSTIC,
        effect=whole,
        outcome=Outcome.SUPPORTED,
        **about,
    )
    return replace(choice, tested=[*choice.tested, replace(choice.tested[0], verdict=limit)])


@pytest.mark.parametrize("factor", ["idle_gradients", "own_rule", "tracing", "larger_micro_batches"])
@pytest.mark.parametrize("adopted", [True, False])
def test_a_limit_is_told_with_its_place(factor: str, adopted: bool, investigated: Investigated) -> None:
    """A change that nobody trains with shows the largest cost: changes.md names its line, whatever stands there, and
    decision.md is not silent about it. What undoes a cost is open as long as it is not done."""
    lab = read_investigation(investigated(gain if adopted else lambda arm, purpose: 0.0), "90_final_config")
    choice = with_limit(choose(lab), factor, left={}, left_at_most={})
    changes, record = changes_page(lab, choice, lab.settings.command, ""), decision(lab, choice).replace("\\", "")
    decided = record.partition("## Decision")[2].partition("##")[0]

    assert adopted == choice.adopted
    assert f"Shown by `{PLACE}` (+200 % [" in changes.partition("## Code to look at")[2]
    assert ("What is not needed costs" in decided) == (is_undoing(factor) or adopted)
    assert ("Still open: What is not needed costs" in record) == (is_undoing(factor) or not adopted)


@pytest.mark.parametrize("factor", ["idle_gradients", "own_rule", "tracing"])
def test_a_limit_within_the_cause_of_a_phase_has_its_own_line(factor: str, folder: Path) -> None:
    """The wait for data grows shorter with it, too, and the cause of that wait tells of less time."""
    lab = read_investigation(folder, "90_final_config")
    changes = changes_page(lab, with_limit(choose(lab), factor), lab.settings.command, "")

    assert 1 == changes.count(f"Shown by `{PLACE}` (+200 % [")


@pytest.mark.parametrize(
    ("typed", "early", "shown", "unset"),
    [
        (["python", "a.py"], {}, ["python", "a.py"], "env -u NCCL_DEBUG "),
        (["NCCL_DEBUG=INFO", "A=1", "python", "a.py"], {}, ["A=1", "python", "a.py"], ""),
        (["env", "NCCL_DEBUG=INFO", "python", "a.py"], {}, ["env", "python", "a.py"], ""),
        (["python", "a.py", "NCCL_DEBUG=INFO"], {}, ["python", "a.py", "NCCL_DEBUG=INFO"], "env -u NCCL_DEBUG "),
        (["python", "a.py"], {"NCCL_DEBUG": "INFO"}, ["python", "a.py"], ""),  # its own line has to go
    ],
)
def test_a_command_without_a_variable_sets_it_no_more(
    typed: list[str], early: dict[str, str], shown: list[str], unset: str
) -> None:
    """Neither by a word of its own nor by the shell's environment; an option that looks alike is left alone."""
    command = Command(words=typed, python="python", arguments=["a.py"], folder="/", early=early)

    assert without_variables({"NCCL_DEBUG"}, typed, command) == (shown, unset)
