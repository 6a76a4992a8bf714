"""Driving MPI's progress engine while a gradient is computed, so that messages move on."""

import atexit
import threading
import time
from contextlib import suppress

from mpi4py import MPI

PROGRESS_SECONDS = 0.001
"""Interval of the probes; each takes some microseconds of the computing core."""
NO_TAG = 1
"""Unused tag: probing for it only drives MPI's progress engine."""


class Progress:
    """A thread that calls MPI while messages are under way.

    An MPI library moves data only inside its own calls, and during a gradient there are none.
    Measured between two nodes of 1 Gbit/s with a core each, a row of 20 MB and 300 to 400 ms of
    computing: 0.6 to 0.9 of the exchange is hidden behind it, where 0.01 to 0.24 is without; at
    2.7 MB, of which more leaves at once, it is 0.7 to 0.8 either way. MPI's own progress threads
    look all the time and take a core for that.

    Args:
        comm: on which nobody sends with NO_TAG.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self._under_way = threading.Event()
        self._thread: threading.Thread | None = None
        atexit.register(self.over)  # before MPI ends

    def needed(self) -> None:
        """Messages are under way from now on."""
        if self._thread is None and MPI.Query_thread() == MPI.THREAD_MULTIPLE:
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()
        self._under_way.set()

    def over(self) -> None:
        """None are under way any more."""
        self._under_way.clear()

    def _run(self) -> None:
        with suppress(MPI.Exception):  # who waits for the messages gets it, too
            while True:
                self._under_way.wait()
                self._comm.Iprobe(MPI.ANY_SOURCE, NO_TAG)
                time.sleep(PROGRESS_SECONDS)
