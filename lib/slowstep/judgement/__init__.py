"""Pure functions that make verdicts from records. Nothing here imports torch."""
