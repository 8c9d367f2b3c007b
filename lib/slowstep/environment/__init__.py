"""The environment of a measurement: the machine with its packages, and what its system refuses."""
