"""Compute: the arithmetic of a step, and the way in which it is launched."""

from slowstep.factors.catalogue.compute import arithmetic, kernels

FACTORS = (*arithmetic.FACTORS, *kernels.FACTORS)
