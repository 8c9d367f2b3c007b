"""A Llama with random weights, trained by transformers' Trainer."""

import time

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Texts(Dataset):
    def __init__(self, count=512, length=48):
        self.ids = torch.randint(5, 500, (count, length), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Throughput(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 20:
            self.began = time.perf_counter()

    def on_train_end(self, args, state, control, **kwargs):
        steps = state.global_step - 20
        print(f"{steps * args.per_device_train_batch_size / (time.perf_counter() - self.began):.6g} samples/s")


shape = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
model = LlamaForCausalLM(LlamaConfig(**shape, vocab_size=500))
arguments = TrainingArguments(
    output_dir="llama",
    per_device_train_batch_size=8,
    max_steps=220,
    save_strategy="no",
    logging_steps=50,
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)
Trainer(model=model, args=arguments, train_dataset=Texts(), callbacks=[Throughput()]).train()
