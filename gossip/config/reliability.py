"""Config section: checkpoints, faults, time-outs and stragglers."""

from dataclasses import dataclass
from typing import Annotated

from gossip.config.fields import at_least, names, not_negative
from gossip.errors import UserError, one_of
from gossip.stragglers import STRAGGLERS

ON_NONFINITE = ("record", "skip", "raise")
"""What `--on-nonfinite` offers."""
ON_FAILURE = ("stop", "continue")
"""What `--on-failure` offers."""
LONGEST_SECONDS = 3600.0
"""Of an undisturbed gradient; a factor may be up to a million."""


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """What happens when something goes wrong, and what is kept for that."""

    checkpoint_every: int = 0
    """Keep a checkpoint every k steps; 0: only by time, at a signal and at the end."""
    checkpoint_minutes: float = 10.0
    """... and whenever this many minutes have passed since the last one; 0: not by time."""
    checkpoint_keep: int = 2
    """How many of the last checkpoints stay; 0: none is written."""
    on_nonfinite: Annotated[str, names(ON_NONFINITE)] = "record"
    """A gradient that is not finite: record, the step is taken and the run ends as diverged; skip,
    the learner's step is left out; raise, left out, and the run ends with an error."""
    on_failure: Annotated[str, names(ON_FAILURE)] = "stop"
    """A process that is lost: stop ends the job; continue goes on without it where the MPI can, or
    lets `gossip.launch` start again from the last checkpoint on fewer processes."""
    timeout: float = 600.0
    """Seconds a process waits for a message before the job ends with all stacks; 0: for ever."""
    straggler: Annotated[str, names(STRAGGLERS)] = "none"
    """Slow learners down on purpose, by the same draws for every algorithm."""
    straggler_options: tuple[str, ...] = ()
    """constant: s=3 learners=0,5; bernoulli: p=0.1 s=3; shifted-exponential: c=1 rate=2; lognormal:
    sigma=0.5; pareto: a=3; trace: file=FILE."""
    straggler_seconds: float = 0.05
    """Time c of an undisturbed gradient: a learner with factor s waits c (s - 1)."""

    @property
    def skips(self) -> bool:
        """Whether a step whose gradient is not finite is left out."""
        return self.on_nonfinite != "record"

    @property
    def raises(self) -> bool:
        """Whether such a gradient ends the run with an error."""
        return self.on_nonfinite == "raise"

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        at_least(0, checkpoint_every=self.checkpoint_every, checkpoint_keep=self.checkpoint_keep)
        not_negative(
            checkpoint_minutes=self.checkpoint_minutes,
            timeout=self.timeout,
            straggler_seconds=self.straggler_seconds,
        )
        if self.straggler_seconds > LONGEST_SECONDS:
            raise UserError(
                f"straggler_seconds={self.straggler_seconds}: at most {LONGEST_SECONDS:g}"
            )
        one_of(ON_NONFINITE, self.on_nonfinite, "policy for numbers that are not finite")
        one_of(ON_FAILURE, self.on_failure, "policy for lost processes")
        one_of(STRAGGLERS, self.straggler, "straggler model")
