"""The small runs of the proof, as settings: a language model, one bound by launching, a plain loop, and images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.gpu.part import Bench
from bench.gpu.scale import Scale
from slowstep.settings import Settings, override
from slowstep.settings.load import validate

LANGUAGE, SMALL, LOOP, IMAGES = "language", "small", "loop", "images"

RUNS = (LANGUAGE, SMALL, LOOP, IMAGES)


def settings_of_run(name: str, bench: Bench, changes: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of a run at the bench's scale, with changes."""
    scale = bench.scale
    data = {"name": name, **(_images(scale) if name == IMAGES else _language(name, scale))}
    data["budget"] = {"block_seconds": scale.block_seconds / 4} | scale.budget
    return override(validate(data, name), dict(changes or {}))


def _language(name: str, scale: Scale) -> dict[str, Any]:
    return {
        "workload": "plain_loop" if name == LOOP else "finetune",
        "model": {
            "init": "random",
            "model_type": "llama",
            "config": scale.small if name == SMALL else scale.language,
        },
        "dataset": {
            "name_or_path": "python_stdlib",
            "num_samples": 2000,
            "max_length": scale.length,
            "padding": "max_length",
            "tokenize": "once",
        },
        "training_arguments": {
            "per_device_train_batch_size": scale.batch,
            "bf16": True,
            "optim": "adamw_torch_fused",
            "logging_steps": 10,
            "save_strategy": "no",
            "report_to": "none",
        },
        "job": {"samples": 2000, "epochs": 1},
    }


def _images(scale: Scale) -> dict[str, Any]:
    return {
        "workload": "memory_mapped",
        "model": {"init": "random", "model_type": "resnet", "config": scale.images},
        "dataset": {"name_or_path": "random_records", "num_samples": scale.image_samples, "batched_fetching": True},
        "training_arguments": {
            "per_device_train_batch_size": scale.image_batch,
            "dataloader_num_workers": 2,
            "optim": "adamw_torch_fused",
            "save_strategy": "no",
            "report_to": "none",
        },
        "job": {"samples": scale.image_samples, "epochs": 1},
    }
