"""The page docs/factors.md, made from the catalogue: `python -m bench.factors_page > docs/factors.md`."""

from __future__ import annotations

from slowstep.factors.catalogue import BY_SECTION
from slowstep.factors.factor import ALL_PHASES, Factor, show
from slowstep.settings import Settings
from slowstep.settings.sections import TESTED
from slowstep.text.sentences import capitalised
from slowstep.text.terminal import say_lines

HEAD = """\
# The factors

Made from `lib/slowstep/factors/catalogue/` by `make docs`; not to be edited here.

Each can be listed, with levels, in any section of a parameter file that a notebook tests (docs/parameter-file.md). With
`levels: auto` a section that lists nothing tries what its own factors propose for the run on the machine.

- **Class**: *exact* trains the same, *numerics* rounds otherwise, *semantics* is other data or another optimisation,
  *diagnostic* shows a limit and is nothing to train with.
- **Touches**: the phases it can touch. A phase that it can't touch, and that moves, makes the comparison void.
- **Bound**: what is known of its gain before a trial (`lib/slowstep/judgement/bounds.py`).
- **Proof**: what must be observed in the trial, or the change is called untestable however fast it was.
- **Binds**: where the change is made.
- **Needs**: what the machine must have; **refused if**: what a run of such settings can't have on any machine.

Beside these, a command has factors of its own: its options (`arguments:`) and the values of configuration files that it
names (`files:`), docs/own-script.md.

Not there: the choice between a Rust and a Python tokenizer, since transformers 5 loads the Rust one wherever there is
one (where there is none, tokenise once); offload of the optimizer other than paged states; several devices.
"""


def markdown() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for section in (section for section in TESTED if section.catalogued):
        factors = BY_SECTION[section.name]
        parts += [f"## {section.title}", "", *(line for factor in factors for line in _entry(factor))]
    return "\n".join(parts)


def _entry(factor: Factor) -> list[str]:
    touches = "everything" if factor.touches == ALL_PHASES else ", ".join(p for p in sorted(factor.touches))
    plain = Settings(name="plain").run
    levels = [factor.level(value, plain) for value in factor.examples]
    proof = {fact: None for level in levels for fact in level.expects}
    binds = sorted({binding for level in levels for binding in level.binds})
    facts = {
        "Class": f"{factor.meaning}. {capitalised(factor.changes)}",
        "Levels, for example": ", ".join(f"`{show(value)}`" for value in factor.examples),
        "Binds": ", ".join(binds),
        "Needs": factor.requires.__doc__ or "nothing",
        "Refused if": factor.refuses.__doc__ or "never",
        "Proof": ", ".join(f"`{fact}`" for fact in proof),
        "Touches": touches.replace("_", " ") + (", and all cores where training runs on the CPU" * factor.shares_cores),
        "Bound": (factor.bound or "none before a trial").replace("_", " "),
    }
    if factor.event:
        facts["Periodic event"] = f"{factor.event}: however rare, it counts with its share of a block"
    lines = [f"- {name}: {text}" for name, text in facts.items()]
    return [f"### `{factor.name}`: {factor.title}", "", factor.hypothesis, "", *lines, ""]


if __name__ == "__main__":
    say_lines(markdown().removesuffix("\n"))
