"""Runs that were never trained: a trace in memory, its evaluations written down."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gossip.report import Run


def run(
    validation: Sequence[float] | None,
    test: Sequence[float] | None = None,
    *,
    epochs: Sequence[float] | None = None,
    verdict: str = "converged",
) -> Run:
    """One evaluation every 10 steps, with a row without any between two of them."""
    judged = validation if validation is not None else test
    assert judged is not None
    at = [float(i) for i in range(len(judged))] if epochs is None else epochs
    rows: list[dict[str, Any]] = []
    for i, epoch in enumerate(at):
        row: dict[str, Any] = {"step": 10 * i, "epoch": epoch, "seconds": 2.0 * i}
        row["validation_error"] = None if validation is None else validation[i]
        row["test_error"] = None if test is None else test[i]
        rows += [row, {"step": 10 * i + 5, "epoch": epoch + 0.5}]
    rows.pop()
    names = ("epoch", "seconds", "validation_error", "test_error")
    columns = {name: pa.array([row.get(name) for row in rows], pa.float64()) for name in names}
    table = pa.table({"step": pa.array([row["step"] for row in rows], pa.int64()), **columns})
    summary = {"verdict": verdict, "steps": rows[-1]["step"]}
    return Run(Path("made-up"), {}, summary, table, "made up")
