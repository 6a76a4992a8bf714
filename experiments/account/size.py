"""Sizes of the study of alpha_e, Delta and sigma_w^2."""

from dataclasses import dataclass

from experiments.common.scale import Scale


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long, how often, and how often it is measured."""

    dataset: str = "mnist"
    total_batch: int = 2000

    alpha: float = 1.0
    """Of the account: the DPSGD paper's rate, which DPSGD survives on every seed."""
    learners: int = 5
    steps: int = 1500
    monitor_every: int = 17
    """Has no factor in common with the 30 steps of an epoch: all its phases are measured."""
    early: tuple[int, int] = (1, 300)
    late: tuple[int, int] = (1200, 1500)
    """First and last fifth, in steps; the last is not in it. At step 0 all learners are alike."""
    seeds: tuple[int, ...] = tuple(range(200, 205))
    """Fresh ones, in no other study."""

    spread_alphas: tuple[float, ...] = (0.3, 1.0)
    """Of the spread: below the edge of stability, and near it."""
    spread_learners: int = 16
    topologies: tuple[str, ...] = (
        "complete",
        "ring",
        "hypercube",
        "one-peer-exponential",
        "matching",
    )
    """The first is what the others are compared with."""
    spread_steps: int = 300
    spread_every: int = 7
    spread_seeds: tuple[int, ...] = (200, 201, 202)


FULL = Size()
SMOKE = Size(
    dataset="digits",
    total_batch=64,
    alpha=0.3,
    learners=4,
    steps=16,
    monitor_every=2,
    early=(1, 10),
    late=(10, 16),
    seeds=(200, 201, 202),
    spread_alphas=(0.3, 0.5),
    spread_learners=4,
    topologies=("complete", "ring"),
    spread_steps=12,
    spread_every=3,
    spread_seeds=(200, 201),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
