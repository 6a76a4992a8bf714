"""SSGD* over the noise range: bisection of its standard deviation, then a grid around the best.

The DPSGD paper tunes the noise "by binary search from 10 to 1e-5", about 20 configurations a task,
and does not say where the noise enters (see `gossip.algorithms.ssgd_star`). Here the objective is
the final training loss, both readings are searched, and the bisection in log space starts from
every power of ten: where SSGD fails, the loss is the same plateau for too little noise as for too
much, and three points need not show where between them it dips.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from experiments.common.scale import Scale, run_config
from experiments.dpsgd.rows import Row
from gossip.config import Averaging, Config
from gossip.runs import sweep
from gossip.storage import folder as run_folder

STUDY = "ssgd-star"
LEARNERS = 5
ALPHAS = (1.5, 1.0)
"""Rates, in order: at 1.5 SSGD fails on every seed, as in the paper; 1 is the paper's own rate."""
SEARCHED = ("eval", "persist")
LEAST = 1e-3
"""The least sigma_0 that counts as noise: with less, SSGD* is SSGD.

It stands in for DPSGD's own deviations, whose standard deviation per coordinate is 0.0011 to 0.0083
in these runs. Far below that, where a run is chaotic, it only draws another lot: at alpha = 1 nine
values of up to 4e-5 end between 3.8 and 34 %, and the best of many lots is no tuned noise.
"""
LossOf = Callable[[str, Config], float | None]
"""Final training loss of a finished run, by its name and config; None if there is none."""


class Setting(NamedTuple):
    """One way to run SSGD*."""

    alpha: float
    mode: str
    std: float
    seed: int

    @property
    def key(self) -> str:
        """The name of its run."""
        return f"{self.mode}-alpha{self.alpha:g}-std{self.std:g}-seed{self.seed}"


def run(scale: Scale, alpha: float, *, jobs: int) -> None:
    """Bisect, then run the grid."""

    def loss_of(key: str, config: Config) -> float | None:
        folder = scale.runs / STUDY / key
        if not sweep.is_finished(folder, config):
            return None
        loss = run_folder.read_summary(folder).get("train_loss")
        return math.inf if loss is None else loss

    while missing := pending(scale, alpha, loss_of):
        sweep.run_all(missing, scale.runs / STUDY, jobs=jobs)


def pending(scale: Scale, alpha: float, loss_of: LossOf) -> dict[str, Config]:
    """The runs to make next: more follow while there are any."""
    searches = {mode: bisection(scale, alpha, mode, loss_of) for mode in SEARCHED}
    wanted = [setting for missing, _ in searches.values() for setting in missing]
    if not wanted:
        best = {mode: std for mode, (_, std) in searches.items()}
        wanted = grid(scale, alpha, best)
    runs = {setting.key: config_of(scale, setting) for setting in wanted}
    return {key: config for key, config in runs.items() if loss_of(key, config) is None}


def bisection(
    scale: Scale, alpha: float, mode: str, loss_of: LossOf
) -> tuple[list[Setting], float]:
    """The runs that a bisection needs next, and the best sigma_0 it has seen; seed 0 alone."""
    losses: dict[float, float] = {}
    while True:
        exponents = next_exponents(losses, scale)
        settings = [Setting(alpha, mode, _std(exponent), 0) for exponent in exponents]
        found = [loss_of(s.key, config_of(scale, s)) for s in settings]
        if not exponents or None in found:
            missing = [s for s, loss in zip(settings, found, strict=True) if loss is None]
            best = min(losses, key=lambda e: losses[e], default=math.nan)
            return missing, _std(best)
        losses |= {e: loss for e, loss in zip(exponents, found, strict=True) if loss is not None}


def next_exponents(losses: Mapping[float, float], scale: Scale) -> list[float]:
    """Exponents that a bisection tries next, given the losses of all it has tried.

    First the whole range at the scale's exponents; then, in each round, half-way between the best
    point and its two neighbours.
    """
    start = list(scale.noise_exponents)
    if not losses:
        return start
    points = sorted(losses)
    if len(points) >= len(start) + 2 * scale.bisection_rounds:
        return []
    best = min(range(len(points)), key=lambda i: losses[points[i]])
    middles = [
        (points[i] + points[i + 1]) / 2 for i in (best - 1, best) if 0 <= i < len(points) - 1
    ]
    finest = (start[1] - start[0]) / 2 ** (scale.bisection_rounds + 1)
    return [m for m in middles if min(abs(m - p) for p in points) >= finest]


def grid(scale: Scale, alpha: float, best: Mapping[str, float]) -> list[Setting]:
    """Settings around the best of each mode, over seeds; `centered` at the best of `eval` alone."""
    around = [
        Setting(alpha, mode, _rounded(best[mode] * factor), seed)
        for seed in range(scale.few_seeds)
        for mode in SEARCHED
        for factor in scale.noise_factors
    ]
    once = [
        Setting(alpha, "centered", _rounded(best["eval"]), seed) for seed in range(scale.few_seeds)
    ]
    return around + once


def config_of(scale: Scale, setting: Setting) -> Config:
    """The config of a run; compared with the others at the fixed time, so no longer than that."""
    gossip = Averaging(
        learners=LEARNERS,
        topology="complete",
        noise_std=setting.std,
        noise_mode=setting.mode,
    )
    return run_config(
        scale,
        gossip,
        algorithm="ssgd-star",
        alpha=setting.alpha,
        seed=setting.seed,
        steps=scale.steps,
        monitor="cheap",
    )


def best_std(rows: list[Row], alpha: float, mode: str) -> float:
    """The sigma_0 with the lowest mean final training loss over the seeds it was run on.

    Of those with most seeds: one lucky run of the bisection does not count. Nor does a sigma_0
    below LEAST. NaN if none is left.
    """
    by_std: dict[float, list[float]] = {}
    for row in rows:
        if row.algorithm == "ssgd-star" and (row.alpha, row.noise_mode) == (alpha, mode):
            loss = row.final_train_loss
            by_std.setdefault(row.noise_std, []).append(math.inf if math.isnan(loss) else loss)
    most = max(map(len, by_std.values()), default=0)
    means = {std: sum(v) / len(v) for std, v in by_std.items() if std >= LEAST and len(v) == most}
    return min(means, key=lambda std: means[std], default=math.nan)


def _std(exponent: float) -> float:
    return _rounded(10**exponent)


def _rounded(std: float) -> float:
    """`std` as it stands in the name of a run."""
    return float(f"{std:.3g}")
