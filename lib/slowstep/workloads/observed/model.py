"""Facts about the model and its arithmetic, by the live objects."""

from __future__ import annotations

from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from slowstep.workloads import model
from slowstep_probe.changing.flags import sdpa_backend, tf32
from slowstep_probe.changing.models import NUMBERS_OF_EXPERTS
from slowstep_probe.observed import adapter_facts

NO_ADAPTER = {"lora_r": None, "lora_dropout": None, "lora_target_modules": [], "lora_all_linear": False}
"""The facts about adapters of a model that has none."""


def model_facts(module: torch.nn.Module, checkpointed: int = 1) -> dict[str, Any]:
    """Return facts about weights, arithmetic, attention, recomputation and adapter.

    `checkpointed` is the interval, in layers, that recomputation was asked to have.
    """
    return {
        **_checkpointing(module, checkpointed),
        **_numerics(module),
        **_kernels(module),
        **(NO_ADAPTER | adapter_facts(module)),
        **sizes(module),
    }


def sizes(module: torch.nn.Module) -> dict[str, int]:
    """Return the sizes of the model that formulas of work and memory need; {} if it has no such sizes."""
    config = module.config.get_text_config()
    if not hasattr(config, "num_hidden_layers") or not hasattr(config, "hidden_size"):
        return {}
    if any((getattr(config, name, None) or 0) > 1 for name in NUMBERS_OF_EXPERTS):
        return {}  # of a token's experts only some are computed, and the formulas count them all
    embedding = module.get_input_embeddings().weight
    matmul = trained = 0
    for p in module.parameters():
        size = p.quant_state.shape.numel() if getattr(p, "quant_state", None) else p.numel()
        trained += size if p.requires_grad else 0
        # the input embedding is a look-up and not a matmul, unless the output head is tied to it
        looked_up = p is embedding and not getattr(config, "tie_word_embeddings", False)
        matmul += size if p.dim() > 1 and not looked_up else 0
    return {
        "matmul_parameters": matmul,
        "trained_parameters": trained,
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": embedding.shape[0],
    }


def _checkpointing(module: torch.nn.Module, asked: int) -> dict[str, Any]:
    flagged = [m for m in module.modules() if getattr(m, "gradient_checkpointing", None) is not None]
    layers = [m for m in flagged if isinstance(m, GradientCheckpointingLayer)] or flagged
    on = [i for i, m in enumerate(layers) if m.gradient_checkpointing and m.training]
    function = next((f for i in on if (f := getattr(layers[i], "_gradient_checkpointing_func", None))), None)
    return {
        "gradient_checkpointing": bool(on),
        "every_n_layers": _interval(on, len(layers), asked) if on else None,
        "use_reentrant": getattr(function, "keywords", {}).get("use_reentrant"),
        # transformers wraps torch's checkpoint in a function of its own if it offloads
        "offload": function is not None and function.func is not torch.utils.checkpoint.checkpoint,
    }


def _interval(on: list[int], layers: int, asked: int) -> int:
    """Return the layers from one that is computed again to the next.

    If only the first is, every interval of at least `layers` does that, and the one that was `asked` for is returned.
    """
    return on[1] - on[0] if len(on) > 1 else max(asked, layers)


def _numerics(module: torch.nn.Module) -> dict[str, Any]:
    modules = list(module.modules())
    kinds = ("Linear4bit", "bitsandbytes")  # by name, since a run without bitsandbytes need not import it
    four_bit = next((m for m in modules if (type(m).__name__, type(m).__module__.split(".")[0]) == kinds), None)
    weight, dtype = getattr(four_bit, "weight", None), getattr(four_bit, "compute_dtype", None)
    return {
        "weight_bits": model.weight_bits(module),
        "tf32": tf32() if torch.cuda.is_available() else None,
        "bnb_4bit_quant_type": getattr(weight, "quant_type", None),
        "bnb_4bit_use_double_quant": getattr(weight, "compress_statistics", None),
        "bnb_4bit_compute_dtype": str(dtype).removeprefix("torch.") if dtype else None,
        "dropout": _drops(module),
    }


def _drops(module: torch.nn.Module) -> bool:
    """Return whether anything is left out at random, by a layer or by a function with a rate in the configuration."""
    config = module.config.get_text_config().to_dict()
    rates = [v for k, v in config.items() if k.endswith(("dropout", "pdrop")) and isinstance(v, int | float)]
    return any(rates) or any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in module.modules())


def _kernels(module: torch.nn.Module) -> dict[str, Any]:
    return {
        "attn_implementation": getattr(module.config, "_attn_implementation", None),
        "sdpa_backend": sdpa_backend(),
        "use_liger_kernel": any(_from_liger(m) for m in module.modules()),
    }


def _from_liger(module: torch.nn.Module) -> bool:
    """Return whether a module is Liger's, which replaces classes of modules, or the functions of their forward pass."""
    made = (type(module).__module__, getattr(module.forward, "__module__", ""))
    return any(name.startswith("liger_kernel") for name in made)
