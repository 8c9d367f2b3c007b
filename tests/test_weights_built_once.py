"""Frozen weights of a user's program are built by its first trial, and the training over them is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from slowstep.command.resolve import resolve
from slowstep.factors import Arm
from slowstep.launch import of_command, started_trial
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.pool import TrialPool
from slowstep.records import TrialRecord
from slowstep.settings import load
from slowstep.settings.schema import Budget
from slowstep_probe.weights import arena

PROGRAM = Path(__file__).resolve().parent / "programs" / "over_frozen_weights.py"
SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}

Launch = Callable[..., TrialRecord]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model in it."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=4, vocab_size=64)).save_pretrained(folder)
    return folder


@pytest.fixture
def pool(budget: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrialPool]:
    """The trials of an investigation, to which any model is worth being built once."""
    monkeypatch.setattr(of_command, "WORTH_SECONDS", 0.0)
    with LocalMeasurer(budget, tmp_path / "logs") as measurer:
        yield measurer.pool


@pytest.fixture
def launch(pool: TrialPool, model: Path, tmp_path: Path) -> Launch:
    """Launches a trial of the program, and returns its record when it is warm."""
    surveyed: dict[tuple[str, ...], Arm] = {}

    def launched(*options: str) -> TrialRecord:
        if options not in surveyed:
            command = resolve([sys.executable, str(PROGRAM), str(model), *options], tmp_path, os.environ)
            seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)
            settings = load(write(seen, tmp_path / f"outputs_{len(surveyed)}")).settings
            surveyed[options] = Arm(label="trial", settings=settings)
        try:
            return pool.launch(surveyed[options], "trial").record
        finally:
            pool.keep_only(set())

    return launched


def same_losses(*records: TrialRecord) -> bool:
    """Whether the trials had the same losses in all digits, as far as all of them came."""
    common = min(len(one.losses) for one in records)
    return common > 0 and all(one.losses[:common] == records[0].losses[:common] for one in records)


@pytest.mark.trials
@pytest.mark.parametrize(
    "options",
    [
        ("--built", "quantised"),
        pytest.param(("--built", "read"), marks=pytest.mark.exhaustive),
        pytest.param(("--built", "drawn"), marks=pytest.mark.exhaustive),
        pytest.param(("--built", "read", "--trained", "head"), marks=pytest.mark.exhaustive),
    ],
    ids=" ".join,
)
def test_later_trials_train_the_same_over_weights_that_the_first_has_built(
    options: tuple[str, ...], launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have the losses of a trial by itself in all digits. What is frozen is shared, and nobody writes to it."""
    first, second = launch(*options), launch(*options)
    monkeypatch.setattr(of_command, "_trains_over_frozen_weights", lambda settings: False)
    alone = launch(*options)

    assert same_losses(alone, first, second)
    for shared in (first, second):
        assert shared.observed["frozen_bytes_shared"] > 0
        assert shared.observed["frozen_bytes_written"] == 0
    assert "frozen_bytes_shared" not in alone.observed
    assert "base" not in first.startup
    assert second.startup["base"] > 0


@pytest.mark.trials
def test_other_random_numbers_build_other_weights(launch: Launch) -> None:
    """Weights that are drawn at random are another program's if that has drawn before."""
    first, second = launch("--built", "drawn"), launch("--built", "drawn", "--skip-draws", "3")
    common = min(len(first.losses), len(second.losses))

    assert "base" not in second.startup
    assert first.losses[:common] != second.losses[:common]


@pytest.mark.trials
def test_a_trial_that_writes_to_them_disturbs_no_other(launch: Launch) -> None:
    before, writes, after = launch(), launch("--merged"), launch()

    assert writes.observed["frozen_bytes_written"] > 0
    assert writes.startup["base"] > 0
    assert same_losses(before, after)
    assert after.observed["frozen_bytes_written"] == 0


@pytest.mark.trials
def test_weights_that_are_trained_are_their_trials_own(launch: Launch) -> None:
    first, second = launch("--trained", "all"), launch("--trained", "all")

    assert same_losses(first, second)
    assert not {"frozen_bytes_shared", "base"} & (second.observed.keys() | second.startup.keys())


@pytest.mark.trials
def test_what_can_not_be_read_is_built(launch: Launch, pool: TrialPool) -> None:
    """A file that was damaged costs the time of building, and nothing else."""
    first = launch()
    (structure,) = Path(pool._caches.name, started_trial.WEIGHTS).rglob(f"*.{arena.STRUCTURE}")
    structure.write_bytes(structure.read_bytes()[:-100])
    second = launch()

    assert same_losses(first, second)
    assert "base" not in second.startup


IN_DOUBT = {
    "a model of the program's own": """
        class Own(LlamaForCausalLM): pass
        model = Own.from_pretrained(FOLDER)""",
    "a configuration of the program's own": """
        model = LlamaForCausalLM.from_pretrained(FOLDER, config=Hooked.from_pretrained(FOLDER))""",
    "an argument that may be anything": """
        model = LlamaForCausalLM.from_pretrained(None, config=CONFIG, state_dict=dict(STATE))""",
    "weights that are not there yet": """
        with torch.device("meta"):
            model = LlamaForCausalLM._from_config(CONFIG)""",
}


@pytest.mark.parametrize("build", IN_DOUBT.values(), ids=IN_DOUBT)
def test_in_doubt_a_program_builds_its_own(build: str, model: Path, tmp_path: Path) -> None:
    assert run_once(build, model, tmp_path)["kept"] == []


SAME = {
    "the configuration that was given": """
        model = AutoModelForCausalLM.from_config(CONFIG)
        FOUND = [model.config is CONFIG, str(CONFIG.dtype), CONFIG._attn_implementation]""",
    "what comes with the model": """
        model, about = LlamaForCausalLM.from_pretrained(FOLDER, output_loading_info=True)
        FOUND = [sorted(about), model.training]""",
    "tied weights": """
        CONFIG.tie_word_embeddings = True
        model = LlamaForCausalLM._from_config(CONFIG)
        FOUND = [model.lm_head.weight is model.model.embed_tokens.weight]""",
    "what is drawn next": """
        model = LlamaForCausalLM._from_config(CONFIG)
        FOUND = [torch.rand(3).tolist()]""",
    "what it saves": """
        model = LlamaForCausalLM.from_pretrained(FOLDER)
        model.save_pretrained("saved")
        torch.save(model.model.norm.state_dict(), "norm.pt")
        import hashlib, os
        weights = open("saved/model.safetensors", "rb").read()
        FOUND = [hashlib.sha256(weights).hexdigest(), os.path.getsize("norm.pt") < 10_000]""",
}


@pytest.mark.parametrize("build", SAME.values(), ids=SAME)
def test_a_program_finds_what_it_would_find_alone(build: str, model: Path, tmp_path: Path) -> None:
    """The one that built, the one that read, and one that knows of nothing find the same."""
    alone = run_once(build, model, tmp_path, attached=False)["found"]
    first, second = run_once(build, model, tmp_path), run_once(build, model, tmp_path)

    assert alone == first["found"] == second["found"]
    assert (first["read"], second["read"]) == (False, "about" not in build)


def run_once(build: str, model: Path, folder: Path, attached: bool = True) -> dict[str, Any]:
    """Run a program in a process of its own: what it found, what was kept, and whether it read what was kept."""
    kept = folder / "kept"
    kept.mkdir(exist_ok=True)
    text = f"""
import json, sys, torch
from pathlib import Path
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.trial.told import told
from slowstep_probe.weights.built_once import BuiltOnce
class Hooked(LlamaConfig): pass
FOLDER, FOUND, STATE = {str(model)!r}, [], LlamaForCausalLM.from_pretrained({str(model)!r}).state_dict()
CONFIG = LlamaConfig.from_pretrained(FOLDER)
if {attached}:
    BuiltOnce(Path({str(kept)!r}), 0.0).attach(Patches(), LateImports())
torch.manual_seed(3)
{textwrap.dedent(build)}
kept = [one.name for one in Path({str(kept)!r}).glob("*.structure")]
print(json.dumps({{"found": FOUND, "kept": kept, "read": "base" in told.beforehand}}))
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))
