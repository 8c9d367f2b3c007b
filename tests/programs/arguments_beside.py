"""transformers' Trainer that makes arguments of its own, to know the defaults, and trains a loss around the model."""

from dataclasses import dataclass

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Texts(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        ids = torch.arange(16) % 60
        return {"input_ids": ids, "labels": ids}


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return self.model(**inputs).loss


@dataclass
class Arguments(TrainingArguments):
    def __post_init__(self):
        super().__post_init__()
        if self.dataloader_num_workers and self.output_dir == "unused":
            raise ValueError("workers are not for these")


class ByItsLoss(Trainer):
    def __init__(self, loss, args, **kwargs):
        self.defaults = Arguments(output_dir="unused").to_dict()
        self.loss = loss
        super().__init__(loss.model, args, **kwargs)

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        self.loss.model = model
        return self.loss(inputs)


shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
model = LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2))
arguments = Arguments("out", per_device_train_batch_size=4, report_to="none", use_cpu=True, logging_steps=7)
ByItsLoss(Loss(model), arguments, train_dataset=Texts()).train()
