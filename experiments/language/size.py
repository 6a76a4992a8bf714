"""Sizes of the study of language."""

from dataclasses import dataclass

from experiments.common.scale import Scale


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    dataset: str = "brown-bytes"
    width: int = 32
    learners: int = 8
    total_batch: int = 32
    """Windows of a step."""
    steps: int = 400
    warmups: tuple[int, ...] = (250, 50, 15)
    """Steps until the peak rate, from the gentlest: ends and middle of Table 5."""
    peaks: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.3, 0.6)
    """Learning rates at the end of the warm-up, from those that train to those that do not."""
    failed: float = 2.7
    """Test loss, nats a byte, from which on a run has not survived; the frequencies of bytes alone
    give 2.97."""
    seeds: tuple[int, ...] = tuple(range(500, 505))
    """Fresh ones, in no other study; the first chooses a rate and is not judged by it. Lengths and
    peaks were chosen on seed 0."""


FULL = Size()
SMOKE = Size(
    dataset="experiments.language.toy:letters",
    width=8,
    learners=2,
    total_batch=4,
    steps=4,
    warmups=(3, 1),
    peaks=(0.01, 1.0),
    seeds=(500, 501),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
