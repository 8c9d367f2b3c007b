"""A residual network on vectors, trained by DistributedDataParallel: `torchrun --nproc-per-node 2`."""

import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

STEPS, BATCH, WIDTH, BLOCKS, ACCUMULATE = 200, 32, 96, 16, 1


class Vectors(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(4096, WIDTH, generator=generator)
        self.labels = torch.randint(0, 10, (4096,), generator=generator)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.labels[index]

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, hidden):
        return hidden + self.inner(hidden)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[Block() for _ in range(BLOCKS)], torch.nn.Linear(WIDTH, 10))
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    data = Vectors()
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    step, began = 0, time.perf_counter()
    while step < STEPS:
        for number, (inputs, labels) in enumerate(loader):
            with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
                loss = cross_entropy(model(inputs), labels)
            (loss / ACCUMULATE).backward()
            if (number + 1) % ACCUMULATE:
                continue
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == 40:
                began = time.perf_counter()
            if step == STEPS:
                break
    if rank == 0:
        samples = (STEPS - 40) * ACCUMULATE * BATCH * size
        print(f"{samples / (time.perf_counter() - began):.1f} samples/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
