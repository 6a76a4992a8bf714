"""Words of shared memory that processes wait on without polling. Linux on x86-64 only."""

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gossip.comm.startup.environment import num_cores

_FUTEX, _WAIT, _WAKE = 202, 0, 1
_EVERYONE = 2**31 - 1
SPINS = 2000
"""Looks at a word before the core is given away, about 0.2 ms."""
_SLICE_NANOSECONDS = 20_000_000
"""Longest sleep in one call, so that Python's signal handlers run in between."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def available() -> bool:
    """Whether this machine has them.

    Elsewhere than on x86-64 a store may be seen before an earlier one, which Python has no means
    to forbid: rows could be read before they have been written.
    """
    return sys.platform == "linux" and platform.machine() == "x86_64"


_SLICE = ctypes.pointer(_Timespec(0, _SLICE_NANOSECONDS))


@cache
def _syscall() -> Callable[..., int]:
    return ctypes.CDLL(None).syscall


def spins(processes: int) -> int:
    """How often each of a node's processes looks at a word before it sleeps.

    Not at all where they share cores: the look would take the core from who is looked for.
    """
    return SPINS if processes <= num_cores() else 0


class Word:
    """One int32 that only ever grows, in memory that processes share; one of them writes it."""

    __slots__ = ("_address", "_value")

    def __init__(self, memory: NDArray[np.uint8], start: int) -> None:
        """The word in the four bytes of `memory` from `start` on; only the writer may `set` it."""
        self._value = memory[start : start + 4].view(np.int32)
        self._address = ctypes.c_void_p(self._value.ctypes.data)

    @property
    def value(self) -> int:
        """The number now."""
        return int(self._value[0])

    def set(self, value: int) -> None:
        """Write the number and wake whoever waits for it."""
        self._value[0] = value
        _syscall()(_FUTEX, self._address, _WAKE, _EVERYONE, None, None, 0)

    def wait(self, least: int, spins: int) -> None:
        """Come back when the number is at least `least`.

        Args:
            least: what to wait for.
            spins: looks before the core is given away; none where processes share cores.
        """
        value = self._value
        for _ in range(spins):
            if value[0] >= least:
                return
        syscall = _syscall()
        while (now := int(value[0])) < least:
            # Sleeps only if the number is still `now`, so no wake-up can be missed.
            syscall(_FUTEX, self._address, _WAIT, now, _SLICE, None, 0)
