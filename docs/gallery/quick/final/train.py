"""Trains quick_final with the configuration that decision.md arrives at, and says why.

python train.py [--output_dir DIR] [--max_steps N]
"""

import argparse
import ctypes
import platform
from functools import partial

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

MAX_LENGTH = 192
IGNORED = -100  # the label that the loss leaves out


def read_data():
    """Return the examples as they are stored."""
    raw = load_dataset(
        "json",
        data_files="~/.cache/slowstep/python_stdlib-3.11.7.jsonl",
        split="train",
    )
    return raw.select(range(min(len(raw), 100000)))


def encode(example, tokenizer):
    """Return token ids and labels of an example, cut to MAX_LENGTH; a prompt is no part of the loss."""
    prompt = tokenizer(example["prompt"] + "\n", add_special_tokens=False)["input_ids"]
    text = tokenizer(example["response"], add_special_tokens=False)["input_ids"]
    text = text + [tokenizer.eos_token_id]
    ids, labels = prompt + text, [IGNORED] * len(prompt) + text
    return {"input_ids": ids[:MAX_LENGTH], "labels": labels[:MAX_LENGTH]}


def collate(examples, pad_id):
    """Return a batch of examples, padded to the longest of them."""
    length = max(len(e["input_ids"]) for e in examples)
    ids = torch.full((len(examples), length), pad_id)
    labels = torch.full((len(examples), length), IGNORED)
    mask = torch.zeros((len(examples), length), dtype=torch.long)
    for row, example in enumerate(examples):
        n = len(example["input_ids"])
        ids[row, :n] = torch.tensor(example["input_ids"])
        labels[row, :n] = torch.tensor(example["labels"])
        mask[row, :n] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


class OnTheFly(Dataset):
    """Encodes an example each time it is drawn."""

    def __init__(self, raw, tokenizer):
        self.raw, self.tokenizer = raw, tokenizer

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, index):
        return encode(self.raw[index], self.tokenizer)


def build_model(device):
    """Return the model to train, on its device."""
    config = AutoConfig.for_model(
        "llama",
        vocab_size=4096,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
    )
    with device:
        model = AutoModelForCausalLM.from_config(
            config,
            dtype=torch.float32,
        )
    model.config.use_cache = False
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=16,
        lora_alpha=32,
        target_modules="all-linear",
    )
    model = get_peft_model(model, lora)
    return model


def keep_freed_memory():
    """Keep the memory that a step frees, as in the trials. Else each step takes it from the system anew."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: never return the end of the heap
        libc.mallopt(-4, 0)  # M_MMAP_MAX: no block outside of it, which would be returned when it is freed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="quick_final")
    parser.add_argument("--max_steps", type=int, default=-1)
    options = parser.parse_args()
    keep_freed_memory()
    args = TrainingArguments(
        output_dir=options.output_dir,
        per_device_train_batch_size=4,
        gradient_checkpointing=False,
        learning_rate=0.0002,
        lr_scheduler_type="constant",
        logging_steps=10,
        save_steps=500,
        optim="adamw_torch",
        report_to="none",
        max_steps=options.max_steps,
        remove_unused_columns=False,
        num_train_epochs=3.0,
    )
    raw = read_data()
    args.num_train_epochs = 3.0 * 100000 / len(raw)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file="~/.cache/slowstep/python_stdlib-3.11.7-bpe4096.json",
        pad_token="<pad>",
        eos_token="<eos>",
    )
    examples = OnTheFly(raw, tokenizer)
    set_seed(args.seed)
    model = build_model(args.device)
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=examples,
        data_collator=partial(collate, pad_id=tokenizer.pad_token_id),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
