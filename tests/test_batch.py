"""An investigation as a whole: which notebooks run, over what, when measuring fails or moves."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from slowstep.batch import investigations, notebook
from slowstep.batch.cleanup import forget_other_runs
from slowstep.batch.earlier_pages import set_aside
from slowstep.batch.measuring import Concluded
from slowstep.cli import load_and_check, progress
from slowstep.cli import measure as by_command
from slowstep.cli.main import main
from slowstep.environment.own_code import judging_code
from slowstep.investigation import Unmeasurable
from slowstep.investigation.results import INTERRUPTED, NotebookRun, Summary
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.measure.progress import Progress
from slowstep.measure.slurm.jobs import NoNode
from slowstep.records import Store
from slowstep.settings import load
from slowstep.settings.sections import BASELINE, FINAL, SECTIONS, TESTED

ROOT = Path(__file__).parents[1]
LOADED = load(ROOT / "params" / "smoke.yaml")
ASKED = [section.notebook for section in sections_to_answer(LOADED.settings)]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], bool]]:
    """The notebooks that run together, and whether they measure; none of them really runs."""
    found: list[tuple[list[str], bool]] = []
    monkeypatch.setattr(
        investigations,
        "run",
        lambda paths, given, tell, measure=False: found.append(([p.stem for p in paths], measure)),
    )
    return found


def diagnosed(monkeypatch: pytest.MonkeyPatch, outputs: Path, steps: Iterator[Concluded]) -> list[str]:
    """Diagnose with these conclusions in place of measuring; what was said."""
    said: list[str] = []
    monkeypatch.setattr(investigations, "measured", lambda *_: steps)
    investigations.diagnose(LOADED, [], outputs, lambda line, progress: said.append(line))
    return said


def concluded(*failed: str, moved: tuple[str, ...] = ()) -> list[Concluded]:
    """Every section, some of which fail."""
    sections = [s for s in SECTIONS if s.notebook in ASKED]
    return [
        Concluded(
            section=s,
            lab=None,
            moved=moved,
            failed=OSError(errno.ENOSPC, "", "somewhere") if s.notebook in failed else None,
        )
        for s in sections
    ]


def test_reports_are_drawn_when_nothing_is_left_to_measure(
    drawn: list, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first as soon as the baseline is known, all others together; none of them measures."""
    diagnosed(monkeypatch, tmp_path, (one for one in concluded()))

    assert drawn == [([BASELINE.notebook], False), (ASKED[1:], False)]


def test_a_section_that_fails_is_asked_again_by_its_notebook(
    drawn: list, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Alone, and with the reason; also where it failed when it concluded for the second time."""
    name, rest = "40_compute", [n for n in ASKED[1:] if n != "40_compute"]
    again = [one for one in concluded(name, moved=("data",)) if one.section is BASELINE or one.section in TESTED]
    said = diagnosed(monkeypatch, tmp_path, (one for one in [*concluded(), *again]))

    assert (ASKED[:1], False) in drawn
    assert drawn[-2:] == [([ASKED[0], *rest], False), ([name], True)]
    assert any(line.startswith(name) and "somewhere" in line for line in said)


def test_measuring_without_notebooks_goes_on_after_a_section_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which one failed and why, and its exit status tells that not all was measured."""
    passed: list[str] = []

    def steps(sections: list[Concluded]) -> Iterator[Concluded]:
        for one in sections:
            yield one
            passed.append(one.section.notebook)

    def measured(sections: list[Concluded]) -> int:
        monkeypatch.setattr(by_command, "measured", lambda *_: steps(sections))
        return by_command.measure(LOADED, tmp_path)

    name = "40_compute"
    assert measured(concluded(name)) == 1
    assert passed == ASKED
    (told,) = capsys.readouterr().err.splitlines()
    assert "somewhere" in told
    assert told.startswith(next(section.title for section in SECTIONS if section.notebook == name))
    again = [replace(one, failed=None) for one in concluded(moved=("data",)) if one.section in TESTED]
    assert measured([*concluded(name), *again]) == 0
    no_node = [replace(one, failed=NoNode("no node is free")) for one in concluded() if one.section is FINAL]
    with pytest.raises(NoNode, match="no node is free"):
        measured(no_node)


def test_a_baseline_that_fails_now_leaves_nothing_that_was_concluded_before(
    drawn: list, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the index would show an answer about a run that can't be trained any more."""
    store = Store(tmp_path / "smoke" / "records")
    for name in ASKED:
        store.write(Summary(notebook=name), "summaries", name)

    def unmeasurable() -> Iterator[Concluded]:
        raise Unmeasurable("the baseline can't be trained")
        yield

    diagnosed(monkeypatch, tmp_path, unmeasurable())

    assert drawn[0] == (ASKED, False)
    assert store.every(Summary, "summaries") == []


def test_what_another_run_concluded_is_dropped_at_once(
    drawn: list, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A summary of a run with other settings is gone before anything is measured; one of this run stays."""
    store = Store(tmp_path / "smoke" / "records")
    diagnosed(monkeypatch, tmp_path, (one for one in []))
    store.write(Summary(notebook=FINAL.notebook), "summaries", FINAL.notebook)
    store.write(Summary(notebook=BASELINE.notebook), "summaries", BASELINE.notebook)
    other = NotebookRun(notebook=FINAL.notebook, status=INTERRUPTED, determinants="another run")
    store.write(other, "notebooks", FINAL.notebook)
    kept: list[list[str]] = []

    def looking() -> Iterator[Concluded]:
        kept.append([s.notebook for s in store.every(Summary, "summaries")])
        yield from concluded()

    diagnosed(monkeypatch, tmp_path, looking())

    assert kept == [[BASELINE.notebook]]


def test_what_another_run_drew_makes_way(drawn: list, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While the new run is measured, and if it never ends, no old page or file is taken for one of it; none is lost."""
    folder, store = tmp_path / "smoke", Store(tmp_path / "smoke" / "records")
    written = ["00_baseline.html", "90_final_config.ipynb", "final/decision.md", "final/files/model.yml"]
    unasked = next(section for section in SECTIONS if section.notebook not in ASKED)
    written.append(f"{unasked.notebook}.html")
    for name in [*written, "notes.txt"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} of another run")
    store.write(Summary(notebook=unasked.notebook), "summaries", unasked.notebook)
    seen: list[str] = []

    def looking() -> Iterator[Concluded]:
        seen.append((tmp_path / "index.html").read_text())
        yield from concluded()

    said = diagnosed(monkeypatch, tmp_path, looking())

    assert [name for name in written if (folder / name).exists()] == []
    assert {name: (folder / "earlier" / name).read_text() for name in written} == {
        name: f"{name} of another run" for name in written
    }
    assert (folder / "notes.txt").exists()
    assert not (folder / "final" / "files").exists()
    assert "the baseline is under way" in seen[0]
    assert sum(line.startswith("earlier/: ") for line in said) == 1


def test_what_the_same_run_drew_stays(drawn: list, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was interrupted, and goes on."""
    diagnosed(monkeypatch, tmp_path, (one for one in []))
    (page := tmp_path / "smoke" / "00_baseline.html").write_text("of this run")
    diagnosed(monkeypatch, tmp_path, (one for one in []))

    assert page.read_text() == "of this run"


def test_a_parameter_file_among_the_results_stays_where_it_is(tmp_path: Path) -> None:
    """Whoever diagnoses what final/ holds reads it again for each notebook."""
    (tmp_path / "final").mkdir()
    for name in ("smoke.yaml", "decision.md"):
        (tmp_path / "final" / name).write_text(name)
    set_aside(tmp_path, [FINAL.notebook], keep=tmp_path / "final" / "smoke.yaml")

    assert [path.name for path in (tmp_path / "final").iterdir()] == ["smoke.yaml"]
    assert [path.name for path in (tmp_path / "earlier" / "final").iterdir()] == ["decision.md"]


def test_measuring_without_notebooks_sets_aside_what_another_run_drew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And its index names no report that is gone."""
    store = Store(tmp_path / "smoke" / "records")
    (page := tmp_path / "smoke" / f"{FINAL.notebook}.html").parent.mkdir()
    page.write_text("of another run")
    store.write(Summary(notebook=FINAL.notebook, arm="another"), "summaries", FINAL.notebook)
    run = NotebookRun(notebook=FINAL.notebook, status="ok", report=page.name)
    store.write(run, "notebooks", FINAL.notebook)
    monkeypatch.setattr(by_command, "measured", lambda *_: (one for one in concluded()))
    by_command.measure(LOADED, tmp_path)

    assert not page.exists()
    assert (page.parent / "earlier" / page.name).exists()
    assert store.every(NotebookRun, "notebooks") == []


@pytest.mark.parametrize(("reason", "said"), [("", r"ok, drawn in \d+ s"), ("no kernel", "failed: no kernel")])
def test_the_seconds_of_a_notebook_are_those_of_drawing(
    reason: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It reads what was measured for minutes, so its own seconds are not told as those in which that was found."""
    ended = SimpleNamespace(alive=False, end=lambda: reason)
    monkeypatch.setattr(notebook, "NotebookProcess", lambda *_: ended)
    monkeypatch.setattr(notebook, "render", lambda *_: None)
    told: list[str] = []
    notebook.run(
        [notebook.path_of(BASELINE)],
        notebook.NotebookInput(loaded=LOADED, folder=tmp_path),
        lambda t, _: told.append(t),
    )

    assert told[:-1] == ["00_baseline is drawn"]
    assert re.fullmatch(f"00_baseline: {said}", told[-1])


@pytest.mark.parametrize("from_records", [True, False])
def test_no_name_in_a_record_leads_to_a_file(
    from_records: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder that was sent may name anything as its notebook. What is written and what is dropped has the name by
    which it was read, so the reader's own files stay."""
    own, folder = tmp_path / "own.json", tmp_path / "smoke"
    own.write_text('{"version": 1, "kind": "tmp", "record": {}}')
    store = Store(folder / "records")
    for name in (str(own.with_suffix("")), "../../../own"):
        store.write(NotebookRun(notebook=name, status="ok"), "notebooks", BASELINE.notebook)
        store.write(Summary(notebook=name, arm="another"), "summaries", BASELINE.notebook)
        monkeypatch.setattr(notebook, "NotebookProcess", lambda *_: SimpleNamespace(alive=False, end=lambda: ""))
        monkeypatch.setattr(notebook, "render", lambda *_: None)
        given = notebook.NotebookInput(loaded=LOADED, folder=folder, from_records=from_records)
        (made,) = notebook.run([notebook.path_of(BASELINE)], given, lambda *_: None).values()
        forget_other_runs(LOADED.settings, store)

        assert made.notebook == BASELINE.notebook
        assert store.read(NotebookRun, "notebooks", BASELINE.notebook) == made
        assert store.every(Summary, "summaries") == []
        assert [own, folder] == sorted(tmp_path.iterdir(), key=lambda path: path.name)
        assert own.read_text() == '{"version": 1, "kind": "tmp", "record": {}}'


def test_what_could_not_be_drawn_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever has reports drawn again knows which are as they were, and which there are none of."""
    drawn: list[str] = []
    monkeypatch.setattr(investigations, "run", lambda paths, *_: drawn.extend(p.stem for p in paths) or {})
    monkeypatch.setattr(investigations, "notebook_interpreter", lambda: None)
    monkeypatch.setattr(
        investigations, "read_investigation", lambda _: SimpleNamespace(loaded=LOADED, settings=LOADED.settings)
    )
    store, said = Store(tmp_path / "records"), list[str]()
    store.write(Summary(notebook=BASELINE.notebook, code=judging_code()), "summaries", BASELINE.notebook)
    (tmp_path / f"{FINAL.notebook}.html").touch()
    investigations.draw(tmp_path, lambda line, _: said.append(line))

    assert drawn == [BASELINE.notebook]
    told = dict(line.split(": ", 1) for line in said)
    assert set(told) == set(ASKED) - {BASELINE.notebook}
    assert all("not drawn, since it has concluded nothing" in why for why in told.values())
    assert [name for name, why in told.items() if "its report of before stays" in why] == [FINAL.notebook]


def test_silence_is_broken_by_what_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile takes a minute in which there is nothing to tell; whoever waits sees that it goes on, and how long."""
    monkeypatch.setattr(progress, "SILENT", 0.01)
    said: list[str] = []

    def more(beginning: str) -> bool:
        for _ in range(1000):
            said.extend(capsys.readouterr().out.splitlines())
            if sum(line.startswith(beginning) for line in said) > 1:
                return True
            time.sleep(0.01)
        return False

    with progress.Terminal("smoke") as terminal:
        under_way = Progress(notebook="00_baseline", comparison="the profile", pair=0, of=0, began=time.monotonic())
        terminal("00_baseline", under_way)
        assert more("smoke  00_baseline  the profile  ")
        terminal("10_data_loading is drawn", None)
        terminal("00_baseline: ok", None)
        assert more("smoke  10_data_loading is drawn  ")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().out == ""


def test_measuring_without_notebooks_says_how_long_it_took(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `slowstep diagnose` does."""
    monkeypatch.setattr(load_and_check, "checked", lambda *_: [LOADED])
    monkeypatch.setattr(by_command, "measured", lambda *_: (one for one in ()))

    assert main(["measure", "smoke.yaml", "--outputs", str(tmp_path)]) == 0
    assert re.fullmatch(r"this call took ([\d.]+ minutes|[\d.e-]+ s)", capsys.readouterr().out.splitlines()[-1])
