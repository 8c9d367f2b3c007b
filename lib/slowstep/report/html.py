"""Writing of a notebook as one offline HTML file: the verdict first, then the evidence, with the code folded away."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import nh3
from jinja2 import Environment, FileSystemLoader, select_autoescape
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from nbconvert.exporters import TemplateExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from slowstep.records.store import write_atomically
from slowstep.report.chart import MIME
from slowstep.report.drawing import NARROW, svg
from slowstep.text.visible import visible_lines

TEMPLATES = Path(__file__).parent / "template"

PLOTLY = TEMPLATES / "plotly" / "plotly-basic.min.js"
"""plotly.js with bars, points and pies alone: a third of the whole library (plotly.js-basic-dist-min on npm)."""

PROGRESS = "application/x-slowstep-progress"
HIDDEN = {"hidden", "injected-parameters"}
"""Tags of cells that appear in the notebook and not in the report."""

FIRST = ("verdict", "carries")
"""Tags of cells that come first in a report: the verdict, and the figure that it rests on."""

TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td", "p", "div", "span", "strong", "em", "code", "ul", "li", "br"}


def render(
    notebook: Path, target: Path, title: str, investigation: str, failed: str = "", interactive: bool = True
) -> None:
    """Write the report of an executed notebook. `failed` says why it did not run to its end, and is empty if it did.

    A report that is not `interactive` holds its charts as drawings alone: it has no script, and a tenth of the size.
    """
    nb = nbformat.read(notebook, as_version=4)
    resources = {"title": title, "investigation": investigation, "failed": failed, "interactive": interactive}
    body, _ = _Exporter().from_notebook_node(_prepared(nb), resources=resources)
    write_atomically(target, body)


class _Exporter(TemplateExporter):
    """An exporter of nbconvert with the kit's own template, and filters that trust nothing in the outputs."""

    template_name = "report"
    file_extension = ".html"
    output_mimetype = "text/html"

    def __init__(self, **kwargs: Any):
        super().__init__(extra_template_basedirs=[str(TEMPLATES)], **kwargs)

    def default_filters(self):
        yield from super().default_filters()
        yield from FILTERS.items()
        yield "as_json", figure_json

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.autoescape = True
        environment.finalize = _visible
        environment.globals["plotly_js"] = lambda: PLOTLY.read_text(encoding="utf-8")
        environment.globals["charts_js"] = lambda: (TEMPLATES / "charts.js.j2").read_text(encoding="utf-8")
        environment.globals["figure_mime"] = MIME
        environment.globals.update(PARTS)
        return environment


def clean(html: str) -> str:
    """Return HTML with everything removed but plain text and the markup of texts and tables."""
    tags = (nh3.ALLOWED_TAGS - {"img"}) | TABLE_TAGS
    return unbroken(nh3.clean(visible_lines(html), tags=tags, attributes={"*": {"class"}, "a": {"href"}}))


def figure_json(figure: Any) -> Markup:
    """Return a figure as JSON for a script element.

    Nothing in it ends that element or begins a comment. Of the markup that Plotly knows, only its line ends are left.
    """
    return htmlsafe_json_dumps(_plain_labels(figure))


def drawing(figure: Any) -> Markup:
    """Return the static drawings of a figure, for screens and for phones. All of their texts are escaped."""
    return Markup(unbroken(svg(figure, name="wide") + svg(figure, width=NARROW, name="narrow")))


def _plain_labels(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: value if key == "meta" else _plain_labels(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain_labels(value) for value in data]
    if isinstance(data, str):
        return re.sub(r"<(?!br>|/?extra>)", "&lt;", visible_lines(data).replace("&", "&amp;"))
    return data


def _visible(value: Any) -> Any:
    """Return a value for a template, made visible. Markup is left alone, since its text was made visible before."""
    return visible_lines(value) if type(value) is str else value


def unbroken(html: str) -> str:
    """Return HTML in which no line can end between a figure and its percent sign. Code stays as it is, to be copied."""
    return re.sub(r"(<pre\b.*?</pre>)|(?<=\d) %", lambda m: m[1] or "&nbsp;%", html, flags=re.DOTALL)


def environment() -> Environment:
    """Return a Jinja environment for pages that are not notebooks."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=select_autoescape(["html", "j2"]), finalize=_visible
    )
    made.globals.update(PARTS)
    made.filters.update(FILTERS)
    return made


def markdown(text: str) -> str:
    """Return Markdown as HTML. Headings hold no link to themselves, since `clean` leaves no address to lead to."""
    return clean(MarkdownWithMath(renderer=IPythonRenderer(escape=False, exclude_anchor_links=True)).render(text))


FILTERS = {"clean": clean, "markdown": markdown, "drawing": drawing}
"""The filters of every page. None of them trusts what it is given."""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The Content Security Policy of a page (W3C, level 3): it fetches nothing, sends nothing, and runs no script."""


def policy(*scripts: str) -> str:
    """Return the policy of a page that runs these scripts alone, whatever else comes into it."""
    hashes = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return f"{POLICY}; script-src {allowed}" if scripts else POLICY


PARTS = {
    "policy": policy,
    "stylesheet": lambda: (TEMPLATES / "style.css").read_text(encoding="utf-8"),
    "words": lambda: (TEMPLATES / "words.html.j2").read_text(encoding="utf-8"),
}
"""The functions that return what stands in every page."""


def _prepared(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the notebook with title, verdict and the figure that carries it first, without what nobody should see."""
    cells = [c for c in nb.cells if not HIDDEN & set(c.metadata.get("tags", []))]
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if PROGRESS not in o.get("data", {})]
    first = [c for tag in FIRST for c in cells if tag in c.metadata.get("tags", [])]
    rest = [c for c in cells if c not in first]
    nb.cells = rest[:1] + first + rest[1:]
    return nb
