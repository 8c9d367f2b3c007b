"""transformers' Trainer with an own loss."""

import sys

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Texts(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.arange(16) % 60
        return {"input_ids": ids, "attention_mask": torch.ones(16, dtype=torch.long), "labels": ids}


class OwnLoss(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        outputs = model(**inputs)
        return (outputs.loss * 1.0, outputs) if return_outputs else outputs.loss * 1.0


shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
model = LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2))
arguments = TrainingArguments(
    output_dir=sys.argv[1], per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=50,
    report_to="none", use_cpu=True, logging_steps=5, disable_tqdm=True, gradient_checkpointing=True,
)  # fmt: skip
OwnLoss(model=model, args=arguments, train_dataset=Texts()).train()
