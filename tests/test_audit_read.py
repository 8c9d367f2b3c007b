"""Tables, logs and trainer states as people have them: read right, or refused with the place and the question."""

from __future__ import annotations

import contextlib
import json
import random
import re
import string
from pathlib import Path

import pytest
from tqdm import tqdm

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.figures import parse
from slowstep.audit.read import Unreadable, read_file, read_table
from slowstep.audit.read.tables import table_rows
from slowstep.audit.relations import TITLES
from slowstep.audit.run import BESIDE
from slowstep.audit.terminal_lines import claim_lines, finding_lines
from slowstep.records import PHASES
from slowstep.settings import Settings, SettingsError, override
from slowstep.settings.load import validate

EXPORT = (
    "Run ID,Name,State,Duration,train/train_samples_per_second,train_runtime,per_device_train_batch_size,optim,sweep\n"
    "a1,plain,finished,12min,15.02,638.8,32,adamw_torch,\n"
    "b2,fused,finished,11min,16.5,581.8,32,adamw_torch_fused,x\n"
)


def report(**reported: object) -> Settings:
    """A run of which nothing is known, with what was reported of it."""
    return validate({"name": "own", "model": {"init": "random", "model_type": "llama"}, "reported": reported}, "own")


def audited(table: str, settings: dict | None = None, **reported: object) -> Audit:
    return audit(override(report(table=table, **reported), settings or {}))


# -- read right --


def test_a_markdown_table_is_read_by_its_units() -> None:
    """Headers and cells say what they are; marks and emphasis are no part of it."""
    text = """
Some words before.

| Test | per_device_train_batch_size | Speed (s/it) | Note |
|------|----|:---:|---|
| base | 32 | **2.13** | fine |
| large ⚠️ | 96 | 6.33s/it | `slow` |

And after.
"""
    first, second = table_rows(text, "t")

    assert ({"per_device_train_batch_size": 32}, {"seconds_per_step": "2.13"}) == (first["settings"], first["figures"])
    assert ("large", {"seconds_per_step": "6.33"}) == (second["label"], second["figures"])


def test_a_unit_in_the_cell_is_enough(tmp_path: Path) -> None:
    """`2.1s/it` beside `1.3 it/s` under a header that says nothing."""
    path = tmp_path / "t.csv"
    path.write_text("run,speed\na,2.1s/it\nb,1.3 it/s\n")

    assert [{"seconds_per_step": "2.1"}, {"steps_per_second": "1.3"}] == [r["figures"] for r in read_table(path)]


def test_units_are_turned_into_the_kits_own(tmp_path: Path) -> None:
    """Milliseconds, minutes an epoch: with as many digits as were written."""
    path = tmp_path / "t.csv"
    path.write_text("run;ms/step;epoch time (min)\na;99.7;56.7\n")
    (row,) = read_table(path)
    (run,) = audit(report(files=[str(path)])).runs

    assert set(row["figures"]) == {"seconds_per_step", "seconds_per_epoch"}
    step = run.given["seconds_per_step"]
    assert (0.09965, 0.09975) == pytest.approx((step.low, step.high), abs=1e-5)
    assert run.given["seconds_per_epoch"].middle == pytest.approx(3402, abs=0.1)


def test_hours_are_of_what_the_header_says() -> None:
    """An epoch's or the whole job's; where it does not say whose, it is asked."""
    (run,) = audited("run,s/it,steps_per_epoch,epochs,epoch time (h)\na,2.13,1938,3,1.15\n").runs
    (whole,) = audited("run,training time (h),hours\na,1.5,1.5\n").runs

    assert (run.given["seconds_per_epoch"].middle, run.solved.contradictions) == (pytest.approx(4140), ())
    assert whole.solved.known["seconds"].middle == pytest.approx(5400)
    for table in ("run,time (h)\na,1.15\n", "run,duration\na,1.15 h\n"):
        with pytest.raises(SettingsError, match="is it of a step, an epoch or the whole job"):
            audited(table)


def test_what_a_header_is_said_to_be_has_to_exist() -> None:
    """Or the column would be left out without a word."""
    with pytest.raises(SettingsError, match=r"calls batch 'per_device_train_batch'.*Did you mean"):
        audited("run,batch,s/it\na,4,2.0\n", columns={"batch": "per_device_train_batch"})
    for header in ("run", "run_id,run"):
        cells = "1," * header.count(",") + "a"
        found = audited(
            f"{header},seq,sps\n{cells},512,7.5\n", columns={"seq": "max_length", "sps": "train/samples_per_second"}
        )
        (run,) = found.runs

        assert (run.settings.dataset.max_length, run.given["samples_per_second"].middle) == (512, 7.5)


def test_a_header_may_be_explained() -> None:
    """What the table does not say, the parameter file can."""
    assert audited("| run | Speed |\n|---|---|\n| a | 2 |", columns={"Speed": "s/it"}).runs[0].given


def test_an_export_is_read_by_the_names_that_are_known(tmp_path: Path) -> None:
    """Of MLflow's and W&B's columns speeds and settings are taken, and nothing is asked about the rest."""
    path = tmp_path / "export.csv"
    path.write_text(EXPORT)
    rows = read_file(path)

    assert ["plain", "fused"] == [row["label"] for row in rows]
    assert {"samples_per_second": "15.02", "seconds": "638.8"} == rows[0]["figures"]
    assert {"per_device_train_batch_size": 32, "optim": "adamw_torch_fused"} == rows[1]["settings"]


def test_an_exports_runtime_is_left_alone(tmp_path: Path) -> None:
    """W&B writes numbers without a unit under it, and its documentation says none; Trainer's own runtime is seconds."""
    path = tmp_path / "wandb.csv"
    path.write_text("Name,State,Runtime,train/train_runtime\na,finished,702,638.8\nb,finished,640,\n")

    assert [{"seconds": "638.8"}, {}] == [row["figures"] for row in read_file(path)]


def test_one_quantity_in_two_units_is_one() -> None:
    """Where both columns say the same."""
    (run,) = audited("run,s/it,ms/step\na,0.0997,99.7\n").runs

    assert run.given["seconds_per_step"].middle == 0.0997


def test_what_a_device_can_do_may_be_unknown() -> None:
    """The rest is audited all the same, and the name that comes nearest is told."""
    found = audited("run,s/it,it/s\na,2.0,5.0\n", device="NVIDIA A10H")

    assert [FindingKind.ARITHMETIC] == [f.kind for f in found.faults]
    assert any("'NVIDIA A10H'" in q and "Did you mean 'NVIDIA A10" in q for q in found.questions)


def test_a_console_log_is_read_from_its_bars(tmp_path: Path) -> None:
    """The later bars count and the evaluation's do not; what Trainer says at the end holds more than steps, but tells
    the samples of one."""
    bars = [f"\r {n:3}%|##| {n}/100 [{clock(2.1 * n)}<01:00,  {1.9 if n < 40 else 2.1:.2f}s/it]" for n in range(1, 100)]
    ends = "{'train_runtime': '210.5', 'train_samples_per_second': 15.2, 'train_steps_per_second': 0.475}"
    path = tmp_path / "train.log"
    path.write_text("".join(bars) + "\r 100%|##| 7/7 [00:01<00:00, 9.00it/s]\n" + ends)
    (row,) = read_file(path)

    (run,) = audit(report(files=[str(path)])).runs
    assert {"seconds_per_step", "steps", "samples_per_step", "seconds"} == set(row["figures"])
    assert float(row["figures"]["seconds_per_step"]) == pytest.approx(2.1)
    assert run.solved.known["samples_per_step"].middle == pytest.approx(32, rel=0.01)
    assert run.solved.known["samples_per_second"].middle == pytest.approx(32 / 2.1, rel=0.01)
    assert run.solved.contradictions == ()


LOADING = "\rLoading weights: 100%|##| 291/291 [00:00<00:00, 1523.10it/s, Materializing param=norm]\n"


def clock(seconds: float) -> str:
    """The time that a bar shows as elapsed."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def bars(total: int, pace: str, name: str = "") -> str:
    """As tqdm leaves them in a log."""
    number, unit = re.match(r"([\d.]+)(.*)", pace).groups()
    step = float(number) if unit.startswith("s/") else 1 / float(number)
    return "".join(
        f"\r{name} {n * 100 // total:3}%|##| {n}/{total} [{clock(n * step)}<01:00,  {pace}]" for n in range(1, total)
    )


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (LOADING + bars(20, "2.00s/it"), [{"seconds_per_step": "2.00", "steps": 20}]),
        (bars(20, "2.00s/it") + bars(7, "9.00it/s"), [{"seconds_per_step": "2.00", "steps": 20}]),
        (bars(20, "2.15s/it") + bars(20, "1.13s/it"), [{"seconds_per_step": p} for p in ("2.15", "1.13")]),
        (
            bars(9, "3.00it/s", "Epoch 1/2:") + bars(9, "3.00it/s", "Epoch 2/2:"),
            [{"steps_per_second": ["3.00", "3.00"], "steps_per_epoch": 9}],
        ),
    ],
)
def test_of_bars_those_of_training_count(text: str, figures: list[dict], tmp_path: Path) -> None:
    """Not those that load weights or evaluate; a training that begins anew is a row of its own, an epoch is none; and
    digits stay as they were written."""
    path = tmp_path / "train.log"
    path.write_text(text)

    assert figures == [row["figures"] for row in read_file(path)]


DRAWN_ANEW = [
    ("loss: {loss:.4f}", "acc: {accuracy:.1f}%"),
    ("Epoch: {epoch} | loss: {loss:.4f}, lr: 1e-04 ", "Epoch: {epoch} | val_loss: {loss:.4f} "),
    ("[Train] Epoch {epoch}/2 [loss={loss:.3f} acc={accuracy:.1f}%]", "[Val] Epoch {epoch}/2 [loss={loss:.3f}]"),
    ("Epoch {epoch}: train_loss={loss:.3f} mem: 3.2GB", "Epoch {epoch}: val_loss={loss:.3f} mem: 3.2GB"),
    ("Epoch {epoch} Train Loss {loss:.3f} | Val Loss 0.4123", "Epoch {epoch} Val Loss {loss:.3f}"),
    ("Epoch {epoch} (loss: nan)", "Eval (loss: nan)"),
    ("{epoch}|{step}|Loss: {loss}", "[val] {epoch}|{step}|Loss: {loss}"),
    ("Train dataloader", "Val dataloader"),
    ("loss: {loss:.3f}", "Epoch {epoch} | val_loss {loss:.3f}"),
    ("Epoch {epoch} train loss {loss:.3f}", "Epoch {epoch} evaluation: {loss:.3f}"),
    *(
        ("Epoch {epoch}/2", other + " {loss:.3f}")
        for other in ("acc:", "mAP:", "PPL", "Evaluating:", "Validating", "Testing:", "Inference", "Tokenizing:")
    ),
    *(
        ("Epoch {epoch}/2", other)
        for other in ("Loading: 3.2GB", "Train dataloader caching latents", "train_loader (tokenizing)")
    ),
]
"""Descriptions of a training's bars, with those of other work behind each epoch."""


@pytest.mark.parametrize("total", [8, 40, 60])
@pytest.mark.parametrize(("training", "other"), DRAWN_ANEW)
def test_a_description_that_holds_the_last_loss_is_one_bar_s(
    training: str, other: str, total: int, tmp_path: Path
) -> None:
    """Each bar says another loss; the bars of an evaluation or of what is prepared are ten times as fast, and none of
    training, however many steps they have."""

    def drawn(description: str, epoch: int, total: int, seconds: float) -> str:
        bars = []
        for n in range(1, total + 1):
            told = description.format(epoch=epoch, loss=3 / (n + epoch), accuracy=n, step=n + total * (epoch - 1))
            bars.append(tqdm.format_meter(n, total, n * seconds, prefix=told))
        return "\r".join(bars) + "\n"

    path = tmp_path / "train.log"
    path.write_text("".join(drawn(training, e, 40, 0.5) + drawn(other, e, total, 0.05) for e in (1, 2)))
    paces = [row["figures"]["steps_per_second"] for row in read_file(path)]

    assert {"2.00"} == {pace for each in paces for pace in ([each] if isinstance(each, str) else each)}


@pytest.mark.parametrize(
    ("training", "other"),
    [
        ("Epoch {epoch}/3 val_acc=0.8", ""),
        ("Epoch {epoch}/3 (val_loss 0.5)", "Sampling steps"),
        ("Train (best val_acc 0.5)", "loss: {loss:.4f}"),
        ("", "Epoch {epoch} | acc: {loss:.4f}"),
        ("", "Epoch {epoch} F1: {loss:.4f}"),
        ("", "Denoising steps"),
        ("loss: {loss:.4f}", "sampling loop time step"),
        ("Epoch {epoch}", "Train acc: {loss:.4f}"),
        ("Train", "Epoch {epoch} | acc: {loss:.4f}"),
        ("Epoch {epoch} loss: {loss:.4f}", "Epoch {epoch} val_acc 0.5 loss {loss:.4f}"),
    ],
)
@pytest.mark.parametrize("total", [50, 400])
def test_a_metric_beside_another_bar_makes_no_training_of_it(
    training: str, other: str, total: int, tmp_path: Path
) -> None:
    """What a bar was called with its metrics tells first; without them two bars may have one name."""

    def drawn(description: str, epoch: int, total: int, seconds: float) -> str:
        told = [description.format(epoch=epoch, loss=3 / (n + epoch)) for n in range(total + 1)]
        bars = (tqdm.format_meter(n, total, n * seconds, prefix=told[n]) for n in range(10, total + 1, 10))
        return "\r".join(bars) + "\n"

    path = tmp_path / "train.log"
    size = total if other else 50  # of two bars without a name the longer one is training
    path.write_text("".join(drawn(training, e, 100, 0.5) + drawn(other, e, size, 0.05) for e in (1, 2, 3)))
    paces = [row["figures"]["steps_per_second"] for row in read_file(path)]

    assert {"2.00"} == {pace for each in paces for pace in ([each] if isinstance(each, str) else each)}


def test_bars_that_may_as_well_be_an_evaluation_s_are_asked_about(tmp_path: Path) -> None:
    """Two bars of each epoch show their losses alone."""
    path = tmp_path / "train.log"
    each = [f"Epoch {epoch} loss: 0.5{epoch}{bar}" for epoch in (1, 2) for bar in (1, 2)]
    path.write_text("".join(bars(20, "2.00s/it", name + ":") for name in each))
    with pytest.raises(Unreadable, match="which are training"):
        read_file(path)


END = "{'train_runtime': RUNTIME, 'train_samples_per_second': 80.0, 'train_steps_per_second': 2.5}\n"


def one_second_steps(first: int, last: int, total: int = 1000, begun: int = 0) -> str:
    """A part of a training, of which the program that draws the bars had so many steps before it began."""
    return "".join(
        f"\r {n * 100 // total}%|##| {n}/{total} [{clock(n - begun)}<01:00,  1.00s/it]" for n in range(first, last + 1)
    )


@pytest.mark.parametrize(("first", "last"), [(1, 400), (601, 1000)])
def test_a_part_of_a_training_is_not_the_whole(first: int, last: int, tmp_path: Path) -> None:
    """Stopped early or resumed, 400 steps took 400 seconds, and Trainer's bar is one of 1000."""
    path = tmp_path / "train.log"
    path.write_text(one_second_steps(first, last, begun=first - 1) + "\n" + END.replace("RUNTIME", "400.0"))
    found = audit(report(files=[str(path)]))
    (row,) = read_file(path)

    assert [] == found.faults
    assert {"seconds_per_step", "samples_per_step"} == set(row["figures"])


def test_a_bar_that_begins_anew_may_be_an_epoch(tmp_path: Path) -> None:
    """It is one where it has a name; where it has none and Trainer says no end, nobody knows, and no steps in all are
    counted. Trainer draws its bar once more behind the end."""
    plain, named, twice = (tmp_path / f"{name}.log" for name in ("plain", "named", "twice"))
    part, end = one_second_steps(1, 999), END.replace("RUNTIME", "1000.0") + one_second_steps(1000, 1000)
    plain.write_text((part + one_second_steps(1000, 1000)) * 3)
    named.write_text("".join(bars(26, pace, "Training:") for pace in ("1.00s/it", "1.00s/it", "1.00s/it")))
    twice.write_text((part + "\n" + end) * 2)

    (other,) = read_file(named)
    assert [{"seconds_per_step": "1.00"}] * 3 == [row["figures"] for row in read_file(plain)]
    assert other["figures"] == {"seconds_per_step": ["1.00"] * 3, "steps_per_epoch": 26}
    assert [1000, 1000] == [training["figures"]["steps"] for training in read_file(twice)]


def test_a_state_of_several_devices_is_asked_about(tmp_path: Path) -> None:
    """Eight devices take an eighth of the steps that the described run takes on one."""
    path = tmp_path / "trainer_state.json"
    state = {"global_step": 939, "epoch": 3.0, "log_history": [{"train_runtime": 939.0, "step": 939, "epoch": 3.0}]}
    path.write_text(json.dumps(state | {"train_batch_size": 4, "max_steps": 939, "num_train_epochs": 3}))
    run = {"training_arguments": {"per_device_train_batch_size": 4}, "job.samples": 10_000, "job.epochs": 3}
    silent = audit(override(report(files=[str(path)]), run))
    said = [{"label": tmp_path.name, "figures": {"devices": 8}}]
    told = audit(override(report(files=[str(path)], rows=said), run))

    assert [[], []] == [[f.text for f in found.faults] for found in (silent, told)]
    assert [True, False] == [any("trained on 8 devices" in q for q in found.questions) for found in (silent, told)]


def test_a_row_adds_what_a_log_does_not_say(tmp_path: Path) -> None:
    """Without it nobody knows in what two logs differ, and a factor that is blamed is not shown to be the cause."""
    for name, pace in (("before", "3.00"), ("after", "2.00")):
        (tmp_path / f"{name}.log").write_text(bars(200, f"{pace}s/it"))
    files = [str(tmp_path / f"{name}.log") for name in ("before", "after")]
    claim = {"text": "x", "baseline": "before", "treatment": "after", "speed_up": "1.5"}
    claims = [claim | {"factor": "dataloader_num_workers"}, claim]
    rows = [{"label": name, "figures": {"samples_per_step": 8}} for name in ("before", "after")]
    more = [rows[0], rows[1] | {"settings": {"dataloader_num_workers": 4}}]

    silent, told = (audit(report(files=files, claims=claims, rows=given)) for given in (rows, more))

    assert ["can't be decided from these figures", "holds"] == [str(c.judgement) for c in silent.claims]
    assert "doesn't say which settings differ" in silent.claims[0].reason
    assert ["holds", "holds"] == [str(c.judgement) for c in told.claims]
    assert ["before", "after"] == [run.label for run in told.runs]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"label": "after", "figures": {"seconds_per_step": "1.00"}}, "found '1.00', and "),
        ({"label": "aftr", "settings": {"dataloader_num_workers": 4}}, "Did you mean 'after'"),
    ],
)
def test_a_row_can_not_say_otherwise_than_the_log(row: dict, words: str, tmp_path: Path) -> None:
    """What it says differently is a question, and so is a name that no log has."""
    (tmp_path / "after.log").write_text(bars(20, "2.00s/it"))
    with pytest.raises(SettingsError, match=words):
        audit(report(files=[str(tmp_path / "after.log")], rows=[row]))


def test_a_row_says_that_a_log_ended_out_of_memory(tmp_path: Path) -> None:
    """Its bars up to there are no speed; and logs of one name are called by their folders."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.log").write_text(bars(20, "2.00s/it"))
    files = [str(tmp_path / folder / "train.log") for folder in ("one", "two")]
    found = audit(report(files=files, rows=[{"label": "two/train", "out_of_memory": True}]))

    assert [("one/train", False), ("two/train", True)] == [(run.label, run.out_of_memory) for run in found.runs]


def test_an_epoch_that_broke_off_is_no_repeat(tmp_path: Path) -> None:
    """Its first steps hold the start of its workers."""
    path = tmp_path / "train.log"
    path.write_text(
        bars(26, "1.00s/it", "Epoch 1/3:")
        + bars(26, "1.02s/it", "Epoch 2/3:")
        + bars(26, "5.00s/it", "Epoch 3/3:")[:60]
    )
    (row,) = read_file(path)

    assert row["figures"] == {"seconds_per_step": ["1.00", "1.02"], "steps_per_epoch": 26}


def test_a_file_that_contradicts_itself_needs_no_devices(tmp_path: Path) -> None:
    """1000 steps of 1 s are no 500 s, however many devices there were."""
    path = tmp_path / "run.log"
    path.write_text(one_second_steps(1, 1000))
    found = audit(report(files=[str(path)], rows=[{"label": "run", "figures": {"seconds": "500"}}]))

    assert [FindingKind.ARITHMETIC] == [f.kind for f in found.faults]


def test_rows_are_compared_where_nothing_is_claimed() -> None:
    """Two logs and no claim: how fast the one is beside the other, at equal work."""
    lines = claim_lines(audited("run,per_device_train_batch_size,s/it\na,32,2.13\nb,96,6.33\n"))

    padded = claim_lines(
        audit(
            report(
                rows=[
                    {"label": label, "figures": {"tokens_per_second": tokens}, "settings": {"dataset.padding": padding}}
                    for label, tokens, padding in (("a", "900", "max_length"), ("b", "1800", "longest"))
                ]
            )
        )
    )

    assert lines[0] == "'b' is 1.01 times as fast as 'a' in samples/s."
    assert "2.00 times as fast as 'a' in tokens/s; the figures don't say whether the tokens" in padded[0]


def test_an_epoch_that_its_steps_do_not_make_is_asked_about() -> None:
    """833 steps of 1.45 s are a third of an hour."""
    table = "run,s/it,steps_per_epoch,epoch time (min)\na,1.45,833,{}\n"
    asked = [[q for q in audited(table.format(m)).questions if "is not in its" in q] for m in ("60.4", "21.0")]

    assert asked[0][0].startswith("67 % of an epoch of 'a' is not in its 833 steps")
    assert asked[1] == []


def test_an_epoch_that_its_samples_do_not_make_is_asked_about() -> None:
    """360,000 samples at 20 a second are five hours; a gain that the epochs do not have carries that doubt."""
    found = audited("run,samples/s,h/epoch,samples/epoch\na,10.0,10.0,360000\nb,20.0,{},360000\n".format("10.0"))
    sound = audited("run,samples/s,h/epoch,samples/epoch\na,10.0,10.0,360000\nb,20.0,{},360000\n".format("5.0"))

    assert any("50 % of an epoch of 'b' is not in its 360,000 samples" in q for q in found.questions)
    assert "2.00 times as fast as 'a' in samples/s; 50 % of an epoch of 'b'" in claim_lines(found)[0]
    assert "is not in its" not in " ".join([*sound.questions, *claim_lines(sound)])


def test_a_training_that_broke_off_has_no_end(tmp_path: Path) -> None:
    """What Trainer said at the end of the second is not said of the first, and its last bar may stand behind it."""
    end = END.replace("RUNTIME", "1000.0")
    path = tmp_path / "train.log"
    path.write_text(
        one_second_steps(1, 300) + "\nerror\n" + one_second_steps(1, 999) + end + one_second_steps(1000, 1000)
    )
    first, second = (row["figures"] for row in read_file(path))

    assert {"seconds_per_step"} == set(first)
    assert ("1000.0", 1000) == (second["seconds"], second["steps"])


def test_bars_that_could_be_either_are_asked_about(tmp_path: Path) -> None:
    """An evaluation over more batches than there are steps; what Trainer says at the end decides."""
    path = tmp_path / "train.log"
    path.write_text(bars(20, "2.00s/it") + bars(50, "0.08s/it"))
    with pytest.raises(Unreadable, match="holds bars of 20 and 50 steps: which are training"):
        read_file(path)
    path.write_text(
        path.read_text()
        + "{'train_runtime': 44.0, 'train_samples_per_second': 14.545, 'train_steps_per_second': 0.4545}"
    )
    (row,) = read_file(path)

    assert (row["figures"]["seconds_per_step"], row["figures"]["steps"]) == ("2.00", 20)


def test_a_log_of_powershell_is_read(tmp_path: Path) -> None:
    """Which writes UTF-16."""
    path = tmp_path / "train.log"
    path.write_text(bars(20, "2.00s/it"), encoding="utf-16")

    assert read_file(path)[0]["figures"]["seconds_per_step"] == "2.00"


def test_a_training_that_stopped_early_has_no_speed_of_its_own(tmp_path: Path) -> None:
    """Trainer divides the steps it was to take by the time it took."""
    log = [{"train_runtime": 400.0, "train_steps_per_second": 2.5, "train_samples_per_second": 80.0}]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"global_step": 400, "max_steps": 1000, "epoch": 0.4, "log_history": log}))
    (run,) = audit(report(files=[str(path)])).runs

    assert run.solved.known["steps_per_second"].middle == pytest.approx(1.0)


def test_cells_have_units_of_their_own() -> None:
    """Percent, bytes, money, minutes, and words for what did not fit."""
    text = """
| run | utilisation | memory_used_gib | cost | Epoch time | Time per step (sec) |
|---|---|---|---|---|---|
| a | 95% | 12.4 GiB | $200 | 56.7 min | 2.10 |
| b | 40 % | 8192 MiB | 95.50 USD | 3402 s | CUDA OOM |
"""
    first, second = table_rows(text, "t")

    assert {"utilisation": "95", "memory_used_gib": "12.4", "cost": "200", "seconds_per_step": "2.10"}.items() <= first[
        "figures"
    ].items()
    assert {*second["figures"]} == {"utilisation", "memory_used_gib", "cost", "seconds_per_epoch"}
    assert second["out_of_memory"]


def test_every_table_with_figures_is_read() -> None:
    """A line of prose, a table of hyperparameters, and two of results; columns nobody could read are asked about."""
    text = """
Either a | b.

| parameter | value |
|---|---|
| lr | 0.1 |

| run | s/it | headroom |
|---|---|---|
| a | 2.1 | 31 % |

| run | samples/s |
|---|---|
| b | 15.2 |
"""
    found = audited(text)

    assert ["a", "b"] == [run.label for run in found.runs]
    assert any("headroom" in question for question in found.questions)


def test_phases_of_a_step_are_read_from_a_table() -> None:
    """By their names, with their unit in the header; the time of a save is not of each step, and is asked about."""
    table = "run,s/it,data wait (ms),forward (ms),backward pass (s),save (s)\na,2.1,1400,300,0.4,12\n"
    found = audited(table)
    (run,) = found.runs

    assert {"data": 1.4, "forward": 0.3, "backward": 0.4} == {p: f.middle for p, f in run.phases.items()}
    assert any("save (s)" in question for question in found.questions)


def test_phases_that_are_more_than_the_step_are_a_fault() -> None:
    """Also where they come from a table, and were measured twice."""
    (fault,) = audited("run,s/it,forward (ms),backward (ms)\na,0.50,400,300\na,0.51,410,300\n").faults

    assert "the phases make" in fault.text


def test_runs_of_mlflow_have_their_names(tmp_path: Path) -> None:
    """As `mlflow.search_runs().to_csv` writes them."""
    path = tmp_path / "runs.csv"
    head = "run_id,status,params.optim,metrics.train_samples_per_second,tags.mlflow.runName"
    path.write_text(f"{head}\n0a,FINISHED,adamw_torch,15.02,plain\n1b,FINISHED,adamw_torch_fused,16.5,fused\n")

    assert ["plain", "fused"] == [row["label"] for row in read_file(path)]


def test_rows_of_one_name_are_repeats() -> None:
    """Of a table by itself, with the same settings."""
    (base, other) = audited("run,s/it\nbase,2.10\nbase,2.14\nbase,2.12\nother,1.70\n").runs

    assert base.repeats == {"seconds_per_step": [2.10, 2.14, 2.12]}
    assert other.repeats == {}


def test_trainers_names_are_known_in_any_table() -> None:
    """A throughput that does not follow from the step time beside it."""
    header = "run,s/it,train_samples_per_second,per_device_train_batch_size,gradient_accumulation_steps"
    (fault,) = audited(f"{header}\na,2.10,150.02,32,2\n").faults

    assert "samples/s is given as 150 and follows as 30.48" in fault.text


def test_a_log_without_bars_is_read_from_its_end(tmp_path: Path) -> None:
    """`disable_tqdm` leaves what Trainer prints when training ends; a postfix in a bar is no obstacle."""
    ends, bar = tmp_path / "ends.log", tmp_path / "bar.log"
    ends.write_text("{'train_runtime': '210.5', 'train_samples_per_second': 15.2, 'train_steps_per_second': 0.475}")
    bar.write_text("\r 50%|##| 5/10 [00:05<00:05,  1.20s/it, loss=0.5]")

    assert {"seconds", "samples_per_second", "steps_per_second"} == set(read_file(ends)[0]["figures"])
    assert read_file(bar)[0]["figures"]["seconds_per_step"] == "1.20"


def test_a_trainer_state_is_read(tmp_path: Path) -> None:
    """As Trainer writes it when training has ended."""
    state = {
        "global_step": 475,
        "epoch": 1.0,
        "train_batch_size": 32,
        "log_history": [
            {"loss": 1.0, "step": 10},
            {"train_runtime": 1000.0, "train_samples_per_second": 15.2, "train_steps_per_second": 0.475},
        ],
    }
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state))
    (row,) = read_file(path)

    assert row["figures"]["steps"] == 475
    assert audit(report(files=[str(path)])).faults == []


def test_a_run_out_of_memory_is_a_result() -> None:
    """Its cell has no speed, and says what does not fit."""
    found = audited("| run | s/it |\n|---|---|\n| batch 4 | 2.1 |\n| batch 8 | OOM |")

    assert ["batch 8"] == [f.where for f in found.everything if f.kind is FindingKind.MEMORY]
    assert found.runs[0].solved.known["seconds_per_step"].middle == 2.1
    assert not found.runs[1].given


def test_logs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """By their folders, as runs keep their logs."""
    for folder, seconds in (("before", 2.1), ("after", 1.7)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.log").write_text(f"\r 50%|##| 5/10 [00:05<00:05,  {seconds}s/it]")
    found = audit(report(files=[str(tmp_path / name / "train.log") for name in ("before", "after")]))

    assert ["before/train", "after/train"] == [run.label for run in found.runs]


def test_rows_need_no_claim_to_differ_by_more_than_is_expected() -> None:
    """Two measured rows that differ in one factor by more than it can bring."""
    rows = [
        {"label": "a", "settings": {"gradient_checkpointing": True}, "figures": {"samples_per_second": "1.00"}},
        {"label": "b", "settings": {"gradient_checkpointing": False}, "figures": {"samples_per_second": "4.00"}},
        {"label": "c", "settings": {"gradient_checkpointing": False}, "figures": {"samples_per_second": "1.30"}},
    ]
    found = [(f.kind, f.where) for f in audit(report(rows=rows)).faults]

    assert found == [(FindingKind.UNLIKELY, "b, beside a")]


# -- refused, with the place --


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("run,speed\na,2.1\n", ":2:2:", "is it seconds a step"),
        ("run,throughput\na,100\n", ":2:2:", "is it samples or tokens a second"),
        ("run,s/it\na,fast\n", ":2:2:", "expected a number, found 'fast'"),
        ("run,s/it\na,1.0\nb\n", ":3:1:", "expected 2 cells as in the header, found 1"),
        ("run,s/it\na,3 tok/s\n", ":2:2:", "the column holds s/step, and the cell says 'tok/s'"),
        ("run,s/it\na,3 apples\n", ":2:2:", "and the cell says 'apples'"),
        ("run,s/it\na,-2.1\n", ":2:2:", "expected more than 0"),
        ("run,step time\na,2.1\n", ":2:2:", "in what unit?"),
        ("only words\n", ":1:1:", "holds no table"),
        ("a,b\nc,d\n", ":1:1:", "no column holds a figure"),
        ('run,s/it\n"a,1.0\n', ":2:1:", "is no well-formed CSV"),
        ("", ":1:1:", "holds no table"),
        ('run,s/it\na,"0,281"\n', ":2:2:", "is the comma a decimal point? Write '0.281' then"),
        ('run,s/it,warmup_steps\na,1,"0,281"\n', ":2:3:", "is the comma a decimal point? Write '0.281' then"),
        ("run;s/it\na;1,281\n", ":2:2:", "is the comma a decimal point? Write '1.281' then"),
        ("run,s/it,step time (ms)\na,2.10,2300\n", ":2:3:", "this row has s/step twice, 2.10 and 2"),
        ("run,s/it,optim,Optim\na,2.10,adamw_torch,sgd\n", ":2:4:", "this row has optim twice, adamw_torch and sgd"),
    ],
)
def test_a_table_that_can_not_be_read_says_where(text: str, place: str, words: str, tmp_path: Path) -> None:
    """Line and column, and what is to be answered; nothing is guessed."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(Unreadable) as refused:
        read_table(path)

    assert place in str(refused.value)
    assert words in str(refused.value)


def test_text_in_another_encoding_says_where(tmp_path: Path) -> None:
    """Excel's CSV of a word with an accent."""
    path = tmp_path / "t.csv"
    path.write_bytes("run,s/it\nentraîné,2.1\n".encode("latin-1"))
    with pytest.raises(Unreadable, match=r"t\.csv:2:6: byte 0xee is no UTF-8"):
        read_table(path)


def test_a_setting_that_can_not_be_says_where(tmp_path: Path) -> None:
    """Of a table, with line and column."""
    path = tmp_path / "t.csv"
    path.write_text("run,s/it,per_device_train_batch_size\na,2.1,8\nb,2.2,eight\n")
    with pytest.raises(SettingsError, match=r"t\.csv:3:3: training_arguments\.per_device_train_batch_size: "):
        audit(report(files=[str(path)]))


@pytest.mark.parametrize(
    ("name", "text", "place", "words"),
    [
        ("trainer_state.json", '{"global_step": 3,\n "log_history": [}', ":2:18:", "is no JSON"),
        ("trainer_state.json", "[]", ":1:1:", "is no trainer state"),
        ("trainer_state.json", '{"log_history": [{"loss": 1}]}', ":1:1:", "training had not ended"),
        ("trainer_state.json", '{"log_history": [\n {"train_runtime": "abc"}]}', ":2:3:", "found 'abc'"),
        ("trainer_state.json", '{"log_history": [{"train_steps_per_second": -2}]}', ":1:19:", "found -2"),
        ("train.log", "nothing\nhere\n", ":2:1:", "no bar of tqdm over training steps"),
        ("train.log", "so\n{'train_runtime': 'abc'}\n", ":2:2:", "train_runtime: expected a number"),
        ("train.xlsx", "", ":1:1:", "what kind of file is it? Save the sheet as CSV."),
        ("train.log.gz", "", ":1:1:", "what kind of file is it? Unpack it first."),
    ],
)
def test_a_file_that_can_not_be_read_says_where(name: str, text: str, place: str, words: str, tmp_path: Path) -> None:
    """States that are cut short, logs without a speed, files of another kind."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        audit(report(files=[str(path)]))

    assert place in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        ({"rows": [{"label": "a", "figures": {"speed": "2"}}]}, "rows[0].figures.speed: is it seconds a step"),
        ({"rows": [{"label": "a", "figures": {"memory": "2"}}]}, "what the tensors take"),
        ({"table": "run,VRAM (GB)\na,12\n"}, "reported.table:2:2: VRAM (GB): is it what the tensors take"),
        ({"rows": [{"label": "a", "figures": {"seconds_per_stp": "2"}}]}, "Did you mean 'seconds_per_step'"),
        ({"rows": [{"label": "a", "figures": {"hours": "long"}}]}, "expected a number, found 'long'"),
        ({"rows": [{"label": "a", "phases": {"foward": "1"}}]}, "Did you mean 'forward'"),
        ({"rows": [{"label": "a", "figures": {"hours": "1,5"}}]}, "is the comma a decimal point? Write '1.5' then"),
        ({"rows": [{"label": "a", "figures": {"hours": "1e999"}}]}, "expected a number"),
        ({"rows": [{"label": "a", "figures": {"hours": {"x": 1}}}]}, "expected a number"),
        (
            {"rows": [{"label": "a"}], "claims": [{"text": "", "baseline": "a", "treatment": "a", "speed_up": "1/0"}]},
            "nothing is 1/0 times as fast",
        ),
        (
            {
                "rows": [{"label": "a"}],
                "claims": [{"text": "", "baseline": "a", "treatment": "a", "speed_up": "twice"}],
            },
            "Write 1.4 for 40 % more",
        ),
        (
            {
                "rows": [{"label": "a"}],
                "claims": [{"text": "", "baseline": "a", "treatment": "a", "quantity": "memory_used_gib"}],
            },
            "'memory_used_gib' says no speed. Allowed: cost, hours",
        ),
        ({"rows": [{"label": "a", "figures": {"hours": "0,281"}}]}, "decimal point? Write '0.281' then"),
        (
            {
                "percentages": [
                    {"text": "x", "percent": "1", "before": "2", "after": "3", "quantity": "sample_per_second"}
                ]
            },
            "percentages[0].quantity: 'sample_per_second' is no figure. Did you mean 'samples_per_second'",
        ),
        ({"sums": [{"text": "x", "total": [], "parts": {}}]}, "an empty list"),
        ({"rows": [{"label": "a"}, {"label": "a"}]}, "the label 'a' is used twice"),
        ({"claims": [{"text": "x", "baseline": "a", "treatment": "b"}]}, "no row is called 'a'"),
        ({"sums": [{"text": "x", "total": "1", "parts": {"a": "?"}}]}, "sums[0].parts.a: expected a number"),
        (
            {"rows": [{"label": "a"}], "claims": [{"text": "", "baseline": "a", "treatment": "a", "factor": "optimm"}]},
            "Did you mean 'optim'",
        ),
    ],
)
def test_what_is_written_wrong_is_told_by_its_key(reported: dict, words: str) -> None:
    """Key, what was found, what to do."""
    with pytest.raises(SettingsError) as refused:
        audit(report(**reported))

    assert words in str(refused.value)


# -- sound tables have no findings --

QWEN = """
| seq | max_length | s/it |
|---|---|---|
| 256 | 256 | 1.2 |
| 512 | 512 | 1.5 |
| 1024 | 1024 | 2.8 |
| 2048 | 2048 | 5.2 |
| 4096 | 4096 | 10.1 |
| 8192 | 8192 | 21.3 |
"""
"""LoRA of Qwen-7B on an A100, batch 1 with 8 accumulated: the profile in the README of QwenLM/Qwen."""

SOUND = {
    "accumulated, which nobody wrote": (
        "label,per_device_train_batch_size,samples/s,it/s\na,4,15.2,0.475\nb,8,30.1,0.470\n",
        {},
        {},
    ),
    "several devices": (
        "label,devices,hours,price_per_hour,cost\none,1,80,2.50,200\neight,8,10,2.50,200\n",
        {},
        {},
    ),
    "an epoch that also evaluates": (
        "label,s/it,steps_per_epoch,epoch time (min)\na,2.10,100,4.0\nb,1.05,100,2.2\n",
        {},
        {},
    ),
    "units in the cells": ("label,step time (s)\na,0.0997\nb,99.7ms\nc,2.1 ± 0.05\n", {}, {}),
    "LoRA by length": (QWEN, {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8}, {}),
    "batch sizes": (
        "label,per_device_train_batch_size,s/it,samples/s\na,8,0.51,15.7\nb,16,0.94,17.0\nc,32,1.81,17.7\n",
        {},
        {},
    ),
    "rows of a report that are right": (
        "label,s/step,samples/s\nworkers,0.3598,2084\ncompiled,0.2811,2668\nfetching,0.2141,3503\n",
        {"per_device_train_batch_size": 750},
        {},
    ),
    "steps and their inverse": ("label,s/step,it/s\nloop,0.28,3.6\nfaster,0.055,18.2\n", {}, {}),
    "an epoch of few steps": (
        "label,s/it,seconds_per_epoch,steps_per_epoch\na,0.28,7.0,25\nb,0.06,1.5,25\n",
        {"per_device_train_batch_size": 1},
        {"job.samples": 25, "job.epochs": 200},
    ),
    "a job with its price": (
        "label,hours,cost,price_per_hour\nnow,38,95,2.50\nthen,24,60,2.50\n",
        {},
        {},
    ),
    "a last batch that is short": (
        "label,steps_per_epoch,s/it,samples/s\na,667,1.20,12.5\n",
        {"per_device_train_batch_size": 15},
        {"job.samples": 10_000},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_table_has_no_findings(name: str) -> None:
    """Published or made up, rounded as people round: nothing is claimed against it."""
    table, arguments, settings = SOUND[name]
    found = audited(table, {f"training_arguments.{k}": v for k, v in arguments.items()} | settings)

    assert [f.text for f in found.faults] == []
    assert len(found.runs) == len(table.strip().splitlines()) - (2 if "|" in table else 1)


def test_counts_are_exact_and_measurements_are_not() -> None:
    """3 epochs are three; 3 hours are anything that rounds to 3. 3400 steps are not 3 epochs of 1000."""
    rows = [{"label": "a", "figures": {"epochs": "3", "steps": "3400", "steps_per_epoch": "1000"}}]

    assert len(audit(report(rows=rows)).faults) == 1
    assert audit(report(rows=[rows[0] | {"figures": {"epochs": "3", "steps": "3000", "steps_per_epoch": "1000"}}])).runs


def test_a_figure_is_held_against_the_settings() -> None:
    """A step of 64 samples is none of batch 32."""
    rows = [{"label": "a", "figures": {"samples_per_step": "64"}}]
    run = {"training_arguments": {"per_device_train_batch_size": 32}}

    assert "from the settings" in audit(override(report(rows=rows), run)).faults[0].text


def test_another_accumulation_is_another_amount_of_work() -> None:
    """A quarter of the time for a quarter of the micro-batches is no gain, and without a size no claim holds."""
    rows = [
        {"label": "a", "settings": {"gradient_accumulation_steps": 4}, "figures": {"seconds_per_step": "4.00"}},
        {"label": "b", "settings": {"gradient_accumulation_steps": 1}, "figures": {"seconds_per_step": "1.00"}},
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "quantity": "seconds_per_step"}
    judged = [audit(report(rows=rows, claims=[claim | more])).claims[0] for more in ({"speed_up": "4.0"}, {})]

    assert ["can't be decided from these figures"] * 2 == [str(c.judgement) for c in judged]


def test_a_wait_that_computation_hid_voids_nothing() -> None:
    """Compiling halves the computation, and what the workers need then shows as a wait."""
    rows = [
        {"label": "a", "figures": {"seconds_per_step": "0.200"}, "phases": {"data": "0.010"}},
        {
            "label": "b",
            "settings": {"torch_compile": True},
            "figures": {"seconds_per_step": "0.150"},
            "phases": {"data": "0.060"},
        },
    ]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": "torch_compile", "speed_up": "1.33"}

    assert [str(c.judgement) for c in audit(report(rows=rows, claims=[claim])).claims] == ["holds"]


# -- whatever comes --

WORDS = ["s/it", "it/s", "samples/s", "speed", "run", "label", "batch", "1.2", "-3", "1e400", "nan", "", "|", "---"]
WORDS += ["hours", "price_per_hour", "0.0", "0.00", "95", "0-32", "0,281"]
WORDS += ["9" * 400, "1e-3000000", "1.2.3s/it", "1,5", "20-24K", "1e-320", "2 ± 9"]
WORDS += ["2.1s/it", "12 it/s", '"', ",", ";", "\t", "0", "max_length", "optim", "epochs", "cost", "~5", "3-1", "１２"]


def test_fuzzed_tables_never_crash(tmp_path: Path) -> None:
    """Words, numbers, separators and quotes in any order: a table, or a message."""
    chance = random.Random(0)
    read, said = 0, []
    for _ in range(4000):
        lines, separators = [], chance.choice([",", "|", ";", "\t", ",|;\t"])
        widths = chance.choice([[2], [3], [1, 2, 3, 4]])
        for _ in range(chance.randrange(1, 5)):
            cells = [chance.choice(WORDS) for _ in range(chance.choice(widths))]
            lines.append(chance.choice(separators).join(cells))
        text = "\n".join(lines) + "".join(chance.choice(string.printable) for _ in range(chance.randrange(4)))
        try:
            rows = table_rows(text, "fuzz")
        except Unreadable as error:
            said.append(str(error))
            continue
        read += 1
        if read % 3 == 0:
            with contextlib.suppress(SettingsError):
                audit(report(rows=rows))
    assert read > 50
    assert all(text.startswith("fuzz:") for text in said)


ODD = [*WORDS, None, True, [], [1, 2], ["1", "x"], {}, 0, -1, 1e308, 10**400, "0", "<", ">1", "1/0", "1/3"]
PLAIN = ["0", "0.0", "0.00", "0.003", "0.004", "0-32", "~0", "1", "2.50", "32", "95", "100", "2 ± 9", "1e90", "1e-90"]
SIZES = {"matmul_parameters": 7e9, "trained_parameters": 1e7, "layers": 32, "hidden_size": 4096}
LIKELY = ["seconds_per_step", "samples_per_step", "samples_per_second", "hours", "cost", "price_per_hour"]
CHANGES = ({}, {"torch_compile": True}, {"gradient_checkpointing": True}, {"max_length": 64}, {"save_steps": 9})


def fuzzed(chance: random.Random, values: list) -> dict:
    """A report of two rows with a claim, a sum and a percentage, all of any values."""
    names = chance.sample([*LIKELY, *chance.sample([*TITLES, *BESIDE], 3)], chance.randrange(5))
    rows = [
        {
            "label": label,
            "settings": chance.choice(CHANGES),
            "figures": {n: chance.choice(values) for n in names},
            "phases": {n: chance.choice(values) for n in chance.sample(PHASES, chance.randrange(4))},
            "projected": chance.random() < 0.2,
        }
        for label in ("a", "b")
    ]
    quantity = chance.choice([None, *rows[0]["figures"].keys() & {*TITLES}])
    factor = chance.choice([None, "torch_compile", "gradient_checkpointing", "max_length", "save_steps"])
    claim = {"text": "x", "baseline": "a", "treatment": "b", "speed_up": chance.choice([*values, None, ">1", "1/3"])}
    percent = {"text": "p", **{name: chance.choice(values) for name in ("percent", "before", "after")}}
    return {
        "rows": rows,
        "claims": [claim | {"quantity": quantity, "factor": factor}],
        "sums": [{"text": "y", "total": chance.choice(values), "parts": {"z": chance.choice(values)}}],
        "percentages": [percent],
        "device": "NVIDIA A10",
    }


def test_fuzzed_figures_never_crash() -> None:
    """Whatever stands in a figure, a phase, a claim or a sum, zeros above all: an audit, or a message with its key."""
    chance, done = random.Random(2), 0
    for _ in range(600):
        with contextlib.suppress(SettingsError):
            found = audit(report(**fuzzed(chance, [*PLAIN, chance.choice(ODD)])), SIZES)
            assert claim_lines(found) + finding_lines(found)
            done += 1

    assert done > 50


@pytest.mark.parametrize("value", ODD)
def test_a_single_odd_figure_never_crashes(value: object) -> None:
    """Beside a sound one."""
    with contextlib.suppress(SettingsError):
        audit(report(rows=[{"label": "a", "figures": {"seconds_per_step": value, "hours": "1"}}]))


ZEROS = {
    "hours": {"figures": {"hours": "0.0", "cost": "95", "price_per_hour": "2.50"}},
    "steps": {"figures": {"samples_per_step": 32, "samples_per_second": 100, "seconds_per_step": "0.00"}},
    "phases": {"figures": {"seconds_per_step": "0.00"}, "phases": {"forward": "0.003", "backward": "0.004"}},
    "batch": {"figures": {"samples_per_step": "0-32", "seconds_per_step": "1.00"}, "phases": {"data": "0.10"}},
}


@pytest.mark.parametrize("name", ZEROS)
def test_what_rounds_to_zero_is_borne(name: str) -> None:
    """0.00 s are less than five milliseconds, and a ratio with them has no end."""
    rows = [{"label": label, **ZEROS[name]} for label in ("a", "b")]
    claim = {"text": "x", "baseline": "a", "treatment": "b", "factor": "torch_compile", "speed_up": "1.2"}
    found = audit(report(rows=rows, claims=[claim]))
    lines = claim_lines(found) + finding_lines(found)

    assert not [line for line in lines if "nan" in line or "inf " in line]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("state.json", json.dumps({"global_step": 9, "epoch": 1.0, "log_history": [{"train_runtime": 9.5}]})),
        ("train.log", "\r 50%|##| 5/10 [00:05<00:05,  1.20s/it, loss=0.5]\n{'train_runtime': '210.5', 'epoch': 1.0}\n"),
    ],
)
def test_broken_states_and_logs_never_crash(name: str, text: str, tmp_path: Path) -> None:
    """Pieces lost, doubled, or put in another's place: rows, or a message that begins with the place."""
    chance, path, said = random.Random(2), tmp_path / name, []
    pieces = re.findall(r"\w+|\W", text)
    for _ in range(300):
        broken = list(pieces)
        for _ in range(chance.randrange(1, 4)):
            i, j = chance.randrange(len(broken)), chance.randrange(len(broken))
            broken[i] = chance.choice(["", broken[i] * 2, broken[j], "null", "-1", "nan", "1e999", "[", "'"])
        path.write_text("".join(broken))
        try:
            audit(report(files=[str(path)]))
        except SettingsError as refused:
            said += refused.problems
    assert said
    assert all(problem.startswith(str(path)) for problem in said)


@pytest.mark.parametrize("name", ["state.json", "train.log", "table.csv", "table.md"])
def test_fuzzed_files_never_crash(name: str, tmp_path: Path) -> None:
    """Bytes that are no text, text that is no JSON: always a message."""
    chance = random.Random(1)
    path, said = tmp_path / name, []
    for _ in range(150):
        path.write_bytes(bytes(chance.randrange(256) for _ in range(chance.randrange(60))))
        try:
            read_file(path)
        except Unreadable as error:
            said.append(str(error))
    assert all(text.startswith(str(path)) for text in said)


def test_a_row_that_leads_by_steps_alone_is_told() -> None:
    """Three times as many steps a second of a third of the samples is the same speed, also where nobody claimed
    anything; where each step is as much work, figures that rounding makes alike say nothing."""
    table = "run,per_device_train_batch_size,it/s\na,{},0.47\nb,{},{}\n"

    def ranked(*cells: object) -> list[str]:
        return [f.text for f in audited(table.format(*cells)).notes if f.kind is FindingKind.RANKING]

    (text,) = ranked(32, 96, "0.158")
    assert "by steps/s it is 'a'; by samples/s it is 'a' and 'b'" in text
    assert ranked(32, 32, "0.470") == []
    assert ranked(32, 96, "0.158\nc,128,n/a") == [text]


REMARKED = """\
| run | s/it | notes |
|---|---|---|
| a | 1.20 | {} |
| b | 0.60 | |
"""


@pytest.mark.parametrize("note", ["fixed the OOM", "no OOM", "OOM at batch 16, fits at 8", "OOM"])
def test_a_remark_on_memory_takes_no_measurement_away(note: str) -> None:
    found = audited(REMARKED.format(note))

    assert [run.out_of_memory for run in found.runs] == [False, False]


def test_rows_of_one_name_are_kept_apart_by_what_differs() -> None:
    """Another model under the same name is no repeat; numbers that were measured may differ between repeats."""
    table = "run,model,loss,samples/s\nbase,1B,2.1,100.0\nbase,8B,2.0,12.0\nsdpa,8B,2.0,24.0\nsdpa,8B,1.9,24.2\n"
    found = {run.label: run.solved.known["samples_per_second"].middle for run in audited(table).runs}

    assert found == {"base 1B": 100.0, "base 8B": 12.0, "sdpa": pytest.approx(24.1)}


def test_trainers_last_words_count_where_the_loss_diverged(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    end = "'train_runtime': 120.0, 'train_samples_per_second': 10.0, 'train_steps_per_second': 2.0"
    path.write_text("{" + end + ", 'train_loss': nan, 'epoch': 1.0}\n")
    (run,) = audit(report(files=[str(path)])).runs

    assert run.solved.known["seconds"].middle == 120.0


def test_bars_over_what_comes_before_training_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    loading = "Loading training data: 100%|##########| 5000/5000 [00:05<00:00, 1000.00it/s]\n"
    training = "".join(f"Epoch 1: {n}%|###| {n * 10}/1000 [15:00<15:00, 1.50s/it]\n" for n in range(10, 90, 5))
    path.write_text(loading + training)
    (run,) = audit(report(files=[str(path)])).runs

    assert run.solved.known["seconds_per_step"].middle == 1.5


def test_bars_of_two_processes_are_one_training(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    counts = [n + shift for n in range(1, 40) for shift in (1, 0)]
    path.write_text("".join(f" {n}%|###| {n}/100 [00:{n:02d}<01:00, 1.00it/s]\n" for n in counts))

    assert len(audit(report(files=[str(path)])).runs) == 1


def test_a_comparison_tells_what_its_repeats_allow() -> None:
    """Rows that differ in their seed alone are repeats, and their noise may be as large as what is between two rows."""
    table = "run,seed,output_dir,gradient_checkpointing,samples/s\n"
    for run, value, seeds in (("a", "true", "10.1 11.9 9.2"), ("b", "false", "11.0 9.4 11.8")):
        table += "".join(f"{run},{i},out/{i},{value},{speed}\n" for i, speed in enumerate(seeds.split()))
    found = audited(table)

    assert [run.label for run in found.runs] == ["a", "b"]
    assert found.runs[0].repeats == {"samples_per_second": [10.1, 11.9, 9.2]}
    assert "; the repeats allow anything from 0.779 times to 1.37 times." in claim_lines(found)[0]


@pytest.mark.parametrize(
    ("a", "b", "allowed"),
    [
        ("1", "2", "the figures allow anything from 0.2 times to 1.00 times"),
        ("51", "50", "the figures allow anything from 1.00 times to 1.04 times"),
        ("1.02 ± 0.10", "0.98 ± 0.12", "the figures allow anything from 0.828 times to 1.32 times"),
        ("2.13", "1.06", ""),
        ("2.130", "2.131", ""),
    ],
)
def test_a_comparison_tells_what_its_digits_allow(a: str, b: str, allowed: str) -> None:
    """Where that is much of the difference, or either direction."""
    line = claim_lines(audited(f"run,optim,samples/s\na,adamw_torch,{a}\nb,sgd,{b}\n".replace("samples/s", "s/seq")))[0]

    assert allowed in line
    assert ("allow anything" in line) == bool(allowed)


def test_trainers_name_of_a_run_is_its_label(tmp_path: Path) -> None:
    """It is no setting, and counts where no other column names the rows."""
    alone = audited("run_name,s/it\nsmall,1.0\nbig,2.0\n").runs
    beside = audited("run,run_name,s/it\na,x,1.0\nb,y,2.0\n").runs
    (tmp_path / "wandb.csv").write_text("Name,State,config.run_name,train/train_steps_per_second\na,finished,x,1.5\n")

    assert [[run.label for run in runs] for runs in (alone, beside)] == [["small", "big"], ["a", "b"]]
    assert "run_name" not in alone[0].settings.training_arguments
    assert [row["label"] for row in read_table(tmp_path / "wandb.csv")] == ["a"]


def part(total: int, pace: str, first: int, last: int, name: str = "") -> str:
    """A bar of every tenth step."""
    return "".join(
        f"\r{name} {n * 100 // total:3}%|##| {n}/{total} [00:30<01:00,  {pace}]" for n in range(first, last + 1, 10)
    )


@pytest.mark.parametrize("names", [("Epoch {}/2", "Val epoch {}/2"), ("Epoch {}/2 [train]", "Epoch {}/2 [val]")])
def test_named_bars_of_validation_are_not_of_training(names: tuple[str, str], tmp_path: Path) -> None:
    """Their names say so, in front or in brackets, however many steps they have."""
    path = tmp_path / "train.log"
    train, val = names
    path.write_text(
        "".join(
            part(50, "2.00s/it", 0, 50, train.format(i) + ":") + part(50, "20.00it/s", 0, 50, val.format(i) + ":")
            for i in (1, 2)
        )
    )

    assert [row["figures"] for row in read_file(path)] == [{"seconds_per_step": ["2.00"] * 2, "steps_per_epoch": 50}]


def test_a_training_bar_may_tell_the_last_evaluations_loss(tmp_path: Path) -> None:
    """What it tells does not make it an evaluation."""
    path = tmp_path / "train.log"
    path.write_text(part(50, "2.00s/it", 0, 50, "Epoch 1 val_loss 0.41:"))

    assert read_file(path)[0]["figures"] == {"seconds_per_step": "2.00", "steps_per_epoch": 50}


@pytest.mark.parametrize(("total", "end"), [(500, ""), (505, "1050.5"), (500, "1050.5")])
def test_an_evaluation_of_as_many_steps_is_no_training(total: int, end: str, tmp_path: Path) -> None:
    """The training's bar goes on behind it where it had stopped, and Trainer's steps are nearer to one total."""
    path = tmp_path / "train.log"
    evaluation = part(total, "20.00it/s", 0, total)
    said = f"\n{{'train_runtime': {end}, 'train_steps_per_second': 0.476}}\n" if end else ""
    path.write_text(part(500, "2.00s/it", 0, 250) + evaluation + part(500, "2.00s/it", 260, 500) + evaluation + said)
    (row,) = read_file(path)

    assert (row["figures"]["seconds_per_step"], row["figures"]["steps"]) == ("2.00", 500)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("run,max_length,s/epoch\na,2048,200\nb,512,66\n", "a sample has another length (how many tokens a second"),
        ("run,GPUs,s/it\na,1,1.0\nb,8,1.2\n", "a step has another batch or number of devices (how many samples does"),
        ("run,speed\na,2.13s/it\nb,1250 tokens/s\n", "their figures have no unit in common (how many samples a second"),
    ],
)
def test_rows_that_can_not_be_compared_are_told(table: str, words: str) -> None:
    """With the reason, and with what would have to be known."""
    assert f"'b' can't be compared with 'a': {words}" in claim_lines(audited(table))[0]


def test_devices_and_their_batch_are_the_least_of_a_step() -> None:
    """8 devices of 8 samples make 64 a step, accumulated or not: 9.6 samples a second are those of one device."""
    table = "run,GPUs,per_device_train_batch_size,it/s,samples/s\na,1,8,1.50,12.0\nb,8,8,1.20,{}\n"
    one, all_of_them, accumulated = (audited(table.format(speed)) for speed in ("9.6", "76.8", "153.6"))

    assert any("9.6 is what one of 8 devices does." in line for line in finding_lines(one))
    assert [f.text for found in (all_of_them, accumulated) for f in found.faults] == []
    assert claim_lines(all_of_them)[0] == "'b' is 6.40 times as fast as 'a' in samples/s, on 8 devices and 1."
    assert "contradict each other" in claim_lines(one)[0]


@pytest.mark.parametrize("divider", ["|-|-|", "|:-:|-:|", "| --- | ---: |"])
def test_a_divider_of_one_hyphen_makes_a_table(divider: str) -> None:
    """As GitHub reads it; and a bar behind a backslash is a character."""
    (run, other) = audited(f"| run | s/it |\n{divider}\n| a \\| b | 1.0 |\n| c | 2.0 |\n").runs

    assert [run.label, other.label] == ["a | b", "c"]
    assert str(run.given["seconds_per_step"]) == "1"


@pytest.mark.parametrize(
    ("header", "cell", "quantity", "low", "high"),
    [
        ("ms/step", "1 234", "seconds_per_step", 1.2334, 1.2346),
        ("tokens/s", "12 345", "tokens_per_second", 12344.5, 12345.5),
        ("tokens/s", "1\u202f234.5", "tokens_per_second", 1234.45, 1234.55),
        ("total time", "1:30:00", "seconds", 5399, 5401),
        ("total time", "2h 13m", "seconds", 7949, 8011),
        ("total time", "1 day, 2:00:00", "seconds", 93599, 93601),
        ("epoch time", "44 min 30 s", "seconds_per_epoch", 2669, 2671),
        ("epoch time (min)", "1:30:00", "seconds_per_epoch", 5399, 5401),
        ("hours", "2h 30m", "hours", 2.49, 2.51),
        ("minutes", "1:30:00", "minutes", 89.98, 90.02),
    ],
)
def test_numbers_and_durations_are_read_as_people_write_them(
    header: str, cell: str, quantity: str, low: float, high: float
) -> None:
    """Spaces part thousands, and a duration is as exact as its last unit."""
    (run,) = audited(f"| run | {header} |\n|-|-|\n| a | {cell} |\n").runs

    assert low <= run.given[quantity].low <= run.given[quantity].high <= high


def test_a_time_of_two_parts_is_asked_about() -> None:
    """45:00 are minutes or hours; where nothing is timed, a time of the day is left alone."""
    with pytest.raises(SettingsError, match="minutes and seconds, or hours and minutes"):
        audited("run,total time\na,45:00\n")

    assert len(audited("run,clock,s/it\na,12:30,1.0\n").runs) == 1


def test_a_bar_may_count_samples(tmp_path: Path) -> None:
    """Where no bar counts steps. One that maps a data set is none of training."""
    samples, mapped, steps = (tmp_path / f"{name}.log" for name in ("samples", "mapped", "steps"))
    bar = part(500, "213.30samples/s", 0, 500, "Train:")
    samples.write_text(bar)
    mapped.write_text(part(500, "9000 examples/s", 0, 500, "Map:") + part(500, "9000 examples/s", 0, 500))
    steps.write_text(bar + bars(20, "2.00s/it"))

    assert [row["figures"] for row in read_file(samples)] == [{"samples_per_second": "213.30", "samples": 500}]
    assert [row["figures"] for row in read_file(steps)] == [{"seconds_per_step": "2.00", "steps": 20}]
    with pytest.raises(Unreadable, match="no bar of tqdm over training steps"):
        read_file(mapped)


# -- objects within objects --


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (
            '{"base": {"step_time_ms": 412, "bs": 8}, "compiled": {"step_time_ms": 301, "bs": 8}}',
            {"base": {"seconds_per_step": "0.412"}, "compiled": {"seconds_per_step": "0.301"}},
        ),
        (
            '[{"run": "a", "config": {"bs": 8}, "metrics": {"step_time_ms": 412}}]',
            {"a": {"seconds_per_step": "0.412"}},
        ),
        (
            '[{"run": "a", "train": {"tokens_per_second": 18204}, "eval": {"tokens_per_second": 60000}}]',
            {"a": {"tokens_per_second": "18204"}},
        ),
        (
            '{"train": {"samples_per_second": 812}, "eval": {"samples_per_second": 2400}}',
            {"bench": {"samples_per_second": "812"}},
        ),
        (
            '{"config": {"batch_size": 8}, "metrics": {"step_time_ms": 412}}',
            {"bench": {"seconds_per_step": "0.412"}},
        ),
        (
            '{"model": {"name": "x"}, "bench": {"results": {"step_time_ms": 412}}, "results": {"step_time_ms": 412}}',
            {"bench": {"seconds_per_step": "0.412"}},
        ),
        (
            '{"step_100": {"step_time_ms": 412}, "step_200": {"step_time_ms": 139}, "step_300": {"step_time_ms": 139}}',
            {"bench": {"seconds_per_step": "0.139"}},
        ),
        (
            '{"a": {"step_time_ms": 412}, "b": {"error": "CUDA out of memory"}}',
            {"a": {"seconds_per_step": "0.412"}, "b": {}},
        ),
    ],
)
def test_objects_within_objects_are_read(text: str, figures: dict, tmp_path: Path) -> None:
    """An object may have a run by each name, and its figures in another one; those of an evaluation are left out.

    Settings beside results are one run, and so are several steps of it.
    """
    path = tmp_path / "bench.json"
    path.write_text(text)
    read = {row["label"]: row["figures"] for row in read_file(path)}

    assert {label: {q: f"{parse(v).middle:g}" for q, v in held.items()} for label, held in read.items()} == figures


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}}', "no name of its objects is a figure"),
        (
            '{"train": {"throughput": {"value": 6.2}}, "warmup": {"throughput": {"value": 3.1}}}',
            "not read: train/throu",
        ),
        (
            '[{"run": "a", "train": {"metrics": {"step_time_ms": 412}, "step_time_ms": 400}}]',
            "this row has s/step twice",
        ),
        (
            '[{"run": "a", "metrics": {"step_time_ms": 412}, "results": {"step_time_ms": 400}}]',
            "this row has s/step twice",
        ),
        ('{"run": {"metrics": {"loss": 1.0}}, "gpu": {"count": 4}}', "no name of its objects is a figure"),
    ],
)
def test_objects_without_a_clear_figure_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(Unreadable, match=words):
        read_file(tmp_path / "config.json")
