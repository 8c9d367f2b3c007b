"""`python -m bench.frozen_base`: what it brings that a frozen base is built once, on a model of 316 million parameters.

Two arms of the same run are compared: one maps the base that was built beforehand, the other builds its own (by an
option of LoRA at its default, which the kit does not know to be harmless). Their pairs show whether mapped weights
train as fast as a process's own; their launches, what is saved; their memory, what is shared. The results are written
to bench/results/frozen_base.json, each with the machine and the date that it was measured on.

`--program` measures the same of a user's program that reads the model from a folder: its launches with weights that are
built once, and with weights that each launch builds, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.validation.results import here_and_now
from slowstep.command.resolve import resolve
from slowstep.environment.home import ROOT
from slowstep.factors import Arm
from slowstep.judgement.comparison import change
from slowstep.judgement.stopping import StopRule
from slowstep.judgement.throughput import throughput
from slowstep.judgement.verdict import span
from slowstep.launch import of_command
from slowstep.launch.frozen_bases import is_shared
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import identity
from slowstep.records.store import write_atomically
from slowstep.settings import Settings, load, override

RESULTS = ROOT / "bench" / "results" / "frozen_base.json"

MODEL = {
    "vocab_size": 32000,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 512,
}
FOUR_BIT = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
RUNS: dict[str, dict[str, Any]] = {
    "bf16": {"model.dtype": "bfloat16", "training_arguments.bf16": True},
    "NF4": {"quantization": FOUR_BIT | {"bnb_4bit_compute_dtype": "bfloat16"}, "training_arguments.bf16": True},
}
OWN = {"peft.lora_bias": False}
"""An option of LoRA at its default. The kit does not know it, so the trial builds its own base."""

PROGRAM = ROOT / "tests" / "programs" / "over_frozen_weights.py"
OF_PROGRAM = "a program, NF4"
"""The name of the results of `--program`."""

LAUNCHES = 3
"""The launches of a program that are measured of each kind, after the first, which builds what the others read."""


def main() -> int:
    """Measure all, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.frozen_base", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9, help="the most pairs of each format")
    parser.add_argument("--minutes", type=float, default=5.5, help="after which no further pair is begun")
    parser.add_argument("--program", action="store_true", help="measure launches of a program that reads the model")
    given = parser.parse_args()
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else dict[str, Any]()
    if given.program:
        found[OF_PROGRAM] = of_program() | here_and_now()
        write_atomically(RESULTS, json.dumps(found, indent=1) + "\n")
        print(json.dumps(found[OF_PROGRAM], indent=1))
        return 0
    began = time.monotonic()
    for number, (name, changes) in enumerate(RUNS.items(), start=1):
        until = began + 60 * given.minutes * number / len(RUNS)
        found[name] = measured(changes, given.pairs, until) | here_and_now()
        write_atomically(RESULTS, json.dumps(found, indent=1) + "\n")
        print(json.dumps({name: found[name]}, indent=1), flush=True)
    return 0


def run(changes: dict[str, Any]) -> Settings:
    """The run: the smoke file with a large model, and steps of some tenths of a second."""
    smoke = load(ROOT / "params" / "smoke.yaml").settings
    about = {f"model.config.{name}": value for name, value in MODEL.items()}
    small = {"dataset.max_length": 32, "training_arguments.per_device_train_batch_size": 1}
    return override(smoke, about | small | changes | {"budget.block_seconds": 1.0, "budget.block_steps_min": 3})


def measured(changes: dict[str, Any], pairs: int, until: float) -> dict[str, Any]:
    """Launches, memory and speed of arms that map the base and that build it.

    After `until`, by `time.monotonic()`, no further pair is begun once there are three.
    """
    shared, own = (Arm(label=name, settings=run(changes | more)) for name, more in (("mapped", {}), ("own", OWN)))
    assert is_shared(shared.settings)
    assert not is_shared(own.settings)
    with tempfile.TemporaryDirectory() as logs, LocalMeasurer(shared.settings.budget, Path(logs)) as measurer:
        pool = measurer.pool
        pool.launch(Arm(label="imports", settings=load(ROOT / "params" / "smoke.yaml").settings), "imports")
        pool.keep_only(set())
        rows: dict[str, Any] = {"start-up, s": {}}
        first = launched(measurer, shared, "mapped, first", rows)
        twins = [first, launched(measurer, shared, "mapped, next", rows)]
        two_mapped = sum(trial.process.host_memory() for trial in twins)  # a shared page counts once for both
        pool.keep_only(set())
        alone = launched(measurer, own, identity(own.determinants()), rows, "own")
        rows["memory, bytes"] = {"two arms, mapped": two_mapped, "one arm, own": alone.process.host_memory()}
        print(json.dumps(rows), flush=True)
        if time.monotonic() > until:
            return rows | {"pairs": 0}
        measurer.deadline = until
        record = measurer.compare(ComparisonRequest(baseline=own, treatment=shared, stop=StopRule(max_pairs=pairs)))
    if not record.pairs:
        return rows | {"pairs": 0, "why": record.treatment.reason or record.baseline.reason}
    effect = change(record.pairs)
    return rows | {
        "pairs": len(record.pairs),
        "seconds a step": throughput([p.baseline for p in record.pairs]).seconds_per_step,
        "mapped against own": span(effect),
        "mapped against own, ratio": [effect.ratio, effect.low, effect.high],
        "losses compared": len(record.baseline.losses),
        "losses equal": record.baseline.losses == record.treatment.losses,
    }


def launched(measurer: LocalMeasurer, arm: Arm, key: str, rows: dict[str, Any], name: str = "") -> LiveTrial:
    """Launch an arm, and note the seconds until it was warm, those of a base that was built for it among them."""
    began = time.perf_counter()
    trial = measurer.pool.launch(arm, key)
    whole = time.perf_counter() - began
    rows["start-up, s"][name or key] = {"until warm": whole, "steps of that": trial.record.warmup_steps}
    rows["start-up, s"][name or key] |= trial.record.startup
    rows["frozen"] = {k: v for k, v in trial.record.observed.items() if k.startswith("frozen_bytes")}
    return trial


def of_program() -> dict[str, Any]:
    """Launches and memory of a program over frozen weights that it quantises to four bits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        LlamaForCausalLM(LlamaConfig(**MODEL)).bfloat16().save_pretrained(Path(folder) / "model")
        words = [sys.executable, str(PROGRAM), str(Path(folder) / "model"), "--built", "quantised"]
        command = resolve(words, Path(folder), os.environ)
        seen = survey(command, SurveyOrder(startup=300, seconds=60), os.environ)
        arm = Arm(label="as it is", settings=load(write(seen, Path(folder) / "outputs")).settings)
        rows: dict[str, Any] = {"built in the survey, s": seen.weights_seconds, "start-up, s": {}, "losses": {}}
        with LocalMeasurer(arm.settings.budget, Path(folder) / "logs") as measurer:
            decides = of_command._trains_over_frozen_weights
            launched(measurer, arm, "first", rows)
            measurer.pool.keep_only(set())
            for number in range(LAUNCHES):
                for kind, once in (("once", decides), ("each", lambda settings: False)):
                    of_command._trains_over_frozen_weights = once
                    trial = launched(measurer, arm, f"{kind}, {number}", rows)
                    rows["losses"].setdefault(kind, trial.record.losses[:5])
                    measurer.pool.keep_only(set())
            for kind, once in (("once", decides), ("each", lambda settings: False)):
                of_command._trains_over_frozen_weights = once
                one = launched(measurer, arm, f"{kind}, memory", rows)
                two = launched(measurer, arm, f"{kind}, memory beside", rows)
                held = [trial.process.host_memory() for trial in (one, two)]
                rows[f"memory of two arms, {kind}, bytes"] = sum(held)
                measurer.pool.keep_only(set())
        rows["losses equal"] = rows["losses"]["once"] == rows["losses"]["each"]
        return rows


if __name__ == "__main__":
    raise SystemExit(main())
