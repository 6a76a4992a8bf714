"""Two groups of runs by seed: what the runs of one seed, alike in samples and start, differ by."""

from collections.abc import Mapping
from typing import Protocol

from experiments.common import statistics
from experiments.common.statistics import Estimate


class Tested(Protocol):
    """A run's row with the final model's test error."""

    @property
    def test_error(self) -> float:
        """As a share of 1; of a lost run, what it ended with."""
        ...


def difference(ours: Mapping[int, Tested], theirs: Mapping[int, Tested]) -> Estimate:
    """Test error of ours minus theirs, in points, by pairs of one seed.

    Raises:
        UserError: they have fewer than two seeds in common.
    """
    common = [seed for seed in ours if seed in theirs]
    return statistics.difference(
        [100 * ours[seed].test_error for seed in common],
        [100 * theirs[seed].test_error for seed in common],
        paired=True,
    )


def difference_text(group: Mapping[int, Tested], base: Mapping[int, Tested]) -> str:
    """The cell of a table: `difference`, 0 of the base itself, - of fewer than two pairs."""
    if group == base:
        return "0"
    return str(difference(group, base)) if len(group.keys() & base.keys()) > 1 else "-"
