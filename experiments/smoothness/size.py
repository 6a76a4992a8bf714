"""Sizes of the study of smoothness."""

from dataclasses import dataclass

from experiments.common.scale import Scale

SCALES = (1.0, 10.0, 30.0)
"""Of the Gaussian places, in sigma_w: the theorem's own, and the range of what SSGD* trains with
(12 to 30 times DPSGD's)."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often, and where it is measured."""

    dataset: str = "mnist"
    learners: int = 5
    total_batch: int = 2_000
    alphas: tuple[float, ...] = (0.5, 1.0, 1.5)
    """A rate that all survive, one at SSGD's edge, one beyond it. Verdicts are about the second."""
    steps: int = 1_000
    early: tuple[int, ...] = (10, 30, 100)
    """Steps after which it is measured: sigma_w is largest at some 30."""
    late: tuple[int, ...] = (300, 1_000)
    tells: int = 100
    """The step whose sharpness is to tell which runs survive."""
    samples: int = 2_000
    """Training samples that stand for the loss."""
    seeds: tuple[int, ...] = tuple(range(440, 450))
    """Fresh ones, in no other study; one run of seed 3 at each rate was looked at before."""

    @property
    def at(self) -> tuple[int, ...]:
        """All steps after which it is measured."""
        return (*self.early, *self.late)

    @property
    def alpha(self) -> float:
        """The rate that verdicts are about."""
        return self.alphas[1]


FULL = Size()
SMOKE = Size(
    dataset="digits",
    learners=3,
    total_batch=60,
    alphas=(0.2, 0.5),
    steps=12,
    early=(2,),
    late=(12,),
    tells=2,
    samples=60,
    seeds=(440,),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
