"""Figures that cannot be true, or hardly: told, and kept out of what is said of all rows; and rounding."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.terminal_lines import answer, claim_lines, finding_lines
from slowstep.environment.home import ROOT
from slowstep.report.reported import reported_conclusion, reported_rows, reported_speeds
from slowstep.settings.load import validate

SIZES = {"matmul_parameters": 7e9, "trained_parameters": 7e9, "layers": 32, "hidden_size": 4096}
MODEL = {
    "model": {"init": "random", "model_type": "llama"},
    "dataset": {"max_length": 2048},
    "training_arguments": {"per_device_train_batch_size": 4},
}


def of_table(table: str, sizes: dict | None = None, file: dict | None = None, **reported: object) -> Audit:
    return audit(validate({"name": "own", **(file or {}), "reported": {"table": table, **reported}}, "own"), sizes)


def told(found: Audit, kind: FindingKind) -> dict[str, str]:
    return {f.where: f.text for f in found.findings if f.kind is kind}


def test_an_impossible_row_is_in_no_comparison() -> None:
    """417 % MFU: not the fastest, not beside the others, and marked in the table."""
    found = of_table("run,samples/s,s/it,MFU (%)\na,3.0,1.0,31\nb,40,2.0,417\nc,3.1,1.02,32\n")

    assert "417 % is more than the device can compute" in told(found, FindingKind.PHYSICS)["b"]
    assert not any("'b'" in line for line in claim_lines(found) if "times as fast" in line)
    assert not any("'b'" in f.text for f in found.findings if f.kind is FindingKind.RANKING)
    assert "b" not in {row["run"] for row in reported_speeds(found).rows}
    assert "b (impossible)" in str(reported_rows(found).rows)
    assert "'b' is" not in reported_conclusion(found, None).markdown


def test_speeds_are_over_a_row_that_is_named() -> None:
    """The first row is left out if it can't be true, so "the first row" would say nothing."""
    found = reported_speeds(of_table("run,samples/s,s/it,MFU (%)\na,40,2.0,417\nb,3.0,1.0,31\nc,3.1,1.02,32\n"))

    assert found.json["layout"]["xaxis"]["title"]["text"] == "times as fast as 'b'"
    assert found.description == "The fastest run depends on the unit: 'b' by steps/s, 'c' by samples/s."
    assert {row["times as fast as 'b'"] for row in found.rows if row["run"] == "b"} == {"1"}


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (ROOT / "outputs", "make diagnose PARAMS=outputs/own/own_experiment.yaml"),
        (Path("/data/own"), "make diagnose PARAMS=/data/own/own/own_experiment.yaml"),
        (Path("/data/a b"), "make diagnose PARAMS=" + shlex.quote("'/data/a b/own/own_experiment.yaml'")),
    ],
)
def test_an_experiment_is_named_by_a_path_that_leads_to_it(outputs: Path, said: str) -> None:
    """Relative to the kit's folder if it lies there, and else as it is; make and its shell each take off quotes."""
    found = of_table("run,samples/s\na,3.0\nb,3.1\n")

    assert f"`{said}`" in reported_conclusion(found, outputs / "own" / "own_experiment.yaml").markdown


def test_what_the_model_needs_makes_a_row_impossible() -> None:
    """By its tokens a second alone, where the sizes of the model are known."""
    table = "run,tokens/s,s/it\na,3000,1.0\nb,90000,0.9\n"
    found = of_table(table, SIZES, MODEL, device="NVIDIA A100-SXM4-80GB")

    assert found.impossible == {"b"}
    assert of_table(table, None, MODEL, device="NVIDIA A100-SXM4-80GB").impossible == set()


def test_a_claim_on_an_impossible_row_does_not_hold() -> None:
    """Thirteen times faster by figures that can't be true."""
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "13"}
    (judged,) = of_table("run,samples/s,MFU\na,3.00,31 %\nb,39.0,417 %\n", claims=[claim]).claims

    assert str(judged.judgement).startswith("can't")
    assert "'b' can't be true" in judged.reason


@pytest.mark.parametrize(
    ("mfu", "hfu", "said"),
    [("35", "30", "is less than the MFU"), ("30", "60", "1.5 times at most"), ("30", "40", ""), ("30", "30", "")],
)
def test_hfu_holds_mfu_and_recomputation(mfu: str, hfu: str, said: str) -> None:
    """It is never less, and never more than another forward pass makes it."""
    found = told(of_table(f"run,s/it,MFU (%),HFU (%)\na,1.0,{mfu},{hfu}\n"), FindingKind.PHYSICS)

    assert bool(found) == bool(said)
    assert said in found.get("a", "")


@pytest.mark.parametrize(("mfu", "wrong"), [("42", False), ("40", False), ("84", True), ("0.42", True), ("21", True)])
def test_mfu_is_held_against_throughput(mfu: str, wrong: bool) -> None:
    """3000 tokens a second of 7 B parameters are about 42 % of an A100, however the FLOPs are counted."""
    found = of_table(f"run,tokens/s/GPU,MFU (%)\na,3000,{mfu}\n", SIZES, MODEL, device="NVIDIA A100-SXM4-80GB")

    assert ("a" in told(found, FindingKind.PHYSICS)) == wrong


def test_mfu_and_tokens_keep_their_ratio() -> None:
    """Twice the tokens at the same MFU is asked about; on twice the devices it is as it should be."""
    asked, fine = (of_table(f"run,tokens/s,MFU (%),gpus\na,3000,31,8\nb,6000,31,{n}\n").questions for n in (8, 16))

    assert any("were they of another model, length or device?" in q for q in asked)
    assert not any("another model" in q for q in fine)


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        (("2.1", "2.2", "21.5", "2.3"), ["c"]),
        (("2.1", "2120", "2.2"), ["b"]),
        (("0.21", "2.1", "2.2"), ["a"]),
        (("1.0", "9.0", "80", "700"), []),
        (("2.1", "21"), []),
        (("2.1", "2.9", "1.4"), []),
    ],
)
def test_a_value_unlike_its_neighbours_is_pointed_at(cells: tuple[str, ...], odd: list[str]) -> None:
    """Ten times those beside it, which agree; a series that grows has none."""
    rows = "".join(f"{name},{cell}\n" for name, cell in zip("abcd", cells, strict=False))
    found = of_table(f"run,s/it\n{rows}")

    assert list(told(found, FindingKind.NEIGHBOURS)) == odd
    assert all(any(f"{FindingKind.NEIGHBOURS}: {name}" in line for line in finding_lines(found)) for name in odd)


def test_a_larger_step_is_no_slip() -> None:
    """Ten times the batch takes ten times as long."""
    table = "run,per_device_train_batch_size,s/it\na,1,0.21\nb,10,2.0\nc,1,0.22\n"

    assert told(of_table(table), FindingKind.NEIGHBOURS) == {}


@pytest.mark.parametrize(
    ("repeats", "words"),
    [((100, 101, 99, 100, 480), "4.80 times more"), ((100, 99, 101, 48), "2.08 times less"), ((100, 140, 260), "")],
)
def test_a_repeat_far_from_others_that_are_close_is_pointed_at(repeats: tuple[int, ...], words: str) -> None:
    """Four that agree to 2 % and one of five times as much are no five measurements of one thing."""
    notes = told(of_table("run,samples/s\n" + "".join(f"x,{n}.0\n" for n in repeats)), FindingKind.NEIGHBOURS)

    assert bool(words) == bool(notes)
    assert all(f"{words} than the others: was it disturbed" in text for text in notes.values())


def test_a_repeat_unlike_the_others_is_pointed_at() -> None:
    """Milliseconds among seconds."""
    rows = [{"label": "a", "figures": {"seconds_per_step": ["2.1", "2.2", "2120"]}}]
    found = audit(validate({"name": "own", "reported": {"rows": rows}}, "own"))

    assert "one repeat is 2120 s/step" in told(found, FindingKind.NEIGHBOURS)["a"]


@pytest.mark.parametrize(
    ("a", "b", "speed_up", "judgement"),
    [
        ("51.5", "50.0", "1.03", "holds"),
        ("51", "50", "1.02", "can't"),
        ("2.1", "2.0", ">1", "can't"),
        ("2.10", "2.00", ">1", "holds"),
        ("3", "2", ">1.5", "can't"),
        ("3.10", "2.00", ">1.5", "holds"),
        ("2.13", "1.06", "2", "holds"),
        ("1", "1", "1.0", "can't"),
        ("2.13", "2.13", "1.0", "holds"),
        ("2.13", "1.06", "3", "contradicted"),
    ],
)
def test_a_claim_within_rounding_is_undecided(a: str, b: str, speed_up: str, judgement: str) -> None:
    """2 % where rounding alone allows 0 to 4 %, faster where it allows no change; more digits decide."""
    steps = {"a": a, "b": b}
    rows = [{"label": x, "figures": {"seconds_per_step": steps[x], "samples_per_step": 8}} for x in steps]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": speed_up}
    (judged,) = audit(validate({"name": "own", "reported": {"rows": rows, "claims": [claim]}}, "own")).claims

    assert str(judged.judgement).startswith(judgement)


@pytest.mark.parametrize(
    ("file", "reported", "impossible"),
    [
        ({}, {}, True),
        ({"deepspeed": {"zero_optimization": {"stage": 2}}}, {}, True),
        ({"deepspeed": {"zero_optimization": {"stage": 3}}}, {}, False),
        ({"deepspeed": {"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}}, {}, False),
        ({"deepspeed": "zero.json"}, {}, False),
        ({}, {"ignored": {"sharding": "by hand"}}, False),
    ],
    ids=["on_the_device", "gradients_spread", "weights_spread", "weights_on_the_host", "who_knows", "left_out"],
)
def test_weights_that_may_lie_elsewhere_need_no_room_on_the_device(
    file: dict, reported: dict, impossible: bool
) -> None:
    """7 billion weights take 13 GiB at least, where one device holds all of them; what a trial leaves out is asked
    about."""
    of_file = MODEL | {"training_arguments": MODEL["training_arguments"] | file}
    table = "run,s/it,memory_allocated_gib\na,1.0,4.0\n"
    found = of_table(table, SIZES | {"parameters": 7e9}, of_file, device="NVIDIA A100-SXM4-80GB", **reported)

    assert ("weights alone" in str(told(found, FindingKind.PHYSICS))) == impossible
    assert ("has sharding=by hand" in "\n".join(finding_lines(found))) == bool(reported)


LENGTHS = "run,{}per_device_train_batch_size,max_length,{}tokens/s,s/it\n"
LENGTHS += "long,{}4,2048,{}16384,0.50\nshort,{}4,1024,{}32768,0.50\n"


def test_a_step_has_no_more_tokens_than_its_samples() -> None:
    """4 samples of 1024 tokens are 4,096 and no 16,384; where nobody counted devices, four of them are asked about."""
    claim = {"text": "x", "baseline": "long", "treatment": "short", "speed_up": "2.0", "quantity": "tokens_per_second"}
    known = of_table(LENGTHS.format("GPUs,", "gradient_accumulation_steps,", *["1,"] * 4), claims=[claim])
    silent = of_table(LENGTHS.format(*[""] * 6))

    assert list(told(known, FindingKind.PHYSICS)) == ["short"]
    assert "more than 4 samples of at most 1024 tokens have" in told(known, FindingKind.PHYSICS)["short"]
    assert "'short' can't be true" in known.claims[0].reason
    assert told(silent, FindingKind.PHYSICS) == {}
    assert any(q.startswith("Was 'short' trained on 4 devices, or were batches accumulated?") for q in silent.questions)
    assert not any("'long' trained on" in q for q in silent.questions)


def test_packing_holds_as_many_tokens_as_fit() -> None:
    """A packed sample has its full length and no more, however many samples of the data are in it."""
    file = {**MODEL, "dataset": {"max_length": 2048, "padding": "packing", "tokenize": "once"}}
    found = of_table("run,GPUs,s/it,tokens/s\na,1,1.00,8192\nb,1,0.50,32768\n", file=file)

    assert list(told(found, FindingKind.PHYSICS)) == ["b"]


def test_an_mfu_beside_shares_is_a_share() -> None:
    """1.12 beside 0.47 is 112 %, which can't be; alone, or beside percentages, it is 1.12 %."""
    table = "run,tok/s/GPU,MFU\na,12000,{}\nb,13000,{}\nc,28000,1.12\n"
    shares, percentages = of_table(table.format("0.47", "0.52")), of_table(table.format("47", "52"))

    assert "MFU of 112 % is more than the device can compute" in told(shares, FindingKind.PHYSICS)["c"]
    assert told(percentages, FindingKind.PHYSICS) == {}


def test_only_times_are_confused_with_other_times() -> None:
    """An MFU is no minute."""
    found = of_table("run,MFU (%)\na,45\nb,0.75\nc,44\n")
    times = of_table("run,s/it\na,1.0\nb,60\nc,1.1\n")

    assert "minutes" not in told(found, FindingKind.NEIGHBOURS)["b"]
    assert "were minutes and seconds confused?" in told(times, FindingKind.NEIGHBOURS)["b"]


def test_a_device_is_busy_for_all_of_the_time_at_most() -> None:
    """250 % are those of several devices; if they were not counted, they are asked about."""
    counted = of_table("run,GPUs,s/it,gpu util\na,1,1.0,250%\nb,4,0.5,250%\n")
    silent = of_table("run,s/it,gpu util\na,1.0,99%\nb,0.5,250%\n")

    assert told(counted, FindingKind.PHYSICS) == {"a": "1 device can't be busy for 250 % of the time"}
    assert [q for q in silent.questions if "as the sum of several?" in q and "'b'" in q]
    assert told(silent, FindingKind.PHYSICS) == {}


def test_reserved_memory_holds_what_is_allocated() -> None:
    """As PyTorch allocates tensors out of what it reserved."""
    found = of_table("run,s/it,memory_allocated_gib,memory_reserved_gib\na,1.0,70,40\nb,0.5,20,30\n")

    assert list(told(found, FindingKind.ARITHMETIC)) == ["a"]


def test_nothing_is_said_of_what_nobody_gave() -> None:
    """A table says nothing of tokenising, and samples a step that follow from two speeds assume nothing."""
    waits = of_table("run,s/it,data wait (s)\na,1.00,0.40\n")
    file = {"training_arguments": {"per_device_train_batch_size": 4}}
    described = of_table("run,s/it,data wait (s)\na,1.00,0.40\n", file=file)
    follows, assumed = (
        of_table(f"run,per_device_train_batch_size,s/it{more}\na,8,0.50{cell}\n")
        for more, cell in ((",samples/s", ",16.0"), ("", ""))
    )

    assert ["tokenises" in " ".join(found.questions) for found in (waits, described)] == [False, True]
    assert ["The audit assumes neither" in " ".join(found.questions) for found in (follows, assumed)] == [False, True]


@pytest.mark.parametrize(
    ("table", "accused"),
    [
        ("run,samples/step,samples/s,s/sample\na,1,21,0.0476\nb,32,410,0.00244\nc,64,455,0.0022\n", []),
        ("run,tok/s,tok/s/GPU,GPUs\na,25k,3.12k,8\nb,1.2M,9.4k,128\nc,50k,6.25k,8\n", []),
        ("run,samples/step,samples/s\na,32,21\nb,32,410\nc,64,455\n", ["a"]),
        ("run,samples/step,samples/s\na,4,0.41\nb,32,410\nc,64,455\n", ["a"]),
        ("run,samples/step,samples/s\na,64,100\nb,80,1000\nc,64,110\n", ["b"]),
    ],
)
def test_what_a_batch_or_many_devices_explain_is_no_slip(table: str, accused: list[str]) -> None:
    """A step of one sample is slow for it, and 16 times the devices are faster."""
    found = of_table(table)

    assert list(told(found, FindingKind.NEIGHBOURS)) == accused


def test_a_figure_that_contradicts_others_makes_no_neighbour() -> None:
    """The slip is told where it is, and not once more in the rows beside it."""
    found = of_table("run,samples/s,s/sample\na,400,0.0025\nb,410,0.00244\nc,42,0.00238\n")

    assert [f.where for f in found.faults] == ["c"]
    assert not told(found, FindingKind.NEIGHBOURS)


@pytest.mark.parametrize(
    "table",
    [
        "model,tokens/s\n125M,400000\n350M,200000\n7B,15000\n",
        "run,tokens/s\ngpt-125m,400000\ngpt-350m,200000\nllama-7b,15000\n",
        "GPU,samples/s\nA100,100\nH100,180\nCPU,1.5\n",
        "run,samples/s\nA100 bf16,100\nH100 bf16,180\nT4 fp16,9\n",
        "dataset,samples/s\nnews,100\nbooks,90\nimages,5\n",
        "run,max_length,s/it\na,128,0.1\nb,256,0.2\nc,8192,6.5\n",
    ],
)
def test_another_model_device_or_length_is_no_slip(table: str) -> None:
    """It is slower or faster by any factor."""
    assert told(of_table(table), FindingKind.NEIGHBOURS) == {}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("run,layers,samples/s\na,12,100\nb,24,80\nc,96,5\n", "layers (96)"),
        ("run,kernel,samples/s\na,plain,100\nb,fused,80\nc,remote,5\n", "kernel (remote)"),
        ("run,params (M),samples/s\na,0.5,100\nb,0.7,80\nc,9.5,5\n", "params (M) (9.5)"),
    ],
)
def test_what_was_not_read_may_be_why_a_row_is_unlike_others(table: str, why: str) -> None:
    """So it is asked about, and is no slip."""
    found = of_table(table)

    assert told(found, FindingKind.NEIGHBOURS) == {}
    assert any(
        "less than in the rows beside it" in q and f"is it by its {why}, or by another unit" in q
        for q in found.questions
    )


def test_a_slip_in_a_table_of_one_model_is_still_found() -> None:
    """The words that name it are the same in all rows; nor is a thousandth another model."""
    same = of_table("run,model,tokens/s\na,7B,4000\nb,7B,4100\nc,7B,41\n")
    far = of_table("run,tokens/s\ngpt-125m,400000\ngpt-350m,200000\nllama-7b,15\n")

    assert [["c"], ["llama-7b"]] == [[*told(found, FindingKind.NEIGHBOURS)] for found in (same, far)]


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        ("file system,s/it\nlocal,0.50\nnfs,0.52\nfuse,31\n", True),
        ("network,s/it\nib,0.50\nroce,0.52\nethernet,31\n", True),
        ("model parallel,s/it\nddp,0.50\nfsdp,0.52\nzero,5.1\n", True),
        ("model,s/it\nbert,0.50\nroberta,0.52\nllama,31\n", True),
        ("run,samples/s\nA100 bf16,100\nH100 bf16,180\nCPU fp32,2\n", True),
        ("model_name,s/it\nbert,0.50\nroberta,0.52\nllama,5.1\n", False),
        ("GPU type (80 GB),s/it\nx,0.50\ny,0.52\nz,5.1\n", False),
    ],
)
def test_a_slip_of_a_unit_is_asked_about_even_where_the_subject_differs(table: str, asked: bool) -> None:
    """Up to 24 times another model or device is reason enough; no other column is, whose name only has such letters."""
    found = of_table(table)

    assert told(found, FindingKind.NEIGHBOURS) == {}
    assert asked == any("or by another unit or decimal point?" in question for question in found.questions)


def of_steps(names: tuple[str, str], speeds: tuple[int, int]) -> Audit:
    """256 samples of at most 1024 tokens in a step of 10 s: 26,214 tokens a second at most."""
    head = "run,bs/gpu,grad accum,GPUs,seq len,s/step,tokens/s\n"
    rows = [f"{name},4,8,8,1024,10.0,{speed}\n" for name, speed in zip(names, speeds, strict=True)]
    return of_table("".join([head, *rows]))


@pytest.mark.parametrize(
    ("names", "speeds", "impossible"),
    [
        (("base", "flash"), (38400, 45100), []),
        (("base", "flash"), (24000, 45100), ["flash"]),
        (("base", "flash"), (62000, 66000), ["base", "flash"]),
        (("triplets", "triplets flash"), (62000, 66000), []),
        (("dpo", "dpo flash"), (162000, 166000), ["dpo", "dpo flash"]),
    ],
)
def test_a_sample_may_be_two_sequences(names: tuple, speeds: tuple, impossible: list[str]) -> None:
    """As pairs of answers are; more only where words say so, and only where all rows have as many more."""
    found = of_steps(names, speeds)

    assert impossible == list(told(found, FindingKind.PHYSICS))
    assert (not impossible) == any(" sequences, as a pair of answers has?" in q for q in found.questions)


def test_a_decimal_point_in_the_wrong_place_is_seen_by_the_size_of_a_sample() -> None:
    """A speed ten times too small may look like those beside it, and a sample has a tenth of the tokens then."""
    table = "run,global batch,s/step,tokens/s\na,512,2.4126,434630\nb,512,1.9883,527370\nc,512,1.7619,{}\n"
    slips = [f.text for f in of_table(table.format("59514")).findings if f.kind is FindingKind.NEIGHBOURS]

    assert ["by its figures it has 204.8 tokens a sample, and each other row has 2048"] == [
        text.partition(":")[0] for text in slips
    ]
    for speed in ("595140", "297570", "72000"):  # as it is; half the length; padding that is not counted
        found = of_table(table.format(speed)).findings
        assert not [f for f in found if f.kind is FindingKind.NEIGHBOURS]


FLOPS = "run,TFLOPs/GPU,tokens/s/GPU,MFU (%)\na,521,11240,52.7\nb,511,11020,51.7\n{},{},{},{}\n"


@pytest.mark.parametrize(
    ("cells", "count", "asked"),
    [
        (("c", "469", "10120", "47.4"), 0, ""),
        (("c", "1039", "10120", "47.4"), 1, ""),
        (
            ("c", "939", "10120", "47.4"),
            0,
            "'c' has 1.80 times the FLOPs a second of 'a' on each device, and 0.899 times its MFU",
        ),
        (
            ("c", "469", "20240", ""),
            0,
            "'c' has 0.9 times the FLOPs a second of 'a' on each device, and 1.80 times its tokens",
        ),
        (("fp8 everywhere", "1139", "24000", ""), 0, ""),
        (("70B", "441", "980", ""), 0, ""),  # another model
    ],
)
def test_flops_of_a_device_are_held_against_its_peak(cells: tuple[str, ...], count: int, asked: str) -> None:
    """And against the MFU and the tokens of their row, as those of the first row are."""
    found = of_table(FLOPS.format(*cells), device="NVIDIA H100 80GB HBM3")

    assert ["more than the 989" in text for text in told(found, FindingKind.PHYSICS).values()] == [True] * count
    assert [asked in text for text in found.questions if "FLOPs a second" in text] == [True] * bool(asked)


@pytest.mark.parametrize(
    "line",
    [
        " iteration {n}/ 500 | elapsed time per iteration (ms): 2000.0 | throughput per GPU (TFLOP/s/GPU): 402.1 | "
        "global batch size: 512 |",
        "completed step: {n}, seconds: 2.000, TFLOP/s/device: 402.1, Tokens/s/device: 7000.1, total_weights: 65536",
    ],
)
def test_logs_say_the_flops_of_a_device(line: str, tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text("".join(line.format(n=n) + "\n" for n in range(20)))
    (run,) = audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own")).runs

    assert 402.1 == run.given["tflops_per_device"].middle


@pytest.mark.parametrize(
    ("steps", "accused"),
    [
        (("160", "120", "118", "99"), "c"),
        (("160", "120", "94.4", "99"), ""),
        (("160", "120", "188.8", "99"), ""),  # accumulated, or on two devices
        (("160", "150", "118", "99"), ""),  # nobody agrees
    ],
)
def test_a_step_of_no_whole_number_of_batches_is_told(steps: tuple[str, ...], accused: str) -> None:
    """Whosever batch a column may hold, where the other rows agree with it: 678 samples/s × 0.118 s are 80."""
    rates = (400, 533, 678, 646)
    rows = "".join(f"{name} workers,64,{s},{rate}\n" for name, s, rate in zip("abcd", steps, rates, strict=True))
    found = of_table(f"run,batch_size,batch time (ms),samples/s\n{rows}")

    assert [f"{accused} workers"] * bool(accused) == [
        f.where for f in found.findings if f.kind is FindingKind.ARITHMETIC
    ]


def test_a_cost_is_held_against_the_price_of_a_device_hour() -> None:
    table = "run,gpus,hours,gpu-hours,price per gpu-hour ($),cost ($)\na,1,38.0,38.0,2.50,95.00\nb,8,5.6,44.8,2.50,{}\n"

    assert {} == told(of_table(table.format("112.00")), FindingKind.ARITHMETIC)
    assert (
        "cost is given as 14 and follows as 112" in told(of_table(table.format("14.00")), FindingKind.ARITHMETIC)["b"]
    )


@pytest.mark.parametrize(("hours", "asked"), [("4.17", False), ("6.0", False), ("3.1", True)])
def test_an_epoch_that_takes_less_than_its_steps_is_asked_about(hours: str, asked: bool) -> None:
    """Its steps would have more samples than its batch. It may take more, as it also evaluates."""
    table = f"run,steps/h,batch,hours/epoch,samples per epoch\na,1800,32,6.95,400000\nb,3000,32,{hours},400000\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert asked is any(
        "The figures of 'b' make 43.01 samples a step, and its batch" in text for text in found.questions
    )


@pytest.mark.parametrize(
    ("hours", "found"), [("33.3", ""), ("51.0", "of an epoch of 'a' is not in its"), ("22.2", "tokens an epoch")]
)
def test_the_tokens_of_an_epoch_are_held_against_its_time(hours: str, found: str) -> None:
    """An epoch may take more than its tokens, and never less."""
    table = f"run,tokens/epoch,hours/epoch,tokens/s\na,1.2B,{hours},10000\n"
    said = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert bool(found) is any(found in text for text in (*said.questions, *(f.text for f in said.findings)) if found)
    assert bool(said.faults) is (found == "tokens an epoch")


@pytest.mark.parametrize(("speed", "devices"), [("86.4", True), ("84.0", True), ("70.0", False)])
def test_a_step_of_a_whole_number_of_batches_may_be_of_as_many_devices(speed: str, devices: bool) -> None:
    """Nobody says that two rows have as many."""
    table = f"run,batch,samples/s,steps/s\na,8,24.6,3.078\nb,8,{speed},2.7\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))
    (asked,) = [text for text in found.questions if "is one of its figures wrong" in text or "on 4 devices" in text]

    assert devices is ("was it on 4 devices, were batches accumulated, or is one of its figures wrong" in asked)


def test_the_conclusion_names_the_faults_of_a_table_without_claims() -> None:
    """Before it compares its rows, and so does the line of the index."""
    table = "run,GPUs,tokens/s,speedup\na,8,76000,1.0x\nb,64,531200,8.0x\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))
    fault = "b: The speed-up is given as 8, and by tokens/s it is 6.99 times as fast as 'a'."

    assert f"\n\n✘ {fault}\n\n'b' is 6.99 times" in reported_conclusion(found, None).markdown
    assert f"1 finding. {fault}" == answer(found)


def test_the_conclusion_names_the_unit_that_an_undecided_claim_was_read_from() -> None:
    """With what counts equal work, as padding may decide the rest."""
    rows = [
        {"label": "a", "figures": {"seconds_per_step": "2.10"}},
        {"label": "b", "settings": {"max_length": 1024}, "figures": {"seconds_per_step": "1.08"}},
    ]
    claim = {"text": "twice", "baseline": "a", "treatment": "b", "speed_up": "1.94", "quantity": "seconds_per_step"}
    settings = {
        "name": "own",
        "dataset": {"max_length": 2048},
        "training_arguments": {"per_device_train_batch_size": 4},
    }
    settings |= {"reported": {"rows": rows, "claims": [claim]}}
    said = reported_conclusion(audit(validate(settings, "own")), None).markdown.replace("\\", "")

    assert "Read in s/step 'b' is 1.94 times as fast; in tokens/s with every sample at full length" in said
    assert "The figures don't say how much of that is padding" in said
