"""The sizes of a model without its weights: it is built on PyTorch's meta device, where nothing takes memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from slowstep.settings import Settings
from slowstep.workloads import model
from slowstep.workloads.observed import sizes


def model_sizes(settings: Settings) -> dict[str, Any]:
    """Return the sizes that a trial would observe of the model (`slowstep.workloads.observed.sizes`).

    They are {} if they are of no use.
    """
    if settings.workload == "memory_mapped":
        return {}
    whole = replace(settings, quantization=None, model=replace(settings.model, init="random"))
    return sizes(model.build(whole, torch.device("meta")))
