"""Sentence embeddings as sentence-transformers trains them: its Trainer, its loss with in-batch negatives."""

import sys

from datasets import load_dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

model = SentenceTransformer(sys.argv[1], device="cpu")
data = load_dataset("json", data_files=f"{sys.argv[2]}/train.jsonl", split="train")
arguments = SentenceTransformerTrainingArguments(
    output_dir="embeddings", per_device_train_batch_size=16, num_train_epochs=1, use_cpu=True, report_to="none"
)
SentenceTransformerTrainer(
    model=model, args=arguments, train_dataset=data, loss=MultipleNegativesRankingLoss(model)
).train()
