"""Headers in other words than the kit's: names of figures and settings, changes beside another row, statistics."""

from __future__ import annotations

import re

BATCHES = ("batch size", "batch", "bs")

DEVICE_COUNTS = {
    *("world size", "gpu count", "device count", "number of gpus", "no. of gpus", "gpus", "devices"),
    *(
        f"{many}{device}{end}"
        for many in ("#", "# ", "num ", "n ", "n")
        for device in ("gpu", "device")
        for end in ("", "s")
    ),
}
"""Headers that count devices."""

ALIASES = (
    dict.fromkeys(("model flops utilization", "model flops utilisation", "mfu percent", "mfu pct"), "mfu")
    | dict.fromkeys(("hardware flops utilization", "hardware flops utilisation"), "hfu")
    | dict.fromkeys(("gpu util", "gpu utilization", "gpu utilisation", "utilization", "util"), "utilisation")
    | dict.fromkeys(DEVICE_COUNTS, "devices")
    | dict.fromkeys(("gpu-hours", "gpu hours", "gpu-h", "gpu h", "device-hours", "device hours"), "device_hours")
    | dict.fromkeys(("speedup", "speed-up", "speed up", "relative speed", "rel. speed", "speedup (x)"), "speed_up")
    | dict.fromkeys(
        ("scaling efficiency", "parallel efficiency", "efficiency", "scaling", "scaling eff", "scaling eff."),
        "scaling_efficiency",
    )
    | {f"{of} {b}": "samples_per_step" for of in ("global", "effective", "eff.", "eff", "total") for b in BATCHES}
    | {
        f"{of}{flops}{per}": "tflops_per_device"
        for of in ("", "model ", "achieved ")
        for flops in ("tflops", "tflop/s", "tflops/s", "tflop")
        for per in ("/gpu", "/device", "/s/gpu", " per gpu", " per device")
    }
    | {"throughput per gpu (tflop/s/gpu)": "tflops_per_device"}
    | {f"total {unit}": unit for unit in ("hours", "minutes", "seconds")}
    | dict.fromkeys((f"total {money}" for money in ("$", "€", "usd", "eur", "cost", "price")), "cost")
    | {
        f"{of}{what}": "samples_per_epoch"
        for of, what in (
            *((of, "samples") for of in ("training ", "train ", "# training ", "# train ", "dataset ", "data set ")),
            *((of, "examples") for of in ("training ", "train ", "num ", "# training ", "# train ", "dataset ")),
            *((of, " size") for of in ("dataset", "data set", "training set", "train set")),
        )
    }
    | dict.fromkeys(("total steps", "training steps", "optimizer steps", "total optimizer steps"), "steps")
    | dict.fromkeys(("num epochs", "n epochs", "number of epochs", "# epochs"), "epochs")
    | dict.fromkeys(
        ("total tokens", "training tokens", "train tokens", "tokens trained", "tokens seen"), "tokens_in_all"
    )
    | {
        f"{price}{per}{of}{tokens}": "cost_per_million_tokens"
        for price in ("$", "usd", "price", "cost")
        for per in ("/", " per ", " / ")
        for of in ("1m ", "1m", "m", "million ", "1 million ")
        for tokens in ("tokens", "tok", "toks", "token")
    }
    | dict.fromkeys(("$/hour", "$/h", "$/hr", "usd/hour", "usd/h", "price/hour", "price/h"), "price_per_hour")
    | {
        f"{price}{per}{device}{join}{hour}": "price_per_device_hour"
        for price in ("$", "usd", "price", "cost")
        for per in ("/", " per ", " / ")
        for device in ("gpu", "device")
        for join in ("-", " ")
        for hour in ("hour", "hr", "h")
    }
)
"""Headers that name a figure in other words than the kit's."""

IN_A_UNIT = {
    f"{before}{memory}": f"memory_{kind}_gib"
    for kind in ("allocated", "reserved")
    for before in ("", "max ", "peak ")
    for memory in (kind, f"memory {kind}", f"mem {kind}", f"{kind} memory", f"{kind} mem")
}
"""Headers that name a figure if a unit stands behind them: `torch.cuda.max_memory_allocated` counts bytes."""

NAMES_OF_SETTINGS = (
    dict.fromkeys(
        (f"{of} {b}" for of in ("per device", "per gpu", "device", "micro", "local") for b in BATCHES),
        "per_device_train_batch_size",
    )
    | dict.fromkeys(
        (f"{b}{per}{device}" for b in BATCHES for per in (" per ", "/") for device in ("gpu", "device")),
        "per_device_train_batch_size",
    )
    | dict.fromkeys(
        (
            "accum",
            "grad accum",
            "grad accum steps",
            "grad acc",
            "grad acc steps",
            "gradient accumulation",
            "accumulation steps",
        ),
        "gradient_accumulation_steps",
    )
)
"""Headers that name a setting in other words than transformers."""

LENGTHS = {"seq len", "seqlen", "seq length", "sequence len", "sequence length", "max seq len", "max seq length"} | {
    *("max sequence length", "context length", "context len", "context size", "ctx len", "block size", "max len"),
    *("context window", "ctx length", "ctx size", "n ctx", "max seqlen"),
}
"""Headers that name the most tokens of a sample (`max_length`) in other words."""


TIME = r"(?:(?:step|epoch|iter(?:ation)?|train(?:ing)?|total|wall|run|batch)[ -]?)?(?:time|runtime|duration|latency)"
CHANGED = re.compile(
    rf"(?:Δ|δ|delta|change|diff(?:erence)?)\.?(?: in| of)?(?: the)? ?{TIME}|{TIME} (?:Δ|δ|delta|change|diff(?:erence)?)"
)
SAVED = re.compile(rf"(?:{TIME} (?:saved|savings?|reduction)|(?:saved|savings?|reduction)(?: in| of)? (?:the )?{TIME})")
"""The change of a time, and what is less of it."""

TO_ANOTHER = re.compile(r"\b(?:prev(?:ious)?|last|above|before|incremental|each|step)\b|\bΔ")
SPEED_UP = re.compile(
    r"(?:(?:cumulative|cum\.?|total|overall|train(?:ing)?|throughput|relative|rel\.?|measured|e2e|end-to-end) )*"
    r"speed[- ]?ups?"
    r"(?: factor)?(?: ?[(\[]?(?:vs\.?|over|to|from|relative to) [^()]{1,30}[)\]]?| ?[(\[](?:cum(?:ulative|\.)?|total|"
    r"overall)[)\]])?|"
    r"(?:relative|rel\.?|normali[sz]ed) (?:throughput|speed|performance)|"
    r"(?:train(?:ing)? )?(?:throughput|speed|perf(?:ormance)?) ?[(\[]?(?:vs\.?|over|relative to|compared (?:to|with))"
    r" [^()]{1,30}[)\]]?"
)
"""How many times as fast a row is as one reference. What says another one in each row is none."""


FASTER = re.compile(r"(?:% )?faster(?: by)?(?: ?[(\[]?(?:vs\.?|than|over) [^()]{1,30}[)\]]?)?")
"""Headers that say by how much a row is faster, which a percentage says without a sign."""


OF_THE_ONE = re.compile(
    r"(?:% )?(?:(?:δ|delta|change|diff(?:erence)?)\.? )?(?:vs\.?|relative to|compared (?:to|with)|over) [^()]{1,30}"
    r"(?: ?[(\[]?%[)\]]?)?"
)
"""How a row differs from another one that is named, which is of the one thing that a table measures."""


LESS = re.compile(
    r"(?:% )?(?:reductions?|saved|savings?|decrease)(?: ?(?:vs\.?|over) [^()]{1,30})?(?: ?[(\[]?%[)\]]?)?"
)
"""Headers that say how much less a row has of the one thing that a table measures."""


MIDDLE = r"mean|avg\.?|average|med(?:ian)?|p50(?:\.0+)?|50(?:th|%)?(?: ?(?:percentile|pct|%ile))?"
"""Statistics that say what a middle step takes."""

PERCENTILE = r"p\d{1,3}(?:\.\d+)?|\d{1,2}(?:\.\d+)?(?:st|nd|rd|th|%)(?: ?(?:percentile|pct|%ile))?"
END = r"max(?:imum)?\.?|minimum|peak|best|worst|slowest|fastest|longest|shortest|highest|lowest|q[13]"
SPREAD = (
    r"std\.?|stdev|std\.? ?dev(?:iation)?\.?|std\.? ?err(?:or)?\.?|stderr|sd|se|sem|var(?:iance)?|cv|iqr|range|spread|"
    r"(?:\d\d ?% ?)?ci|σ|±|\+/-"
)
"""Statistics of few steps or runs, and of how far they are apart. `min` is none by itself, since it may be minutes."""

STATISTIC = re.compile(rf"(?P<before>.*\S)\s*[(\[]\s*(?P<of>{MIDDLE}|{PERCENTILE}|{END}|{SPREAD})\s*[)\]]\s*", re.I)

OF_MIDDLE = re.compile(MIDDLE, re.IGNORECASE)
OF_FEW = re.compile(rf"{PERCENTILE}|{END}|{SPREAD}", re.IGNORECASE)


def changes_the_one(header: str) -> bool:
    """Return whether a header in lower case says how rows differ from one of them, and not in what."""
    return bool(OF_THE_ONE.fullmatch(header) or LESS.fullmatch(header)) and not TO_ANOTHER.search(header)


def change_called(header: str) -> str:
    """Return what a header in lower case says of a row beside another, or nothing.

    That is 'speed_up', 'faster', or of a time 'changed' or 'saved'.
    """
    said = re.sub(r"\s*(?:[(\[](?:in )?(?:%|x|×)[)\]]|%)$", "", header.replace("_", " "))
    if FASTER.fullmatch(said):
        return "faster"
    if SPEED_UP.fullmatch(said):
        return "" if TO_ANOTHER.search(said) else "speed_up"
    return "changed" if CHANGED.fullmatch(said) else "saved" if SAVED.fullmatch(said) else ""


def of_few(bracketed: str) -> bool:
    """Return whether the words in brackets of a header say that its numbers are not those of a middle step."""
    return bool(OF_FEW.fullmatch(bracketed)) and not OF_MIDDLE.fullmatch(bracketed)


def without_statistic(header: str) -> str:
    """Return a header without the statistic in brackets at its end: a `length (max)` is a length."""
    found = STATISTIC.fullmatch(header)
    return found["before"] if found else header
