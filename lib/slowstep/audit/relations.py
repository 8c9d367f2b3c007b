"""Relations that must hold between the figures of one run, and the figures that follow from the given ones.

Each relation is a product: seconds an epoch are steps an epoch times seconds a step. Figures are computed from others
until nothing new follows. Where a figure is both given and computed, the two must meet.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from slowstep.audit.figures import Figure, exact, roughly

CONSEQUENCE = 0.01
"""The relative size below which a contradiction beyond rounding is a slip and changes no conclusion."""

ONE = "1"
"""The quantity that is always 1, for relations of two quantities."""

TITLES = {
    "seconds_per_step": "s/step",
    "steps_per_second": "steps/s",
    "samples_per_second": "samples/s",
    "tokens_per_second": "tokens/s",
    "devices": "devices",
    "samples_per_step": "samples a step",
    "tokens_per_step": "tokens a step",
    "tokens_per_sample": "tokens a sample",
    "seconds_per_sample": "s/sample",
    "seconds_per_token": "s/token",
    "seconds_per_epoch": "s/epoch",
    "steps_per_epoch": "steps an epoch",
    "samples_per_epoch": "samples an epoch",
    "epochs": "epochs",
    "samples": "samples in all",
    "steps": "steps in all",
    "seconds": "s in all",
    "hours": "hours",
    "device_hours": "device-hours",
    "price_per_hour": "price an hour",
    "price_per_device_hour": "price a device-hour",
    "cost": "cost",
    "saves": "saves",
    "save_steps": "steps between saves",
    "seconds_per_save": "s a save",
    "seconds_saving": "s saving in all",
    "minutes": "min in all",
    "minutes_per_epoch": "min/epoch",
    "micro_batches_per_step": "micro-batches a step",
    "forward_passes_per_step": "forward passes a step",
    "backward_passes_per_step": "backward passes a step",
    "tokens_per_epoch": "tokens an epoch",
    "tokens_in_all": "tokens in all",
    "million_tokens_per_hour": "million tokens an hour",
    "million_tokens_per_hour_per_device": "million tokens an hour and device",
    "cost_per_million_tokens": "cost of a million tokens",
    "samples_per_second_per_device": "samples/s a device",
    "tokens_per_second_per_device": "tokens/s a device",
}
"""The quantities, each with its name in tables."""


@dataclass(frozen=True)
class Relation:
    """A relation of three quantities: `product` is `a` times `b`."""

    product: str
    a: str
    b: str
    counted: str = ""
    """The one of them that is a whole number and may be off by one, as the other figures need not be multiples."""
    least: bool = False
    """True if the product may be more: an epoch also saves and evaluates, a job also starts."""

    @property
    def quantities(self) -> tuple[str, str, str]:
        """Return all three quantities."""
        return self.product, self.a, self.b

    def __str__(self) -> str:
        if self.product == ONE:
            return f"{TITLES[self.a]} × {TITLES[self.b]} = 1"
        if self.b == ONE:
            return f"{TITLES[self.product]} = {TITLES[self.a]}"
        return f"{TITLES[self.product]} = {TITLES.get(self.a, self.a)} × {TITLES.get(self.b, self.b)}"


RELATIONS = (
    Relation(ONE, "steps_per_second", "seconds_per_step"),
    Relation("samples_per_step", "samples_per_second", "seconds_per_step"),
    Relation("tokens_per_second", "samples_per_second", "tokens_per_sample"),
    Relation("tokens_per_step", "tokens_per_second", "seconds_per_step"),
    Relation("tokens_per_step", "samples_per_step", "tokens_per_sample"),
    Relation("tokens_per_second", "tokens_per_second_per_device", "devices"),
    Relation("samples_per_second", "samples_per_second_per_device", "devices"),
    Relation(ONE, "samples_per_second", "seconds_per_sample"),
    Relation(ONE, "tokens_per_second", "seconds_per_token"),
    Relation("seconds_per_epoch", "steps_per_epoch", "seconds_per_step", counted="steps_per_epoch", least=True),
    Relation("seconds_per_epoch", "samples_per_epoch", "seconds_per_sample", least=True),
    Relation("samples_per_epoch", "steps_per_epoch", "samples_per_step", counted="steps_per_epoch"),
    Relation("steps", "steps_per_epoch", "epochs"),
    Relation("samples", "samples_per_epoch", "epochs"),
    Relation("samples", "steps", "samples_per_step", counted="steps"),
    Relation("seconds", "seconds_per_epoch", "epochs", least=True),
    Relation("seconds", "steps", "seconds_per_step", counted="steps", least=True),
    Relation("tokens_per_epoch", "samples_per_epoch", "tokens_per_sample"),
    Relation("tokens_per_epoch", "steps_per_epoch", "tokens_per_step", counted="steps_per_epoch"),
    Relation("seconds_per_epoch", "tokens_per_epoch", "seconds_per_token", least=True),
    Relation("tokens_in_all", "tokens_per_epoch", "epochs"),
    Relation("tokens_in_all", "samples", "tokens_per_sample"),
    Relation("tokens_in_all", "steps", "tokens_per_step", counted="steps"),
    Relation("seconds", "tokens_in_all", "seconds_per_token", least=True),
    Relation("seconds", "hours", "3600"),
    Relation("seconds", "minutes", "60"),
    Relation("seconds_per_epoch", "minutes_per_epoch", "60"),
    Relation("forward_passes_per_step", "micro_batches_per_step", ONE),
    Relation("backward_passes_per_step", "micro_batches_per_step", ONE),
    Relation("cost", "hours", "price_per_hour"),
    Relation("device_hours", "hours", "devices"),
    Relation("cost", "device_hours", "price_per_device_hour"),
    Relation("million_tokens_per_hour", "tokens_per_second", "0.0036"),
    Relation("million_tokens_per_hour_per_device", "tokens_per_second_per_device", "0.0036"),
    Relation("price_per_hour", "million_tokens_per_hour", "cost_per_million_tokens"),
    Relation("price_per_device_hour", "million_tokens_per_hour_per_device", "cost_per_million_tokens"),
    Relation("steps", "saves", "save_steps", counted="saves"),
    Relation("seconds_saving", "saves", "seconds_per_save"),
)

SHORT = ("samples_per_step", "steps_per_epoch", "steps")
"""Quantities that a short last batch of an epoch makes inexact: it is a whole step, but smaller and shorter."""

FEWEST = 10
"""The number of steps that an epoch is assumed to have at least if nothing says how many."""

CONSTANTS = {ONE: exact(1), "60": exact(60), "3600": exact(3600), "0.0036": exact(0.0036)}

COUNTS = (
    "samples_per_step",
    "tokens_per_step",
    "steps_per_epoch",
    "samples_per_epoch",
    "samples",
    "tokens_per_epoch",
    "tokens_in_all",
    "epochs",
    "steps",
    "saves",
    "save_steps",
    "devices",
    "micro_batches_per_step",
    "forward_passes_per_step",
    "backward_passes_per_step",
)
"""Quantities that are counted and not measured: a whole number of them is exact."""

FITS = 0.03
"""The share by which a throughput may differ from a multiple of one device's throughput and still count as one."""

COUNT_STEPS = {"seconds_per_step": True, "steps_per_second": False, "steps": False, "steps_per_epoch": False}
"""Figures by which a step may be a micro-batch, and whether they are then as many times too small as a step has."""

OF_WORK_DONE = {"cost", "cost_per_million_tokens"}
"""Costs of all devices, beside a price that may be that of one."""

PER_STEP = {"seconds_per_step", "steps_per_second", "steps", "steps_per_epoch", "samples_per_step", "tokens_per_step"}
"""Figures that are others where a step is a micro-batch."""


@dataclass(frozen=True)
class Contradiction:
    """A quantity that is given as one thing and follows as another."""

    quantity: str
    given: Figure
    follows: Figure
    relation: Relation | None
    """The last relation by which it follows; None where the settings themselves say it."""
    among: frozenset[str]
    """The given quantities that can't all be true."""
    rounded: bool = False
    """True if there is no contradiction once zeros at the end of large numbers count as rounding."""
    devices: int = 0
    """The number of devices that would explain it; 0 if none would."""
    micro_batches: int = 0
    """The micro-batches of a step if it is explained by steps that count them; else 0."""
    split: int = 0
    """The devices of each copy of the model if it is explained by a model that is split over them; else 0."""

    @property
    def ratio(self) -> float:
        """Return the given figure divided by the one that follows."""
        return (self.given / self.follows).middle

    @property
    def small(self) -> bool:
        """Return whether it is a slip without consequence."""
        return self.rounded or math.isclose(self.given.middle, self.follows.middle, rel_tol=CONSEQUENCE)


@dataclass(frozen=True)
class Solved:
    """Every quantity that follows from the given ones, and the contradictions among them."""

    known: Mapping[str, Figure]
    contradictions: tuple[Contradiction, ...]
    without: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    """What is known if a figure is left out, for each figure that may be the wrong one of those that contradict each
    other; that one is not known then."""


@dataclass(frozen=True)
class Derived:
    """A figure that follows for a quantity."""

    figure: Figure
    relation: Relation | None
    """The last relation by which it follows; None if it was given."""
    leaves: frozenset[str]
    """The given quantities that it follows from."""


def solve(
    reported: Mapping[str, Figure],
    *,
    counted: Mapping[str, Figure] | None = None,
    assumed: Mapping[str, Figure] | None = None,
    at_least: Mapping[str, Figure] | None = None,
    from_file: bool = False,
) -> Solved:
    """Compute what follows from figures that were `reported`, and from those `counted` by the settings.

    `assumed` figures contradict nothing; they are used where nothing better follows. `from_file` says that a run left
    the figures in a file, which counts no devices. Figures that are `at_least` so large contradict what is less.

    A figure that contradicts the rest becomes a contradiction and is not used any further. Of figures that can't all be
    true this is the one that people compute from the others, and not the time that they measured. Where several devices
    explain a contradiction, all given figures count, and what is meant for one device is not used any further.
    """
    counted, assumed = dict(counted or {}), assumed or {}
    given = counted | dict(reported)
    held = {**(at_least or {}), **counted}
    parts = counted.get("micro_batches_per_step", exact(1))
    contradictions = [
        replace(c, devices=explaining_devices(c, reported, from_file), split=explaining_split(c, reported))
        for c in _beyond_rounding(reported, held)
    ]
    contradictions = _explained(contradictions, parts)
    devices = max((c.devices for c in contradictions), default=0)
    doubted = {c.quantity for c in contradictions if not (c.small or c.devices or c.micro_batches or c.split)}
    trusted = {q: f for q, f in given.items() if q not in doubted}
    if any(c.micro_batches for c in contradictions):
        trusted |= _of_whole_steps(reported, held, parts)
    if devices and "devices" in reported:
        trusted.pop("price_per_hour", None)
    elif devices:
        assumed = {}
        trusted = {q: f for q, f in trusted.items() if q != "samples_per_step"} | {"devices": exact(devices)}
    return Solved(
        known={q: f for q, f in given.items() if q in doubted} | _known(trusted, assumed),
        contradictions=tuple(contradictions),
        without=_without(contradictions, doubted, given, trusted, assumed),
    )


def _beyond_rounding(reported: Mapping[str, Figure], held: Mapping[str, Figure]) -> list[Contradiction]:
    """Return all contradictions. Those that rounding explains come last, and say so."""
    found = _contradictions(reported, held)
    remain = _contradictions({q: roughly(f) for q, f in reported.items()}, held) if found else []
    slips = [replace(c, rounded=True) for c in found if c.quantity not in {r.quantity for r in remain}]
    return [*(replace(c, given=reported[c.quantity]) for c in remain), *slips]


def _without(
    contradictions: Sequence[Contradiction],
    doubted: Collection[str],
    given: Mapping[str, Figure],
    trusted: Mapping[str, Figure],
    assumed: Mapping[str, Figure],
) -> dict[str, Mapping[str, Figure]]:
    """Return what is known without each figure that may be the wrong one of those that contradict each other."""
    serious = [c for c in contradictions if c.quantity in doubted]
    said = {c.quantity: given[c.quantity] for c in serious}
    found: dict[str, Mapping[str, Figure]] = {}
    for wrong in (q for c in serious for q in sorted(c.among)):
        left_out = {wrong, *(c.quantity for c in serious if wrong not in c.among)}
        found[wrong] = _known({q: f for q, f in (said | dict(trusted)).items() if q not in left_out}, assumed)
    for c in contradictions:
        if c.micro_batches:
            found[c.quantity] = _known({q: f for q, f in given.items() if q not in {c.quantity, *doubted}}, {})
    return found


def _explained(contradictions: Sequence[Contradiction], parts: Figure) -> list[Contradiction]:
    """Return contradictions with the micro-batches that explain them, where no devices do."""
    return [replace(c, micro_batches=0 if c.devices else explaining_parts(c, parts)) for c in contradictions]


def _of_whole_steps(reported: Mapping[str, Figure], held: Mapping[str, Figure], parts: Figure) -> Mapping[str, Figure]:
    """Return the fewest figures of steps, turned from micro-batches into steps, with which nothing is contradicted."""
    turned = {q: f * parts if COUNT_STEPS[q] else f / parts for q, f in reported.items() if q in COUNT_STEPS}
    for number in range(1, len(turned) + 1):
        for some in combinations(turned.items(), number):
            if not any(c.micro_batches for c in _explained(_contradictions({**reported, **dict(some)}, held), parts)):
                return dict(some)
    return {}


def _known(trusted: Mapping[str, Figure], assumed: Mapping[str, Figure]) -> dict[str, Figure]:
    """Return every quantity that follows from trusted figures, and where nothing better follows from assumed ones."""
    followed = _follow(trusted)
    missing = {q: f for q, f in assumed.items() if q not in followed or _better(f, followed[q].figure)}
    followed = _follow({**trusted, **missing}) if missing else followed
    return {q: r.figure for q, r in followed.items() if q not in CONSTANTS}


def explaining_devices(c: Contradiction, reported: Mapping[str, Figure], from_file: bool) -> int:
    """Return the number of devices that would explain a contradiction; 0 if none would, or if they were counted.

    - If they were counted, they explain a cost that is that of all while the price is that of one or of a node, or the
      reverse.
    - If not, so many devices would explain a throughput so many times that of one device's settings. In a file that a
      run left they would explain so many times fewer steps or seconds.
    """
    of_price = "price_per_hour" in c.among and bool(OF_WORK_DONE & c.among)
    if devices := reported.get("devices"):
        of_price = of_price and devices.bounded
        # a price may be that of a device, or of a node of several
        ratio = max(c.ratio, 1 / c.ratio) if of_price and c.ratio else 0.0
        nodes = round(ratio) if 1 < ratio <= devices.middle else 0
        many = [devices, *([exact(nodes)] if nodes > 1 and round(devices.middle) % nodes == 0 else [])]
        explains = of_price and any(each.meets(c.given) for n in many for each in (c.follows * n, c.follows / n))
        return round(devices.middle) if explains else 0
    if "samples_per_step" in reported or c.follows.low <= 0 or c.given.low <= 0:
        return 0
    more = c.quantity in ("samples_per_second", "tokens_per_second") or (of_price and c.quantity in OF_WORK_DONE)
    by_settings = c.relation is None or not c.among <= reported.keys()  # otherwise the file contradicts itself
    fewer = from_file and by_settings and c.quantity in ("steps", "steps_per_epoch", "seconds", "seconds_per_epoch")
    ratio = c.ratio if more else 1 / c.ratio if fewer else 0.0
    devices = round(ratio)
    power_of_two = devices > 1 and devices & (devices - 1) == 0  # as in real nodes; any large ratio would fit otherwise
    return devices if power_of_two and abs(ratio / devices - 1) < FITS else 0


def explaining_split(c: Contradiction, reported: Mapping[str, Figure]) -> int:
    """Return on how many devices each copy of a model lies if that is why a step has fewer samples; else 0."""
    devices = reported.get("devices")
    if c.quantity != "samples_per_step" or c.relation or not devices or c.given.low <= 0:
        return 0
    parts = round(c.follows.middle / c.given.middle)
    whole = parts > 1 and exact(parts).meets(exact(c.follows.middle) / c.given) and devices.middle % parts == 0
    return parts if whole else 0


def explaining_parts(c: Contradiction, parts: Figure) -> int:
    """Return the micro-batches of a step if a contradiction is as large as that: its steps may count them; else 0."""
    if parts.middle <= 1 or not c.among & PER_STEP or c.follows.low <= 0 or c.given.low <= 0:
        return 0
    ratio = max(c.ratio, 1 / c.ratio)
    return round(parts.middle) if abs(ratio / parts.middle - 1) < FITS else 0


def _contradictions(reported: Mapping[str, Figure], counted: Mapping[str, Figure]) -> list[Contradiction]:
    """Return the contradictions of reported figures with the settings, which count exactly, and with each other."""
    given = {**counted, **reported}
    steps = _follow(given).get("steps_per_epoch")
    short = 1 / max(1.0, steps.figure.middle if steps else FEWEST)
    found = [
        Contradiction(q, f, counted[q], None, frozenset({q}))
        for q, f in reported.items()
        if q in counted and not f.meets(_with_short_batch(counted[q], short) if q in SHORT else counted[q])
    ]
    return found + _among_themselves(reported, given, short)


def _among_themselves(reported: Mapping[str, Figure], given: Mapping[str, Figure], short: float) -> list[Contradiction]:
    """Return the contradictions of each reported quantity with what follows from the others.

    Each set of figures is reported once, and so is each quantity that is doubted. `short` is the share of an epoch that
    its last batch may lack.
    """
    found: dict[frozenset[str], Contradiction] = {}
    doubted: set[str] = set()
    for quantity in sorted(reported, key=list(TITLES).index, reverse=True):
        others = {q: f for q, f in given.items() if q != quantity and q not in doubted}
        for way in _ways(quantity, others):
            among = way.leaves | {quantity}
            lenient = _with_short_batch(way.figure, short) if among & {*SHORT} else way.figure
            if quantity in doubted or among in found or given[quantity].meets(lenient):
                continue
            found[among] = Contradiction(quantity, given[quantity], way.figure, way.relation, among)
            doubted |= set() if found[among].small else {quantity}
    return list(found.values())


def _with_short_batch(figure: Figure, share: float) -> Figure:
    """Widen a figure for a last batch that lacks up to a share of the epoch."""
    high = figure.high / (1 - share) if share < 1 else math.inf
    return Figure(min(figure.low, figure.low * (1 - share)), max(figure.high, high), figure.middle)


def _better(assumed: Figure, follows: Figure) -> bool:
    """Return whether the assumed figure agrees with the one that follows, and that one is only a bound."""
    return not follows.bounded and assumed.meets(follows)


def _follow(given: Mapping[str, Figure], without: str = "") -> dict[str, Derived]:
    """Return everything that follows, by the shortest way, but never the quantity `without`.

    Bounds are used only where nothing else follows.
    """
    known = {q: Derived(f, None, frozenset({q})) for q, f in given.items()}
    known |= {q: Derived(f, None, frozenset()) for q, f in CONSTANTS.items()}
    while True:
        new: dict[str, Derived] = {}
        for relation in RELATIONS:
            missing = [q for q in relation.quantities if q not in known]
            if len(missing) != 1 or missing[0] == without:
                continue
            held, found = new.get(missing[0]), _derived(missing[0], relation, known)
            if found and (not held or (found.figure.bounded and not held.figure.bounded)):
                new[missing[0]] = found
        if not new:
            return known
        known |= {q: way for q, way in new.items() if way.figure.bounded} or new


def _ways(quantity: str, others: Mapping[str, Figure]) -> list[Derived]:
    """Return what each relation says about `quantity`. Other quantities that are not known are computed first."""
    known = _follow(others, without=quantity)
    found = []
    for relation in RELATIONS:
        if quantity in relation.quantities and all(q in known for q in relation.quantities if q != quantity):
            way = _derived(quantity, relation, known)
            found += [way] if way is not None else []
    return sorted(found, key=lambda way: (not way.figure.bounded, len(way.leaves)))


def _derived(quantity: str, relation: Relation, known: Mapping[str, Derived]) -> Derived | None:
    """Return what a relation says about one of its quantities; None if it says nothing."""

    def value(name: str) -> Figure:
        figure = known[name].figure
        return _off_by_one(figure) if name == relation.counted else figure

    parts = [q for q in relation.quantities if q != quantity]
    divisor = "" if quantity == relation.product else next(q for q in parts if q != relation.product)
    try:
        found = value(relation.product) / value(divisor) if divisor else value(parts[0]) * value(parts[1])
    except ValueError:  # the numbers are too large
        return None
    if relation.least:
        found = Figure(min(0.0, found.low), found.high, found.middle) if divisor else replace(found, high=math.inf)
    if not math.isfinite(found.middle) or math.isinf(found.low) or (found.low <= 0 and math.isinf(found.high)):
        return None
    leaves = frozenset().union(*(known[q].leaves for q in parts))
    return Derived(_off_by_one(found) if quantity == relation.counted else found, relation, leaves)


def _off_by_one(figure: Figure) -> Figure:
    return Figure(figure.low - 1, figure.high + 1, figure.middle)
