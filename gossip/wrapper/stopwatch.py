"""Seconds of a user's own loop by phase, told from when its steps begin and optimizers step."""

import time

from gossip.comm.base import Traffic
from gossip.loop.clock import TRAINING


class Stopwatch:
    """The phases that `gossip.simulate` fits to, of a loop that is not ours.

    A step is data from the end of the one before to its first forward pass, gradient until an
    optimizer steps, then optimizer; what it waits for others meanwhile is communication_wait. What
    happens between two steps besides, as evaluation, counts as data.

    Args:
        traffic: of this learner.
    """

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.seconds = dict.fromkeys((*TRAINING, "monitor"), 0.0)
        self._since, self._waited = time.perf_counter(), traffic.seconds_waiting

    def lap(self, phase: str) -> None:
        """The time since the last call was of this phase."""
        now, waited = time.perf_counter(), self._traffic.seconds_waiting
        waiting = waited - self._waited
        self.seconds[phase] += now - self._since - waiting
        self.seconds["communication_wait"] += waiting
        self._since, self._waited = now, waited

    @property
    def training(self) -> float:
        """All of it but the monitor's."""
        return sum(self.seconds[phase] for phase in TRAINING)
