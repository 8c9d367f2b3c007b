"""`make validate`: the proof that the kit finds the true cause and cries no wolf (docs/validation.md)."""
