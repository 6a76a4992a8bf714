"""The runs of the study: SSGD and DPSGD on each seed at each rate."""

from math import gcd

from experiments.smoothness.size import Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate, Reliability

STUDY = "smoothness"
SSGD, DPSGD = "ssgd", "dpsgd"
ARMS = {SSGD: "SSGD", DPSGD: "DPSGD, W = 11ᵀ/n"}


def key(alpha: float, arm: str, seed: int) -> str:
    """The name of a run."""
    return f"alpha{alpha:g}-{arm}-seed{seed}"


def runs(size: Size) -> dict[str, Config]:
    """All runs, the rate that verdicts are about first, a seed of both arms after the other."""
    alphas = sorted(size.alphas, key=lambda alpha: alpha != size.alpha)
    return {
        key(alpha, arm, seed): config(alpha, arm, seed, size)
        for alpha in alphas
        for seed in size.seeds
        for arm in ARMS
    }


def config(alpha: float, arm: str, seed: int, size: Size) -> Config:
    """The config of a run, which keeps its checkpoints."""
    every = gcd(*size.at)
    return Config(
        algorithm=(arm,),
        steps=size.steps,
        seed=seed,
        gossip=Averaging(learners=size.learners, topology="complete", backend="stacked"),
        data=Data(
            dataset=size.dataset, inputs="unit", batch_size=size.total_batch // size.learners
        ),
        rate=Rate(lr=alpha),
        monitoring=Monitoring(monitor="cheap", monitor_every=size.steps),
        reliability=Reliability(
            checkpoint_every=every,
            checkpoint_minutes=0.0,
            checkpoint_keep=size.steps // every + 1,
        ),
    )
