"""Functions of `time` as they were before the program could replace them.

A program may freeze time: a simulation does, and tests with freezegun or a mock. freezegun replaces these functions in
every module that has one under a name, so they are held by a class. This module is imported before the program runs.
"""

from __future__ import annotations

import time as of_process


class time:
    """The functions of the module `time` that durations are taken by."""

    monotonic = staticmethod(of_process.monotonic)
    perf_counter = staticmethod(of_process.perf_counter)
    perf_counter_ns = staticmethod(of_process.perf_counter_ns)
    sleep = staticmethod(of_process.sleep)
