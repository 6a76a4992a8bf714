"""What a simulation leaves: moments, work and messages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gossip.comm.costs import Sent


@dataclass(frozen=True)
class Timeline:
    """Seconds from the start; a step of learners without one in common is n gradients of any."""

    first: NDArray[np.float64]
    """When the first learner had ended each step, [steps]."""
    mean: NDArray[np.float64]
    """When they had on average, [steps]."""
    last: NDArray[np.float64]
    """When all had, [steps]."""
    busy: NDArray[np.float64]
    """Seconds of each learner's gradients, with the repairs of failures in them, [n]."""
    end: NDArray[np.float64]
    """When each learner had ended its last step, [n]."""
    sent: Sent
    """By a learner, in all."""

    @property
    def seconds_per_step(self) -> float:
        """On average over steps and learners."""
        return float(self.mean[-1]) / len(self.mean)

    @property
    def idle(self) -> NDArray[np.float64]:
        """Share of its time that each learner has waited, for messages or others, [n]."""
        return 1 - np.divide(self.busy, self.end, out=np.ones_like(self.busy), where=self.end > 0)

    @property
    def sent_per_step(self) -> Sent:
        """By a learner in one step."""
        steps = len(self.mean)
        return Sent(self.sent.messages / steps, self.sent.bytes / steps)
