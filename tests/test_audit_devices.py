"""Devices by the names that tools and people give them: the right data sheet, or none."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, Judgement, audit
from slowstep.judgement.devices import PEAKS, peak_of
from slowstep.settings.load import validate


def report(table: str, **said: object) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table, **said}}, "own"))


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("A100 (40 GB, SXM)", "NVIDIA A100-SXM4-40GB"),
        ("A100 40GB PCIe", "NVIDIA A100-PCIE-40GB"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("H100 SXM5 80 GB", "NVIDIA H100 80GB HBM3"),
        ("h100-pcie", "NVIDIA H100 PCIe"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("rtx4090 24GB", "NVIDIA GeForce RTX 4090"),
        ("L4", "NVIDIA L4"),
        ("L40S", "NVIDIA L40S"),
        ("A10G", "NVIDIA A10G"),
        ("MI300X", "AMD Instinct MI300X"),
        ("A5000", "NVIDIA RTX A5000"),
        ("RTX 4080 Super 16 GB", "NVIDIA GeForce RTX 4080 SUPER"),
        ("RTX 4060 Ti 8GB", "NVIDIA GeForce RTX 4060 Ti"),
        ("B300 SXM 288 GB", "NVIDIA B300 SXM6 AC"),
        ("B200 180GB", "NVIDIA B200"),
        ("NVIDIA H20", "NVIDIA H20"),
    ],
)
def test_a_device_is_known_by_what_tools_print(said: str, known: str) -> None:
    """With its vendor or without, and however its words are parted and ordered."""
    assert peak_of(said) is PEAKS[known]


@pytest.mark.parametrize(
    "said",
    [
        *("", "NVIDIA", "RTX", "H100", "A100", "A100 PCIe", "A100-80GB", "V100", "MI300"),
        *("RTX 4090 D", "RTX 4090 Laptop GPU", "A10-24Q", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"),
        *("L40 24GB", "H100 80GB HBM3e", "A100 SXM5 80GB"),
        *("RTX 3080", "H800", "H20-3e", "RTX PRO 6000 Blackwell Server Edition", "RTX 6000", "RTX A5000 Laptop GPU"),
    ],
)
def test_what_could_be_another_device_is_unknown(said: str) -> None:
    """A part of a device, a mobile sibling, a name that several have: no peak is better than another device's."""
    assert peak_of(said) is None


def test_every_known_name_is_one_device() -> None:
    """What a driver prints finds its own figures, whose source is named; no two devices share a name."""
    assert all(peak_of(name) is peak for name, peak in PEAKS.items())
    assert all(peak.source.startswith("data sheet: ") for peak in PEAKS.values())


@pytest.mark.parametrize(
    ("card", "tops", "times"),
    [
        *[("RTX 4060", 242, 8), ("RTX 4060 Ti", 353, 8), ("RTX 4070", 466, 8), ("RTX 4070 SUPER", 568, 8)],
        *[("RTX 4070 Ti", 641, 8), ("RTX 4070 Ti SUPER", 706, 8), ("RTX 4080", 780, 8), ("RTX 4080 SUPER", 836, 8)],
        *[("RTX 4090", 1321, 8), ("RTX 5060 Ti", 759, 16), ("RTX 5070", 988, 16), ("RTX 5070 Ti", 1406, 16)],
        *[("RTX 5080", 1801, 16), ("RTX 5090", 3352, 16)],
    ],
)
def test_rates_of_geforce_cards_follow_from_their_printed_tops(card: str, tops: float, times: int) -> None:
    """NVIDIA prints AI TOPS: FP8 (RTX 40) or FP4 (RTX 50) with sparsity, which is 8 or 16 times the rate here."""
    peak = peak_of(card)

    assert peak is not None
    assert peak.tflops == pytest.approx(tops / times, rel=0.002)


def test_an_ambiguous_device_is_asked_about() -> None:
    """With those that it could be."""
    data = {"name": "own", "reported": {"device": "A100 PCIe", "rows": [{"label": "a", "figures": {"hours": "1.0"}}]}}
    (question,) = (q for q in audit(validate(data, "own")).questions if "A100 PCIe" in q)

    assert "It could be NVIDIA A100-PCIE-40GB, NVIDIA A100 80GB PCIe." in question


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        ("run,GPU,tokens/s/GPU,tokens/s\na,8x H100,3000,12000\n", "4 devices by its figures, and '8x H100' says 8"),
        ("run,nodes,GPUs per node,samples/s,samples/s/GPU\na,4,8,3000,75\n", "and 4 nodes of 8 make 32"),
        ("run,GPU,tokens/s/GPU,tokens/s\na,4x H100,3000,12000\n", ""),
        ("run,nodes,GPUs per node,samples/s,samples/s/GPU\na,4,8,2400,75\n", ""),
        ("run,nodes,GPU,samples/s,samples/s/GPU\na,4,8xA100,2400,75\n", ""),
    ],
)
def test_words_that_count_other_devices_than_the_figures_are_asked_about(table: str, asked: str) -> None:
    """One of the speeds is wrong then, or the number in words."""
    questions = audit(validate({"name": "own", "reported": {"table": table}}, "own")).questions

    assert bool(asked) == any("devices by its figures" in question for question in questions)
    assert not asked or any(asked in question for question in questions)


@pytest.mark.parametrize(
    ("devices", "used", "impossible"),
    [("8", "512", False), ("8", "721", True), ("1", "512", True), ("8", "71.2", False)],
)
def test_memory_may_be_that_of_all_devices(devices: str, used: str, impossible: bool) -> None:
    """512 GiB are more than an H100 has, and less than eight of them have: it is asked."""
    rows = [{"label": "a", "figures": {"devices": devices, "tokens_per_second": "41200", "memory_used_gib": used}}]
    data = {"name": "own", "reported": {"device": "NVIDIA H100 80GB HBM3", "rows": rows}}
    found = audit(validate(data, "own"))

    assert impossible is bool(found.faults)
    assert ((devices, used) == ("8", "512")) is any("those of all its 8 devices?" in q for q in found.questions)


@pytest.mark.parametrize(
    ("devices", "cost", "asked", "faults"),
    [
        (16, "1966.40", "a node of 8 devices", 0),
        (16, "983.20", "", 0),
        (16, "15731.20", "", 0),  # the price of one device
        (16, "2949.60", "", 1),  # of three nodes, which 16 devices are not
        (1, "1966.40", "", 1),
    ],
)
def test_a_price_may_be_that_of_a_node(devices: int, cost: str, asked: str, faults: int) -> None:
    """98.32 an hour for eight devices, of which sixteen were used for ten hours."""
    table = f"run,GPUs,hours,$/hour,cost ($)\na,{devices},10.0,98.32,{cost}\n"
    found = audit(validate({"name": "own", "reported": {"table": table}}, "own"))

    assert faults == len(found.faults)
    assert bool(asked) is any(asked in q for q in found.questions if "price of an hour" in q)


@pytest.mark.parametrize(
    ("columns", "rows", "samples"),
    [
        ("GPUs,TP", ("64,1", "64,8"), (256, 256)),
        ("GPUs,tensor_parallel_size", ("64,-", "64,8"), (256, 256)),
        ("GPUs,TP/PP", ("64,1/1", "64,4/2"), (256, 256)),
        ("GPUs,parallelism", ("64,DDP", "64,TP4 PP2"), (256, 256)),
        ("GPUs,DP", ("64,64", "64,8"), (256, 256)),
        ("DP,TP", ("64,1", "8,8"), (256, 256)),
        ("GPUs,tensor parallel", ("64,no", "64,yes"), (256, None)),
        ("GPUs,parallelism", ("64,DDP", "64,4x2"), (256, None)),
        ("GPUs,TP", ("64,1", "64,7"), (256, None)),
        ("TP,attention", ("1,sdpa", "8,sdpa"), (4, None)),
        ("GPUs,TP", ("64,41200", "64,43100"), (256, 2048)),  # throughput
        ("GPUs,precision", ("64,bf16", "64,fp8"), (256, 2048)),
        ("GPUs,mp", ("8,16", "8,32"), (32, 256)),  # bits
        ("GPUs,mp", ("64,1", "64,8"), (256, 256)),
        ("GPUs,parallelism", ("64,DDP", "64,FSDP full shard"), (256, 2048)),
        ("GPUs,ulysses", ("64,1", "64,8"), (256, None)),
        ("GPUs,sequence parallel", ("64,no", "64,yes"), (256, 2048)),
    ],
)
def test_devices_that_hold_one_model_have_one_batch(
    columns: str, rows: tuple[str, str], samples: tuple[int | None, int | None]
) -> None:
    """64 devices in parts of 8 train 8 copies. Where the parts are not known, nor are the samples of a step."""
    table = f"run,micro batch,grad accum,s/step,{columns}\na,1,4,9.10,{rows[0]}\nb,1,32,9.60,{rows[1]}\n"
    found = report(table)
    known = [run.solved.known.get("samples_per_step") for run in found.runs]

    assert samples == tuple(figure and figure.middle for figure in known)
    assert (None in samples) == any("may be split over devices" in question for question in found.questions)
    assert [] == found.faults


@pytest.mark.parametrize(
    ("names", "judgement"),
    [
        (("tp1", "tp8"), Judgement.HOLDS),
        (("base", "TP4-PP2"), Judgement.HOLDS),
        (("base", "tp4pp2"), Judgement.HOLDS),
        (("base", "8-way tensor parallel"), Judgement.UNDECIDED),
        (("base", "8 times accumulated"), Judgement.CONTRADICTED),
    ],
)
def test_the_name_of_a_row_may_say_how_its_model_is_split(names: tuple[str, str], judgement: Judgement) -> None:
    """5 % slower at the same global batch, or 7.6 times as fast if each device has a batch of its own."""
    a, b = names
    table = f"run,GPUs,micro batch,grad accum,s/step\n{a},64,1,4,9.10\n{b},64,1,32,9.60\n"
    claim = {"text": "x", "baseline": a, "treatment": b, "speed_up": "0.948", "quantity": "seconds_per_step"}

    assert judgement is report(table, claims=[claim]).claims[0].judgement


def test_a_smaller_global_batch_than_devices_have_is_asked_about() -> None:
    """Each model may lie on two devices; 300 samples fit no number of them."""
    table = "run,GPUs,micro batch,global batch,s/step\na,512,1,{},9.60\n"
    half, odd = (report(table.format(samples)) for samples in (256, 300))

    assert [] == half.faults
    assert any("Is the model of 'a' split over 2 devices?" in question for question in half.questions)
    assert 256 == half.runs[0].solved.known["samples_per_step"].middle
    assert 1 == len(odd.faults)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("TP", ("64.0", "80.0")),  # a throughput
        ("CP", ("yes", "no")),  # checkpointing
        ("DP", ("yes", "yes")),
        ("DP", ("0.1", "0.1")),  # the rate of dropping paths
    ],
)
def test_other_things_of_two_letters_split_no_model(columns: str, rows: tuple[str, str]) -> None:
    table = f"run,GPUs,bs/gpu,s/step,{columns}\na,8,4,0.50,{rows[0]}\nb,8,8,0.80,{rows[1]}\n"

    assert [32, 64] == [run.solved.known["samples_per_step"].middle for run in report(table).runs]


@pytest.mark.parametrize(
    ("text", "judgement"),
    [
        ("the new recipe uses the GPU better and trains 1.9 times as fast", Judgement.UNDECIDED),
        ("twice the GPUs train 1.9 times as fast", Judgement.HOLDS),
    ],
)
def test_a_claim_that_speaks_of_a_device_is_not_on_their_number(text: str, judgement: Judgement) -> None:
    table = "run,GPUs,tokens/s\nold recipe,8,41200\nnew recipe,16,78300\n"
    claim = {"text": text, "baseline": "old recipe", "treatment": "new recipe", "speed_up": "1.90"}

    assert judgement is report(table, claims=[claim]).claims[0].judgement


def test_the_price_of_more_devices_is_no_other_price() -> None:
    """4 USD for an hour of each device in both rows."""
    table = "run,GPUs,hours,price/hour,cost\none GPU,1,40.0,4.00,160.00\neight GPUs,8,5.50,32.00,176.00\n"
    claim = {"text": "eight GPUs cost 10 % more", "baseline": "one GPU", "treatment": "eight GPUs"}
    claim |= {"speed_up": "0.909", "quantity": "cost", "factor": "processes"}

    assert Judgement.HOLDS is report(table, claims=[claim]).claims[0].judgement
