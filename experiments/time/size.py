"""Sizes of the study of time, and the names of its tables."""

from dataclasses import dataclass

from experiments.common.scale import Scale

WIDTHS, BATCH = (200,), 32
"""Hidden layer and samples of the model whose steps are measured between hosts."""
PARAMETERS = 784 * WIDTHS[0] + WIDTHS[0] + WIDTHS[0] * 10 + 10
"""159,010."""
MEASURED = ("compute", "ring", "one-peer-exponential", "ssgd", "ddp")
"""Steps that are timed: a gradient alone, DPSGD on two graphs, SSGD, DistributedDataParallel."""
NETNS, SIMGRID, SIMULATED = "time_netns.csv", "time_simgrid.csv", "time.csv"
"""Tables: measured between hosts, by SimGrid, and by our simulator."""
RUNS = "time_runs.csv"
"""Table of the errors of recorded runs."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is simulated and measured."""

    learners: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    """Of the comparison under stragglers."""
    steps: int = 300
    """Of each simulated line."""
    workers: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    """Of weak scaling."""
    phase_learners: tuple[int, ...] = (8, 64)
    """Of the phase diagrams."""
    phase_points: int = 13
    """On each axis of a phase diagram."""
    target_learners: tuple[int, ...] = (4, 16)
    target_alphas: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8)
    target_seeds: int = 2
    """Of the runs to a common target."""
    hosts: tuple[int, ...] = (2, 4, 8)
    mbits: tuple[float, ...] = (10.0, 100.0, 1000.0)
    delays_ms: tuple[float, ...] = (0.0, 5.0, 50.0)


FULL = Size()
SMOKE = Size(
    learners=(4,),
    steps=3,
    workers=(2,),
    phase_learners=(4,),
    phase_points=2,
    target_learners=(4,),
    target_alphas=(0.1,),
    target_seeds=1,
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
