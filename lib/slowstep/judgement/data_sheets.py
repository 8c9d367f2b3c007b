"""Figures of vendors' data sheets: the dense bf16 rate with 32-bit accumulation, as PyTorch computes.

Many sheets print the rate with sparsity, which is twice the dense one; it is halved here. Devices without bf16
(V100, T4) have their fp16 rate. Where a driver lists the halves of a module as two devices (MI250X), the figures are
those of one half. A device whose sheet was not at hand is left out.
"""

from __future__ import annotations

GA102 = "NVIDIA Ampere GA102 whitepaper, appendix A"
ADA = "NVIDIA Ada whitepaper, appendix A"
BLACKWELL = "NVIDIA RTX Blackwell whitepaper, appendix A"
A100 = "NVIDIA A100"
H100 = "NVIDIA H100"

Sheet = tuple[tuple[str, ...], float, float, float, str]
"""Names (the driver's first), TFLOP/s, GB/s of memory bandwidth, GB of memory, and the data sheet."""

SHEETS: tuple[Sheet, ...] = (
    # data centre, NVIDIA
    (("Tesla T4",), 65, 320, 16, "NVIDIA T4, fp16"),
    (("Tesla V100-SXM2-16GB",), 125, 900, 16, "NVIDIA V100, fp16"),
    (("Tesla V100-SXM2-32GB",), 125, 900, 32, "NVIDIA V100, fp16"),
    (("Tesla V100-PCIE-16GB",), 112, 900, 16, "NVIDIA V100, fp16"),
    (("Tesla V100-PCIE-32GB",), 112, 900, 32, "NVIDIA V100, fp16"),
    (("NVIDIA A10", "A10 PCIe"), 125, 600, 24, "NVIDIA A10"),
    (("NVIDIA A10G",), 70, 600, 24, "NVIDIA A10G for AWS"),
    (("NVIDIA A30", "A30 PCIe"), 165, 933, 24, "NVIDIA A30"),
    (("NVIDIA A40", "A40 PCIe"), 149.7, 696, 48, "NVIDIA A40"),
    (("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"), 312, 1555, 40, A100),
    (("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"), 312, 2039, 80, A100),
    (("NVIDIA A100-PCIE-40GB",), 312, 1555, 40, A100),
    (("NVIDIA A100 80GB PCIe",), 312, 1935, 80, A100),
    (("NVIDIA H100 80GB HBM3", "H100 SXM", "H100 SXM5"), 989.4, 3350, 80, H100),
    (("NVIDIA H100 PCIe",), 756.4, 2000, 80, H100),
    (("NVIDIA H100 NVL",), 835.5, 3900, 94, H100),
    (("NVIDIA H200", "H200 SXM", "H200 HBM3e"), 989.4, 4800, 141, "NVIDIA H200"),
    (("NVIDIA H200 NVL",), 835.5, 4800, 141, "NVIDIA H200"),
    (("NVIDIA GH200 480GB",), 989.4, 4000, 96, "NVIDIA GH200"),
    (("NVIDIA B200", "B200 SXM"), 2250, 8000, 180, "NVIDIA HGX B200"),
    (("NVIDIA B300 SXM6 AC", "B300", "B300 SXM"), 2250, 8000, 288, "NVIDIA HGX B300"),
    (("NVIDIA GB200",), 2500, 8000, 186, "NVIDIA GB200 NVL72"),
    (("NVIDIA GB300",), 2500, 8000, 288, "NVIDIA GB300 NVL72"),
    (("NVIDIA L4",), 121, 300, 24, "NVIDIA L4"),
    (("NVIDIA L40",), 181, 864, 48, "NVIDIA L40"),
    (("NVIDIA L40S",), 362, 864, 48, "NVIDIA L40S"),
    # workstations, NVIDIA
    (("NVIDIA RTX A6000", "A6000"), 154.8, 768, 48, GA102),
    (("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"), 364.2, 960, 48, "NVIDIA Ada RTX PRO whitepaper"),
    (
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",),
        503.8,
        1792,
        96,
        "NVIDIA RTX Blackwell PRO whitepaper, table 4",
    ),
    # consumers, NVIDIA: half the rate that is printed for 16-bit accumulation
    (("NVIDIA GeForce RTX 3070",), 40.6, 448, 8, GA102),
    (("NVIDIA GeForce RTX 3090", "3090"), 71.2, 936, 24, GA102),
    (("NVIDIA GeForce RTX 4080",), 97.5, 717, 16, ADA),
    (("NVIDIA GeForce RTX 4090", "4090"), 165.2, 1008, 24, ADA),
    (("NVIDIA GeForce RTX 5080",), 112.6, 960, 16, BLACKWELL),
    (("NVIDIA GeForce RTX 5090", "5090"), 209.5, 1792, 32, BLACKWELL),
    # AMD
    (("AMD Instinct MI210",), 181, 1638, 64, "AMD Instinct MI210"),
    (("AMD Instinct MI250X",), 191.5, 1638, 64, "AMD Instinct MI250X, one of its two dies"),
    (("AMD Instinct MI300X", "MI300X OAM"), 1307.4, 5300, 192, "AMD Instinct MI300X"),
    (("AMD Instinct MI325X", "MI325X OAM"), 1307.4, 6000, 256, "AMD Instinct MI325X"),
    (("AMD Instinct MI355X", "MI355X OAM"), 2500, 8000, 288, "AMD Instinct MI355X"),
)
