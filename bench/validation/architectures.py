"""Healthy runs of other architectures than the built-in fine-tune's, through Trainer and in loops that people write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, ViTConfig, set_seed
from transformers import ViTForImageClassification as ViTModel

from slowstep.settings import Settings
from slowstep.workloads.base import EventResult
from slowstep.workloads.finetune import FineTune

IMAGES, LABELS = 4096, 10
"""Random images of an epoch, and their classes."""


class MaskedLM(FineTune):
    """A model that fills in words, such as BERT."""

    kind: Any = AutoModelForMaskedLM

    def build_model(self) -> None:
        self.device = self.arguments.device.type
        set_seed(self.arguments.seed)
        model = self.settings.model
        config = AutoConfig.for_model(model.model_type, **model.config)
        self.model = self.kind.from_config(config, dtype=getattr(torch, model.dtype))


class SequenceToSequence(MaskedLM):
    """A model with an encoder and a decoder, such as T5."""

    kind = AutoModelForSeq2SeqLM


class ImageLoop:
    """A plain loop as in PyTorch's tutorials: tuples of tensors, the loss beside the model, printed now and then."""

    device = "cpu"
    size = 32

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.workers = settings, int(settings.training("dataloader_num_workers"))
        self.batch = int(settings.training("per_device_train_batch_size"))

    def prepare_data(self) -> None:
        random = torch.Generator().manual_seed(0)
        images = torch.randn(IMAGES, 3, self.size, self.size, generator=random)
        labels = torch.randint(0, LABELS, (IMAGES,), generator=random)
        order = torch.Generator().manual_seed(1)
        self.loader = DataLoader(
            TensorDataset(images, labels),
            batch_size=self.batch,
            shuffle=True,
            generator=order,
            num_workers=self.workers,
        )

    def build_model(self) -> None:
        torch.manual_seed(0)
        self.model = self.network()

    def network(self) -> nn.Module:
        raise NotImplementedError

    def build_trainer(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def train(self) -> None:
        self.model.train()
        step = 0
        while True:
            for images, labels in self.loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(images), labels)
                loss.backward()
                self.optimizer.step()
                if step % 50 == 0:
                    print(f"loss {loss.item():.3f}")
                step += 1

    def observe(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "per_device_train_batch_size": self.loader.batch_size,
            "dataloader_num_workers": self.loader.num_workers,
            "gradient_accumulation_steps": 1,
            "epoch_steps": len(self.loader),
        }

    def periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        return {}


class MLP(ImageLoop):
    """Three wide layers on flat images."""

    def network(self) -> nn.Module:
        wide = 2048
        layers = (nn.Linear(3 * self.size**2, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU())
        return nn.Sequential(nn.Flatten(), *layers, nn.Linear(wide, LABELS))


class Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, channels: int):
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.way(x))


class ResNet(ImageLoop):
    """A small residual network."""

    def network(self) -> nn.Module:
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, LABELS))
        return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, stride=2), *(Residual(64) for _ in range(3)), *head)


class Classifier(nn.Module):
    """A model of transformers as a plain classifier."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.model(pixel_values=images).logits


class ViT(ImageLoop):
    """A small vision transformer, with the dropout of its configuration: none."""

    size = 64

    def network(self) -> nn.Module:
        config = ViTConfig(
            hidden_size=192,
            num_hidden_layers=4,
            num_attention_heads=3,
            intermediate_size=768,
            image_size=self.size,
            patch_size=8,
            num_labels=LABELS,
        )
        return Classifier(ViTModel(config))
