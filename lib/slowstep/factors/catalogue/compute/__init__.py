"""Compute: the arithmetic of a step, the way in which it is launched, and what the process is set to."""

from slowstep.factors.catalogue.compute import arithmetic, kernels, process

FACTORS = (*arithmetic.FACTORS, *kernels.FACTORS, *process.FACTORS)
