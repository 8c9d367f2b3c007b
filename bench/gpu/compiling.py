"""torch.compile in its modes on the small language model, each one launch with one block, beside the run as it is."""

from __future__ import annotations

from functools import partial

from bench.gpu.matrix import EXPECTED_ENDS
from bench.gpu.part import Bench, Cell, Figures, Goal, Part
from bench.gpu.runs import LANGUAGE, settings_of_run
from bench.gpu.scale import Scale
from bench.gpu.trials import arm_of, measurer_of, once

COMPILED = {"training_arguments.torch_compile": True, "training_arguments.tf32": False}
"""What compiles a run. Trainer would switch TF32 on by PyTorch's newer name, after which tuning a product raises an
error that asks for the older one (PyTorch 2.9 to 2.13). Products in bf16 are the same."""

MODES: dict[str, dict[str, object]] = {
    "not compiled": {},
    "default": COMPILED,
    **{
        mode: COMPILED | {"training_arguments.torch_compile_mode": mode}
        for mode in ("reduce-overhead", "max-autotune-no-cudagraphs")
    },
}


def parts(scale: Scale) -> list[Part]:
    """Return the part."""
    return [
        Part(
            name="compile",
            title="modes of torch.compile",
            cells=[
                Cell(name=name, measure=partial(_compiled, name), minutes=2.0 if changes else 0.6)
                for name, changes in (
                    list(MODES.items())[1 : 1 + scale.of_a_kind] if scale.of_a_kind else MODES.items()
                )
            ],
            goals=[
                Goal(
                    asked="modes that ended in another way than trained, out of memory, or not testable here",
                    wanted="0",
                    value=lambda cells: sum(figures["status"] not in EXPECTED_ENDS for figures in cells.values()),
                    holds=lambda count: count == 0,
                ),
            ],
        )
    ]


def _compiled(name: str, bench: Bench) -> Figures:
    changes = MODES[name]
    settings = settings_of_run(LANGUAGE, bench, changes | bench.scale.compiler if changes else {})
    with measurer_of(settings, bench, "compile") as measurer:
        return once(measurer, arm_of(settings, name), bench.scale.block_seconds / 2)
