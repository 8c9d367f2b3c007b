"""The reports, opened as a person opens them: in a real browser, offline."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-background-networking"]
CHARTS = {
    "00_baseline": 4,
    "10_data_loading": 2,
    "20_gradient_checkpointing": 3,
    "30_sequence_length": 3,
    "40_compute": 2,
    "50_overheads": 2,
    "90_final_config": 2,
}
AUDIT = "95_reported_figures"
ALL = CHARTS | {AUDIT: 1}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; reports are not opened"),
]


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


LIMIT = 1_500_000
"""The most bytes of a report."""

WIDE = 700
"""The width in pixels from which on a page draws charts that can be touched."""

SEEN = (
    "[...document.querySelectorAll('.chart svg')].filter(e => e.checkVisibility() && e.getBoundingClientRect().width)"
)


FOLDED = "[...document.querySelectorAll('details:not(.code) > :not(summary)')].filter(e => !e.closest('figure'))"
"""What is folded away on a screen and belongs on paper: not code, and not the figures that a chart shows."""


class Visit:
    """A page opened offline, with everything it complained about or asked for."""

    def __init__(self, browser, path: Path, width: int, **options: object):
        self.width = width
        self.context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: m.type in ("error", "warning", "trace") and self.complaints.append(m.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())
        if width >= WIDE and options.get("java_script_enabled", True):
            expect(self.page.locator("figure .plot:empty")).to_have_count(0, timeout=30_000)


@pytest.fixture(scope="module", params=[1280, 360], ids=["desktop", "phone"])
def visit(request, browser):
    """Opens pages at one width. A page is opened once, since the tests only look at it."""
    visits: dict[Path, Visit] = {}

    def open_page(path: Path) -> Visit:
        if path not in visits:
            visits[path] = Visit(browser, path, request.param)
        return visits[path]

    yield open_page
    for one in visits.values():
        one.context.close()


@pytest.fixture
def report_of(diagnosed, audited):
    """The HTML file of a notebook."""
    return lambda name: (audited / "case_001" if name == AUDIT else diagnosed / "smoke") / f"{name}.html"


@pytest.mark.parametrize("name", ALL)
def test_a_report_is_whole_offline(name, visit, report_of):
    """Every chart is drawn, nothing is fetched, nothing is complained of, and nothing runs off the side.

    On a phone it is the drawing for phones; charts that can be touched are for wide screens.
    """
    seen = visit(report_of(name))
    kind = ".main-svg" if seen.width >= WIDE else "svg.narrow"
    charts = "[...document.querySelectorAll('.chart')]"
    drawn = seen.page.evaluate(f"{charts}.filter(c => c.querySelector('{kind}')?.checkVisibility()).length")
    wide = seen.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert ALL[name] == drawn
    assert report_of(name).stat().st_size <= LIMIT
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("file://", "data:"))] == []
    assert wide == 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("visit", [1280], ids=["desktop"], indirect=True)
def test_a_report_can_be_read_without_scripts_and_on_paper(name, browser, visit, report_of):
    """Each chart stands there as a drawing: in a mail's preview, where scripts are off, and in print."""
    without = Visit(browser, report_of(name), 1280, java_script_enabled=False)
    visible = [svg.is_visible() for svg in without.page.locator(".static svg.wide").all()]
    without.context.close()
    printed = visit(report_of(name)).page
    printed.emulate_media(media="print")
    on_paper = printed.evaluate(f"{SEEN}.map(e => e.classList.contains('wide'))")
    folded = printed.evaluate(f"{FOLDED}.filter(e => !e.checkVisibility({{contentVisibilityAuto: true}})).length")
    printed.emulate_media(media="screen")

    assert [True] * ALL[name] == visible
    assert [True] * ALL[name] == on_paper
    assert 0 == folded


@pytest.mark.parametrize("name", ["00_baseline", "index"])
def test_a_page_runs_no_script_but_its_own(name, browser, report_of, diagnosed, tmp_path):
    """Even if markup of somebody else's came into it: it neither runs nor asks anybody."""
    path = diagnosed / "index.html" if name == "index" else report_of(name)
    strange = (
        '<script>document.title = "ran"</script><img src="https://a.example/x"><p onclick="document.title=1">x</p>'
    )
    (page := tmp_path / "page.html").write_text(path.read_text().replace("<main>", f"<main>{strange}", 1))
    seen = Visit(browser, page, 1280)
    seen.page.locator("main > p").first.click()
    drawn = seen.page.evaluate("[...document.querySelectorAll('.plot')].every(each => each.innerHTML)")

    refused = [one for one in seen.complaints if "Content Security Policy" in one]

    assert seen.page.title().startswith(("smoke", "slowstep"))
    assert drawn
    assert len(refused) == 3
    assert any("https://a.example/x" in one for one in refused)
    seen.context.close()


OFTEN = ("00_baseline", "90_final_config", AUDIT, "index")
"""The pages that axe-core goes through in every test run: all kinds of charts and tables are among them."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.exhaustive) for n in (*ALL, "index")]
)
def test_everybody_can_use_a_report(name, browser, report_of, diagnosed):
    """axe-core finds nothing: names, contrast, order of headings, what the keyboard reaches.

    On a phone in light, where charts are drawings, and on a screen in dark, where plotly drew them.
    """
    from axe_playwright_python.sync_playwright import Axe

    path = diagnosed / "index.html" if name == "index" else report_of(name)
    found = {}
    for width, scheme in ((360, "light"), (1280, "dark")):
        seen = Visit(browser, path, width, color_scheme=scheme, bypass_csp=True)  # axe-core is a script of its own
        seen.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        for one in Axe().run(seen.page).response["violations"]:
            found[one["id"]] = [node["html"][:120] for node in one["nodes"][:3]]
        seen.context.close()

    assert {} == found


@pytest.mark.parametrize("name", ALL)
def test_a_report_begins_with_its_verdict(name, visit, report_of):
    """After the title and the question comes the verdict, before any chart; code is folded away."""
    page = visit(report_of(name)).page
    order = page.evaluate("[...document.querySelectorAll('h1, .verdict, .chart')].map(e => e.className || 'title')")

    assert order[:2] == ["title", "cell verdict"]
    assert len(page.locator(".verdict").inner_text()) > 40
    assert page.locator("details.code[open]").count() == 0


@pytest.mark.parametrize("name", ALL)
def test_every_chart_can_be_read_without_seeing_it(name, visit, report_of):
    """Each chart has an accessible name and its data as a table."""
    page = visit(report_of(name)).page

    assert page.locator(".chart[role=img][aria-label]").count() == ALL[name]
    assert page.locator("figure details table tbody tr").count() >= ALL[name]


@pytest.mark.parametrize("name", ALL)
def test_a_chart_says_above_itself_what_it_shows(name, visit, report_of):
    """Whoever sees the picture alone reads its finding first."""
    page = visit(report_of(name)).page
    above = "f => f.querySelector('figcaption').getBoundingClientRect().bottom"
    chart = "f => f.querySelector('.chart').getBoundingClientRect().top"
    captions, charts = (
        page.evaluate(f"[...document.querySelectorAll('figure')].map({place})") for place in (above, chart)
    )

    assert len(captions) == ALL[name]
    assert all(caption <= top for caption, top in zip(captions, charts, strict=True))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("visit", [1280], ids=["desktop"], indirect=True)
def test_no_label_of_a_row_lies_over_the_next(name, visit, report_of):
    """A label may have several lines: a change, that it is a limit, its effect."""
    labels = "[...f.querySelectorAll('.plot .ytick text')].map(e => e.getBoundingClientRect())"
    ends = f"[...document.querySelectorAll('figure')].map(f => {labels}.map(b => [b.top, b.bottom]))"

    for rows in visit(report_of(name)).page.evaluate(ends):
        rows.sort()
        assert all(lower >= upper - 1 for (_, upper), (lower, _) in pairwise(rows))


@pytest.mark.parametrize("name", [n for n in CHARTS if n != "00_baseline"])
def test_every_hypothesis_stands_in_the_figure_of_intervals(name, visit, report_of):
    """Those without an effect, too, with what became of them."""
    page = visit(report_of(name)).page
    findings = page.locator("table:has(th:text-is('because'))").first
    asked = findings.locator("tbody tr td:first-child").all_text_contents()
    drawn = {"".join(text.split()) for text in page.locator("figure details td:first-child").all_text_contents()}
    names = {name: "".join(name.split()) for name in asked}

    assert asked
    assert [a for a, name in names.items() if name not in drawn and f"{name},measuredagain" not in drawn] == []


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("visit", [1280], ids=["desktop"], indirect=True)
def test_no_column_lies_beyond_the_edge(name, visit, report_of):
    """On a desktop every table is seen whole; on a phone it scrolls by itself."""
    hidden = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"

    assert visit(report_of(name)).page.evaluate(hidden) == 0


def test_the_index_leads_to_every_report(visit, diagnosed):
    """The index shows cause, gain and each hypothesis, fetches nothing, and its links lead to files that exist.

    Whether these few blocks show a cause is the machine's affair; that the index says so, or says that none is shown,
    is not.
    """
    seen = visit(diagnosed / "index.html")
    links = seen.page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    text = seen.page.locator("main").inner_text()
    wide = seen.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert {f"smoke/{name}.html" for name in CHARTS} <= set(links)
    assert all((diagnosed / link).is_file() for link in links)
    assert ("Why it is slow" in text) != ("No cause was shown" in text)
    assert "gradient_checkpointing=false" in text
    assert seen.complaints == []
    assert wide == 0


def test_untrusted_text_is_shown_and_not_run(visit, tmp_path):
    """A model's name or an error message that holds markup appears as text in tables, prose and charts."""
    import nbformat
    import plotly.graph_objects as go

    from slowstep.report import Chart, Table
    from slowstep.report.chart import Text
    from slowstep.report.html import render
    from slowstep.text.markdown import escape

    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    table, text = Table([{"name": evil}])._repr_html_(), Text(f"model {escape(evil)}")._repr_markdown_()
    figure = go.Figure()
    labels = [evil, "<!--<script>", '<a href="javascript:alert(1)">x</a>']
    figure.add_scatter(x=[1, 2, 3], y=labels, mode="markers")
    chart = Chart(figure, "<!--<script>", [{"arm": label} for label in labels])._repr_mimebundle_()
    outputs = [
        nbformat.v4.new_output("display_data", chart),
        nbformat.v4.new_output("display_data", {"text/html": table, "text/plain": ""}),
        nbformat.v4.new_output("display_data", {"text/markdown": text, "text/plain": ""}),
        nbformat.v4.new_output("display_data", {"text/html": evil, "text/plain": ""}),
        nbformat.v4.new_output("error", ename="ValueError", evalue=evil, traceback=[evil]),
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("1", outputs=outputs)]
    )
    nbformat.write(notebook, tmp_path / "evil.ipynb")
    render(tmp_path / "evil.ipynb", tmp_path / "evil.html", "evil", "evil", evil)
    seen = visit(tmp_path / "evil.html")

    touched = seen.page.locator(".chart .ytick text" if seen.width >= WIDE else "svg.narrow text")
    ticks = [" ".join(text.split()) for text in touched.all_text_contents()]
    links = "[...document.querySelectorAll('main a')].map(a => a.getAttribute('href') ?? a.href.baseVal)"

    assert seen.page.title() == "evil: evil"
    assert seen.complaints == []
    assert labels == ticks if seen.width >= WIDE else {text[:8] for text in labels} <= {text[:8] for text in ticks}
    assert [] == seen.page.evaluate(links)
    assert seen.page.locator("img").count() == 0
    assert "onerror" in seen.page.locator("table.table").inner_text()


def test_charts_stay_small_in_the_notebook(diagnosed):
    """An executed notebook holds figures as data and not the plotting library, so it can be kept and opened."""
    for name in CHARTS:
        path = diagnosed / "smoke" / f"{name}.ipynb"
        outputs = [o for c in json.loads(path.read_text())["cells"] for o in c.get("outputs", [])]

        assert path.stat().st_size < 1_000_000
        assert not any("text/html" in o.get("data", {}) and "<script" in str(o["data"]["text/html"]) for o in outputs)
