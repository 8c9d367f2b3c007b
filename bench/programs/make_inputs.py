"""Makes what public training programs need, without a network: `python make_inputs.py FOLDER`, with their environment.

Small models with random weights, tokenizers of whole words, texts, preferences, pairs of sentences, images. The
programs themselves come from the package index and stay as they are; docs/programs.md has their commands.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

TEXTS = [f"word{i % 50} and word{i % 7} make {i} of them, which is word{i % 11} again" for i in range(2000)]


SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}


def tokenizer(folder: Path, **special: str) -> int:
    """Make a tokenizer of whole words with these special tokens, and return the number of its words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(unk_token=special["unk_token"]))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(TEXTS, trainers.WordLevelTrainer(special_tokens=list(special.values())))
    made = PreTrainedTokenizerFast(tokenizer_object=words, **special)
    made.save_pretrained(folder)
    return len(made)


def llama(folder: Path) -> None:
    """A Llama of four layers with a tokenizer, for TRL and sentence-transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(folder, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=words)).save_pretrained(folder)


def bert(folder: Path) -> None:
    """A BERT of four layers with a tokenizer, for accelerate's examples, which name it `bert-base-cased`."""
    from transformers import BertConfig, BertForSequenceClassification

    words = tokenizer(folder, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]")
    BertForSequenceClassification(BertConfig(**SHAPE, vocab_size=words)).save_pretrained(folder)


GLUE_CARD = """---
configs:
- config_name: mrpc
  data_files:
  - {split: train, path: train.jsonl}
  - {split: validation, path: validation.jsonl}
---
"""

GLUE_METRIC = '''import datasets
import evaluate


class Glue(evaluate.Metric):
    """The accuracy, as the metric of MRPC has it."""

    def _info(self):
        columns = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=columns)

    def _compute(self, predictions, references):
        return {"accuracy": sum(p == r for p, r in zip(predictions, references)) / len(references)}
'''


def glue(folder: Path, modules: Path) -> None:
    """Make pairs of sentences as MRPC has them, under the name by which accelerate's examples ask the Hub for them.

    `datasets` refuses a folder with a script in it, so the metric of that name lies where `evaluate` keeps what it has
    loaded before (HF_MODULES_CACHE).
    """
    metric = modules / "evaluate_modules/metrics/evaluate-metric--glue" / ("0" * 64) / "glue.py"
    for made in (folder, metric.parent):
        made.mkdir(parents=True, exist_ok=True)
    metric.write_text(GLUE_METRIC)
    (folder / "README.md").write_text(GLUE_CARD)
    rows = [
        {"sentence1": f"{text} " * 2, "sentence2": f"{text} and {TEXTS[-i]}", "label": i % 2, "idx": i}
        for i, text in enumerate(TEXTS, 1)
    ]
    for name, part in (("train", rows[:-400]), ("validation", rows[-400:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))


def data(folder: Path) -> None:
    """Texts, preferences, instructions and pairs of sentences, each as JSON lines."""
    rows = {
        "texts": [{"text": text * 3} for text in TEXTS],
        "preferences": [{"prompt": t, "chosen": f"{t} yes", "rejected": f"{t} no"} for t in TEXTS],
        "pairs": [{"anchor": t, "positive": t.replace("and", "with")} for t in TEXTS],
    }
    for name, lines in rows.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answers = [{"instruction": t, "input": "", "output": t * 2} for t in TEXTS]
    (folder / "instructions.json").write_text(json.dumps(answers))


def images(folder: Path, count: int = 64) -> None:
    """Volumes with a ball in each, and masks, as MONAI's segmentation reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(96)] * 2, indexing="ij"))
    for i in range(count):
        middle = random.uniform(30, 66, (2, 1, 1))
        ball = (((grid - middle) ** 2).sum(0) < 200).astype(np.float32)
        np.save(folder / f"image_{i:03}.npy", ball + random.normal(0, 0.3, ball.shape).astype(np.float32))
        np.save(folder / f"mask_{i:03}.npy", ball)


def litgpt_checkpoint(folder: Path, tokenizer: Path) -> None:
    """A GPT of four layers as LitGPT keeps it."""
    import torch
    import yaml
    from litgpt import GPT, Config

    folder.mkdir(parents=True, exist_ok=True)
    words = len(json.loads((tokenizer / "tokenizer.json").read_text())["model"]["vocab"])
    config = Config(
        name="tiny", n_layer=4, n_head=4, n_embd=128, block_size=256, padded_vocab_size=words, vocab_size=words
    )
    torch.save(GPT(config).state_dict(), folder / "lit_model.pth")
    (folder / "model_config.yaml").write_text(yaml.safe_dump(asdict(config)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text((tokenizer / name).read_text())


def main(folder: Path) -> None:
    """Make all of it; what a package is missing for is left out, and said."""
    data(folder)
    images(folder / "images")
    glue(folder / "glue", folder / "modules")
    for make in (
        lambda: llama(folder / "llama"),
        lambda: bert(folder / "bert-base-cased"),
        lambda: litgpt_checkpoint(folder / "litgpt", folder / "llama"),
    ):
        try:
            make()
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
