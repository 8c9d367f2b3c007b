"""Notebooks in batch: all run over a parameter file. One that fails stops no other, and finished ones are skipped."""
