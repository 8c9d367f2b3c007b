"""Changes of a command's program in the words of its own code: the line, the call, the argument."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from slowstep.factors.factor import show
from slowstep.settings.command import Command
from slowstep.settings.run import Run
from slowstep_probe.changing.intervention import KEYWORDS, given_name

KEEPS_FREED_MEMORY = "MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0"
"""glibc's own variables for keeping freed memory (mallopt(3))."""

LINES = {
    "freed_memory": f"{KEEPS_FREED_MEMORY} in the environment of the command",
    "training_arguments.torch_compile": "model = torch.compile(model)  # once, before the loop",
    "training_arguments.bf16": "with torch.autocast(…, torch.bfloat16)  # around the forward pass",
    "training_arguments.fp16": "with torch.autocast(…, torch.float16)  # around the forward pass",
    "training_arguments.gradient_checkpointing": "model.gradient_checkpointing_enable()",
    "training_arguments.tf32": "torch.backends.cuda.matmul.allow_tf32 = {value}",
    "model.attn_implementation": "model.set_attn_implementation({value!r})",
    "model.experts_implementation": "from_pretrained(…, experts_implementation={value!r})",
    "model.memory_format": "model.to(memory_format=torch.channels_last)  # and the images alike",
    "dataset.trim_padding": "pad each batch to its longest example  # in the collate_fn",
    "dataset.trim_constant_columns": "pad each batch to its longest example, where that is padding",
    "model.idle_gradients": "detach(), no_grad or requires_grad_(False) where no optimizer uses the gradients",
    "model.own_rule": "an optimizer that updates all weights in few calls (torch._foreach_…, torch.compile)",
    "model.double_precision": "model.float()  # and what it is called with alike",
    "model.sdpa_backend": "torch.nn.attention.sdpa_kernel(...)  # around the training loop",
    "process.num_threads": "torch.set_num_threads({value})",
    "process.detect_anomaly": "torch.autograd.set_detect_anomaly({value})",
    "process.deterministic_algorithms": "torch.use_deterministic_algorithms({value})",
    "process.cudnn_benchmark": "torch.backends.cudnn.benchmark = {value}",
    "process.tracing": "without what traces the program (tracemalloc, cProfile, a debugger)",
    "process.debug_environment": "without {before} in the environment",
    "process.expandable_segments": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{value}  # beside what it holds",
    "process.garbage_collection": "gc.collect(); gc.freeze()  # once, before the loop",
    "ddp.comm_hook": "model.register_comm_hook(…) for {value}",
    "ddp.sync_each_batch": "without model.no_sync()",
    "fsdp.forward_prefetch": "module.set_modules_to_forward_prefetch([next_module])  # for each but the last",
}
"""The line to write for a change that is no argument of an object, by canonical key; or what else is to be done."""

WITHOUT = {
    "freed_memory": f"without {KEEPS_FREED_MEMORY} in the environment of the command",
    "training_arguments.torch_compile": "without torch.compile",
    "training_arguments.bf16": "without torch.autocast",
    "training_arguments.fp16": "without torch.autocast",
    "training_arguments.gradient_checkpointing": "without torch.utils.checkpoint",
    "process.garbage_collection": "without gc.freeze()",
    "ddp.sync_each_batch": "with model.no_sync()  # around all micro-batches of a step but the last",
}
"""The words for a change that takes something away: one to False, 'automatic' or 'returned'."""


MOST_LINES = 3
"""The most lines of a file that are told of one change."""


def line(key: str, value: Any, before: Any) -> str:
    """Return the line of a program that a change makes, or the words for what it takes away; '' for an unknown key.

    `before` is what it replaces.
    """
    if key in WITHOUT and value in (False, None, "automatic", "returned"):
        return WITHOUT[key]
    return LINES[key].format(value=value, before=before) if key in LINES else ""


def call(made: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a change was made in, `DataLoader(…)`, and what it says there, `num_workers=4`.

    The first is empty where the change is a line of its own. `made` is a change as a trial tells it.
    """
    if made["argument"]:
        return f"{made['name'].rpartition('.')[2]}(…)", f"{made['argument']}={made['after']!r}"
    return "", line(made["key"], made["after"], made["before"]) or f"{made['name']}={show(made['after'])}"


def where(made: Mapping[str, Any], command: Command) -> str:
    """Return the place of a change in the user's code, `train.py:88`; 'the process' where it has none."""
    place = made["place"]
    return f"{command.shown(place['file'])}:{place['line']}" if place["file"] else "the process"


def was(made: Mapping[str, Any]) -> str:
    """Return what a change replaces, `was 0`; '' for a line that is new, or that is taken away."""
    before = made["before"]
    absent = before is None or isinstance(before, bool) or before in ("automatic", "returned")
    absent = absent or "{before}" in LINES.get(made["key"], "")  # it is said there
    return "" if absent and not made["argument"] and made["key"] in LINES else f"was {show(before)}"


def lines(changes: Sequence[Mapping[str, Any]], command: Command) -> list[str]:
    """Return changes that a trial made, each place once: `train.py:8 DataLoader(…): num_workers=4, pin_memory=True`.

    Lines of one file that say the same are told together: `train.py:8, 12: with torch.autocast(…, torch.bfloat16)`.
    """
    at_places: dict[tuple[str, str], dict[str, None]] = {}
    for one in changes:
        what, said = call(one)
        at_places.setdefault((where(one, command), what), {})[said.partition("  #")[0]] = None
    found: dict[tuple[str, str, str], list[str]] = {}
    for (place, what), said in at_places.items():
        file, _, number = place.rpartition(":")
        found.setdefault((file, what, ", ".join(said)), []).append(number)
    return [f"{_places(file, numbers)} {what}".rstrip() + f": {said}" for (file, what, said), numbers in found.items()]


def _places(file: str, numbers: Sequence[str]) -> str:
    """Return lines of a file as `train.py:8, 12`; what stands alone where there is no file."""
    told = ", ".join(numbers[:MOST_LINES]) + " and others" * (len(numbers) > MOST_LINES)
    return f"{file}:{told}" if file else told


def replaced(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the arguments that changes of a trial replaced, each once, as they were: `num_workers=0`."""
    return list(dict.fromkeys(f"{one['argument']}={one['before']!r}" for one in changes if one["argument"]))


def words(overrides: Mapping[str, Any], run: Run) -> list[str]:
    """Return changes of a command's program that no trial has made yet: `DataLoader(num_workers=4)`."""
    by_trainer = "arguments" in (run.objects or ())
    found = []
    for key, value in overrides.items():
        section, _, name = key.rpartition(".")
        if given := given_name(key):
            found.append(f"{given} {value}")
        elif key in KEYWORDS and not by_trainer:
            found.append(f"DataLoader({KEYWORDS[key]}={value!r})")
        elif section == "training_arguments" and by_trainer:
            found.append(f"{name}={value!r}")
        elif key in LINES:
            found.append(line(key, value, run[key]).partition("  #")[0])
        else:
            found.append(f"{name or key}={show(value)}")
    return found


def changes_of(observed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the changes that a trial told, each once."""
    made = observed.get("changes")
    return list({json.dumps(one, sort_keys=True): one for one in made}.values()) if isinstance(made, list) else []
