"""A process's place in the run, in memory that the other processes of its host can read."""

from collections.abc import Iterator
from contextlib import contextmanager

from gossip.comm.shutdown.watch import SLOT


class Position:
    """Where this process is in the run. The loop sets `step` and `phase` as it goes.

    One that has left stays so, whatever is set, until it takes part again.
    """

    def __init__(self, slot: memoryview | None = None) -> None:
        """A new position, or the one in another process's slot."""
        self._slot = memoryview(bytearray(SLOT.size)) if slot is None else slot
        if slot is None:
            self._put(0, False, "start")

    @property
    def step(self) -> int:
        """Number of the current step."""
        return self._get()[0]

    @step.setter
    def step(self, step: int) -> None:
        self._put(step, self.left, self.phase)

    @property
    def phase(self) -> str:
        """What is being done in it, such as "gradient": a word for messages."""
        return self._get()[2].rstrip(b"\0").decode(errors="replace")

    @phase.setter
    def phase(self, phase: str) -> None:
        self._put(self.step, self.left, phase)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """In this block that is being done."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    @property
    def left(self) -> bool:
        """Whether the process has ended as it should."""
        return self._get()[1]

    @property
    def waits(self) -> bool:
        """Whether it waits for others: known some time after it began, and reset by any change."""
        return self._get()[3]

    def set_waits(self, waits: bool) -> None:
        """Called by another thread than the one that sets the rest, which this leaves alone."""
        self._slot[-1] = waits

    def publish(self, slot: memoryview) -> None:
        """Keep the position in `slot` from now on, where a watcher reads it; it takes part."""
        slot[:] = self._slot
        self._slot = slot
        self.come_back()

    def leave(self) -> None:
        """Tell the watcher that this process ends as it should."""
        self._put(self.step, True, self.phase)

    def come_back(self) -> None:
        """This process takes part again, if it had left."""
        if self.left:
            self._put(self.step, False, self.phase)

    def __str__(self) -> str:
        return f"step {self.step} in {self.phase}"

    def _get(self) -> tuple[int, bool, bytes, bool]:
        return SLOT.unpack_from(self._slot)

    def _put(self, step: int, left: bool, phase: str) -> None:
        SLOT.pack_into(self._slot, 0, step, left, phase.encode(), False)
