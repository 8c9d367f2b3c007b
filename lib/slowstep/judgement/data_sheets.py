"""Peaks of devices from their vendors' documents: dense bf16 with 32-bit accumulation, as PyTorch computes.

Five rules decide which figure stands in a row:

- A rate with sparsity is halved, because many documents print only that one.
- A GeForce card has the rate for 32-bit accumulation, which is half of the rate for 16-bit accumulation. Where a
  document prints neither, the rate follows from cores and boost clock: 512 FLOPs a clock and SM, as for the RTX 4090.
- A device that knows no bf16 (V100, T4, Turing) has its fp16 rate.
- A module whose halves a driver lists as two devices (MI250X) has one half of every figure.
- Where documents of a vendor disagree on bandwidth or memory, the higher figure stands, because nothing may exceed it.

A device is left out if no document is known, if its rates are in dispute, or if one name stands for several devices:
H800 (SXM or PCIe), RTX 2080 Ti (two clocks), RTX PRO 6000 Server and Max-Q, MI100 (its bf16 is half of its fp16).
"""

from __future__ import annotations

V100 = "NVIDIA V100 data sheet, fp16"
A100 = "NVIDIA A100 data sheet"
A800 = "NVIDIA A100 data sheet (A800: slower NVLink alone)"
H100 = "NVIDIA H100 whitepaper V1.04, table 3; H100 data sheet"
H200 = "NVIDIA H200 data sheet"
GH200 = "NVIDIA GH200 data sheet, with sparsity | dense"
BLACKWELL_DATA_CENTRE = "NVIDIA Blackwell data sheet, Individual GPU Specifications"
BLACKWELL_ULTRA = "NVIDIA Blackwell Ultra data sheet, Individual GPU Specifications"
TURING = "NVIDIA Turing whitepaper, p. 14, fp16 with FP32 accumulate"
GA102 = "NVIDIA Ampere GA102 whitepaper"
ADA = "NVIDIA Ada whitepaper V2.1"
ADA_CLOCK = "NVIDIA GeForce comparison (cores, boost clock, AI TOPS), at the rate of the Ada whitepaper"
BLACKWELL = "NVIDIA RTX Blackwell whitepaper V1.1, appendices"
BLACKWELL_CLOCK = "NVIDIA GeForce comparison (cores, boost clock, AI TOPS), at the rate of the RTX Blackwell whitepaper"
CDNA3 = "AMD CDNA 3 white paper, table 2"

Sheet = tuple[tuple[str, ...], float, float, float, str]
"""Names (the driver's first), TFLOP/s, GB/s of memory bandwidth, GB of memory as the vendor counts, and the document.

Vendors print 80 GB for 80 GiB. Where one name covers two sizes of memory, the larger stands.
"""

SHEETS: tuple[Sheet, ...] = (
    # data centre, NVIDIA
    (("Tesla T4",), 65, 320, 16, "NVIDIA T4 data sheet, mixed precision (FP16/FP32)"),
    (("Tesla V100-SXM2-16GB",), 125, 900, 16, V100),
    (("Tesla V100-SXM2-32GB",), 125, 900, 32, V100),
    (("Tesla V100-PCIE-16GB",), 112, 900, 16, V100),
    (("Tesla V100-PCIE-32GB",), 112, 900, 32, V100),
    (("Tesla V100S-PCIE-32GB", "V100S"), 130, 1134, 32, V100),
    (("NVIDIA A10", "A10 PCIe"), 125, 600, 24, "NVIDIA A10 data sheet"),
    (("NVIDIA A10G",), 70, 600, 24, "NVIDIA A10G data sheet for AWS (February 2022)"),
    (("NVIDIA A30", "A30 PCIe"), 165, 933, 24, "NVIDIA A30 data sheet"),
    (("NVIDIA A40", "A40 PCIe"), 149.7, 696, 48, "NVIDIA A40 data sheet, BF16 with FP32 accumulate"),
    (("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"), 312, 1555, 40, A100),
    (("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"), 312, 2039, 80, A100),
    (("NVIDIA A100-PCIE-40GB",), 312, 1555, 40, A100),
    (("NVIDIA A100 80GB PCIe",), 312, 1935, 80, A100),
    (("NVIDIA A800-SXM4-80GB", "A800 SXM 80GB"), 312, 2039, 80, A800),
    (("NVIDIA A800 80GB PCIe",), 312, 1935, 80, A800),
    (("NVIDIA H100 80GB HBM3", "H100 SXM", "H100 SXM5"), 989.4, 3350, 80, H100),
    (("NVIDIA H100 PCIe",), 756.5, 2000, 80, H100),
    (("NVIDIA H100 NVL",), 835.5, 3900, 94, "NVIDIA H100 data sheet (H100 NVL)"),
    (("NVIDIA H200", "H200 SXM", "H200 HBM3e"), 989.4, 4800, 141, H200),
    (("NVIDIA H200 NVL",), 835.5, 4800, 141, H200),
    (("NVIDIA H20",), 148, 4000, 96, "NVIDIA H20 (not public; published tables agree)"),
    (("NVIDIA GH200 480GB",), 989.4, 4000, 96, GH200),
    (("NVIDIA GH200 144G HBM3e",), 989.4, 4900, 144, GH200),
    (
        ("NVIDIA B200", "B200 SXM", "B200 180GB"),
        2250,
        8000,
        192,
        f"{BLACKWELL_DATA_CENTRE} (HGX B200: 180 GB and 7.7 TB/s of the chip's 192 GB and 8 TB/s)",
    ),
    (
        ("NVIDIA B300 SXM6 AC", "B300", "B300 SXM", "B300 270GB"),
        2250,
        8000,
        288,
        f"{BLACKWELL_ULTRA} (HGX B300: 270 GB and 7.7 TB/s of the chip's 288 GB and 8 TB/s)",
    ),
    (("NVIDIA GB200", "GB200 186GB"), 2500, 8000, 192, f"{BLACKWELL_DATA_CENTRE} (GB200: 186 of the chip's 192 GB)"),
    (("NVIDIA GB300", "GB300 279GB"), 2500, 8000, 288, f"{BLACKWELL_ULTRA} (GB300: 279 of the chip's 288 GB)"),
    (("NVIDIA L4",), 121, 300, 24, f"{ADA}, p. 39; L4 data sheet"),
    (("NVIDIA L20",), 119.5, 864, 48, "NVIDIA L20 (not public; published tables agree)"),
    (("NVIDIA L40",), 181.05, 864, 48, f"{ADA}, p. 36; L40 data sheet"),
    (("NVIDIA L40S",), 362.05, 864, 48, "NVIDIA L40S data sheet"),
    # workstations, NVIDIA
    (("NVIDIA TITAN RTX",), 130.5, 672, 24, f"{GA102}, appendix A, fp16 with FP32 accumulate"),
    (("Quadro RTX 6000",), 130.5, 672, 24, TURING),
    (("Quadro RTX 8000",), 130.5, 672, 48, f"{TURING} (the chip and clock of the Quadro RTX 6000)"),
    (("NVIDIA RTX A4000", "A4000"), 76.7, 448, 16, "NVIDIA RTX A4000 data sheet, half of the rate with sparsity"),
    (("NVIDIA RTX A4500", "A4500"), 94.6, 640, 20, "NVIDIA RTX A4500 data sheet, half of the rate with sparsity"),
    (("NVIDIA RTX A5000", "A5000"), 111.1, 768, 24, "NVIDIA RTX A5000 data sheet, half of the rate with sparsity"),
    (("NVIDIA RTX A6000", "A6000"), 154.8, 768, 48, f"{GA102} V2, table 3"),
    (
        ("NVIDIA RTX 4000 Ada Generation", "RTX 4000 Ada"),
        106.9,
        360,
        20,
        "NVIDIA RTX 4000 Ada data sheet, a quarter of FP8 with sparsity",
    ),
    (
        ("NVIDIA RTX 5000 Ada Generation", "RTX 5000 Ada"),
        261.1,
        576,
        32,
        "NVIDIA RTX 5000 Ada data sheet, a quarter of FP8 with sparsity",
    ),
    (
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        364.2,
        960,
        48,
        "NVIDIA Ada professional whitepaper V1.1, p. 28",
    ),
    (
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",),
        503.8,
        1792,
        96,
        "NVIDIA RTX Blackwell PRO whitepaper V1.0, appendix A",
    ),
    # consumers, NVIDIA
    (("NVIDIA GeForce RTX 3070",), 40.6, 448, 8, f"{GA102}, appendix A"),
    (("NVIDIA GeForce RTX 3080 10GB",), 59.5, 760, 10, f"{GA102}, p. 15"),
    (("NVIDIA GeForce RTX 3080 Ti", "3080 Ti"), 68.2, 912, 12, f"{ADA}, p. 32"),
    (("NVIDIA GeForce RTX 3090", "3090"), 71.2, 936, 24, f"{GA102}, appendix A"),
    (("NVIDIA GeForce RTX 3090 Ti", "3090 Ti"), 80, 1008, 24, f"{ADA}, appendix A"),
    (("NVIDIA GeForce RTX 4060",), 30.2, 272, 8, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4060 Ti", "RTX 4060 Ti 8GB"), 44.1, 288, 16, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4070",), 58.3, 504, 12, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4070 SUPER",), 71.0, 504, 12, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4070 Ti",), 80.2, 504, 12, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4070 Ti SUPER",), 88.2, 672, 16, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4080",), 97.5, 717, 16, f"{ADA}, appendix on the RTX 4080"),
    (("NVIDIA GeForce RTX 4080 SUPER",), 104.4, 736, 16, ADA_CLOCK),
    (("NVIDIA GeForce RTX 4090", "4090"), 165.2, 1008, 24, f"{ADA}, appendix A"),
    (("NVIDIA GeForce RTX 5060 Ti", "RTX 5060 Ti 8GB"), 47.4, 448, 16, BLACKWELL_CLOCK),
    (("NVIDIA GeForce RTX 5070",), 61.7, 672, 12, BLACKWELL_CLOCK),
    (("NVIDIA GeForce RTX 5070 Ti",), 87.9, 896, 16, BLACKWELL_CLOCK),
    (("NVIDIA GeForce RTX 5080",), 112.6, 960, 16, BLACKWELL),
    (("NVIDIA GeForce RTX 5090", "5090"), 209.5, 1792, 32, BLACKWELL),
    # AMD
    (("AMD Instinct MI210",), 181, 1638, 64, "AMD Instinct MI210 data sheet"),
    (("AMD Instinct MI250",), 181, 1638, 64, "AMD Instinct MI250 data sheet, one of its two dies"),
    (("AMD Instinct MI250X",), 191.5, 1638, 64, "AMD CDNA 3 white paper, table 1, one of its two dies"),
    (("AMD Instinct MI300A",), 980.6, 5325, 128, CDNA3),
    (("AMD Instinct MI300X", "MI300X OAM"), 1307.4, 5325, 192, CDNA3),
    (("AMD Instinct MI325X", "MI325X OAM"), 1307.4, 6000, 256, CDNA3),
    (("AMD Instinct MI350X", "MI350X OAM"), 2306.9, 8000, 288, "AMD Instinct MI350X: 2.3 PFLOP/s, by its clock"),
    (("AMD Instinct MI355X", "MI355X OAM"), 2516.6, 8000, 288, "AMD Instinct MI355X brochure"),
)
