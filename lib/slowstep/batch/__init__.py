"""Investigations in batch: every notebook over a parameter file, whatever fails, from where it stopped."""
