"""The environment of a measurement: the machine with its packages, what of it may be used, what its system refuses."""
