"""A small Llama whose weights fully_shard spreads over its processes: `torchrun --nproc-per-node 2`."""

import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, BATCH, LENGTH = 80, 4, 64


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
    )
    model = LlamaForCausalLM(config)
    mesh = init_device_mesh("cpu", (size,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    data = torch.randint(0, 512, (1024, LENGTH), generator=torch.Generator().manual_seed(rank))
    began = time.perf_counter()
    for step in range(STEPS):
        ids = data[torch.randint(0, len(data), (BATCH,))]
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 20:
            began = time.perf_counter()
    if rank == 0:
        print(f"{(STEPS - 21) * BATCH * size / (time.perf_counter() - began):.1f} samples/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
