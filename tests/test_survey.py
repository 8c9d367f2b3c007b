"""A survey tells what a program constructs, where, and how it steps, for programs that know nothing of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forked_surveys import forked
from slowstep.cli.main import main
from slowstep.cli.survey_lines import lines
from slowstep.command.resolve import CommandError, resolve
from slowstep.environment.machine import this_machine
from slowstep.factors import check_levels, plan
from slowstep.launch.of_command import intervention
from slowstep.launch.surveyed_run import folder_for, write
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.settings import load, override
from slowstep.settings.command import Command
from slowstep_probe.looks import UNSEEN

PROGRAMS = Path(__file__).resolve().parent / "programs"

pytestmark = pytest.mark.trials

EXHAUSTIVE = pytest.mark.exhaustive

PLAIN = ("plain_loop.py", "--lr", "0.01", "--accumulate", "2")

NOTHING = Command(words=["python"], python="python", arguments=[], folder=".")

Look = Callable[..., SurveyRecord]


@pytest.fixture
def look(seen: Look) -> Look:
    """Surveys a program, at whose objects all looks go well."""

    def made(*arguments: str, **order: float) -> SurveyRecord:
        found = seen(*arguments, **order)
        assert UNSEEN not in found.output
        return found

    return made


def test_two_programs_of_one_name_have_a_folder_each(look: Look, tmp_path: Path) -> None:
    """Most training scripts are called train.py; the reports of one are not lost to another one's."""
    seen, outputs = look(*PLAIN), tmp_path / "outputs"
    elsewhere = replace(seen, command=replace(seen.command, folder="/another"))
    own, other = (write(one, folder_for(one.command, outputs)) for one in (seen, elsewhere))

    assert (own.parent.name, other.parent.name) == ("plain_loop", "plain_loop_2")
    assert folder_for(seen.command, outputs) == own.parent
    assert folder_for(elsewhere.command, outputs) == other.parent
    assert folder_for(elsewhere.command, outputs, "given") == outputs / "given"


def of(seen: SurveyRecord, kind: str) -> list[dict]:
    return [one for one in seen.constructed if one["kind"] == kind]


def line(name: str, text: str) -> int:
    """The number of the first line of a program that holds a text."""
    return next(i for i, row in enumerate((PROGRAMS / name).read_text().splitlines(), 1) if text in row)


@pytest.mark.parametrize("anew", [True, False], ids=["in an interpreter of its own", "forked"])
def test_a_plain_loop_is_surveyed(anew: bool, look: Look, home: Path) -> None:
    """Its loaders with their places, the one that trains, model, optimizer, options, and the work of a step."""
    command, order = resolve([sys.executable, *PLAIN], home, os.environ), SurveyOrder(startup=120, seconds=60)
    seen = survey(command, order, os.environ) if anew else look(*PLAIN)
    loaders, (optimizer,) = of(seen, "loader"), of(seen, "optimizer")
    trains = loaders[seen.training["loader"]]

    assert trains["place"]["line"] == line("plain_loop.py", "loader = DataLoader(")
    assert (trains["values"]["batch_size"], trains["values"]["examples"], trains["values"]["num_workers"]) == (
        4,
        400,
        0,
    )
    assert optimizer["place"]["line"] == line("plain_loop.py", "AdamW(")
    assert optimizer["values"]["lr"] == 0.01
    assert seen.training["passes"] == 2
    assert seen.training["work"]["samples"] == 8 * len(seen.training["step_seconds"])
    assert seen.training["work"]["useful_tokens"] < seen.training["work"]["padded_tokens"]
    assert seen.options["--lr"] == 0.01
    assert seen.ended == seen.standing == ""


@pytest.mark.parametrize(
    ("program", "batch"),
    [
        *(
            ("index_sampling.py", 16),
            ("closure.py", 16),
            ("two_optimizers.py", 16),
            ("functions.py", 1),
            ("transformed.py", 16),
        ),
        ("builds_first.py", 16),
        pytest.param("for_each_sample.py", 16, marks=EXHAUSTIVE),
        pytest.param("tuples.py", 16, marks=EXHAUSTIVE),
        pytest.param("own_update.py", 8, marks=EXHAUSTIVE),
        pytest.param("whole_batch.py", 256, marks=EXHAUSTIVE),
    ],
)
def test_steps_and_their_work_are_found(program: str, batch: int, look: Look) -> None:
    """Tuples with an evaluation first, batches cut from an array, a closure, two optimizers, updates by hand, a closure
    over all of the data, functions over bare parameters, gradients by torch.func, one for each sample: in each the
    steps are found, and the samples of each."""
    seen = look(program)
    count = len(seen.training["step_seconds"])

    assert count >= 18
    assert seen.training["work"]["samples"] == batch * count


def test_a_librarys_own_loader_and_update_are_told(look: Look, tmp_path: Path) -> None:
    """A library may have an optimizer and a loader that are none of PyTorch's: its steps are seen after a few passes,
    samples are those that the model gets, and the survey says what it is that PyTorch does not do."""
    seen = look("own_library.py")
    (loader,), said = of(seen, "other_loader"), lines(seen)
    count = len(seen.training["step_seconds"])

    assert count >= 20
    assert seen.training["work"]["samples"] == 8 * count
    assert loader["place"]["line"] == line("own_library.py", "in _SingleProcessDataLoaderIter(")
    assert any(row.startswith("loader ") and "OwnLoader(num_workers=0)" in row for row in said)
    assert any(row.startswith("optimizer ") and "none of PyTorch's" in row for row in said)
    assert not any("none of PyTorch's" in row for row in lines(look(*PLAIN)))

    settings = load(write(seen, tmp_path / "out")).settings
    (problem,) = check_levels(override(settings, {"data_loading": {"dataloader_num_workers": [1]}}), "train.yaml")
    assert "the program's loader is no DataLoader of PyTorch's" in problem


def test_what_a_program_collects_between_its_steps_is_waited_for(look: Look) -> None:
    """A policy acts before 30 updates: 20 steps would hold nothing of that. A batch is what a step trains on, and not
    what is judged before it. Where the acting does not come again in time, that is said."""
    acts = look("acts_then_trains.py")
    brief = look("acts_then_trains.py", epoch_seconds=0.0)

    assert len(acts.training["step_seconds"]) >= 28
    assert acts.training["phases"]["evaluate"] > 0
    assert acts.training["work"]["samples"] == 16 * len(acts.training["step_seconds"])
    assert not [line for line in lines(acts) if line.startswith("unseen")]
    assert len(brief.training["step_seconds"]) < 28
    assert "before the first step the model ran 64 times without gradients" in "\n".join(lines(brief))


WITHOUT_LENGTH = """
import sys
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Sampler, TensorDataset


class Twice:
    def write(self, text):
        sys.__stdout__.write(text)


class Training(Sampler):
    def __iter__(self):
        while True:
            yield from torch.randperm(64).tolist()

    def __len__(self):
        raise NotImplementedError("it has no end")


class Secretive(DataLoader):
    @property
    def batch_size(self):
        raise RuntimeError("ask somebody else")

    @batch_size.setter
    def batch_size(self, _):
        pass


sys.stdout = Twice()
loader = LOADER(TensorDataset(torch.randn(64, 3)), batch_sampler=BatchSampler(Training(), 8, drop_last=True))
model = nn.Sequential(nn.LazyLinear(5), nn.Linear(5, 1))
model.never_called = nn.LazyLinear(1)
optimizer = torch.optim.Adam(model.parameters())
for (x,) in loader:
    optimizer.zero_grad()
    model[1](model[0](x)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize("kind", ["DataLoader", "Secretive"])
def test_no_look_at_an_object_reaches_the_program(kind: str, tmp_path: Path) -> None:
    """A sampler without a length, parameters that have no size yet, an output that can't be flushed, an object that
    raises what it likes when it is asked: the program trains as without the kit, and all is told that can be seen."""
    (tmp_path / "odd.py").write_text(WITHOUT_LENGTH.replace("LOADER", kind))
    seen = survey(resolve([sys.executable, "odd.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)
    (loader,), (made,) = of(seen, "loader"), of(seen, "optimizer")

    assert not seen.ended, seen.output
    assert seen.training["work"]["samples"] == 8 * len(seen.training["step_seconds"])
    assert loader["values"]["sampler"] == "__main__.Training"
    assert made["values"]["parameters"] == 26
    assert loader["values"].get("batch_size") == (8 if kind == "DataLoader" else None)
    assert (UNSEEN in seen.output) == (kind == "Secretive")


COMPILED_WHOLE = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.compile(fullgraph=True, backend="eager")
def loss_of(x):
    return model(x).square().mean()


while True:
    loss_of(torch.randn(8, 4)).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("forked_surveys")
def test_a_compiled_function_that_calls_the_model_is_a_forward_pass(tmp_path: Path) -> None:
    """It is compiled as a whole, as without the kit; the model that it calls is known, and is told as compiled."""
    (tmp_path / "whole.py").write_text(COMPILED_WHOLE)
    seen = survey(resolve([sys.executable, "whole.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)

    assert not seen.ended, seen.output
    assert seen.training["work"]["samples"] == 8 * len(seen.training["step_seconds"])
    assert seen.training["model"]["parameters"] == 25
    assert seen.training["facts"]["compiled"] is True


@pytest.mark.parametrize("program", ["with_trainer.py", "with_accelerate.py"])
def test_libraries_that_train_are_surveyed(program: str, look: Look) -> None:
    """Trainer and accelerate: two micro-batches a step, and the loader that feeds the training stands in user code."""
    seen = look(program, *(["out"] if program == "with_trainer.py" else []))

    assert seen.training["passes"] == 2
    assert seen.training["loader"] is not None
    assert sum(seen.training["phases"].values()) == pytest.approx(sum(seen.training["step_seconds"]))
    assert all(seen.training["phases"][phase] > 0 for phase in ("data", "forward", "backward", "optimizer"))
    if program == "with_trainer.py":  # arguments that differ from their defaults, at the line that makes them
        (arguments,) = of(seen, "arguments")
        assert arguments["place"]["line"] >= line(program, "TrainingArguments(")
        assert arguments["values"]["per_device_train_batch_size"] == 4
        assert of(seen, "checkpointing")  # recomputing is seen where it happens


def test_a_loader_that_keeps_its_iterator_is_known_to_feed_the_training(look: Look) -> None:
    """Loaders of a class of its own may get the iterator behind `iter()`, once for all epochs (Ultralytics)."""
    seen = look("keeps_iterator.py")

    loaders = of(seen, "loader")
    assert [one["values"]["batch_size"] for one in loaders] == [8, 16]
    assert seen.training["loader"] == 0
    assert seen.training["work"]["samples"] == 8 * len(seen.training["step_seconds"])


def test_variables_that_are_set_before_imports_are_there_when_it_starts(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kit has imported PyTorch by then. Those that differ between processes, or come later, are left alone."""
    for name in ("OMP_NUM_THREADS", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    seen = look("sets_variables.py")

    assert "threads 1 home models" in seen.output
    assert seen.threads == 1
    assert seen.command.early == {"OMP_NUM_THREADS": "1", "HF_HOME": "models"}
    assert load(write(seen, tmp_path / "outputs")).settings.command.early == seen.command.early


def test_training_that_ends_is_said_to_end(look: Look) -> None:
    """With the number of steps, and how it ended."""
    seen = look("ends_early.py")

    assert seen.ended == "it returned"
    assert 5 <= seen.steps <= 7
    assert "done" in seen.output


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (r"raise ValueError('no such data:\n\n  none of it')", "ValueError: no such data: none of it"),
        ("print('nothing to train')", "returned"),
        pytest.param("import sys; sys.exit(3)", "sys.exit(3)", marks=EXHAUSTIVE),
        pytest.param("input('continue? ')", "EOFError", marks=EXHAUSTIVE),
    ],
)
def test_a_program_without_a_step_is_told_in_its_own_words(code: str, said: str, look: Look, tmp_path: Path) -> None:
    """It fails, exits, asks on standard input, or does something else; the words stand on one line."""
    (tmp_path / "odd.py").write_text(code + "\n")
    command = resolve([sys.executable, "odd.py"], tmp_path, os.environ)
    seen = survey(command, SurveyOrder(startup=60), os.environ)

    assert seen.training is None
    assert said in seen.ended


def test_a_program_that_takes_no_step_in_time_is_told_where_it_stands(look: Look, tmp_path: Path) -> None:
    """With the line of its own code, wherever in a library that waits."""
    (tmp_path / "slow.py").write_text("import threading\n\ndef wait():\n    threading.Event().wait()\n\nwait()\n")
    command = resolve([sys.executable, "slow.py"], tmp_path, os.environ)
    seen = survey(command, SurveyOrder(startup=8), os.environ)

    assert seen.standing == "slow.py:4 in wait"


def test_the_command_prints_half_a_page_and_changes_nothing(tmp_path: Path) -> None:
    """`slowstep survey -- python plain_loop.py`, as a user types it. The folder has the same files afterwards."""
    shutil.copy(PROGRAMS / "plain_loop.py", tmp_path)

    def content() -> dict[str, str]:
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in tmp_path.rglob("*") if p.is_file()}

    before = content()
    words = [sys.executable, "-m", "slowstep.cli", "survey", "--", sys.executable, "plain_loop.py", "-b", "8"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert 8 <= len(done.stdout.splitlines()) <= 30
    assert f"plain_loop.py:{line('plain_loop.py', 'AdamW(')}" in done.stdout
    assert "-b 8" in done.stdout or "--batch-size 8" in done.stdout
    assert before == content()


def test_each_model_that_is_trained_is_told(look: Look) -> None:
    """A generator and its discriminator are two; a loss without weights, and a model's own parts, are none."""
    told = [text for text in lines(look("two_optimizers.py")) if text.startswith("model")]
    assert ["Linear: 40 parameters", "Linear: 9 parameters"] == [text.split(None, 1)[1].split(",")[0] for text in told]


SLOW_PATH = "The fast path is not available because one of the required library is not installed."

DISTILLED = f"""
import torch
print("all is well")
for _ in range(3):
    print({SLOW_PATH!r})
teacher, student = torch.nn.Linear(4, 64), torch.nn.Linear(4, 64, bias=False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
for _ in range(40):
    x = torch.randn(8, 4)
    (student(x) - teacher(x).detach()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> SurveyRecord:
    """A student learns from a teacher, and a library tells of a slow path."""
    folder = tmp_path_factory.mktemp("distilled")
    (folder / "distilled.py").write_text(DISTILLED)
    command = resolve([sys.executable, "distilled.py"], folder, os.environ)
    with forked():
        return survey(command, SurveyOrder(startup=120, seconds=60), os.environ)


def test_a_teacher_is_not_said_to_be_trained(distilled: SurveyRecord) -> None:
    """Its weights could have gradients, and no optimizer has them."""
    told = [text for text in lines(distilled) if "model" in text]

    assert ["320 parameters, 0 of them trained" in told[0], "256 parameters, 256 of them trained" in told[1]] == [
        True
    ] * 2


def test_what_a_library_says_of_a_slow_path_is_told(distilled: SurveyRecord) -> None:
    """With the words of the library, once."""
    assert distilled.warned == [SLOW_PATH]


@pytest.mark.parametrize(
    "line",
    [
        "UserWarning: Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting",
        "every iteration,  which can adversely affect performance. If your model indeed never has any unused",
        "This is not an error, but may impair performance.",
        "TensorFloat32 tensor cores available but not enabled. Consider setting it to 'high' for better performance.",
        "PerformanceWarning: DataFrame is highly fragmented.",
        "UserWarning: Anomaly Detection has been enabled. This mode will increase the runtime and should only be",
        "This means they need to be compacted at every call, possibly greatly increasing memory usage.",
        "UserWarning: Using backward() with create_graph=True will create a reference cycle between the parameter and",
        "with a fast tokenizer, using the `__call__` method is faster than using a method to encode the text",
    ],
)
def test_what_libraries_say_of_their_speed_is_told(line: str) -> None:
    seen = SurveyRecord(command=NOTHING, output=f"step 1\n{line}\nstep 2\n")
    assert seen.warned == [line]


def test_what_a_program_says_of_its_own_figures_is_no_warning() -> None:
    said = "validation performance 0.91\nbetter performance than before: saved\nslow learning rate: 1e-5\n"
    assert not SurveyRecord(command=NOTHING, output=said).warned


DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
time.sleep(600)
"""


FAILS = """
import torch
from torch.utils.data import DataLoader


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if i > 19:
            raise KeyError("label")
        return torch.ones(3)


model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters())
for x in DataLoader(Items(), batch_size=8, num_workers=WORKERS):
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Diagnoses `odd.py`, which is refused and leaves nothing. Returns what is said."""

    def said(*options: str, arguments: tuple[str, ...] = ()) -> str:
        monkeypatch.chdir(tmp_path)
        words = ["diagnose", *options, "--outputs", str(tmp_path / "out"), "--", sys.executable, "odd.py", *arguments]
        status, told = main(words), capfd.readouterr().err

        assert status == 2
        assert "Traceback" not in told
        assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
        assert not (tmp_path / "out").exists()
        return told

    return said


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("WORKERS", "0", ["after 2 training steps", "KeyError: 'label'", "odd.py:12 in __getitem__"]),
        ("WORKERS", "1", ["after 2 training steps", "KeyError: 'label'", "odd.py:12 in __getitem__"]),
        (
            "    model(x)",
            "    try:\n        assert not hasattr(model, 'seen')\n    except AssertionError:\n        exit(1)\n"
            "    model.seen = True\n    model(x)",
            ["after 1 training step,", "it called sys.exit(1) after AssertionError", "odd.py:20 in <module>"],
        ),
        (
            "    optimizer.zero_grad()",
            "    optimizer.zero_gard()",
            ["after 1 training step,", "zero_gard", "odd.py:21"],
        ),
    ],
)
def test_a_program_that_fails_in_its_first_epoch_is_refused_with_the_line(
    old: str, new: str, said: list[str], tmp_path: Path, refused: Refused
) -> None:
    """Trials of it would fail as well. The line of its own code is named, in a loader's worker as elsewhere, and where
    the program ends itself after an error."""
    (tmp_path / "odd.py").write_text(FAILS.replace(old, new).replace("WORKERS", "0"))
    told = refused()

    assert "so would its trials" in told
    assert [part for part in said if part not in told] == []


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize("stream", [False, True])
def test_a_program_that_fails_after_an_epoch_is_told_and_not_refused(stream: bool, tmp_path: Path) -> None:
    """Trials go through the data without end, and never come there. Its loader need not know how long it is."""
    whole = FAILS.replace("WORKERS", "0").replace("i > 19", "i > 90")
    if stream:
        whole = whole.replace("(torch.utils.data.Dataset)", "(torch.utils.data.IterableDataset)")
        whole = whole.replace(
            "def __len__(self):\n        return 64",
            "def __iter__(self):\n        yield from map(self.__getitem__, range(64))",
        )
    (tmp_path / "odd.py").write_text(f"{whole}\nraise OSError('no network to push to')\n")
    seen = survey(resolve([sys.executable, "odd.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)

    assert not seen.failed
    assert seen.steps == 8
    assert seen.training["work"]["samples"] == 7 * 8  # the first step is not among them
    assert any("no network to push to (odd.py:" in line for line in lines(seen))


FINE = """
import time
import torch

data = torch.utils.data.TensorDataset(torch.ones(50, 1))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    for (x,) in torch.utils.data.DataLoader(data):
        time.sleep(0.1)
        model(x).mean().backward()
        optimizer.step()
"""


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize("patience", [2.0, 1e3])
def test_the_end_of_an_epoch_is_waited_for_as_long_as_is_said(patience: float, tmp_path: Path) -> None:
    """Its 50 steps take five seconds at least. A survey that won't wait so long ends by the steps that are asked.

    Only where it came to the next epoch it is known what lies between two.
    """
    (tmp_path / "fine.py").write_text(FINE)
    order = SurveyOrder(startup=60, epoch_seconds=patience)
    seen = survey(resolve([sys.executable, "fine.py"], tmp_path, os.environ), order, os.environ)

    assert seen.steps >= order.steps
    assert (seen.steps > 50) == (patience > 5)
    assert len(seen.training["after_epochs"]) == (patience > 5)
    after = load(write(seen, tmp_path / "outputs")).settings.run["seconds_after_epoch"]
    assert (after is not None) == (patience > 5)


def test_nothing_heavy_is_imported_before_the_program_is_entered() -> None:
    """Overlays need a process of one thread, and the program may set variables before its own import of PyTorch."""
    code = "import sys, slowstep_probe.survey.main; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


@pytest.mark.usefixtures("forked_surveys")
def test_a_step_that_has_not_ended_is_none(look: Look, tmp_path: Path) -> None:
    """A program that fails in its third step has trained on two whole batches since its first one."""
    whole = FAILS.replace("WORKERS", "0").replace("i > 19", "i > 90")
    (tmp_path / "odd.py").write_text(
        whole.replace("optimizer.step()", "optimizer.step(); left.pop()")
        .replace("model = ", "left = [1, 2, 3]\nmodel = ")
        .replace("    model(x)", "    model(x if left else x[0, 0])")
    )
    seen = survey(resolve([sys.executable, "odd.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)

    assert seen.failed
    assert seen.steps == 3
    assert "odd.py:20 in <module>" in seen.ended
    assert len(seen.training["step_seconds"]) == 2
    assert seen.training["work"]["samples"] == 16


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (DAEMON, "went on in the background"),
        ("import os, signal; os.setpgrp(); os.killpg(0, signal.SIGTERM)", "ended by SIGTERM"),
        ("input('continue? ')", "asked a question on standard input"),
        ("import time; time.sleep(600)", "was at odd.py:1 in <module> when"),
        pytest.param("import getpass; getpass.getpass()", "asked a question on standard input", marks=EXHAUSTIVE),
        pytest.param(
            "import argparse; argparse.ArgumentParser().parse_args()",
            "unrecognized arguments: --lr 1",
            marks=EXHAUSTIVE,
        ),
        pytest.param(
            "import torch; torch.nn.Linear(2, 2)(torch.ones(1, 2))", "before its first training step", marks=EXHAUSTIVE
        ),
    ],
)
def test_what_can_not_be_diagnosed_is_refused_in_one_sentence(
    code: str, said: str, tmp_path: Path, refused: Refused
) -> None:
    """It forks away, kills its own group, wants a terminal, refuses its arguments, never trains, or hangs."""
    (tmp_path / "odd.py").write_text(code + "\n")

    assert said in refused("--startup", "8" if "sleep" in code else "60", arguments=("--lr", "1"))


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize("protected", [True, False])
def test_trackers_are_told_nothing_by_a_survey(protected: bool, tmp_path: Path) -> None:
    """Also where what the program writes stays: its run of twenty steps is none that anybody wants to see."""
    (tmp_path / "odd.py").write_text("import os; print(os.environ['WANDB_MODE'], os.environ['NEPTUNE_MODE'])\n")
    command = resolve([sys.executable, "odd.py"], tmp_path, os.environ)
    seen = survey(replace(command, protected=protected), SurveyOrder(startup=60), os.environ)

    assert "offline debug" == seen.output.strip()


FORKED = """
import os, torch, torch.distributed as dist

def train(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29741")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(1000):
        model(torch.ones(8, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

for rank in range(2):
    if not os.fork():
        train(rank)
        os._exit(0)
for _ in range(2):
    os.wait()
"""


def test_processes_that_train_together_and_are_not_followed_are_named(tmp_path: Path) -> None:
    """What one of them shows is not what they do together."""
    (tmp_path / "odd.py").write_text(FORKED)
    command = resolve([sys.executable, "odd.py"], tmp_path, os.environ)

    with pytest.raises(CommandError, match=r"together in a way that is not followed; start them by torchrun"):
        survey(command, SurveyOrder(startup=120, seconds=60), os.environ)


HOGWILD = """
import torch, torch.multiprocessing as mp

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    while True:
        model(torch.ones(8, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    context, model = mp.get_context("spawn"), torch.nn.Linear(4, 1).share_memory()
    processes = [context.Process(target=train, args=(model,)) for _ in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
"""


def test_processes_that_train_by_themselves_are_named(tmp_path: Path, refused: Refused) -> None:
    """Nothing tells that they train, so the program takes no step; what it had started says why."""
    (tmp_path / "odd.py").write_text(HOGWILD)
    told = refused("--startup", "12")

    assert "odd.py" in told
    assert "processes that it had started run train, and are followed if they join a process group" in told


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize(
    ("start", "named"),
    [
        ("os.system('LR=1 python train.py --lr 1 > log.txt 2>&1')", "LR=1 python train.py --lr 1"),
        ("subprocess.run('LR=1 python train.py --lr 1 && echo done', shell=True)", "LR=1 python train.py --lr 1"),
        ("os.system('torchrun --nproc-per-node 2 train.py; exit 0')", "torchrun --nproc-per-node 2 train.py"),
    ],
)
def test_a_program_that_a_shell_starts_is_named(start: str, named: str, tmp_path: Path) -> None:
    """The survey says what to give in its place. A launcher's processes are followed only if it is started itself."""
    (tmp_path / "train.py").touch()
    (tmp_path / "run.py").write_text(f"import os, subprocess, torch\n{start}\n")
    command = resolve([sys.executable, "run.py"], tmp_path, os.environ)
    told = lines(survey(command, SurveyOrder(startup=60, seconds=10), os.environ))

    assert any(f"had started `{named}`; give that command" in line for line in told)


SERVED = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp

def serve(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29743")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    while True:
        dist.barrier()

def start():
    for rank in range(2):
        mp.get_context("spawn").Process(target=serve, args=(rank,), daemon=True).start()

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    if sys.argv[1] == "before":
        start()
    for step in range(100_000):
        model(torch.ones(8, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3 and sys.argv[1] == "between":
            start()
"""


@pytest.mark.parametrize("when", ["before", "between"])
def test_processes_that_join_a_group_beside_the_training_are_no_ranks(when: str, tmp_path: Path) -> None:
    """They serve, or evaluate, and the program trains by itself."""
    (tmp_path / "served.py").write_text(SERVED)
    seen = survey(
        resolve([sys.executable, "served.py", when], tmp_path, os.environ), SurveyOrder(startup=60), os.environ
    )

    assert seen.command.processes <= 1
    assert seen.training is not None


def test_processes_are_heard_where_the_kit_can_not_be_imported(tmp_path: Path) -> None:
    """The interpreter of a command need not have the kit, and a process that it starts anew is given no way to it."""
    shutil.copy(PROGRAMS / "as_processes.py", tmp_path)
    env = dict(os.environ) | {"PYTHONPATH": sysconfig.get_path("purelib")}  # without its .pth files, by -S
    alone = subprocess.run(
        [sys.executable, "-S", "-c", "import torch, slowstep_probe"], env=env, capture_output=True, check=False
    )
    seen = survey(
        resolve([sys.executable, "-S", "as_processes.py", "spawn"], tmp_path, env), SurveyOrder(startup=120), env
    )

    assert b"No module named 'slowstep_probe'" in alone.stderr
    assert seen.command.launcher == 'process:{"__main__.train": [0, 1]}'
    assert set(seen.training["ranks"]) == {"0", "1"}


def test_a_group_that_needs_other_nodes_is_refused(home: Path) -> None:
    """Two of its four processes are started here, and nobody can follow the others."""
    command = resolve([sys.executable, "as_unlike_processes.py", "4"], home, os.environ)

    with pytest.raises(CommandError, match=r"starts 2 of the 4 processes of a group.*torchrun, on each node"):
        survey(command, SurveyOrder(startup=120, seconds=60), os.environ)


STREAM = """
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

class Stream(IterableDataset):
    def __iter__(self):
        SPLIT
        for i in range(400):
            yield torch.full((4,), float(i))

loader = DataLoader(Stream(), batch_size=4, num_workers=WORKERS)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for _ in range(100):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.usefixtures("forked_surveys")
@pytest.mark.parametrize(
    ("split", "workers", "tried"),
    [("pass", 0, {1}), ("get_worker_info()", 0, {1, 4}), ("get_worker_info()", 1, {0, 4})],
)
def test_workers_that_would_each_give_all_of_the_data_are_not_tried(
    split: str, workers: int, tried: set[int], tmp_path: Path
) -> None:
    """Several would bring the same samples several times, and look faster. One worker repeats nothing."""
    (tmp_path / "train.py").write_text(STREAM.replace("SPLIT", split).replace("WORKERS", str(workers)))
    command = resolve([sys.executable, "train.py"], tmp_path, os.environ)
    file = write(survey(command, SurveyOrder(startup=120, seconds=60), os.environ), tmp_path / "out")
    levels = {
        level.value
        for contrast in plan(load(file).settings, "data_loading", this_machine())
        for factor, level in contrast.levels
        if factor.name == "dataloader_num_workers"
    }

    assert levels == tried
    if tried == {1}:
        asked = override(load(file).settings, {"data_loading": {"dataloader_num_workers": [4]}})
        (problem,) = check_levels(asked, "train.yaml")
        assert "each worker would give all of the data" in problem


TOGETHER = """
from itertools import cycle
import torch
from torch.utils.data import DataLoader

def loader(examples, size):
    return DataLoader(torch.randn(examples, 4), batch_size=size, shuffle=True)

labelled, unlabelled = loader(80, 4), loader(480, 16)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(100):
    for x, u in zip(cycle(labelled), unlabelled):
        model(torch.cat([x, u])).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.usefixtures("forked_surveys")
def test_several_loaders_that_feed_a_step_are_told_apart(tmp_path: Path) -> None:
    """The epoch is that of the one that ends it, and no one size is tried in place of their batches' sizes."""
    (tmp_path / "train.py").write_text(TOGETHER)
    command = resolve([sys.executable, "train.py"], tmp_path, os.environ)
    seen = survey(command, SurveyOrder(startup=120, seconds=60), os.environ)
    settings = load(write(seen, tmp_path / "out")).settings
    levels = {f.name for c in plan(settings, "gradient_checkpointing", this_machine()) for f, _ in c.levels}
    asked = override(settings, {"gradient_checkpointing": {"per_device_train_batch_size": [32]}})
    (problem,) = check_levels(asked, "train.yaml")

    assert intervention(settings, tmp_path, [], tmp_path).epoch_of_longest
    assert settings.run["job.samples"] == 480
    assert "larger_batches" not in levels
    assert "unlike batch sizes (4, 16)" in problem
    assert not settings.run["loaders_by_turns"]
    assert any("16 samples a step, of one of the 2 loaders" in line for line in lines(seen))


ADAPTED = """
import json, torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, WeightedRandomSampler
from transformers import LlamaConfig, LlamaForCausalLM

settings = json.load(open("settings.json"))
shape = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=64)
model = LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2))
lora = LoraConfig(r=16, use_dora=True, lora_dropout=0.1, target_modules=["q_proj"], task_type="CAUSAL_LM")
model = get_peft_model(model, lora)
data = [torch.randint(0, 60, (8,)) for _ in range(100)]
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(100):
    for x in DataLoader(data, batch_size=4, num_workers=1, sampler=WeightedRandomSampler([1.0] * 100, 40)):
        model(input_ids=x, labels=x).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.usefixtures("forked_surveys")
def test_what_was_seen_of_adapters_and_epochs_reaches_the_factors(tmp_path: Path) -> None:
    """DoRA is tried without, workers that stay are tried, and a configuration that is edited is another run."""
    (tmp_path / "train.py").write_text(ADAPTED)
    (tmp_path / "settings.json").write_text("{}")
    command = resolve([sys.executable, "train.py"], tmp_path, os.environ)
    settings = load(write(survey(command, SurveyOrder(startup=120, seconds=60), os.environ), tmp_path / "out")).settings
    sections = ("data_loading", "sequence_length", "compute")
    names = {c.name for s in sections for c in plan(settings, s, this_machine()) if not (c.untestable or c.unmet)}

    seen = {key: settings.run[key] for key in ("peft.use_dora", "peft.r", "peft.lora_dropout", "job.samples")}
    assert seen == {"peft.use_dora": True, "peft.r": 16, "peft.lora_dropout": 0.1, "job.samples": 40}
    assert {"use_dora=false", "dataloader_persistent_workers=true"} <= names
    before = settings.local_content()
    (tmp_path / "settings.json").write_text('{"edited": true}')
    assert settings.local_content() != before


UNPICKLED = """
import io
import torch
from torch import nn

model = nn.Linear(8, 1)
kept = io.BytesIO()
torch.save(torch.optim.SGD(model.parameters(), lr=0.1), kept)
kept.seek(0)
optimizer = torch.load(kept, weights_only=False)
optimizer.param_groups[0]["params"] = list(model.parameters())
for _ in range(40):
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("forked_surveys")
def test_an_optimizer_that_was_read_from_a_file_is_one(tmp_path: Path) -> None:
    """What stepped counts, and not what was constructed."""
    (tmp_path / "unpickled.py").write_text(UNPICKLED)
    seen = survey(resolve([sys.executable, "unpickled.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)

    assert not any("none of PyTorch's" in row for row in lines(seen))
    assert seen.training["phases"]["optimizer"] > 0


DIAGNOSES_ITSELF = """
import subprocess, sys
words = [sys.executable, "-m", "slowstep.cli", "diagnose", "--", sys.executable, __file__]
done = subprocess.run(words, capture_output=True, text=True)
print(done.returncode, done.stderr)
"""


@pytest.mark.usefixtures("forked_surveys")
def test_a_program_that_diagnoses_itself_is_not_diagnosed_for_ever(tmp_path: Path) -> None:
    """Each survey would run another one, until the machine has no memory left."""
    plain = Path(__file__).parent / "programs" / "plain_loop.py"
    (tmp_path / "train.py").write_text(DIAGNOSES_ITSELF + plain.read_text())
    seen = survey(resolve([sys.executable, "train.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)

    assert seen.training
    assert seen.output.startswith("2 ")
    assert "the program that is diagnosed starts slowstep itself" in seen.output


ASKS = """
import json, socket
with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    one.listen()
    socket.create_connection(one.getsockname()).close()  # a process of its own
path = "SERVED"
for address in (path, ("127.0.0.1", 6379), ("localhost", 5432)):
    try:
        socket.socket(socket.AF_UNIX if address == path else socket.AF_INET).connect(address)
    except OSError:
        pass
try:
    socket.create_connection(("localhost", 80))
except OSError:
    pass
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("127.0.0.1", 53))  # it sends nothing
"""


@pytest.mark.usefixtures("forked_surveys")
def test_the_servers_that_a_program_asks_are_told(tmp_path: Path) -> None:
    """They hear each trial as they hear the program, which no overlay can help: a database, a service of the team."""
    plain = Path(__file__).parent / "programs" / "plain_loop.py"
    (tmp_path / "train.py").write_text(ASKS.replace("SERVED", "/nowhere/served") + plain.read_text())
    seen = survey(resolve([sys.executable, "train.py"], tmp_path, os.environ), SurveyOrder(startup=60), os.environ)
    (told,) = [line for line in lines(seen) if line.startswith("asks")]

    assert seen.servers == ["/nowhere/served", "127.0.0.1:6379", "localhost:5432", "localhost:80"]
    assert told.split(maxsplit=1)[1].startswith("/nowhere/served, 127.0.0.1:6379, localhost:5432, localhost:80: they")
