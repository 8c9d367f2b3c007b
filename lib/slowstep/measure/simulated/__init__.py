"""Measuring without a machine: step times and runs whose truth is known, for whatever judges them."""

from slowstep.measure.simulated.measurer import SimulatedMeasurer, Truth
from slowstep.measure.simulated.regimes import REGIMES, Regime

__all__ = ["REGIMES", "Regime", "SimulatedMeasurer", "Truth"]
