"""final/train.py: the final configuration as a script of plain transformers and peft; nothing of this kit is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowstep.settings import Settings
from slowstep.settings.events import happens
from slowstep.workloads import stdlib_text

BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


BESIDE = 'Path(__file__).with_name("dataset")'
"""Where a local copy goes: put the script on the local disk."""


def script(s: Settings) -> str:
    """The text of train.py; it trains the whole job of `s`, on all of its data."""
    parts = [_head(s), _data(s), _model(s), *([KEEP] * _kept(s)), _main(s)]
    return "\n\n\n".join(parts) + "\n"


def _head(s: Settings) -> str:
    packed, once = s.dataset.padding == "packing", s.dataset.tokenize == "once"
    standard = ["import argparse"] + ["import ctypes"] * _kept(s)
    standard += ["import os"] * (s.model.torch_compile_dynamic is not None)
    standard += ["import platform"] * _kept(s)
    standard += ["import shutil"] * (_saved(s) and s.dataset.storage == "local_copy")
    standard += ["import tempfile"] * (s.model.init == "random" and bool(s.quantization))
    standard += ["from functools import partial"]
    standard += ["from pathlib import Path"] * (s.dataset.storage == "local_copy")
    third = ["from datasets import " + ("load_from_disk" if _saved(s) else "load_dataset")]
    third += ["from peft import " + ", ".join(_peft_names(s))] if s.peft else []
    third += ["from torch.nn.attention import SDPBackend, sdpa_kernel"] * bool(s.model.sdpa_backend)
    third += ["from torch.utils.data import Dataset"] * (not packed and (not once or not s.batched_fetching))
    third += ["from transformers import (\n    " + ",\n    ".join(_transformers_names(s)) + ",\n)"]
    return "\n".join(
        [
            f'"""Trains {s.name} with the configuration that decision.md arrives at, and says why.',
            "",
            "python train.py [--output_dir DIR] [--max_steps N]",
            '"""',
            "",
            *standard,
            "",
            "import torch",
            *third,
            "",
            f"MAX_LENGTH = {s.dataset.max_length}",
            "IGNORED = -100  # the label that the loss leaves out",
        ]
    )


def _peft_names(s: Settings) -> list[str]:
    return ["LoraConfig", "get_peft_model"] + ["prepare_model_for_kbit_training"] * bool(s.quantization)


def _transformers_names(s: Settings) -> list[str]:
    names = ["AutoModelForCausalLM", "Trainer", "TrainingArguments", "set_seed"]
    names += ["PreTrainedTokenizerFast" if _own_tokenizer(s) else "AutoTokenizer"]
    names += ["AutoConfig"] * (s.model.init == "random") + ["BitsAndBytesConfig"] * bool(s.quantization)
    return sorted(names)


# -- data --


def _data(s: Settings) -> str:
    d = s.dataset
    ids = 'tokenizer(example[{}]{}, add_special_tokens=False)["input_ids"]'.format
    if d.text_field:
        tokens = f"    prompt, text = [], {ids(_literal(d.text_field), '')}"
    else:
        tokens = f"    prompt = {ids(_literal(d.prompt_field), ' + ' + _literal(chr(10)))}\n"
        tokens += f"    text = {ids(_literal(d.response_field), '')}"
    by_length = s.training("train_sampling_strategy") == "group_by_length"
    length = ', "length": min(len(ids), MAX_LENGTH)' * by_length
    parts = [
        f'''def encode(example, tokenizer):
    """Token ids and labels of an example, cut to MAX_LENGTH; a prompt is no part of the loss."""
{tokens}
    text = text + [tokenizer.eos_token_id]
    ids, labels = prompt + text, [IGNORED] * len(prompt) + text
    return {{"input_ids": ids[:MAX_LENGTH], "labels": labels[:MAX_LENGTH]{length}}}''',
        _collate(s),
    ]
    if d.padding == "packing":
        parts.append(PACK)
    elif d.tokenize == "on_the_fly":
        parts.append(ON_THE_FLY + (TOGETHER if s.batched_fetching else ""))
    elif not s.batched_fetching:
        parts.append(ONE_BY_ONE)
    return "\n\n\n".join(parts)


def _collate(s: Settings) -> str:
    fixed = s.dataset.padding in ("max_length", "packing")
    length = "MAX_LENGTH" if fixed else 'max(len(e["input_ids"]) for e in examples)'
    how = "MAX_LENGTH" if fixed else "the longest of them"
    return f'''def collate(examples, pad_id):
    """A batch of examples, padded to {how}."""
    length = {length}
    ids = torch.full((len(examples), length), pad_id)
    labels = torch.full((len(examples), length), IGNORED)
    mask = torch.zeros((len(examples), length), dtype=torch.long)
    for row, example in enumerate(examples):
        n = len(example["input_ids"])
        ids[row, :n] = torch.tensor(example["input_ids"])
        labels[row, :n] = torch.tensor(example["labels"])
        mask[row, :n] = 1
    return {{"input_ids": ids, "attention_mask": mask, "labels": labels}}'''


PACK = '''def pack(examples):
    """Whole examples one after another into sequences of at most MAX_LENGTH, in which they see each other."""
    packed = []
    for example in examples:
        if packed and len(packed[-1]["input_ids"]) + len(example["input_ids"]) <= MAX_LENGTH:
            packed[-1] = {key: packed[-1][key] + example[key] for key in ("input_ids", "labels")}
        else:
            packed.append({key: example[key] for key in ("input_ids", "labels")})
    return packed'''

ON_THE_FLY = '''class OnTheFly(Dataset):
    """Encodes an example each time it is drawn."""

    def __init__(self, raw, tokenizer):
        self.raw, self.tokenizer = raw, tokenizer

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, index):
        return encode(self.raw[index], self.tokenizer)'''

ONE_BY_ONE = '''class OneByOne(Dataset):
    """Gives the loader one example at a time, and not a batch at once."""

    def __init__(self, examples):
        self.examples = examples

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, index):
        return self.examples[index]'''

TOGETHER = """

    def __getitems__(self, indices):
        return [encode(example, self.tokenizer) for example in self.raw.__getitems__(indices)]"""


# -- model --


def _model(s: Settings) -> str:
    m = s.model
    options: dict[str, Any] = {"dtype": _Code(f"torch.{m.dtype}")}
    if m.attn_implementation:
        options["attn_implementation"] = m.attn_implementation
    lines = ["def build_model(device):", '    """The model that is trained, on its device."""']
    if s.quantization:
        lines.append(f"    quantization = {_call('BitsAndBytesConfig', s.quantization)}")
        options["quantization_config"] = _Code("quantization")
    if m.init == "pretrained":
        options |= {"device_map": _Code('{"": device}'), "use_safetensors": True} | m.config
        lines.append(f"    model = {_call('AutoModelForCausalLM.from_pretrained', options, _literal(m.name_or_path))}")
    else:
        first = _literal(m.name_or_path or m.model_type)
        source = "AutoConfig.from_pretrained" if m.name_or_path else "AutoConfig.for_model"
        lines.append(f"    config = {_call(source, m.config, first)}")
    if m.init == "random" and s.quantization:
        stored = {"dtype": options["dtype"]}
        options |= {"device_map": _Code('{"": device}'), "use_safetensors": True}
        loaded = _call("AutoModelForCausalLM.from_pretrained", options, "folder", indent=8)
        lines += [
            "    # random weights, as they were measured; they are quantised when they are loaded",
            "    with tempfile.TemporaryDirectory() as folder:",
            f"        {_call('AutoModelForCausalLM.from_config', stored, 'config', indent=8)}.save_pretrained(folder)",
            f"        model = {loaded}",
        ]
    elif m.init == "random":
        lines.append("    with device:")
        lines.append(f"        model = {_call('AutoModelForCausalLM.from_config', options, 'config', indent=8)}")
    lines.append("    model.config.use_cache = False")
    if s.peft:
        if s.quantization:
            lines.append("    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)")
        lines.append(f"    lora = {_call('LoraConfig', {'task_type': 'CAUSAL_LM'} | s.peft)}")
        lines.append("    model = get_peft_model(model, lora)")
    return "\n".join([*lines, "    return model"])


# -- main --

KEEP = '''def keep_freed_memory():
    """As in the trials: else glibc returns it to the system, and each step takes it anew, page by page."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: never return the end of the heap
        libc.mallopt(-4, 0)  # M_MMAP_MAX: no block outside of it, which would be returned when it is freed'''


def _kept(s: Settings) -> bool:
    return s.freed_memory == "kept"


def _main(s: Settings) -> str:
    d, given = s.dataset, dict(s.training_arguments)
    arguments = {"output_dir": _Code("options.output_dir")} | given
    arguments |= {"max_steps": _Code("options.max_steps"), "remove_unused_columns": False}
    if (given.get("bf16") or given.get("fp16")) and "use_cpu" not in given:
        arguments["use_cpu"] = _Code("not torch.cuda.is_available()")  # else Trainer refuses 16 bit without a GPU
    if s.job.samples and s.job.epochs:  # as many samples as the job has, however many the data holds
        arguments["num_train_epochs"] = _Code(f"{s.job.epochs:g} * {s.job.samples} / len(raw)")
    lines = [
        "def main():",
        "    parser = argparse.ArgumentParser()",
        f'    parser.add_argument("--output_dir", default={_literal(s.name)})',
        f'    parser.add_argument("--max_steps", type=int, default={given.get("max_steps", -1)!r})',
        "    options = parser.parse_args()",
        *(["    keep_freed_memory()"] * _kept(s)),
    ]
    if s.model.torch_compile_dynamic is not None:
        lines.append(f'    os.environ["ACCELERATE_DYNAMO_USE_DYNAMIC"] = "{s.model.torch_compile_dynamic}"')
    lines.append(f"    raw = {_reading(s)}")
    if s.job.samples:
        lines.append(f"    raw = raw.select(range(min(len(raw), {s.job.samples})))")
    lines += [
        f"    args = {_call('TrainingArguments', arguments)}",
        f"    tokenizer = {_tokenizer(s)}",
        *(["    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token"] * (not _own_tokenizer(s))),
        _examples(s),
    ]
    lines += ["    set_seed(args.seed)", "    model = build_model(args.device)"]
    trainer: dict[str, Any] = {
        "model": _Code("model"),
        "args": _Code("args"),
        "train_dataset": _Code("examples"),
        "data_collator": _Code("partial(collate, pad_id=tokenizer.pad_token_id)"),
    }
    if happens(s, "evaluate"):
        lines.append("    # put your own evaluation set here; these are the first of the training examples")
        held = f"torch.utils.data.Subset(examples, range(min(len(examples), {d.eval_samples})))"
        trainer["eval_dataset"] = _Code(held)
    if s.optimizer_kwargs:
        lines.append("    optimizer, keywords = Trainer.get_optimizer_cls_and_kwargs(args, model)")
        trainer["optimizer_cls_and_kwargs"] = _Code(f"(optimizer, keywords | {_literal(s.optimizer_kwargs)})")
    lines.append(f"    trainer = {_call('Trainer', trainer)}")
    if s.model.sdpa_backend:
        lines.append(f"    with sdpa_kernel(SDPBackend.{BACKENDS[s.model.sdpa_backend]}):")
        lines.append("        trainer.train()")
    else:
        lines.append("    trainer.train()")
    lines.append("    trainer.save_model()")
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    main()"])


def _own_tokenizer(s: Settings) -> bool:
    """Whether the tokenizer is the small one that the kit trains for a model that has none."""
    return not s.model.tokenizer and s.model.init == "random"


def _tokenizer(s: Settings) -> str:
    if not _own_tokenizer(s):
        return f"AutoTokenizer.from_pretrained({_literal(s.model.tokenizer or s.model.name_or_path)})"
    tokens = {"pad_token": "<pad>", "eos_token": "<eos>"}
    return _call("PreTrainedTokenizerFast", {"tokenizer_file": str(stdlib_text.tokenizer_file(s))} | tokens)


def _saved(s: Settings) -> bool:
    local = Path(s.dataset.name_or_path).expanduser()
    return local.is_dir() and (local / "dataset_info.json").is_file()


def _reading(s: Settings) -> str:
    d = s.dataset
    how: dict[str, Any] = {"keep_in_memory": True} if d.storage == "in_memory" else {}
    if _saved(s):
        place = _literal(d.name_or_path)
        copied = f"shutil.copytree({place}, {BESIDE}, dirs_exist_ok=True)"
        return _call("load_from_disk", how, copied if d.storage == "local_copy" else place)
    if d.storage == "local_copy":
        how["cache_dir"] = _Code(f"str({BESIDE})")
    name = stdlib_text.source(d.name_or_path)
    if name.endswith((".jsonl", ".json")):
        return _call("load_dataset", {"data_files": name, "split": "train"} | how, _literal("json"))
    return _call("load_dataset", {"split": d.split} | how, *(_literal(part) for part in (name, d.name) if part))


def _examples(s: Settings) -> str:
    once = "raw.map(lambda e: encode(e, tokenizer), remove_columns=raw.column_names)"
    if s.dataset.padding == "packing":
        return f"    examples = pack({once})"
    if s.dataset.tokenize == "on_the_fly":
        return "    examples = OnTheFly(raw, tokenizer)"
    return f"    examples = {once}" if s.batched_fetching else f"    examples = OneByOne({once})"


# -- text --


class _Code(str):
    """Text that is an expression and not a string."""


def _literal(value: Any) -> str:
    """A value as one writes it in a script."""
    if isinstance(value, _Code):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _call(name: str, keywords: Mapping[str, Any], *positional: str, indent: int = 4) -> str:
    """A call as one would write it: on one line, or a line for each argument."""
    arguments = [*positional, *(f"{key}={_literal(value)}" for key, value in keywords.items())]
    line = f"{name}({', '.join(arguments)})"
    if len(line) + indent < 80:
        return line
    space = " " * indent
    return "\n".join([f"{name}(", *(f"{space}    {argument}," for argument in arguments), f"{space})"])
