"""Names of figures and settings in headers, in other words than the kit's and transformers'."""

from __future__ import annotations

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
    | dict.fromkeys(("scaling efficiency", "parallel efficiency", "efficiency"), "scaling_efficiency")
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
