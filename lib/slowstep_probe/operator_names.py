"""Names of operators, as profiles show them: ATen's, and those of kernels."""

from __future__ import annotations

import re

PRODUCTS = re.compile(
    r"(?<!o)mm(_|$)|::(add)?mv|matmul|::linear|conv(olution)?|mkldnn|gemm|cublas|cutlass|scaled_dot_product"
    r"|flash_attention|efficient_attention|::einsum|lstm|gru|rnn|^(add)?b?mmbackward",
    re.I,
)
"""Products of matrices and convolutions: the arithmetic that FLOPs count. The names are ATen's and those of kernels."""

OF_VECTORS = re.compile(r"::(add)?mv_?$|::dot$|::vdot$")
"""The products of a matrix with a vector: those of solvers and of power iterations, one after the other."""

OF_WEIGHTS = re.compile(r"::linear|addmm|::mm$|conv|::lstm|::gru|::rnn")
"""The products with weights, which modules call."""
