"""Frozen weights of a user's program are built by its first trial, and the training over them is the same."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from forked_surveys import forked
from slowstep.command.resolve import resolve
from slowstep.factors import Arm
from slowstep.launch import of_command, started_trial
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.pool import TrialPool
from slowstep.records import TrialRecord
from slowstep.settings import Settings, load, override
from slowstep_probe.weights import arena

PROGRAM = Path(__file__).resolve().parent / "programs" / "over_frozen_weights.py"
SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}

Launch = Callable[..., TrialRecord]
Found = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model in it."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=4, vocab_size=64)).save_pretrained(folder)
    return folder


@pytest.fixture
def pool(measurer: LocalMeasurer, monkeypatch: pytest.MonkeyPatch) -> TrialPool:
    """Trials to which any model is worth being built once, of which none has built anything yet."""
    monkeypatch.setattr(of_command, "WORTH_SECONDS", 0.0)
    shutil.rmtree(measurer.pool.shared / started_trial.WEIGHTS, ignore_errors=True)
    return measurer.pool


@pytest.fixture(scope="module")
def surveyed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Settings]:
    """Returns the settings of the program as it is surveyed, with all of it trained or not. Other options are alike."""
    home = tmp_path_factory.mktemp("home")

    @functools.cache
    def settings(all_trained: bool) -> Settings:
        options = ["--trained", "all"] if all_trained else []
        command = resolve([sys.executable, str(PROGRAM), str(model), *options], home, os.environ)
        with forked():
            seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)
        return load(write(seen, home / f"outputs_{all_trained}")).settings

    return settings


@pytest.fixture
def launch(pool: TrialPool, surveyed: Callable[[bool], Settings], model: Path) -> Launch:
    """Launches a trial of the program, and returns its record when it is warm."""

    def launched(*options: str) -> TrialRecord:
        given = {"command.arguments": [str(PROGRAM), str(model), *options]}
        try:
            return pool.launch(Arm(label="trial", settings=override(surveyed("all" in options), given)), "trial").record
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
    (structure,) = (pool.shared / started_trial.WEIGHTS).rglob(f"*.{arena.STRUCTURE}")
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


@pytest.mark.parametrize("name", IN_DOUBT)
def test_in_doubt_a_program_builds_its_own(name: str, found: Found) -> None:
    assert [found[name][which]["kept"] for which in WHICH] == [[]] * 3


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


@pytest.mark.parametrize("name", SAME)
def test_a_program_finds_what_it_would_find_alone(name: str, found: Found) -> None:
    """The one that built, the one that read, and one that knows of nothing find the same."""
    alone, first, second = (found[name][which] for which in WHICH)

    assert alone["found"] == first["found"] == second["found"] != []
    assert (first["read"], second["read"]) == (False, "about" not in SAME[name])


WHICH = ("alone", "first", "second")
"""How a program runs: knowing of nothing, as the one that builds, and as the one that may read what is kept."""

FORKING = """
import json, os, sys, torch, traceback
from pathlib import Path
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.trial.program_hooks import hooks
from slowstep_probe.weights.built_once import BuiltOnce
class Hooked(LlamaConfig): pass
FOLDER = sys.argv[1]

def run(build, attached, kept):
    scope = globals() | {"FOUND": [], "CONFIG": LlamaConfig.from_pretrained(FOLDER)}
    scope["STATE"] = LlamaForCausalLM.from_pretrained(FOLDER).state_dict()
    if attached:
        BuiltOnce(kept, 0.0).attach(Patches(), LateImports())
    torch.manual_seed(3)
    exec(build, scope)
    structures = [one.name for one in kept.glob("*.structure")]
    return {"found": scope["FOUND"], "kept": structures, "read": "base" in hooks.beforehand}

for folder, build, which in json.load(sys.stdin):
    if not os.fork():
        try:
            os.chdir(folder)
            found = run(build, which != "alone", Path("kept"))
            Path(f"{which}.json").write_text(json.dumps(found))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)
    os.wait()
"""
"""Runs each program in a process of its own. They are forked from one that has imported what all of them need."""


@pytest.fixture(scope="module")
def found(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each program found, whether it read what was kept, and what was kept then."""
    programs = {name: textwrap.dedent(build) for name, build in (IN_DOUBT | SAME).items()}
    folders = {name: tmp_path_factory.mktemp("program") for name in programs}
    for folder in folders.values():
        (folder / "kept").mkdir()
    asked = [(str(folders[name]), build, which) for name, build in programs.items() for which in WHICH]
    command = [sys.executable, "-c", FORKING, str(model)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    files = {name: {which: folders[name] / f"{which}.json" for which in WHICH} for name in programs}
    missing = [str(file) for each in files.values() for file in each.values() if not file.is_file()]
    assert (done.returncode, missing) == (0, []), done.stderr[-2000:]
    return {name: {which: json.loads(file.read_text()) for which, file in each.items()} for name, each in files.items()}
