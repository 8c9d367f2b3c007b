"""What a row says of its settings, laid over the parameter file; and the tokens of its samples."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, audit
from slowstep.audit.terminal_lines import compared
from slowstep.settings import SettingsError
from slowstep.settings.load import validate

FILE = {
    "name": "own",
    "model": {"init": "random", "model_type": "llama", "config": {"hidden_size": 64}},
    "dataset": {"max_length": 1024},
    "training_arguments": {"per_device_train_batch_size": 8, "gradient_checkpointing": True},
    "peft": {"r": 8, "lora_dropout": 0.1},
}


def report(a: dict, b: dict, settings: dict, over: dict | None = None, **claim: object) -> Audit:
    """Two rows, the second with settings of its own, and a claim on them if there is one."""
    rows = [{"label": "a", "figures": a}, {"label": "b", "figures": b, "settings": settings}]
    claims = [{"text": "x", "baseline": "a", "treatment": "b", **claim}] if claim else []
    return audit(validate(FILE | (over or {}) | {"reported": {"rows": rows, "claims": claims}}, "own"))


def of_row(settings: dict) -> object:
    return report({"hours": "1.0"}, {"hours": "2.0"}, settings).runs[1].settings


def test_a_nested_section_keeps_what_it_does_not_mention() -> None:
    """A row with other padding has the file's length, and is not accused of a second change."""
    found = report(
        {"samples_per_second": "2.00"},
        {"samples_per_second": "1.50"},
        {"dataset": {"padding": "max_length"}},
        factor="padding",
        speed_up="0.75",
    )

    assert found.runs[1].settings.dataset.max_length == 1024
    assert str(found.claims[0].judgement) == "holds"


def test_sections_merge_however_deep() -> None:
    """A model's configuration, LoRA's, and a section that the file has not; an empty one changes nothing."""
    own = of_row(
        {"model": {"config": {"num_hidden_layers": 2}}, "peft": {"r": 4}, "quantization": {"load_in_4bit": True}}
    )

    assert own.model.config == {"hidden_size": 64, "num_hidden_layers": 2}
    assert own.peft == {"r": 4, "lora_dropout": 0.1}
    assert own.model.model_type == "llama"
    assert of_row({"dataset": {}, "peft": {}}).dataset.max_length == 1024
    assert of_row({"peft": None}).peft is None


def test_a_row_takes_factors() -> None:
    """By the names that claims use, with what a level needs."""
    four, off = of_row({"weights": "4bit"}), of_row({"offload": True, "lora_r": 4})

    assert four.quantization["load_in_4bit"]
    assert off.training_arguments["gradient_checkpointing_kwargs"]["offload"]
    assert off.peft["r"] == 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"wieghts": "4bit"}, r"settings.wieghts: no such setting or factor as 'wieghts'. Did you mean 'weights'\?"),
        ({"ofload": True}, r"Did you mean 'offload'\?"),
        ({"max_lenght": 4}, r"Did you mean 'max_length'\?"),
        ({"weights": "5bit"}, r"settings.weights: .*4bit"),
        ({"epochs": 3}, "is a figure and no setting"),
        ({"max_length": 4, "dataset": {"max_length": 5}}, "says dataset.max_length twice"),
        ({"dataset": {"paddding": "longest"}}, r"Did you mean 'padding'\?"),
    ],
)
def test_what_a_row_can_not_have_is_told_with_its_key(settings: dict, said: str) -> None:
    """And with the name that was meant."""
    with pytest.raises(SettingsError, match=rf"reported.rows\[1\].*{said}"):
        of_row(settings)


def test_a_row_of_figures_alone_may_say_how_its_model_computes() -> None:
    """Where no model is named, a row's attention or weights name none either."""
    rows = [
        {"label": "a", "figures": {"hours": "2.0"}},
        {"label": "b", "settings": {"attn_implementation": "eager", "weights": "16bit"}, "figures": {"hours": "3.0"}},
    ]
    found = audit(validate({"name": "own", "reported": {"rows": rows}}, "own"))

    assert found.runs[1].settings.model.dtype == "bfloat16"


PACKED = {"dataset": {"max_length": 1024, "padding": "packing", "tokenize": "once"}}
HALF = {"factor": "max_length", "speed_up": "2.0", "quantity": "seconds_per_step"}


@pytest.mark.parametrize("arguments", [FILE["training_arguments"], {}])
def test_counted_tokens_decide_a_claim_on_length(arguments: dict) -> None:
    """Half the length in half the time is no gain a token, whether or not a batch is given."""
    a, b = (
        {"seconds_per_step": "2.00", "tokens_per_sample": 800},
        {"seconds_per_step": "1.00", "tokens_per_sample": 410},
    )
    found = report(a, b, {"max_length": 512}, {"training_arguments": arguments}, **HALF).claims[0]

    assert (str(found.judgement), found.unit) == ("contradicted", "tokens/s")
    assert found.gain.middle == pytest.approx(1.025)


def test_packed_samples_are_as_long_as_they_may_be() -> None:
    """So a claim on their length is decided, by steps or by whole epochs, and nobody is asked for padding."""
    steps = report({"seconds_per_step": "2.00"}, {"seconds_per_step": "1.00"}, {"max_length": 512}, PACKED, **HALF)
    epochs = report(
        {"minutes_per_epoch": "20.0"},
        {"minutes_per_epoch": "19.0"},
        {"max_length": 512},
        PACKED,
        **(HALF | {"quantity": None}),
    )

    for found in (steps, epochs):
        assert str(found.claims[0].judgement) == "contradicted"
        assert not any("padding" in question for question in [*found.questions, *found.claims[0].questions])


def test_padding_that_tokens_may_count_is_still_asked_about() -> None:
    """As many tokens a sample as it may have, all padded to that: what is text in them nobody counted."""
    a, b = (
        {"seconds_per_step": "2.00", "tokens_per_sample": 1024},
        {"seconds_per_step": "1.00", "tokens_per_sample": 512},
    )
    padded = {"dataset": {"max_length": 1024, "padding": "max_length"}}

    assert str(report(a, b, {"max_length": 512}, padded, **HALF).claims[0].judgement).startswith("can't")


@pytest.mark.parametrize("header", ["non-pad tokens/s", "useful tokens/s", "tokens/s (without padding)"])
def test_tokens_that_a_column_counts_without_padding_decide(header: str) -> None:
    """Those beside them may count it, and give way. Where the useful ones of a sample are fewer, text is gone."""
    table = f"collator,tokens/s,{header},samples/s\npad to 1024,48200,14900,47.1\ndynamic,41300,{{}},114.0\n"
    claim = {"text": "dynamic padding is slower", "baseline": "pad to 1024", "treatment": "dynamic", "speed_up": "<1"}

    def judged(tokens: str) -> str:
        reported = {"table": table.format(tokens), "claims": [claim | {"quantity": "tokens_per_second"}]}
        return str(audit(validate({"name": "own", "reported": reported}, "own")).claims[0].judgement)

    assert ["contradicted", "can't be decided from these figures"] == [judged("36100"), judged("9000")]


def test_tokens_decide_where_rows_have_other_copies_of_a_model() -> None:
    """A batch of all devices is accumulated less often on more of them, so that samples follow from no batch."""
    table = "model,TP,DP,micro batch,s/step,tokens/s\n8B,1,8,1,26.9,77960\n13B,2,4,1,45.2,46392\n"
    (line, *_) = compared(audit(validate({"name": "own", "reported": {"table": table}}, "own")))

    assert "'13B' is 0.595 times as fast as '8B' in tokens/s" in line
