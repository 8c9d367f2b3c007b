"""Text of others (names, reasons, claims, messages, labels) is shown and never obeyed: in Markdown, in HTML, on a
terminal."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import nbformat
import nh3
import plotly.graph_objects as go
import pytest
from nbconvert.filters import markdown2html

from simulated import around, contrast, pairs, record
from slowstep.final.choice import Choice
from slowstep.final.decision_record import decision
from slowstep.investigation.results import Measured
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.verdict import Outcome
from slowstep.report import Chart
from slowstep.report.chart import Table, Text
from slowstep.report.html import render
from slowstep.report.prose import conclusion
from slowstep.settings import Settings
from slowstep.text.markdown import code, escape
from slowstep.text.terminal import say, say_over
from slowstep.text.visible import visible, visible_lines

PACKAGE = Path(__file__).resolve().parents[1] / "lib" / "slowstep"

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "[click](javascript:alert(1))",
    "![x](https://example.org/pixel.png)",
    "[a]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x202e;",
    "`` ` ``` code `x",
    "a | b | c",
    "**bold** __strong__ ~~gone~~ *x*",
    "# heading",
    "x\n\n# heading\n\n- item\n",
    "- item",
    "1. item",
    "1) item",
    "---",
    "===",
    "> quote",
    "    code",
    "$\\href{javascript:alert(1)}{x}$",
    "a\\",
    "\\<b>",
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;https://example.org\x07x",
    "\x9b31mred\x90q",
    "\u202etxt.exe\u202c \u2066x\u2069 \u200f\u200e",
    "good\rbad",
    "\u2028x\u2029",
    "\x00\x08\x7f",
    "\ud800",
    "${7*7} {{7*7}} %s {0}",
    "_a_ __b__ a_ _b a__b__ _c",
    "5 % [1, 2](javascript:alert(1))",
    "5 % [1, 2]: javascript:alert(1)",
    "[1, 2]: javascript:alert(1)",
    "5 % ![1, 2](x) [1, 2][3, 4]",
    "a & b &amp; &lt",
    "+",
    "- - -",
]  # fmt: skip

HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

RENDERED = {"table", "thead", "tbody", "tr", "th", "td", "p", "h1", "h2", "ul", "li", "strong", "code", "a"}
"""What the kit's own Markdown makes; headings of documents get an anchor to themselves."""


class Page(HTMLParser):
    """The tags, links and text of some HTML."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src") or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("around", ["{}", "Before {} after.", "- {}", "**Name: {}**"])
def test_text_stays_text_in_markdown(text: str, around: str) -> None:
    """Rendered, untrusted text reads as it was written, hidden characters written out, and makes no tag and no link."""
    page, plain = (Page(markdown2html(around.format(t))) for t in (escape(text), "word"))

    assert plain.tags == page.tags
    assert [] == page.links
    assert squeezed(visible(text.replace("\n", " "))) in squeezed(page.text)


@pytest.mark.parametrize(
    "text",
    [
        "With all changes below together, throughput changes by +73 % [+48, +101]",
        "1.8 h [1.5, 2.1] in place of 2.6 h, and costs 1.78 [1.50, 2.11] USD. Wow! So",
        "MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0 (+7.8 % [+1.5, +14])",
        "-5 % of R & D",
    ],
)
def test_what_is_no_markup_is_left_alone(text: str) -> None:
    """A summary is read as text, too: where it is pasted, and in a terminal."""
    assert text == escape(text)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_text_stays_text_in_code(text: str) -> None:
    """A value with backticks does not end the code that it stands in."""
    page = Page(markdown2html(f"- {code(text)}"))

    assert ["ul", "li", "code"] == page.tags
    assert squeezed(visible(text.replace("\n", " "))) == squeezed(page.text)


def hostile_verdict(quick: Settings, text: str) -> Measured:
    made = contrast(quick, optim="sgd")
    found = record(pairs(around(0.3)), observed=made.expects)
    verdict = judge(before_trial(made, None, 0.05, None), made, found, 0.05, "cpu")
    verdict = replace(verdict, name=text, reason=text, overrides={text: text}, outcome=Outcome.SUPPORTED)
    return Measured(contrast=made, verdict=verdict, record=found)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_decision_record_shows_what_others_wrote(text: str, quick: Settings) -> None:
    """Names, reasons, values and what could not be trained stand in decision.md as text, whatever they hold."""
    measured = hostile_verdict(quick, text)
    inv = SimpleNamespace(
        settings=quick,
        machine=text,
        suspects=[],
        evidence=SimpleNamespace(projected=lambda change: None),
        baseline=SimpleNamespace(
            projection=None,
            unprojected="",
            courses=[],
            record=measured.record,
            facts=SimpleNamespace(throughput=SimpleNamespace(samples_per_second=1.0), observed={}, first_reads=None),
        ),
    )
    choice = Choice(
        tested=[measured],
        allowed=[measured],
        head_to_heads=[measured],
        confirmed=[measured],
        chosen=measured,
        left_out=[text],
        settings=quick,
        before=None,
        after=None,
    )
    for made in (choice, replace(choice, chosen=None), replace(choice, allowed=[], chosen=None)):
        written = decision(inv, made)
        page = Page(markdown2html(written))

        assert {*page.tags} <= RENDERED
        assert [link for link in page.links if not link.startswith("#")] == []
        assert not HIDDEN.search(written)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_report_shows_what_others_wrote(text: str, quick: Settings, tmp_path: Path) -> None:
    """A label in a chart, a cell, a title, prose or an error ends no element of a report and begins none: the page has
    the elements that it has with a harmless word."""
    pages = []
    alike = re.sub(r"[^\s/_.=,;:-]", "w", visible_lines(text))  # labels are divided into lines where it is
    for i, word in enumerate((text, alike)):
        figure = go.Figure()
        figure.add_scatter(x=[1], y=[word], name=word, text=[word], mode="text")
        chart = Chart(figure, word, [{word or "x": word}])
        verdicts = [hostile_verdict(quick, word).verdict]
        outputs = [
            nbformat.v4.new_output("display_data", bundle)
            for bundle in (
                chart._repr_mimebundle_(),
                {"text/html": Table([{"name": word}])._repr_html_()},
                {"text/markdown": conclusion("Subject", verdicts).markdown},
                {"text/markdown": Text(escape(word)).markdown},
                {"text/plain": word},
            )
        ]
        outputs.append(nbformat.v4.new_output("error", ename=word, evalue=word, traceback=[word]))
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=word))
        cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("1", outputs=outputs)]
        path = tmp_path / f"{i}.ipynb"
        text_of = json.dumps(nbformat.v4.new_notebook(cells=cells))  # half of a pair is no UTF-8
        path.write_text(text_of, encoding="utf-8")
        render(path, path.with_suffix(".html"), word, word, word)
        html = path.with_suffix(".html").read_text(encoding="utf-8")
        pages.append(
            re.sub(r"<script>/\*\*.*?</script>|<script>.*?plotly\.js.*?</script>", "", html, count=1, flags=re.S)
        )
    hostile, harmless = map(Page, pages)

    assert harmless.tags == hostile.tags
    assert harmless.links == hostile.links
    assert not HIDDEN.search(pages[0])
    (figure,) = re.findall(r'<script type="application/json">(.*?)</script>', pages[0], flags=re.S)
    assert not set("<>&") & set(figure)
    assert json.loads(figure)["data"][0]["name"] == visible_lines(text).replace("&", "&amp;").replace("<", "&lt;")
    assert nh3.clean(json.loads(figure)["data"][0]["name"], tags=set()).count("<") == 0


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_is_told_nothing_but_text(text: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a call, in whatever encoding, and no byte in it that a terminal obeys; the live line clears itself."""
    for error in (False, True):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stderr" if error else "stdout", stream)
        say(text, error=error)
        said = stream.buffer.getvalue().decode(encoding)

        assert said.count("\n") == 1
        assert not HIDDEN.search(said)
    monkeypatch.setattr(sys, "stdout", stream := io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    say_over(text, ended=False)
    assert not HIDDEN.search(stream.buffer.getvalue().decode(encoding).removeprefix("\r\033[K"))


def test_words_of_every_language_stay_as_they_are() -> None:
    """Letters, accents, joiners, emoji and signs are no attack."""
    words = "naïve Straße 日本語 می\u200cخواهم 👩\u200d💻 ✔ – … “x” 50\u00a0%"

    assert words == visible(words)


def test_one_place_writes_to_the_terminal() -> None:
    """Nothing else in the kit prints. What runs in a trial's processes (slowstep_probe) may: to the trial's log."""
    places = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            prints = isinstance(node, ast.Name) and node.id == "print"
            stream = isinstance(node, ast.Attribute) and ast.unparse(node).startswith(("sys.stdout", "sys.stderr"))
            imported = isinstance(node, ast.ImportFrom) and {a.name for a in node.names} & {"stdout", "stderr"}
            if (prints or stream or imported) and name != "text/terminal.py":
                places.append(f"{name}:{node.lineno}")

    assert [] == places


@pytest.mark.parametrize("command", ["check", "audit", "diagnose"])
def test_a_message_about_a_hostile_file_is_one_harmless_line(command: str, tmp_path: Path) -> None:
    """Names, keys and values of a parameter file reach the terminal through every message, and none is obeyed."""
    evil = "\x1b]0;owned\x07\u202e\r\n"
    path = tmp_path / f"a{evil[:-1]}b.yaml"
    path.write_text(json.dumps({"name": evil, f"k{evil}": 1, "model": {"init": evil, "dtype": evil}}), encoding="utf-8")
    given = ["-m", "slowstep.cli", command, str(path), "--outputs", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, *given], capture_output=True, check=False)
    said = done.stderr.decode()

    assert done.returncode == 2
    assert len(said.splitlines()) == 3
    assert not HIDDEN.search(said)
    assert not done.stdout


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """What a command still says when nobody reads any more (`slowstep report | head -0`) ends without a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "slowstep.cli", "report", "--outputs", str(tmp_path)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)

    assert (1, "") == (done.returncode, done.stderr)
