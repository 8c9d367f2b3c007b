"""Measuring: the interface of a measurer, and the measurer that runs trials on this machine."""

from slowstep.measure.measurer import ComparisonRequest, Measurer, Tell

__all__ = ["ComparisonRequest", "Measurer", "Tell"]
