"""An autoencoder in Lightning."""

import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 1536), nn.ReLU(), nn.Linear(1536, 64))
        self.decoder = nn.Sequential(nn.Linear(64, 1536), nn.ReLU(), nn.Linear(1536, 784))
        self.steps = 0

    def training_step(self, batch, index):
        (x,) = batch
        return nn.functional.mse_loss(self.decoder(self.encoder(x)), x)

    def on_train_batch_end(self, *_):
        self.steps += 1
        if self.steps == 64:
            self.began = time.perf_counter()

    def on_train_end(self):
        print(f"{(self.steps - 64) * 32 / (time.perf_counter() - self.began):.6g} samples/s")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


L.seed_everything(0, verbose=False)
data = TensorDataset(torch.rand(2048, 784))
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = L.Trainer(max_epochs=7, accelerator="cpu", precision="bf16-mixed", **quiet)
trainer.fit(Autoencoder(), DataLoader(data, batch_size=32, shuffle=True))
