"""Sizes of the study of methods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from experiments.common.scale import Scale

ALIKE, DIFFERENT = "alike", "different"
PARTITIONS: Mapping[str, str] = MappingProxyType({ALIKE: "iid", DIFFERENT: "dirichlet"})
"""How the training set is dealt to the learners, by the name of the cell."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    dataset: str = "mnist-5k"
    validation: int = 500
    concentration: float = 0.2
    """Of the Dirichlet distribution by which data are different."""
    model: str = "mlp"
    widths: tuple[int, ...] = (32,)
    """Of its hidden layers, where it has such."""
    model_options: tuple[str, ...] = ()
    learners: int = 8
    batch: int = 8
    """B, of each learner."""
    steps: int = 300
    every: int = 10
    """H, steps of a round."""
    monitor_every: int = 10
    rates: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    """That every method is tried with, times its own factor."""
    tuning_seed: int = 100
    """Of the trials and of the target: no run of this seed is judged."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    gradient: float = 1e-3
    """c, the seconds that one learner's gradient is taken to need."""
    slack: float = 1.1
    """The target: the loss that SSGD ended its best trial with, times this."""
    methods: tuple[str, ...] = field(default=())
    """Names of `experiments.methods.methods.METHODS` that are compared; none: all."""


FULL = Size()
SMOKE = Size(
    dataset="digits",
    validation=100,
    concentration=1.0,
    widths=(8,),
    learners=4,
    batch=4,
    steps=8,
    every=4,
    monitor_every=2,
    rates=(0.05, 0.1),
    seeds=(0, 1),
    methods=("ssgd", "dpsgd", "momentum-tracking", "sgp", "ad-psgd", "choco"),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
