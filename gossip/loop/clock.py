"""Wall time of a run by phase."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PHASES = (
    "data",
    "gradient",
    "communication_wait",
    "optimizer",
    "monitor",
    "evaluation",
    "checkpoint",
)
"""Named parts of a step; what is in none of them is `other`."""

TRAINING = ("data", "gradient", "communication_wait", "optimizer")
"""Those that a run without an onlooker would have too."""


class Clock:
    """Seconds per phase; a phase inside another is taken out of the outer one.

    Args:
        on_phase: told the name of each phase that begins, and of the outer one when it ends.
    """

    def __init__(self, on_phase: Callable[[str], None] = lambda phase: None) -> None:
        self._on_phase, self._phase = on_phase, "other"
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._started = time.perf_counter()
        self._inner = 0.0

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the time of this block for `phase`."""
        outer, outer_inner = self._phase, self._inner
        self._phase, self._inner = phase, 0.0
        self._on_phase(phase)
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[phase] += elapsed - self._inner
            self._phase, self._inner = outer, outer_inner + elapsed
            self._on_phase(outer)

    def timed(self, phase: str, function: Callable[P, R]) -> Callable[P, R]:
        """`function`, its time counted for `phase`."""

        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with self(phase):
                return function(*args, **kwargs)

        return wrapped

    def move(self, seconds: float, source: str, target: str) -> None:
        """Count `seconds` for `target` instead of `source`."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds

    def training(self) -> float:
        """Seconds so far in all phases but the monitor's and the evaluation's."""
        return sum(self.seconds[phase] for phase in TRAINING)

    def restore(self, seconds: Mapping[str, float]) -> None:
        """Count on from another clock's `report()`."""
        for phase in PHASES:
            self.seconds[phase] += float(seconds[phase])
        self._started -= float(seconds["total"])

    def report(self) -> dict[str, float]:
        """Seconds by phase, with `total` and `other`."""
        total = time.perf_counter() - self._started
        phases = {phase: self.seconds[phase] for phase in PHASES}
        return {"total": total, **phases, "other": total - sum(phases.values())}
