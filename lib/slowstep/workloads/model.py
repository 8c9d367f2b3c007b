"""Models: random weights of any architecture, or pretrained; in 32, 16, 8 or 4 bit; with or without LoRA."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PretrainedConfig, PreTrainedModel

from slowstep.settings import Settings


def model_config(settings: Settings) -> PretrainedConfig:
    """Return the architecture's configuration with the values that the settings change."""
    m = settings.model
    if m.model_type and not m.name_or_path:
        return AutoConfig.for_model(m.model_type, **m.config)
    return AutoConfig.from_pretrained(m.name_or_path, trust_remote_code=False, **m.config)


def quantization_config(settings: Settings) -> BitsAndBytesConfig | None:
    """Return the quantization section as transformers' own class; None if there is none."""
    return BitsAndBytesConfig(**settings.quantization) if settings.quantization else None


def build(settings: Settings, device: torch.device) -> PreTrainedModel:
    """Return the model on `device`, ready for Trainer."""
    return with_adapter(base(settings, device), settings)


def base(settings: Settings, device: torch.device) -> PreTrainedModel:
    """Return the model without adapters. Of a quantised one, what trains best in float32 is cast to it."""
    model = _pretrained(settings, device) if settings.model.init == "pretrained" else _random(settings, device)
    model.config.use_cache = False
    if settings.peft and settings.quantization:
        from peft import prepare_model_for_kbit_training

        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    return model


def _pretrained(settings: Settings, device: torch.device) -> PreTrainedModel:
    m = settings.model
    return AutoModelForCausalLM.from_pretrained(
        m.name_or_path,
        dtype=getattr(torch, m.dtype),
        attn_implementation=m.attn_implementation,
        quantization_config=quantization_config(settings),
        device_map={"": device},
        use_safetensors=True,
        trust_remote_code=False,
        **m.config,
    )


def _random(settings: Settings, device: torch.device) -> PreTrainedModel:
    m, config = settings.model, model_config(settings)
    quantization = quantization_config(settings)
    options: dict[str, Any] = {"dtype": getattr(torch, m.dtype), "attn_implementation": m.attn_implementation}
    if quantization is None:
        with device:
            return AutoModelForCausalLM.from_config(config, **options)
    return _random_quantised(config, quantization, device, options)


def _random_quantised(
    config: PretrainedConfig, quantization: BitsAndBytesConfig, device: torch.device, options: dict[str, Any]
) -> PreTrainedModel:
    """Return a model of random weights, quantised as they are made: only one layer at a time is held unquantised."""
    from accelerate import init_empty_weights
    from transformers.integrations import replace_with_bnb_linear
    from transformers.quantizers.auto import AutoHfQuantizer

    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, **options)
    quantizer = AutoHfQuantizer.from_config(quantization)
    skipped = quantizer.get_modules_to_not_convert(model, quantization.llm_int8_skip_modules)
    model = replace_with_bnb_linear(
        model, modules_to_not_convert=skipped, quantization_config=quantization, pre_quantized=False
    )
    for module in model.modules():
        if any(p.is_meta for p in module.parameters(recurse=False)):
            _materialise(module, model, device, options["dtype"])
    model.tie_weights()
    model.to(device)
    model.config.quantization_config = quantization
    model.hf_quantizer = quantizer
    model.is_quantized = True
    model.quantization_method = quantization.quant_method
    model.is_loaded_in_4bit, model.is_loaded_in_8bit = quantization.load_in_4bit, quantization.load_in_8bit
    return model


def _materialise(module: torch.nn.Module, model: PreTrainedModel, device: torch.device, dtype: torch.dtype) -> None:
    """Give `module` real parameters: the model's own initialisation, or quantised random ones for a quantised layer."""
    import bitsandbytes as bnb

    quantised = isinstance(module, bnb.nn.Linear4bit | bnb.nn.Linear8bitLt)
    if not quantised:
        for name, parameter in list(module.named_parameters(recurse=False)):
            empty = torch.empty(parameter.shape, dtype=dtype, device=device)
            setattr(module, name, torch.nn.Parameter(empty))
        model._init_weights(module)
        return
    plain = torch.nn.Linear(
        module.in_features, module.out_features, bias=module.bias is not None, dtype=dtype, device=device
    )
    torch.nn.init.normal_(plain.weight, std=getattr(model.config, "initializer_range", 0.02))
    stored, kind = module.weight, type(module.weight)
    if isinstance(stored, bnb.nn.Params4bit):
        names = ("blocksize", "compress_statistics", "quant_type", "quant_storage")
        values = {name: getattr(stored, name) for name in names}
        module.weight = kind(plain.weight.data.cpu(), requires_grad=False, module=module, **values)
    else:
        module.weight = kind(plain.weight.data.cpu(), requires_grad=False, has_fp16_weights=stored.has_fp16_weights)
    if module.bias is not None:
        module.bias = torch.nn.Parameter(torch.zeros(module.out_features, dtype=dtype), requires_grad=False)
    module.to(device)


def with_adapter(model: PreTrainedModel, settings: Settings) -> Any:
    """Return the model with its adapters, or as it is if there are none."""
    if not settings.peft:
        return model
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(model, LoraConfig(**({"task_type": "CAUSAL_LM"} | settings.peft)))
    if settings.training("gradient_checkpointing"):
        # the frozen embedding gives no gradient, and a checkpointed layer without one would be left out of backward
        adapted.enable_input_require_grads()
    return adapted


def weight_bits(model: torch.nn.Module) -> int:
    """Return the bits of a stored weight, 32 to 4: of the quantised layers, or else of the largest matrix."""
    kinds = {type(m).__name__ for m in model.modules()}  # by name: a run without bitsandbytes need not import it
    if kinds & {"Linear4bit", "Linear8bitLt"}:
        return 4 if "Linear4bit" in kinds else 8
    return max((p for p in model.parameters() if p.dim() > 1), key=lambda p: p.numel()).element_size() * 8
