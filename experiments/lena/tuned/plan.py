"""The runs: in every cell trials on a seed that is not judged, then five seeds at its best rate.

A cell is a method at a number of learners. Its base rate is tuned by the validation error at the
end of its trials, over a grid that grows while the best rate is at an end, and the seeds at that
rate are judged by the test error at their end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from experiments.common.scale import Scale
from experiments.common.tuning import ErrorAt, Grid
from experiments.lena import plan as lena
from experiments.lena.plan import SINGLE, Recipe, Study, Task
from gossip.config import Config

STUDY = "lena-tuned"
"""Name of the folder that the runs lie in."""
SINGLE_WORKER = "single"

ErrorOf = Callable[[str], float | None]
"""Final validation error of a run by its name, infinite if it has none; None: not run."""


@dataclass(frozen=True)
class Method:
    """A scaling with a warm-up."""

    label: str
    recipe: Recipe
    rates: tuple[float, ...]
    """Tried at first: base rates, of linear scaling after it, n times the base rate."""

    @property
    def is_linear(self) -> bool:
        """Whether its rate is n times the base rate."""
        return self.recipe.rate["scaling"] == "linear"

    def grid(self, n: int) -> tuple[float, ...]:
        """Base rates tried at first."""
        return tuple(rate / n if self.is_linear else rate for rate in self.rates)


METHODS = {
    "lena": Method("LENA", lena.cell("lena", "state-aware"), (0.04, 0.08, 0.16)),
    "adascale": Method("AdaScale", lena.cell("adascale", "none"), (0.04, 0.08, 0.16)),
    "lena-fixed": Method(
        "LENA, fixed warm-up", lena.cell("lena", "fixed"), (0.04, 0.08, 0.16)
    ),
    "lsw": Method("LSW", lena.cell("linear", "fixed"), (0.08, 0.16, 0.32)),
    SINGLE_WORKER: Method("single worker", SINGLE, (0.01, 0.02, 0.04)),
}  # fmt: skip
"""By name. LENA's and AdaScale's grids begin where a study of 4 epochs had its best rates, linear
scaling's and the single worker's as well."""


@dataclass(frozen=True)
class Cell:
    """A method at a number of learners."""

    method: str
    n: int


_TASK = replace(lena.FULL.main, epochs=20.0, prefix="tuned-")


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    task: Task = _TASK
    evaluations: int = 4
    """Approximate number of evaluations of a run: the last one alone is used."""
    learners: tuple[int, ...] = (64, 16)
    """The larger first: there the methods are farther apart."""
    further: int = 4
    """Rates by which a grid may grow at either end."""
    tuning_seed: int = 610
    """Of the trials: no run of this seed is judged."""
    seeds: tuple[int, ...] = tuple(range(600, 605))
    """Fresh ones, in no other study."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, those that the paper's own claim is about first, the largest n first."""
        few, more = ("lena", "adascale", "lena-fixed"), ("lsw",)
        first = [Cell(name, n) for n in self.learners for name in few]
        last = [Cell(name, n) for n in self.learners for name in more]
        return (*first, Cell(SINGLE_WORKER, 1), *last)


FULL = Size()
SMOKE = Size(
    task=replace(lena.SMOKE.main, epochs=0.5, prefix="tuned-"),
    evaluations=2,
    learners=(4,),
    further=1,
    seeds=(600, 601),
)


def size(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL


def study(scale: Scale) -> Study:
    """What these runs share with the others of the LENA study."""
    return replace(lena.study(scale), evaluations=size(scale).evaluations)


def key(cell: Cell, lr: float, seed: int, made: Size) -> str:
    """The name of a run."""
    return lena.key(made.task, METHODS[cell.method].recipe, cell.n, lr, seed)


def grid(cell: Cell, made: Size) -> Grid:
    """The base rates that a cell is tried with."""
    return Grid(METHODS[cell.method].grid(cell.n), made.further)


def error_at(cell: Cell, made: Size, error: ErrorOf) -> ErrorAt:
    """Of a cell's trials, by base rate."""
    return lambda lr: error(key(cell, lr, made.tuning_seed, made))


def runs(cell: Cell, made: Size, shared: Study, error: ErrorOf) -> dict[str, Config]:
    """The runs of a cell that can be named by now: all of them once its trials are done."""
    found, trials = error_at(cell, made, error), grid(cell, made)
    wanted = [(lr, made.tuning_seed) for lr in trials.tried(found)]
    if (best := trials.chosen(found)) is not None:
        wanted += [(best, seed) for seed in made.seeds]
    recipe = METHODS[cell.method].recipe
    return {
        key(cell, lr, seed, made): lena.config(shared, made.task, recipe, cell.n, lr, seed)
        for lr, seed in wanted
    }
