"""Ratios that a report states beside its figures: speed-ups, scaling efficiencies, percentages of time and of money."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.settings import SettingsError
from slowstep.settings.load import validate


def report(table: str, **said: object) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table, **said}}, "own"))


def faults(found: Audit) -> list[str]:
    return [f"{f.where}: {f.text}" for f in found.findings if f.kind is FindingKind.ARITHMETIC]


SCALING = "GPUs,time per epoch (s),speedup,efficiency\n1,1000,1.00,100 %\n2,520,1.92,96 %\n8,160,{},{}\n"


def test_speed_ups_that_follow_are_no_fault() -> None:
    """Nor are their efficiencies."""
    assert [] == faults(report(SCALING.format("6.25", "78 %")))


def test_a_speed_up_that_does_not_follow_is_found() -> None:
    """Its efficiency, which was reckoned from it, too."""
    speed_up, efficiency = faults(report(SCALING.format("7.25", "91 %")))

    assert "given as 7.25, and by s/epoch it is 6.25 times as fast as" in speed_up
    assert "given as 91 %, and by s/epoch" in efficiency
    assert efficiency.endswith("it is 78.12 %")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (("baseline", "1.00x", "1.27x"), []),  # by its words the first row is the reference, and by its number the next
        (("1x", "+24 %", "+56 %"), []),
        (("1x", "+19 %", "+56 %"), ["19 % is the time that it saves"]),
        (("-", "124 %", "ref"), []),
        (("1x", "+24 %", "2.9x"), ["it is 1.56 times as fast as 'a'"]),
    ],
)
def test_a_speed_up_has_many_forms(cells: tuple[str, ...], found: list[str]) -> None:
    """A word is none, a percentage without a sign could be either of two, and time that is saved is no speed-up."""
    table = "run,samples/s,speed-up\n" + "".join(
        f"{name},{speed},{cell}\n" for name, speed, cell in zip("abc", ("100.0", "124.0", "156.0"), cells, strict=True)
    )
    told = faults(report(table))

    assert len(found) == len(told)
    assert all(words in text for words, text in zip(found, told, strict=True))


@pytest.mark.parametrize("base", ["", "—", "-", "0 %", "baseline", "**ref**", "1x"])
def test_a_row_that_states_no_ratio_is_the_base_of_the_others(base: str) -> None:
    """However its cell says so; what is right beside it is left alone."""
    table = f"| run | samples/s | speedup |\n|--|--|--|\n| a | 100.0 | {base} |\n| b | 150.0 | {{}} |\n"
    scaling = f"| GPUs | samples/s | efficiency |\n|--|--|--|\n| 1 | 100.0 | {base} |\n| 8 | 400.0 | {{}} |\n"
    wrong = faults(report(table.format("2.5x"))) + faults(report(scaling.format("95 %")))
    right = faults(report(table.format("1.5x"))) + faults(report(scaling.format("50 %")))

    assert "given as 2.5, and by samples/s it is 1.50 times as fast as 'a'" in wrong[0]
    assert base in ("1x", "0 %") or "given as 95 %, and by samples/s beside 'row 1' it is 50 %" in wrong[1]
    assert [] == right


def test_ratios_to_a_row_that_nobody_names_are_asked_about() -> None:
    """They may be to a row of another table, so that nothing is accused; nor is that the figures agree all that is
    said."""
    found = report("run,samples/s,speedup\na,100.0,1.2x\nb,150.0,2.5x\nc,120.0,-\n")

    assert [] == faults(found)
    assert any("Which row are the speed-ups to, as that of 'a' (1.2)?" in text for text in found.questions)


EFFICIENCIES = "GPUs,samples/s,speedup,efficiency\n1,100,1,100%\n2,195,1.95,97.5%\n4,380,3.8,{}\n8,720,7.2,{}\n"


def test_an_efficiency_is_the_speed_up_of_its_own_row_by_its_devices() -> None:
    """Or by the row above in all rows; an author does not change the way from row to row."""
    (fault,) = faults(report(EFFICIENCIES.format("95%", "95%")))

    assert "row 4: the scaling efficiency is given as 95 %, and a speed-up of 7.2 on 8 devices is 90 %" == fault
    assert [] == faults(report(EFFICIENCIES.format("95%", "90%")))
    assert [] == faults(report(EFFICIENCIES.format("97.4%", "94.7%")))


def test_a_speed_up_may_be_that_of_another_figure() -> None:
    """Steps may be what the author compared; whether that is equal work is judged by claims."""
    table = "run,per_device_train_batch_size,s/it,speedup\na,8,2.00,1\nb,16,2.50,0.80\nc,16,2.50,1.6\nd,16,2.50,1.3\n"

    assert ["d: the speed-up is given as 1.3,"] == [text[:32] for text in faults(report(table))]


@pytest.mark.parametrize(
    "rows",
    [
        "GPUs,s/it,efficiency\n1,1.000,100 %\n2,1.053,95 %\n4,1.099,91 %\n",
        "GPUs,s/it,speedup\n1,1.000,1.00x\n2,1.053,1.90x\n4,1.099,3.64x\n",
        "run,s/it,speedup\na,1.000,1.00x\nb,0.833,1.20x\nc,0.757,1.10x\n",
        "run,s/it,speedup (%)\na,1.000,0\nb,0.990,1\nc,0.806,24\n",
    ],
    ids=["weak scaling", "speed-ups of it", "over the row above", "percent"],
)
def test_sound_ratios_are_not_accused(rows: str) -> None:
    """Of devices that each have their own batch, of each row over the one above, and in percent."""
    assert [] == faults(report(rows))


@pytest.mark.parametrize("stated", ["speedup\n1,1000,1.00x\n2,1400,2.8x", "efficiency\n1,1000,100 %\n2,1400,140 %"])
def test_tokens_a_second_are_all_the_work(stated: str) -> None:
    """They need not be taken times the devices once more."""
    assert 1 == len(faults(report(f"GPUs,tokens/s,{stated}\n")))


def test_a_table_of_speed_ups_hides_no_other() -> None:
    """It measures nothing itself."""
    ratios = "| run | speedup |\n|--|--|\n| a | 1x |\n| b | 2x |\n"
    measured = "| run | samples/s |\n|--|--|\n| a | 100.0 |\n| b | 200.0 |\n"

    assert ["a", "b"] == [run.label for run in report(f"{ratios}\n{measured}").runs]


def test_half_the_hours_on_twice_the_devices_are_as_many_device_hours() -> None:
    """A claim on them is read from them. Restarts and idle devices may make more of them."""
    table = "run,GPUs,hours,GPU-hours\na,8,10.0,80.0\nb,16,5.0,80.0\n"
    said = {"text": "half of them", "baseline": "a", "treatment": "b", "speed_up": "2", "quantity": "device_hours"}
    found = report(table, claims=[said])

    assert "in device-hours it is 1.00 times as cheap" in found.claims[0].reason.lower()
    assert [] == faults(report(table.replace("80.0\nb", "95.0\nb")))
    assert 1 == len(faults(report(table.replace("80.0\nb", "800.0\nb"))))


def test_device_hours_are_hours_times_devices() -> None:
    """A slip in them is found."""
    (found,) = faults(report("run,GPUs,wall-clock (h),GPU-hours\na,8,24.0,192\nb,32,40.0,1120\n"))

    assert "b: device-hours is given as 1120 and follows as 1280" in found


def test_a_price_may_be_that_of_each_device() -> None:
    """A cost that follows neither from one nor from all is told with both."""
    table = "run,GPUs,hours,price_per_hour,cost\na,8,10.0,2.00,160.00\nb,16,5.0,$2.00,$106.00\n"
    (found,) = faults(report(table))

    assert "b: cost is given as 106 and follows as 10 " in found
    assert "Were the price that of one of 16 devices, it would be 160" in found


@pytest.mark.parametrize(
    ("percentage", "told"),
    [
        ({"text": "hours fell by 100 %", "percent": "100", "before": "10.0", "after": "5.0"}, "is 50 %"),
        ({"text": "63 % less time", "percent": "63", "before": "0.812", "after": "0.498"}, "is 38.67 %"),
        ({"text": "saves 50 % of the cost", "percent": "50", "before": "200.0", "after": "133.3"}, "is 33.35 %"),
        ({"text": "21 % faster", "percent": "21", "before": "0.812", "after": "0.640"}, "is 26.88 % "),
        ({"text": "27 % slower, more memory", "percent": "27", "before": "0.812", "after": "0.640"}, "is -21.18 %"),
        ({"text": "cut by 27 %, at higher memory", "percent": "27", "before": "0.812", "after": "0.640"}, "21.18 %"),
        ({"text": "27 % faster, step time fell", "percent": "27", "before": "0.812", "after": "0.640"}, ""),
        ({"text": "27 % faster with less memory", "percent": "27", "before": "0.812", "after": "0.640"}, ""),
        ({"text": "63 % faster", "percent": "63", "before": "0.812", "after": "0.498"}, ""),
        ({"text": "39 % less time", "percent": "39", "before": "0.812", "after": "0.498"}, ""),
    ],
)
def test_what_is_less_by_a_share_is_not_what_is_faster_by_it(percentage: dict, told: str) -> None:
    """Half the time is 50 % less, and 100 % faster."""
    percentage |= {} if "cost" in percentage["text"] else {"quantity": "seconds_per_step"}
    found = faults(report("run,s/it\na,1.0\n", percentages=[percentage]))

    assert bool(told) == bool(found)
    assert all(told in text for text in found)


EPOCHS = "run,samples/s,time per epoch (min)\namp,2811,7.6\nlast,3190,{}\n"


def test_a_faster_row_with_longer_epochs_is_doubted() -> None:
    """An epoch is the same data: by one of its figures the row is faster, by the other slower."""
    said = {"text": "13 % faster", "baseline": "amp", "treatment": "last", "speed_up": "1.13"}
    longer, shorter = (report(EPOCHS.format(minutes), claims=[said]) for minutes in ("9.7", "6.7"))

    assert "in s/epoch it is 0.784 times as fast, and an epoch is the same data" in longer.claims[0].reason
    assert "is it the same data" in " ".join(longer.questions)
    assert ["can't be decided from these figures", "holds"] == [str(f.claims[0].judgement) for f in (longer, shorter)]
    assert "same data" not in " ".join(shorter.questions)


def test_a_ratio_may_be_one_of_a_column_that_was_not_read() -> None:
    """Its header is no unit of this kit's, and its numbers give the ratio; without it the ratio is a fault."""
    rows = [("1", "100", "72000", "1.00", "100%"), ("4", "392", "19800", "3.64", "91%")]
    header = ("gpus", "samples_per_s", "train_time_s", "speedup", "efficiency")
    whole = "".join(",".join(cells) + "\n" for cells in (header, *rows))
    part = "".join(",".join((*cells[:2], *cells[3:])) + "\n" for cells in (header, *rows))

    assert [] == faults(report(whole))
    assert 2 == len(faults(report(part)))


@pytest.mark.parametrize("header", ["steps to 3.28", "steps"])
def test_a_speed_up_may_be_that_of_fewer_steps(header: str) -> None:
    """8,300 steps of 1.865 s in place of 20,000 of 1.80 s take 2.33 times less; no figures make 3.5 of them."""
    table = f"run,s/it,{header},speedup\nAdamW,1.80,20000,1.0x\nMuon,1.865,8300,{{}}\n"

    assert [] == faults(report(table.format("2.33x")))
    assert 1 == len(faults(report(table.format("3.5x"))))


def test_an_efficiency_without_devices_is_another_one() -> None:
    """That of padding is a share of real tokens, and to no row."""
    table = "padding,tokens_per_s,efficiency\nmax_length,61200,38%\nlongest,60800,71%\n"

    assert not any("efficienc" in question for question in report(table).questions)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("100%", "300%"), 3.0),
        (("0%", "200%"), 3.0),
        (("0", "200%"), 3.0),
        (("1x", "~3x"), 3.0),
        (("-", "200% faster"), 3.0),
        (("1x", "3.0x (+200%)"), 3.0),
        (("1x", "1.35x"), 1.35),
        (("baseline (1x)", "3.0x ± 0.1"), 3.0),
        (("1x", "2.9-3.1x"), 3.0),
    ],
)
def test_ratios_are_read_as_people_write_them(cells: tuple[str, str], said: float) -> None:
    """A percentage without a sign is what the first row tells: of the whole at 100 %, and of more at 0 %."""
    wrong, right = (
        report(f"config,s/it,speedup\nbase,{speed},{cells[0]}\nnew,1.0,{cells[1]}\n") for speed in ("2.0", said)
    )

    assert said == pytest.approx(right.runs[1].given["speed_up"].middle)
    assert (1, 0) == (len(faults(wrong)), len(faults(right)))


@pytest.mark.parametrize("cell", ["35% slower", "124 %", "1.2-1.4x or so", "about 2"])
def test_a_ratio_that_is_not_understood_is_asked_about(cell: str) -> None:
    """It does not vanish."""
    found = report(f"config,s/it,speedup\nbase,2.0,-\nnew,1.0,{cell}\n")

    assert [] == faults(found)
    assert any(f"'speedup' says '{cell}', which is not read" in question for question in found.questions)


def test_a_comma_in_a_ratio_is_asked_about() -> None:
    """It may be a decimal point."""
    with pytest.raises(SettingsError, match=r"is the comma a decimal point\? Write '1.35'"):
        report("| config | s/it | speedup |\n|-|-|-|\n| base | 2.0 | 1 |\n| new | 1.0 | 1,35x |\n")


TIMES = "run,step time (ms),{}\na,200,{}\nb,150,{}\nc,260,{}\n"


@pytest.mark.parametrize(
    ("header", "cells", "found"),
    [
        ("Δ step time", ("-", "-25 %", "+30 %"), []),
        ("change in step time (%)", ("0", "−25.0", "+30.0"), []),
        (
            "step time change",
            ("", "-33 %", "+30 %"),
            ["said to fall by 33 %, and by steps/s beside 'a' it falls by 25 %"],
        ),
        ("Δ step time", ("", "-33 %", "+30 %"), ["33 % is how much faster it is"]),
        ("time saved", ("-", "25 %", "-"), []),
        ("time saved", ("-", "33 %", "-"), ["33 % is how much faster it is"]),
        ("reduction in step time", ("", "25%", ""), []),
        ("cumulative speedup", ("1.00x", "1.33x", "0.77x"), []),
        ("Speedup (vs. baseline)", ("1.00x", "1.25x", "0.77x"), ["given as 1.25, and by steps/s it is 1.33 times"]),
        ("speedup (vs prev)", ("-", "1.33x", "0.58x"), []),
        ("change", ("-", "-33 %", "+30 %"), []),  # of what?
    ],
)
def test_a_change_of_a_time_is_no_speed_up(header: str, cells: tuple[str, ...], found: list[str]) -> None:
    """25 % of the time are saved where 33 % more steps are done in a second. A header tells which it is."""
    told = faults(report(TIMES.format(header, *cells)))

    assert len(found) == len(told)
    assert all(words in text for words, text in zip(found, told, strict=True))


def test_a_change_of_a_time_without_a_sign_is_asked_about() -> None:
    """It could be more or less, and so could what is saved with a sign."""
    for header, cell in (("Δ step time", "25 %"), ("time saved", "-25 %")):
        found = report(TIMES.format(header, "-", cell, "-"))

        assert any(f"'{header}' says '{cell}', which is not read" in question for question in found.questions)
        assert [] == faults(found)


OTHER_WORK = "run,{},samples/s,{},speedup\na,{},2.00,{},1.00x\nb,{},4.00,{},{}\n"


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (
            ("seq_len", "tokens/s", "2048", "4096", "1024", "4096", "2.00x"),
            "in samples/s beside 'a'; in tokens/s",
        ),
        (("seq_len", "tokens/s", "2048", "4096", "1024", "4096", "1.00x"), ""),
        (
            ("global batch", "s/step", "8", "4.00", "4", "1.00", "4.00x"),
            "in steps/s beside 'a'; in samples/s",
        ),
        (("global batch", "s/step", "8", "4.00", "4", "1.00", "2.00x"), ""),
        (("note", "tokens/s", "padded", "4096", "trimmed", "4096", "2.00x"), ""),  # padding that is gone, perhaps
        (("gpus", "s/step", "1", "4.00", "2", "4.00", "1.00x"), ""),  # each device has its own batch
    ],
)
def test_a_speed_up_of_other_work_is_a_unit_trap(cells: tuple[str, ...], found: str) -> None:
    """Where the figures tell that the work is another one, and which unit counts it as it is."""
    traps = [f.text for f in report(OTHER_WORK.format(*cells)).findings if f.kind is FindingKind.UNIT]

    assert [found in text for text in traps] == [True] * bool(found)


@pytest.mark.parametrize(("name", "accused"), [("packing", False), ("no padding, varlen", False), ("compiled", True)])
def test_a_speed_up_by_packing_is_asked_about(name: str, accused: bool) -> None:
    """Its samples are several, and the tokens of the row beside it may count padding. The time of an epoch tells."""
    table = "run,samples/s,tokens/s,speedup{}\ndynamic padding,3.1,6349,1.0x{}\n{},3.0,6144,2.6x{}\n"
    found = report(table.format("", "", f'"{name}"', ""))

    assert accused is bool(faults(found))
    assert accused is not any(f"Is the speed-up of '{name}' (2.6) one of samples" in text for text in found.questions)
    assert faults(report(table.format(",epoch (h)", ",2.0", f'"{name}"', ",1.0")))
    assert not faults(report(table.format(",epoch (h)", ",2.6", f'"{name}"', ",1.0")))


@pytest.mark.parametrize("header", ["% faster", "faster (%)", "faster", "faster than the baseline (%)"])
@pytest.mark.parametrize(("said", "accused"), [("22.1%", False), ("+22.1%", False), ("18.1%", True)])
def test_a_percentage_of_how_much_faster_needs_no_sign(header: str, said: str, accused: bool) -> None:
    """Less than nothing is slower. What is the time that it saves is named."""
    found = faults(report(f"run,it/s,{header}\na,3.21,\nb,3.92,{said}\nc,3.05,-5.0%\n"))

    assert accused is bool(found)
    assert all("18 % is the time that it saves" in text for text in found)


@pytest.mark.parametrize("header", ["speed vs A10", "Throughput (vs. A10)", "perf relative to A10"])
def test_a_speed_beside_that_of_another_row_is_a_speed_up(header: str) -> None:
    assert not faults(report(f"gpu,tokens/s,{header}\nA10,2100,1.0x\nA100,6950,3.3x\n"))
    assert faults(report(f"gpu,tokens/s,{header}\nA10,2100,1.0x\nA100,6950,5.3x\n"))


@pytest.mark.parametrize("header", ["vs. baseline", "Δ vs base", "change vs the first (%)"])
def test_a_change_beside_one_figure_is_of_that_one(header: str) -> None:
    """With its sign. Where several figures are measured, nobody says which of them changed."""
    speeds = "loader,img/s,{0}{1}\nPIL,1120,{2}\nDALI,2310,{3}{2}\n"
    times = "loader,s/it,{0}\nPIL,2.0,\nDALI,1.5,{1}\n"

    assert [True, False] == [bool(faults(report(speeds.format(header, "", "", said)))) for said in ("+206%", "+106%")]
    assert [True, False] == [bool(faults(report(times.format(header, said)))) for said in ("-33%", "-25%")]
    assert not faults(report(speeds.format(header, ",mem (GiB)", ",3.1", "+206%")))
    assert not faults(report(speeds.format(f"{header} prev", "", "", "+206%")))


@pytest.mark.parametrize("header", ["nodes", "num_hosts", "batch", "seq len (max)", "n workers", "dp"])
def test_the_size_of_a_run_is_no_proof_of_its_speed_up(header: str) -> None:
    """Ideal speed-ups are not those that were measured. A time that was not read may be what the authors mean."""
    table = "run,{},tokens/s,speedup\na,{},76000,1.0x\nb,{},139000,{}x\n"

    assert faults(report(table.format(header, 1, 2, "2.0")))
    assert not faults(report(table.format(header, 1, 2, "1.83")))
    assert not faults(report(table.format("GPU time", 412, 206, "2.0")))


@pytest.mark.parametrize("header", ["Speedup (cumulative)", "speed-up (total)", "Speedup [overall]"])
def test_a_speed_up_that_grows_row_by_row_is_one_beside_the_first(header: str) -> None:
    """That of each row beside the one above it is left alone."""
    table = f"run,tokens/s,Speedup (incremental),{header}\na,10000,1.0x,1.0x\nb,18000,1.8x,1.8x\nc,21600,1.2x,{{}}\n"

    assert not faults(report(table.format("2.16x")))
    assert faults(report(table.format("3.0x")))


@pytest.mark.parametrize("header", ["total hours", "Total Hours"])
def test_total_hours_and_dollars_are_those_of_the_whole_run(header: str) -> None:
    (run,) = report(f"run,steps,s/step,{header},$/h,total $\na,10000,3.6,10.0,2.0,$20.0\n").runs

    assert (10.0, 20.0) == (run.given["hours"].middle, run.given["cost"].middle)
    assert faults(report(f"run,steps,s/step,{header}\na,10000,3.6,8.0\n"))
