"""What a step of an algorithm computes and sends, in order: read by whoever asks how long it takes.

An algorithm states its pattern beside its formula, and `tests/algorithms/test_pattern.py` holds it
to the calls that the algorithm makes. What a phase sends is in `gossip.comm.costs`, how long it
takes in `gossip.simulate`.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LocalGradient:
    """Every learner computes its gradient."""


@dataclass(frozen=True)
class Mix:
    """A multiplication by W: every learner waits for the rows of its in-neighbours alone."""

    rows: float = 1.0
    """Rows of d numbers that a message holds; compressed ones are fractions of a row."""
    numbers: int = 0
    """Single numbers beside them."""


@dataclass(frozen=True)
class Mean:
    """An average over all learners: every learner waits for all of them."""

    rows: float = 1.0
    """Rows of d numbers that are averaged."""
    numbers: int = 0
    """Single numbers beside them."""


@dataclass(frozen=True)
class AllGather:
    """Every learner sends its row to every other, whatever W is, and waits for all of theirs."""

    rows: float = 1.0
    """Rows of d numbers that a message holds."""


@dataclass(frozen=True)
class Partner:
    """Every learner swaps rows with one other, the pairs drawn anew each time, whatever W is."""

    rows: float = 1.0
    """Rows of d numbers that a message holds."""


@dataclass(frozen=True)
class Overlapped:
    """Messages leave at once and travel while something is computed; it ends with the later."""

    first: "Mix | Mean"
    second: LocalGradient


@dataclass(frozen=True)
class Late:
    """An average that leaves at the end of a step and is waited for at that of a later one."""

    steps: int
    """From the one to the other; 0: it is waited for at once."""
    phase: Mean


@dataclass(frozen=True)
class Pairwise:
    """A gradient, meanwhile an averaging with one neighbour, and no wait for anybody else.

    There is no step in common. The asking learner's row travels to the neighbour and the
    difference back, one after the other.
    """

    rows: float = 1.0
    """Rows of d numbers that each of the two sends."""
    trips: int = 2
    """Messages of an averaging that wait for one another."""


@dataclass(frozen=True)
class Every:
    """A phase of every k-th step only: those t with t + 1 - after = k, 2 k, ...

    Of one that is `Late` they are the steps in which it is waited for.
    """

    steps: int
    phase: "Mix | Mean | AllGather | Partner | Late"
    after: int = 0
    """Steps before the first of them is counted."""

    def due(self, t: int) -> bool:
        """Whether step t has it."""
        return t >= self.after and (t + 1 - self.after) % self.steps == 0


@dataclass(frozen=True)
class Until:
    """A phase of the first so many steps only."""

    steps: int
    phase: Mean


Phase = (
    LocalGradient | Mix | Mean | AllGather | Partner | Overlapped | Late | Pairwise | Every | Until
)
Pattern = tuple[Phase, ...]
"""One step."""


def mixes(pattern: Pattern) -> bool:
    """Whether a step sends rows along W."""
    return any(isinstance(phase, Mix | Pairwise) for phase in map(message, pattern))


def sends_rows(pattern: Pattern) -> bool:
    """Whether a step has rows of weights sent for a mixing of all, which `--wire` rounds."""
    return any(isinstance(phase, Mix | Partner) for phase in map(message, pattern))


def averages(pattern: Pattern) -> bool:
    """Whether a step takes an average over all learners, which is added up on its way."""
    return any(isinstance(phase, Mean) for phase in map(message, pattern))


def round_steps(pattern: Pattern) -> int:
    """Steps after which the phases of every k-th step have all been, a whole number of times."""
    return math.lcm(*(phase.steps for phase in pattern if isinstance(phase, Every)))


def message(phase: Phase) -> Phase:
    """What a phase sends, if it sends anything, without what goes on meanwhile or when."""
    match phase:
        case Overlapped(first=first):
            return first
        case Every(phase=inner) | Until(phase=inner) | Late(phase=inner):
            return message(inner)
    return phase
