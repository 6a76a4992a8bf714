"""Measured step times, played again."""

from pathlib import Path

import numpy as np

from gossip import stragglers, trace
from gossip.errors import UserError
from gossip.loop.step_times import PREFIX, columns
from gossip.stragglers import Straggler, Table


def step_times(path: Path, n: int) -> Straggler:
    """Seconds of each gradient of n learners, as factors of one second.

    Args:
        path: the folder of a run that recorded them, or a table [steps, n] (.csv or .npy).
        n: number of learners.

    Raises:
        UserError: there are none, or they are of another number of learners.
    """
    if path.is_dir():
        return Table(recorded(path, n))
    return stragglers.make("trace", [f"file={path}"], n=n, seed=0)


def recorded(folder: Path, n: int) -> np.ndarray:
    """What gradients took in a run, [steps, n]; steps that have no times are left out.

    Raises:
        UserError: the folder has no trace, or one without times of n learners.
    """
    table = trace.load(folder)
    there = [name for name in table.column_names if name.startswith(PREFIX)]
    if not there:
        raise UserError(
            f"run {folder}: it did not record what its gradients took; make a run with "
            "gossip.run --step-times, or give a table [steps, n] (.csv or .npy)"
        )
    if set(there) != set(columns(n)):
        raise UserError(
            f"run {folder}: it has step times of {len(there)} learners, and {n} are simulated; "
            f"give --learners {len(there)}, or another run"
        )
    seconds = np.stack([trace.column(table, name) for name in columns(n)], axis=1)
    seconds = seconds[np.isfinite(seconds).all(axis=1)]
    if not len(seconds) or not (seconds >= 0).all():
        raise UserError(f"run {folder}: its trace has no step with times from 0 seconds up")
    return seconds
