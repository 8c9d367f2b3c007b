"""Claims held against figures: equal work, what really differs, spread, inequalities; and reports without fault."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, FindingKind, Judged, Judgement, audit
from slowstep.audit.terminal_lines import claim_lines
from slowstep.settings import SettingsError
from slowstep.settings.load import validate

Figures = dict[str, object]


def report(**reported: object) -> Audit:
    data = {"name": "own", "model": {"init": "random", "model_type": "llama"}, "reported": reported}
    return audit(validate(data, "own"))


def judged(a: Figures, b: Figures, speed_up: object, settings: Figures | None = None, **claim: object) -> Judged:
    """What a report of two rows says of the one claim on them."""
    rows = [{"label": "a", "figures": a}, {"label": "b", "figures": b, "settings": settings or {}}]
    claims = [{"text": "it is so", "baseline": "a", "treatment": "b", "speed_up": speed_up, **claim}]
    return report(rows=rows, claims=claims).claims[0]


def test_a_third_of_the_epochs_in_a_third_of_the_time_is_no_gain() -> None:
    """Whole jobs are compared for as much work, by whatever counts it."""
    for a, b in (
        ({"epochs": 3}, {"epochs": 1}),
        ({"steps": 3000, "samples_per_step": 8}, {"steps": 1000, "samples_per_step": 8}),
        ({"samples_per_epoch": 30_000, "epochs": 1}, {"samples_per_epoch": 10_000, "epochs": 1}),
    ):
        claim = judged({"hours": "6.0", **a}, {"hours": "2.0", **b}, "3.0", quantity="hours")

        assert str(claim.judgement) == "contradicted"
        assert claim.gain.middle == pytest.approx(1.0)
        assert FindingKind.UNIT in {f.kind for f in claim.findings}


@pytest.mark.parametrize(
    ("text", "loss", "said", "factor", "judgement", "words"),
    [
        ("Muon reaches val loss 3.28 in 2.33 times less time", "3.28", "2.33", None, "holds", "it is 0.965 times"),
        ("Muon takes 2.33 times less time to val loss 3.28", "3.28", "4.0", None, "contradicted", "it is 2.33 times"),
        ("Muon reaches its target sooner", "3.40", "2.33", None, "undecided", "show that both come to the same result"),
        ("Muon reaches its target sooner", "", "2.33", None, "undecided", "show that both come to the same result"),
        ("Muon is 2.33 times as fast", "3.28", "2.33", None, "undecided", "the same final val loss (3.28)"),
        ("Muon is 2.33 times as fast", "", "2.33", None, "contradicted", "it is 0.965 times"),
        ("compiled it reaches 3.28 sooner", "3.28", "2.33", "torch_compile", "contradicted", "it is 0.965 times"),
    ],
)
def test_fewer_steps_to_the_same_result_are_a_gain(
    text: str, loss: str, said: str, factor: str | None, judgement: str, words: str
) -> None:
    """8,300 steps in place of 20,000 are what another optimizer brings, and nothing that leaves training as it is."""
    header = "run,global batch,hours,steps,s/it,final val loss\n"
    table = f"{header}adamw,512,10.0,20000,1.80,3.28\nmuon,512,4.30,8300,1.865,{loss}\n"
    claim = {"text": text, "baseline": "adamw", "treatment": "muon", "speed_up": said, "quantity": "hours"}
    (found,) = report(table=table, claims=[claim | {"factor": factor}]).claims

    assert Judgement[judgement.upper()] is found.judgement
    assert words in found.reason


@pytest.mark.parametrize(
    ("text", "judgement"),
    [
        ("it reaches the same loss in half the time", Judgement.HOLDS),
        ("it reaches twice the speed", Judgement.CONTRADICTED),
    ],
)
def test_a_claim_that_names_no_figure_says_whether_it_is_on_a_time(text: str, judgement: Judgement) -> None:
    """Half of the epochs came to the same loss, at the same pace."""
    table = "run,samples/s,hours,epochs,loss\na,100,10.0,2,0.500\nb,101,5.0,1,0.500\n"
    claim = {"text": text, "baseline": "a", "treatment": "b", "speed_up": "2.0"}

    assert judgement is report(table=table, claims=[claim]).claims[0].judgement


@pytest.mark.parametrize(
    ("text", "factor", "judgement"),
    [
        ("without duplicates an epoch takes half the time", None, Judgement.UNDECIDED),
        ("it is twice as fast", None, Judgement.CONTRADICTED),
        ("workers make an epoch twice as fast", "dataloader_num_workers", Judgement.CONTRADICTED),
    ],
)
def test_an_epoch_of_fewer_samples_is_shorter(text: str, factor: str | None, judgement: Judgement) -> None:
    """Whether it teaches as much nobody said; another cause of it is none."""
    a, b = ({"minutes_per_epoch": m, "samples_per_epoch": n} for m, n in (("60", "52000"), ("31", "26900")))
    settings = {factor: 8} if factor else {}
    found = judged(a, b, "1.94", settings, text=text, factor=factor, quantity="minutes_per_epoch")

    assert judgement is found.judgement
    assert (judgement is Judgement.UNDECIDED) == any("the same loss or accuracy?" in q for q in found.questions)


@pytest.mark.parametrize(("said", "judgement"), [("1.43", Judgement.UNDECIDED), ("2.50", Judgement.CONTRADICTED)])
def test_a_probable_slip_contradicts_no_claim(said: str, judgement: Judgement) -> None:
    """987 beside 1.234 and 1.410 are a thousand times too many, as where points part thousands."""
    table = "| run | tokens/s |\n|--|--|\n| a | 987 |\n| b | 1.234 |\n| c | 1.410 |\n"
    claim = {"text": "x", "baseline": "a", "treatment": "c", "speed_up": said, "quantity": "tokens_per_second"}
    (found,) = report(table=table, claims=[claim]).claims

    assert judgement is found.judgement
    assert (judgement is Judgement.UNDECIDED) == ("a unit and its thousandth" in found.reason)


def test_what_no_step_holds_is_judged_by_the_whole_time() -> None:
    """Saving less often costs no step anything, and four hours of the job."""
    job = {"steps": 10000, "seconds_per_step": "2.00"}
    claim = judged(
        {**job, "hours": "10.0"},
        {**job, "hours": "6.0"},
        "1.67",
        {"save_steps": 1000},
        factor="save_steps",
        quantity="hours",
    )

    assert (str(claim.judgement), claim.unit) == ("holds", "hours")
    assert [] == claim.findings


def test_a_whole_time_of_unknown_work_decides_nothing() -> None:
    """Six hours in place of ten at the same speed: fewer saves or fewer steps, nobody said."""
    a, b = ({"seconds_per_step": "2.00", "hours": hours} for hours in ("10.0", "6.0"))
    claim = judged(a, b, "1.67", {"save_steps": 1000}, factor="save_steps", quantity="hours")

    assert str(claim.judgement) == "can't be decided from these figures"
    assert FindingKind.UNIT not in {f.kind for f in claim.findings}
    assert claim.questions[0] == "How many steps or epochs did 'a' and 'b' take?"


@pytest.mark.parametrize(
    ("unit", "seconds", "said", "judgement"),
    [
        ("s/batch", ("0.250", "0.235"), "1.064", Judgement.UNDECIDED),
        ("s/it", ("0.250", "0.235"), "1.064", Judgement.UNDECIDED),
        ("s/batch", ("0.250", "0.235"), "2.00", Judgement.CONTRADICTED),  # whatever a batch is
        ("s/step", ("0.250", "0.235"), "1.064", Judgement.CONTRADICTED),
        ("s/it", ("2.13", "8.40"), "1/4", Judgement.CONTRADICTED),  # no micro-batch takes four times as long for it
        ("s/it", ("1.00", "1.60"), "2.50", Judgement.HOLDS),  # nor 1.6 times
    ],
)
def test_what_a_loop_counts_may_be_micro_batches(
    unit: str, seconds: tuple[str, str], said: str, judgement: Judgement
) -> None:
    """Batches of a loader take as long however many are accumulated, and then four of them make a step."""
    table = f"run,micro batch,grad accum,{unit}\na,8,1,{seconds[0]}\nb,8,4,{seconds[1]}\n"
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": said, "quantity": "seconds_per_step"}
    (found,) = report(table=table, claims=[claim]).claims

    assert judgement is found.judgement
    assert (judgement is Judgement.UNDECIDED) == ("if they are it is 1.06 times as fast" in found.reason)
    assert (judgement is Judgement.UNDECIDED) == any("a micro-batch, or all that a step" in q for q in found.questions)


PACKED = {"dataset.padding": "packing", "dataset.tokenize": "once"}


def packed(quantity: str) -> Audit:
    """A step of packed samples takes longer, and an epoch has fewer of them; tokens a second may count padding."""
    tokens = {"tokens_per_second": "900"}
    rows = [
        {"label": "a", "figures": {"seconds_per_step": "2.00", "minutes_per_epoch": "20.9", **tokens}},
        {
            "label": "b",
            "figures": {"seconds_per_step": "2.20", "minutes_per_epoch": "9.2", **tokens},
            "settings": PACKED,
        },
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": "padding", "speed_up": "2.27"}
    data = {
        "name": "own",
        "model": {"init": "random", "model_type": "llama"},
        "job": {"samples": 10000},
        "dataset": {"tokenize": "once"},
        "training_arguments": {"per_device_train_batch_size": 16},
        "reported": {"rows": rows, "claims": [claim | {"quantity": quantity}]},
    }
    return audit(validate(data, "own"))


@pytest.mark.parametrize("quantity", ["minutes_per_epoch", "seconds_per_step"])
def test_packed_samples_are_compared_by_the_epoch(quantity: str) -> None:
    """A sample is several then; neither steps nor samples count equal work, and an epoch is the same text."""
    found = packed(quantity)

    assert [] == [f.text for f in found.faults if f.kind is FindingKind.ARITHMETIC]
    assert str(found.claims[0].judgement) == "holds"
    assert found.claims[0].gain.middle == pytest.approx(2.27, abs=0.01)


def test_tokens_may_be_padding() -> None:
    """Where the two pad differently, samples count, and tokens a second decide nothing."""
    padded = {"dataset.padding": "longest"}
    tokens = [{"tokens_per_second": "10240"}, {"tokens_per_second": "10200"}]
    samples = [{"samples_per_second": "10.0"}, {"samples_per_second": "20.0"}]

    def of(a: Figures, b: Figures) -> Judged:
        rows = [
            {"label": "a", "figures": a, "settings": {"dataset.padding": "max_length"}},
            {"label": "b", "figures": b, "settings": padded},
        ]
        claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "2.0", "quantity": "samples_per_second"}
        return report(rows=rows, claims=[claim]).claims[0]

    both, only = of(tokens[0] | samples[0], tokens[1] | samples[1]), of(*tokens)

    shorter = [
        {"label": label, "figures": figures, "settings": {"dataset.padding": "max_length", "max_length": n}}
        for label, figures, n in (("a", tokens[0] | samples[0], 1024), ("b", tokens[1] | samples[1], 512))
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "2.0", "quantity": "samples_per_second"}
    cut = report(rows=shorter, claims=[claim]).claims[0]

    assert (str(both.judgement), both.unit, both.findings) == ("holds", "samples/s", [])
    assert str(cut.judgement) == "can't be decided from these figures"
    assert str(only.judgement) == "can't be decided from these figures"
    assert only.questions[0] == "Do the tokens a second of 'a' and 'b' count padding?"


@pytest.mark.parametrize(
    ("names", "minutes", "said", "judgement", "unit"),
    [
        (("random batches", "grouped by length"), "33.4", "1.80", Judgement.HOLDS, "samples/s"),
        (("random batches", "grouped by length"), "33.4", "0.898", Judgement.CONTRADICTED, "samples/s"),
        (("long", "short"), "33.4", "1.80", Judgement.UNDECIDED, "samples/s"),  # what is short may be cut off
        (("pad to max", "dynamic padding"), "", "1.80", Judgement.UNDECIDED, "samples/s"),
        (("chunks of 512", "chunks of 256"), "66.8", "1.80", Judgement.CONTRADICTED, "tokens/s"),
    ],
)
def test_fewer_tokens_a_sample_are_padding_or_text(
    names: tuple[str, str], minutes: str, said: str, judgement: Judgement, unit: str
) -> None:
    """512 tokens a sample became 256. What an epoch takes tells which speed counts, unless text may be cut off."""
    a, b = names
    table = f"run,samples/s,tokens/s,epoch time (min)\n{a},100,51200,60.0\n{b},180,46000,{minutes}\n"
    claim = {"text": "x", "baseline": a, "treatment": b, "speed_up": said, "quantity": "samples_per_second"}
    found = report(table=table, claims=[claim])
    (one,) = found.claims

    assert (judgement, unit) == (one.judgement, one.unit)
    assert (judgement is Judgement.UNDECIDED) == ("are padding or text, and in tokens/s it is 0.898" in one.reason)
    assert (judgement is Judgement.UNDECIDED) == ("was text cut off" in " ".join(one.questions))
    assert FindingKind.RANKING not in {f.kind for f in found.findings}


def test_no_claim_is_contradicted_that_an_epoch_bears_out() -> None:
    """By samples a second b is slower, and its epochs are shorter; a size that neither gives stays contradicted."""
    a, b = ({"samples_per_second": s, "minutes_per_epoch": m} for s, m in (("100", "60.0"), ("90", "33.4")))
    fits, neither = (judged(a, b, said, quantity="samples_per_second") for said in ("1.80", "2.50"))

    assert [Judgement.UNDECIDED, Judgement.CONTRADICTED] == [fits.judgement, neither.judgement]
    assert "in s/epoch it is 1.80 times as fast, and an epoch is the same data" in fits.reason


@pytest.mark.parametrize("name", ["num_train_epochs", "max_steps"])
def test_a_table_says_how_long_was_trained(name: str) -> None:
    """By the names of Trainer."""
    rows = report(
        table=f"run,{name},hours\na,3000,6.0\nb,1000,2.0\n",
        claims=[{"text": "x", "baseline": "a", "treatment": "b", "speed_up": "3.0", "quantity": "hours"}],
    )

    assert str(rows.claims[0].judgement) == "contradicted"


def test_a_factor_that_did_not_change_gained_nothing() -> None:
    """Workers differ and precision is blamed."""
    a, b = {"seconds_per_step": "0.300"}, {"seconds_per_step": "0.200"}
    claim = judged(a, b, "1.5", {"dataloader_num_workers": 4}, factor="precision")
    silent = judged(a, b, "1.5", factor="precision")

    assert "does not differ from 'a' in precision, but in dataloader_num_workers" in claim.reason
    assert str(claim.judgement) != "holds"
    assert any("Which settings differ" in question for question in silent.questions)


@pytest.mark.parametrize("said", ["40%", "+50 %", 0, "-2"])
def test_no_speed_up_is_a_percentage(said: object) -> None:
    """40 % more a second and 40 % less time are not the same."""
    with pytest.raises(SettingsError, match=r"claims\[0\].speed_up: .*Write 1.4 for 40 %"):
        judged({"seconds_per_step": "1.40"}, {"seconds_per_step": "1.00"}, said)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ("2.10 ± 0.10", "2.05 ± 0.10", "1.02"),
        (["2.0", "2.4", "1.8"], "1.95", "1.05"),
        ("2.0-2.4", "1.9-2.2", "1.1"),
        ("2.13", "2.13", ">1"),
    ],
)
def test_a_spread_that_allows_both_decides_nothing(a: object, b: object, said: str) -> None:
    """Faster or slower: the figures as they are given allow either."""
    claim = judged({"seconds_per_step": a}, {"seconds_per_step": b}, said)

    assert str(claim.judgement) == "can't be decided from these figures"
    assert FindingKind.NOISE in {f.kind for f in claim.findings}


@pytest.mark.parametrize(("a", "b", "said"), [("2.13", "2.15", ">1"), ("2.15", "2.13", "<1")])
def test_slower_is_not_faster_by_a_little(a: str, b: str, said: str) -> None:
    """An inequality has no tolerance."""
    claim = judged(*({"seconds_per_step": step, "samples_per_step": 8} for step in (a, b)), said)

    assert str(claim.judgement) == "contradicted"


ALONE = "the figures don't say whether a step trains on as many samples in both"


def test_a_step_of_unknown_batch_is_no_equal_work() -> None:
    """Three times as long a step is three times as slow, or three times the batch: nobody said which."""
    a, b = {"seconds_per_step": "2.13"}, {"seconds_per_step": "6.33"}
    blamed = {"factor": "per_device_train_batch_size"}
    silent = [judged(a, b, "1/3", **claim) for claim in ({}, blamed)]
    half = judged(a, b, "1/3", {"per_device_train_batch_size": 96}, **blamed)
    told = judged(a, b, "1/3", {"optim": "sgd"})
    asked = report(
        rows=[{"label": "a", "figures": a}, {"label": "b", "figures": b, "settings": {"optim": "sgd"}}],
    ).questions
    as_many = judged(a | {"samples_per_step": 32}, b | {"samples_per_step": 32}, "1/3")
    three_times = judged(a | {"samples_per_step": 32}, b | {"samples_per_step": 96}, "1/3")

    assert [ALONE in claim.reason for claim in (*silent, half)] == [True] * 3
    assert any(question.startswith("Is the batch the same in all rows?") for question in asked)
    assert silent[0].questions[0] == "How many samples does a step of 'a' and one of 'b' train on?"
    assert [str(claim.judgement) for claim in (told, as_many, three_times)] == ["holds", "holds", "contradicted"]


def test_as_many_times_fewer_steps_are_a_hint_at_the_batch() -> None:
    """2001 steps in one log and 667 in the other are one epoch in steps of another size."""
    a, b = {"seconds_per_step": "2.13", "steps": 2001}, {"seconds_per_step": "6.33", "steps": 667}
    claims = [judged(a, b, "1/3"), judged({"hours": "1.18", **a}, {"hours": "1.17", **b}, "1/3", quantity="hours")]

    assert all(ALONE in claim.reason for claim in claims)
    assert "'b' took 667 steps where 'a' took 2001, as with another batch" in claims[0].reason


def test_an_epoch_is_equal_work_whatever_the_batch() -> None:
    """The pace of steps of unknown size does not count where an epoch was timed."""
    a = {"seconds_per_step": "2.13", "minutes_per_epoch": "71.0"}
    b = {"seconds_per_step": "6.33", "minutes_per_epoch": "70.3"}

    assert str(judged(a, b, "1.01").judgement) == "holds"


def test_steps_of_eight_devices_are_not_those_of_one() -> None:
    """What a step holds is not known, so steps say nothing."""
    a, b = {"seconds_per_step": "2.10", "devices": 1}, {"seconds_per_step": "2.20", "devices": 8}

    assert str(judged(a, b, "7.6").judgement) == "can't be decided from these figures"


@pytest.mark.parametrize(
    ("columns", "a", "b", "differs"),
    [
        ("model", "350M", "125M", "model (350M, 125M)"),
        ("#GPU", "1", "4", "4 devices"),
        ("samples/step", "32", "128", "trains on 128 samples"),
        ("samples/step", "32.03", "31.82", ""),  # as it follows from rounded figures
        ("alloc", "18.2 GiB", "41.8 GiB", ""),
    ],
)
def test_a_claim_on_a_factor_needs_all_else_to_be_equal(columns: str, a: str, b: str, differs: str) -> None:
    """Another model, more devices or a larger step may be what made it faster; what it came to is no difference."""
    table = f"run,torch_compile,{columns},samples/s\na,no,{a},100\nb,yes,{b},250\n"
    claim = {"text": "compiling", "baseline": "a", "treatment": "b", "factor": "torch_compile", "speed_up": 2.5}
    (one,) = report(table=table, claims=[claim]).claims

    assert one.judgement is (Judgement.UNDECIDED if differs else Judgement.HOLDS)
    assert differs in " ".join([one.reason, *(f.text for f in one.findings)])


@pytest.mark.parametrize(
    ("text", "quantity", "judgement"),
    [
        ("64 GPUs train 7 times as fast as 8", "tokens_per_second", Judgement.UNDECIDED),
        ("it is 7 times as fast", "tokens_per_second", Judgement.CONTRADICTED),
        ("on an A100 GPU it is 7 times as fast", "tokens_per_second", Judgement.CONTRADICTED),
        ("on 8 GPUs it is 7 times as fast", "tokens_per_second", Judgement.CONTRADICTED),
        ("on 8 GPUs it goes from 3100 to 21,000 tokens/s", "tokens_per_second", Judgement.CONTRADICTED),
        ("an RTX 4090 GPU at LoRA rank 8 is 7 times as fast", "tokens_per_second", Judgement.CONTRADICTED),
        ("64 GPUs train 7 times as fast as 8", "tokens_per_second_per_device", Judgement.CONTRADICTED),
    ],
)
def test_speeds_of_one_device_say_nothing_of_a_number_that_only_words_give(
    text: str, quantity: str, judgement: Judgement
) -> None:
    """3,200 tokens a second and GPU on 8 of them, and 2,800 on 64."""
    table = "run,tokens/s/GPU\na,3200\nb,2800\n"
    claim = {"text": text, "baseline": "a", "treatment": "b", "quantity": quantity, "speed_up": 7}
    (one,) = report(table=table, claims=[claim]).claims

    assert one.judgement is judgement


def test_a_speed_of_one_node_decides_nothing_and_confounds_nothing() -> None:
    """Eight nodes of 39,100 tokens a second are not slower than one of 41,200; the column is asked about."""
    table = "run,GPUs,tokens/s (per node),tokens/s\n1 node,8,41200,41200\n8 nodes,64,39100,312800\n"
    claim = {"text": "x", "baseline": "1 node", "treatment": "8 nodes", "speed_up": "7.59", "factor": "processes"}
    found = report(table=table, claims=[claim])

    assert Judgement.HOLDS is found.claims[0].judgement
    assert any("tokens/s (per node)" in question for question in found.questions)
    assert [] == found.faults


def test_cheaper_is_a_claim_on_cost() -> None:
    """As long, and for less."""
    claim = judged({"hours": "10.0", "cost": "25.00"}, {"hours": "10.0", "cost": "7.50"}, "3.3", quantity="cost")

    assert str(claim.judgement) == "holds"
    assert "as cheap" in claim.reason


def test_a_speed_of_a_run_out_of_memory_is_none() -> None:
    """Whatever its row says."""
    rows = [
        {"label": "a", "figures": {"seconds_per_step": "2.0"}},
        {"label": "b", "figures": {"seconds_per_step": "1.0"}, "out_of_memory": True},
    ]
    found = report(rows=rows, claims=[{"text": "x", "baseline": "a", "treatment": "b", "speed_up": 2}])

    assert "ran out of memory" in found.claims[0].reason


def test_what_was_written_is_shown() -> None:
    """1 hour against 3 is a third, however roughly both are rounded; of repeats it is the mean."""
    assert judged({"hours": "1"}, {"hours": "3"}, "1/3").gain.middle == pytest.approx(1 / 3)
    claim = judged({"seconds_per_step": ["2.00", "2.40", "1.90"]}, {"seconds_per_step": "1.05"}, "2")
    assert claim.gain.middle == pytest.approx(2.0)


@pytest.mark.parametrize(
    "figures",
    [
        {"steps": 10000, "seconds_per_step": "2.13", "hours": "1.0"},
        {"steps": 1000, "steps_per_second": "1.00", "seconds": 500},
        {"samples_per_epoch": 10000, "samples_per_second": "10.0", "seconds_per_epoch": "100"},
    ],
)
def test_no_job_is_shorter_than_its_steps(figures: Figures) -> None:
    """Evaluations and saves make it longer, and nothing makes it shorter."""
    assert [f.kind for f in report(rows=[{"label": "a", "figures": figures}]).faults] == [FindingKind.ARITHMETIC]


TRAINER = "Name,State,per_device_train_batch_size,gradient_accumulation_steps,train/train_runtime,"
TRAINER += "train/train_samples_per_second,train/train_steps_per_second\n"

SOUND = {
    "an epoch without its last, short batch": "run,s/it,samples_per_epoch,samples_per_step,epoch time (s)\n"
    "a,1.20,300,32,10.8\n",
    "eight devices, which an export does not say": TRAINER + "a,finished,32,1,638.8,512.0,2.0\n",
    "a short last batch in each epoch": TRAINER + "a,finished,32,1,187.3,16.017,0.513\n",
    "an epoch whose last step is short": "run,s/it,steps_per_epoch,epoch time (s)\na,2.130,32,66.7\n",
}


@pytest.mark.parametrize("name", SOUND)
def test_what_trainer_says_of_a_sound_run_is_no_contradiction(name: str) -> None:
    """Means over an epoch hold its short last batch, and an export does not know of other processes."""
    found = report(table=SOUND[name])

    assert [f.text for f in found.faults] == []
    assert ("8 devices" in " ".join(found.questions)) == ("eight" in name)


def test_zeros_are_rounded_too() -> None:
    """0 % is less than half a percent, and 0.00 s less than five milliseconds."""
    percentages = [
        {"text": "same", "percent": "0", "before": "2.130", "after": "2.135"},
        {"text": "41 % faster", "percent": "41", "before": "2.10", "after": "1.49"},
        {"text": "wrong", "percent": "58", "before": "38", "after": "20"},
    ]
    phases = dict.fromkeys(("data", "host_to_device", "optimizer", "log", "other"), "0.00")
    row = {
        "label": "a",
        "figures": {"seconds_per_step": "0.12"},
        "phases": phases | {"forward": "0.05", "backward": "0.05"},
    }

    assert [f.where for f in report(percentages=percentages, rows=[row]).faults] == ["wrong"]


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"steps": "30,000"}, "30,000 are the samples trained on, and not steps"),
        ({"samples": "7,500"}, "7500 are the steps, and not samples trained on"),
    ],
)
def test_steps_and_samples_that_are_mixed_up_are_told(figures: Figures, words: str) -> None:
    """10,000 samples three times at 4 a step are 7,500 steps and 30,000 samples."""
    whole = {"samples_per_epoch": 10_000, "epochs": 3, "samples_per_step": 4}
    found = report(rows=[{"label": "a", "figures": whole | figures}]).faults

    assert any(words in f.text for f in found)


def voided(a: Figures, b: Figures, settings: Figures, factor: str) -> bool:
    """Whether the phases of two rows show that something else changed."""
    rows = [
        {"label": label, "figures": {"seconds_per_step": f"{sum(map(float, phases.values())):.4f}"}, "phases": phases}
        for label, phases in (("a", a), ("b", b))
    ]
    rows[1]["settings"] = settings
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": factor, "speed_up": ">0.1"}
    found = report(rows=rows, claims=[claim]).claims[0]
    return FindingKind.CONTROL in {f.kind for f in found.findings}


def test_a_large_change_may_move_its_neighbours_a_little() -> None:
    """As a measured comparison allows for it: nearly half of the step is gone, and the forward pass took 12 % more."""
    before = {"data": ".0500", "forward": ".0200", "backward": ".0250", "optimizer": ".0050"}
    after = {"data": ".0050", "forward": ".0225", "backward": ".0250", "optimizer": ".0050"}

    assert not voided(before, after, {"dataloader_num_workers": 4}, "dataloader_num_workers")
    assert voided(before, {**before, "forward": ".0225"}, {"dataloader_num_workers": 4}, "dataloader_num_workers")
    assert voided(before, {**after, "forward": ".0400"}, {"dataloader_num_workers": 4}, "dataloader_num_workers")


WAITING = {"data": ".0400", "forward": ".0280", "backward": ".0520", "optimizer": ".0100"}


@pytest.mark.parametrize(
    ("after", "workers", "void"),
    [
        ({"data": ".0100", "backward": ".0840"}, 2, False),
        ({"data": ".0100", "backward": ".0840"}, None, False),
        ({"data": ".0100", "backward": ".0840"}, 0, True),
        ({"data": ".0100", "backward": ".0560"}, 2, True),
    ],
)
def test_a_longer_computation_hides_the_wait_for_data(after: Figures, workers: int | None, void: bool) -> None:
    """32 ms more of a backward pass hide 30 ms in which workers load. 4 ms hide less, and none if the process loads."""
    both = {} if workers is None else {"dataloader_num_workers": workers}
    phases = WAITING | after
    rows = [
        {
            "label": label,
            "figures": {"seconds_per_step": f"{sum(map(float, own.values())):.4f}"},
            "phases": own,
            "settings": {"gradient_checkpointing": on, **both},
        }
        for label, own, on in (("a", WAITING, False), ("b", phases, True))
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": "gradient_checkpointing", "speed_up": ">0.9"}
    (found,) = report(rows=rows, claims=[claim]).claims

    assert void == (FindingKind.CONTROL in {f.kind for f in found.findings})


@pytest.mark.parametrize(
    ("peft", "speed", "judgement", "finding"),
    [
        (None, "1.33", "holds", None),
        (None, "1.52", "holds", None),
        (None, "1.60", "can't be decided from these figures", FindingKind.UNLIKELY),
        ({"r": 8}, "1.60", "holds", None),
        ({"r": 8}, "1.80", "can't be decided from these figures", FindingKind.UNLIKELY),
        ({"r": 8}, "2.1", "can't be decided from these figures", FindingKind.UNLIKELY),
        (None, "4.0", "can't be decided from these figures", FindingKind.UNLIKELY),
    ],
)
def test_recomputation_is_one_forward_pass(
    peft: Figures | None, speed: str, judgement: str, finding: FindingKind | None
) -> None:
    """A third of the FLOPs of a whole model and half of those with a frozen base, and something for overheads. What was
    measured beyond that has another cause as well. A claim need not name the only factor that differs."""
    rows = [
        {"label": label, "settings": {"gradient_checkpointing": on}, "figures": {"samples_per_second": figure}}
        for label, on, figure in (("a", True, "1.00"), ("b", False, speed))
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": speed}
    claims = [claim | {"factor": "gradient_checkpointing"}, claim]
    data = {"name": "own", "model": {"init": "random", "model_type": "llama"}, "peft": peft}

    for found in audit(validate(data | {"reported": {"rows": rows, "claims": claims}}, "own")).claims:
        assert str(found.judgement) == judgement
        assert [finding] * bool(finding) == [f.kind for f in found.findings]


@pytest.mark.parametrize(
    ("speed", "projected", "said", "judgement"),
    [
        ("9400", False, "2.29", Judgement.UNDECIDED),  # as where checkpointing moves activations to the host
        ("9400", True, "2.29", Judgement.CONTRADICTED),
        ("5400", False, "2.29", Judgement.CONTRADICTED),
        ("5400", False, "1.32", Judgement.HOLDS),
    ],
)
def test_flops_contradict_no_size_that_was_measured(
    speed: str, projected: bool, said: str, judgement: Judgement
) -> None:
    """They contradict one that is expected, or that the figures do not give."""
    rows = [
        {"label": "a", "figures": {"tokens_per_second": "4100"}, "settings": {"gradient_checkpointing": True}},
        {"label": "b", "figures": {"tokens_per_second": speed}, "settings": {"gradient_checkpointing": False}},
    ]
    rows[1]["projected"] = projected
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": "gradient_checkpointing", "speed_up": said}
    (found,) = report(rows=rows, claims=[claim]).claims

    assert judgement is found.judgement
    assert (judgement is Judgement.UNDECIDED) == ("recomputation alone can't be the cause" in found.reason)


LOST = [
    ("gradient_checkpointing", (False, True), ("100.0", "10.0"), {}),
    ("dataloader_num_workers", (8, 0), ("160", "20.0"), {"data": "0.05"}),
]
"""A factor, its values in a fast row and in a slow one, their samples a second, and the phases of the slow row."""


@pytest.mark.parametrize(("factor", "values", "speeds", "phases"), LOST)
def test_a_loss_has_the_bound_of_the_gain_in_reverse(
    factor: str, values: tuple, speeds: tuple[str, str], phases: Figures
) -> None:
    """Who blames a factor for ten times the time is held to what it can cost; the order of rows makes no difference.

    Phases say what it can cost. FLOPs alone leave open what else the measured rows did.
    """
    rows = [
        {
            "label": label,
            "settings": {factor: value, "per_device_train_batch_size": 16},
            "figures": {"samples_per_second": speed} | ({"seconds_per_step": "0.80"} if label == "slow" else {}),
            "phases": phases if label == "slow" else {},
        }
        for label, value, speed in zip(("fast", "slow"), values, speeds, strict=True)
    ]
    if factor == "gradient_checkpointing":
        del rows[1]["figures"]["seconds_per_step"]
    times = float(speeds[0]) / float(speeds[1])
    sizes = (("fast", "slow", f"1/{times:g}"), ("slow", "fast", f"{times:g}"))
    claims = [{"text": a, "baseline": a, "treatment": b, "speed_up": size, "factor": factor} for a, b, size in sizes]
    modest = {"text": "x", "baseline": "fast", "treatment": "slow", "speed_up": "<1", "factor": factor}
    found = report(rows=rows, claims=[*claims, modest]).claims
    unclaimed = [report(rows=order).findings for order in (rows, rows[::-1])]

    beyond, kind = (
        (Judgement.CONTRADICTED, FindingKind.BOUND) if phases else (Judgement.UNDECIDED, FindingKind.UNLIKELY)
    )

    assert [beyond, beyond, Judgement.HOLDS] == [c.judgement for c in found]
    assert f"the change back would make it {times:.3g}" in found[0].reason or times < 10
    assert [[kind]] * 2 == [[f.kind for f in each] for each in unclaimed]


def test_rows_of_unlike_models_are_not_held_to_a_bound() -> None:
    """Where no claim says that checkpointing made the difference, the model may have."""
    table = "run,model,gradient_checkpointing,samples/s\na,gpt2,{},{}\nb,llama-70b,{},{}\n"

    for cells in (("false", 100, "true", 3), ("true", 3, "false", 100)):
        assert [] == report(table=table.format(*cells)).faults


def test_what_is_only_saved_otherwise_excuses_no_step() -> None:
    """Rows that also differ in how often they evaluate and save are held against what a step can lose; whole times,
    which hold the evaluations, are not."""
    rows = [
        {"label": label, "settings": {"gradient_checkpointing": on, "eval_strategy": often}, "figures": figures}
        for label, on, often, figures in (
            ("a", True, "epoch", {"seconds_per_step": "6.33", "steps": 1000, "hours": "2.2"}),
            ("b", False, "no", {"seconds_per_step": "1.50", "steps": 1000, "hours": "0.5"}),
        )
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "4", "factor": "gradient_checkpointing"}
    found = report(rows=rows, claims=[claim | {"quantity": q} for q in ("seconds_per_step", "hours", None)]).claims

    assert [FindingKind.UNLIKELY in {f.kind for f in c.findings} for c in found] == [True, False, False]


def test_a_claim_that_blames_nothing_is_not_confounded() -> None:
    """Batch and learning rate differ, and only that one row is faster is claimed."""
    settings = {"per_device_train_batch_size": 16, "learning_rate": 1e-4}
    claim = judged({"samples_per_second": "10.0"}, {"samples_per_second": "15.0"}, "1.5", settings)

    assert str(claim.judgement) == "holds"
    assert FindingKind.CONFOUNDED not in {f.kind for f in claim.findings}


def test_phases_that_make_less_than_a_share_of_an_epoch_are_no_fault() -> None:
    """An epoch of 100 steps takes 4 minutes and may evaluate; phases of 2.00 s fit, and of 3.00 s do not."""
    phases = {"data": "0.50", "forward": "0.50", "backward": "0.80", "other": "0.20"}
    figures = {"minutes_per_epoch": "4.0", "steps_per_epoch": "100"}
    fits = report(rows=[{"label": "a", "figures": figures, "phases": phases}])
    longer = report(rows=[{"label": "a", "figures": figures, "phases": phases | {"backward": "1.80"}}])

    assert [] == fits.faults
    assert "a step follows as at most 2.4 s" in longer.faults[0].text


def test_a_percentage_rests_on_figures_of_its_own_quantity() -> None:
    """A row's 6.0 steps/s is wrong, and the 6.0 hours of a percentage are something else."""
    row = {"label": "a", "figures": {"seconds_per_step": "2.00", "steps_per_second": "6.0"}}
    percentage = {"text": "p", "percent": "-50", "before": "6.0", "after": "3.0"}

    def places(quantity: str | None) -> list[str]:
        return [f.where for f in report(rows=[row], percentages=[percentage | {"quantity": quantity}]).faults]

    assert ["a"] == places(None) == places("hours")
    assert ["a", "p"] == places("steps_per_second")


PHASES = {"data": "0.0500", "forward": "0.0200", "backward": "0.0250", "optimizer": "0.0050"}
SIZES = {"matmul_parameters": 7.1e9, "trained_parameters": 13.6e6, "layers": 32, "hidden_size": 4096}
LORA = {
    "peft": {"r": 16},
    "dataset": {"max_length": 1024},
    "training_arguments": {"bf16": True, "per_device_train_batch_size": 8},
}


def change(before: Figures, after: Figures, settings: Figures, speed_up: str, factor: str, **claim: object) -> Figures:
    """A report of two rows and what was rightly concluded from them."""
    rows = [{"label": "a", **before}, {"label": "b", "settings": settings, **after}]
    claims = [{"text": "x", "baseline": "a", "treatment": "b", "speed_up": speed_up, "factor": factor, **claim}]
    return {"rows": rows, "claims": claims}


SOUND_REPORTS = {
    "saves that no step holds": change(
        {"figures": {"steps": 10000, "seconds_per_step": "2.00", "hours": "10.0"}},
        {"figures": {"steps": 10000, "seconds_per_step": "2.00", "hours": "6.0"}},
        {"save_steps": 1000},
        "1.67",
        "save_steps",
        quantity="hours",
    ),
    "workers that end a wait": change(
        {"figures": {"seconds_per_step": "0.1000"}, "phases": PHASES},
        {"figures": {"seconds_per_step": "0.0575"}, "phases": PHASES | {"data": "0.0050", "forward": "0.0225"}},
        {"dataloader_num_workers": 4},
        "1.74",
        "dataloader_num_workers",
    ),
    "phases beside an epoch that evaluates": change(
        {"figures": {"minutes_per_epoch": "4.0", "steps_per_epoch": "100"}, "phases": {"data": "1.5", "other": "0.5"}},
        {"figures": {"minutes_per_epoch": "2.0", "steps_per_epoch": "100"}, "phases": {"data": "0.1", "other": "0.5"}},
        {"dataloader_num_workers": 4},
        "2.0",
        "dataloader_num_workers",
        quantity="minutes_per_epoch",
    ),
    "short samples at a high speed": change(
        {"figures": {"samples_per_second": "6.0"}},
        {"figures": {"samples_per_second": "6.9"}},
        {"optim": "paged_adamw_8bit"},
        "1.15",
        "optim",
    ),
    "no recomputation, with LoRA": change(
        {"figures": {"samples_per_second": "0.50"}, "settings": {"gradient_checkpointing": True}},
        {"figures": {"samples_per_second": "0.76"}},
        {"gradient_checkpointing": False},
        "1.52",
        "gradient_checkpointing",
    ),
    "eight devices": change(
        {
            "figures": {
                "samples_per_second": "0.50",
                "samples_per_step": "8",
                "devices": "1",
                "seconds_per_step": "16.0",
            }
        },
        {
            "figures": {
                "samples_per_second": "3.80",
                "samples_per_step": "64",
                "devices": "8",
                "seconds_per_step": "16.8",
            }
        },
        {},
        "7.6",
        None,
        text="eight devices are 7.6 times as fast",
    ),
    "twice the batch, every phase of it longer": change(
        {
            "figures": {"seconds_per_step": "2.00", "samples_per_step": "8"},
            "phases": {"forward": "0.60", "backward": "1.40"},
        },
        {
            "figures": {"seconds_per_step": "3.80", "samples_per_step": "16"},
            "phases": {"forward": "1.14", "backward": "2.66"},
        },
        {"per_device_train_batch_size": 16},
        "1.05",
        "per_device_train_batch_size",
        quantity="samples_per_second",
    ),
    "fewer parts of the same step": change(
        {"figures": {"seconds_per_step": "4.00"}, "settings": {"gradient_accumulation_steps": 4}},
        {"figures": {"seconds_per_step": "3.20"}},
        {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 16},
        "1.25",
        "gradient_accumulation_steps",
    ),
}


@pytest.mark.parametrize("name", SOUND_REPORTS)
def test_a_sound_report_is_not_accused(name: str) -> None:
    """Claims, phases and devices that agree: no fault, and the claim holds."""
    data = {"name": "own", "model": {"init": "random", "model_type": "mistral"}, "reported": SOUND_REPORTS[name]}
    data["reported"]["device"] = "NVIDIA A10"
    found = audit(validate(data | LORA, "own"), SIZES)

    assert [f.text for f in found.faults] == []
    assert ["holds"] == [str(c.judgement) for c in found.claims]


# -- what a strict reader found --


@pytest.mark.parametrize(
    ("before", "after", "speed_up", "settings", "claim", "expected", "words"),
    [
        ({"samples_per_second": "10.0"}, {"samples_per_second": "14.0"}, 1, {}, {}, "contradicted", "1.40 times"),
        ({"samples_per_second": "10.0"}, {"samples_per_second": "6.00"}, 1, {}, {}, "contradicted", "0.6 times"),
        ({"samples_per_second": "10.0"}, {"samples_per_second": "15.1"}, 2, {}, {}, "contradicted", "1.51 times"),
        ({"samples_per_second": "10.0"}, {"samples_per_second": "20.2"}, 2, {}, {}, "holds", "2.02 times"),
        (
            {"samples_per_second": "10.0", "devices": 1},
            {"samples_per_second": "72.0", "devices": 8},
            "7.2",
            {"attn_implementation": "sdpa"},
            {"factor": "attn_implementation"},
            "can't be decided from these figures",
            "on 8 devices",
        ),
        (
            {"tokens_per_second_per_device": "2000", "devices": 1},
            {"tokens_per_second_per_device": "1800", "devices": 8},
            "0.90",
            {},
            {"quantity": "tokens_per_second_per_device"},
            "holds",
            "tokens/s a device",
        ),
        (
            {"hours": "10.0"},
            {"hours": "5.0"},
            "2.0",
            {},
            {"quantity": "hours"},
            "can't be decided from these figures",
            "total time",
        ),
        (
            {"samples_per_second": ["9.50", "9.80", "10.00", "10.10", "10.20", "10.30", "10.50"]},
            {"samples_per_second": ["11.40", "11.80", "12.00", "12.10", "12.20", "12.30", "12.60"]},
            "1.20",
            {},
            {},
            "holds",
            "1.2",
        ),
    ],
)
def test_a_claim_is_weighed_by_all_that_its_rows_say(
    before: Figures, after: Figures, speed_up: object, settings: Figures, claim: Figures, expected: str, words: str
) -> None:
    """Devices, the size that a whole number stands for, the speed of one device, total times, and repeats."""
    found = judged(before, after, speed_up, settings, **claim)

    assert found.judgement == expected, found.reason
    assert words in found.reason or words in str(found.unit)


def test_phases_that_are_not_of_their_step_bound_nothing() -> None:
    """5 s of data in a step of 1.2 s are a slip, and no reason to doubt a true claim."""
    rows = [
        {"label": "a", "figures": {"seconds_per_step": "1.20"}, "phases": {"data": "5.0"}},
        {"label": "b", "figures": {"seconds_per_step": "0.80"}, "settings": {"dataloader_num_workers": 4}},
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "1.5", "factor": "dataloader_num_workers"}

    assert report(rows=rows, claims=[claim]).claims[0].judgement != "contradicted"


@pytest.mark.parametrize("said", [">>1", "1/>3", ">1e400", "<<2"])
def test_a_size_that_is_none_is_refused_in_words(said: str) -> None:
    with pytest.raises(SettingsError, match="speed_up"):
        judged({"samples_per_second": "1.0"}, {"samples_per_second": "2.0"}, said)


def test_a_share_behind_a_figure_is_a_share_of_it() -> None:
    found = judged({"samples_per_second": "2.10 ± 5%"}, {"samples_per_second": "4.20 ± 5%"}, "4.0")
    assert found.judgement == "contradicted"


@pytest.mark.parametrize("hour", [{"hours": "1"}, {"minutes": "60"}, {"seconds": "3600"}])
def test_a_price_of_one_device_makes_no_cost_smaller(hour: Figures) -> None:
    """Eight devices for an hour at 2.50 each are 20, and twice the 10 of one device for four hours."""
    a = {"devices": "1", "cost": "10", "hours": "4", "price_per_hour": "2.50"}
    b = {"devices": "8", "cost": "20", "price_per_hour": "2.50", **hour}
    half, four, quicker = (
        judged(a, b, said, quantity=q) for said, q in (("1/2", "cost"), ("4", "cost"), ("4", "hours"))
    )

    assert [str(half.judgement), str(four.judgement)] == ["holds", "contradicted"]
    assert quicker.gain.middle == pytest.approx(4.0)
    assert report(rows=[{"label": "b", "figures": b}]).faults == []


def test_a_throughput_of_devices_that_nobody_counted_is_kept() -> None:
    """Both exports say 32 samples a second; that one of them fits two devices is asked, and halves no speed."""
    table = TRAINER.replace("train/train_runtime,", "") + "a,finished,8,4,32,1\nb,finished,8,4,32,0.5\n"
    a, b = report(table=table).runs

    assert [str(r.solved.known["samples_per_second"]) for r in (a, b)] == ["32", "32"]
    assert [r.solved.known["samples_per_step"].middle for r in (a, b)] == [32, 64]


def test_a_claim_that_rests_on_a_wrong_figure_is_undecided() -> None:
    """2.13 steps a second and 2.13 s a step: which of them is wrong decides whether b is faster or slower."""
    steps = {"samples_per_step": 8}
    a = steps | {"steps_per_second": "2.13", "seconds_per_step": "2.13"}
    b = steps | {"steps_per_second": "1.05", "seconds_per_step": "0.95"}
    faster, both_deny = (judged(a, b, said, quantity="steps_per_second") for said in ("2.24", "9.0"))
    sound = judged(a | {"steps_per_second": "0.469"}, b, "2.24")

    assert "the figures of 'a' contradict each other, and without s/step it is 0.494 times" in faster.reason
    assert [str(c.judgement)[:5] for c in (faster, both_deny, sound)] == ["can't", "contr", "holds"]


def test_a_comparison_tells_that_its_figures_contradict_each_other() -> None:
    """Tokens of sixteen devices do not follow from those of one, and either may be wrong."""
    table = "run,GPUs,tokens/s/GPU,tokens/s\na,8,3500,28000\nb,16,3400,28000\n"

    assert "contradict each other, and without tokens/s it is 1.94 times" in claim_lines(report(table=table))[0]


def test_figures_that_are_off_alike_compare_as_well() -> None:
    """Samples a second over the whole time are a quarter less in both rows: whichever are taken, the ratio stays."""
    a = {"samples_per_step": 8, "seconds_per_step": "1.00", "samples_per_second": "6.00"}
    b = {"samples_per_step": 8, "seconds_per_step": "0.50", "samples_per_second": "12.0"}

    assert str(judged(a, b, "2.0", quantity="samples_per_second").judgement) == "holds"


@pytest.mark.parametrize(
    ("text", "percent", "before", "after", "quantity", "wrong"),
    [
        ("25 % faster", "25", "100", "80", "samples_per_second", True),
        ("20 % faster", "20", "100", "80", "samples_per_second", True),
        ("throughput", "20", "100", "80", "tokens_per_second_per_device", True),
        ("20 % slower", "20", "100", "80", "samples_per_second", False),
        ("a fall of samples/s", "-20", "100", "80", "samples_per_second", False),
        ("25 % faster", "25", "80", "100", "samples_per_second", False),
        ("25 % faster", "25", "1.00", "0.80", "seconds_per_step", False),
        ("25 % faster", "25", "1.00", "0.80", None, False),
        ("20 % faster", "20", "1.00", "0.80", "seconds_per_step", True),
        ("a step", "20", "1.00", "0.80", "seconds_per_step", False),
        ("fewer batches", "20", "1000", "800", "steps", False),
        ("batches", "25", "1000", "800", "steps", True),
    ],
)
def test_a_fall_is_no_gain(text: str, percent: str, before: str, after: str, quantity: str | None, wrong: bool) -> None:
    """A speed that falls is not faster by any sign, and only less time means more a second."""
    given = {"text": text, "percent": percent, "before": before, "after": after, "quantity": quantity}

    assert bool(report(percentages=[given]).faults) == wrong


@pytest.mark.parametrize(("speed_up", "judgement"), [("3.6", "holds"), ("4", "contradicted")])
def test_devices_are_what_a_claim_on_processes_is_about(speed_up: str, judgement: str) -> None:
    """Nobody is asked then which settings differ; another setting still makes a gain that of both."""
    a, b = ({"devices": n, "samples_per_second": s} for n, s in ((1, "39.0"), (4, "140.7")))
    claim = judged(a, b, speed_up, factor="processes")
    both = judged(a, b, "3.6", {"torch_compile": True}, factor="processes")
    other = judged(a, b, "3.6", factor="torch_compile")
    same = judged(a, {**b, "devices": 1}, "3.6", factor="processes")

    assert judgement == str(claim.judgement)
    assert not any("Which settings differ" in question for question in claim.questions)
    assert [Judgement.UNDECIDED] * 3 == [each.judgement for each in (both, other, same)]


@pytest.mark.parametrize(
    ("a", "b", "judgement"),
    [
        ("4,1", "4,4", "holds"),
        ("1,1", "4,4", "holds"),
        ("1,1", "4,1", "undecided"),
        ("1,1", "4,2", "undecided"),
        (",1", "4,4", "holds"),
        (",", "4,", "undecided"),
    ],
)
def test_a_column_of_processes_says_more_than_that_of_devices(a: str, b: str, judgement: str) -> None:
    """Devices stand for processes only where no column counts these; where both are given they have to agree."""
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "3.6", "factor": "processes"}
    found = report(table=f"run,GPUs,processes,samples/s\na,{a},39\nb,{b},140\n", claims=[claim])

    assert Judgement[judgement.upper()] is found.claims[0].judgement


@pytest.mark.parametrize(
    ("names", "counted"),
    [
        (("4x T5 layers", "8x T5 layers"), False),
        (("2 x L2 norm", "3 x L2 norm"), False),
        (("8xH100SXM", "16xH100SXM"), True),
        (("2x RTX4090", "4x RTX 4090"), True),
        (("4x T4", "8x T4"), True),
    ],
)
def test_only_devices_are_counted_before_a_name(names: tuple[str, str], counted: bool) -> None:
    a, b = names
    claim = {"text": "x", "baseline": a, "treatment": b, "speed_up": "1.06"}
    (judged,) = report(table=f"run,tokens/s/GPU\n{a},9000\n{b},9500\n", claims=[claim]).claims

    assert counted == ("how many devices" in judged.reason)


def test_rows_are_not_ranked_where_any_two_are_of_other_devices() -> None:
    """The first one says no number of devices, and the others' speeds are those of one."""
    table = "run,tokens/s/GPU,samples/s/GPU,s/it\nbase,9000,9.0,1.00\n8×H100,9500,8.0,1.20\n16×H100,9230,10.0,0.90\n"
    whole = table.replace("samples/s/GPU", "samples/s").replace(",8.0,", ",12.0,")

    ranked = [f.text for each in (table, whole) for f in report(table=each).findings if f.kind is FindingKind.RANKING]
    assert not any("tokens" in text for text in ranked)
    assert 1 == len(ranked)


def test_devices_before_their_name_are_counted() -> None:
    """Tokens a second of one device say nothing of 8 and of 16 beside each other."""
    rows = [
        {"label": f"{n}×H100", "figures": {"tokens_per_second_per_device": speed}}
        for n, speed in ((8, "9500"), (16, "9230"))
    ]
    claims = [{"text": "more is slower", "baseline": "8×H100", "treatment": "16×H100", "speed_up": "0.97"}]
    found = report(rows=rows, claims=claims)

    assert (Judgement.UNDECIDED, True) == (found.claims[0].judgement, "how many devices" in found.claims[0].reason)
    assert not any(f.kind is FindingKind.RANKING for f in found.findings)


@pytest.mark.parametrize(
    ("said", "words"), [(">=1.2", "found '>=1.2'"), ("25%", "is 25% so much more, less, or of the whole?")]
)
def test_a_size_that_is_not_read_is_told_as_it_was_written(said: str, words: str) -> None:
    with pytest.raises(SettingsError) as error:
        judged({"samples_per_second": "10"}, {"samples_per_second": "12"}, said)

    assert words in str(error.value)


@pytest.mark.parametrize(("tokens", "judgement"), [("10445", "holds"), ("4080", "undecided")])
def test_padding_to_the_full_length_explains_other_tokens(tokens: str, judgement: str) -> None:
    """Samples a second are equal work then, and tokens a second decide nothing, not even which row is fastest.

    Where a padded row has fewer tokens a sample than its length nobody knows what they count.
    """
    names = {"max_length": {"samples_per_second": "5.1", "tokens_per_second": tokens}}
    names["longest"] = {"samples_per_second": "13.9", "tokens_per_second": "8900"}
    rows = [
        {"label": name, "figures": held, "settings": {"max_length": 2048, "dataset": {"padding": name}}}
        for name, held in names.items()
    ]
    claim = {"text": "it is faster", "baseline": "max_length", "treatment": "longest", "factor": "padding"}
    found = report(rows=rows, claims=[claim | {"speed_up": "2.7", "quantity": "samples_per_second"}])

    assert Judgement[{"holds": "HOLDS", "undecided": "UNDECIDED"}[judgement]] is found.claims[0].judgement
    assert not any(f.kind is FindingKind.RANKING for f in found.findings)


RECIPE = "the new recipe trains 1.9 times as fast"


@pytest.mark.parametrize(
    ("text", "names", "devices", "claim", "expected"),
    [
        (RECIPE, ("old", "new"), (8, 16), {}, Judgement.UNDECIDED),
        (RECIPE, ("old", "new"), (8, 8), {}, Judgement.HOLDS),
        (RECIPE, ("old", "new"), ("", 16), {}, Judgement.UNDECIDED),
        (RECIPE, ("FSDP", "FSDP fused"), (8, 16), {}, Judgement.UNDECIDED),
        ("with loss scaling it is 1.9 times as fast", ("old", "new"), (8, 16), {}, Judgement.UNDECIDED),
        ("16 GPUs are 1.9 times as fast as 8", ("old", "new"), (8, 16), {}, Judgement.HOLDS),
        ("twice the hardware is 1.9 times as fast", ("old", "new"), (8, 16), {}, Judgement.HOLDS),
        ("it scales well", ("old", "new"), (8, 16), {}, Judgement.HOLDS),
        ("it is 1.9 times as fast", ("1 node", "2 nodes"), (8, 16), {}, Judgement.HOLDS),
        ("it is 1.9 times as fast", ("dp8", "dp16"), (8, 16), {}, Judgement.HOLDS),
        ("DDP is 1.9 times as fast", ("single", "ddp"), (1, 2), {}, Judgement.HOLDS),
        ("DDP is 1.9 times as fast", ("old", "ddp"), (2, 4), {}, Judgement.UNDECIDED),
        ("it is so", ("old", "new"), (8, 16), {"factor": "processes"}, Judgement.HOLDS),
    ],
)
def test_twice_the_devices_are_no_gain_of_a_recipe(
    text: str, names: tuple[str, str], devices: tuple[object, object], claim: Figures, expected: Judgement
) -> None:
    """A claim that names no factor holds on other devices only if it is about them; how many is told then, too."""
    a, b = names
    table = f"run,GPUs,tokens/s\n{a},{devices[0]},41200\n{b},{devices[1]},78300\n"
    claims = [{"text": text, "baseline": a, "treatment": b, "speed_up": "1.90", **claim}]
    (one,) = report(table=table, claims=claims).claims

    assert expected is one.judgement
    assert ("by device it is 0.95 times as fast" in one.reason) == (
        expected is Judgement.UNDECIDED and devices[0] != ""
    )
    assert ("on 16 devices and 8" in one.reason) == (expected is Judgement.HOLDS and devices == (8, 16))


@pytest.mark.parametrize(("price", "expected"), [("2.00", Judgement.UNDECIDED), ("4.00", Judgement.HOLDS)])
def test_a_lower_price_is_no_gain_of_a_factor(price: str, expected: Judgement) -> None:
    """Half the cost at half the price of an hour is not what compiling brings; without a factor the price is told."""
    hours = "10.0" if price == "2.00" else "5.00"
    a, b = ({"hours": h, "price_per_hour": p, "cost": c} for h, p, c in (("10.0", "4.00", 40), (hours, price, 20)))
    blamed = judged(a, b, "2.0", {"torch_compile": True}, factor="torch_compile", quantity="cost")
    plain = judged(a, b, "2.0", quantity="cost")

    assert expected is blamed.judgement
    assert ("the price of an hour (4, 2)" in plain.reason) == (price == "2.00")


ONCE = "each was measured once"


@pytest.mark.parametrize(
    ("cells", "said", "factor", "expected", "told"),
    [
        (("10000.0", "10310.0"), "1.031", "torch_compile", Judgement.UNDECIDED, True),
        (("10000.0", "10310.0"), ">1", "torch_compile", Judgement.UNDECIDED, True),
        (("10000.0", "10310.0"), "1.031", None, Judgement.HOLDS, True),
        (("10000.0", "9690.0"), "0.969", "torch_compile", Judgement.HOLDS, True),
        (("10000.0", "10020.0"), 1, "torch_compile", Judgement.HOLDS, True),
        (("10000.0", "10800.0"), "1.08", "torch_compile", Judgement.HOLDS, False),
        (("10000 ± 20", "10310 ± 20"), "1.031", "torch_compile", Judgement.HOLDS, False),
        (("10000.0 (n=5)", "10310.0 (n=5)"), "1.031", "torch_compile", Judgement.HOLDS, False),
        (("10000.0", "10900.0"), "1.031", "torch_compile", Judgement.CONTRADICTED, False),
    ],
)
def test_a_small_gain_of_single_runs_is_no_proof(
    cells: tuple[str, str], said: object, factor: str | None, expected: Judgement, told: bool
) -> None:
    """Runs of one configuration differ by as much, whatever the digits: a gain is not put down to a factor then, and
    what holds by such runs says so and asks how often they were measured."""
    table = "run,torch_compile,tokens/s\na,false,{}\nb,true,{}\n".format(*cells)
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": factor, "speed_up": said}
    found = report(table=table, claims=[claim])

    assert expected is found.claims[0].judgement, found.claims[0].reason
    assert told == (ONCE in found.claims[0].reason)
    assert (told or expected is Judgement.UNDECIDED) == any("How often was 'b'" in q for q in found.first_questions)


def test_rows_that_say_how_often_they_were_measured_are_no_single_runs() -> None:
    """Rows that were repeated are judged by their repeats, and those of a column `seeds` are means."""
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": "torch_compile", "speed_up": "1.031"}
    table = "run,torch_compile,seeds,tokens/s\na,false,{0},10000.0\nb,true,{0},10310.0\n"
    once, often = (report(table=table.format(n), claims=[claim]).claims[0] for n in (1, 5))
    speeds = (["10000", "10010", "9990"], ["10310", "10320", "10300"])
    repeated = judged(*({"tokens_per_second": each} for each in speeds), "1.031")

    assert [Judgement.UNDECIDED, Judgement.HOLDS] == [once.judgement, often.judgement]
    assert (Judgement.HOLDS, False) == (repeated.judgement, ONCE in repeated.reason)
