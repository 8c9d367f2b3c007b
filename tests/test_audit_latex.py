"""Tables in LaTeX."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.read import Unreadable, read_file
from slowstep.settings.load import validate

TABLE = r"""Our kernel is 1.4x faster.
\begin{table*}
\caption{Training throughput}
\begin{tabular}{@{}l|c c@{\hspace{1em}}c@{}}
\hline
\multirow{2}{*}{Method} & \multicolumn{2}{c}{Throughput} & Cost \\ \cline{2-3}
 & seq/s & speed-up $\uparrow$ & (\$) \\ \hline
\multicolumn{4}{c}{\emph{A100}} \\
Baseline~\cite{foo} & 1{,}210 & 1.00$\times$ & \$31.20 \\ % the old one & 3
Ours & \textbf{1{,}694} & 1.40$\times$ & \$28.10 \\[2pt]
\multicolumn{4}{c}{\emph{H100}} \\
Baseline & 2{,}420 $\pm$ 12 & 1.00$\times$ & \$31.20 \\
Ours & 2{,}904$^{\dagger}$ & 1.50$\times$ & \$28.10 \\
\hline
\end{tabular}
\end{table*}
"""


def report(path: Path, text: str) -> Audit:
    path.write_text(text)
    return audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own"))


@pytest.mark.parametrize("name", ["t.tex", "t.txt", "t.md"])
def test_a_table_in_latex_is_read(name: str, tmp_path: Path) -> None:
    """Headers over columns, headings of rows, signs of mathematics, comments, marks of footnotes."""
    found = report(tmp_path / name, TABLE)

    assert {"A100 Baseline": 1210, "A100 Ours": 1694, "H100 Baseline": 2420, "H100 Ours": 2904} == {
        run.label: run.given["samples_per_second"].middle for run in found.runs
    }
    assert ["H100 Ours"] == [f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC]


@pytest.mark.parametrize(
    "text",
    [
        r"\begin{tabular}{lr}",
        r"\begin{tabular}{lr} a & b \\ \end{tabular}",
        r"\begin{tabular} a & b \\ 1 & 2 \end{tabular}",
        r"\begin{tabular}{lr} \end{tabular}",
        r"\begin{tabular}{" * 50,
        r"\documentclass{article}",
    ],
)
def test_a_text_without_such_a_table_is_refused(text: str, tmp_path: Path) -> None:
    """Also one whose table is cut off, or has nothing in it."""
    (tmp_path / "t.tex").write_text(text)

    with pytest.raises(Unreadable):
        read_file(tmp_path / "t.tex")
