"""What the page's curves are drawn from: the points of each run, thinned to what one can see."""

from itertools import pairwise
from typing import Any

import numpy as np

from gossip.report.runs import Run, apart_from_seed

MOST_POINTS = 2000
"""Points of a curve in the page: two for each of a wide screen's columns, about."""


def thinned(values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Indices of at most `most` points that draw the same curve as all `values`, [rows].

    The rows are cut into equal stretches, and of each the least and the largest stay: no spike is
    lost, unlike with every k-th point. The first and the last row always stay.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, (most - 2) // 2 + 1).astype(int)
    kept = {0, count - 1}
    for start, end in pairwise(edges):
        part = values[start:end]
        kept |= {start + int(part.argmin()), start + int(part.argmax())}
    return np.array(sorted(kept))


def curve(run: Run, name: str) -> dict[str, list[float]]:
    """The finite points of a column: lists `step` and `value` of one length."""
    steps, values = run.column("step"), run.column(name)
    there = np.isfinite(values)
    steps, values = steps[there], values[there]
    kept = thinned(values)
    return {"step": steps[kept].astype(int).tolist(), "value": values[kept].tolist()}


def curves(runs: list[Run]) -> list[dict[str, Any]]:
    """One entry per run: its label, the group of those that differ in the seed only, its curves."""
    groups = apart_from_seed(runs)
    entries = []
    for run, group in zip(runs, groups, strict=True):
        names = [name for name in run.trace.column_names if name != "step"]
        found = {name: points for name in names if (points := curve(run, name))["step"]}
        entry = {"label": run.label, "verdict": run.verdict, "group": group, "curves": found}
        entries.append(entry | {"rows": run.trace.num_rows})
    return entries
