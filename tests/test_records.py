"""Records on disk: what is written comes back, and what can't be trusted counts as absent."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from simulated import around, block, pairs, record
from slowstep.investigation.opening import Description
from slowstep.investigation.results import Audited, NotebookRun, PlanRun, Summary
from slowstep.launch.changed_run import AdoptedChanges
from slowstep.launch.surveyor import SurveyRecord
from slowstep.records import (
    ComparisonRecord,
    Environment,
    EventRecord,
    Memory,
    ObservationRecord,
    Pair,
    ProfileRecord,
    Status,
    Store,
    TrialRecord,
    identity,
)
from slowstep.records.plain_files import LARGEST
from slowstep.records.store import write_atomically
from slowstep.settings import Settings
from slowstep.settings.convert import NOT_IN_FILES

FULL = replace(
    record(pairs(around(0.1)), observed={"optim": "adamw_torch", "lora_r": None, "workers": 2}, redone=["steal time"]),
    baseline=TrialRecord(
        arm="baseline",
        status=Status.OUT_OF_MEMORY,
        reason="naïve “text”\nof two lines",
        startup={"process": 0.1},
        memory=Memory(allocated=2**33, limit=None),
    ),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize("kept", [FULL, EventRecord(seconds={"save": [1.5]}, bytes={"save": 10})])
def test_what_is_written_comes_back(store: Store, kept: object) -> None:
    """A record read from disk equals the one that was measured, types and text included."""
    store.write(kept, "comparisons", "x", about="a comparison")

    assert kept == store.read(type(kept), "comparisons", "x")


def test_not_measured_stays_not_measured(store: Store) -> None:
    """None is read back as None and never becomes 0."""
    bare = block([1.0], tokens=None)
    store.write(record([Pair(first="baseline", baseline=bare, treatment=bare)]), "comparisons", "x")
    found = store.read(ComparisonRecord, "comparisons", "x")

    assert found.pairs[0].baseline.work.useful_tokens is None
    assert found.treatment.memory.reserved is None


def test_a_person_can_open_a_record(store: Store) -> None:
    """The file is JSON with its version, its kind and what it is about beside the record."""
    data = json.loads(store.write(FULL, "comparisons", "x", about="tokenize=once").read_text(encoding="utf-8"))

    assert ("comparisons", "tokenize=once") == (data["kind"], data["about"])
    assert isinstance(data["version"], int)


def spoil(change: Callable[[dict], object]) -> Callable[[str], str]:
    """A change of the file's data, as a change of its text."""

    def spoiled(text: str) -> str:
        data = json.loads(text)
        change(data)
        return json.dumps(data)

    return spoiled


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "null",
        spoil(lambda d: d.update(version=d["version"] + 1)),
        spoil(lambda d: d.pop("version")),
        spoil(lambda d: d.pop("record")),
        spoil(lambda d: d["record"].update(pairs=3)),
        spoil(lambda d: d["record"].update(surprise=3)),
        spoil(lambda d: d["record"]["baseline"].update(status="no status")),
        spoil(lambda d: d["record"]["baseline"].update(status=[])),
        spoil(lambda d: d["record"]["pairs"][0]["baseline"].update(seconds="long")),
        spoil(lambda d: d["record"]["pairs"].append(None)),
    ],
)
def test_a_record_that_cannot_be_trusted_counts_as_absent(store: Store, spoiled: Callable[[str], str]) -> None:
    """A file cut short, of another version or another shape is measured again, and ends no notebook."""
    path = store.write(FULL, "comparisons", "x")
    path.write_text(spoiled(path.read_text(encoding="utf-8")), encoding="utf-8")

    assert store.read(ComparisonRecord, "comparisons", "x") is None


def test_a_file_that_is_no_text_counts_as_absent(store: Store) -> None:
    """Bytes that are no UTF-8 are no record."""
    store.write(FULL, "comparisons", "x").write_bytes(b"\xff\xfe\x00")

    assert store.read(ComparisonRecord, "comparisons", "x") is None


def test_a_record_that_is_not_there_is_none(store: Store) -> None:
    """Nothing measured yet is no error."""
    assert store.read(ComparisonRecord, "comparisons", "x") is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """Whatever dies while writing, the old content stays whole and no half file lies about."""
    path = tmp_path / "x.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")

    assert "old" == path.read_text(encoding="utf-8")
    assert [path] == list(tmp_path.iterdir())


def test_others_may_read_a_record(tmp_path: Path) -> None:
    """Records are made to be shared: the file is readable by all, not by its owner alone."""
    write_atomically(tmp_path / "deep" / "x.json", "text")

    assert 0o644 == (tmp_path / "deep" / "x.json").stat().st_mode & 0o777


def test_equal_content_has_an_equal_name(quick: Settings) -> None:
    """The order in which keys were written doesn't matter."""
    assert identity({"a": 1, "b": [quick]}) == identity({"b": [quick], "a": 1})


@pytest.mark.parametrize("other", [{"a": 2}, {"a": 1.5}, {"a": "1"}, {"a": True}, {"a": None}, {"b": 1}, {}])
def test_changed_content_has_another_name(other: dict) -> None:
    """A changed setting is measured again."""
    assert identity({"a": 1}) != identity(other)


def test_names_hold_between_processes(quick: Settings) -> None:
    """A later run, with other hash seeds, finds what an earlier one measured."""
    file = str(Path(__file__).resolve().parents[1] / "params" / "quick.yaml")
    program = (
        "from slowstep.records import identity; from slowstep.settings import load; "
        f"print(identity(load({file!r}, ['budget.minutes=null']).settings))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert identity(quick) == found.stdout.strip()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'{"version": 2, "record": ' + b"[" * 200_000, "nested"),
        (b'{"version": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"version": NaN}', "no record"),
        (b'{"version": true}', "no record"),
        (b"\x00" * 4096, "torn"),
        (b"\xff\xfe\x00", "no text"),
        (b'{"version": 99, "record": {}}', "later version"),
        (b'{"version": 1, "editor": "vim"}', "no record of the kind"),
        (b'{"version": 1, "kind": "profiles", "record": {}}', "no record of the kind"),
    ],
)
def test_a_file_that_is_no_record_is_told_and_kept(store: Store, content: bytes, word: str) -> None:
    """It counts as absent, the reason is at hand, and what is measured in its place does not delete it."""
    path = store.write(FULL, "comparisons", "x")
    path.write_bytes(content)

    assert store.read(ComparisonRecord, "comparisons", "x") is None
    assert word in store.unusable[path]
    store.write(FULL, "comparisons", "x")
    assert FULL == store.read(ComparisonRecord, "comparisons", "x")
    assert [content] == [p.read_bytes() for p in path.parent.glob("x.json.aside*")]


@pytest.mark.parametrize(
    ("kind", "name"), [("", "x"), (".", "x"), ("..", "x"), ("a/b", "x"), ("a", "../x"), ("a", "/x")]
)
def test_a_record_is_never_outside_of_its_folder(store: Store, kind: str, name: str) -> None:
    """Whatever name is asked for, nothing is written or removed elsewhere."""
    for act in (lambda: store.write(FULL, kind, name), lambda: store.drop(kind, name), lambda: store.path(kind, name)):
        with pytest.raises(ValueError, match="is the name of no record"):
            act()


@pytest.mark.parametrize(
    ("what", "said"), [("link", "symbolic link"), ("pipe", "no regular file"), ("large", "512 MiB at most")]
)
def test_a_record_is_a_file_of_its_own(what: str, said: str, store: Store, tmp_path: Path) -> None:
    """A link may lead to what the reader keeps for himself or to /dev/zero, and a pipe may never end. Such a thing
    counts as absent, with the reason, and stays what it is."""
    path = store.write(FULL, "comparisons", "x")
    if what == "large":
        os.truncate(path, LARGEST + 1)
    else:
        path.rename(tmp_path / "elsewhere.json")
        path.symlink_to(tmp_path / "elsewhere.json") if what == "link" else os.mkfifo(path)
    known = path.lstat()

    assert store.read(ComparisonRecord, "comparisons", "x") is None
    assert said in store.unusable[path]
    store.write(FULL, "comparisons", "x")
    assert (path.parent / "x.json.aside1").lstat().st_mode == known.st_mode
    assert FULL == store.read(ComparisonRecord, "comparisons", "x")


def test_a_folder_in_place_of_a_record_is_set_aside(store: Store) -> None:
    """Whatever lies in it stays."""
    path = store.path("comparisons", "x")
    path.mkdir(parents=True)
    (path / "mine.txt").write_text("mine")

    assert store.read(ComparisonRecord, "comparisons", "x") is None
    store.drop("comparisons", "x")
    store.write(FULL, "comparisons", "x")
    assert FULL == store.read(ComparisonRecord, "comparisons", "x")
    assert "mine" == (path.parent / "x.json.aside1" / "mine.txt").read_text()


@pytest.mark.parametrize(
    "change", [{"seconds": float("nan")}, {"seconds": 1e300}, {"seconds": -1.0}, {"steps": 0}, {"steps": 10**400}]
)
def test_a_block_that_can_not_be_is_no_block(store: Store, change: dict) -> None:
    """Figures with which nothing can be reckoned count as no record, and end no notebook."""
    path = store.write(FULL, "comparisons", "x")
    path.write_text(spoil(lambda d: d["record"]["pairs"][0]["baseline"].update(change))(path.read_text()))

    assert store.read(ComparisonRecord, "comparisons", "x") is None
    assert "can't be" in store.unusable[path]


def test_an_earlier_version_is_nothing_to_speak_of(store: Store) -> None:
    """After an upgrade everything is measured anew, and no line complains of it."""
    path = store.write(FULL, "comparisons", "x")
    path.write_text(spoil(lambda d: d.update(version=1))(path.read_text()))

    assert store.read(ComparisonRecord, "comparisons", "x") is None
    assert {} == store.unusable


def test_a_machine_that_was_started_again_is_the_same_one() -> None:
    """Its memory has some bytes more or less each time; half of it is another machine."""
    whole = {"processor": "one", "memory": 25276510208, "gpu_memory": 85_899_345_920, "tools": ["g++"]}
    again = whole | {"memory": 25276502016, "gpu_memory": 85_899_000_000, "tools": []}
    smaller = whole | {"memory": 12_000_000_000}
    one, other, third = (Environment(machine=machine).determinants for machine in (whole, again, smaller))

    assert one == other != third


RECORDED = (ComparisonRecord, ObservationRecord, EventRecord, ProfileRecord, Summary, NotebookRun, PlanRun, Audited)
RECORDED += (Description, SurveyRecord, AdoptedChanges)
"""What is written as a record, or as JSON of the kit's own, and read again."""


def unreadable(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The types within a type that are written as JSON and can't be read from that."""
    if kind in seen:
        return
    seen.add(kind)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        for one in dataclasses.fields(kind):
            if one.metadata != NOT_IN_FILES:
                yield from (f"{kind.__name__}.{one.name}: {what}" for what in unreadable(hints[one.name], seen))
    elif origin := get_origin(kind):
        if origin not in (list, tuple, dict, Union, UnionType, Literal):
            yield str(kind)
        for each in get_args(kind) if origin is not Literal else ():
            yield from unreadable(each, seen)
    elif kind not in (Any, object, dict, str, int, float, bool, NoneType, Ellipsis) and not issubclass(kind, Enum):
        yield str(kind)


@pytest.mark.parametrize("kind", RECORDED)
def test_what_is_written_can_be_read(kind: type) -> None:
    """A field of a type that is not read makes the whole record one that can't be used."""
    assert list(unreadable(kind, set())) == []
