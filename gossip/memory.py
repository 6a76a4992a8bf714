"""The C library's memory, kept between steps instead of given back to the kernel."""

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""mallopt's names of its parameters, in malloc.h."""
SAID = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""By which a user tells glibc the same."""
NEVER = 2**31 - 1
"""Bytes, in an int, at the top of the heap before it is trimmed."""


def keep_memory() -> bool:
    """Have glibc's malloc keep what is freed, also large blocks; whether it does.

    By default each large block is mapped when it is made and unmapped when it is freed, or the top
    of the heap given back, and so a step faults its pages in again, zeroed, 4 KB at a time. For
    a program that does the same step for ever that is in vain. Only where the C library is glibc,
    and only if the environment does not say how it is to be.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in SAID):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
        ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018 - musl has none
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, NEVER))
