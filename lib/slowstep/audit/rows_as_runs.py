"""The rows of a report, read as runs. Mistakes in writing them are reported, all at once."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from slowstep.audit.figures import CURRENCY, OF_MONEY, Figure, exact, figure, hull, says_spread
from slowstep.audit.model_parallel import copies_of, names_a_way
from slowstep.audit.relations import COUNTS, TITLES, solve
from slowstep.audit.row_settings import row_settings, stated_by_all, without_head
from slowstep.audit.run import BESIDE, QUESTIONS, SHARES, TEXT, TIMED, ReportedRun, described
from slowstep.audit.unclear_batches import in_steps, with_batches, with_micro_batches
from slowstep.factors import CATALOGUE
from slowstep.records import PHASES
from slowstep.settings import Settings, SettingsError
from slowstep.settings.errors import nearest
from slowstep.settings.reported import MICRO_BATCH, Reported, Row, Told
from slowstep.settings.schema import Dataset
from slowstep.text.sentences import capitalised

READ_FROM = (
    "seconds_per_step",
    "steps_per_second",
    "samples_per_second",
    "tokens_per_second",
    "seconds_per_epoch",
    "hours",
    "cost",
)
"""Figures that most claims on speed are read from."""

WRITE = "Write 1.4 for 40 % more a second, '1/3' for three times slower, '>1' for faster by any amount."

SHARE_AT_MOST = 2.0
"""The largest number beside shares that is one, too, and an impossible one: 1.12 beside 0.47 is no percentage."""


def as_runs(settings: Settings, rows: Sequence[Row]) -> list[ReportedRun]:
    """Return the rows as runs; SettingsError with everything that can't be read, or only by a guess."""
    reported = settings.reported or Reported()
    problems: list[str] = []
    found = []
    shares = {name for name in SHARES if _are_shares([row.figures[name] for row in rows if name in row.figures])}
    stated = rows if described(settings) else stated_by_all(rows)
    for i, row in enumerate(with_micro_batches(settings, with_batches(settings, stated))):
        try:
            found.append(_run(row, settings, f"{row.place}: " if row.place else f"reported.rows[{i}].", shares))
        except SettingsError as error:
            problems += error.problems
    labels = [row.label for row in rows]
    problems += [f"reported.rows: the label '{x}' is used twice" for x, n in Counter(labels).items() if n > 1]
    left_out = {label: f" {capitalised(why)}." for row in rows for label, why in row.left_out.items()}
    for i, claim in enumerate(reported.claims):
        for side in ("baseline", "treatment"):
            label = getattr(claim, side)
            if label not in labels:
                why = left_out.get(label) or nearest(label, labels)
                problems.append(f"reported.claims[{i}].{side}: no row is called '{label}'.{why}")
        if claim.quantity and claim.quantity not in TITLES:
            what = "says no speed" if claim.quantity in BESIDE else "is no figure"
            near = nearest(claim.quantity, READ_FROM)
            problems.append(f"reported.claims[{i}].quantity: '{claim.quantity}' {what}.{near}")
        if claim.factor and claim.factor not in CATALOGUE:
            near = nearest(claim.factor, list(CATALOGUE))
            problems.append(f"reported.claims[{i}].factor: no such factor as '{claim.factor}'.{near}")
    for i, percentage in enumerate(reported.percentages):
        if percentage.quantity and percentage.quantity not in (*TITLES, *BESIDE):
            near = _nearest_figure(percentage.quantity)
            problems.append(f"reported.percentages[{i}].quantity: '{percentage.quantity}' is no figure.{near}")
    problems += _unreadable(reported)
    if problems:
        raise SettingsError(problems)
    return found


def _unreadable(reported: Reported) -> list[str]:
    """Return the problems with values of claims, sums and percentages that are no numbers."""
    problems: list[str] = []
    places = [(f"claims[{i}].speed_up", c.speed_up) for i, c in enumerate(reported.claims) if c.speed_up is not None]
    for i, s in enumerate(reported.sums):
        problems += [] if s.parts else [f"reported.sums[{i}].parts: expected the parts of {s.total!r}, found none."]
        places += [(f"sums[{i}].total", s.total), *((f"sums[{i}].parts.{k}", v) for k, v in s.parts.items())]
    for i, p in enumerate(reported.percentages):
        places += [(f"percentages[{i}].{k}", getattr(p, k)) for k in ("percent", "before", "after")]
    for key, value in places:
        text = re.sub(r"^(1/|[<>])", "", value) if isinstance(value, str) and "speed_up" in key else value
        found: dict[str, Figure] = {}
        if "speed_up" in key and "%" in str(value):
            problems.append(f"reported.{key}: is {value} so much more, less, or of the whole? {WRITE}")
            continue
        _read(found, "", text, f"reported.{key}", problems)
        if "speed_up" not in key:
            continue
        if not found:
            problems[-1] = f"{problems[-1].replace(repr(text), repr(value))} {WRITE}"
        elif found[""].high <= 0 or (str(value).startswith("1/") and found[""].low <= 0):
            problems.append(f"reported.{key}: nothing is {value} times as fast. {WRITE}")
    return problems


def _run(row: Row, settings: Settings, key: str, shares: Collection[str]) -> ReportedRun:
    """Return a row as a run; SettingsError with all that can't be read. `key` is the beginning of its place in words.

    `shares` are the percentages that are written as shares in the rows of the report.
    """
    problems: list[str] = []
    given, repeats = _figures_of(row, key, shares, problems)
    phases = _phases_of(row, key, problems)
    try:
        own = row_settings(row.settings, settings, row.place or f"{key}settings", row.cells)
    except SettingsError as error:
        if row.of_head:
            return _run(without_head(row, error.problems), settings, key, shares)
        raise SettingsError([*problems, *error.problems]) from None
    if problems:
        raise SettingsError(problems)
    if row.step_word == MICRO_BATCH:
        parts = int(own.training("gradient_accumulation_steps"))
        given = in_steps(given, parts)
        repeats = {q: [in_steps({q: exact(v)}, parts)[q].middle for v in each] for q, each in repeats.items()}
    devices = _devices(given)
    copies = copies_of(row, devices if "devices" in given or devices.middle != 1 else None)
    says_length = described(settings) or _says_length(row) or settings.dataset.max_length != Dataset.max_length
    length = own.dataset.max_length if own.workload in TEXT and says_length else None
    counted, assumed = _of_settings(settings, own, copies, length)
    if any(name.endswith("_per_device") for name in given):
        assumed["devices"] = devices
    from_file = bool(row.place and settings.reported) and Path(row.place) in map(Path, settings.reported.files)
    figures = {q: f for q, f in given.items() if q in TITLES}
    told = {part.name: getattr(row, part.name) for part in fields(Told)} | {
        "unread": [name for name in row.unread if not names_a_way(name)],
        "with_spread": row.with_spread or (not row.place and any(map(says_spread, row.figures.values()))),
        "step_word": "" if row.step_word == MICRO_BATCH else row.step_word,
    }
    return ReportedRun(
        **told,
        settings=own,
        given=given,
        solved=solve(
            figures,
            counted=counted,
            assumed=assumed,
            at_least=_at_least(own, given, copies),
            from_file=from_file,
        ),
        repeats=repeats,
        phases=phases,
        from_file=from_file,
        elsewhere=bool(settings.reported and settings.reported.ignored) or _moves_weights(own.training("deepspeed")),
        length=length,
        says_batch=described(settings) or _says_batch(own),
        copies=copies,
    )


def _figures_of(
    row: Row, key: str, shares: Collection[str], problems: list[str]
) -> tuple[dict[str, Figure], dict[str, list[float]]]:
    """Return the figures of a row, and those that were measured several times. Add what can't be read to `problems`."""
    given: dict[str, Figure] = {}
    repeats: dict[str, list[float]] = {}
    for name, value in row.figures.items():
        if name in QUESTIONS:
            problems.append(f"{key}figures.{name}: {QUESTIONS[name]}")
        elif name not in TITLES and name not in BESIDE:
            problems.append(f"{key}figures.{name}: no such figure.{_nearest_figure(name)}")
        else:
            _read(given, name, value, f"{key}figures.{name}", problems, name in shares)
            if isinstance(value, list) and len(value) > 1 and name in given:
                each = [_percentage(v, name in shares) if name in SHARES else figure(v) for v in value]
                repeats[name] = [one.middle for one in each]
    return given, repeats


def _phases_of(row: Row, key: str, problems: list[str]) -> dict[str, Figure]:
    """Return the seconds a step of a row's phases. Add what can't be read to `problems`."""
    found: dict[str, Figure] = {}
    for name, value in row.phases.items():
        if name not in PHASES:
            problems.append(f"{key}phases.{name}: no such phase.{nearest(name, PHASES)}")
        else:
            _read(found, name, value, f"{key}phases.{name}", problems)
    return found


def _of_settings(
    base: Settings, own: Settings, copies: Figure | None, length: int | None
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Return the counts that follow from a row's settings, and the work of a step as it is assumed to be."""
    counted = _counted(base, own, copies)
    assumed = {"samples_per_step": own.effective_batch_size * copies} if _says_batch(own) and copies else {}
    if own.dataset.padding != "packing":
        return counted, assumed
    # the samples of a step are packed from several samples of the epoch
    counted = {q: f for q, f in counted.items() if not q.startswith("samples")}
    return counted, {"tokens_per_step": assumed["samples_per_step"] * length} if assumed and length else {}


def _moves_weights(deepspeed: object) -> bool:
    """Return whether DeepSpeed may keep weights elsewhere: in its third stage, offloaded, or by a file of its own."""
    if not isinstance(deepspeed, Mapping):
        return deepspeed is not None
    zero = deepspeed.get("zero_optimization")
    return isinstance(zero, Mapping) and (zero.get("stage") == 3 or "offload_param" in zero)


def _devices(given: Mapping[str, Figure]) -> Figure:
    """Return the number of devices: as given, or by a figure that is so many times one device's; else one."""
    for whole in (q for q in given if f"{q}_per_device" in given and "devices" not in given):
        ratio = given[whole] / given[f"{whole}_per_device"]
        if ratio.bounded and round(ratio.middle) and ratio.meets(exact(round(ratio.middle))):
            return exact(round(ratio.middle))
    return given.get("devices", exact(1))


def _says_batch(s: Settings) -> bool:
    """Return whether a batch is given. How often it is accumulated may be unknown, but is the same in all rows."""
    return "per_device_train_batch_size" in s.training_arguments


def _says_length(row: Row) -> bool:
    nested = row.settings.get("dataset")
    names = [*row.settings, *(nested if isinstance(nested, Mapping) else ())]
    return any(str(name).rpartition(".")[2] == "max_length" for name in names)


def _counted(base: Settings, own: Settings, copies: Figure | None) -> dict[str, Figure]:
    """Return the counts of the run that follow from its settings, as far as they are given."""
    given, found = own.training_arguments, {}
    parts = described(base) or "gradient_accumulation_steps" in given
    if parts and "per_device_train_batch_size" in given and copies:
        found["samples_per_step"] = own.effective_batch_size * copies
    if parts:
        found["micro_batches_per_step"] = exact(own.training("gradient_accumulation_steps"))
    if "save_steps" in given and own.training("save_strategy") == "steps" and given["save_steps"] >= 1:
        found["save_steps"] = exact(given["save_steps"])
    job = {"samples_per_epoch": own.job.samples, "epochs": own.job.epochs}
    if (given.get("max_steps") or 0) > 0:
        job = {"steps": given["max_steps"]}
    elif "num_train_epochs" in given:
        job["epochs"] = given["num_train_epochs"]
    return found | {q: exact(v) for q, v in job.items() if v}


def _at_least(own: Settings, given: Mapping[str, Figure], copies: Figure | None) -> dict[str, Figure]:
    """Return the samples that a step has at least, by the batch of counted devices; it may also be accumulated."""
    if not _says_batch(own) or own.training("auto_find_batch_size") or "devices" not in given or not copies:
        return {}
    samples = own.training("per_device_train_batch_size") * copies
    return {"samples_per_step": Figure(samples.low, math.inf, samples.middle)} if samples.low > 0 else {}


def _are_shares(values: Sequence[object]) -> bool:
    """Return whether the numbers without a sign are shares in all rows: some are up to 1, and none is far above."""
    found = []
    for value in itertools.chain.from_iterable(v if isinstance(v, list) else [v] for v in values):
        with contextlib.suppress(ValueError):  # what is no number is told where its row is read
            found += [figure(value).high] if "%" not in str(value) else []
    return bool(found) and min(found) <= 1 and max(found) <= SHARE_AT_MOST


def _percentage(value: object, share: bool = False) -> Figure:
    """Return a percentage. Without a sign it is a share if it is up to 1, or if it is one (`share`) beside others."""
    if isinstance(value, list) and value:
        return hull(_percentage(each, share) for each in value)
    found = figure(value)
    return found * 100 if (share or found.high <= 1) and "%" not in str(value) else found


def _nearest_figure(name: str) -> str:
    """Return a hint with the figure that was probably meant, or with all figures."""
    names = (*TITLES, *BESIDE)
    return nearest(name, names) or f" Known are {', '.join(names)}."


def _read(
    into: dict[str, Figure], name: str, value: object, key: str, problems: list[str], share: bool = False
) -> None:
    try:
        if name == "speed_up" and "%" in str(value):
            raise ValueError(f"found {value!r}; write how many times as fast it is, 1.35 for 35 % more a second")
        if name in OF_MONEY and isinstance(value, str):
            value = CURRENCY.sub("", value)
        found = _percentage(value, share) if name in SHARES else figure(value, counted=name in COUNTS)
        if (name.startswith(TIMED) or name in COUNTS) and found.high <= 0 and name != "saves":
            raise ValueError(f"expected more than 0, found {value!r}")
        if name and found.high < 0:
            raise ValueError(f"expected 0 or more, found {value!r}")
        into[name] = replace(found, low=max(found.low, 0.0), written=found.middle) if name else found
    except ValueError as error:
        problems.append(f"{key}: {error}.")
