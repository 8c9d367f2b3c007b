"""Files that the first launch reads from disk and later ones find in memory: what the page says of data then."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simulated import around, contrast, pairs, record
from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.batch.measuring import contradictions
from slowstep.investigation import open_lab
from slowstep.investigation.lab import Lab
from slowstep.judgement.first_reads import FirstReads, first_reads
from slowstep.judgement.intervals import Interval
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.missed import RunContext
from slowstep.judgement.verdict import Outcome
from slowstep.measure.live_trial import LiveTrial
from slowstep.processes.tree import bytes_fetched
from slowstep.records import Block, Memory, Status, Steps, TrialRecord, Work
from slowstep.report.prose import baseline_conclusion
from slowstep.report.read_overview import overview
from slowstep.settings import Loaded, Settings, override
from slowstep.settings.schema import Budget
from slowstep.wording.first_reads import waits_for_disk
from slowstep_probe.trial.messages import BlockDone, TrainBlock

MIB = 2**20


def launch(
    data: float, fetched: int | None, steps: int = 60, decode: float = 0.0, pace: float = 1.0, seed: int = 0
) -> Steps:
    """Steps that train for a tenth of a second and wait for `data` seconds; `decode` more in the first half of them."""
    waiting, training = pace * np.random.default_rng(seed).lognormal(0.0, 0.1, (2, steps))
    waits = (data + decode * (np.arange(steps) < steps / 2)) * waiting
    return Steps(
        position=[32 * i for i in range(steps)],
        phases={"data": waits.tolist(), "forward": (0.1 * training).tolist()},
        fetched=[] if fetched is None else [fetched] * steps,
    )


def test_a_wait_for_the_disk_is_told_from_the_same_places_in_memory() -> None:
    """However many later launches there are, what counts is what the first one waited."""
    found = first_reads([launch(0.3, 4 * MIB), *(launch(0.01, 0, seed=i) for i in range(1, 9))])

    assert found
    assert ("data", pytest.approx(4 * MIB / 32)) == (found.phase, found.sample_bytes)
    assert found.from_disk.mean == pytest.approx(0.75, abs=0.02)
    assert found.from_memory.mean == pytest.approx(0.09, abs=0.01)


@pytest.mark.parametrize(
    "launches",
    [
        [launch(0.3, 0), launch(0.3, 0, seed=1)],
        [launch(0.02, 0, decode=0.4), launch(0.02, 0, decode=0.4, seed=1)],
        [launch(0.02, 4 * MIB, decode=0.4), launch(0.02, 0, decode=0.4, seed=1)],
        [launch(0.1, MIB, pace=1.4), launch(0.1, 0, seed=1)],
        [launch(0.3, None), launch(0.01, None)],
        [launch(0.3, 4 * MIB)],
        [launch(0.3, 4 * MIB, steps=5), launch(0.01, 0, steps=5)],
        [],
    ],
    ids=[
        "all in memory from the first on",
        "items that each launch decodes anew",
        "the same, read from a disk that is no slower",
        "a slower launch that fetched something beside its data",
        "not known what was fetched",
        "one launch",
        "few steps",
        "none",
    ],
)
def test_nothing_is_said_where_no_disk_was_waited_for(launches: Sequence[Steps]) -> None:
    """Waits that each launch has by itself are the run's own, and so is a machine's mood."""
    assert first_reads(launches) is None


def test_of_items_that_are_decoded_anew_only_the_reading_is_told() -> None:
    """A program that keeps decoded items waits for them in each launch: that is no wait for the disk."""
    found = first_reads([launch(0.3, 4 * MIB, decode=0.4), launch(0.02, 0, decode=0.4, seed=1)])

    assert found
    assert found.longer.mean == pytest.approx(0.28 / (0.1 + 0.3 + 0.2), abs=0.05)


def test_steps_of_which_some_were_in_memory_tell_nothing_of_the_disk() -> None:
    """Bytes are known for all steps that were asked for at once, and a launch may come from memory to disk in them."""
    halfway = replace(launch(0.08, MIB, seed=2), position=[32 * i for i in range(60, 120)])
    alone, beside = (first_reads([launch(0.3, 4 * MIB), launch(0.01, 0, seed=1), *more]) for more in ([], [halfway]))

    assert alone
    assert alone == beside


def reads(**about: object) -> FirstReads:
    """A run that waits for its disk for 60 % of the time, and in memory for 8 %."""
    known = {
        name: Interval(mean=mean, lower=mean - 0.02, upper=mean + 0.02, p=1.0, n=60)
        for name, mean in (("from_disk", 0.6), ("from_memory", 0.08), ("longer", 0.57))
    }
    return FirstReads(phase="data", **known, **({"sample_bytes": float(MIB)} | about))


FITS = {"epoch_bytes": 2.0**30, "memory": 64 * 2**30}


@pytest.mark.parametrize(
    ("level", "found", "outcome"),
    [
        ({"tokenize": "once"}, reads(), Outcome.INCONCLUSIVE),
        ({"tokenize": "once"}, reads(epochs=1.0, **FITS), Outcome.INCONCLUSIVE),
        ({"tokenize": "once"}, reads(epochs=90.0, **FITS), Outcome.REFUTED),
        ({"tokenize": "once"}, reads(**FITS), Outcome.REFUTED),
        ({"tokenize": "once"}, reads(epochs=90.0, epoch_bytes=2.0**40, memory=2**36), Outcome.INCONCLUSIVE),
        ({"tokenize": "once"}, None, Outcome.REFUTED),
        ({"max_grad_norm": 0.5}, reads(), Outcome.REFUTED),
    ],
)
def test_pairs_that_found_the_files_in_memory_refute_no_loader(
    level: dict, found: FirstReads | None, outcome: Outcome, quick: Settings
) -> None:
    """They say nothing of a job that waits for its disk, unless memory holds its data for nearly all of its time."""
    asked = contrast(quick, **level)
    measured = record(pairs(around(0.0)), observed=dict(level))
    verdict = judge(before_trial(asked, None, 0.05, None), asked, measured, 0.05, "cuda", RunContext(reads=found))

    assert outcome is verdict.outcome
    assert ("60 % of the time while files are read from disk, and 8.0 %" in verdict.reason) == (
        outcome is Outcome.INCONCLUSIVE
    )


def test_the_page_says_what_the_job_will_meet() -> None:
    """Both figures stand there; whether memory holds the data decides what they mean."""
    unknown, large, small = (waits_for_disk(one) for one in (reads(), reads(epoch_bytes=2.0**39, memory=2**36), None))
    many, few = (waits_for_disk(reads(epochs=epochs, **FITS)) for epochs in (90.0, 1.0))

    assert "60 % [58, 62] of the time while files are read from disk, and 8.0 % [6.0, 10] once they" in unknown
    assert "a job that reads more than memory holds waits as at first" in unknown
    assert "(an epoch reads about 512.00 GiB, and there are 64.00 GiB of memory here)" in large
    assert small == ""
    assert ["in its first epoch alone." in text for text in (many, few, unknown)] == [True, True, False]
    assert ["Gains were mostly measured with" in text for text in (many, few, unknown)] == [False, True, True]


@pytest.fixture
def opened(quick: Settings, tmp_path: Path) -> Callable[..., Lab]:
    """Makes a lab whose run waited for its disk in the first launch of its comparison with itself."""

    def make(**settings: object) -> Lab:
        run = override(quick, {"data_loading.tokenize": ["once"], "budget.find_batch": False} | settings)
        measurer = SimulatedMeasurer(Truth(), run.budget)
        loaded = Loaded(settings=run, source="quick.yaml", places={})
        first = open_lab(loaded, tmp_path, "00_baseline", measurer)
        noise = first.baseline.record
        key = first.evidence._noise_spec().key(first.evidence.environment)
        cold, warm = (
            [replace(one, phases=one.phases | {"data": [wait] * len(one)}, fetched=[fetched] * len(one)) for one in of]
            for of, wait, fetched in ((noise.baseline.steps, 0.4, MIB), (noise.treatment.steps, 0.01, 0))
        )
        changed = replace(
            noise, baseline=replace(noise.baseline, steps=cold), treatment=replace(noise.treatment, steps=warm)
        )
        first.evidence.store.write(changed, "comparisons", key)
        return open_lab(loaded, tmp_path, "00_baseline", measurer)

    return make


def test_shares_are_those_of_the_steps_that_read_from_disk(opened: Callable[..., Lab]) -> None:
    """Data wait is a suspect with the share that it had then, the page says why, and no job is projected.

    Steps in memory that come later contradict nothing of it.
    """
    lab = opened(**{"job.epochs": 3, "job.samples": 10**9})
    facts = lab.baseline.facts
    page = str(baseline_conclusion(lab.baseline, [], 0.05))
    lab.conclude()

    assert facts.share("data") > 0.5
    assert "data" in [one.phase for one in lab.suspects]
    assert (None, True) == (lab.baseline.projection, "read from disk" in lab.baseline.unprojected)
    assert re.search(r"Data wait takes \d+ % .* of the time while files are read from disk, and \d", page)
    assert "while files are read from disk" in overview(lab.folder).answer
    assert contradictions(lab.folder) == []


def test_a_job_that_memory_holds_keeps_its_shares(opened: Callable[..., Lab]) -> None:
    """Of ninety epochs one reads from disk: its wait is told, and is not taken for that of the job."""
    lab = opened(**{"job.epochs": 90, "job.samples": 1000})

    assert "in its first epoch alone" in waits_for_disk(lab.baseline.facts.first_reads)
    assert lab.baseline.facts.share("data") < 0.5
    assert lab.baseline.projection


# -- what is counted --


def test_steps_keep_what_was_fetched_for_them() -> None:
    """It goes with the steps, and of steps of which a part is not known nothing is said."""
    block = Block(steps=2, seconds=1.0, phases={}, step_seconds=[0.5] * 2, work=Work(samples=8))
    steps = Steps(position=[0, 4], phases={"data": [0.5, 0.5]})
    done = BlockDone(block=block, memory=Memory(), losses=[], trained=4, position=8, steps=steps)
    asked = iter([0, 400, 400, 390, None, 400])
    process = SimpleNamespace(ask=lambda *_: done, budget=Budget(), bytes_fetched=lambda: next(asked))
    figures = {
        "step_seconds": 0.5,
        "step_samples": 4,
        "period": 1,
        "discard": 1,
        "position": 0,
        "warm": 0,
        "began": 0.0,
    }
    about = {"device": "cpu", "periodic_events": [], "trained": 0, "record": TrialRecord(arm="x", status=Status.OK)}
    trial = LiveTrial(process=process, **figures, **about)
    for _ in range(3):
        trial.run(TrainBlock(steps=2), 8, "measured blocks")
    first, later, unknown = trial.timed

    assert ([100, 100], [0, 0], []) == (first.fetched, later.fetched, unknown.fetched)
    assert [100, 0, 0] == (first + later).since(1).fetched
    assert first.fetched == (Steps() + first).fetched == (first + Steps()).fetched
    assert (first + unknown).fetched == []


READS = """
import os, sys
for line in sys.stdin:
    if os.fork() == 0:
        open(sys.argv[1], "rb").read()
        os._exit(0)
    os.wait()
    print(flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts it")
def test_what_children_read_from_disk_is_counted_once(tmp_path: Path) -> None:
    """A worker that reads a file and ends leaves its bytes to its parent; what is in memory is not read again."""
    path = tmp_path / "data"
    with path.open("wb") as file:
        file.write(os.urandom(4 * MIB))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with subprocess.Popen([sys.executable, "-c", READS, str(path)], stdin=-1, stdout=-1, text=True) as child:
        told = []
        for _ in range(2):
            before = bytes_fetched(child.pid)
            child.stdin.write("\n")
            child.stdin.flush()
            child.stdout.readline()
            told.append(bytes_fetched(child.pid) - before)
        child.stdin.close()

    if told == [0, 0]:
        pytest.skip("this file system keeps in memory what it is asked to let go")
    assert told[0] >= 4 * MIB
    assert told[1] < MIB / 4
