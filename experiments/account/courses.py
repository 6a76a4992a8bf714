"""Courses of the runs that were measured in full: a committed table, from which the figure is."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.account.plan import STUDY, account_key
from experiments.account.size import study
from experiments.common import tables
from experiments.common.finished import finished
from experiments.common.scale import Scale

TABLE = "account_courses.csv"
COLUMNS = (
    "alpha_e",
    "alpha_e_s",
    "sigma_w2",
    "grad_norm",
    "delta_sgd",
    "delta_s",
    "delta2",
    "delta_cross",
    "delta2_hessian",
    "delta2_hessian_minibatch",
)


@dataclass(frozen=True)
class Courses:
    """Columns of several runs at the same steps."""

    steps: np.ndarray
    """[m]."""
    values: dict[str, np.ndarray]
    """Of COLUMNS, each [runs, m]; NaN where a run has ended."""


def write(scale: Scale) -> None:
    """Write the measured steps of the finished runs, if there are any."""
    seeds = {account_key(seed): seed for seed in study(scale).seeds}
    lines = []
    for key, run in finished(scale.runs / STUDY, seeds).items():
        columns = {name: run.column(name) for name in ("step", *COLUMNS)}
        for i in np.flatnonzero(np.isfinite(columns["sigma_w2"])):
            values = {name: float(columns[name][i]) for name in COLUMNS}
            lines.append({"seed": seeds[key], "step": int(columns["step"][i])} | values)
    if lines:
        tables.write(lines, scale.results / TABLE)


def read(results: Path) -> Courses:
    """The courses that `write` wrote."""
    lines = tables.read(results / TABLE)
    steps = sorted({int(line["step"]) for line in lines})
    seeds = sorted({int(line["seed"]) for line in lines})
    values = {name: np.full((len(seeds), len(steps)), np.nan) for name in COLUMNS}
    for line in lines:
        at = seeds.index(int(line["seed"])), steps.index(int(line["step"]))
        for name in COLUMNS:
            values[name][at] = float(line[name] or "nan")
    return Courses(np.array(steps), values)
