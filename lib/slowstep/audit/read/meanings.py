"""The meaning of each column of a table: by its header, by its cells, and by the columns beside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from slowstep.audit.figures import CURRENCY, parse
from slowstep.audit.read.cells import Cell, bare, by_column, without_prefix
from slowstep.audit.read.clocks import passed_in
from slowstep.audit.read.columns import (
    MEASURED,
    NOTHING,
    OF_TEXT,
    OPTIMIZER_STEP,
    RUN_NAMES,
    Column,
    column,
    figure,
    is_number,
    plain,
    setting_called,
)
from slowstep.audit.read.header_names import LESS, STATISTIC, changes_the_one
from slowstep.audit.read.measures import of_devices
from slowstep.audit.read.row_cells import is_base, with_percentages
from slowstep.audit.read.source_text import NoFigures, Unreadable
from slowstep.audit.read.trainer_state import FIGURES as TRAINER
from slowstep.audit.read.unit_grammar import PER_DEVICE, TIMES
from slowstep.audit.read.unknown_columns import UNSET
from slowstep.audit.relations import TITLES
from slowstep.audit.run import BESIDE, TIMED
from slowstep.factors import CATALOGUE
from slowstep.settings.errors import nearest
from slowstep.settings.library_arguments import SECTIONS

STATISTIC_BEHIND = re.compile(r"(?P<before>.*\w[)\]]?)[ _](?:avg|average|mean|med|median|max|std|p\d\d)")
MINIMUM = re.compile(r"(?P<before>.*\w[)\]]?)(?:[ _]min| ?[(\[]min[)\]])")
"""Headers of statistics. Beside `iter avg`, `iter min` is a minimum; by itself it would be minutes."""

OF_ROLLOUTS = re.compile(
    r"(?<![a-z])(?:generat\w*|gen|rollouts?|sampling|collect\w*|rewards?|advantages?|vllm|make_experience)(?![a-z])"
)
NAMES_A_TIME = re.compile(r"(?<![a-z])(?:tim(?:e|ing)|sec(?:onds)?|ms|s)(?![a-z])")
"""Words of a column that times what comes before an update in reinforcement learning."""

OF_AN_UPDATE = re.compile(r"(?<![a-z])(?:updat(?:e|ing)|train(?:ing)?|learn(?:ing)?|optimi[sz]e)(?![a-z])")


EXPORTED = {"run id", "run_id", "state", "start time", "start_time"}
"""Headers that an export of an experiment tracker has and a table in a report has not."""

RUN_IDS = {"run id", "run_id", "runid", "run number", "id"}
"""Columns that tell the runs of a history apart where no other column names them."""

RUN_NAME = "tags.mlflow.runname"
"""The column of MLflow's run names where runs were searched; its page exports them as `Name`."""

NAMES = set(SECTIONS["training_arguments"].fields()) or set(CATALOGUE)
"""The names of training arguments; where transformers is not installed, those of factors stand for them."""

KEYS = {name for section in SECTIONS.values() for name in section.fields()} | {"max_length"}
"""The names of all settings that a column may be called by, outside of an export."""

SETTINGS = NAMES & set(CATALOGUE) | {"gradient_accumulation_steps"}
"""Columns of an export that are read as settings. `max_length` is not one: there it is that of text generation."""

OF_ULTRALYTICS = {"box_loss", "metrics/map50(b)", "metrics/accuracy_top1"}
"""Columns of the history that Ultralytics writes for each epoch, `results.csv`."""

TOTAL = re.compile(r"(?:grand )?total(?: cost| price)?|spend|spent|bill")
"""Headers of what a run cost, if its cells have a currency."""

BARE_STEP = re.compile(r"step ?[(\[][^)\]]+[)\]]|step[ _](?:ms|s)", re.IGNORECASE)
"""A header `step (ms)`, which may be that of the optimizer beside columns of passes."""

OF_A_COMMAND = re.compile(
    r"(?:(?P<label>command)|(?P<mean>mean)|stddev|median|min|max|user|system|exit_codes)(?: \[(?P<unit>m?s|min)\])?"
)
"""Columns of hyperfine's tables, in seconds where no unit stands behind them."""

PATH_OF_TRAINING = re.compile(
    r"(?:train|perf|performance|throughput|timing)/(?=[^/]+(?:/(?:gpu|device|s|sec|second|step|it))?$)", re.IGNORECASE
)
"""The path before the name of a speed or a time of training: `perf/tokens_per_sec`. A `train/cost` is a loss."""


PATH_OF_A_DEVICE = re.compile(
    r"(?:[\w.-]{1,40}/){0,3}(?:gpu|device)/(?=[^/]*(?:per|/)_?s(?:ec(?:ond)?)?$)", re.IGNORECASE
)
"""The path before the name of a speed of one device, as Lightning and Composer write it: `device/samples_per_sec`."""


def by_headers_and_cells(
    header: Sequence[Cell], body: Sequence[Sequence[Cell]], columns: Mapping[str, str], source: str
) -> list[Column]:
    """Return the meaning of each column by its header, and then by its cells where these tell more.

    Unreadable for rows with other cells than the header has.
    """
    names = [plain(cell[0]).lower() for cell in header]
    export = bool({*names} & EXPORTED)
    held = [_column(cell, columns, export, source) for cell in header]
    if "command" in names:
        held = [_of_a_command(name) or one for name, one in zip(names, held, strict=True)]
    _refuse_uneven(header, body, held, source)
    texts = by_column(header, body)
    held = [of_devices(one, cells) for one, cells in zip(held, texts, strict=True)]
    held = [_of_whole_numbers(one, name, cells) for one, name, cells in zip(held, names, texts, strict=True)]
    held = [with_percentages(one, cells) for one, cells in zip(held, texts, strict=True)]
    held = [_of_one_thing(one, name, cells) for one, name, cells in zip(held, names, texts, strict=True)]
    held = [_of_money(one, name, cells) for one, name, cells in zip(held, names, texts, strict=True)]
    return by_those_beside(held, names, texts)


def _of_a_command(name: str) -> Column | None:
    """Return the meaning of a column of hyperfine's, which times whole commands; None for another one."""
    found = OF_A_COMMAND.fullmatch(name)
    if not found:
        return None
    if found["label"]:
        return Column("label")
    return Column("figure", "seconds", TIMES[found["unit"] or "s"]) if found["mean"] else Column("ignored")


def _of_one_thing(one: Column, name: str, cells: Sequence[str]) -> Column:
    """Return a column `epoch` or `step` as that of its times, where each cell is a time with its unit."""
    timed = Column("timed", f"seconds_per_{name}")
    said = [text for text in cells if plain(text).lower() not in NOTHING]
    is_thing = one.kind == "open" and name in ("epoch", "step")
    return timed if is_thing and said and all(_seconds(text, timed) is not None for text in said) else one


def _of_money(one: Column, name: str, cells: Sequence[str]) -> Column:
    """Return a column `total` as one of costs, where each cell has a currency."""
    said = [plain(text) for text in cells if plain(text).lower() not in NOTHING]
    is_cost = one.kind == "open" and TOTAL.fullmatch(name) and said and all(map(CURRENCY.match, said))
    return Column("figure", "cost") if is_cost else one


def named_once(held: Sequence[Column], header: Sequence[Cell], body: Sequence[Sequence[Cell]]) -> list[Column]:
    """Return the columns without Trainer's name of a run, and those that number the rows, where another names them."""
    own = {i for i, cell in enumerate(header) if bare(plain(cell[0])) in RUN_NAMES}
    counted = [[str(first + i) for i in range(len(body))] for first in (0, 1)]
    own |= {i for i, texts in enumerate(by_column(header, body)) if not plain(header[i][0]) and texts in counted}
    others = any(one.kind == "label" for i, one in enumerate(held) if i not in own)
    return ignored(held, own) if others else list(held)


def with_optimizer(
    held: Sequence[Column], header: Sequence[Cell], body: Sequence[Sequence[Cell]]
) -> tuple[list[Column], str]:
    """Return the columns with the optimizer's step as its phase where others are phases, too; and what to say of it.

    A column `step` is that where it takes less than one of the passes in each row, as DeepSpeed calls it.
    """
    if not any(one.kind == "phase" for one in held):
        return list(held), ""
    texts = by_column(header, body)
    short = _shorter_than_passes(held, header, texts)
    found = [
        Column("phase", "optimizer", one.scale)
        if i == short or (one.kind == "figure" and OPTIMIZER_STEP.match(plain(cell[0])))
        else one
        for i, (one, cell) in enumerate(zip(held, header, strict=True))
    ]
    name = plain(header[short][0]) if short is not None else ""
    return (
        found,
        f"'{name}' is less than a pass, so it is taken for the optimizer's: say the whole step" if name else "",
    )


def _shorter_than_passes(held: Sequence[Column], header: Sequence[Cell], texts: Sequence[Sequence[str]]) -> int | None:
    """Return the column `step` whose times are below those of a forward or backward pass in each row; None for none."""
    passes = [i for i, one in enumerate(held) if one.kind == "phase" and one.name in ("forward", "backward")]
    steps = [i for i, one in enumerate(held) if one.name == "seconds_per_step" and one.kind == "figure"]
    others = any(one.kind == "phase" and one.name == "optimizer" for one in held)
    if not passes or len(steps) != 1 or others or not BARE_STEP.fullmatch(plain(header[steps[0]][0])):
        return None
    each = [[_seconds(text, held[i]) for text in texts[i]] for i in (*steps, *passes)]
    rows = [row for row in zip(*each, strict=True) if None not in row]
    return steps[0] if rows and all(0 < row[0] < max(row[1:]) for row in rows) else None


def _seconds(text: str, held: Column) -> float | None:
    """Return the time that a cell of a column of times says; None for another text."""
    try:
        found = figure(text, held)
        return parse(found[1]).middle if found else None
    except ValueError:
        return None


def named_by_ids(held: Sequence[Column], header: Sequence[Cell]) -> list[Column]:
    """Return the columns of a history with those of runs' numbers as names where no other column names them."""
    if any(one.kind == "label" for one in held):
        return list(held)
    ids = [bare(plain(cell[0])) in RUN_IDS for cell in header]
    return [Column("label") if own else one for one, own in zip(held, ids, strict=True)]


def elapsed_in(
    header: Sequence[Cell], body: Sequence[Sequence[Cell]], held: Sequence[Column]
) -> dict[int, list[float | None]]:
    """Return the columns that nobody read and that hold the seconds since a run began.

    A column `time` holds them in the history of Ultralytics, which is known by its losses.
    """
    names = [bare(plain(cell[0])) for cell in header]
    names = ["elapsed (s)" if name == "time" and OF_ULTRALYTICS & {*names} else name for name in names]
    each = [passed_in(name, texts) for name, texts in zip(names, by_column(header, body), strict=True)]
    return {i: times for i, times in enumerate(each) if times and held[i].kind == "open"}


def _refuse_uneven(header: Sequence[Cell], body: Sequence[Sequence[Cell]], held: Sequence[Column], source: str) -> None:
    """Raise Unreadable for a row with other cells than the header has, such as one that is cut off."""
    error = Unreadable if any(one.kind in (*MEASURED, "stated") for one in held) else NoFigures
    for cells in body:
        if len(cells) != len(header):
            many = f"{len(header)} cell{'s' * (len(header) != 1)}"
            raise error(source, cells[0][1], 1, f"expected {many} as in the header, found {len(cells)}")


def _of_whole_numbers(one: Column, name: str, cells: Sequence[str]) -> Column:
    """Return a column that calls a setting in other words as one that nobody read, where its cells are no numbers."""
    called_otherwise = one.kind == "setting" and setting_called(name) == one.name
    number = re.compile(r"[\d,]+(?:\.0+)?")
    fits = all(number.fullmatch(plain(text)) or plain(text).lower() in (*UNSET, *NOTHING) for text in cells)
    return Column("open") if called_otherwise and not fits else one


def _column(cell: Cell, given: Mapping[str, str], export: bool, source: str) -> Column:
    """Return the meaning of a column by its header; Unreadable if the meaning that was `given` is not known."""
    said = given.get(plain(cell[0]))
    text = cell[0] if said is None else said
    name = bare(plain(text))
    if said is not None or not export:
        known = column(TRAINER.get(plain(text).lower(), text), KEYS)
        if known.kind == "open" and (own := without_prefix(text)) != text:
            text, known = own, column(TRAINER.get(own.lower(), own), KEYS)
        if said is not None and known.kind == "open":
            known = column(TRAINER.get(name, name), KEYS)
        if known.kind == "open" and (path := PATH_OF_A_DEVICE.match(text)):
            of_path = column(text[path.end() :], KEYS)
            each = of_path.kind == "figure" and of_path.name in PER_DEVICE  # its batches are no steps of all devices
            known = replace(of_path, name=f"{of_path.name}_per_device") if each else Column("ignored")
        if known.kind == "open" and PATH_OF_TRAINING.match(text):
            of_path = column(PATH_OF_TRAINING.sub("", text), KEYS)
            known = of_path if of_path.kind == "figure" and of_path.name.startswith((*TIMED, *BESIDE)) else known
        if known.kind == "open" and name.replace(" ", "_") in CATALOGUE:
            return Column("factor", name.replace(" ", "_"))
        if said is not None and known.kind == "open":
            near = nearest(text, [*TITLES, *BESIDE, *KEYS, *CATALOGUE])
            what = f"`columns` calls {cell[0]} '{text}', which is no figure or setting.{near}"
            raise Unreadable(source, *cell[1:], what)
        return known
    # an export has a hundred columns: those with known names are read, and nothing is asked about the others
    if name == RUN_NAME:
        return Column("label")
    known = column(TRAINER.get(name, name), SETTINGS)
    # W&B's `Runtime` has no unit, and its documentation says none
    return Column("ignored") if known.kind in ("open", "timed") else known


def by_those_beside(held: Sequence[Column], names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns with their meanings beside each other; `names` are their headers in lower case."""
    held = _without_padded(_without_updates(_without_minima(held, names), names))
    return _of_the_one_measured(held, names, cells)


def ignored(held: Sequence[Column], left_out: Collection[int]) -> list[Column]:
    """Return the columns with those at the places `left_out` as ignored ones."""
    return [Column("ignored") if i in left_out else one for i, one in enumerate(held)]


def _of_the_one_measured(held: Sequence[Column], names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns with a change beside one figure, and no other number but whole ones, as that figure's change.

    A change of a time has a sign, and so has a percentage of a speed. What is less of a time has none.
    """
    measured = [one for one in held if one.kind in MEASURED]
    changes = [i for i, name in enumerate(names) if held[i].kind == "open" and changes_the_one(name)]
    others = [texts for i, texts in enumerate(cells) if held[i].kind == "open" and i not in changes]
    measure = any(is_number(text) and not plain(text).isdigit() for texts in others for text in texts)
    if len(measured) != 1 or len(changes) != 1 or measure:
        return list(held)
    less = bool(LESS.fullmatch(names[changes[0]]))
    of_speed = "_per_second" in measured[0].name and not less
    fits = _are_percentages(cells[changes[0]], r"" if less else r"[-+−–]")
    if not fits or not (of_speed or measured[0].name.startswith("seconds")):
        return list(held)
    of_time = Column("stated", "time_left", percentage="saved" if less else "changed")
    stated = Column("stated", "speed_up") if of_speed else of_time
    return [stated if i == changes[0] else one for i, one in enumerate(held)]


def _are_percentages(cells: Sequence[str], sign: str) -> bool:
    """Return whether cells say percentages with such a sign, or nothing as for the row that they are to."""
    said = [plain(text) for text in cells if not is_base(text)]
    return bool(said) and all(re.fullmatch(rf"{sign}\d[\d.,]*\s?%", text) for text in said)


def _without_padded(held: Sequence[Column]) -> list[Column]:
    """Return the columns without tokens that may count padding, where another column has those that don't."""
    useful = {one.name for one in held if one.unit == OF_TEXT}
    return ignored(held, {i for i, one in enumerate(held) if one.name in useful and one.unit != OF_TEXT})


def _without_updates(held: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with the time of an update as an unclear one, where another is that of what is updated on.

    A step of reinforcement learning generates and scores as well, so that its update is a part of it.
    """
    if not any(OF_ROLLOUTS.search(name) and NAMES_A_TIME.search(name) for name in names):
        return list(held)
    return [
        Column("open", "time") if one.name == "seconds_per_step" and OF_AN_UPDATE.search(name) else one
        for one, name in zip(held, names, strict=True)
    ]


def _without_minima(held: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with minima, which stand beside another statistic of the same, as ones that nobody read."""
    each = [STATISTIC.fullmatch(name) or STATISTIC_BEHIND.fullmatch(name) for name in names]
    stems = {_without_units(found["before"]) for found in each if found}
    minima = [MINIMUM.fullmatch(name) for name in names]
    return [
        Column("open") if found and _without_units(found["before"]) in stems else one
        for found, one in zip(minima, held, strict=True)
    ]


def _without_units(name: str) -> str:
    """Return a header without units of time and brackets, so that `step time ms` and `step time` are the same."""
    return " ".join(word for word in re.split(r"[\s_()\[\]]+", name) if word and word not in TIMES)
