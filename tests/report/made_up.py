"""Run folders made up for the tests: the curves are formulas, nothing was trained."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from gossip import trace
from gossip.storage import folder

COLUMNS = [
    *("epoch", "lr", "train_loss", "test_error", "alpha_e", "sigma_w2", "sigma_w2_mixed"),
    *("delta", "delta_s", "delta2", "delta2_hessian", "grad_norm", "consensus_distance"),
]


def config(**changes: Any) -> dict[str, Any]:
    settings = {"algorithm": "dpsgd", "topology": "ring", "learners": 16, "seed": 0} | changes
    lr = settings.pop("lr", 1.5)
    return {
        "gossip": settings,
        "data": {"dataset": "mnist", "batch_size": 125},
        "rate": {"lr": lr},
        "record": {"commit": None, "host": "made-up", "created": str(sorted(changes))},
    }


def rows(steps: int, monitored_every: int | None = 5, seed: int = 0) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    result = []
    for t in range(steps):
        noise = math.exp(0.2 * rng.normal())
        row = {"step": t, "epoch": t / 30, "lr": 1.5, "train_loss": noise * 2.3 * 0.98**t}
        if monitored_every and t % monitored_every == 0:
            spread = noise * 0.97**t
            row |= {"test_error": 0.9 * 0.98**t, "alpha_e": 1.5 * noise, "grad_norm": 0.99**t}
            row |= {"sigma_w2": spread, "sigma_w2_mixed": spread / 3, "consensus_distance": spread}
            row |= {"delta": 2 * spread, "delta_s": spread, "delta2": spread}
            row |= {"delta2_hessian": spread / 9}
        result.append(row)
    return result


def summary(**changes: Any) -> dict[str, Any]:
    seconds = {"total": 10.0, "data": 1.0, "gradient": 6.0, "communication_wait": 0.5}
    return {
        "verdict": "converged",
        "test_error": 0.0361,
        "best_test_error": 0.035,
        "train_loss": 0.08,
        "steps": 100,
        "bytes_sent_per_learner": 2e6,
        "wall_seconds": seconds | {"optimizer": 0.5, "monitor": 2.0},
    } | changes


def run(
    path: Path,
    *,
    made: list[dict[str, float]] | None = None,
    tables: dict[str, Any] | None = None,
    outcome: dict[str, Any] | None = None,
    killed: bool = False,
) -> Path:
    """Write a run folder; a killed one has no summary and no end of its stream."""
    made = rows(100) if made is None else made
    folder.create(path)
    folder.write_config(path, config() if tables is None else tables)
    with trace.Trace(path, COLUMNS) as writer:
        for start in range(0, len(made), 10):
            writer.append(made[start : start + 10])
    if killed:
        os.truncate(writer.path, writer.path.stat().st_size - 8)
    else:
        folder.write_summary(path, summary() if outcome is None else outcome)
    return path
