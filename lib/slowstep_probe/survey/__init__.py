"""The survey: a program runs for some steps, and what it constructs and how it trains is noted."""
