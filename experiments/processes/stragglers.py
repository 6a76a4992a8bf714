"""Slow learners in real time: SSGD, DPSGD and AD-PSGD under the same disturbances.

python -m experiments.processes.stragglers    about 8 minutes on 2 quiet cores

Sixteen processes; a gradient takes c = 50 ms, all but its real 2 ms asleep, so that two cores are
enough for sixteen learners. Two disturbances: learner 0 is three times slower for ever; every
gradient takes c (1 + Exp(mean 0.5)). Theory without communication gives
(docs/mathematics.md#time-per-step), in units of c: under the first 3 for every algorithm with a
common step and n / sum_j(1 / sigma_j) = 1.04 for AD-PSGD; under the second 2.69 for SSGD, 1.67 for
DPSGD on a ring, 1.5 where nobody waits.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from experiments.common import tables
from experiments.common.command import guarded
from experiments.processes.jobs import N, launched
from gossip import trace
from gossip.storage import folder
from topologies.terminal import lossy_output

SECONDS = 0.05
"""Seconds c of a gradient."""
ALGORITHMS = {
    "SSGD": "--algorithm ssgd",
    "DPSGD, ring": "--algorithm dpsgd",
    "DPSGD, one-peer exponential": "--algorithm dpsgd --topology one-peer-exponential",
    "AD-PSGD, exponential": "--algorithm ad-psgd --topology exponential",
}
FOLDER = Path("runs/experiments/stragglers")
TABLE = Path(__file__).parents[1] / "results" / "stragglers.csv"
FACTORS = FOLDER / "three.csv"
"""Factors of the learners, one of them slow."""
MODELS = {
    "nobody": "--straggler bernoulli --straggler-options p=1 s=2",
    "learner 0, 3 times": f"--straggler trace --straggler-options file={FACTORS}",
    "all, 1 + Exp(0.5)": "--straggler shifted-exponential --straggler-options c=2 rate=2",
}
"""Every factor is one more than the text says: c (sigma - 1) is slept, and that is to be the whole
gradient."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Time the algorithms with slow learners."""

    steps: int = 200
    """Steps of each run; for AD-PSGD, gradients per learner."""


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.processes.stragglers")
    return guarded(lambda: run(options))


def run(options: Command) -> None:
    """Train, print and keep the table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    FACTORS.write_text(",".join(["4", *["2"] * (N - 1)]) + "\n", encoding="utf-8")
    rows = []
    for model in MODELS:
        for algorithm in ALGORITHMS:
            rows.append(timed(algorithm, model, options.steps))
            print(rows[-1], file=sys.stderr)
    tables.write(rows, TABLE)


def timed(algorithm: str, model: str, steps: int) -> dict[str, object]:
    """One run, as a row of the table."""
    out = FOLDER / f"{list(MODELS).index(model)}-{list(ALGORITHMS).index(algorithm)}"
    shutil.rmtree(out, ignore_errors=True)
    arguments = (
        f"{ALGORITHMS[algorithm]} {MODELS[model]} --straggler-seconds {SECONDS} --steps {steps} "
        f"--monitor cheap --monitor-every {steps} --checkpoint-keep 0"
    )
    launched(arguments.split(), out)
    table, summary = trace.load(out), folder.read_summary(out)
    seconds = trace.column(table, "seconds")
    # From the first row to the last: the first step also waits for the slowest to have started.
    last = float(np.nanmax(seconds) - seconds[~np.isnan(seconds)][0])
    return {
        "algorithm": algorithm,
        "slow": model,
        "steps": steps,
        "c_per_step": last / (steps - 1) / SECONDS,
        "most_gradients": _largest(trace.column(table, "gradients_max")),
        "fewest_gradients": _largest(trace.column(table, "gradients_min")),
        "staleness_mean": _largest(trace.column(table, "staleness_mean")),
        "test_error": summary["test_error"],
    }


def _largest(values: np.ndarray) -> float:
    """NaN where the column is empty."""
    return float(np.nanmax(values)) if not np.isnan(values).all() else float("nan")


if __name__ == "__main__":
    sys.exit(main())
