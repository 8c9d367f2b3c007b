"""Measuring: the interface of a measurer, and the measurer that runs trials on this machine."""
