"""Processes, as the kit sees them from outside: signals and locks."""
