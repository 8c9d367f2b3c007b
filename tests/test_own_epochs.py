"""Epochs end in trials where a program's later steps are others than those of its first epoch, and nowhere else."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from forked_surveys import forked
from slowstep.command.resolve import resolve
from slowstep.factors import Arm
from slowstep.judgement.later_epochs import epochs_end_since, unlike_first
from slowstep.judgement.stopping import StopRule
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import Status
from slowstep.settings import Settings, load, override
from slowstep.settings.epochs import GROWS, LATER, LOADERS, why_epochs_end
from slowstep_probe.survey.epoch_steps import EpochSteps, Step
from slowstep_probe.trial.messages import Failed

BEGIN = """
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(96, 4))
loader = torch.utils.data.DataLoader(data, batch_size=8)
backbone, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.01)


def train(x):
    optimizer.zero_grad()
    loss = head(backbone(x)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


"""

PLAIN = """
for epoch in range(10_000):
    for (x,) in loader:
        train(x)
    with torch.no_grad():
        for (x,) in torch.utils.data.DataLoader(data, batch_size=4):
            head(backbone(x))
"""

UNFREEZES = """
backbone.requires_grad_(False)
for epoch in range(10_000):
    if epoch == 1:
        backbone.requires_grad_(True)
    for (x,) in loader:
        train(x)
"""

TWO_LOADERS = """
hard = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(10_000):
    for (x,) in loader:
        train(x)
    for (x,) in hard:
        train(x)
"""

ZIPPED = """
hard = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(10_000):
    for (x,), (y,) in zip(loader, hard):
        train(torch.cat([x, y]))
"""

COUNTS = """
for epoch in range(10_000):
    losses = torch.zeros(len(loader))
    for i, (x,) in enumerate(loader):
        losses[i] = train(x).item()
"""

FAILS = """
step = 0
for epoch in range(10_000):
    for (x,) in loader:
        train(x)
        step += 1
        if step == 70:
            raise ValueError("no such file")
"""


def surveyed(folder: Path, code: str) -> SurveyRecord:
    """The survey of a program of 12 steps an epoch."""
    (folder / "train.py").write_text(BEGIN + code)
    with forked():
        return survey(resolve([sys.executable, "train.py"], folder, os.environ), SurveyOrder(startup=60), os.environ)


def settings_of(folder: Path, code: str) -> Settings:
    """The settings of that program's investigation."""
    return load(write(surveyed(folder, code), folder / "outputs")).settings


@pytest.mark.trials
@pytest.mark.parametrize(
    ("code", "why", "unprojected"),
    [
        (UNFREEZES, LATER, "49 weights can be trained after it and 9 in it"),
        (TWO_LOADERS, LOADERS, "loaders of several lines by turns"),
        (ZIPPED, "", ""),
    ],
    ids=["unfreezes", "two loaders", "zipped"],
)
def test_epochs_end_where_later_ones_are_seen_to_train_otherwise(
    code: str, why: str, unprojected: str, tmp_path: Path
) -> None:
    """Then the job is not projected from them. Loaders that are gone over together are none by turns."""
    settings = settings_of(tmp_path, code)

    assert why_epochs_end(settings.run) == why
    assert bool(epochs_end_since(settings.run, [])) == bool(why)
    assert unprojected in unlike_first(settings.run)


@pytest.mark.parametrize(
    ("end", "after", "least", "most"),
    [(4.0, 1.0, 160, 200), (4.0, 4.1, 0, 0), (1.3, 1.0, 0, 0), (1.0, 1.0, 0, 0), (1.0, 0.3, 0, 0)],
    ids=["emptied", "goes on", "drift", "even", "faster later"],
)
def test_steps_that_grow_within_an_epoch_are_told_from_a_machine_that_drifts(
    end: float, after: float, least: int, most: int
) -> None:
    """Each step scatters by 30 % of its time, in each of 200 surveys."""
    scatter, found = random.Random(0), []
    for _ in range(200):
        first = [(1 + (end - 1) * i / 100) * scatter.lognormvariate(0, 0.3) for i in range(100)]
        later = [after * scatter.lognormvariate(0, 0.3) for _ in range(3)]
        steps = EpochSteps()
        for i in range(103):
            steps.note(Step(epoch=int(i >= 100), counts={}))
        found.append(steps.grows({"other": (first + later)[1:], "forward": [5.0] * 102}))

    assert least <= sum(found) <= most


def test_an_optimizer_that_later_epochs_step_besides_is_another_training() -> None:
    """One of two that steps in every second step of the first epoch, too, is none."""
    seldom, always = EpochSteps(), EpochSteps()
    for i in range(20):
        seldom.note(Step(epoch=0, counts={"weights": 10, "updates": 1 + i % 2}))
        always.note(Step(epoch=0, counts={"weights": 10, "updates": 1}))
    for found in (seldom, always):
        for _ in range(3):
            found.note(Step(epoch=1, counts={"weights": 10, "updates": 2}))

    assert seldom.differences() == {}
    assert always.differences() == {"updates": [1, 2]}


def test_batches_of_unlike_sizes_tell_of_no_other_training() -> None:
    """Batches by tokens differ from step to step, in whatever epoch."""
    found = EpochSteps()
    for i in range(20):
        found.note(Step(epoch=0, counts={"weights": 10, "samples": i}))
    for i in range(3):
        found.note(Step(epoch=1, counts={"weights": 10, "samples": 100 + i}))

    assert found.differences() == {}


@pytest.mark.trials
def test_epochs_go_on_unless_a_survey_saw_steps_that_grow_within_one(tmp_path: Path) -> None:
    """A validation after each epoch is no other training."""
    record = surveyed(tmp_path, PLAIN)
    growing = replace(record, training={**record.training, "grows_within_epoch": True})
    plain, grows = (load(write(one, tmp_path / "outputs")).settings.run for one in (record, growing))

    assert (why_epochs_end(plain), epochs_end_since(plain, []), unlike_first(plain)) == ("", "", "")
    assert why_epochs_end(grows) == GROWS
    assert "grow longer within an epoch" in epochs_end_since(grows, [])


def test_only_what_went_wrong_beyond_an_epoch_may_pass_in_the_programs_own() -> None:
    failed = Failed(status=Status.CRASHED, reason="IndexError", beyond_epoch=True)

    assert failed.may_pass_in_own_epochs
    assert replace(failed, status=Status.LOSS_NOT_FINITE).may_pass_in_own_epochs
    assert not replace(failed, status=Status.ENDED).may_pass_in_own_epochs
    assert not replace(failed, beyond_epoch=False).may_pass_in_own_epochs


@pytest.mark.trials
def test_a_program_that_counts_the_batches_of_an_epoch_is_measured_to_the_end(tmp_path: Path) -> None:
    """It fails where an epoch goes on beyond its 12 steps, and not in epochs of its own."""
    settings = override(settings_of(tmp_path, COUNTS), {"budget.block_seconds": 0.01})
    assert why_epochs_end(settings.run) == ""
    arms = [Arm(label=kept, settings=override(settings, {"freed_memory": kept})) for kept in ("returned", "kept")]
    request = ComparisonRequest(baseline=arms[0], treatment=arms[1], stop=StopRule(max_pairs=3))
    with LocalMeasurer(settings.budget, tmp_path / "logs") as measurer:
        record = measurer.compare(request)
        observed = measurer.observe(arms[0], 60, 60.0)
    with LocalMeasurer(settings.budget, tmp_path / "logs") as measurer:
        ((_, together), (_, other)) = measurer.compare_together([request, replace(request, purpose="again")], print)

    assert (observed.trial.status, sum(map(len, observed.trial.steps))) == (Status.OK, 60)
    for one in (record, together, other):
        assert (one.baseline.status, one.treatment.status, len(one.pairs)) == (Status.OK, Status.OK, 3)
        assert "out of bounds" in epochs_end_since(settings.run, [one.baseline])


@pytest.mark.trials
def test_a_program_that_fails_in_its_own_epochs_is_said_to_fail(tmp_path: Path) -> None:
    """It is tried once with epochs that end, and fails there as it does by itself."""
    settings = settings_of(tmp_path, FAILS)
    with LocalMeasurer(settings.budget, tmp_path / "logs") as measurer:
        observed = measurer.observe(Arm(label="as it is", settings=settings), 200, 60.0)

    assert observed.trial.status is Status.CRASHED
    assert "no such file" in observed.trial.reason
