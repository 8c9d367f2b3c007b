"""A classifier of images in Lightning, with the pieces that its documentation shows."""

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 512

    def __getitem__(self, i):
        image = np.load(f"{self.folder}/image_{i % 64:03}.npy")
        return torch.from_numpy(image)[None], i % 10


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        block = [nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU()]
        self.net = nn.Sequential(*block, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))

    def training_step(self, batch, index):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


trainer = L.Trainer(
    max_epochs=20, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(Classifier(), DataLoader(Images("images"), batch_size=16))
