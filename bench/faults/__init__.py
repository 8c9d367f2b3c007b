"""Faults that no test can make, made for real: a kernel out of memory, a tiny /dev/shm, odd environments."""
