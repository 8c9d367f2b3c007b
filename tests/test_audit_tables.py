"""Tables of many rows, of a run's course, and with columns whose meaning nobody knows."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from slowstep.audit import Audit, FindingKind, Judgement, audit
from slowstep.audit.figures import parse
from slowstep.audit.read import Unreadable, read_file, read_table
from slowstep.audit.read.tables import table_rows
from slowstep.audit.terminal_lines import claim_lines
from slowstep.settings import SettingsError
from slowstep.settings.load import validate


def report(table: str, *claims: dict) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table, "claims": list(claims)}}, "own"))


def claim(factor: str | None = None, speed_up: str = "2.5") -> dict:
    return {"text": "b is faster", "baseline": "a", "treatment": "b", "factor": factor, "speed_up": speed_up}


# -- the course of a run --


def test_a_history_of_steps_is_one_run(tmp_path: Path) -> None:
    """However long it is; the median of its later half counts, and epochs and the learning rate tell no runs apart."""
    path = tmp_path / "train.csv"
    steps = "".join(f"{i},{i / 100},{0.1 / (i + 1):.6f},{9000 if i < 999 else 4000 + i % 3}\n" for i in range(20_000))
    path.write_text("step,epoch,learning_rate,tokens/s\n" + steps)
    (row,) = read_table(path)

    assert ("train", {"tokens_per_second": "4001"}, {}) == (row["label"], row["figures"], row["settings"])


def test_steps_of_one_run_are_no_repeats() -> None:
    """Their spread says nothing about noise; a run that begins anew is measured again."""
    lines = "\n".join(f"{run},{i},8,{pace + i % 2 / 100:.2f}" for run, pace in (("a", 2), ("b", 1)) for i in range(40))
    header = "run,step,per_device_train_batch_size,s/it\n"
    once, rows = (
        [(r["label"], r["figures"]) for r in table_rows(header + text, "t")] for text in (lines, f"{lines}\n{lines}")
    )

    assert [("a", {"seconds_per_step": ["2.01", "2.01"]}), ("b", {"seconds_per_step": ["1.01", "1.01"]})] == rows
    assert [("a", {"seconds_per_step": "2.01"}), ("b", {"seconds_per_step": "1.01"})] == once


def test_rows_of_a_history_need_not_hold_every_figure() -> None:
    """A time that grows counts as its end, and a line of evaluation has no speed."""
    table = "global_step,samples/s,total time (s)\n10,8.0,100\n10,,\n20,8.1,200\n20,,\n30,8.2,300\n30,,310\n"
    (row,) = table_rows(table, "t.csv")

    assert {"samples_per_second": "8.2", "seconds": "310"} == row["figures"]


def test_runs_of_a_history_are_told_apart_by_their_numbers() -> None:
    """Where no other column names them."""
    lines = "".join(f"{i},{run},{10 * run}\n" for run in (1, 2) for i in range(5))
    found = [(row["label"], row["figures"]) for row in table_rows("iteration,run_id,samples/s\n" + lines, "t")]

    assert [("1", {"samples_per_second": "10"}), ("2", {"samples_per_second": "20"})] == found


def test_numbered_measures_are_no_course() -> None:
    """What was changed stands beside the number."""
    table = "step,change,s/it\n1,baseline,2.0\n2,bf16,1.5\n3,compiled,1.2\n"

    assert ["2.0", "1.5", "1.2"] == [row["figures"]["seconds_per_step"] for row in table_rows(table, "t")]


CLOCK = 1741082400.0


@pytest.mark.parametrize(
    ("header", "size"), [("Wall time", 1), ("Wall time (s)", 1), ("timestamp (ms)", 1000), ("_timestamp", 1)]
)
def test_points_in_time_beside_steps_are_a_pace(header: str, size: int) -> None:
    """As TensorBoard exports them: they are no durations, which would be 55 years; a save between two takes longer."""
    lines = "".join(f"{(CLOCK + 1.25 * n + 60 * (n > 300)) * size},{n},{3 - n / 400}\n" for n in range(0, 400, 10))
    (row,) = table_rows(f"{header},Step,Value\n{lines}", "t")

    assert [*row["figures"]] == ["seconds_per_step"]
    assert parse(row["figures"]["seconds_per_step"]).meets(parse("1.250"))


def test_points_in_time_without_steps_are_no_durations() -> None:
    """Alone they are refused with what they are, and beside a speed they are left out with a word."""
    with pytest.raises(Unreadable) as refused:
        table_rows(f"Wall time (s),Value\n{CLOCK},3.0\n{CLOCK + 9},2.0\n", "t")
    found = report(f"run,total time (s),s/it\na,{CLOCK},2.0\nb,{CLOCK + 900},3.0\n")
    sound = report("run,total time (s),s/it\na,9000,2.0\nb,9900,3.0\n")

    assert "t:2:1: Wall time (s): 1741082400.0 is a point in time, and no duration" in str(refused.value)
    assert all("seconds" not in run.given for run in found.runs)
    assert any("'total time (s)' is a point in time" in question for question in found.questions)
    assert all("seconds" in run.given for run in sound.runs)


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"])
def test_dates_beside_steps_are_points_in_time(form: str) -> None:
    """Rows with dates of their own are one run, and its pace follows where no figure says a speed."""
    began = datetime.datetime(2025, 3, 4, 10)
    dates = [(began + datetime.timedelta(seconds=5 * n)).strftime(form) for n in range(1, 40)]
    (timed,) = table_rows("step,timestamp,loss\n" + "".join(f"{10 * n},{d},2.1\n" for n, d in enumerate(dates)), "t")
    (told,) = table_rows("step,timestamp,it/s\n" + "".join(f"{10 * n},{d},2.0\n" for n, d in enumerate(dates)), "t")

    assert parse(timed["figures"]["seconds_per_step"]).meets(parse("0.50"))
    assert ["steps_per_second"] == [*told["figures"]]


@pytest.mark.parametrize("column", ["run", "metric"])
def test_means_and_spreads_of_alike_runs_are_no_runs(column: str) -> None:
    """Whatever the column is called that names them; a spread that is so small is no unit mistake."""
    found = report(f"{column},it/s\nseed 1,3.42\nseed 2,3.38\nseed 3,3.45\nmean,3.417\nstd,0.035\n")

    assert 3 == sum(len(run.repeats.get("steps_per_second", [0])) for run in found.runs)
    assert [] == found.findings


def test_steps_out_of_all_steps_are_the_course_of_a_run() -> None:
    """As ms-swift and LLaMA-Factory write them: the time that has passed tells the pace where nothing else does."""
    lines = "".join(f"{n}/94,{n / 100},{4 * n // 60}m {4 * n % 60}s,{n}.32%,4123.4\n" for n in range(5, 94, 5))
    (by_time,) = table_rows(f"global_step/max_steps,epoch,elapsed_time,percentage,throughput\n{lines}", "t")
    (by_speed,) = table_rows(f"global_step/max_steps,epoch,elapsed_time,percentage,train_speed(iter/s)\n{lines}", "t")

    assert parse(by_time["figures"]["seconds_per_step"]).meets(parse("4.00"))
    assert (by_time["unread"], [*by_speed["figures"]]) == (["throughput"], ["steps_per_second"])


@pytest.mark.parametrize("epochs", [range(1, 11), range(10), [0.5 * n for n in range(1, 9)]])
def test_epochs_that_follow_each_other_are_one_run(epochs: list[float]) -> None:
    """Each row is an epoch of it, and no run; numbers that do not follow each other are counts of runs."""
    lines = "".join(f"{n},{1 / (n + 1):.3f},{40 + n:.1f}\n" for n in epochs)
    (row,) = table_rows("epoch,train_loss,epoch_time_s\n" + lines, "t")

    assert {"seconds_per_epoch"} == row["figures"].keys()
    assert 2 == len(table_rows("epoch,train_loss,epoch_time_s\n3,0.5,40.0\n10,0.4,41.0\n", "t"))


def test_times_of_single_epochs_are_none_of_the_whole_job() -> None:
    """They fall from row to row, and a time since the start can only rise."""
    of_each, since = (
        table_rows("epoch,seconds\n" + "".join(f"{n},{s}\n" for n, s in enumerate(times)), "t")
        for times in ((95.1, 61.2, 61.3, 61.1), (95.1, 156.3, 217.6, 278.7))
    )

    assert [{"seconds_per_epoch": "61.3"}] == [row["figures"] for row in of_each]
    assert [{"seconds": "278.7"}] == [row["figures"] for row in since]


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\nrun;s/it\na;1.00\nb;0.50\n",
        "sep=|\nrun|s/it\na|1.00\nb|0.50\n",
        "run|s/it\na|1.00\nb|0.50\n",
        "Experiments of Q3,\n,\nrun,s/it\na,1.00\nb,0.50\n,\n",
        "run,s/it\na,1.00\n,\nb,0.50\n",
    ],
)
def test_what_a_spreadsheet_exports_is_read(text: str) -> None:
    """A line for Excel, a title over the header with the empty cells behind it, other delimiters, empty lines."""
    assert [("a", "1.00"), ("b", "0.50")] == [
        (r["label"], r["figures"]["seconds_per_step"]) for r in table_rows(text, "t")
    ]


def test_prose_that_claims_a_size_is_said_not_to_be_read(tmp_path: Path) -> None:
    """A reader of the report would otherwise think that it was judged."""
    asked = []
    for text in ("Compiling makes it 2.5x faster.", "Measured on 4 devices."):
        asked.append([q for q in questions_beside(tmp_path / "notes.md", text) if "is not read" in q])

    assert [1, 0] == [len(each) for each in asked]


def questions_beside(path: Path, text: str) -> list[str]:
    """The questions on a table of two batches that a text stands beside."""
    table = "| run | global batch | s/step | samples/s |\n|--|--|--|--|\n"
    path.write_text(
        f"{text}\n\n{table}| a | 16 | 1.000 | 16.0 |\n| b | 16 | 0.667 | 24.0 |\n| c | 32 | 1.98 | 16.2 |\n"
    )
    return audit(validate({"name": "own", "reported": {"files": [str(path)]}}, "own")).questions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is **1.5x faster** now.", "“1.5x faster” ('b' is that beside 'a' in samples/s)"),
        ("A reduction of 33 %.", "“reduction of 33 %” ('b' is that beside 'a' in samples/s)"),
        ("That is 50% slower.", "“50% slower” ('a' is that beside 'b' in samples/s)"),
        ("It is 33% faster.", "“33% faster” ('b' is that beside 'a' in samples/s, if it is the share of the time)"),
        ("33% slower", "“33% slower” ('a' is that beside 'b' in samples/s)"),
        ("2x slower!", "“2x slower” ('c' is that beside 'a' in steps/s, and in samples/s it is 1.01 times as fast)"),
        ("0x faster", "“0x faster” (of what?)"),
        ("4.6x faster training", "“4.6x faster” (no two rows are so far apart)"),
        ("uses 20% less, 30% less memory", "“20% less” (of what?), “30% less” (of what?)"),
        ("```\n2x faster\n```", ""),
    ],
)
def test_what_prose_claims_is_looked_for_among_the_rows(text: str, found: str, tmp_path: Path) -> None:
    """In the unit of the most equal work in which two rows are as far apart. Nothing is accused."""
    asked = [question for question in questions_beside(tmp_path / "t.md", text) if "“" in question]

    assert [found in question for question in asked] == [True] * bool(found)


SUMMED_UP = "run,s/it\na,1.0\nb,0.5\nc,0.7\n"


def test_a_row_that_sums_up_the_others_is_no_run() -> None:
    """It is told; one that only has such a name, or that a claim is about, is a run."""
    found = report(SUMMED_UP + "Average,0.733\nTotal,2.2\n")
    other = report(SUMMED_UP.replace("a,", "cls,") + "mean,0.9\n")
    claimed = report(SUMMED_UP + "Average,0.733\n", claim() | {"treatment": "Average", "speed_up": "1.4"})

    assert ["a", "b", "c"] == [run.label for run in found.runs]
    assert any("'Average' and 'Total' of its table sum up the other rows" in question for question in found.questions)
    assert "mean" in [run.label for run in other.runs]
    assert "Average" in [run.label for run in claimed.runs]


# -- columns of unknown meaning --


def test_of_many_columns_the_first_are_named() -> None:
    """A tracker's export has a hundred of them; those that may be a time come first."""
    names = [f"metric_{n}" for n in range(120)]
    header, cells = ",".join(names), ",".join("0.5" for _ in names)
    found = report(f"run,s/it,{header},some time\na,1.0,{cells},9\nb,2.0,{cells},9\n")
    (asked,) = (question for question in found.questions if "which were not read" in question)
    words = report(f"run,samples/s,{header}\na,1.0,{cells.replace('0.5', 'x')}\nb,2.0,{cells.replace('0.5', 'y')}\n")

    assert "not read: some time (is it of a step" in asked
    assert "metric_8 and 111 more?" in asked
    assert "metric_9 (x, y) and 110 more" in claim_lines(words)[0]


@pytest.mark.parametrize(
    ("header", "a", "b"),
    [
        *(("GPU", "A100", "H100"), ("nodes", "1", "2"), ("disk", "NFS", "NVMe"), ("reserved cores", "2", "8")),
        *(("save every (min)", "10", "60"), ("network (Gb/s)", "10", "100"), ("size (m)", "7", "70")),
    ],
)
def test_a_column_nobody_read_confounds_a_claim(header: str, a: str, b: str) -> None:
    """The factor that is blamed may not be the cause; without a factor the difference is told."""
    table = f"| run | {header} | per_device_train_batch_size | s/it |\n|--|--|--|--|\n"
    table += f"| a | {a} | 8 | 2.00 |\n| b | {b} | 16 | 1.60 |\n"
    blamed, told = report(table, claim("per_device_train_batch_size"), claim()).claims

    assert "can't be decided from these figures" == str(blamed.judgement)
    assert f"also differ in {header} ({a}, {b}), which was not read" in blamed.reason
    assert f"also differ in {header} ({a}, {b}), which was not read" in told.reason


def test_two_columns_nobody_read_were_not_read() -> None:
    """One was, and two were."""
    (line, *_) = claim_lines(report("run,a,b,samples/s\nx,no,1,2.00\ny,yes,2,1.60\n"))

    assert "they differ in a (no, yes) and b (1, 2), which were not read" in line


def test_a_column_that_is_a_figure_and_a_factor_says_what_differs() -> None:
    """Steps between saves are both. Saving less often saves hours, and makes no step faster."""
    table = "run,per_device_train_batch_size,save_steps,steps,s/step,hours\na,8,500,{0}\nb,8,5000,{1}\n"
    hours = claim("save_steps", "2") | {"quantity": "hours"}
    (held,) = report(table.format("9000,1.00,10.0", "9000,1.00,5.0"), hours).claims
    (blamed,) = report(table.format("9000,1.00,10.0", "9000,0.50,5.0"), claim("save_steps", "2")).claims
    (same,) = report(table.replace("5000", "500").format("9000,1.00,10.0", "9000,1.00,5.0"), hours).claims

    assert ("holds", []) == (str(held.judgement), held.findings)
    assert "save_steps acts between steps, and the figures are those of a step" in blamed.reason
    assert "have the same save_steps" in same.reason


def test_a_column_of_results_confounds_nothing() -> None:
    """A loss, a remark or a speed-up is what came out."""
    table = "| run | per_device_train_batch_size | s/it | loss | vs. a | note | peak temp |\n|--|--|--|--|--|--|--|\n"
    table += "| a | 8 | 2.000 | 1.2 | 1x | fine | 71 |\n| b | 16 | 1.600 | 1.1 | 2.5x | hot | 80 |\n"
    (held,) = report(table, claim("per_device_train_batch_size")).claims

    assert "holds" == str(held.judgement)
    assert [] == [f for f in held.findings if f.kind is FindingKind.CONFOUNDED]


@pytest.mark.parametrize(
    "header",
    [
        *("peak GiB", "W per GPU", "max GB", "tokens seen", "reserved GiB"),
        *("eval samples/s", "nodes/s", "compile warmup (s)", "OOM retries", "inference throughput", "nodes_per_sec"),
    ],
)
def test_whole_numbers_of_results_confound_nothing(header: str) -> None:
    """Power, memory, speeds and times are what came out, by the unit in their header."""
    table = f"run,per_device_train_batch_size,s/it,{header}\na,8,2.000,61\nb,16,1.600,55\n"

    assert "holds" == str(report(table, claim("per_device_train_batch_size")).claims[0].judgement)


FACTOR = "run,{},s/it,global batch size\na,sdpa,1.000,64\nb,{},0.400,64\n"


@pytest.mark.parametrize(
    ("header", "after", "reason"),
    [
        ("attn_implementation", "flash_attention_2", "In samples/s it is 2.50"),
        ("precision", "no level of it", "differ in precision (sdpa, no level of it)"),
        ("attn_implementation", "sdpa", "have the same attn_implementation"),
        ("attn_implementation", "none", "In samples/s it is 2.50"),
    ],
)
def test_a_column_may_be_called_as_a_factor(header: str, after: str, reason: str) -> None:
    """Then it is what the claim is about, and no other difference; any words may stand in it."""
    (judged,) = report(FACTOR.format(header, after), claim("attn_implementation")).claims

    assert reason.lower() in judged.reason.lower()


def test_a_column_may_be_said_to_be_a_factor() -> None:
    """As `columns` says of any other."""
    data = {"table": FACTOR.format("attn", "eager"), "columns": {"attn": "attn_implementation"}}
    data["claims"] = [claim("attn_implementation")]
    (judged,) = audit(validate({"name": "own", "reported": data}, "own")).claims

    assert "holds" == str(judged.judgement)


@pytest.mark.parametrize("header", ["GPUs", "global batch size", "workers"])
def test_rows_of_one_name_that_were_set_up_otherwise_are_no_repeats(header: str) -> None:
    """Each stands by itself, on other devices or with another batch, whether the column is read or not."""
    rows = table_rows(f"run,{header},tokens/s\na,1,1000\na,2,1900\na,2,1910\nb,4,3600\n", "t")

    assert [("a", "1000"), ("a", ["1900", "1910"]), ("b", "3600")] == [
        (row["label"], row["figures"]["tokens_per_second"]) for row in rows
    ]


@pytest.mark.parametrize("header", ["seed", "trial", "run #", "rep", "peak GiB", "measurement", "cycle"])
def test_rows_that_differ_in_a_number_or_a_result_are_repeats(header: str) -> None:
    """Their spread is that of one measurement. A column that numbers the rows of each name may be called anything."""
    rows = table_rows(f"run,{header},tokens/s\na,1,1000\na,2,1010\nb,1,1200\nb,2,1210\n", "t")

    assert [["1000", "1010"], ["1200", "1210"]] == [row["figures"]["tokens_per_second"] for row in rows]


@pytest.mark.parametrize(("header", "first"), [("flash", 0), ("TP", 1), ("prefetch", 0)])
def test_a_switch_or_a_size_does_not_number_repeats(header: str, first: int) -> None:
    """Though it counts up under each name: 0 and 1 switch something, and the figures of repeats are alike."""
    table = "".join(f"{name},{first + i},{1000 * (1 + 0.7 * i):.0f}\n" for name in "ab" for i in range(2))

    assert 4 == len(table_rows(f"run,{header},tokens/s\n{table}", "t"))


def test_a_minimum_is_no_minute() -> None:
    """Beside other statistics; by itself `min` is the unit."""
    (beside,) = table_rows("run,iter min,iter avg,it/s\na,410,421,2.38\n", "t")
    (other,) = table_rows("run,epoch_time_min,gpu_mem_max\na,7.6,70\n", "t")
    (alone,) = table_rows("run,iter min,it/s\na,410,2.38\n", "t")

    assert ["steps_per_second"] == [*beside["figures"]]
    assert ["seconds_per_epoch"] == [*other["figures"]]
    assert {"steps_per_second", "seconds_per_step"} == {*alone["figures"]}


@pytest.mark.parametrize("cell", ["812 ms ± 35 ms", "0.812 s ± 35 ms per loop", "812 ± 35 ms"])
def test_a_spread_may_have_a_unit_of_its_own(cell: str) -> None:
    """As `%timeit` prints it."""
    found = parse(table_rows(f"run,step time (s)\na,{cell}\n", "t")[0]["figures"]["seconds_per_step"])

    assert (0.777, 0.847) == pytest.approx((found.low, found.high), abs=0.002)


def test_what_nobody_can_read_is_cut_or_refused() -> None:
    """A name of very many letters, and thousands of rows."""
    (row,) = table_rows(f"run,s/it\n{'x' * 10**5},2.0\n", "t")
    many = report("run,s/it\n" + "".join(f"r{i},2.0\n" for i in range(300)))
    with pytest.raises(SettingsError, match="found 3,000 rows that are no repeats"):
        report("run,s/it\n" + "".join(f"r{i},2.0\n" for i in range(3000)))

    assert len(row["label"]) < 2000
    assert len(claim_lines(many)) < 110


def test_merged_cells_hold_for_the_rows_below() -> None:
    """An empty first cell is the one above it."""
    table = "| GPU | per_device_train_batch_size | s/it |\n|--|--|--|\n"
    table += "| A100 | 8 | 2.0 |\n| | 16 | 3.0 |\n| H100 | 8 | 1.0 |\n| | 16 | 1.6 |\n"
    lines = claim_lines(report(table))

    assert ["GPU" in line for line in lines[:3]] == [False, True, True]


@pytest.mark.parametrize("header", ["seq len", "seq_len", "Sequence length", "max_seq_length", "context length"])
def test_the_length_of_a_sample_has_many_names(header: str, tmp_path: Path) -> None:
    """Half the length is no equal work, in a table and in an export."""
    table = f"run,{header},samples/s\na,2048,4.00\nb,512,16.0\n"
    (judged,) = report(table, claim(speed_up="4")).claims
    path = tmp_path / "export.csv"
    path.write_text(
        table.replace("run,", "Name,")
        .replace("samples/s", "train_samples_per_second,State")
        .replace("0\n", "0,finished\n")
    )

    assert [2048, 512] == [row["settings"]["max_length"] for row in read_table(path)]
    assert "can't be decided from these figures" == str(judged.judgement)


# -- figures that another unit or another step explains --


def test_an_optimizer_step_is_a_step(tmp_path: Path) -> None:
    """Beside columns of other phases it is the optimizer's phase; what only begins with a phase's name is none."""
    alone = table_rows("run,optimizer step (ms)\na,2000\n", "t")[0]
    beside = table_rows("run,s/it,forward (ms),optimizer step (ms)\na,2.0,500,200\n", "t")[0]
    other = table_rows("run,s/it,forward FLOPs (s),data size (m),optimizer state (m)\na,2.0,5,20,30\n", "t")[0]

    assert ["seconds_per_step"] == [*alone["figures"]]
    assert ({"forward", "optimizer"}, {"seconds_per_step"}) == (set(beside["phases"]), set(beside["figures"]))
    assert {} == other["phases"]


def test_steps_that_count_micro_batches_are_asked_about() -> None:
    """Four times as many steps with four micro-batches a step are no fault of the other figures."""
    table = "run,per_device_train_batch_size,gradient_accumulation_steps,samples/s,it/s\n"
    found = report(table + "a,8,4,16.0,2.00\nb,8,1,15.0,1.88\n", claim(speed_up="0.94"))

    assert [] == [f for f in found.findings if f.kind is FindingKind.ARITHMETIC]
    assert ["Do the steps of 'a' count micro-batches?"] == [q[:40] for q in found.questions if "micro" in q]
    assert "can't be decided from these figures" == str(found.claims[0].judgement)
    (line,) = (text for text in claim_lines(report(table + "a,8,4,16.0,2.00\nb,8,1,15.0,1.88\n")) if "'b'" in text)
    assert "'b' is 0.938 times as fast as 'a' in samples/s" in line


def test_only_what_counts_micro_batches_is_turned_into_steps() -> None:
    """Seconds of a micro-batch stand beside optimizer steps a second."""
    header = "run,per_device_train_batch_size,gradient_accumulation_steps,s/it,steps/s\n"
    known = report(header + "a,8,4,0.500,0.500\nb,8,4,0.500,0.500\n").runs[0].solved.known

    assert (2.0, 0.5) == pytest.approx((known["seconds_per_step"].middle, known["steps_per_second"].middle))


@pytest.mark.parametrize(
    ("time", "what"),
    [("350", "a unit and its thousandth"), ("21", "minutes and seconds"), ("1260", "hours and seconds")],
)
def test_a_time_in_another_unit_is_named(time: str, what: str) -> None:
    """32 samples a step are right where 350 are milliseconds; nobody is told that the samples are wrong."""
    (fault,) = report(f"run,samples_per_step,step time (s),samples/s\na,32,{time},91.4\n").findings

    assert fault.text.endswith(f"Were {what} confused in s/step or samples/s?")
    assert "should be" not in fault.text


def test_rows_of_one_batch_with_a_thousand_times_the_samples_are_asked_about() -> None:
    """213 s of one row are as much work as 0.213 s."""
    found = report("run,per_device_train_batch_size,s/it,samples/s\nA,32,213,150\nB,32,2.13,15.0\nC,32,1.07,29.9\n")

    assert ["By their figures a step of 'A' has 1"] == [q[:36] for q in found.questions if "thousandth" in q]


@pytest.mark.parametrize("size", ["1.0", "2.0"])
def test_tokens_of_a_sample_that_differ_leave_a_claim_open(size: str) -> None:
    """As many samples a second of the same length are no twice as fast: one row counts padding, or the texts differ."""
    table = "run,per_device_train_batch_size,max_length,tokens/s,samples/s\nb,8,1024,8192,8.00\na,8,1024,4096,8.00\n"
    (judged,) = report(table, claim(speed_up=size)).claims

    assert "can't be decided from these figures" == str(judged.judgement)
    assert "count padding" in judged.reason


def test_a_claim_that_says_what_equal_work_says_is_in_no_trap() -> None:
    """Hours of three epochs and of one; cost is cheap and not fast."""
    table = "run,epochs,hours,samples_per_epoch,cost\na,3,6.00,10000,12.00\nb,1,1.00,10000,2.00\n"
    claims = [
        claim(speed_up=size) | {"quantity": unit} for size, unit in (("2", "hours"), ("6", "hours"), ("6", "cost"))
    ]
    traps = [[f.text for f in c.findings if f.kind is FindingKind.UNIT] for c in report(table, *claims).claims]

    assert [0, 1, 1] == [len(each) for each in traps]
    assert "'b' is 6.00 times as cheap" in traps[2][0]


def test_devices_that_are_counted_are_not_asked_about() -> None:
    """Only accumulation is left to ask."""
    found = report("run,GPUs,tokens/s,per_device_train_batch_size\na,1,1000,4\nb,8,7000,4\n")

    assert ["Are batches accumulated, and"] == [q[:28] for q in found.questions if "accumulated" in q]


def test_mfu_that_does_not_follow_the_speed_is_asked_about() -> None:
    """Also where only steps of one batch say how fast a row is."""
    found = report("run,per_device_train_batch_size,s/it,MFU (%)\na,8,2.00,20.0\nb,8,1.00,30.0\n")

    assert ["'b' has 2.00 times the samples a second of 'a'"] == [q[:46] for q in found.questions if "MFU" in q]


# -- tables in other files, and of other shapes --


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.txt", "run\ts/it\ttokens/s\na\t2.0\t1000\nb\t1.0\t2000\n"),
        ("t.txt", "| run | s/it | tokens/s |\n|--|--|--|\n| a | 2.0 | 1000 |\n| b | 1.0 | 2000 |\n"),
        ("t.out", "+---+---+---+\n| run | s/it | tokens/s |\n+===+===+===+\n| a | 2.0 | 1000 |\n+---+---+---+\n"
         "| b | 1.0 | 2000 |\n+---+---+---+\n"),
        ("t.json", '[{"run": "a", "s/it": 2.0, "tokens/s": 1000}, {"run": "b", "s/it": 1.0, "tokens/s": 2000}]'),
        ("t.jsonl", '{"run": "a", "s/it": 2.0, "tokens/s": 1000}\n{"run": "b", "s/it": 1.0, "tokens/s": 2000}\n'),
    ],
)  # fmt: skip
def test_a_table_is_read_in_any_file(name: str, text: str, tmp_path: Path) -> None:
    """Whatever its ending and its lines."""
    (tmp_path / name).write_text(text)
    found = [(row["label"], row["figures"]) for row in read_file(tmp_path / name)]

    assert [
        ("a", {"seconds_per_step": "2.0", "tokens_per_second": "1000"}),
        ("b", {"seconds_per_step": "1.0", "tokens_per_second": "2000"}),
    ] == found


def test_what_a_script_saves_at_its_end_is_read(tmp_path: Path) -> None:
    """`all_results.json` of the example scripts has Trainer's names, and no history."""
    path = tmp_path / "all_results.json"
    path.write_text('{"epoch": 3.0, "train_loss": 0.9, "train_runtime": 1234.5, "train_samples_per_second": 5.184}')
    (row,) = read_file(path)

    assert {"epochs": 3.0, "seconds": 1234.5, "samples_per_second": 5.184} == row["figures"]


def test_a_line_of_objects_that_is_none_is_told(tmp_path: Path) -> None:
    """With its place."""
    (tmp_path / "t.jsonl").write_text('{"run": "a", "s/it": 2.0}\n{"run": \n')
    with pytest.raises(Unreadable, match=r"t\.jsonl:2:1: is no JSON"):
        read_file(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    "text",
    [
        "Benchmark of June\n\nrun,s/it,tokens/s\na,2.0,1000\nb,1.0,2000\n",
        "# measured on A100, twice\nrun,s/it,tokens/s\na,2.0,1000\nb,1.0,2000\n",
        "run,s/it,tokens/s\na,2.0,1000,\nb,1.0,2000,,\n",
        "run,step time,throughput\n,s,tok/s\na,2.0,1000\nb,1.0,2000\n",
        "| metric | a | b | change |\n|--|--|--|--|\n| s/it | 2.0 | 1.0 | -50% |\n| tokens/s | 1000 | 2000 | +100% |\n",
        "Step,a - train/tokens_per_second,a - train/tokens_per_second__MAX,b - train/tokens_per_second,"
        "a - train/seconds_per_step,b - train/seconds_per_step\n"
        + "".join(f"{n},{900 + 100 * (n > 2)},5000,2000,2.0,1.0\n" for n in range(9)),
    ],
)
def test_tables_of_other_shapes_are_read(text: str) -> None:
    """Titles, comments, trailing commas, units below the header, figures in lines, and the export of W&B's charts."""
    found = [(row["label"], row["figures"]) for row in table_rows(text, "t")]

    assert [
        ("a", {"seconds_per_step": "2.0", "tokens_per_second": "1000"}),
        ("b", {"seconds_per_step": "1.0", "tokens_per_second": "2000"}),
    ] == [(label, {name: figures[name] for name in sorted(figures) if "_per_" in name}) for label, figures in found]


def test_a_header_may_begin_like_a_comment() -> None:
    """A column of numbers of rows is called `#`; what stands above it and has no numbers below it is a comment."""
    rows = table_rows("# by hand\n#,s/it\n1,2.0\n2,1.0\n", "t")

    assert ["2.0", "1.0"] == [row["figures"]["seconds_per_step"] for row in rows]


@pytest.mark.parametrize(
    ("header", "cell", "figures"),
    [
        ("tokens/s", "1100 ± 2%", {"tokens_per_second": "1100 ± 2%"}),
        ("tokens/s", "1050 (±30)", {"tokens_per_second": "1050 ±30"}),
        ("MFU (%)", "45 ± 2%", {"mfu": "45 ± 2%"}),
        ("s/it", "1.98†", {"seconds_per_step": "1.98"}),
        ("s/it", "1.80 [1]", {"seconds_per_step": "1.80"}),
        ("s/it", "**1.50**¹", {"seconds_per_step": "1.50"}),
        ("it/s", "1.5 s/it", {"seconds_per_step": "1.5"}),
        ("samples/s", "0.25 s/sample", {"seconds_per_sample": "0.25"}),
    ],
)
def test_cells_are_read_as_people_write_them(header: str, cell: str, figures: dict) -> None:
    """A spread in percent, the mark of a footnote, tqdm's other unit: a cell's own unit counts."""
    (row,) = table_rows(f"| run | {header} |\n|--|--|\n| a | {cell} |\n", "t")

    assert figures == row["figures"]


def test_a_spread_in_percent_is_a_share_of_the_figure() -> None:
    """2 % of 1100 tokens a second, beside the rounding of both."""
    speed = report("run,tokens/s\na,1100 ± 2%\n").runs[0].given["tokens_per_second"]

    assert (1077.5, 1122.5) == pytest.approx((speed.low, speed.high))


def test_a_row_with_too_many_cells_is_told_in_words() -> None:
    """One cell is no plural."""
    with pytest.raises(Unreadable, match="expected 1 cell as in the header, found 2"):
        table_rows("| s/it |\n|--|\n| 2.0 | x |\n", "t")


# -- what messages say --


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run,tokens/s\na,\"12.345,6\"\n", "found '12.345,6'; write '12345.6'"),
        ("run,p99 s/it,A100 s/it\na,2.0,1.0\n", "not read: p99 s/it, A100 s/it"),
    ],
)  # fmt: skip
def test_what_was_found_is_told(text: str, words: str) -> None:
    """Points that part thousands; a unit that other words stand before is asked about by its whole header."""
    with pytest.raises(Unreadable) as refused:
        table_rows(text, "t")

    assert words in str(refused.value)


def test_an_encoding_is_told_by_its_name(tmp_path: Path) -> None:
    """It is UTF-8."""
    (tmp_path / "t.csv").write_bytes("run,s/it\nhöher,2.0\n".encode("latin-1"))
    with pytest.raises(Unreadable, match="byte 0xf6 is no UTF-8; save"):
        read_table(tmp_path / "t.csv")


def test_rounding_is_told_where_it_decides() -> None:
    """Nothing is said of it where a claim is contradicted anyway, and never a range from one number to the same."""
    table = "run,per_device_train_batch_size,s/it\na,8,2.00\nb,8,2.00\n"
    texts = [f.text for c in report(table, claim(speed_up="2"), claim(speed_up=">1")).claims for f in c.findings]

    assert ["as they are given, the figures allow anything from 1.00 times to 1.01 times"] == texts
    (direction,) = report(table.replace("2.00", "2.0000"), claim(speed_up=">1")).claims
    assert "the figures allow either direction" in direction.reason


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("step,loss,s/it\n1,2.0,0.5\n2,1.9,0.5\n3,1.8", "t:4:1: expected 3 cells as in the header, found 2"),
        ("run,time\na\nb,1700000000", "t:2:1: expected 2 cells as in the header, found 1"),
        ("step,elapsed_time\n1,0:00:10\n2", "t:3:1: expected 2 cells as in the header, found 1"),
        ("epoch,timestamp,loss\n1,2025-03-04 10:00:00,2.0\n2,2025-03-04 10", "t:3:1: expected 3 cells"),
    ],
)
def test_a_line_that_is_cut_off_says_where(text: str, place: str) -> None:
    """Whatever its columns hold: steps, clocks or figures."""
    with pytest.raises(Unreadable) as refused:
        table_rows(text, "t")

    assert place in str(refused.value)


@pytest.mark.parametrize("cell", ["1 s" + " s" * 40 + " x", "1" + " 1 s" * 40 + " x", "1 s" + " ." * 5000 + "x"])
def test_long_words_beside_steps_are_read(cell: str) -> None:
    """They look like a duration up to their end, and no pattern tries every way to part them."""
    (row,) = table_rows(f"step,note,s/it\n1,{cell},2.0\n2,{cell},2.0\n", "t")

    assert {"seconds_per_step": "2.0"} == row["figures"]


def clocked(form: str, epochs: list[float], seconds: float) -> str:
    """A table of epochs with the time at which each was reached."""
    began = datetime.datetime(2025, 3, 4, 10)
    rows = []
    for epoch in epochs:
        passed = datetime.timedelta(seconds=round(seconds * epoch))
        rows.append(f"{round(epoch, 2)},{passed if form == 'elapsed_time' else began + passed},1.5\n")
    return f"epoch,{form},loss\n{''.join(rows)}"


@pytest.mark.parametrize("form", ["timestamp", "elapsed_time"])
@pytest.mark.parametrize(
    "epochs", [[0, 1, 2, 3], [1, 2, 3, 4, 5], [n / 2 for n in range(1, 9)], [n / 75 for n in range(1, 400)]]
)
def test_clocks_beside_epochs_are_the_time_of_an_epoch(form: str, epochs: list[float]) -> None:
    """Also of parts of an epoch, whose count is rounded; no step is as long."""
    (row,) = table_rows(clocked(form, epochs, 600), "t")
    found = parse(row["figures"]["seconds_per_epoch"])

    assert ["seconds_per_epoch"] == [*row["figures"]]
    assert found.meets(parse("600"))
    assert found.high - found.low < 0.1 * found.middle


@pytest.mark.parametrize(
    ("header", "a", "b"),
    [
        *(("backend", "nccl", "gloo"), ("vendor", "x", "y"), ("pin memory", "on", "off"), ("criterion", "ce", "mse")),
        *(("generation", "gen4", "gen5"), ("num hosts", "1", "2"), ("hosts", "1", "2"), ("hybrid", "on", "off")),
        *(("optimizer states", "sharded", "full"), ("DeepSpeed", "zero2", "zero3"), ("deepspeed", "a.json", "b.json")),
        *(("model name", "gpt2", "llama"), ("model_name_or_path", "gpt2", "llama"), ("gpu_name", "A100", "H100")),
        *(("chat template", "a", "b"), ("replicas", "1", "8"), ("loss function", "ce", "fused"), ("grid", "1", "2")),
        *(("candidate", "x", "y"), ("configuration file", "x", "y"), ("acceleration", "on", "off")),
    ],
)
def test_a_setting_may_have_a_results_letters_in_its_name(header: str, a: str, b: str) -> None:
    """`backend` ends in `end`: rows that differ in it are no repeats of one run."""
    rows = table_rows(f"run,{header},s/it\na,{a},1.0\na,{b},2.0\n", "t")

    assert ["1.0", "2.0"] == [row["figures"]["seconds_per_step"] for row in rows]


@pytest.mark.parametrize(
    "header",
    [
        *("run_id", "runId", "uuid", "startTime", "end_time", "created_at", "Updated", "hostname", "Host", "log_dir"),
        *("train_loss", "finalLoss", "eval_acc", "TFLOPs", "gpu_mem", "Peak Memory", "step time note", "num_steps"),
        *("niter", "speedup", "State", "file name", "output path", "warnings", "timestep", "gpu util"),
    ],
)
def test_what_differs_between_repeats_is_no_setting(header: str) -> None:
    """However its words are parted."""
    rows = table_rows(f"run,{header},tokens/s\na,13,1000\na,71,1010\nb,15,1200\nb,17,1210\n", "t")

    assert [["1000", "1010"], ["1200", "1210"]] == [row["figures"]["tokens_per_second"] for row in rows]


def test_a_size_with_decimals_keeps_rows_apart() -> None:
    """Where their figures are too far apart for repeats, and it is told where such rows are compared."""
    table = "config,{},tok/s\nbase,1.5,12000\nbase,7.0,{}\nfused,1.5,14000\nfused,7.0,{}\n"
    apart = table_rows(table.format("params (B)", 3000, 3600), "t")
    alike = table_rows(table.format("params (B)", 12100, 14100), "t")
    of_result = table_rows(table.format("train loss", 3000, 3600), "t")
    lines = claim_lines(report(table.format("params (B)", 3000, 3600)))

    assert ["12000", "3000", "14000", "3600"] == [row["figures"]["tokens_per_second"] for row in apart]
    assert [2, 2] == [len(row["figures"]["tokens_per_second"]) for row in alike]
    assert [2, 2] == [len(row["figures"]["tokens_per_second"]) for row in of_result]
    assert "they differ in params (B) (1.5, 7.0), which was not read" in lines[0]
    assert all("sizes" not in row for row in (*apart, *alike))


@pytest.mark.parametrize(
    ("header", "a", "b"), [("params (B)", "1.5", "7.0"), ("params (B)", "1.5", "7"), ("nodes", "1", "8")]
)
def test_two_runs_whose_steps_alternate_are_told_apart_by_a_number(header: str, a: str, b: str) -> None:
    """Their steps are the same ones, and a number beside them says which is which."""
    lines = "".join(f"{n},{a},{2 + n / 100}\n{n},{b},{9 + n / 100}\n" for n in range(9))
    rows = table_rows(f"step,{header},s/it\n{lines}", "t")

    assert [("2.06", {header: a}), ("9.06", {header: b})] == [
        (row["figures"]["seconds_per_step"], row["unknown"]) for row in rows
    ]


def test_a_column_of_whole_numbers_and_others_is_of_one_kind() -> None:
    """A number without decimals among such with decimals is a size as they are."""
    rows = table_rows("run,params (B),tok/s\na,1.5,12000\na,7,3000\nb,1.5,14000\nb,7,3600\n", "t")

    assert ["1.5", "7", "1.5", "7"] == [row["unknown"]["params (B)"] for row in rows]


@pytest.mark.parametrize("text", ["|\n|-|\n|\n", "|\n|-|\n| a | b |\n", "| run | s/it |\n|-|-|\n|\n"])
def test_a_line_of_a_bar_alone_never_crashes(text: str) -> None:
    """It has no cell with a word."""
    with pytest.raises(Unreadable):
        table_rows(text, "t")


# -- cells with units, sums of a course, rows and cells with more than a figure --


@pytest.mark.parametrize(
    ("cells", "figures"),
    [
        (("412 ms", "415 ms", "409 ms"), {"seconds_per_step": 0.415}),
        (("0.42 s", "0.41 s", "0.40 s"), {"seconds_per_step": 0.41}),
    ],
)
def test_measures_with_units_are_no_words_of_a_run(cells: tuple[str, ...], figures: dict) -> None:
    """Rows that differ in them follow each other as one run."""
    (row,) = table_rows("step,step time\n" + "".join(f"{10 * i},{c}\n" for i, c in enumerate(cells, 1)), "t.csv")

    assert figures == {name: pytest.approx(parse(value).middle) for name, value in row["figures"].items()}


@pytest.mark.parametrize("unread", ["{}.13s/it", "1{}.3 GiB", "1{}.3k", "1{}0 samples/s", "{}.5 W"])
def test_what_was_not_read_may_be_a_measure(unread: str, tmp_path: Path) -> None:
    """Its unit says so, in a table and in lines of JSON; sizes of models are words that tell runs apart."""
    path = tmp_path / "train.jsonl"
    said = [(10 * n, unread.format(n)) for n in (1, 2, 3)]
    path.write_text("".join(f'{{"step": {n}, "tokens/s": 900{n}, "value": "{text}"}}\n' for n, text in said))
    models = table_rows("step,tokens/s,size\n10,900,7B\n20,901,7B\n10,300,70B\n20,302,70B\n", "t.csv")

    assert 1 == len(read_file(path))
    assert 2 == len(models)


@pytest.mark.parametrize(
    ("header", "cells", "figures"),
    [
        ("train time (s)", "60.1 60.5", {"seconds_per_epoch": 60.5}),
        ("train time (s)", "60.1 60.5 61.0 62.2", {"seconds_per_epoch": 62.2}),
        ("train time (s)", "60.1 121.0", {"seconds": 121.0}),
        ("train time (s)", "95.1 156.0 217.2", {"seconds": 217.2}),
        ("hours", "1.5 1.5 1.4", {"seconds_per_epoch": 5400}),
        ("hours", "1.5 3.0 4.4", {"hours": 4.4}),
        ("samples", "50000 49984 50000", {"samples_per_epoch": 50000}),
    ],
)
def test_times_of_epochs_and_times_so_far_are_told_by_their_growth(header: str, cells: str, figures: dict) -> None:
    """A time since the start about doubles in the second row, and that of each epoch stays about the same."""
    lines = "".join(f"{n},2.0,{cell}\n" for n, cell in enumerate(cells.split(), 1))
    (row,) = table_rows(f"epoch,s/it,{header}\n{lines}", "t.csv")

    assert figures == {q: pytest.approx(parse(v).middle) for q, v in row["figures"].items() if q != "seconds_per_step"}
    assert [] == row["questions"]


@pytest.mark.parametrize(
    ("position", "cells"),
    [("epoch", "60 70 80"), ("epoch", "0.5 0.6 0.55 0.6"), ("step", "60.1 60.5 60.3"), ("step", "60.1 60.2 60.3")],
)
def test_times_that_could_be_of_a_row_or_so_far_are_asked_about(position: str, cells: str) -> None:
    """And are left out, since no figure may be the wrong one of two in silence."""
    each = [(n, cell) for n, cell in enumerate(cells.split(), 1)]
    each = [(n / 2 if cells.startswith("0.5") else n, cell) for n, cell in each]
    (row,) = table_rows(f"{position},s/it,total time (s)\n" + "".join(f"{n},2.0,{c}\n" for n, c in each), "t.csv")

    assert ["seconds_per_step"] == [*row["figures"]]
    assert ["is that of each row, or of all rows so far? It is left out" in text for text in row["questions"]] == [True]


@pytest.mark.parametrize(
    ("steps", "start"), [(range(5000, 6000, 100), 30), (range(10, 200, 10), 90)], ids=["resumed", "slow start"]
)
def test_a_sum_that_begins_large_is_one(steps: range, start: int) -> None:
    """It grows in proportion to the steps of a run that goes on, or rises in each row far beyond its start."""
    lines = "".join(f"{n},2.0,{2 * n + start}\n" for n in steps)
    (row,) = table_rows(f"step,s/it,total time (s)\n{lines}", "t.csv")

    assert str(2 * steps[-1] + start) == row["figures"]["seconds"]


def test_a_course_whose_pace_changes_is_no_factor_of_its_whole_time() -> None:
    """The pace is that of the later half. It is asked about, and the time is left out with a word."""
    paces = [1.0] * 10 + [2.0] * 10
    times = [sum(paces[: n + 1]) * 10 for n in range(20)]
    lines = "".join(f"{10 * n},{p},{t},200\n" for n, (p, t) in enumerate(zip(paces, times, strict=True), 1))
    found = report(f"step,s/it,total time (s),steps\n{lines}")

    assert [] == found.findings
    assert any("what changed?" in question for question in found.questions)
    assert any("s in all (300.0) are left out" in question for question in found.questions)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ("task,samples/s\nnlp,120\nspeech,80\ncv,400\n", 3),
        ("run,padding,s/it\na,none,1.0\nb,min,0.5\nc,max,0.7\n", 3),
        ("mode,samples/s\ndefault,100\nreduce,110\nmax,120\n", 3),
        ("run,samples/s\na,120\nb,80\nmin,80\nmax,120\n", 2),
        ("run,samples/s\na,100\nb,104\nc,96\ncv,0.04\n", 3),
        ("run,samples/s\na,10\nb,100\nc,1000\nstd,545.6\n", 3),
    ],
)
def test_a_run_with_the_name_of_a_spread_is_a_run(rows: str, kept: int) -> None:
    """A spread is small beside the rows, and an end is one of their figures; other cells than the name say nothing."""
    assert kept == len(report(rows).runs)


@pytest.mark.parametrize(
    "cell", ["1.25 (+12%)", "1.25 (1.12x)", "1.25 [−11 %]", "1.25 (12% faster)", "1.25 (baseline)", "1.25 (n=3)"]
)
def test_a_ratio_in_brackets_behind_a_number_is_no_part_of_it(cell: str) -> None:
    """The number is read as if it stood alone, also with its unit in the cell."""
    plain, unit = (
        table_rows(f"config,s/it\na,1.40\nb,{cell}\n", "t"),
        table_rows(f"config,speed\na,1.40 s/it\nb,{cell.replace('1.25', '1.25 s/it')}\n", "t"),
    )

    assert ["1.40", "1.25"] == [row["figures"]["seconds_per_step"] for row in plain]
    assert ["1.40", "1.25"] == [row["figures"]["seconds_per_step"] for row in unit]


@pytest.mark.parametrize(
    ("cells", "devices", "named"),
    [
        (("8x A100", "16x A100"), [8, 16], False),
        (("8 × H100-80GB", "8x A100"), [8, 8], True),
        (("8 GPUs", "4"), [8, 4], False),
        (("1x", "8x"), [1, 8], False),
        (("1 (A100)", "8 (H100)"), [1, 8], True),
        (("2x8 A100", "8"), [None, None], True),
        (("A100", "H100"), [None, None], True),
        (("1x DGX A100", "8"), [None, None], True),
    ],
)
def test_devices_that_are_counted_and_named_are_read(cells: tuple[str, str], devices: list, named: bool) -> None:
    """Their number is a figure, and their names tell rows apart; what holds several devices counts none."""
    found = report(f"run,GPUs,samples/s\na,{cells[0]},100\nb,{cells[1]},190\n")

    assert devices == [run.given["devices"].middle if "devices" in run.given else None for run in found.runs]
    assert named == (len({run.unknown.get("GPUs") for run in found.runs}) > 1)


def test_a_metric_of_training_may_have_a_path(tmp_path: Path) -> None:
    """As trackers name it, also where that of an evaluation stands beside it."""
    path = tmp_path / "log.jsonl"
    line = '{{"train/epoch": {}, "perf/tokens_per_sec": 90{}, "eval/tokens_per_sec": 5}}\n'
    path.write_text("".join(line.format(n, n) for n in (1, 2, 3)))
    (row,) = read_file(path)

    assert {"tokens_per_second": "903"} == row["figures"]


@pytest.mark.parametrize("step", ["nan", "inf", "1e999", ""])
def test_a_step_that_is_no_number_leaves_a_course_readable(step: str) -> None:
    """Its row says nothing of the pace by the clock."""
    lines = "".join(f"{step if n == 8 else n},{1_700_000_000 + 30 * n},{1 / n:.3f}\n" for n in range(1, 12))
    found = table_rows(f"step,timestamp,loss\n{lines}", "t.csv")

    assert [30.0] == [parse(row["figures"]["seconds_per_step"]).middle for row in found if row["figures"]]


def by_steps(header: str, cells: str) -> tuple[list[str], Audit]:
    """Return the cells of a column beside steps that rise, and the audit of its table."""
    each = cells.split(",") if "," in cells else cells.split()
    rows = "".join(f"{n}00,{900 - n},{cell}\n" for n, cell in enumerate(each, 1))
    return each, report(f"step,tokens/s,{header}\n{rows}")


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("size", "7b 13b 70b"),
        ("model size", "125m 350m 760m"),
        ("params", "125 M,350 M,760 M"),
        ("model", "125m 350m 1.3b"),
        ("power limit", "300W 350W 400W"),
        ("cap", "300W 350W 400W"),
        ("bucket_cap_mb", "25MB 50MB 100MB"),
        ("save interval", "10m 30m 1h"),
    ],
)
def test_sizes_and_amounts_that_are_set_tell_runs_apart(header: str, cells: str) -> None:
    """Rows that rise by their steps are no course if a model's size or what is set differs."""
    each, found = by_steps(header, cells)

    assert [{header: cell} for cell in each] == [dict(run.unknown) for run in found.runs]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("power", "300W 310W 305W"),
        ("gpu mem", "18 GiB,19 GiB,18 GiB"),
        ("progress", "1.9% 2.9% 3.9%"),
        ("lag", "5m 6m 7m"),
    ],
)
def test_amounts_that_training_changes_tell_no_runs_apart(header: str, cells: str) -> None:
    """Their headers do not say that they are set."""
    _, found = by_steps(header, cells)

    assert 1 == len(found.runs)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ("p50,412\np90,431\np99,1912\nmax,9120\n", ["p50", "p90", "p99"]),
        ("p50,412\np95,431\nmean,440\nstd,300\n", ["p50", "p95"]),
        ("50th percentile,412\n95th percentile,431\nMax,900\n", ["50th percentile", "95th percentile"]),
    ],
)
def test_what_sums_up_percentiles_is_no_run(rows: str, kept: list[str]) -> None:
    """The largest of all steps is above each percentile; the table is asked about."""
    found = report(f"run,step_ms\n{rows}")

    assert kept == [run.label for run in found.runs]
    assert any("up the other rows" in question for question in found.questions)


@pytest.mark.parametrize(
    ("cell", "read"),
    [
        ("135% speedup", None),
        ("135% speed-up", None),
        ("+35% speedup", 1.35),
        ("35% faster", 1.35),
        ("1.35x speedup", 1.35),
    ],
)
def test_a_percentage_of_a_speed_up_is_read_only_if_it_means_one_thing(cell: str, read: float | None) -> None:
    """A speed-up of 135 % may be 1.35 or 2.35 times as fast, and is asked about."""
    found = report(f"run,s/it,speedup\na,1.35,\nb,1.00,{cell}\n")
    said = found.runs[1].given.get("speed_up")

    assert read == (said and said.middle)
    assert (read is None) == any("how many times as fast is that" in question for question in found.questions)


@pytest.mark.parametrize("word", ["eval", "test", "valid", "dev", "validation", "inference"])
def test_speeds_of_an_evaluation_stand_beside_those_of_training(word: str) -> None:
    """Also under the words that logs use; by itself such a speed is none of training."""
    rows = table_rows(f"model,train (samples/s),{word} (samples/s)\na,100,300\nb,120,310\n", "t.csv")

    assert ["100", "120"] == [row["figures"]["samples_per_second"] for row in rows]
    with pytest.raises(Unreadable, match="no column holds a figure"):
        table_rows(f"model,{word} (samples/s)\na,300\nb,310\n", "t.csv")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("cost", False),
        ("samples", False),
        ("steps", False),
        ("mfu", True),
        ("samples_per_second", True),
        ("hours", True),
    ],
)
def test_only_a_speed_or_a_time_is_read_behind_the_path_of_training(tmp_path: Path, name: str, read: bool) -> None:
    """A `train/cost` is a loss and no money, and `train/samples` may be of each step or of all."""
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"s/it": 2.0, "train/{name}": 40}}\n')
    (row,) = read_file(path)

    assert read == (name in row["figures"])
    assert "seconds_per_step" in row["figures"]


# -- which steps a clock counts --


def logged(columns: str, rows: str, tmp_path: Path) -> list[dict]:
    path = tmp_path / "history.csv"
    path.write_text(columns + "\n" + rows)
    return read_file(path)


def test_what_a_tracker_logged_is_no_step(tmp_path: Path) -> None:
    """W&B counts what was logged; the training's own count tells the time of a step, whatever is logged between."""
    rows = ""
    for run, step, begins in (("a", 2.5, 0), ("b", 1.5, 9000)):
        for i in range(1, 31):
            rows += f"{run},{i + i // 10},{10 * i},{CLOCK + begins + 10 * i * step},1.2,\n"
            rows += "" if i % 10 != 9 else f"{run},{i + i // 10 + 1},,{CLOCK + begins + 10 * i * step + 0.1},,1.4\n"
    a, b = logged("run,_step,train/global_step,_timestamp,train/loss,eval/loss", rows, tmp_path)

    assert [2.5, 1.5] == [pytest.approx(parse(row["figures"]["seconds_per_step"]).middle, rel=0.02) for row in (a, b)]
    assert (["a", "b"], []) == ([a["label"], b["label"]], a["questions"] + b["questions"])


@pytest.mark.parametrize(
    ("columns", "row", "words"),
    [
        ("_step,_timestamp,loss", "{i},{clock},1.2\n", "'_step' may count what was logged"),
        ("step,global_step,_timestamp,loss", "{i},{four},{clock},1.2\n", "'step' and 'global_step' count other steps"),
        ("Step,trainer/global_step,_timestamp,loss", "{i},{four},{clock},1.2\n", "count other steps: which are"),
    ],
)
def test_counts_that_differ_are_asked_about(columns: str, row: str, words: str, tmp_path: Path) -> None:
    """The time between two rows is then that of nobody knows how many steps; speeds that are said stay."""
    rows = [row.format(i=i, four=4 * i, clock=CLOCK + 25.2 * i) for i in range(40)]
    with pytest.raises(Unreadable, match=words):
        logged(columns, "".join(rows), tmp_path)
    (row_of_all,) = logged(f"{columns},tokens/s", "".join(each.replace("\n", ",4000\n") for each in rows), tmp_path)

    assert {"tokens_per_second": "4000"} == row_of_all["figures"]
    assert not any(words in question for question in row_of_all["questions"])


HISTORY = "run,_step,trainer/global_step,gpu,tokens/s"


@pytest.mark.parametrize("gpu", ["", "A100"])
def test_what_was_logged_before_the_first_step_is_no_run(gpu: str, tmp_path: Path) -> None:
    """It belongs to the run of its name, as what was logged between two steps does, also without words beside it."""
    rows = ""
    for run, first, slow, speed in (("a", 0, 300, 400), ("b", 41, 700, 800)):
        rows += f"{run},{first},,,{slow}\n"
        rows += "".join(f"{run},{first + i},{10 * i},{gpu},{speed}\n" for i in range(1, 41))
    found = logged(HISTORY, rows, tmp_path)

    assert [("a", gpu), ("b", gpu)] == [(row["label"], row["unknown"].get("gpu", "")) for row in found]
    assert [{"tokens_per_second": "400"}, {"tokens_per_second": "800"}] == [row["figures"] for row in found]


def test_without_names_too(tmp_path: Path) -> None:
    rows = "0,,150\n" + "".join(f"{i},{10 * i},400\n" for i in range(1, 41))
    found = logged("_step,trainer/global_step,tokens/s", rows * 2, tmp_path)

    assert [{"tokens_per_second": ["400", "400"]}] == [row["figures"] for row in found]


def test_the_clock_before_the_first_step_times_nothing(tmp_path: Path) -> None:
    rows = "".join(f"{i},,{CLOCK + 100 * i}\n" for i in range(30))
    rows += "".join(f"{i},{10 * i},{CLOCK + 3000 + 5 * i}\n" for i in range(30, 41))
    (row,) = logged("_step,trainer/global_step,_timestamp", rows, tmp_path)

    assert pytest.approx(0.5, rel=0.02) == parse(row["figures"]["seconds_per_step"]).middle


def test_a_row_without_a_step_and_with_another_name_is_a_run(tmp_path: Path) -> None:
    rows = "".join(f"a,8B,{i},400\n" for i in range(1, 9)) + "a,70B,,80\n"
    found = logged("run,model,step,tokens/s", rows, tmp_path)

    assert [("a 8B", "400"), ("a 70B", "80")] == [(row["label"], row["figures"]["tokens_per_second"]) for row in found]


def test_a_count_may_lag_behind(tmp_path: Path) -> None:
    """One that is logged a step late now and then counts the same steps."""
    rows = "".join(f"{i},{i - (i % 7 == 0)},{CLOCK + 5 * i}\n" for i in range(1, 41))
    (row,) = logged("step,global_step,_timestamp", rows, tmp_path)

    assert pytest.approx(5.0, rel=0.02) == parse(row["figures"]["seconds_per_step"]).middle


def test_counts_that_are_alike_are_one(tmp_path: Path) -> None:
    """They may begin elsewhere, and one of them again with each epoch."""
    rows = "".join(f"{10 * i},{10 * i + 1},{i * 10 % 200},{CLOCK + 5 * i}\n" for i in range(60))
    (row,) = logged("step,global_step,iter,_timestamp", rows, tmp_path)

    assert pytest.approx(0.5, rel=0.02) == parse(row["figures"]["seconds_per_step"]).middle


# -- rows of other work --


def test_rows_of_an_evaluation_are_no_runs() -> None:
    """A column says so for each row, and it is asked; a run may be called by such a word."""
    rows = "".join(f"{e},train,61.{e},812\n{e},val,8.{e},2400\n" for e in range(1, 6))
    found = report("epoch,phase,time (s),samples/s\n" + rows)
    other = report("run,samples/s\ntest,812\nbaseline,2400\n")

    assert [{"samples_per_second": 812.0}] == [{q: f.middle for q, f in run.given.items()} for run in found.runs]
    assert "Are the rows that 'phase' calls 'val' of an evaluation? They are left out" in found.questions
    assert ["test", "baseline"] == [run.label for run in other.runs]


@pytest.mark.parametrize("table", ["run,queue,samples/s\nA,train,200\nB,dev,300\n", "name,samples/s\nA,200\nB,300\n"])
@pytest.mark.parametrize("names", [("A", "B"), ("training", "testing")])
def test_a_word_of_an_evaluation_elsewhere_leaves_out_no_row(table: str, names: tuple[str, str]) -> None:
    """It may be the name of a run, a queue or a branch."""
    found = report(table.replace("A,", f"{names[0]},").replace("B,", f"{names[1]},"))

    assert [*names] == [run.label for run in found.runs]


def test_an_evaluation_is_left_out_whatever_stands_beside_it() -> None:
    """A row of a warm-up or an empty cell changes nothing, and a claim on such a row is told why it has none."""
    table = "run,phase,samples/s\na,train,200\na,val,1200\na,warmup,201\na,,202\nb,val,1300\n"
    found = report(table)
    claimed = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": "2"}

    assert all(run.given["samples_per_second"].high < 300 for run in found.runs)
    with pytest.raises(
        SettingsError, match=r"no row is called 'b'\. Its rows are left out, as they are of an evaluation"
    ):
        report(table, claimed)


# -- cells and headers as people write them --


@pytest.mark.parametrize(
    ("header", "cell", "quantity", "value"),
    [
        ("Time / epoch", "3m12s/epoch", "seconds_per_epoch", 192.0),
        ("Time / epoch", "3m 12s per epoch", "seconds_per_epoch", 192.0),
        ("epoch time", "~1:02:33", "seconds_per_epoch", 3753.0),
        ("epoch time", "~ 3m12s", "seconds_per_epoch", 192.0),
        ("step time", "~ 2.5 s", "seconds_per_step", 2.5),
        ("step time", "3m12s/100 steps", "seconds_per_step", 1.92),
        ("step time (ms)", "3m12s/100 steps", "seconds_per_step", 1.92),
        ("time / 100 steps", "3m12s/100 steps", "seconds_per_step", 1.92),
        ("time / 100 steps", "3m12s", "seconds_per_step", 1.92),
        ("epoch time", "1h 30m / 3 epochs", "seconds_per_epoch", 1800.0),
        ("img/s total", "1549", "samples_per_second", 1549.0),
        ("Step&nbsp;time", "0.664&nbsp;s", "seconds_per_step", 0.664),
        ("step time (p50)", "412 ms", "seconds_per_step", 0.412),
    ],
)
def test_more_ways_to_write_a_cell_are_read(header: str, cell: str, quantity: str, value: float) -> None:
    (row,) = table_rows(f"| run | {header} |\n|---|---|\n| a | {cell} |\n", "t")

    assert {quantity: pytest.approx(value)} == {q: parse(v).middle for q, v in row["figures"].items()}


@pytest.mark.parametrize("cell", ["0:00:02", "0h 1m", "3m12s", "1:02:33"])
def test_about_is_no_more_exact(cell: str) -> None:
    """A tilde makes no time more exact than its last unit does."""
    rows = table_rows(f"run,epoch time\na,~{cell}\nb,{cell}\n", "t")
    about, exactly = (parse(row["figures"]["seconds_per_epoch"]) for row in rows)

    assert about.low <= exactly.low
    assert about.high >= exactly.high


@pytest.mark.parametrize("cell", ["1" + " " * 120_000 + "x", "1 x" + " " * 120_000 + "x"])
def test_long_cells_are_read_in_linear_time(cell: str) -> None:
    """Twice as many characters take twice the time. Were it four times, these would take ten minutes."""
    with pytest.raises(Unreadable):
        table_rows(f"run,epoch time\na,{cell}\nb,2 s\n", "t")


def test_a_time_of_another_thing_is_refused() -> None:
    with pytest.raises(Unreadable, match="the column holds s/epoch"):
        table_rows("| run | epoch time |\n|---|---|\n| a | 3m12s/step |\n", "t")


@pytest.mark.parametrize(
    "what", ["p99", "p100", "99th percentile", "max", "std", "sd", "σ", "±", "worst", "slowest", "fastest", "peak"]
)
def test_a_time_of_few_steps_is_no_pace(what: str) -> None:
    """It is no setting either, in which two runs could differ."""
    found = report(f"run,step time (p50),step time ({what})\na,1.82s,4s\nb,1.21s,1s\n", claim(None, "1.5"))
    alone = report(f"run,step time (ms),samples/s [{what}]\na,182,4\nb,121,1\n", claim(None, "1.5"))

    assert [1.82, 1.21] == [run.given["seconds_per_step"].middle for run in found.runs]
    assert not any("which was not read" in text for audited in (found, alone) for text in claim_lines(audited))


def test_a_minimum_in_brackets_is_no_time_in_minutes() -> None:
    """It stands beside other statistics, of which that of a middle step is read."""
    (row,) = table_rows("run,step time ms (mean),step time (min),step time (max)\na,412,390,800\n", "t")
    (minutes,) = table_rows("run,epoch time (min)\na,20\n", "t")

    assert {"seconds_per_step": pytest.approx(0.412)} == {q: parse(v).middle for q, v in row["figures"].items()}
    assert {"seconds_per_epoch": pytest.approx(1200)} == {q: parse(v).middle for q, v in minutes["figures"].items()}


def test_a_table_of_the_best_says_why_it_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"'tokens/s \(best\)' says the 'best' of several steps or runs"):
        table_rows("run,tokens/s (best)\na,200\nb,300\n", "t")


@pytest.mark.parametrize(
    "header",
    ["sparsity percent", "sparsity (%)", "frozen layers pct", "length (max)", "workers (max)", "seq len [max]"],
)
def test_what_is_set_confounds_a_claim_though_it_looks_like_a_result(header: str) -> None:
    """Only a time, a speed or memory has a largest value, and only a share of a step is measured in percent."""
    (judged,) = report(
        f"run,{header},torch_compile,samples/s\na,10,no,210\nb,90,yes,290\n", claim("torch_compile", "1.38")
    ).claims

    assert (Judgement.UNDECIDED, True) == (judged.judgement, f"{header} (10, 90)" in judged.reason)


@pytest.mark.parametrize("header", ["data_wait_pct", "gpu percent", "step time s (max)", "memory (max)"])
def test_what_is_measured_confounds_nothing(header: str) -> None:
    (judged,) = report(
        f"run,{header},torch_compile,samples/s\na,58,no,210\nb,17,yes,290\n", claim("torch_compile", "1.38")
    ).claims

    assert Judgement.HOLDS is judged.judgement


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("ip", ("10.0.0.1", "10.0.0.2")),
        ("day", ("12.05.2024", "13.05.2024")),
        ("measured", ("2024.05.12", "2024.05.13")),
        ("section", ("1.2.1", "1.2.2")),
    ],
)
def test_addresses_and_dates_are_no_versions(header: str, cells: tuple[str, str]) -> None:
    """Rows that differ in them alone are repeats."""
    rows = "".join(
        f"{run},{cell},{speed + i}\n" for run, speed in (("a", 200), ("b", 300)) for i, cell in enumerate(cells)
    )
    found = report(f"run,{header},samples/s\n{rows}")

    assert [("a", [200, 201]), ("b", [300, 301])] == [(r.label, r.repeats["samples_per_second"]) for r in found.runs]


def test_a_share_in_percent_is_no_setting() -> None:
    found = report("run,step_time_s,data_pct\na,0.80,41\nb,0.49,4\n")

    assert not any("data_pct" in text for text in claim_lines(found))


def test_changes_beside_figures_in_lines_are_no_run() -> None:
    """They may have a minus sign of their own, and percentage points."""
    lines = "| Step time | 1.82s | 1.21s | −33.5% |\n| Samples/s | 70.3 | 105.8 | +50.5% |\n"
    lines += "| GPU util | 58% | 91% | +33pp |\n"
    before, after = table_rows("| Metric | Before | After | Δ |\n|---|---|---|---|\n" + lines, "t")

    assert ("Before", "After") == (before["label"], after["label"])
    figures = {"seconds_per_step": "1.21", "samples_per_second": "105.8", "utilisation": "91"}
    assert figures | {"time_left": "66.5", "speed_up": "1.505"} == after["figures"]


@pytest.mark.parametrize(
    ("header", "a", "b"),
    [
        ("torch version", "2.3.1", "2.5.0"),
        ("CUDA ver", "12.1", "12.4"),
        ("torch", "2.3.1", "2.5.0"),
        ("cuda_ver", "12.1", "12.4"),
    ],
)
def test_versions_that_differ_confound_a_claim(header: str, a: str, b: str) -> None:
    table = f"run,{header},torch_compile,samples/s\na,{a},no,210\nb,{b},yes,290\n"
    (judged,) = report(table, claim("torch_compile", "1.38")).claims

    assert (Judgement.UNDECIDED, True) == (judged.judgement, f"{header} ({a}, {b})" in judged.reason)


def test_a_table_of_metrics_says_what_to_do() -> None:
    table = "run_id,key,value,timestamp,step\n" + "".join(f"x,step_time,0.5,{CLOCK + i},{i}\n" for i in range(9))
    with pytest.raises(Unreadable, match="'key' says what each row holds: give each of its metrics a column"):
        table_rows(table, "t")


@pytest.mark.parametrize("cell", ["25", "25 s", "25000 ms", "25s"])
def test_a_time_of_several_steps_stays_one_in_another_unit(cell: str, tmp_path: Path) -> None:
    """The header says how many steps are timed, whatever unit of time stands in the cell."""
    path = tmp_path / "t.csv"
    path.write_text(f"run,time per 100 iterations (s)\na,{cell}\nb,20\n")

    assert 0.25 == pytest.approx(parse(read_file(path)[0]["figures"]["seconds_per_step"]).middle)
