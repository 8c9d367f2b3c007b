"""A small mixture of experts with a DoRA adapter, in a loop; the experts are gone over one by one."""

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import MixtralConfig, MixtralForCausalLM

shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
config = MixtralConfig(**shape, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
config._experts_implementation = "eager"
lora = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], use_dora=True)
model = get_peft_model(MixtralForCausalLM(config), lora)
loader = DataLoader(torch.randint(0, 64, (64, 12)), batch_size=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    for ids in loader:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
