"""Files that can't be read, and large ones: what can be audited is, and the place of the fault is where it began."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slowstep.audit.read import Unreadable, progress_bars, read_file
from slowstep.audit.read.cells import DIVIDER
from slowstep.audit.read.tables import table_rows
from slowstep.audit.read.text_files import LOG_LINE
from slowstep.audit.unreadable_files import without_refused_files
from slowstep.cli.main import main
from slowstep.settings import load

ROOT = Path(__file__).resolve().parents[1]
ENDS = "{'train_runtime': 4130.0, 'train_samples_per_second': 15.02, 'train_steps_per_second': 0.4694}\n"


@pytest.mark.trials
def test_a_refused_file_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a parameter file before it nor figures after it; each is told, and the exit status says so."""
    (tmp_path / "wrong.yaml").write_text("name: wrong\nreported: {rows: [{label: a, figures: {velocity: '1'}}]}\n")
    (tmp_path / "bad.csv").write_text("run,s/it\na,fast\n")
    (tmp_path / "before.log").write_text(ENDS)
    (tmp_path / "after.log").write_text(ENDS.replace("15.02", "30.04"))
    names = ("wrong.yaml", "bad.csv", "missing.log", "before.log", "after.log")
    status = main(["audit", *(str(tmp_path / name) for name in names), "--outputs", str(tmp_path / "out")])
    said = capsys.readouterr()

    assert status == 2
    assert "'after' is 2.00 times as fast as 'before' in samples/s" in said.out
    assert all(f"{tmp_path / name}" in said.err for name in names[:3])
    assert not any(f"{tmp_path / name}" in said.err for name in names[3:])


def test_a_report_is_audited_without_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    """Claims on rows of that file are named as not judged, the others stay."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").write_text(ENDS)
    (tmp_path / "c.log").write_text("nothing\n")
    claims = [f"{{text: {b} is as fast, baseline: a, treatment: {b}, speed_up: '1.0'}}" for b in "bc"]
    files = [str(tmp_path / f"{name}.log") for name in "abc"]
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nreported:\n  files: {files}\n  claims: [{', '.join(claims)}]\n")
    overrides, problems = without_refused_files(load(path))
    left = load(path, overrides).settings.reported

    assert ([c.treatment for c in left.claims], left.files) == (["b"], files[:2])
    assert files[2] in problems[0]
    assert "'c is as fast': not judged" in problems[1]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('run,s/it,note\na,2.1,"fine\nb,2.2,ok\nc,2.3,ok\n', "t:2:7: "),
        ('run,s/it,note\na,2.1,"fine\nb,2.2,"ok"\nc,2.3,ok\n', "t:2:7: "),
        ('run\ts/it\n"a\t2.1\nb\t2.2\n', "t:2:1: "),
        ('run,s/it,note\na,2.1,"two\nlines"\nb,2.2,"open\nc,2.3,ok\n', "t:4:7: "),
        ('"run,s/it\na,1\n', "t:1:1: "),
        ('run,s/it,note\na,2.1,"two\nlines"\nb,fast,ok\n', "t:4:2: "),
    ],
)
def test_an_open_quote_is_blamed_where_it_opens(text: str, place: str) -> None:
    """Not where the file ends, nor where another quote closes it; and a cell of two lines moves no line behind it."""
    with pytest.raises(Unreadable) as refused:
        table_rows(text, "t")

    assert str(refused.value).startswith(place)


def test_a_log_reads_the_same_in_pieces_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars and last words that lie across the border of two pieces are found once, with their names and lines."""
    bars = [
        f"Epoch 1/3: {n:3}%|█▌  | {n}/100 [{n // 30:02}:{2 * n % 60:02}<01:00, {2 + n % 7 / 100:.2f}s/it]\r"
        for n in range(1, 101)
    ]
    text = "downloading\n" * 2000 + "".join(bars) * 3 + "\n" + "x" * 9000 + ENDS + "{'loss': 1.0}\n" * 900 + ENDS * 2
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    found = []
    for piece in (1 << 20, 4096, 997):
        monkeypatch.setattr(progress_bars, "PIECE", piece)
        found.append(progress_bars.scan(path))

    assert found[0] == found[1] == found[2]
    assert [len(s.paces) for s in found[0].stretches] == [100, 100, 100]
    assert {s.name for s in found[0].stretches} == {"Epoch 1/3"}
    assert [text.count("\n", 0, said.at) + 1 for said in found[0].ends] == [said.line for said in found[0].ends]
    assert len(found[0].ends) == 3


def test_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    """Eight times the log, and not eight times the memory; of bars drawn over each other in one line."""
    bar = "\r" + " 10%|█         | {}/1000000 [00:10<09:59,  2.13s/it]"
    used = []
    for size in (20_000, 160_000):
        path = tmp_path / f"{size}.log"
        path.write_text("".join(bar.format(n) for n in range(1, size)), encoding="utf-8")
        program = (
            "import resource, sys; from pathlib import Path; from slowstep.audit.read import read_file; "
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; read_file(Path(sys.argv[1])); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
        )
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        used.append(int(done.stdout) * 1024)

    assert used[1] - used[0] < 0.5 * (path.stat().st_size - (tmp_path / "20000.log").stat().st_size)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """A log that grows while it is looked at; what a caller does with the rows changes no later answer."""
    path = tmp_path / "train.log"
    path.write_text(ENDS)
    first = read_file(path)
    first[0]["figures"].clear()
    again = read_file(path)
    path.write_text(ENDS.replace("4130.0", "5.0"))
    os.utime(path, ns=(1, 1))

    assert again[0]["figures"]["seconds"] == "4130.0"
    assert read_file(path)[0]["figures"]["seconds"] == "5.0"


def test_claims_are_told_before_anything_heavy_is_loaded() -> None:
    """No torch, no plotting, no notebook: what takes seconds to start comes after the claims."""
    program = (
        "import sys; from slowstep.cli import audit as cli; from slowstep.settings import load; "
        "from slowstep.audit.unreadable_files import without_refused_files; "
        "from slowstep.audit.model_sizes import Sizing; from slowstep.records import Store; "
        "from pathlib import Path; loaded = load('params/case_000.yaml'); without_refused_files(loaded); "
        "found = cli.audit_figures(loaded.settings); s = Sizing(loaded.settings, Store(Path('nowhere'))); "
        "assert cli.claim_lines(found, s.judged_without(found)); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"torch", "transformers", "plotly", "pandas", "scipy", "numpy", "nbformat", "nbclient", "jupyter_client"}

    assert set() == heavy & set(done.stdout.split())


@pytest.mark.parametrize("name", ["table.csv", "train.log", "page.md", "state.json"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    """A report of somebody else may name one, which nothing is ever written to."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(Unreadable, match="is a folder, a pipe or a device; name a file"):
        read_file(tmp_path / name)


@pytest.mark.parametrize("name", ["table.csv", "table.log", "page.md", "state.json", "page.html", "page.ipynb"])
def test_a_file_that_would_fill_the_memory_is_refused(name: str, tmp_path: Path) -> None:
    """What is read as a whole is bounded; its size and what to do are told."""
    path = tmp_path / name
    path.write_text("step\ttime\n" + "1\t2\n" * 20000)
    os.truncate(path, 2**36)
    with pytest.raises(Unreadable, match=r"has 65536 MiB, and 256 MiB at most are read; keep the part"):
        read_file(path)


def test_a_long_line_is_looked_at_once() -> None:
    """No pattern begins anew at each digit of a long number, or at each blank before a word."""
    assert LOG_LINE.search("1" * 2**20) is None
    assert LOG_LINE.search("Epoch 1: 120/2000 [00:01") is not None
    assert DIVIDER.match(" " * 2**20 + "x|") is None
    assert DIVIDER.match("| - |" + " " * 2**20 + "x") is None
    assert DIVIDER.match("  | :---: | -- |  ") is not None


@pytest.mark.parametrize("sign", ["(", "[", "1", "a "])
def test_a_cell_of_any_length_is_read_at_once(sign: str, tmp_path: Path) -> None:
    """A name of a column has a few characters, and what is longer is looked at by its beginning."""
    (tmp_path / "table.csv").write_text(f"{sign * 2**16},s/it\n8,1.2\n16,2.4\n")

    assert ["1.2", "2.4"] == [row["figures"]["seconds_per_step"] for row in read_file(tmp_path / "table.csv")]
