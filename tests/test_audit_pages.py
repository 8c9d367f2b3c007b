"""Pages that hold tables or logs: Markdown, HTML, notebooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slowstep.audit import Audit, audit
from slowstep.audit.read import Unreadable, read_file
from slowstep.settings import SettingsError
from slowstep.settings.load import validate

TABLE = """<table class="dataframe"><thead>
<tr style="text-align: right;"><th></th><th>config</th><th>images/s</th><th>note</th></tr></thead><tbody>
<tr><th>0</th><td>fp32</td><td>301.2</td><td rowspan="2">8 &lt; 9 | ten</td></tr>
<tr><th>1</th><td><b>amp</b> &amp; cl</td><td>620.1</td></tr></tbody></table>"""


def report(path: Path) -> Audit:
    return audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own"))


def notebook(*outputs: dict, said: str = "# Speeds") -> str:
    code = {"cell_type": "code", "source": "df", "outputs": list(outputs)}
    return json.dumps({"cells": [{"cell_type": "markdown", "source": [said]}, code], "nbformat": 4})


PAGES = {
    "page.html": f"<html><head><style>table {{}}</style></head><body><p>2x faster</p>{TABLE}</body></html>",
    "notes.md": f"# Speeds\n\n2x faster\n\n{TABLE}\n",
    "book.ipynb": notebook({"data": {"text/html": [TABLE], "text/plain": "x"}}, said="2x faster"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_table_in_html_is_read(name: str, tmp_path: Path) -> None:
    """A column that only numbers its rows names none of them, and the text beside it is looked at for claims."""
    (tmp_path / name).write_text(PAGES[name])
    found = report(tmp_path / name)

    assert [("fp32", 301.2), ("amp & cl", 620.1)] == [
        (run.label, run.given["samples_per_second"].middle) for run in found.runs
    ]
    assert any(
        "“2x faster” ('amp & cl' is that beside 'fp32' in samples/s)" in question for question in found.questions
    )


def test_what_a_notebook_prints_is_read_in_its_order(tmp_path: Path) -> None:
    """Tables in Markdown among it, and each as often as it is shown."""
    table = "| run | s/it |\n|---|---|\n| {} | {} |\n"
    shown = [{"text": [table.format("a", "2.0")]}, {"data": {"text/markdown": table.format("b", "1.0")}}]
    (tmp_path / "t.ipynb").write_text(notebook(*shown))

    assert ["a", "b"] == [run.label for run in report(tmp_path / "t.ipynb").runs]


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"cells": [{"cell_type": "markdown"}]}', '{"cells": 3}'])
def test_a_file_that_is_no_notebook_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.ipynb").write_text(text)

    with pytest.raises(Unreadable, match="is no notebook"):
        read_file(tmp_path / "t.ipynb")


@pytest.mark.parametrize(
    "text", ["so", "<table></table>", "<table><tr><td>", "<table><tr></tr></table></table>", "<!--"]
)
def test_a_page_without_a_table_is_refused(text: str, tmp_path: Path) -> None:
    """Also one whose table is cut off or has nothing in it."""
    (tmp_path / "t.html").write_text(text)

    with pytest.raises(Unreadable, match="holds no table with a header and a row"):
        read_file(tmp_path / "t.html")


@pytest.mark.parametrize("span", ["²", "0", "-1", "x", ""])
def test_a_span_that_no_page_can_have_is_none(span: str, tmp_path: Path) -> None:
    """A raised 2 is a digit, and no number that Python reads."""
    (tmp_path / "t.html").write_text(
        TABLE.replace('rowspan="2"', f'rowspan="{span}"').replace("620.1</td>", "620.1</td><td>x</td>")
    )

    assert [301.2, 620.1] == [r.given["samples_per_second"].middle for r in report(tmp_path / "t.html").runs]


def test_a_span_of_thousands_of_digits_is_one_of_many_columns(tmp_path: Path) -> None:
    (tmp_path / "t.html").write_text(TABLE.replace('rowspan="2"', f'colspan="{"9" * 5000}"'))

    with pytest.raises(SettingsError, match="expected 4 cells as in the header"):
        report(tmp_path / "t.html")


def test_a_log_in_markdown_is_read(tmp_path: Path) -> None:
    """The text of an issue has commas and no table, and quotes what was printed."""
    bars = "".join(f" 12%|█▏        | {n}/1000 [00:{n}<15:24,  1.00s/it]\n" for n in (20, 40))
    (tmp_path / "issue.md").write_text(f"Hello, it is 3x slower, why?\n\n```\n{bars}```\n")
    found = report(tmp_path / "issue.md")

    assert [1.0] == [run.given["seconds_per_step"].middle for run in found.runs]
    assert any("“3x slower”" in question for question in found.questions)


@pytest.mark.parametrize(
    ("heading", "count"),
    [
        ("## Inference latency", 1),
        ("### Serving ###", 1),
        ("**Generation**", 1),
        ("## Training, not inference", 2),
        ("## Evaluation of the loaders", 2),
        ("## Test matrix", 2),
    ],
)
def test_a_table_below_a_heading_of_inference_is_no_training(heading: str, count: int, tmp_path: Path) -> None:
    """It is asked about, and stays where no other table is left."""
    table = "| run | images/s |\n|---|---|\n| {} | 300 |\n\n"
    (tmp_path / "t.md").write_text(f"# Speeds\n\n{table.format('a')}{heading}\n\n{table.format('b')}")
    (tmp_path / "alone.md").write_text(f"{heading}\n\n{table.format('b')}")
    found = report(tmp_path / "t.md")

    assert ["a", "b"][:count] == [run.label for run in found.runs]
    assert [True] * (2 - count) == ["is it of training?" in question for question in found.questions]
    assert ["b"] == [run.label for run in report(tmp_path / "alone.md").runs]


def test_a_log_beside_tables_without_figures_is_read(tmp_path: Path) -> None:
    """An issue lists packages, and shows what nvidia-smi printed."""
    box = "+-----+------+\n| GPU | Name |\n+-----+------+\n| 0 | A100 |\n+-----+------+\n"
    packages = "| Package | Version |\n|---|---|\n| torch | 2.4.0 |\n"
    bars = "".join(f" 12%|█▏        | {n}/1000 [00:{n}<15:24,  1.00s/it]\n" for n in (20, 40))
    for name, tables in (("box", box), ("packages", packages)):
        (tmp_path / f"{name}.md").write_text(f"Slow, why?\n\n{tables}\n```\n{bars}```\n")

        assert [1.0] == [r.given["seconds_per_step"].middle for r in report(tmp_path / f"{name}.md").runs]


BAR = " 33%|███▎      | {n}00/3000 [{clock}<16:40,  {pace}]\n"
BEFORE = BAR.format(n=9, clock="07:30", pace="2.00it/s") + BAR.format(n=10, clock="08:20", pace="2.00it/s")
AFTER = BAR.format(n=9, clock="22:30", pace="1.50s/it") + BAR.format(n=10, clock="25:00", pace="1.50s/it")


@pytest.mark.parametrize("fence", ["```", "~~~"])
@pytest.mark.parametrize("names", [("**Before**", "### After"), ("Before:", "> After")])
def test_each_block_of_a_page_is_a_log_of_its_own(fence: str, names: tuple[str, str], tmp_path: Path) -> None:
    """It is called by the line above it, and the pace of none is lost."""
    blocks = [f"{name}\n\n{fence}\n{log}{fence}\n" for name, log in zip(names, (BEFORE, AFTER), strict=True)]
    (tmp_path / "issue.md").write_text("Slow, why?\n\n" + "\n".join(blocks) + "\nThat is 3x slower.\n")
    found = report(tmp_path / "issue.md")

    assert {"Before": 0.5, "After": 1.5} == {r.label: r.solved.known["seconds_per_step"].middle for r in found.runs}
    assert any("“3x slower” ('After' is that beside 'Before' in steps/s)" in question for question in found.questions)


def test_blocks_of_one_training_are_one_log(tmp_path: Path) -> None:
    """Trainer's last words say how many samples make the steps of the bars above them."""
    ends = "{'train_runtime': 1500.0, 'train_samples_per_second': 16.0, 'train_steps_per_second': 2.0}\n"
    (tmp_path / "t.md").write_text(f"```\n{BEFORE}```\nat the end:\n```\n{ends}```\n")
    (run,) = report(tmp_path / "t.md").runs

    assert (2.0, 8) == (run.given["steps_per_second"].middle, round(run.given["samples_per_step"].middle))


def test_what_a_notebook_or_an_html_page_prints_is_read_as_a_log(tmp_path: Path) -> None:
    """A program prints by two streams in turn. A block is called as the page where no words stand above it."""
    words = {
        "data": {"text/plain": ["TrainOutput(metrics={'train_runtime': 450.0, 'train_samples_per_second': 16.0})"]}
    }
    first, second = BEFORE.splitlines(keepends=True)
    (tmp_path / "t.ipynb").write_text(notebook({"text": [first]}, {"text": [second]}, words, said="# amp"))
    (tmp_path / "t.html").write_text(f"<p>It was slow, so that I looked at it.</p><pre>{BEFORE}</pre>")

    assert [("amp", 2.0)] == [(r.label, r.given["steps_per_second"].middle) for r in report(tmp_path / "t.ipynb").runs]
    assert [("t", 2.0)] == [(r.label, r.given["steps_per_second"].middle) for r in report(tmp_path / "t.html").runs]


@pytest.mark.parametrize(("spread", "noisy"), [(" ± 19.8", True), (" ± 2.1", False), ("", False)])
def test_a_size_within_the_spread_is_quoted_with_that(spread: str, noisy: bool, tmp_path: Path) -> None:
    table = f"| loader | img/s |\n|---|---|\n| DALI | 1043.9{spread} |\n| FFCV | 1058.2{spread} |\n"
    (tmp_path / "t.md").write_text(f"{table}\nFFCV is 1.4% faster than DALI.\n")
    (asked,) = (question for question in report(tmp_path / "t.md").questions if "“1.4% faster”" in question)

    assert noisy is ("may be no faster at all by the spread of its figures" in asked)


def test_the_tags_above_a_block_are_none_of_its_name(tmp_path: Path) -> None:
    """As where logs are folded away."""
    bar = "100%|##########| 500/500 [{} s/it, loss=2.1]".replace(" s", "s")
    blocks = (("before", "10:12<00:00,  1.22"), ("after", "05:40<00:00,  0.68"))
    page = "".join(f"<details><summary>{a}</summary>\n\n```\n{bar.format(b)}\n```\n</details>\n" for a, b in blocks)
    (tmp_path / "t.md").write_text(page)

    assert ["before", "after"] == [run.label for run in report(tmp_path / "t.md").runs]
