"""Investigations in batch: every notebook runs over a parameter file, whatever fails, and goes on where it stopped."""
