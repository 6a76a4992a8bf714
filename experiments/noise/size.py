"""Sizes of the study of DPSGD's noise."""

from dataclasses import dataclass

from experiments.common.scale import Scale


@dataclass(frozen=True)
class Cell:
    """A task at a learning rate at which SSGD is expected to fail and DPSGD to survive."""

    dataset: str
    alpha: float
    failed: float
    """Test error from which on a run has not survived."""

    @property
    def name(self) -> str:
        """Beginning of its runs' names."""
        return f"{self.dataset}-alpha{self.alpha:g}"


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    cells: tuple[Cell, ...] = (
        Cell("mnist", 1.5, 0.2),
        Cell("mnist", 1.25, 0.2),
        Cell("fashion-mnist", 1.0, 0.3),
    )
    learners: int = 5
    total_batch: int = 2000
    steps: int = 1500
    monitor_every: int = 50
    seeds: tuple[int, ...] = tuple(range(100, 120))
    """Fresh ones: those below 20 are in other studies, by whose outcome the rates were chosen, that
    of Fashion-MNIST by runs on seeds 0 and 1."""


FULL = Size()
SMOKE = Size(
    cells=(Cell("digits", 0.5, 0.5),),
    learners=2,
    total_batch=64,
    steps=12,
    monitor_every=4,
    seeds=(100,),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
