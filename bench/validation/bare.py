"""Training without the kit: no probe, no measurer, no blocks; what the kit's figures are held against.

`python -m bench.validation.bare FILE kept` trains the job of a parameter file to its end, as final/train.py would; with
`returned` in place of `kept` as a script does that leaves freed memory to glibc.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slowstep.launch.run_in_subprocess import run_in_subprocess
from slowstep.settings import Settings, load, override
from slowstep.settings.convert import from_plain
from slowstep_probe import heap
from slowstep_probe.processes.wire import Wire
from slowstep_probe.trial.messages import Answer, encoded

WARM_STEPS = 30
"""Batches that loader workers made during the slow first steps are used up by then."""
STEPS = 120
"""A multiple of everything that the scenarios do every few steps."""

TIMEOUT = 600.0


def paces(a: Settings, b: Settings) -> Iterator[tuple[float, float]]:
    """Useful tokens a second of a run of each arm, one after the other, in the order ABBAAB…, without end."""
    for order in itertools.cycle(((0, 1), (1, 0))):
        found = {i: run_in_subprocess(f"{__name__}:train", (a, b)[i], timeout=TIMEOUT) for i in order}
        yield found[0], found[1]


def train(wire: Wire, given: dict[str, Any]) -> None:
    """Answer useful tokens a second over STEPS steps after WARM_STEPS, as Trainer itself counts them."""
    from transformers import TrainerCallback

    from slowstep.workloads import load_workload

    class Timer(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = state.global_step
            if step == WARM_STEPS:
                self.began, self.tokens = time.perf_counter(), state.num_input_tokens_seen
            elif step == WARM_STEPS + STEPS:
                seconds = time.perf_counter() - self.began
                tokens = int(state.num_input_tokens_seen) - int(self.tokens)
                wire.send(encoded(Answer(value=tokens / seconds)))
                time.sleep(TIMEOUT)

    settings = from_plain(Settings, given)
    heap.settle(settings.freed_memory)
    counted = override(settings, {"training_arguments.include_num_input_tokens_seen": "non_padding"})
    with tempfile.TemporaryDirectory() as folder:
        workload = load_workload(counted.workload)(counted, Path(folder))
        workload.prepare_data()
        workload.build_model()
        workload.build_trainer()
        workload.trainer.add_callback(Timer())
        workload.train()


def job(settings: Settings) -> dict[str, float]:
    """Train the whole job, with all its saves and evaluations, and say when it was over and how many steps it took."""
    from transformers import TrainingArguments

    from slowstep.workloads import load_workload
    from slowstep.workloads.finetune import accelerator_available

    heap.settle(settings.freed_memory)
    with tempfile.TemporaryDirectory() as folder:
        workload = load_workload(settings.workload)(settings, Path(folder))
        workload.prepare_data()
        given = {"use_cpu": not accelerator_available()} | settings.training_arguments
        own = {"output_dir": folder, "num_train_epochs": settings.job.epochs, "disable_tqdm": True}
        workload.arguments = TrainingArguments(**given | own | {"remove_unused_columns": False})
        workload.build_model()
        workload.build_trainer()
        workload.train()
        return {"ended": time.time(), "steps": workload.trainer.state.global_step}


if __name__ == "__main__":
    import json

    asked = load(sys.argv[1], [f"freed_memory={sys.argv[2]}"]).settings
    if asked.peft is None:
        # a script of one's own that has no use of peft does not import it, and with it bitsandbytes (0.9 s)
        sys.modules["bitsandbytes"] = None
    print(json.dumps(job(asked)))
