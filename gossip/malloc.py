"""Settings of the C library's malloc that keep freed memory between steps."""

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""mallopt's names of its parameters, in malloc.h."""
SAID = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""By which a user tells glibc the same."""
NEVER = -1
"""As a threshold: it is not trimmed at all."""


def keep_memory() -> bool:
    """Have glibc's malloc keep what is freed, large blocks too; whether it does.

    By default a large block is mapped when it is made and unmapped when it is freed, or the top of
    the heap is given back, and the next step faults its pages in again, zeroed, 4 KB at a time.
    For a program that does the same step again and again that is in vain. Only where the C
    library is glibc, and only if the environment does not say how it is to be.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in SAID):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
        ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018 - musl has none
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, NEVER))
