"""What a step of an algorithm computes and sends, in order: read by whoever asks how long it takes.

An algorithm states its pattern beside its formula, and `tests/algorithms/test_pattern.py` holds it
to the calls that the algorithm makes. What a phase sends is in `gossip.comm.costs`, how long it
takes in `gossip.simulate`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gradient:
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


@dataclass(frozen=True)
class Overlapped:
    """Messages leave at once and travel while something is computed; it ends with the later."""

    first: "Mix | Mean"
    second: Gradient


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


Phase = Gradient | Mix | Mean | Overlapped | Pairwise
Pattern = tuple[Phase, ...]
"""One step."""


def mixes(pattern: Pattern) -> bool:
    """Whether a step sends rows along W."""
    each = [p.first if isinstance(p, Overlapped) else p for p in pattern]
    return any(isinstance(phase, Mix | Pairwise) for phase in each)
