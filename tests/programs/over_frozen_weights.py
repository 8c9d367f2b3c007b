"""LoRA over weights that are read from a folder, in four bits if that is asked for, or that are drawn at random."""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--built", choices=["read", "quantised", "drawn"], default="read")
parser.add_argument("--skip-draws", type=int, default=0)
parser.add_argument("--trained", choices=["adapter", "head", "all"], default="adapter")
parser.add_argument("--merged", action="store_true")
given = parser.parse_args()

torch.manual_seed(1)
torch.rand(given.skip_draws)
if given.built == "drawn":
    config = AutoConfig.from_pretrained(given.folder)
    model = AutoModelForCausalLM.from_config(config)
else:
    four_bit = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype="float32"
    )
    config = None
    model = AutoModelForCausalLM.from_pretrained(
        given.folder, quantization_config=four_bit if given.built == "quantised" else None, attn_implementation="sdpa"
    )
print("configuration", config is None or config is model.config, model.config._attn_implementation)
if given.trained == "adapter":
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
elif given.trained == "head":
    model.requires_grad_(False)
    model.lm_head.requires_grad_(True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(10_000):
    ids = torch.randint(0, 60, (4, 16))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if given.merged:
        model.merge_adapter()
        model.unmerge_adapter()
