"""Rows by part and cell, and what the study says of them with an interval."""

import math
from dataclasses import dataclass

from experiments.account.measures import spread_window
from experiments.account.plan import spread
from experiments.account.rows import Row, spread_rows
from experiments.account.size import Size
from experiments.account.spectrum import amplification
from experiments.common.statistics import Estimate, mean
from gossip.study import parts

LEAST = 3
"""Runs that an interval is made from, at least."""


@dataclass(frozen=True)
class Measured:
    """What the study has."""

    size: Size
    rows: tuple[Row, ...]

    @property
    def account(self) -> list[Row]:
        """The runs that were measured in full, by seed."""
        found = (r for r in self.rows if r.part == "account" and r.seed in self.size.seeds)
        return sorted(found, key=lambda row: row.seed)

    def kept(self, name: str) -> list[float]:
        """A number of those of them that have a model and the number."""
        values = [float(getattr(row, name)) for row in self.account if not row.lost]
        return [value for value in values if math.isfinite(value)]

    def estimate(self, name: str) -> Estimate | None:
        """Its mean over the runs; None while some are missing, or too few have it."""
        if len(self.account) < len(self.size.seeds) or len(self.kept(name)) < LEAST:
            return None
        return mean(self.kept(name))

    def spread(self, alpha: float, topology: str) -> list[float] | None:
        """sigma_w^2 of each seed, over that of the first topology on the same seed."""
        first = spread_rows(self.rows, alpha, self.size.topologies[0], self.size)
        own = spread_rows(self.rows, alpha, topology, self.size)
        if first is None or own is None:
            return None
        return [a.sigma_w2 / b.sigma_w2 for a, b in zip(own, first, strict=True)]

    def predicted(self, topology: str, seed: int) -> float:
        """The same by `spectrum.amplification`, of the W(t) that the run of this seed had."""
        config = spread(self.size.spread_alphas[0], topology, seed, self.size)
        made = parts.topology(config, self.size.spread_learners)
        return amplification(made, range(*spread_window(self.size)))

    def excess(self, alpha: float, topology: str) -> Estimate | None:
        """log10 of measured over predicted, mean over the seeds."""
        found = self.spread(alpha, topology)
        if found is None or len(found) < 2:
            return None
        pairs = zip(found, self.size.spread_seeds, strict=True)
        return mean([math.log10(value / self.predicted(topology, seed)) for value, seed in pairs])
