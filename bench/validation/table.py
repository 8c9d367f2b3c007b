"""README's table of the validation, made from the committed figures: `python -m bench.validation.table`."""

from __future__ import annotations

import json

from bench.validation.page import summary
from slowstep.investigation import ROOT

RESULTS = ROOT / "bench" / "results" / "validation.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- validation: made by bench/validation/table.py -->", "<!-- end of validation -->"


def markdown() -> str:
    """The table with where and when it was measured."""
    figures = json.loads(RESULTS.read_text(encoding="utf-8"))
    machine = figures["machine"]
    lines = ["| asked | measured | wanted |", "|---|---|---|"]
    lines += [f"| {row['asked']} | {row['measured']} | {row['wanted']} |" for row in summary(figures)]
    where = f"{machine['processor']}, {machine['cores']} cores, {'no GPU' if not machine['gpu'] else machine['gpu']}"
    versions = ", ".join(f"{name} {figures['versions'][name]}" for name in ("torch", "transformers"))
    return "\n".join([*lines, "", f"{where}; {versions}; {figures['date']}, commit {figures['commit']}."])


def renewed(text: str) -> str:
    """README with the table of the committed figures."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{markdown()}\n{END}{rest.split(END)[1]}"


def renew() -> None:
    """Write it."""
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    renew()
