"""Sizes of the study of rates that are survived and of the fight between tuned methods."""

from dataclasses import dataclass

from experiments.common.scale import Scale
from experiments.fight.methods import COMPLETE, SSGD


@dataclass(frozen=True)
class Cell:
    """What the methods of the fight are tuned for, each by itself."""

    batch: int
    """n B."""
    momentum: float

    @property
    def name(self) -> str:
        """Beginning of its runs' names."""
        return f"batch{self.batch}-momentum{self.momentum:g}"


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    dataset: str = "mnist"
    learners: int = 5
    failed: float = 0.2
    """Test error from which on a run has not survived."""

    alphas: tuple[float, ...] = (1.0, 1.25, 0.75, 1.5, 1.75, 0.5, 2.0)
    """Of the edge, from the middle outwards."""
    edge_batch: int = 2000
    edge_steps: int = 1500
    edge_every: int = 100
    edge_seeds: tuple[int, ...] = tuple(range(300, 320))
    """Fresh ones, in no other study."""
    first: int = 5
    """So many of them go through all methods before the others begin."""

    cells: tuple[Cell, ...] = (
        Cell(2000, 0.0),
        Cell(8000, 0.0),
        Cell(500, 0.0),
        Cell(2000, 0.9),
        Cell(8000, 0.9),
        Cell(500, 0.9),
    )
    """Of the fight, in the order of their runs."""
    samples: int = 3_000_000
    """That a run of the fight sees, whatever its batch."""
    validation: int = 5_000
    """Held out; the trials are judged by them."""
    evaluations: int = 15
    rates: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    """Tried without momentum; a fourth of them with it. Each is twice the one before."""
    further: int = 5
    """Rates by which the grid may grow at either end while the best is at that end."""
    tuning_seed: int = 330
    """Of the trials: no run of this seed is judged."""
    seeds: tuple[int, ...] = tuple(range(320, 330))
    """Of the runs at the rates that the trials choose."""

    doubling: tuple[str, ...] = (SSGD, COMPLETE, "matching")
    """Methods whose batch and rate are doubled."""
    least_batch: int = 250
    least_rate: float = 0.1
    """The paper's, for 256."""
    factors: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """By which both are multiplied."""
    halvings: int = 5
    """Of the largest rate, at the largest batch."""
    doubling_samples: int = 1_200_000
    doubling_seeds: tuple[int, ...] = tuple(range(331, 341))

    def grid(self, cell: Cell) -> tuple[float, ...]:
        """The rates that every method of a cell is tried with."""
        factor = 0.25 if cell.momentum else 1.0
        return tuple(factor * rate for rate in self.rates)

    def steps(self, cell: Cell) -> int:
        """Of a run of the fight."""
        return self.samples // cell.batch


FULL = Size()
SMOKE = Size(
    dataset="digits",
    failed=0.95,
    alphas=(1.0, 0.25),
    edge_batch=60,
    edge_steps=4,
    edge_every=2,
    edge_seeds=(300, 301),
    first=1,
    cells=(Cell(60, 0.9),),
    samples=480,
    validation=100,
    evaluations=2,
    rates=(0.2,),
    further=1,
    seeds=(320, 321),
    least_batch=60,
    factors=(1,),
    halvings=1,
    doubling_samples=480,
    doubling_seeds=(331, 332),
)


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
