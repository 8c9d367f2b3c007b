"""The file changes.md: the lines of a command's program to change, each with what the change was measured to bring."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from slowstep.factors.factor import show
from slowstep.final.choice import Choice
from slowstep.investigation.lab import Lab
from slowstep.investigation.results import Measured
from slowstep.settings.command import Command
from slowstep.settings.schema import Settings
from slowstep.text.markdown import code, escape
from slowstep.wording.words import effect

LINES = {
    "training_arguments.torch_compile": "model.compile()  # once, before the loop",
    "training_arguments.bf16": "with torch.autocast(device.type, torch.bfloat16):  # around the forward pass",
    "training_arguments.gradient_checkpointing": "model.gradient_checkpointing_enable()  # or _disable()",
    "training_arguments.tf32": "torch.backends.cuda.matmul.allow_tf32 = {value}",
    "model.attn_implementation": "model.set_attn_implementation({value!r})",
    "model.sdpa_backend": "torch.nn.attention.sdpa_kernel(...)  # around the training loop",
}
"""What to write for a change that is no argument of an object."""

ENVIRONMENT = "MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0"
"""glibc's own variables for keeping freed memory (mallopt(3))."""


def changes_page(lab: Lab, choice: Choice, command: Command) -> str:
    """Return the page as Markdown: the changes that are adopted, then what else was shown to bring something."""
    parts = [f"# What to change in `{escape(str(command))}`"]
    if choice.adopted and choice.chosen:
        verdict = choice.chosen.verdict
        parts += [f"Together: {effect(verdict.effect)} throughput, measured together; class {verdict.meaning}."]
        parts += ["\n".join(_lines(choice.chosen, command)) or "Nothing in the code."]
        final = lab.folder / "final"
        parts += ["Train with these changes before a line is edited:"]
        parts += [f"```\nslowstep run --with {shlex.quote(str(final))} -- {shlex.join(command.words)}\n```"]
    else:
        parts += ["No change was shown to pay. Nothing is proposed."]
    taken = {f.name for f, _ in choice.chosen.contrast.levels} if choice.adopted and choice.chosen else set()
    others = [m for m in choice.tested if m.verdict.outcome == "supported" and m.verdict.factor not in taken]
    if others:
        parts += ["## Shown to bring something, and not taken"]
        for one in others:
            said = f"{escape(one.verdict.name)}: {effect(one.verdict.effect)}, class {one.verdict.meaning}"
            parts += ["\n".join([said, "", *_lines(one, command)])]
    if choice.adopted and choice.settings.freed_memory != lab.settings.freed_memory:
        parts += ["## The command", code(f"{ENVIRONMENT} {shlex.join(command.words)}")]
    return "\n\n".join(parts) + "\n"


def changes_record(settings: Settings) -> dict[str, Any]:
    """Return what `slowstep run --with` needs to make the changes of these settings to their command's program."""
    return {
        "values": settings.changes,
        "feeding": settings.surveyed.feeding,
        "freed_memory": settings.freed_memory,
    }


def _lines(measured: Measured, command: Command) -> Iterator[str]:
    """Return a line for each change that was made: place, object, before and after."""
    record = measured.record
    made = (record.treatment.observed.get("changes") if record else None) or []
    seen = set()
    for one in made if isinstance(made, list) else []:
        text = _line(one, command)
        if text not in seen:
            seen.add(text)
            yield text


def _line(made: Mapping[str, Any], command: Command) -> str:
    place, name, after = made["place"], made["name"].rpartition(".")[2], made["after"]
    where = f"{command.shown(place['file'])}:{place['line']}" if place["file"] else "in the environment"
    line = LINES.get(made["key"], made["key"]).format(value=after)
    what = f"{name}(…): {made['argument']}={after!r}" if made["argument"] else line
    return f"- {code(where)} {code(what)} (was {escape(show(made['before']))})"
