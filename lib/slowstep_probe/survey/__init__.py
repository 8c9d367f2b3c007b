"""The survey: a program runs for some steps, and what it constructs and how it trains is noted."""

MOST_FILES = 200
"""The most files of a kind that are told."""
