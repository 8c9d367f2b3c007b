"""Processes, as the kit sees them from outside: locks, signals, and the memory that is left."""
