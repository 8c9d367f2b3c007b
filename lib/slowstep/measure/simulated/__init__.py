"""Simulated measuring: step times and runs whose truth is known, to test what judges them."""

from slowstep.measure.simulated.measurer import SimulatedMeasurer, Truth
from slowstep.measure.simulated.regimes import REGIMES, Regime

__all__ = ["REGIMES", "Regime", "SimulatedMeasurer", "Truth"]
