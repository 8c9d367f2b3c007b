"""A trial: it runs a program, and measures blocks of its steps on demand."""
