"""Headers as people write them: each unit is read for what it is, and what could be several things is left open."""

from __future__ import annotations

import itertools

import pytest

from slowstep.audit import audit
from slowstep.audit.findings import Judgement
from slowstep.audit.read.columns import column
from slowstep.audit.read.unit_grammar import ratio
from slowstep.audit.terminal_lines import compared
from slowstep.settings import SettingsError
from slowstep.settings.load import validate


def known(header: str, cell: str = "12") -> dict[str, float]:
    """What a table of one row says under a header, by quantity."""
    table = f"run;{header}\na;{cell}\n"
    (run,) = audit(validate({"name": "own", "reported": {"table": table}}, "own")).runs
    return {quantity: figure.middle for quantity, figure in run.given.items()}


@pytest.mark.parametrize(
    ("header", "quantity", "scale"),
    [
        ("step (ms)", "seconds_per_step", 1e-3),
        ("step_time_ms", "seconds_per_step", 1e-3),
        ("avg step time [s]", "seconds_per_step", 1),
        ("min / 1k iterations", "seconds_per_step", 0.06),
        ("time per 100 steps (s)", "seconds_per_step", 0.01),
        ("epoch (min)", "seconds_per_epoch", 60),
        ("h/epoch", "seconds_per_epoch", 3600),
        ("it/s", "steps_per_second", 1),
        ("steps/min", "steps_per_second", 1 / 60),
        ("samples per second", "samples_per_second", 1),
        ("samples/sec/device", "samples_per_second_per_device", 1),
        ("Throughput (tokens/s/GPU)", "tokens_per_second_per_device", 1),
        ("tok/s (per GPU)", "tokens_per_second_per_device", 1),
        ("tok/GPU/s", "tokens_per_second_per_device", 1),
        ("TGS", "tokens_per_second_per_device", 1),
        ("k tokens/s", "tokens_per_second", 1e3),
        ("tokens/s (k)", "tokens_per_second", 1e3),
        ("tokens/day", "tokens_per_second", 1 / 86400),
        ("tokens per step", "tokens_per_step", 1),
        ("MFU (%)", "mfu", 1),
        ("HFU", "hfu", 1),
        ("GPU util (%)", "utilisation", 1),
        ("#GPUs", "devices", 1),
        ("global batch size", "samples_per_step", 1),
        ("global batch", "samples_per_step", 1),
        ("eff. bs", "samples_per_step", 1),
        ("#GPU", "devices", 1),
        ("n_gpus", "devices", 1),
        ("s/optimizer step", "seconds_per_step", 1),
        ("train_step_timing in s", "seconds_per_step", 1),
        ("WPS", "tokens_per_second", 1),
    ],
)
def test_a_header_says_what_its_numbers_are(header: str, quantity: str, scale: float) -> None:
    """Any count of steps, samples or tokens, any unit of time, strokes, per, brackets, and one device's share."""
    assert known(header) == {quantity: pytest.approx(12 * scale)}


def test_times_and_speeds_are_turned_over() -> None:
    """Two epochs an hour are 1800 s each, and 0.5 ms a token on each device 2000 tokens a second."""
    assert known("epochs/hour", "2")["seconds_per_epoch"] == pytest.approx(1800, rel=1e-4)
    assert known("ms/token/GPU", "0.500")["tokens_per_second_per_device"] == pytest.approx(2000, rel=1e-4)


def test_the_time_of_a_token_is_held_against_tokens_a_second() -> None:
    """50 µs a token are 20,000 a second; where the table says 10,000, that is a fault, and no question of reading."""
    table = "run,us/token,tokens/s\na,50.0,{}\n"
    wrong, right = (
        audit(validate({"name": "own", "reported": {"table": table.format(n)}}, "own")).faults for n in (10000, 20000)
    )

    assert "s/token is given as 5e-05 and follows as 0.0001" in wrong[0].text.lower()
    assert [] == right


@pytest.mark.parametrize(
    "header",
    [
        *("s/it/GPU", "samples/GPU", "bits/s", "MB/s", "m/s", "k/s", "steps (s)", "tokens/sec/8 GPUs", "loss"),
        *("eval samples/s", "inference speed (tokens/s)", "s/it (eval)"),
    ],
)
def test_what_is_no_speed_of_training_is_not_read(header: str) -> None:
    """Another thing, another part of the job, or a share of what is not shared."""
    with pytest.raises(SettingsError, match="no column holds a figure"):
        known(header)


@pytest.mark.parametrize(
    ("header", "setting"),
    [
        *(
            (h, "per_device_train_batch_size")
            for h in ("per-device batch", "batch_size_per_gpu", "micro batch", "bs/gpu")
        ),
        *((h, "gradient_accumulation_steps") for h in ("grad accum", "gradient accumulation", "accum")),
    ],
)
@pytest.mark.parametrize("other", ["", "n/a", "64.0"])
def test_a_batch_of_a_device_is_the_setting(header: str, setting: str, other: str) -> None:
    """As people name it, and as spreadsheets write it; how a step is made up is then known, and checked."""
    table = f"run;{header};s/it\na;4.0;1.5\nb;{other};1.6\n"
    run, _ = audit(validate({"name": "own", "reported": {"table": table}}, "own")).runs

    assert run.settings.training_arguments == {setting: 4}


@pytest.mark.parametrize(
    ("header", "cells"),
    [("gradient accumulation", ("no", "yes")), ("accum", ("x1", "x4")), ("micro batch", ("auto", "8"))],
)
def test_a_setting_in_other_words_is_read_where_it_is_a_number(header: str, cells: tuple[str, str]) -> None:
    """Other cells are words, by which rows differ, and refuse no file."""
    table = f"run;{header};samples/s\na;{cells[0]};100\nb;{cells[1]};150\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert [run.settings.training_arguments for run in found.runs] == [{}, {}]
    assert all(run.unknown for run in found.runs)


@pytest.mark.parametrize(
    ("header", "cell", "said"),
    [
        ("global batch", "4M", "samples or tokens a step"),
        ("samples/s", "12B", "the cell says 'B'"),
        ("memory_used_gib", "512B", "the cell says 'B'"),
    ],
)
def test_a_letter_that_may_mean_something_else_is_asked_about(header: str, cell: str, said: str) -> None:
    """Batches of language models are often said in tokens, and `B` is that of bytes, too."""
    with pytest.raises(SettingsError, match=said):
        known(header, cell)
    assert known("tokens/day", "8.64B")["tokens_per_second"] == pytest.approx(100_000)


@pytest.mark.parametrize(
    ("header", "asked"), [("rate", "steps, samples or tokens a second"), ("VRAM (GB)", "what the tensors take")]
)
def test_beside_a_speed_what_could_be_several_things_is_asked_about(header: str, asked: str) -> None:
    """Nothing hangs on it, so the speeds are compared all the same."""
    table = f"run;{header};samples/s\na;12;100\nb;14;150\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert any(header in line and asked in line for line in found.questions)
    assert [run.given.keys() for run in found.runs] == [{"samples_per_second"}] * 2


@pytest.mark.parametrize("header", ["batch_size", "batch", "BS", "Train batch size", "mini-batch size", "bsz (seqs)"])
def test_a_batch_size_is_read_where_its_meanings_agree(header: str) -> None:
    """Of a device or of a whole step: three times the batch in three times the time is the same speed either way."""
    table = f"run;{header};s/it\na;32;2.13\nb;96;6.33\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert any("1.01 times as fast as 'a' in samples/s" in line for line in compared(found))
    assert any("accumulated or spread over devices" in line for line in found.questions)
    assert not any("not read" in line for line in found.questions)


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("batch_size;GPUs", ("32;1", "96;2")),
        ("batch_size;nodes", ("32;1", "32;2")),
        ("batch size;grad accum", ("32;4", "96;1")),
        ("batch;bs", ("32;4", "96;8")),
        ("batch", ("32", "4k")),
        ("batch size (tokens)", ("3200", "9600")),
    ],
)
def test_a_batch_size_that_may_mean_two_things_is_asked_about(header: str, cells: tuple[str, str]) -> None:
    """Beside devices or accumulation the two meanings make different speeds."""
    table = f"run;{header};s/it\na;{cells[0]};2.13\nb;{cells[1]};6.33\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert any(header.partition(";")[0] in line for line in found.questions)
    assert not any("per_device_train_batch_size" in run.settings.training_arguments for run in found.runs)


@pytest.mark.parametrize("names", ["bs{}", "batch size {}", "tuned, batch={}", "Batch {}"])
@pytest.mark.parametrize("column", ["run", "what"])
def test_a_batch_size_in_the_name_of_a_row_is_read(names: str, column: str) -> None:
    """It is what differs, and the table has no column for it."""
    table = f"{column};s/it\n{names.format(32)};2.13\n{names.format(96)};6.33\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert any("is 1.01 times as fast as" in line and "in samples/s" in line for line in compared(found))


NO_BATCH_ALONE = {
    "devices in names": "run,s/it\nbs32 4 GPUs,2.0\nbs96 8 GPUs,6.0\n",
    "devices before a name": "run,batch_size,s/it\n1xA100,32,2.0\n4xA100,32,2.2\n",
    "times a device": "run,s/it\nbs32 x1 A100,2.0\nbs32 x4 A100,2.2\n",
    "times": "run,s/it\nbs 32,2.0\nbs 32 x 4,2.2\n",
    "a product": "run,s/it\nbs8*4,2.0\nbs32,1.2\n",
    "ways to be parallel": "run,s/it\nbs8 DP1,2.0\nbs8 DP4,2.2\n",
    "accumulation": "run,s/it\nbs8+ga4,2.0\nbs32,2.2\n",
    "accumulation in one": "run,s/it\nbs32 accum 3,2.0\nbs96,6.0\n",
    "two sizes": "run,s/it\nbs32,2.0\nwarm bs96 bs32,6.0\n",
    "launchers": "run,s/it\nsingle bs8,2.0\nddp bs8,2.2\n",
    "machines": "run,batch_size,machines,s/it\na,32,1,2.0\nb,32,4,2.2\n",
    "cards": "run,batch_size,A100s,s/it\na,32,1,2.0\nb,32,4,2.2\n",
    "accumulation of fairseq": "run,batch_size,update_freq,s/it\na,32,1,2.0\nb,32,4,6.2\n",
    "accumulation of detectors": "run,batch_size,iter_size,s/it\na,32,1,2.0\nb,32,4,6.2\n",
    "an unknown column": "run,batch_size,GAS,s/it\na,32,1,2.0\nb,32,4,6.2\n",
    "a note": "run,batch_size,note,s/it\na,32,single,2.0\nb,32,two GPUs,2.2\n",
    "an export": "Name,state,num_nodes,s/it\nbs32-a,finished,1.0,2.0\nbs32-b,finished,4.0,2.1\n",
    "a counter of batches": "epoch,batch,s/it\n1,100,0.5\n1,200,0.5\n1,300,0.51\n",
    "a counter without epochs": "batch,s/it\n100,0.5\n200,0.5\n300,0.51\n",
    "a counter in one run": "run,batch,s/it\na,100,0.5\na,200,0.5\na,400,0.51\n",
    "two numbers": "run,s/it\nbatch 1,0.5\nbatch 2,0.8\n",
    "tokens": "run,seq len,s/it\nbs 8192 tok A,512,1.0\nbs 8192 tok B,2048,1.05\n",
    "perhaps tokens": "run,batch_size,seq len,s/it\na,8192,512,1.0\nb,8192,2048,1.05\n",
    "a name against its column": "run,batch_size,s/it\nbs32,64,2.0\nbs64,64,3.2\n",
}
"""Tables whose batches may be those of a step or of a device, and the speeds differ by that; or that are none."""


@pytest.mark.parametrize("table", NO_BATCH_ALONE.values(), ids=NO_BATCH_ALONE)
def test_a_batch_is_not_read_where_anything_else_may_make_up_a_step(table: str) -> None:
    """Devices, accumulation, parts of it in any column or word, and numbers that only count batches."""
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert not any("per_device_train_batch_size" in run.settings.training_arguments for run in found.runs)
    assert not any("in samples/s" in line for line in compared(found))


@pytest.mark.parametrize(
    "claim", [{"text": "8 GPUs are 3.6 times as fast as 1"}, {"text": "more", "factor": "processes"}]
)
def test_a_batch_is_not_read_where_a_claim_is_about_devices(claim: dict[str, str]) -> None:
    """What was said of the same figures may be true of the batch of a device."""
    table = "run,batch_size,s/it\na,32,2.0\nb,32,2.2\n"
    claims = [claim | {"baseline": "a", "treatment": "b", "speed_up": "3.6"}]
    found = audit(validate({"name": "own", "reported": {"table": table, "claims": claims}}, "own"))

    assert not any("per_device_train_batch_size" in run.settings.training_arguments for run in found.runs)


BESIDE_A_BATCH = {
    "settings": "run,batch_size,num_workers,precision,compile,s/it\na,32,2,fp32,no,2.13\nb,96,4,bf16,yes,6.33\n",
    "results": "run,batch_size,val_loss,VRAM,lr,s/it\na,32,1.2,7.1,1e-4,2.13\nb,96,1.1,19.2,3e-4,6.33\n",
    "the same device": "run,batch_size,accelerator,s/it\na,32,A10,2.13\nb,96,A10,6.33\n",
    "a cell without one": "run,batch_size,s/it\na,32,2.13\nc,,3.0\nb,96,6.33\n",
}


@pytest.mark.parametrize("table", BESIDE_A_BATCH.values(), ids=BESIDE_A_BATCH)
def test_a_batch_is_read_beside_what_makes_up_no_step(table: str) -> None:
    """Settings and results that have nothing to do with the samples of a step, and what is the same in all rows."""
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert any("'b' is 1.01 times as fast as 'a' in samples/s" in line for line in compared(found))
    assert not any("batch_size" in line for line in found.questions)


def test_a_claim_of_steps_is_no_trap_where_batches_are_unknown() -> None:
    """With half the length the batch may have been doubled, so that the tokens of a step are the same."""
    table = "run,seq len,s/it\na,1024,0.500\nb,512,0.480\n"
    claim = {"text": "as fast", "baseline": "a", "treatment": "b", "speed_up": 1.04, "quantity": "steps_per_second"}
    found = audit(validate({"name": "own", "reported": {"table": table, "claims": [claim]}}, "own"))

    assert found.claims[0].judgement is Judgement.UNDECIDED
    assert not found.claims[0].findings


def test_without_a_batch_lengths_are_compared_by_their_tokens() -> None:
    """Half the length in 0.474 of the time is 5 % a token, if the batches are as large and the samples full."""
    table = "run;step time (ms);seq len\na;500;1024\nb;237;512\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    (line,) = compared(found)
    assert "'b' is 1.05 times as fast as 'a' in tokens/s with every sample at full length" in line
    assert any("Is the batch the same in all rows?" in one for one in found.questions)


def test_batches_that_are_numbered_have_no_size() -> None:
    """The first, the second and the third batch of a run may be equally large."""
    table = "run;batch;s/it\na;1;2.13\nb;2;2.15\nc;3;2.14\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert not any("samples_per_second" in run.solved.known for run in found.runs)


@pytest.mark.parametrize("cell", ["OOM", "-", "n/a", ""])
def test_figures_in_lines_may_lack_one(cell: str) -> None:
    """A table with its runs as columns is read where one of them did not fit, too."""
    table = f"| | a | b | c |\n|---|---|---|---|\n| samples/s | 100 | 150 | {cell} |\n| s/it | 0.32 | 0.21 | {cell} |\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert {r.label for r in found.runs} >= {"a", "b"}
    assert next(r for r in found.runs if r.label == "b").given["samples_per_second"].middle == 150


@pytest.mark.parametrize(
    ("header", "quantity"),
    [
        *(
            (f"tokens/s ({of})", "")
            for of in (
                "per node",
                "node",
                "each worker",
                "/host",
                "mean per node",
                "per_socket",
                "per 8 GPUs",
                "loader only",
            )
        ),
        *(
            (f"tokens/s ({of})", "tokens_per_second")
            for of in (
                *("mean", "8 nodes", "all nodes", "per second", "w/o warmup", "mean per run", "with DALI loader"),
                *("4 seqs per device", "batch 64 per GPU", "2 nodes, 8 GPUs per node", "single node", "nodes: 2"),
            )
        ),
        *((f"tokens/s ({of})", "tokens_per_second_per_device") for of in ("per GPU", "per GPU, mean", "GPU", "/rank")),
    ],
)
def test_a_speed_of_a_share_is_none_of_the_whole(header: str, quantity: str) -> None:
    """Tokens a second of one node are not those of eight; of a device they are known as such."""
    assert quantity == column(header, set()).name


@pytest.mark.parametrize(
    ("cells", "refused"),
    [
        (("987", "1.234", "1.410"), True),
        (("12", "1.234.567", "1.410"), True),
        (("1.987", "1.234", "1.410"), False),  # ratios are the same either way
        (("987", "0.234", "1.410"), False),
        (("987", "1.23", "1.410"), False),
        (("1234", "1.234", "1.410"), False),
        (("2", "1.234", "1.410"), False),
    ],
)
def test_points_that_may_part_thousands_are_asked_about(cells: tuple[str, ...], refused: bool) -> None:
    """Below 987 in a German sheet 1.234 are more than a thousand, and 1.410 are 1.43 times 987."""
    table = "run;tokens/s\n" + "".join(f"{name};{cell}\n" for name, cell in zip("abc", cells, strict=True))
    data = {"name": "own", "reported": {"table": table}}

    if refused:
        with pytest.raises(SettingsError, match=r"does the point part thousands\? Write '1234"):
            audit(validate(data, "own"))
    else:
        assert len(audit(validate(data, "own")).runs) == 3


def test_a_price_is_read_with_its_sign() -> None:
    """14.40 an hour for 9.5 hours are 136.80."""
    table = "run,hours,$/hour,cost\na,9.5,$14.40,$316.80\nb,20,$14.40,$288\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert [f.where for f in found.faults] == ["a"]


def test_a_share_is_a_percentage() -> None:
    """0.41 under `MFU` is 41 %, and under `MFU (%)` it is what stands there."""
    assert known("MFU", "0.41") == known("MFU", "41 %") == known("MFU (%)", "41") == {"mfu": pytest.approx(41)}
    assert known("MFU (%)", "0.41") == {"mfu": pytest.approx(0.41)}


def test_figures_of_a_device_and_of_all_belong_together() -> None:
    """16,000 tokens a second in all and 2,000 a device are those of 8 devices, which nobody has to say."""
    table = "run,tokens/s,tokens/s/GPU\na,16000,2000\n"
    (run,) = audit(validate({"name": "own", "reported": {"table": table}}, "own")).runs
    wrong = "run,tokens/s,tokens/s/GPU,gpus\na,16000,2000,4\n"
    found = audit(validate({"name": "own", "reported": {"table": wrong}}, "own"))

    assert run.devices.middle == pytest.approx(8)
    assert "tokens/s a device is given as 2000 and follows as 4000" in found.faults[0].text


def test_an_unknown_figure_is_told_those_that_are_known() -> None:
    """All of them where none comes near."""
    data = {"name": "own", "reported": {"rows": [{"label": "a", "figures": {"velocity": "3"}}]}}
    with pytest.raises(
        SettingsError,
        match=r"no such figure. Known are seconds_per_step, .*mfu, hfu, .*scaling_efficiency, time_left\.",
    ):
        audit(validate(data, "own"))


def test_every_unit_of_time_goes_with_every_thing() -> None:
    """Singular or plural, with a stroke or a word between them."""
    things = ("it", "iteration", "step", "sample", "seq", "token", "epoch")
    ways = itertools.product(("us", "ms", "s", "sec", "min", "h", "day"), ("/", " / ", " per ", "_per_"), things)
    units = [u for time, by, thing in ways for u in (f"{time}{by}{thing}", f"{thing}s{by}{time}")]

    assert [u for u in units if ratio(u) is None] == []


@pytest.mark.parametrize(
    ("header", "cell", "tokens"),
    [
        ("tokens/s (×10³)", "256", 256e3),
        ("tokens/s (10^6)", "1.2", 1.2e6),
        ("tokens/day (B)", "22.1", 22.1e9 / 86400),
        ("tokens/s (in thousands)", "256", 256e3),
        ("tokens/s (×10⁴)", "25.6", None),
        ("tokens/s (x16)", "25.6", None),
        ("tokens/s (8x A100)", "25600", 25600),
        ("tokens/s (mean)", "25600", 25600),
        ("tokens/s (dataloader only)", "25600", None),
    ],
)
def test_what_stands_behind_a_unit_multiplies_it_or_leaves_it_unread(
    header: str, cell: str, tokens: float | None
) -> None:
    """A scale of unknown size is no 1, and loading alone is no training."""
    (run,) = audit(validate({"name": "own", "reported": {"table": f"run,{header},s/it\na,{cell},2.0\n"}}, "own")).runs
    found = run.given.get("tokens_per_second")

    assert (found and found.middle) == (None if tokens is None else pytest.approx(tokens))


@pytest.mark.parametrize(("header", "known"), [("Record time", False), ("time per record", True), ("s/record", True)])
def test_the_time_of_a_record_is_none_of_a_sample(header: str, known: bool) -> None:
    table = f"run,{header} (min),samples/s\na,45,10\n" if "/" not in header else f"run,{header},x\na,45,10\n"
    (run,) = audit(validate({"name": "own", "reported": {"table": table}}, "own")).runs

    assert known is ("seconds_per_sample" in run.given)


@pytest.mark.parametrize("arrow", ["↑", " ↑", " (↑)", "⇧"])
def test_an_arrow_says_what_is_better_and_no_unit(arrow: str) -> None:
    """As papers have it; a word of what is still to be measured is an empty cell."""
    table = f"run,Throughput (tok/s){arrow}\na,41200\nb,55100\nc,TBD\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert [["tokens_per_second"], ["tokens_per_second"], []] == [[*run.given] for run in found.runs]


@pytest.mark.parametrize("header", ["num_epochs", "n epochs", "# epochs", "epochs"])
def test_a_third_of_the_epochs_is_known_by_its_names(header: str) -> None:
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "2.94", "quantity": "hours"}
    table = f"run,{header},hours\na,3,10.0\nb,1,3.4\n"
    found = audit(validate({"name": "own", "reported": {"table": table, "claims": [claim]}}, "own"))

    assert Judgement.CONTRADICTED is found.claims[0].judgement


@pytest.mark.parametrize("cell", ["fast", "soon", "4l2"])
def test_another_word_is_no_figure(cell: str) -> None:
    with pytest.raises(SettingsError, match=":3:2: tokens/s: "):
        audit(validate({"name": "own", "reported": {"table": f"run,tokens/s\na,41200\nb,{cell}\n"}}, "own"))


def test_memory_that_pytorch_counts_is_read_where_its_unit_stands_there() -> None:
    """It counts bytes itself."""
    assert {"memory_allocated_gib": 12} == known("max_memory_allocated (GB)")
    assert {"memory_reserved_gib": 12} == known("peak reserved memory [GiB]")
    assert "memory_allocated_gib" not in known("s/it;max_memory_allocated", "1;12884901888")
