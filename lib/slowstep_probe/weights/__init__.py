"""Weights that are built once and mapped by every trial."""
