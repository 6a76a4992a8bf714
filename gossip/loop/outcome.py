"""The result of a training loop: how far the run came, and what it took."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gossip.algorithms import State
from gossip.comm.base import Communicator
from gossip.loop.clock import Clock
from gossip.loop.verdict import Verdict

COLUMNS = (
    "step",
    "epoch",
    "seconds",
    "lr",
    "train_loss",
    "test_loss",
    "test_error",
    "validation_loss",
    "validation_error",
    "loss_mean_model",
    "skipped",
    "learners",
    "bytes_sent",
    "rows_sent",
)
"""What the loop itself puts into the trace; the monitor and the rate add their own columns.

test_error, validation_error: the share of labels that are wrong; of labels that are numbers,
1 - R^2, the share of their variance that is not explained, averaged over the numbers of a label.
bytes_sent: by a learner, since the beginning; rows_sent: the same in rows of the model's weights a
step, which is the number of neighbours where whole rows leave at every step."""

OF_NUMBERS = "1 - R^2"
"""What is called error where labels are numbers; so config.toml says under [record]."""

SAID = {"optimizer": "exchange or update", "other": "bookkeeping"}
"""How messages name a phase of the clock whose own name says too little."""

TraceRows = list[dict[str, float]]
"""Rows of the trace: column -> value; a column may be missing."""


@dataclass
class Outcome:
    """How far a run came and what it took."""

    state: State
    verdict: Verdict
    clock: Clock
    interrupted: bool = False
    bytes_sent_per_learner: float = 0.0
    messages_per_learner: float = 0.0
    skips: float = 0.0
    """Steps left out per learner because a gradient was not finite."""
    first_skip: int | None = None
    """The first step in which a learner's was."""
    failure: tuple[int, str] | None = None
    """What ended the run by `--on-nonfinite raise`: the step, and a sentence."""
    resumed_at: list[int] = field(default_factory=list)
    """Steps at which the run was taken up again from a checkpoint."""
    lost_at: list[tuple[int, int]] = field(default_factory=list)
    """Steps from which on it went on without lost learners, and how many were left."""
    final: dict[str, float] = field(default_factory=dict)
    """Loss and error of the final mean model w_a on the whole training and test sets."""

    @contextmanager
    def counting(self, comm: Communicator) -> Iterator[None]:
        """Count time and messages of one training step; the monitor's are not training."""
        traffic = comm.traffic
        waited = traffic.seconds_waiting
        sent, messages = traffic.bytes_sent_per_learner, traffic.messages_per_learner
        # Counted from zero, a step's bytes have the same rounding whatever was sent before it: a
        # run that is gone on with has the trace of one that was never stopped, bit for bit.
        traffic.bytes_sent_per_learner = traffic.messages_per_learner = 0.0
        with self.clock("optimizer"):
            yield
        self.clock.move(traffic.seconds_waiting - waited, "optimizer", "communication_wait")
        self.bytes_sent_per_learner += traffic.bytes_sent_per_learner
        self.messages_per_learner += traffic.messages_per_learner
        traffic.bytes_sent_per_learner += sent
        traffic.messages_per_learner += messages
