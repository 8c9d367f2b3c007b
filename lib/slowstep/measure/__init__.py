"""Measuring: what a measurer is asked, and the one that measures with trials on this machine."""

from slowstep.measure.measurer import ComparisonRequest, Measurer, Tell

__all__ = ["ComparisonRequest", "Measurer", "Tell"]
