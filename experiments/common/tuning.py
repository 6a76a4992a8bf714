"""A learning rate is tuned over a grid that grows while the best of it is at an end."""

import math
from collections.abc import Callable
from dataclasses import dataclass

ErrorAt = Callable[[float], float | None]
"""Validation error of the trial at a rate, infinite or NaN if it has none; None: not run yet."""


@dataclass(frozen=True)
class Grid:
    """Rates that a method is tried with."""

    rates: tuple[float, ...]
    """At first, ascending, each FACTOR times the one before."""
    further: int = 4
    """By how many rates it may grow at either end."""

    def tried(self, error: ErrorAt) -> tuple[float, ...]:
        """The rates, grown at an end as long as the best of them is there.

        It ends where the error rises on both sides of the best, or `further` rates on.
        """
        rates, below, above = self.rates, self.further, self.further
        while (i := _best(rates, error)) is not None:
            if i == 0 and below:
                rates, below = (rates[0] / FACTOR, *rates), below - 1
            elif i == len(rates) - 1 and above:
                rates, above = (*rates, rates[-1] * FACTOR), above - 1
            else:
                break
        return rates

    def chosen(self, error: ErrorAt) -> float | None:
        """The rate with the lowest error, the least of equals.

        None as long as a trial is missing, and where none of them has an error.
        """
        rates = self.tried(error)
        i = _best(rates, error)
        return None if i is None or not math.isfinite(_number(rates[i], error)) else rates[i]

    def is_done(self, error: ErrorAt) -> bool:
        """Whether all trials are there: a rate is chosen, or none trains."""
        return _best(self.tried(error), error) is not None

    def is_at_end(self, error: ErrorAt) -> bool:
        """Whether the chosen rate is the least or the largest that was tried."""
        rates = self.tried(error)
        return self.chosen(error) in (rates[0], rates[-1])


FACTOR = 2.0
"""Between neighbouring rates."""


def _best(rates: tuple[float, ...], error: ErrorAt) -> int | None:
    """The place of the first rate with the lowest error; None as long as one is missing."""
    if any(error(rate) is None for rate in rates):
        return None
    found = [_number(rate, error) for rate in rates]
    return found.index(min(found))


def _number(rate: float, error: ErrorAt) -> float:
    found = error(rate)
    return math.inf if found is None or math.isnan(found) else found
