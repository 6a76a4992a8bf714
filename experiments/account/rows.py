"""Each run of the study is one row of a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from experiments.account.measures import account_measures, late_spread
from experiments.account.plan import PARTS, STUDY, account_key, runs, spread_key
from experiments.account.size import Size, study
from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from gossip.report import Run

TABLE = "account.csv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run; what was not measured in it is NaN. early_ and late_ are phases, see `by_phase`."""

    key: str
    part: str
    seed: int
    verdict: str
    alpha: float
    topology: str = "complete"
    steps: int | None = None
    """None in rows of before there was this column."""
    test_error: float = math.nan
    early_rate: float = math.nan
    early_rate_s: float = math.nan
    early_shift: float = math.nan
    early_delta2_over_s: float = math.nan
    early_gap: float = math.nan
    early_cross: float = math.nan
    early_hessian: float = math.nan
    early_hessian_minibatch: float = math.nan
    late_rate: float = math.nan
    late_rate_s: float = math.nan
    late_shift: float = math.nan
    late_delta2_over_s: float = math.nan
    late_gap: float = math.nan
    late_cross: float = math.nan
    late_hessian: float = math.nan
    late_hessian_minibatch: float = math.nan
    rho: float = math.nan
    rho_t: float = math.nan
    rho_t_g: float = math.nan
    rho_delta2_t_g: float = math.nan
    lr_max: float = math.nan
    """Theorem 1's largest rate over alpha, median of the run."""
    sigma_w2: float = math.nan
    """Of a run whose spread is predicted: mean over its second half."""
    seconds: float = math.nan
    versions: str = ""

    @property
    def lost(self) -> bool:
        """Whether the run is left out of averages, and counted."""
        return self.verdict == "diverged"


def load(scale: Scale) -> list[Row]:
    """The finished runs, in the order of the plan, with the kept rows."""
    size, made = study(scale), finished(scale.runs / STUDY)
    rows = [
        _row(made[key], "account", seed, size.alpha, "complete", account_measures(made[key], size))
        for seed in size.seeds
        if (key := account_key(seed)) in made
    ]
    for alpha, topology, seed in product(size.spread_alphas, size.topologies, size.spread_seeds):
        if (key := spread_key(alpha, topology, seed)) in made:
            measured = {"sigma_w2": late_spread(made[key], size)}
            rows.append(_row(made[key], "spread", seed, alpha, topology, measured))
    order = [name for part in PARTS for name in runs(part, size)]
    return kept.merged(rows, read(scale), order)


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in rows], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    size = study(scale)
    steps = {"account": size.steps, "spread": size.spread_steps}
    return kept.of_plan(tables.typed(scale.results / TABLE, Row), lambda row: steps[row.part])


def _row(
    run: Run, part: str, seed: int, alpha: float, topology: str, measured: dict[str, float]
) -> Row:
    return Row(
        key=run.folder.name,
        part=part,
        seed=seed,
        verdict=run.verdict,
        alpha=alpha,
        topology=topology,
        steps=int(run.number("steps")),
        test_error=run.number("test_error"),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
        **measured,
    )


def spread_rows(rows: Sequence[Row], alpha: float, topology: str, size: Size) -> list[Row] | None:
    """The runs of one cell of the spread by seed; None while some are missing or if one is lost."""
    found = {
        r.seed: r for r in rows if (r.part, r.alpha, r.topology) == ("spread", alpha, topology)
    }
    chosen = [found[seed] for seed in size.spread_seeds if seed in found]
    complete = len(chosen) == len(size.spread_seeds)
    return chosen if complete and not any(row.lost for row in chosen) else None
