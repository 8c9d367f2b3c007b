"""Fine-tunes a classifier of transformers on texts that are all padded to one length, as many tokenizers are told to."""

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification


class Texts(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        mask = (torch.arange(96) < 3 + i % 12).long()
        return {"input_ids": (torch.arange(96) + i) % 90 * mask, "attention_mask": mask, "labels": i % 2}


config = BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(config)
loader = DataLoader(Texts(), batch_size=8, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for epoch in range(9):
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
