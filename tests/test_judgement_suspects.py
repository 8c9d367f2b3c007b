"""Time that a healthy run would not spend is named by its phase, and never blamed on a factor that did not show it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simulated import SHARES, facts, profiled
from slowstep.factors import Meaning
from slowstep.judgement.explaining import ACT_ON_ALL_PHASES
from slowstep.judgement.flops import TokenFlops
from slowstep.judgement.intervals import Interval
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.run_facts import RunFacts, events_alone
from slowstep.judgement.suspects import Residuals, Suspect, gone, perhaps_suspects, suspects, unexplained
from slowstep.judgement.throughput import seconds_per_step
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import EventRecord, Place
from slowstep.settings import Settings, override
from slowstep.wording.causes import causes
from slowstep.wording.remaining import looked_at_again, remains
from slowstep.wording.still_open import more_lost
from slowstep_probe.measured import PHASES, OfRank
from slowstep_probe.profiled import Loop, Operator, PassLoop, Unused

MINIMUM = 0.05
HEALTHY = SHARES | {"data": 0.01, "host_to_device": 0.0, "other": 0.03, "forward": 0.29, "backward": 0.57}
FLOPS = TokenFlops(weights=6.0, attention=0.0, adapter=0.0, forward=2.0, recomputation=0.0)


SLOW = "aten::bernoulli_"
"""The operator that takes what is added to a pass."""

BOUND, LAUNCHING = 1.2, 0.2
"""Shares of the device's rate at which a step computes: bound by arithmetic, bound by launching."""


def found(flops: TokenFlops | None = FLOPS, rate: float = BOUND, known: bool = True, **shares: float) -> list[Suspect]:
    """The suspects of a healthy step with time added in phases, as shares of the healthy step.

    What is added is `known` by the profile: an operator in a pass, a line of code elsewhere.
    """
    whole = 1.0 + sum(shares.values())
    taken = {p: (HEALTHY.get(p, 0.0) + shares.get(p, 0.0)) / whole for p in HEALTHY | shares}
    operators = {p: {SLOW: s / whole} for p, s in shares.items() if p in ("forward", "backward")}
    places = {p: {"train.py:7 in main": s / whole} for p, s in shares.items() if p not in operators}
    steps = facts(taken, noise=0.01, profile=profiled(operators, places=places) if known else profiled())
    work = flops.forward + flops.backward if flops else 1.0
    peak = work * steps.throughput.padded_tokens_per_second / rate * whole
    return suspects(replace(steps, flops=flops, peak_flops=peak), MINIMUM)


def verdict(
    factor: str,
    gain: float,
    meaning: Meaning = Meaning.EXACT,
    outcome: Outcome = Outcome.SUPPORTED,
    left: dict[str, float] | None = None,
) -> Verdict:
    """A verdict with a gain, on the logarithm, and what the changed run still loses."""
    ratio = Interval(mean=gain, lower=gain - 0.02, upper=gain + 0.02, p=0.001, n=5)
    return Verdict(
        name=f"{factor}=x",
        factor=factor,
        title="",
        hypothesis="it is slow.",
        cause="Being slow",
        meaning=meaning,
        changes="",
        outcome=outcome,
        reason="",
        effect=ratio,
        left=left if left is not None else {"data": 0.4, "save": 0.3},
    )


def test_a_healthy_step_has_no_suspects() -> None:
    """Passes in the ratio of their FLOPs and a few percent beside them are what training looks like."""
    assert [] == found()


def test_an_event_that_no_step_meets_is_a_suspect_by_its_share_of_the_job(smoke: Settings) -> None:
    """Evaluating takes 30 s after each of 100 steps of 1 s, and no block holds one: 23 % of the job, at its line."""
    job = override(smoke, {"training_arguments.eval_strategy": "steps", "training_arguments.eval_steps": 100})
    steps = facts(HEALTHY, noise=0.01)
    second = seconds_per_step(steps.blocks)
    took = EventRecord(seconds={"evaluate": [45 * second, 27 * second, 33 * second]})
    alone = events_alone(job, steps.blocks, took)
    line = Place(phase="evaluate", where="train.py:7 in metric", own=True, share=0.2)
    one, *others = suspects(replace(steps, events_alone=alone, places=[line]), MINIMUM)

    assert (one.phase, one.mostly, others) == ("evaluate", "train.py:7 in metric 20 %", [])
    assert (one.share.mean, one.share.lower, one.share.upper) == pytest.approx((30 / 130, 27 / 127, 33 / 133))

    once = events_alone(job, steps.blocks, EventRecord(seconds={"evaluate": [30 * second]}))["evaluate"]
    assert (once.mean, once.lower, once.upper) == pytest.approx((30 / 130, 15 / 115, 60 / 160))


@pytest.mark.parametrize("phase", ["data", "host_to_device", "log", "save", "evaluate", "other", "forward", "backward"])
def test_added_time_comes_back_under_its_phase(phase: str) -> None:
    """Half a step's time added to a phase makes that phase, and no other, a suspect of about that size."""
    (one,) = found(**{phase: 0.6})

    assert phase == one.phase
    assert 1.4 < one.ratio < 1.8


def test_without_known_flops_the_passes_are_not_suspected() -> None:
    """A workload that does not say its sizes gives no ratio to hold the passes against."""
    assert [] == found(flops=None, forward=0.6)


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_pass_is_no_suspect_where_launching_binds(phase: str) -> None:
    """Many small operations are launched at the same price whatever they compute: their FLOPs say nothing of a pass."""
    assert [] == found(rate=LAUNCHING, **{phase: 0.6})


@pytest.mark.parametrize("phase", ["forward", "backward", "other"])
def test_what_nobody_can_name_is_no_suspect(phase: str) -> None:
    """Time of which no operator, no line of code and no long steps are known gives nobody anything to do."""
    assert [] == found(known=False, **{phase: 0.3})


@pytest.mark.parametrize(("phase", "named"), [("forward", SLOW), ("other", "train.py:7"), ("data", "train.py:7")])
def test_a_suspect_names_what_it_consists_of(phase: str, named: str) -> None:
    """A reader learns which operator or which line to look at."""
    (one,) = found(**{phase: 0.6})

    assert named in one.consists_of[0]


def test_places_take_no_more_than_their_phase_does() -> None:
    """The few profiled steps held an evaluation, which most steps do not."""
    steps = HEALTHY | {"evaluate": 0.18}
    whole = sum(steps.values())
    seen = profiled(places={"evaluate": {"train.py:20 in forward": 0.36, "train.py:19 in forward": 0.12}})
    (one,) = suspects(facts({p: s / whole for p, s in steps.items()}, noise=0.01, profile=seen), MINIMUM)

    taken = [float(part.rpartition(" in forward ")[2].removesuffix(" %")) / 100 for part in one.consists_of]
    assert sum(taken) == pytest.approx(one.share.mean, abs=0.01)
    assert taken[0] == pytest.approx(3 * taken[1], rel=0.1)


def test_the_line_that_calls_the_training_is_no_place_of_lost_time() -> None:
    """`trainer.fit(model)` stands behind all that a library does; what the user's own line takes beside it counts."""
    steps = HEALTHY | {"other": 0.25}
    fit = {"backward": {"train.py:41 in <module>": 0.2}, "optimizer": {"train.py:41 in <module>": 0.2}}
    called = profiled(places=fit | {"other": {"train.py:41 in <module>": 0.1}})
    own = profiled(places=fit | {"other": {"train.py:41 in <module>": 0.1, "train.py:22 in training_step": 0.14}})
    (one,) = suspects(facts(steps, profile=own), MINIMUM)

    assert suspects(facts(steps, profile=called), MINIMUM) == []
    assert one.share.mean == pytest.approx(0.14)
    assert [part.partition(" in ")[0] for part in one.consists_of] == ["train.py:22"]


def test_lines_of_a_function_that_trains_nothing_count_together() -> None:
    """None of them takes a good part of the time; the function does."""
    steps = HEALTHY | {"other": 0.12}
    seen = profiled(places={"other": {f"average.py:{line} in update": 0.02 for line in (4, 5, 6, 7)}})
    together = replace(seen, places=[replace(p, within="average.py in update", together=0.1) for p in seen.places])
    (one,) = suspects(facts(steps, profile=together), MINIMUM)

    assert suspects(facts(steps, profile=seen), MINIMUM) == []
    assert one.share.mean == pytest.approx(0.1)
    assert one.consists_of == ["average.py:4 in update and other lines that update runs 10 %"]


def test_a_large_line_of_a_function_stands_by_itself() -> None:
    """What else the function runs stands beside it."""
    seen = profiled(places={"other": {"average.py:4 in update": 0.06, "average.py:9 in blended": 0.01}})
    together = replace(seen, places=[replace(p, within="average.py in update", together=0.08) for p in seen.places])
    (one,) = suspects(facts(HEALTHY | {"other": 0.12}, profile=together), MINIMUM)

    assert one.consists_of == [
        "average.py:4 in update 6.0 %",
        "average.py:9 in blended and other lines that update runs 2.0 %",
    ]


EMA = {"train.py:41 in main": 0.02, "ema.py:7 in update": 0.1, "ema.py:8 in update": 0.1, "ema.py:9 in update": 0.01}
"""An average of the weights that a hook on the optimizer updates in Python, beside the optimizer's own line."""


def with_hook(hooked: bool) -> RunFacts:
    """A run whose optimizer's step is mostly the hook of `EMA`, as far as its places tell that."""
    found = profiled(places={"optimizer": EMA})
    marked = [replace(p, hooked=hooked, within="ema.py in update", together=0.21) for p in found.places[1:]]
    return facts(HEALTHY | {"optimizer": 0.25}, noise=0.01, profile=replace(found, places=[*found.places[:1], *marked]))


def test_a_hook_on_the_optimizer_is_lost_time() -> None:
    """It runs within the optimizer's step, and trains nothing. No block of a change tells how much of it is left."""
    (one,) = suspects(with_hook(hooked=True), MINIMUM)
    (cause,) = causes([verdict("fused", 0.1, left={})], [one], MINIMUM)[:1]

    assert (one.phase, one.at) == ("optimizer", "ema.py:7, 8 in update 20 %")
    assert one.share.mean == pytest.approx(0.2)
    assert not one.comparable
    assert "lost in the optimizer's step; a hook on the optimizer runs there" in cause.text


def test_an_update_is_no_lost_time_whoever_wrote_its_rule() -> None:
    """Neither the line that calls an optimizer nor those of a rule of the program's own; so records of before stay."""
    assert [] == suspects(with_hook(hooked=False), MINIMUM)
    stalls = replace(with_hook(hooked=False), profile=None, places=[])
    assert [] == suspects(stalls, MINIMUM)


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ({"gnn.py:17 in draw": 0.24, "gnn.py:22 in draw": 0.2, "log.py:3 in w": 0.05}, "gnn.py:17, 22 in draw 44 %"),
        ({"log.py:3 in write": 0.26, "gnn.py:17 in draw": 0.14, "gnn.py:22 in draw": 0.1}, "log.py:3 in write 26 %"),
        ({f"a.py:{line} in f": 0.1 for line in (1, 2, 3, 4)}, "a.py:1, 2, 3 and others in f 40 %"),
        ({"a.py:1 in f": 0.2, "b.py:2 in f": 0.19}, "a.py:1 in f 20 %"),  # functions of one name in two files
    ],
)  # fmt: skip
def test_lines_of_one_function_are_told_together_at_first_sight(places: dict[str, float], told: str) -> None:
    """A loop of several lines is one loss; the single lines stand in the text."""
    (one,) = suspects(
        facts({"forward": 0.3, "backward": 0.2, "other": 0.5}, profile=profiled(places={"other": places})), MINIMUM
    )

    assert told == one.at
    assert one.consists_of[0].startswith(next(iter(places)))
    assert told in causes([], [one], MINIMUM)[0].headline


def test_a_pause_in_a_pass_is_found_without_its_flops() -> None:
    """A sleep in the forward pass of a model of unknown sizes shows as time in which no operator runs."""
    steps = facts(HEALTHY | {"forward": 0.59, "backward": 0.3}, profile=profiled(pauses={"forward": 0.3}))

    (one,) = suspects(steps, MINIMUM)

    assert ("forward", True) == (one.phase, one.share.lower < 0.3 < one.share.upper)


@pytest.mark.parametrize(("gathered", "named"), [(0.0, ["forward"]), (0.02, ["forward"]), (0.28, [])])
def test_where_ranks_wait_for_each_other_a_pause_is_no_loss(gathered: float, named: list[str]) -> None:
    """Weights that are gathered in the forward pass make it wait; what stands still there for longer is lost."""
    shares = HEALTHY | {"forward": 0.59, "backward": 0.3}
    steps = facts(shares, profile=profiled(pauses={"forward": 0.3}), observed={"world_size": 2})
    seconds = steps.blocks[0].seconds
    phases = {p: seconds * s for p, s in shares.items()}
    one = OfRank(seconds=seconds, phases=phases, collectives={"forward": gathered * seconds})
    steps = replace(steps, blocks=[replace(block, ranks=[one, one]) for block in steps.blocks])

    assert named == [s.phase for s in suspects(steps, MINIMUM)]


@pytest.mark.parametrize(
    ("seconds", "own", "there"),
    [
        (0.16, 0.15, True),  # a mask filled element by element
        (0.03, 0.15, False),  # a loop that takes little
        (0.16, 0.01, False),  # lines that take next to nothing
    ],
)
def test_a_loop_in_python_is_found_without_its_flops(seconds: float, own: float, there: bool) -> None:
    """The line of the user's that calls it is named; what a model's own code computes is not lost, however much of the
    time it takes."""
    known = profiled(places={"forward": {"hooks.py:210 in build": own}})
    loop = Loop(name="aten::select", calls=5 * 18_000, seconds=seconds)
    profile = replace(known, loops={"forward": loop})
    steps = facts(HEALTHY | {"forward": 0.45}, profile=profile)

    named = [(s.phase, s.consists_of[0]) for s in suspects(steps, MINIMUM)]

    assert there == bool(named)
    assert not there or ("forward", True, True) == (
        named[0][0],
        "hooks.py:210" in named[0][1],
        "18,000 times a step" in named[0][1],
    )


def test_calls_side_by_side_are_told_with_the_line_that_makes_them() -> None:
    """Lines within the modules call more operators than it does. The way back goes through it."""
    known = profiled(places={"forward": {"moe.py:12 in forward": 0.2, "moe.py:33 in forward": 0.1}, "backward": {}})
    forth = Loop(name="Expert", calls=48 * known.steps, seconds=0.2 * known.seconds, where="moe.py:33 in forward")
    called = {"forward": {"moe.py:12 in forward": 288.0}}
    profile = replace(known, loops={"forward": forth}, called=called)

    (found,) = suspects(facts(HEALTHY | {"forward": 0.45}, profile=profile), MINIMUM)

    assert found.does_at == "moe.py:33 in forward"
    assert "Expert 48 times a step" in found.consists_of[0]
    assert "one batched call could compute all of them" in found.why


@pytest.mark.parametrize(
    ("called", "line"),
    [
        ({"train.py:9 in loss": 576.0, "train.py:60 in step": 12.0}, "train.py:9"),
        ({"train.py:60 in step": 12.0}, "train.py:54"),  # none of these calls runs the loop, so the shares tell
        ({}, "train.py:54"),
    ],
)
def test_the_line_of_a_loop_is_the_one_that_calls_its_operators(called: dict[str, float], line: str) -> None:
    """A line beside the loop may take as long as the loop does."""
    known = profiled(places={"forward": {"train.py:9 in loss": 0.3, "train.py:54 in step": 0.08}})
    loops = {"forward": Loop(name="aten::cosine_similarity", calls=576 * known.steps, seconds=0.08 * known.seconds)}
    steps = facts(
        HEALTHY | {"forward": 0.45}, profile=replace(known, loops=loops, called={"forward": called} if called else {})
    )

    (found,) = suspects(steps, MINIMUM)

    assert line in found.consists_of[0]


@pytest.mark.parametrize(("profiled_whole", "whole"), [(0.0, 0.0), (0.3, 0.3), (0.2, 0.28)])
def test_a_loop_without_gradients_may_lose_all_of_its_time(profiled_whole: float, whole: float) -> None:
    """What one call after the other costs is certainly lost; what it computes of the data alone can be kept as well.

    A profile may hold less of it than looks at the stack do."""
    known = profiled(places={"forward": {"net.py:45 in farthest": 0.26, "net.py:43 in farthest": 0.02}})
    loop = Loop(
        name="aten::select",
        calls=320 * known.steps,
        seconds=0.1 * known.seconds,
        without_gradients=profiled_whole * known.seconds,
    )
    called = {"forward": {"net.py:43 in farthest": 320.0, "net.py:45 in farthest": 320.0, "net.py:1 in forward": 8.0}}
    profile = replace(known, loops={"forward": loop}, called=called)

    (found,) = suspects(facts(HEALTHY | {"forward": 0.45}, profile=profile), MINIMUM)

    assert found.share.mean == pytest.approx(0.1)
    assert found.share.upper == pytest.approx(max(whole, 1.5 * 0.1))
    assert (f"{100 * whole:.0f} % in all" in found.why) == (whole > 0)
    assert "net.py:45" in found.consists_of[0]


@pytest.mark.parametrize(
    ("taken", "lost"),
    [
        ({"aten::im2col": 0.2, "aten::copy_ in aten::matmul": 0.1}, 0.27),
        ({"aten::copy_ in aten::matmul": 0.08, "aten::cat": 0.03}, None),  # hardly more than any model has
    ],
)
def test_operators_that_only_move_numbers_are_lost_beyond_what_every_model_has(
    taken: dict[str, float], lost: float | None
) -> None:
    """They are named with what called them, and with the line of the forward pass that most likely does."""
    known = profiled(places={"forward": {"net.py:13 in forward": 0.28, "net.py:12 in forward": 0.1}})
    moves = [Operator(name=name, calls=9, seconds=share * known.seconds) for name, share in taken.items()]
    for phase in ("forward", "backward"):
        found = suspects(facts(HEALTHY | {"forward": 0.4}, profile=replace(known, moves={phase: moves})), MINIMUM)

        assert [(s.phase, s.share.mean) for s in found] == ([(phase, pytest.approx(lost))] if lost else [])
        assert [s.consists_of[0].split()[0] for s in found] == ["aten::im2col"] * bool(lost)
        assert ["net.py:13" in s.why for s in found] == [phase == "forward"] * bool(lost)
        assert not suspects(facts(HEALTHY, profile=replace(known, moves={phase: moves}, device="cuda")), MINIMUM)


@pytest.mark.parametrize(
    ("flops", "rate", "lost"),
    [
        (0.07e12, 1e12, 0.03 + 0.3 - 0.1),  # one large product would take a third of the time at 0.7 of the rate
        (0.21e12, 1e12, None),  # as fast as a large product
        (0.07e12, None, None),  # the rate is not known
    ],
)
def test_small_products_in_a_loop_are_lost_as_far_as_a_large_one_is_faster(
    flops: float, rate: float | None, lost: float | None
) -> None:
    """A recurrent cell that is called for each position multiplies a few rows at a time."""
    known = profiled(places={"forward": {"model.py:19 in forward": 0.4}})
    loop = Loop(name="LSTMCell", calls=5 * 128, seconds=0.03, products=0.3, flops=flops)
    steps = facts(HEALTHY | {"forward": 0.45}, profile=replace(known, loops={"forward": loop}))

    found = suspects(replace(steps, product_rate=rate), MINIMUM)

    assert [s.share.mean for s in found] == ([pytest.approx(lost)] if lost else [])


def test_one_profiled_step_says_less_than_three() -> None:
    """It may be a disturbed one, so what it tells may be further off."""
    known = profiled(places={"forward": {"hooks.py:210 in build": 0.2}})
    loop = Loop(name="aten::select", calls=18_000, seconds=0.16)
    few, some = (
        suspects(facts(HEALTHY | {"forward": 0.45}, profile=replace(known, steps=steps, loops={"forward": loop})), 0.01)
        for steps in (1, 3)
    )

    assert few[0].share.mean == some[0].share.mean
    assert few[0].share.lower < some[0].share.lower < some[0].share.upper < few[0].share.upper


def test_the_loss_of_a_plain_loop_is_no_lost_time() -> None:
    """A loop that computes its loss beside the model spends time between the phases, and trains in it."""
    loss = {"other": {"aten::_log_softmax": 0.1}}
    places = {"other": {"train.py:9 in main": 0.1}}
    steps = facts(HEALTHY | {"other": 0.13, "backward": 0.47}, profile=profiled(loss, places=places))

    assert [] == suspects(steps, MINIMUM)


def test_the_report_names_what_its_own_records_show_removed() -> None:
    """Where a ceiling shows the wait gone, the report does not say that no change removes it."""
    ceiling = replace(
        verdict("cached_batches", 0.47, meaning=Meaning.DIAGNOSTIC, outcome=Outcome.INCONCLUSIVE, left={}),
        left_at_most={"data": 0.001},
    )
    (cause,) = causes([ceiling], found(data=0.6), MINIMUM)

    assert "gone under cached_batches=x" in cause.text
    assert "No change" not in cause.text


@pytest.mark.parametrize(
    ("factor", "tried", "said"),
    [
        (
            "dataloader_num_workers",
            False,
            "dataloader_num_workers=x acts on it, and there was no time to try it.",
        ),
        ("dataloader_num_workers", True, "No change tested here removes it; fix it in that code."),
        ("torch_compile", False, "No change was tested here; fix it in that code."),  # it acts on everything
    ],
)
def test_what_was_not_reached_was_not_tried_in_vain(factor: str, tried: bool, said: str) -> None:
    """Nobody is sent to his code before the change that acts on a wait was tried."""
    one = verdict(factor, 0.0, outcome=Outcome.REFUTED if tried else Outcome.INCONCLUSIVE, left={"data": 0.5})
    (cause,) = causes([one if tried else replace(one, effect=None)], found(data=0.6), MINIMUM)

    assert said in cause.text
    (in_code,) = causes([replace(one, effect=None)], [replace(found(data=0.6)[0], comparable=False)], MINIMUM)
    assert "fix it in that code" in in_code.text


def test_nothing_is_said_of_changes_before_one_was_tried() -> None:
    """While measuring goes on there are no verdicts: neither does a change explain the time, nor does none."""
    (cause,) = causes([], found(data=0.6), MINIMUM)

    assert "Fix it in that code." in cause.text
    assert "No change" not in cause.text


def test_a_change_explains_what_it_takes_away() -> None:
    """Time that is gone under a supported change is explained, whatever the change is; time that stays is not."""
    waiting = found(data=0.6)

    assert [] == unexplained(waiting, [Residuals(least={"data": 0.02}, most={"data": 0.04})], MINIMUM)
    part, none = (
        Residuals(least={"data": 0.3}, most={"data": 0.32}),
        Residuals(least={"data": 0.9, "forward": 0.0}, most={"data": 1}),
    )
    by_chance = Residuals(least={"data": 0.3}, most={"data": 0.45})
    shares = [s.share.mean for s in waiting]
    for left, stays in ((part, [0.3]), (none, shares), (by_chance, shares)):
        assert stays == [one.least for _, one in unexplained(waiting, [left], MINIMUM)]


def test_the_ordinary_time_between_phases_is_no_loss_that_stays() -> None:
    """Beside a line that took 20 %, Python's ordinary way of 8 % stays when the line is gone; so does a met stall's."""
    (line,) = found(other=0.2)
    assert line.ordinary == pytest.approx(0.03 / 1.2, abs=0.01)
    assert line.ordinary <= line.ordinary_at_most
    line = replace(line, ordinary=0.08, ordinary_at_most=0.1)
    gone_with_it = Residuals(least={"other": 0.07}, most={"other": 0.09}, before={"other": 0.25})
    never_met = replace(gone_with_it, before={"other": 0.09})

    assert [] == unexplained([line], [gone_with_it], MINIMUM)
    assert [line] == [s for s, _ in unexplained([line], [never_met], MINIMUM)]
    assert (True, False) == (gone(line, gone_with_it), gone(line, never_met))


def test_ordinary_time_is_that_of_each_step() -> None:
    """With steps of twice the work half of it is left for a sample: the line, which costs half as well, is not gone."""
    (line,) = found(other=0.2)
    line = replace(line, ordinary=0.2, ordinary_at_most=0.2)
    halved = Residuals(least={"other": 0.18}, most={"other": 0.19}, before={"other": 0.37}, steps=0.5)

    assert [0.08] == [pytest.approx(stays.least) for _, stays in unexplained([line], [halved], MINIMUM)]
    assert not gone(line, halved)
    assert gone(line, replace(halved, steps=1.0))


def test_what_stays_at_least_is_said_within_what_is_known() -> None:
    """A profile of a few steps tells a line's share, and so the rest of its phase, up to a factor."""
    (line,) = found(other=0.2)
    line = replace(line, ordinary=0.1, ordinary_at_most=0.17)
    left = Residuals(least={"other": 0.16}, most={"other": 0.165}, before={"other": 0.3})

    assert [] == unexplained([line], [left], MINIMUM)
    assert [] != unexplained([replace(line, ordinary_at_most=0.1)], [left], MINIMUM)


def test_what_the_adopted_run_is_seen_to_lose_stays_open() -> None:
    """The baseline's profile can't tell what a change leaves of a line from the ordinary time beside it; its own can.

    That says nothing of a change which is no part of what is adopted.
    """
    (line,) = found(other=0.3)
    line = replace(line, ordinary=0.1, ordinary_at_most=0.2)
    halves = replace(
        verdict("freed_memory", math.log(1.5), left={"other": 0.27}),
        overrides={"freed_memory": "kept"},
        left_at_most={"other": 0.3},
        before={"other": 0.35},
    )
    (itself,) = found(other=0.15)
    both = {"freed_memory": "kept", "num_threads": 1}
    seen = Remaining(overrides=both, ratio=1.5, looked_at=["other"], suspects=[itself])
    of_another = replace(seen, overrides={"num_threads": 1})

    assert [] == [one.phase for one in causes([halves], [line], MINIMUM) if one.phase == "other"]
    assert [] == [one.phase for one in causes([halves], [line], MINIMUM, of_another) if one.phase == "other"]
    (cause,) = [one for one in causes([halves], [line], MINIMUM, seen) if one.phase == "other"]
    assert cause.ratio == pytest.approx(1 / (1 - itself.share.mean / 1.5))


def test_what_makes_everything_faster_explains_no_line_that_most_of_the_loss_stays_at() -> None:
    """Freed memory kept makes an average of weights in numpy a third faster, and the line is what to mend.

    A profile of few steps knows the line's share up to a factor, so that nearly nothing may stay of it.
    """
    (line,) = found(other=0.6)
    line = replace(line, ordinary=0.0, ordinary_at_most=0.45)
    kept = replace(
        verdict("freed_memory", math.log(1.35), left={"other": 0.27}),
        left_at_most={"other": 0.3},
        before={"other": 0.6},
    )
    first, second = causes([kept], [line], MINIMUM)

    assert (first.phase, second.factor) == ("other", "freed_memory")
    assert first.ratio == line.ratio
    assert "supported changes take a part of it away, and about 21 % of today's time stays" in first.text


def test_a_loss_that_another_change_uncovers_is_none_that_the_first_leaves() -> None:
    """Workers hide the loading, until a second change makes the computing faster than the loader: both are adopted."""
    workers = verdict("dataloader_num_workers", math.log(2.0), left={"data": 0.0})
    workers = replace(
        workers, overrides={"workers": 4}, left_at_most={"data": 0.01}, before={"data": 0.6}, name="workers=4"
    )
    (again,) = found(data=0.3)
    both = Remaining(overrides={"workers": 4, "bf16": True}, ratio=3.0, looked_at=["data"], suspects=[again])
    alone, together = (causes([workers], found(data=0.6), MINIMUM, known) for known in (None, both))

    assert alone == together
    assert [cause.factor for cause in together] == ["dataloader_num_workers"]


def test_what_changes_take_away_together_is_not_said_to_stay() -> None:
    """Each leaves a part, and the run with both of them loses nothing there."""
    waiting = found(data=0.6)
    parts = [
        replace(
            verdict(f"{name}", math.log(1.4), left={"data": 0.3}),
            overrides={name: True},
            left_at_most={"data": 0.32},
            before={"data": 0.6},
        )
        for name in ("pin_memory", "dataloader_num_workers")
    ]
    both = Remaining(overrides={"pin_memory": True, "dataloader_num_workers": True}, ratio=2.3, looked_at=["data"])
    apart, together = (
        " ".join(cause.text for cause in causes(parts, waiting, MINIMUM, known)) for known in (None, both)
    )

    assert "still loses at least" in apart
    assert "still loses at least" not in together


@pytest.fixture
def waits() -> Suspect:
    """A wait for data of 15 % in steps that scatter so much that it may be nothing, and may be a third."""
    share = Interval(mean=0.15, lower=0.01, upper=0.33, p=1.0, n=12)
    return Suspect(phase="data", share=share, why="it trains nothing")


def test_a_wait_that_few_steps_do_not_decide_is_neither_a_loss_nor_none() -> None:
    """It may take more than the minimum effect is worth, and it may not; one that certainly does not is left alone."""
    scattered = facts(SHARES | {"data": 0.15, "host_to_device": 0.01, "other": 0.0}, noise=1.0, seen=12)
    share = scattered.shares["data"]

    assert share.lower < MINIMUM / (1 + MINIMUM) < share.upper
    assert [] == suspects(scattered, MINIMUM)
    assert ["data"] == [one.phase for one in perhaps_suspects(scattered, MINIMUM)]
    assert [] == perhaps_suspects(facts(SHARES | {"data": 0.15, "other": 0.0}, noise=0.01), MINIMUM)


def test_time_at_a_line_that_may_take_more_than_it_was_seen_to_take_is_open() -> None:
    """A few looks at the stack place 4 % of the time at a line between the phases: it may be 5 %, and it may be 3."""
    steps = facts(
        HEALTHY | {"other": 0.06}, noise=0.01, profile=profiled(places={"other": {"train.py:7 in main": 0.04}})
    )

    assert [] == suspects(steps, MINIMUM)
    assert ["other"] == [one.phase for one in perhaps_suspects(steps, MINIMUM)]


def test_an_undecided_wait_is_told_and_not_denied(waits: Suspect) -> None:
    """Nobody is told that nothing is lost where a third of the time may be."""
    clear = Remaining(overrides={}, ratio=1.3, looked_at=list(PHASES))
    few = replace(clear, missed="a stall rarer than one in 17 steps could have been missed")
    (certain,) = found(data=0.3)

    assert looked_at_again(clear).endswith("no phase of the run loses time that is worth a change.")
    assert looked_at_again(few).endswith("a change; a stall rarer than one in 17 steps could have been missed.")
    assert looked_at_again(replace(clear, perhaps=[waits])) == (
        "From so few steps it is not known what is still lost. Data wait takes 15 % [1.0, 33] of the time that is left."
    )
    both = replace(clear, suspects=[certain], perhaps=[waits])
    assert "From so few steps it is not known what else is still lost" in remains(both)[-1]
    assert "" == looked_at_again(both) == looked_at_again(replace(clear, suspects=[certain])) == looked_at_again(None)


def test_what_few_steps_do_not_decide_takes_no_cause_away(waits: Suspect) -> None:
    """A change leaves at least 20 % of the time waiting; that the final run's few steps are undecided is no news."""
    waiting = found(data=0.6)
    part = replace(
        verdict("pin_memory", math.log(1.4), left={"data": 0.3}),
        overrides={"pin_memory": True},
        left_at_most={"data": 0.32},
        before={"data": 0.6},
    )
    clear = Remaining(overrides=part.overrides, ratio=1.4, looked_at=["data"])
    told = [
        " ".join(cause.text for cause in causes([part], waiting, MINIMUM, known))
        for known in (clear, replace(clear, perhaps=[waits]))
    ]

    assert ["still loses at least" in text for text in told] == [False, True]


def test_a_supported_change_is_not_said_to_bring_nothing() -> None:
    """It leaves little of a wait, and more than is worth a change: both are told, and neither denies its gain."""
    part = replace(
        verdict("pin_memory", math.log(1.5), left={"data": 0.22}), left_at_most={"data": 0.25}, before={"data": 0.6}
    )
    (cause,) = causes([part], found(data=0.6), MINIMUM)

    assert "still loses at least" in cause.text
    assert cause.text.endswith("No change tested here removes all of it; fix it in that code.")


def test_pairs_that_met_no_stall_explain_none() -> None:
    """Where the baseline of the same pairs did not wait either, that nobody waits there says nothing of the change."""
    (waiting,) = found(data=0.6)
    quiet = Residuals(least={"data": 0.0}, most={"data": 0.01}, before={"data": 0.01})
    telling = replace(quiet, before={"data": 0.35})

    assert [waiting] == [s for s, _ in unexplained([waiting], [quiet], MINIMUM)]
    assert [] == unexplained([waiting], [telling], MINIMUM)
    assert (False, True) == (gone(waiting, quiet), gone(waiting, telling))


def test_a_gain_elsewhere_explains_nothing() -> None:
    """A large supported gain that leaves the wait as it was does not account for the wait."""
    ranked = causes([verdict("optim", 0.8, left={"data": 0.37})], found(data=0.6), MINIMUM)

    assert [("optim", None), (None, "data")] == [(c.factor, c.phase) for c in ranked]


def test_changes_of_one_phases_time_are_one_cause() -> None:
    """Two ways to update faster undo one loss, and their shares must not be added. Arithmetic elsewhere is another."""
    ranked = causes([change("foreach", 0.3), change("precision", 0.4), change("fused", 0.6)], [], MINIMUM)

    assert ["fused", "precision"] == [cause.factor for cause in ranked]
    assert "foreach" in ranked[0].text
    assert "acts on it, too" in ranked[0].text


def test_what_was_not_supported_explains_nothing() -> None:
    """A refuted or void change leaves the time unexplained; a ceiling shows it and explains nothing either."""
    weak = verdict("dataloader_num_workers", 0.47, outcome=Outcome.INCONCLUSIVE, left={"data": 0.0})
    ceiling = change(CEILING, 0.47, meaning=Meaning.DIAGNOSTIC)

    (cause,) = causes([weak, ceiling], found(data=0.6), MINIMUM)

    assert (cause.factor, cause.phase, cause.effect) == (None, "data", None)


def change(factor: str, gain: float, loses: float = 0.0, **others: object) -> Verdict:
    """A supported change whose run loses so much of its time waiting for data, give or take a hundredth."""
    left = {"data": max(0.0, loses - 0.01)}
    return replace(verdict(factor, gain, left=left), left_at_most={"data": loses + 0.01}, **others)


WORKERS, CEILING = "dataloader_num_workers", "cached_batches"


def within(gain: float, most: float, loses: float) -> Verdict:
    """Workers that are shown to bring something, known no better than up to `most`."""
    known = change(WORKERS, gain, loses)
    return replace(known, effect=replace(known.effect, lower=0.01, upper=most))


LIMIT = change(CEILING, 0.46, meaning=Meaning.DIAGNOSTIC)
"""Without any wait for data the run is as much faster as its wait of 37.5 % says, but for a little."""


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (change(WORKERS, 0.2, loses=0.2), [(None, "data")]),  # the wait's own name: a part goes
        (change(WORKERS, 0.35, loses=0.1), [(WORKERS, "data")]),  # most of it goes
        (within(0.2, 0.3, loses=0.2), [(WORKERS, "data")]),  # a good part of it, and perhaps most
        (within(0.05, 0.3, loses=0.2), [(None, "data")]),  # hardly a part by the estimate, whatever noise allows
        (change(WORKERS, 0.48), [(WORKERS, None)]),  # all of it goes, and luck puts it beyond the limit
        (change(WORKERS, 0.9, loses=0.2), [(WORKERS, None), (None, "data")]),  # it does more besides
        (change("optim", 0.2, loses=0.39 * 1.22), [(None, "data"), ("optim", None)]),  # it has nothing to do with it
        (change("num_threads", 0.09, loses=0.39 * 1.09), [(None, "data"), ("num_threads", None)]),
        (change("processes", 0.6, loses=0.1), [(None, "data"), ("processes", None)]),  # all that is lost to several
        (change("processes", 2.0, loses=0.1), [("processes", None), (None, "data")]),  # the wait is no good part of it
        (change("larger_batches", 0.8, loses=0.1), [(None, "data"), ("larger_batches", None)]),  # all that it thins out
        (change("larger_batches", 2.0, loses=0.1), [("larger_batches", None), (None, "data")]),
    ],
)
def test_one_loss_of_time_is_one_cause(one: Verdict, expected: list[tuple[str | None, str | None]]) -> None:
    """A wait stands with the changes that are shown to take a part of it away, and with the limit of such changes."""
    (waiting,) = found(data=0.6)
    ranked = causes([one, LIMIT], [waiting], MINIMUM)

    assert [(c.factor, c.phase) for c in ranked] == expected
    assert sum("the most" in c.text.lower() for c in ranked) == 1
    for text in (text for c in ranked for text in (c.text, c.still_open) if "Without that time the run" in text):
        assert "can be had" not in text  # a share and a trial say the same in two ways, and each is told as what it is
        assert ("The trial that shows the most" in text) == ("measured" in text)
    for cause in ranked:
        more = len(ranked) > 1 and one.factor in (WORKERS, *ACT_ON_ALL_PHASES)  # then the wait is what stays of it
        size = one.effect.ratio if cause.factor else waiting.ratio
        assert cause.size[0] == pytest.approx(size) or (more and cause.factor is None and cause.size[0] < size)
        assert cause.size[1] <= cause.size[0] <= cause.size[2]
        assert bool(cause.still_open) == (cause.phase is not None)


LOOP = {"why": "a loop", "consists_of": ["train.py:15 in dice 8 %", "train.py:17 in dice 8 %"]}


@pytest.mark.parametrize(
    ("loop_at", "phases"),
    [
        ("train.py:16 in dice", ["other"]),
        ("train.py:16 in augment", ["backward", "other"]),
        ("", ["backward", "other"]),
    ],
)
def test_a_loop_and_its_way_back_are_one_loss(loop_at: str, phases: list[str]) -> None:
    """A loss that goes over samples one by one is paid for twice; another function's loop is another loss."""
    around = {"p": 0.0, "n": 9}
    forth = Suspect(phase="other", share=Interval(mean=0.19, lower=0.12, upper=0.24, **around), **LOOP)
    share = Interval(mean=0.23, lower=0.15, upper=0.34, **around)
    back = Suspect(
        phase="backward",
        share=share,
        why="it goes back",
        consists_of=["the way back 23 %"],
        back_through="other",
        does="a loop in Python",
        does_at=loop_at,
        comparable=False,
    )
    ranked = causes([change("precision", 0.33)], [back, forth], MINIMUM)
    loop = next(c for c in ranked if c.phase == "other")

    assert [c.phase for c in ranked if c.factor is None] == phases
    if len(phases) == 1:
        assert ranked[0] is loop
        assert loop.ratio == pytest.approx(1 / (1 - 0.42))
        assert loop.size[1] == pytest.approx(1 / (1 - 0.27))
        assert "take 42 % [27, 58] of the time" in loop.headline
        assert "would be 72 % faster" in loop.text


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ({"net.py:18 in attend": 0.15, "net.py:13 in forward": 0.05}, "mostly at net.py:18 in attend"),
        ({"net.py:13 in forward": 0.5, "net.py:18 in attend": 0.15}, "at net.py:13 in forward or net.py:18 in attend"),
        ({"net.py:13 in forward": 0.5, "net.py:18 in attend": 0.05}, ""),
        ({f"net.py:{line} in forward": 0.15 for line in (11, 12, 13)}, ""),
    ],
)
def test_attention_that_is_written_out_is_one_loss_forth_and_back(lines: dict[str, float], at: str) -> None:
    """What its fused operator spares; that of transformers is a setting, which is tried. Its line is told as far as its
    time tells it: a line that takes far more may hold it, too."""
    places = {"forward": lines}
    known = replace(profiled(places=places), written_out={"attention": {"forward": 0.2, "backward": 0.19}})
    steps = facts(HEALTHY | {"forward": 0.4}, profile=known)
    (cause,) = causes([], suspects(steps, MINIMUM), MINIMUM)

    assert cause.headline.startswith(
        f"Attention that is written out (what lies between its two products{f', {at}' if at else ''} 20 %) and the way "
        "back through it take 39 %"
    )
    assert "scaled_dot_product_attention" in cause.text
    assert not suspects(replace(steps, observed={"attn_implementation": "eager"}), MINIMUM)


def test_what_is_computed_again_is_lost_as_far_as_that_is_certain() -> None:
    """The profile knows its share within a factor of 1.5, and little of it is no cause."""
    lines = {"net.py:13 in normalise": 0.2, "net.py:15 in normalise": 0.1}
    known = replace(profiled(places={"forward": {"net.py:20 in forward": 0.4}}), again=lines)
    (found,) = suspects(facts(HEALTHY | {"forward": 0.5}, profile=known), MINIMUM)
    (cause,) = causes([], [found], MINIMUM)

    assert (found.phase, found.share.mean, found.share.lower) == ("forward", pytest.approx(0.3), pytest.approx(0.2))
    assert "net.py:13, 15 in normalise 30 %" in cause.headline
    assert "computes from the same values" in cause.text
    little = replace(known, again={line: seconds / 6 for line, seconds in lines.items()})
    assert not suspects(facts(HEALTHY | {"forward": 0.5}, profile=little), MINIMUM)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("unused", "nothing uses a part of what is computed there"),
        ("only_read", "is only read back to Python"),
        ("of_data", "is the same each time that its samples come"),
    ],
)
def test_what_training_does_not_use_is_lost_in_the_forward_pass(field: str, why: str) -> None:
    """No gradient goes back through it, so it costs there alone."""
    line = "net.py:28 in forward"
    known = replace(profiled(places={"forward": {line: 0.4}}), **{field: {line: 0.6}})
    (found,) = suspects(facts(HEALTHY | {"forward": 0.5}, profile=known, observed={"epoch_steps": 9}), MINIMUM)
    (cause,) = causes([], [found], MINIMUM)

    assert (found.phase, found.share.mean, found.share.lower) == ("forward", pytest.approx(0.3), pytest.approx(0.2))
    assert f"{line} 30 %" in cause.headline
    assert why in cause.text
    for other in (replace(known, **{field: {line: 0.08}}), replace(known, beside={"writer.py in run": 0.1})):
        assert not suspects(facts(HEALTHY | {"forward": 0.5}, profile=other, observed={"epoch_steps": 9}), MINIMUM)


def test_what_comes_of_data_alone_is_kept_where_a_loader_gives_it_again() -> None:
    """Nothing says that other samples, such as those of a memory of experience, come again."""
    known, shares = replace(profiled(), of_data={"net.py:28 in forward": 0.6}), HEALTHY | {"forward": 0.5}
    masks = replace(profiled(), of_data={"net.py:9 in mask": 0.18})

    assert suspects(facts(shares, profile=known, observed={"epoch_steps": 9}), MINIMUM)
    assert not suspects(facts(shares, profile=known), MINIMUM)
    assert not suspects(facts(shares, profile=masks, observed={"epoch_steps": 9}), MINIMUM)


def test_a_loss_that_backward_passes_go_back_through_is_no_lost_time() -> None:
    """A program makes it between the phases, where a metric trains nothing."""
    known = profiled(places={"other": {"fit.py:32 in closure": 0.15}})
    between = HEALTHY | {"other": 0.2}

    assert suspects(facts(between, profile=known), MINIMUM)
    assert not suspects(facts(between, profile=replace(known, losses=0.14)), MINIMUM)


def test_what_is_computed_again_forth_and_back_is_one_loss() -> None:
    """A network that runs twice on the same values is gone back through twice."""
    line = "pinn.py:24 in derivative"
    known = replace(profiled(places={"forward": {line: 0.2}}), again={line: 0.15}, again_backward={line: 0.3})
    found = suspects(facts(HEALTHY | {"forward": 0.2}, profile=known), MINIMUM)
    (cause,) = causes([], found, MINIMUM)

    assert cause.headline.startswith(f"Computing the same again ({line} 15 %) and the way back through it take 45 %")


def test_what_takes_little_of_each_pass_may_take_enough_of_both() -> None:
    """Neither 3 nor 5 % is certainly worth a gain of 5 % by itself."""
    line = "schnet.py:68 in forward"
    known = replace(profiled(places={"forward": {line: 0.2}}), again={line: 0.03}, again_backward={line: 0.05})
    shares = HEALTHY | {"forward": 0.2}
    (cause,) = causes([], suspects(facts(shares, profile=known), MINIMUM), MINIMUM)

    assert cause.headline.startswith(f"Computing the same again ({line} 3.0 %) and the way back through it take 8.0 %")
    for little in ({"again": {}}, {"again_backward": {}}, {"again": {line: 0.004}}, {"again_backward": {line: 0.01}}):
        assert not suspects(facts(shares, profile=replace(known, **little)), MINIMUM)


def test_what_is_moved_forth_and_back_is_one_loss() -> None:
    """Columns of windows are laid out, and their gradients put back."""
    known = profiled(places={"forward": {"net.py:13 in forward": 0.3}})
    moves = {
        "forward": [Operator(name="aten::im2col", calls=9, seconds=0.25 * known.seconds)],
        "backward": [Operator(name="aten::col2im in Im2ColBackward0", calls=9, seconds=0.2 * known.seconds)],
    }
    found = suspects(facts(HEALTHY | {"forward": 0.4}, profile=replace(known, moves=moves)), MINIMUM)
    (cause,) = causes([], found, MINIMUM)

    assert cause.headline.startswith(
        "Moving numbers in memory (aten::im2col 25 %) and the way back through it take 39 %"
    )


def test_what_larger_batches_thin_out_comes_before_them() -> None:
    """Each call under detection of anomalies costs time that does not grow with a batch, and it is what to undo."""
    wholes = [change("larger_batches", 1.0), change("processes", 0.8)]
    ranked = causes([change("detect_anomaly", 0.4), *wholes, change("optim", 0.1)], [], MINIMUM)

    assert [c.factor for c in ranked] == ["detect_anomaly", "larger_batches", "processes", "optim"]


@pytest.mark.parametrize(
    ("batch", "gain", "named"), [(2, 0.8, True), (8, 0.8, True), (32, 0.8, False), (32, 1.2, True)]
)
def test_batches_of_many_samples_are_a_cause_only_where_a_step_hardly_depends_on_them(
    batch: int, gain: float, named: bool
) -> None:
    """Such a batch is chosen for what is learned, and what larger ones would bring is told elsewhere."""
    larger = change("larger_batches", gain, overrides={"training_arguments.per_device_train_batch_size": 4 * batch})

    assert [c.factor for c in causes([larger], [], MINIMUM)] == ["larger_batches"] * named


def test_a_limit_counts_by_its_size_where_the_run_could_do_without() -> None:
    """A teacher's gradients can be left out; that no data is loaded is no more than the most that loading costs."""
    compiled = change("torch_compile", 0.1)
    idle, cached = (change(n, 0.8, meaning=Meaning.DIAGNOSTIC) for n in ("idle_gradients", CEILING))

    assert [c.factor for c in causes([compiled, cached, idle], [], MINIMUM)] == [
        "idle_gradients",
        "torch_compile",
        CEILING,
    ]


def test_a_limit_that_larger_batches_thin_out_comes_before_them() -> None:
    """Each call of a traced program costs time; what is no part of the gain of larger batches stays last."""
    tracing, cached = (change(n, g, meaning=Meaning.DIAGNOSTIC) for n, g in (("tracing", 0.5), (CEILING, 0.1)))
    alone = [c.factor for c in causes([change("larger_batches", 1.0), tracing], [], MINIMUM)]

    assert alone == ["tracing", "larger_batches"]
    assert [c.factor for c in causes([change("larger_batches", 1.0), cached], [], MINIMUM)] == [
        "larger_batches",
        CEILING,
    ]


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.REFUTED])
def test_larger_batches_name_no_wait_that_they_make_rarer(outcome: Outcome) -> None:
    """Something is saved after each step: with fewer steps less of that stays, and it is to be mended all the same."""
    larger = change("larger_batches", 0.6, outcome=outcome)
    (cause,) = causes([larger], found(data=0.6), MINIMUM)

    assert (cause.factor, cause.phase) == (None, "data")
    assert "larger_batches" not in cause.text


def test_what_eases_all_of_a_process_is_no_cause_of_a_wait() -> None:
    """Whoever computes while others wait does that faster as well; that it is done there stays to be named."""
    ranked = causes([change("freed_memory", 0.35, loses=0.1)], found(data=0.6), MINIMUM)

    assert [(c.factor, c.phase) for c in ranked] == [("freed_memory", None), (None, "data")]

    (gone,) = causes([change("freed_memory", 0.9, loses=0.01)], found(data=0.4), MINIMUM)
    assert gone.factor == "freed_memory"


def test_what_stays_is_said_as_a_part_of_todays_time() -> None:
    """A fifth of a run that is 22 % faster is a sixth of today's time."""
    (cause,) = causes([change(WORKERS, 0.2, loses=0.21), LIMIT], found(data=0.6), MINIMUM)

    assert (
        "takes a part of it away. With that change the run still loses at least 16 % of today's time in data wait"
        in cause.text
    )
    assert "+22 %" in cause.text
    assert cause.still_open.startswith("Data wait takes 38 % [38, 38] of today's time;")
    assert f"With {WORKERS}=x the run still loses" in cause.still_open  # nothing before it names the change


def test_a_part_that_a_change_elsewhere_takes_away_is_not_denied() -> None:
    """No change acts on the time between the phases, and one under which it shrinks takes a part of it away."""
    (between,) = [Suspect(phase="other", share=Interval(mean=0.3, lower=0.29, upper=0.31, p=0.0, n=9), why="it waits")]
    fewer = replace(verdict("garbage_collection", 0.2, left={"other": 0.12}), left_at_most={"other": 0.14})
    ranked = causes([fewer], [between], MINIMUM)
    (phase,) = [c for c in ranked if c.factor is None]

    assert "supported changes take a part of it away" in phase.text
    assert phase.ratio < between.ratio


def test_the_first_sentence_names_the_rank_that_the_others_wait_for() -> None:
    """Whoever reads no further knows which process to look at."""
    share = Interval(mean=0.15, lower=0.14, upper=0.16, p=0.0, n=9)
    slow = Suspect(phase="forward", share=share, why="it is slow", rank=1, consists_of=["train.py:7 in main 9 %"])
    (cause,) = causes([], [slow], MINIMUM)

    assert "(rank 1, which the others wait for, train.py:7 in main 9 %); without it" in cause.headline


def test_what_a_change_elsewhere_leaves_most_of_has_its_size_of_today() -> None:
    """Another precision makes an evaluation faster, and is not what it is lost by; beside it, what stays is told."""
    (evaluating,) = found(evaluate=0.46 / 0.54)
    faster = replace(verdict("precision", 0.38, left={"evaluate": 0.36}), left_at_most={"evaluate": 0.38})
    first, second = causes([faster], [evaluating], MINIMUM)

    assert (first.phase, second.factor) == ("evaluate", "precision")
    assert first.ratio == evaluating.ratio == pytest.approx(1 / 0.54, rel=1e-3)
    assert "about 25 % of today's time stays" in first.text
    assert "Without all of it the run would be 85 %" in first.text
    assert "without it the run would be about 85 % faster" in first.headline
    assert "Without what stays the run would be 34 %" in first.still_open
    assert "without what stays of it the run would be about 34 % faster" in more_lost([first], faster_by(0.2))
    assert more_lost([first], faster_by(0.38)) == ""


def faster_by(gain: float) -> Interval:
    """What is adopted brings this much, as a log-ratio."""
    return Interval(mean=gain, lower=gain - 0.01, upper=gain + 0.01, p=0.0, n=9)


def test_a_limit_stays_a_cause_beside_a_loss_that_it_does_not_take_away() -> None:
    """The exchange stands within the backward pass, and a slow operator there is none of it."""
    slow = Suspect(phase="backward", share=Interval(mean=0.2, lower=0.19, upper=0.21, p=0.0, n=9), why="it is long")
    limit = replace(verdict("ddp_comm_hook", 0.4, meaning=Meaning.DIAGNOSTIC, left={}), left_at_most={"backward": 0.3})

    assert [(c.factor, c.phase) for c in causes([limit], [slow], MINIMUM)] == [
        (None, "backward"),
        ("ddp_comm_hook", None),
    ]
    (alone,) = causes([limit], [], MINIMUM)
    assert alone.headline.endswith("of the time; without it the run would be at most about 49 % faster.")


@pytest.mark.parametrize(("gain", "named"), [(0.4, "ddp_comm_hook"), (0.9, "ddp_bucket_cap_mb")])
def test_what_a_limit_shows_is_named_by_it_unless_a_change_brings_most_of_it(gain: float, named: str) -> None:
    """A slow exchange is no matter of the buckets' size if larger ones bring a third of what no exchange would.

    What acts on more than the exchange is a cause by itself, and a level of the limit's own factor is none of two.
    """
    limit, buckets = verdict("ddp_comm_hook", 1.27, meaning=Meaning.DIAGNOSTIC), verdict("ddp_bucket_cap_mb", gain)
    one, other = causes([limit, buckets, verdict("ddp_find_unused_parameters", 0.3)], [], MINIMUM)

    assert (one.factor, other.factor) == (named, "ddp_find_unused_parameters")
    assert one.size[0] == pytest.approx(math.exp(gain if named == "ddp_bucket_cap_mb" else 1.27))
    assert one.ratio == pytest.approx(math.exp(1.27))
    assert "ddp_comm_hook=x" in one.text
    assert "ddp_bucket_cap_mb=x" in one.text


@pytest.mark.parametrize(
    ("change", "factor"),
    [
        ({}, "save_steps"),
        ({"left_at_most": {"save": 0.1}}, None),  # the time may still be there
        ({"left_at_most": {}}, None),  # void: another phase moved
        ({"factor": "optim"}, None),  # does not act on saving
        ({"effect": Interval(mean=0.0, lower=-0.04, upper=0.04, p=0.9, n=12)}, None),  # the time went elsewhere
        ({"outcome": Outcome.REFUTED}, None),
        ({"held_constant": {"training_arguments.dataloader_num_workers": 2}}, None),
        ({"meaning": Meaning.DIAGNOSTIC}, None),
    ],
)
def test_an_undecided_change_is_named_where_its_time_is_gone(change: dict, factor: str | None) -> None:
    """Saving takes a sixth of the time and none without saves, while noise hides what that brings over the whole."""
    noisy = Interval(mean=0.11, lower=-0.01, upper=0.23, p=0.03, n=12)
    undecided = verdict("save_steps", 0.11, outcome=Outcome.INCONCLUSIVE, left={})
    undecided = replace(undecided, **({"effect": noisy, "left_at_most": {"save": 0.01}} | change))
    (cause,) = causes([undecided], found(save=0.2), MINIMUM)

    assert (factor, "save") == (cause.factor, cause.phase)
    assert ("Under save_steps=x most of it is gone" in cause.text) is (factor is not None)


def test_the_largest_cause_stands_first() -> None:
    """Supported changes and unexplained phases are one ranking by what they would bring; a ceiling comes last."""
    small, large = verdict("gradient_checkpointing", 0.1), verdict("optim", 0.6)
    ceiling = verdict("cached_batches", 0.9, meaning=Meaning.DIAGNOSTIC)
    ranked = causes([small, ceiling, large], found(save=0.3), MINIMUM)

    assert ["optim", None, "gradient_checkpointing", "cached_batches"] == [c.factor for c in ranked]
    assert ranked[1].text.startswith("Saving takes")


def test_without_anything_found_there_is_no_cause() -> None:
    """Refuted changes and a healthy step make no cause."""
    assert [] == causes([verdict("optim", -0.1, outcome=Outcome.REFUTED)], found(), MINIMUM)


def test_the_interval_of_a_pass_bears_kernels_of_other_rates() -> None:
    """The healthy forward pass takes 2 % of the step more than its FLOPs say; the truth is inside all the same."""
    (forward,) = found(forward=0.02 + 0.8)

    assert forward.phase == "forward"
    assert forward.share.lower < 0.8 / 1.82 < forward.share.upper
    assert forward.share.mean == pytest.approx((0.29 + 0.82 - 0.57 / 2) / 1.82, rel=0.02)


def test_a_line_that_costs_in_two_phases_is_told_to_be_one() -> None:
    """A reader who mends it mends both; two causes with the same line would be taken for two things to do."""
    both, alone = causes([], found(data=0.6, other=0.4), MINIMUM), causes([], found(data=0.6), MINIMUM)

    assert [(cause.phase, "takes time elsewhere, too" in cause.text) for cause in both] == [
        ("data", True),
        ("other", True),
    ]
    assert "too: train.py:7 in main" in both[0].text
    assert "between the phases." in both[0].text
    assert "elsewhere" not in alone[0].text


def test_a_model_that_is_run_for_what_it_makes_is_not_called_needless() -> None:
    """In reinforcement learning it collects what is trained on, which no program can leave out."""
    evaluating, waiting = found(evaluate=0.6)[0], found(data=0.6)[0]

    assert "where it makes what is trained on" in evaluating.why
    assert waiting.why == "it trains nothing"


@pytest.mark.parametrize("where", ["forward", "other"])
def test_rows_that_a_loss_ignores_are_one_loss_forth_and_back(where: str) -> None:
    """They are told with the share that is used, and with a loss that is made of them between the phases."""
    line = "bert.py:57 in forward"
    rows = Unused(where=line, share=0.85, seconds={"forward": 0.1, where: 0.1, "backward": 0.25})
    steps = facts(HEALTHY | {"other": 0.12}, profile=replace(profiled(), ignored=[rows]))
    (cause,) = causes([], suspects(steps, MINIMUM), MINIMUM)
    share = 45 if where == "other" else 35

    assert cause.headline.startswith(
        f"Computing rows that the loss ignores ({line} {share - 25} %) and the way back through it take {share} %"
    )
    assert "the loss uses 15 %" in cause.text


def test_rows_of_a_table_that_no_step_looks_up_are_one_loss_with_their_gradients() -> None:
    """The optimizer goes over them, and the backward pass makes them. A sparse row takes longer than a dense one."""
    line = "model.py:22 in forward"
    rows = Unused(where=line, share=0.99, seconds={"optimizer": 0.4, "backward": 0.2})
    steps = facts(HEALTHY | {"optimizer": 0.45}, profile=replace(profiled(), tables=[rows]))
    (cause,) = causes([], suspects(steps, MINIMUM), MINIMUM)

    assert cause.phase == "optimizer"
    assert f"({line} 38 %)" in cause.headline
    assert "a step looks up 1.0 % of the rows" in cause.text
    assert "another training" in cause.text
    for other in (replace(rows, seconds={"optimizer": 0.02}), replace(rows, share=0.8)):
        assert not suspects(replace(steps, profile=replace(profiled(), tables=[other])), MINIMUM)


@pytest.mark.parametrize(("rows", "named"), [(1, True), (16, False)])
def test_a_model_that_is_asked_for_one_row_at_a_time_is_told_with_its_loop(rows: int, named: bool) -> None:
    """The line of the loop says what to change; that within the model is run by training as well."""
    loop = PassLoop(phase="evaluate", where="ppo.py:89 in main", name="Actor", calls=1024, rows=rows)
    places = {"evaluate": {"ppo.py:57 in act": 0.5}}
    known = replace(profiled(places=places), pass_loops=[loop])
    (found,) = suspects(facts(HEALTHY | {"evaluate": 0.6}, profile=known), MINIMUM)
    (cause,) = causes([], [found], MINIMUM)

    assert ("(ppo.py:89 in main, 1,024 calls of Actor in a step)" in cause.headline) is named
    assert ("for one row at a time" in cause.text) is named
    assert "ppo.py:57 in act" in cause.text
