"""Paces of few steps, as columns, bars and histories say: they may be those of a start, and decide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.audit import Audit, Judgement, audit
from slowstep.audit.terminal_lines import claim_lines
from slowstep.settings.load import validate

CLAIM = {"text": "it is faster", "baseline": "a", "treatment": "b"}
SAYS = "a pace of few steps may be that of the start"


def report(claim: dict, **reported: object) -> Audit:
    return audit(validate({"name": "own", "reported": {**reported, "claims": [CLAIM | claim]}}, "own"))


@pytest.mark.parametrize(
    ("header", "a", "b", "holds"),
    [
        ("steps measured", "1000", "5", False),
        ("timed iterations", "8", "8", False),
        ("n_steps", "1000", "10", False),
        ("steps", "1000", "5", False),
        ("steps measured", "1000", "200", True),
        ("save_steps", "5", "5", True),
        ("inner steps", "5", "5", True),
        ("nodes", "5", "5", True),
    ],
)
def test_a_column_says_over_how_many_steps_was_measured(header: str, a: str, b: str, holds: bool) -> None:
    """Five steps of a compiled run say nothing of a thousand; other counts of steps are none of these."""
    (claim,) = report({"speed_up": "1.60"}, table=f"run,{header},tokens/s\na,{a},41200\nb,{b},66000\n").claims

    assert (Judgement.HOLDS if holds else Judgement.UNDECIDED) is claim.judgement
    assert (SAYS in claim.reason) != holds
    assert holds or claim.questions[0] == "How fast are 'a' and 'b' over some hundred steps, after their first ones?"


@pytest.mark.parametrize(("seconds", "holds"), [("0.50", False), ("90.0", True)])
def test_few_steps_of_a_minute_each_are_no_start(seconds: str, holds: bool) -> None:
    table = f"run,steps measured,samples/step,s/it\na,100,512,180\nb,10,512,{seconds}\n"
    (claim,) = report({"speed_up": 180 / float(seconds)}, table=table).claims

    assert holds is (claim.judgement is Judgement.HOLDS)


def bars(path: Path, steps: list[int], seconds: float, total: int = 1000) -> str:
    lines = (
        f" {n}/{total} [{int(n * seconds) // 60:02}:{int(n * seconds) % 60:02}<20:12, {seconds:.2f}s/it]" for n in steps
    )
    path.write_text("\n".join(f"{100 * n // total}%|###|{line}" for n, line in zip(steps, lines, strict=True)))
    return str(path)


@pytest.mark.parametrize(
    ("steps", "total", "says"),
    [
        ([1, 2, 3, 4], 1000, "that of 'b' rests on 4 of 1,000 steps (4 s)"),
        ([6, 12], 12, "that of 'b' rests on 12 steps (14 s)"),
        ([10, 20, 30, 40], 1000, ""),
        ([1000], 1000, ""),
    ],
)
def test_a_run_that_was_killed_at_once_is_no_measurement(
    tmp_path: Path, steps: list[int], total: int, says: str
) -> None:
    """By its bars; a single one that is full has the mean of all steps."""
    files = [bars(tmp_path / "a.log", [200, 400, 600, 800, 1000], 2.13), bars(tmp_path / "b.log", steps, 1.2, total)]
    batch = [{"label": label, "figures": {"samples_per_step": 8}} for label in "ab"]
    found = report({"speed_up": "1.78"}, files=files, rows=batch)
    compared = claim_lines(audit(validate({"name": "own", "reported": {"files": files}}, "own")))[0]

    assert (Judgement.UNDECIDED if says else Judgement.HOLDS) is found.claims[0].judgement
    assert says in found.claims[0].reason
    assert says in compared
    assert (SAYS in compared) == bool(says)


@pytest.mark.parametrize(("every", "holds"), [(1, False), (10, True)])
def test_a_history_of_few_steps_is_no_measurement(every: int, holds: bool) -> None:
    """Six rows are six steps, or sixty."""
    rows = [f"{run},{n * every},{speed}" for run, speed in (("a", 41200), ("b", 66000)) for n in range(1, 7)]
    (claim,) = report({"speed_up": "1.60"}, table="\n".join(["run,step,tokens/s", *rows])).claims

    assert holds is (claim.judgement is Judgement.HOLDS)


def test_all_the_time_of_a_run_is_that_of_its_steps() -> None:
    """A job of ten steps took what it took."""
    table = "run,steps,samples/step,hours\na,10,512,2.0\nb,10,512,1.0\n"

    assert Judgement.HOLDS is report({"speed_up": "2.0", "quantity": "hours"}, table=table).claims[0].judgement


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ([f"step {n}/1000 | loss 7.1 | 66,000 tok/s" for n in (1, 2, 3, 4)], False),
        ([f"step {n} | loss 7.1 | 66,000 tok/s" for n in (10, 20, 30)], True),
        ([f"epoch {e} iter {n} | 66,000 tok/s" for e in range(5) for n in (5, 10)], True),
        ([f"epoch {e} step 8 | 66,000 tok/s" for e in range(5)], True),
        ([f"step 1,{n}00 | 66,000 tok/s" for n in range(3)], True),
        ([f"step: 0.1{n} | 66,000 tok/s" for n in range(3)], True),
        (["loss 7.1 | 66,000 tok/s"] * 3, True),
    ],
)
def test_lines_count_the_steps_that_a_speed_rests_on(tmp_path: Path, lines: list[str], holds: bool) -> None:
    """Over all epochs; where they count none, nobody knows."""
    for name, text in (("a", [f"step {n} | 41,200 tok/s" for n in (100, 200, 300)]), ("b", lines)):
        (tmp_path / f"{name}.log").write_text("\n".join(text))
    (claim,) = report({"speed_up": "1.60"}, files=[str(tmp_path / f"{name}.log") for name in "ab"]).claims

    assert holds is (claim.judgement is Judgement.HOLDS), claim.reason
