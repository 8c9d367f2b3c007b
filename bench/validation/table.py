"""README's table of the validation, made from the committed figures: `python -m bench.validation.table`."""

from __future__ import annotations

from bench.validation import results
from bench.validation.page import summary
from bench.validation.parts import parts
from slowstep.investigation import ROOT

README = ROOT / "README.md"
BEGIN, END = "<!-- validation: made by bench/validation/table.py -->", "<!-- end of validation -->"


def markdown() -> str:
    """The table, with where and when it was measured."""
    every = parts()
    lines = ["| asked | measured | wanted |", "|---|---|---|"]
    lines += [f"| {row['asked']} | {row['measured']} | {row['wanted']} |" for row in summary(results.collected(every))]
    open_ones = [name.replace("_", " ") for name in results.missing(every)]
    told = [f"Not measured yet: {', '.join(open_ones)}."] if open_ones else []
    return "\n".join([*lines, "", results.where(every), *told])


def renewed(text: str) -> str:
    """README with the table of the committed figures."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{markdown()}\n{END}{rest.split(END)[1]}"


def renew() -> None:
    """Write it."""
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    renew()
