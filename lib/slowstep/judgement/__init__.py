"""From records to verdicts: pure functions on numbers. Nothing here imports torch."""
