"""Sizes of the study of flatness."""

from dataclasses import dataclass

from experiments.common.scale import Scale
from gossip.landscape.measure import Settings

ALL_SAMPLES = Settings(samples=5_000, grid=7, contours=False)
CONTOURS = Settings(samples=5_000, draws=2)


@dataclass(frozen=True)
class Cell:
    """A learning rate, and what it takes to come to the lowest loss with it."""

    alpha: float
    steps: int
    every: int
    """Steps between two checkpoints: so exactly is a level met."""

    @property
    def name(self) -> str:
        """Beginning of its runs' names."""
        return f"alpha{self.alpha:g}"


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often, and where it is measured."""

    dataset: str = "mnist"
    held_out: int = 55_000
    """Training samples that are not trained on: 5,000 are left, so that a low loss is soon there
    and generalisation is not for nothing."""
    cells: tuple[Cell, Cell] = (Cell(0.25, 1_200, 5), Cell(1.0, 1_600, 5))
    """A small rate and a large one."""
    learners: int = 5
    total_batch: int = 1_000
    levels: tuple[float, ...] = (0.3, 0.1, 0.03)
    """Of the training loss of the mean model, from above."""
    settings: Settings = ALL_SAMPLES
    """What is measured there: all training samples, and lines."""
    seeds: tuple[int, ...] = tuple(range(400, 410))
    """Fresh ones, in no other study; rates and lengths were chosen on seeds 0 to 2."""
    shown_level: float = 0.3
    """Training loss that contours are shown at: SSGD comes to it at the large rate as well."""
    shown_settings: Settings = CONTOURS
    """What is measured for them."""


FULL = Size()
SMOKE = Size(
    dataset="digits",
    held_out=1_000,
    cells=(Cell(0.2, 16, 4), Cell(0.5, 12, 4)),
    learners=2,
    total_batch=64,
    levels=(2.29, 1.0),
    settings=Settings(samples=64, draws=2, grid=7, contours=False),
    seeds=(400,),
    shown_level=2.29,
    shown_settings=Settings(samples=64, draws=2, grid=5),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
