"""Limits that follow the machine: how much longer it takes than a quiet one with two fast cores."""

import os
import time
from functools import cache

LOOP_SECONDS = 0.05
"""CPU time of `_loop` on the machine for which the limits in the tests were written."""
SPARE = 3.0
"""Limits only end what hangs: this many times what a slow machine may need costs nothing."""


@cache
def slowness() -> float:
    """CPU time here over that machine's, at least 1: the speed of a core, whatever else runs."""
    return max(1.0, min(_loop() for _ in range(3)) / LOOP_SECONDS)


def crowding() -> float:
    """Processes that want a core, per core, at least 1."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def patience(seconds: float) -> float:
    """Seconds to wait here, now, for what takes up to `seconds` on that machine."""
    return seconds * slowness() * (1 + crowding())


def _loop() -> float:
    begun, total = time.process_time(), 0
    for k in range(1_000_000):
        total += k
    return time.process_time() - begun
