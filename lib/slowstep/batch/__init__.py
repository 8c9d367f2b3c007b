"""Notebooks in batch: all of them run over a parameter file. One that fails stops no other; finished ones are skipped."""
