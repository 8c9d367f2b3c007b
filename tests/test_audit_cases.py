"""What was wrong in five real reports, found from their own figures, without any trial."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bench.cases import PAGE, RESULTS
from slowstep.audit import Audit, FindingKind, Judged, Judgement, audit, experiment
from slowstep.audit.equal_work import read_from
from slowstep.audit.figures import exact
from slowstep.audit.run import ReportedRun
from slowstep.audit.terminal_lines import claim_lines, finding_lines
from slowstep.environment.machine import this_machine
from slowstep.factors import check_levels, comparison_family
from slowstep.measure.local import model_sizes
from slowstep.settings import LEVEL_SECTIONS, Settings, load, override
from slowstep.settings.load import validate
from slowstep.settings.reported import Row

PARAMS = Path(__file__).resolve().parents[1] / "params"
CASES = [path.stem for path in sorted(PARAMS.glob("case_???.yaml"))]
Open = Callable[[str], "Case"]


class Case:
    """The audit of a case, with what tests ask of it."""

    def __init__(self, settings: Settings, sizes: dict | None = None):
        self.settings, self.audit = settings, audit(settings, sizes)

    def claim(self, word: str) -> Judged:
        """The one claim with a word in its text."""
        (found,) = [c for c in self.audit.claims if word in c.claim.text]
        return found

    def run(self, label: str) -> ReportedRun:
        (found,) = [r for r in self.audit.runs if r.label == label]
        return found

    def found(self, kind: FindingKind, word: str) -> list[str]:
        """Texts of findings of consequence with a word in them or in their place."""
        return [f.text for f in self.audit.faults if f.kind is kind and (word in f.text or word in f.where)]


@pytest.fixture(scope="module")
def case() -> Open:
    """`case("000")`; each is read once."""
    known: dict[str, Case] = {}

    def opened(name: str) -> Case:
        return known.setdefault(name, Case(load(PARAMS / f"case_{name}.yaml").settings))

    return opened


def kinds(judged: Judged) -> set[FindingKind]:
    return {f.kind for f in judged.findings}


# -- what the digits of each report say, whatever it concluded --

FOLLOWS = [
    ("000", "batch 32", "samples_per_second", 15.02),
    ("000", "batch 96", "samples_per_second", 15.17),
    ("000", "batch 32, expected", "samples_per_second", 15.24),
    ("000", "batch 64, expected", "samples_per_second", 18.29),
    ("003", "as configured", "steps", 112_500),
    ("003", "as configured", "saves", 112.5),
    ("003", "the plan", "steps", 225_000),
    ("003", "the plan", "saves", 112.5),
    ("004", "baseline", "samples_per_second", 7523),
    ("004", "10 workers, prefetch 6", "samples_per_second", 2084),
    ("004", "batch 1500", "samples_per_second", 3019),
    ("004", "compiled", "samples_per_second", 2668),
    ("004", "batched fetching", "samples_per_second", 3503),
]


@pytest.mark.parametrize(("name", "label", "quantity", "value"), FOLLOWS)
def test_what_follows_from_a_row(case: Open, name: str, label: str, quantity: str, value: float) -> None:
    """Reckoned again, or by the contradiction that is told where something else was given."""
    run = case(name).run(label)
    contradicted = {c.quantity: c.follows for c in run.solved.contradictions}

    assert contradicted.get(quantity, run.solved.known[quantity]).middle == pytest.approx(value, rel=0.001)


@pytest.mark.parametrize(
    ("row", "samples", "tokens"),
    [
        ("test 1", 0.99, 696),
        ("test 2", 0.97, 686),
        ("test 3", 1.87, 660),
        ("test 4", 2.12, 748),
        ("test 5", 1.13, 799),
        ("baseline", 1.00, 707),
    ],
)
def test_six_configurations_in_two_units(case: Open, row: str, samples: float, tokens: float) -> None:
    """Times the baseline's samples a second, and tokens a second at full length."""
    base = case("001").run("baseline")
    (run,) = [r for r in case("001").audit.runs if r.label.startswith(row)]

    assert round(read_from("samples_per_second", base, run).middle, 2) == samples
    assert round(run.tokens_at_full_length.middle) == tokens


CONSISTENT = [
    ("000", "batch 96 without checkpointing, expected"),
    ("001", "before, one process"),
    ("002", "the parts of a step"),
    ("003", "4 A100 with ZeRO-3"),
    ("003", "2 H100"),
    ("003", "score of"),
    ("003", "dollars with validation"),
    ("003", "as it was estimated"),
    ("004", "the parts of a step"),
    ("004", "records"),
    ("004", "computation alone"),
    ("004", "share of"),
]


@pytest.mark.parametrize(("name", "where"), CONSISTENT)
def test_what_is_right_in_a_report_is_left_alone(case: Open, name: str, where: str) -> None:
    """Sums, prices, scores, shares and times that agree."""
    reported = case(name).settings.reported
    named = [x.label for x in reported.rows] + [x.text for x in (*reported.sums, *reported.percentages)]

    assert any(where in text for text in named)
    assert [] == [f.text for f in case(name).audit.faults if where in f.where and f.kind is FindingKind.ARITHMETIC]


# -- 000: "3 times slower" --


def test_three_times_slower_is_the_same_speed(case: Open) -> None:
    """Batch 32 at 2.13 s/it and batch 96 at 6.33 s/it train 15.0 and 15.2 samples/s."""
    slower = case("000").claim("3 times slower")

    assert slower.judgement is Judgement.CONTRADICTED
    assert 1.00 < slower.gain.low <= slower.gain.high < 1.02
    assert FindingKind.UNIT in kinds(slower)


def test_an_epoch_takes_as_long_either_way(case: Open) -> None:
    """646 steps of 96 are 68 minutes, and three times as many of 32 are 69."""
    epochs = [case("000").run(label).solved.known["seconds_per_epoch"] for label in ("batch 32", "batch 96")]

    assert [68.8, 68.2] == pytest.approx([e.middle / 60 for e in epochs], abs=0.3)


def test_recomputation_can_not_bring_four_times(case: Open) -> None:
    """It is one forward pass; and the bound does not depend on the batch."""
    claim = case("000").claim("4 times faster")
    assert "whatever the batch: 1.33 times by its FLOPs, as the whole model is trained" in claim.reason

    assert claim.judgement is Judgement.CONTRADICTED
    assert FindingKind.BOUND in kinds(claim)


def test_three_times_the_work_is_not_free(case: Open) -> None:
    """The expected table has batch 96 as fast a step as batch 32."""
    claim = case("000").claim("no longer a step")

    assert claim.judgement is Judgement.CONTRADICTED
    assert claim.gain.meets(exact(3.0))
    assert "these figures are expected and were never measured" in claim.reason
    assert "where the same change was measured ('batch 32', 'batch 96') it is 1.01 times" in claim.reason


def test_what_is_expected_is_held_against_bounds_too(case: Open) -> None:
    """Nobody claimed it, but at batch 64 the table has 1.94 times without recomputation; at 32 it has 1.4."""
    (text,) = case("000").found(FindingKind.UNLIKELY, "batch 64 without checkpointing, expected")

    assert "1.94 times as fast is expected" in text
    assert [] == case("000").found(FindingKind.UNLIKELY, "batch 32 without")


def test_what_was_to_be_avoided_is_faster(case: Open) -> None:
    """Batch 64 with checkpointing does 18.3 samples/s, batch 32 15.2."""
    claim = case("000").claim("to be avoided")

    assert claim.judgement is Judgement.CONTRADICTED
    assert claim.gain.low > 1.1


def test_the_case_has_what_a_trial_can_have(case: Open) -> None:
    """The run was sharded by ZeRO-2, and so would be a trial of it: nothing is left out."""
    assert case("000").settings.training("deepspeed")["zero_optimization"] == {"stage": 2}
    assert not any("leaves out" in question for question in case("000").audit.questions)


# -- 001: "sequence length is the bottleneck" --


@pytest.mark.parametrize(("word", "per_token"), [("2.11", 1.06), ("1.88", 0.93)])
def test_half_the_length_is_half_the_work(case: Open, word: str, per_token: float) -> None:
    """By tokens the gain of 2.11 is 6 %, and 1.88 is a loss; unless samples were short, which nobody said."""
    claim = case("001").claim(word)

    assert claim.judgement is Judgement.UNDECIDED
    assert claim.gain.middle == pytest.approx(per_token, abs=0.01)
    assert FindingKind.UNIT in kinds(claim)
    assert any("padding" in question for question in claim.questions)
    assert any("cut off" in question for question in claim.questions)


def test_the_best_row_was_called_not_worth_it(case: Open) -> None:
    """By steps, samples and tokens another row is fastest each time; by tokens it is 16 bit."""
    (text,) = [f.text for f in case("001").audit.everything if f.kind is FindingKind.RANKING]

    assert "tokens/s at full length it is 'test 5: 16 bit'" in text
    assert "samples/s it is 'test 4" in text


def test_the_optimal_configuration_was_not_shown_to_be_one(case: Open) -> None:
    """By tokens it is 6 % slower than 16 bit, were the samples full."""
    claim = case("001").claim("optimal")

    assert claim.judgement is Judgement.UNDECIDED
    assert claim.gain.middle == pytest.approx(0.936, abs=0.001)


@pytest.mark.trials
@pytest.mark.exhaustive
def test_attention_can_not_explain_it(case: Open) -> None:
    """At 1024 its quadratic part is 5 % of a 7B LoRA step."""
    settings = case("001").settings
    with_sizes = Case(settings, model_sizes(settings))
    (text,) = with_sizes.found(FindingKind.PHYSICS, "1.88")

    assert "5.3 % of the work" in text
    assert not with_sizes.found(FindingKind.PHYSICS, "can compute")


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"samples_per_second": "6.9", "tokens_per_sample": "1024"}, "of what NVIDIA A10 can compute"),
        ({"seconds_per_step": "0.015"}, "can read the 3.55 GB of weights 3 times"),
        ({"memory_used_gib": "31"}, "are more than the 24 GB that NVIDIA A10 has"),
        ({"memory_allocated_gib": "2.5"}, "are less than the 3.31 GiB of the weights alone"),
        ({"samples_per_second": "0.69", "memory_used_gib": "20"}, None),
        ({"samples_per_second": "0.69", "memory_used_gib": "25.2"}, None),  # 24 GiB are 25.8 GB
    ],
)
def test_no_device_does_more_than_it_can(case: Open, figures: dict, words: str | None) -> None:
    """FLOPs, bytes a second and bytes, of the model that is named."""
    found = [f.text for f in one_row(case("001").settings, figures).audit.faults if f.kind is FindingKind.PHYSICS]

    assert any(words in text for text in found) if words else found == []


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_a_length_that_nobody_said_is_asked_about(case: Open, padding: str) -> None:
    """At 1024 tokens a sample the device would compute 250 % of what it can; samples are shorter than that, unless all
    are padded to it."""
    found = one_row(override(case("001").settings, {"dataset.padding": padding}), {"samples_per_second": "6.9"}).audit

    assert [f.kind for f in found.faults] == ([FindingKind.PHYSICS] if padding == "max_length" else [])
    assert any("How many tokens has a sample" in q for q in found.questions) == (padding == "longest")


def one_row(settings: Settings, figures: dict) -> Case:
    """A run of Mistral-7B by itself."""
    sizes = {"matmul_parameters": 7.1e9, "trained_parameters": 13.6e6, "layers": 32, "hidden_size": 4096}
    reported = replace(settings.reported, rows=[Row(label="a", figures=figures)], claims=[])
    return Case(replace(settings, reported=reported), sizes)


def test_two_changes_at_once_are_told(case: Open) -> None:
    """Length and batch in one test, tokenising and workers in another."""
    for word in ("2.11", "data loading"):
        assert FindingKind.CONFOUNDED in kinds(case("001").claim(word))


def test_what_does_not_fit_is_a_result(case: Open) -> None:
    """Without checkpointing it ran out of memory: that says nothing of its speed."""
    claim = case("001").claim("2 to 3 times")

    assert claim.judgement is Judgement.UNDECIDED
    assert "ran out of memory" in claim.reason
    assert any("smaller batch" in question for question in claim.questions)
    assert any(f.kind is FindingKind.MEMORY for f in case("001").audit.everything)


def test_what_rounding_explains_is_left_alone(case: Open) -> None:
    """1.46 over 0.69 is 2.12, reported as 2.11; 1.29 over 0.69 is 1.87, reported as 1.88: both round so."""
    assert [] == case("001").found(FindingKind.ARITHMETIC, "")


def test_small_effects_hold(case: Open) -> None:
    """Rank and 16 bit are what they are said to be, and so is the larger batch. The optimizer's 2 % are what rounding
    alone can make of two figures with two digits."""
    assert case("001").claim("optimizer").judgement is Judgement.UNDECIDED
    for word in ("rank", "16 bit brings", "batch 8 brings"):
        assert case("001").claim(word).judgement is Judgement.HOLDS


def test_whether_16_bit_is_worth_its_memory_was_not_shown(case: Open) -> None:
    """What was held against it as a better use of the memory is 6 % slower by tokens, were the samples full."""
    claim = case("001").claim("not worth its memory")

    assert claim.judgement is Judgement.UNDECIDED
    assert claim.gain.middle == pytest.approx(748 / 799, abs=0.001)


# -- 002: tokenising in the loop --


def test_consistent_figures_are_left_alone(case: Open) -> None:
    """280 ms, 3.6 it/s, 7 s an epoch, 23 minutes: they agree."""
    assert [] == case("002").found(FindingKind.ARITHMETIC, "")


def test_what_was_not_measured_is_not_believed(case: Open) -> None:
    """15 to 20 it/s is an expectation; the computation alone allows for 20 it/s, 5.6 times the 3.57."""
    claim = case("002").claim("4 to 5 times")

    assert claim.judgement is Judgement.UNDECIDED
    assert FindingKind.PROJECTED in kinds(claim)
    assert "room for 5.60 times" in claim.reason


def test_the_cheaper_cure_is_asked_for(case: Open) -> None:
    """Tokenising 25 examples once removes the wait for good."""
    assert any("tokenising once" in question for question in case("002").audit.questions)


def test_workers_that_start_with_each_short_epoch_are_asked_about(case: Open) -> None:
    """25 examples are an epoch of seconds; the report's workers persist, and were asked about if they did not."""
    reported = case("002").settings.reported
    rows = [replace(r, settings={k: v for k, v in r.settings.items() if "persistent" not in k}) for r in reported.rows]
    without = Case(replace(case("002").settings, reported=replace(reported, rows=rows)))

    assert not any("start anew" in question for question in case("002").audit.questions)
    assert any("start anew" in question for question in without.audit.questions)


# -- 003: 38 hours --


def test_examples_are_not_steps(case: Open) -> None:
    """600K examples three times at 16 a step: 112,500 steps, and neither 1.8 million nor 28 thousand."""
    given = case("003").found(FindingKind.ARITHMETIC, "steps in all is given")

    assert len(given) == 2
    assert all("112,5" in text for text in given)
    assert "1,800,000 are the samples trained on, and not steps" in given[0]
    assert "samples" not in given[1]
    assert case("003").run("the plan").solved.known["steps"].meets(exact(225_000))


def test_saves_follow_from_the_steps(case: Open) -> None:
    """112 checkpoints, not 28; 1.9 to 3.7 hours, not 56 minutes."""
    (saves,) = case("003").found(FindingKind.ARITHMETIC, "as its checkpoints are counted")
    (seconds,) = case("003").found(FindingKind.ARITHMETIC, "s saving in all")

    assert "112" in saves
    assert "3360" in seconds
    assert "(anything from 6634 to 13,677)" in seconds


def test_backward_runs_as_often_as_forward(case: Open) -> None:
    """Once per micro-batch, not once per eight."""
    (text,) = case("003").found(FindingKind.ARITHMETIC, "passes a step")

    assert "backward passes a step is given as 1 and follows as 8" in text


def test_another_effective_batch_is_another_optimisation(case: Open) -> None:
    """Batch 4 in 2 parts trains on 8 samples a step, not 16, and more than that differs."""
    assert {FindingKind.MEANING, FindingKind.CONFOUNDED} <= kinds(case("003").claim("fastest"))


def test_the_plan_was_not_measured(case: Open) -> None:
    """20 to 24 hours are a plan, of seven changes at once."""
    claim = case("003").claim("plan")

    assert claim.judgement is Judgement.UNDECIDED
    assert {FindingKind.PROJECTED, FindingKind.CONFOUNDED} <= kinds(claim)


def test_one_duration_of_two_configurations_is_asked_about(case: Open) -> None:
    """38 hours and 95 dollars stand under 4 workers with 2 parts, and under 8 workers with 8."""
    assert any("same figures under different settings" in question for question in case("003").audit.questions)


def test_sums_and_percentages_are_reckoned_again(case: Open) -> None:
    """21 to 35 hours of savings for a promise of 14 to 18, and 38 to 20 hours is 47 %."""
    (total,) = case("003").found(FindingKind.ARITHMETIC, "not 14-18")
    (percent,) = case("003").found(FindingKind.ARITHMETIC, "38 to 20")

    assert "make 21 to 35 (with rounding 18.5 to 37.5)" in total
    assert "is -47.37 % (with rounding" in percent
    assert "-58" in percent
    assert [] == case("003").found(FindingKind.ARITHMETIC, "dollars")


# -- 004: "reject everything" --


def test_compiling_can_not_slow_down_data_loading(case: Open) -> None:
    """44 ms became 175 ms, so something else had changed, and the comparison is void."""
    claim = case("004").claim("compiling")

    assert claim.judgement is Judgement.UNDECIDED
    assert FindingKind.CONTROL in kinds(claim)


def test_with_one_comparison_fall_those_beside_it(case: Open) -> None:
    """Others against the same baseline were measured on other occasions, too."""
    claim = case("004").claim("batched fetching")

    assert claim.judgement is Judgement.UNDECIDED
    assert "different conditions" in claim.reason


def test_twice_the_batch_is_twice_the_work(case: Open) -> None:
    """398 % longer a batch is 149 % longer a sample."""
    claim = case("004").claim("398 %")

    assert claim.judgement is Judgement.CONTRADICTED
    assert 1 / claim.gain.middle == pytest.approx(2.49, abs=0.01)


def test_the_warm_up_is_asked_about(case: Open) -> None:
    """A benchmark that held it was off 13-fold before."""
    assert any("after its warm-up" in question for question in case("004").claim("compiling").questions)


def test_a_benchmark_without_its_warm_up_promised_too_much(case: Open) -> None:
    """25.3 ms a batch became 0.34 s."""
    claim = case("004").claim("without its warm-up")

    assert claim.judgement is Judgement.HOLDS
    assert claim.gain.middle == pytest.approx(13.4, abs=0.05)


def test_data_can_not_be_what_compiling_slowed_down(case: Open) -> None:
    """44.2 ms became 174.9 ms, 3.96 times."""
    assert "the phase data took 3.96 times its time" in case("004").claim("compiling").reason


def test_throughput_follows_from_step_and_batch(case: Open) -> None:
    """750 in 99.7 ms are 7,523 samples/s, not 5,641; 1500 in 496.9 ms 3,019, not 2,257; the other rows agree."""
    found = case("004").found(FindingKind.ARITHMETIC, "samples/s is given")

    assert ["7523" in found[0], "3019" in found[1]] == [True, True]
    assert len(found) == 2


def test_parts_of_the_computation_are_summed(case: Open) -> None:
    """23.8 ms are given and 19.2 are there; the phases of the step itself agree."""
    (text,) = case("004").found(FindingKind.ARITHMETIC, "0.0238")

    assert "make 0.0192 (with rounding 0.019 to 0.0194)" in text


def test_a_percentage_of_a_wrong_figure_is_wrong(case: Open) -> None:
    """63 % less rests on 5,641, and by the step time it is 72 %; where both figures are wrong alike it is right."""
    wrong = case("004").found(FindingKind.ARITHMETIC, "rests on 5641")

    assert ["-72.3 %" in wrong[0], "-64.53 %" in wrong[1], "-53.43 %" in wrong[2]] == [True] * 3
    assert len(wrong) == 3
    assert [] == case("004").found(FindingKind.ARITHMETIC, " %, and not")


# -- all of them --


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("000", ["fastest depends on the unit"]),
        (
            "001",
            [
                "tokens/s at full length it is 'test 5: 16 bit'",
                "What share of the positions is padding",
                "out of memory",
            ],
        ),
        ("002", ["Was tokenising once, beforehand, tried? It ends that for good, without workers"]),
        ("003", ["have the same figures under different settings", "8 samples in place of 16"]),
        ("004", ["after its warm-up", "1500 samples in place of 750"]),
    ],
)
def test_notes_and_questions_are_shown_beside_the_faults(case: Open, name: str, words: list[str]) -> None:
    """On the terminal and on the page of the cases."""
    for shown in (
        "\n".join(claim_lines(case(name).audit) + finding_lines(case(name).audit)),
        PAGE.read_text(encoding="utf-8"),
    ):
        assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("name", CASES)
def test_no_claim_waits_for_the_models_sizes(name: str) -> None:
    """The command line tells the claims at once, and what the sizes add stands beside them."""
    settings = load(PARAMS / f"{name}.yaml").settings
    sizes = json.loads(RESULTS.read_text(encoding="utf-8"))[name]["sizes"]

    assert claim_lines(audit(settings)) == claim_lines(audit(settings, sizes or None))


@pytest.mark.parametrize("name", CASES)
def test_a_case_can_be_diagnosed(name: str) -> None:
    """Its levels are ones that its run can have, and so are those of its sibling for two cores."""
    for stem in (name, f"{name}_small"):
        loaded = load(PARAMS / f"{stem}.yaml")
        problems = check_levels(loaded.settings, stem)

        assert problems == []
        assert stem == loaded.settings.name


@pytest.mark.parametrize("name", CASES)
def test_the_experiment_tries_nothing_that_nobody_claimed(name: str) -> None:
    """What Trainer switches by itself where it compiles (tf32) is no change of its own."""
    settings = load(PARAMS / f"{name}.yaml").settings
    asked = {f for section in LEVEL_SECTIONS for f in experiment(settings, audit(settings)).get(section, {})}

    assert "tf32" not in asked


@pytest.mark.parametrize("name", CASES)
def test_the_experiment_is_ready_to_run(name: str, tmp_path: Path) -> None:
    """What the audit writes loads as a parameter file, tests what the claims change, and reports nothing itself."""
    settings = load(PARAMS / f"{name}.yaml").settings
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment(settings, audit(settings))), encoding="utf-8")
    made = load(path).settings
    asked = {f: v for section in LEVEL_SECTIONS for f, v in getattr(made, section).items()}
    named = {c.factor for c in settings.reported.claims if c.factor and c.factor != "torch_compile"}
    problems = check_levels(made, name)

    assert problems == []
    assert made.reported is None
    assert named <= asked.keys()
    assert all(values for values in asked.values())


def test_what_was_claimed_of_two_changes_is_tried_together() -> None:
    """Length 512 with batch 8, which 001 calls optimal, is an arm of the experiment."""
    settings = load(PARAMS / "case_001.yaml").settings
    data = experiment(settings, audit(settings))
    names = [c.name for c in comparison_family(validate(data, "experiment"), "sequence_length", this_machine())]

    assert "max_length=512 + per_device_train_batch_size=8" in names


def test_a_model_that_can_not_be_had_is_asked_for(case: Open) -> None:
    """No figure is held against it, and it does not look as if all had been."""
    settings = case("001").settings

    assert any("no figure was compared with" in q for q in audit(settings, {}).questions)
    assert not any("no figure was compared with" in q for q in audit(settings).questions)


def test_repeats_that_differ_as_much_decide_nothing() -> None:
    """A gain of 2 % among repeats that spread by 5 % is no gain; one of 40 % is."""
    base = load(PARAMS / "case_001.yaml").settings

    def judged(after: list[float]) -> Audit:
        rows = [
            {"label": "a", "figures": {"samples_per_second": [0.66, 0.70, 0.71]}},
            {"label": "b", "settings": {"optim": "adamw_torch"}, "figures": {"samples_per_second": after}},
        ]
        claims = [{"text": "faster", "baseline": "a", "treatment": "b", "speed_up": ">1"}]
        return audit(override(base, {"reported": {"rows": rows, "claims": claims}}))

    assert judged([0.68, 0.72, 0.71]).claims[0].judgement is Judgement.UNDECIDED
    assert judged([0.95, 0.97, 0.99]).claims[0].judgement is Judgement.HOLDS
