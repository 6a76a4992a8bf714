"""The plan names every run: the edge; trials on a seed that is not judged, then judged seeds."""

from collections.abc import Callable

from experiments.common.tuning import ErrorAt, Grid
from experiments.fight import doubling
from experiments.fight.methods import COMPLETE, METHODS, SSGD
from experiments.fight.size import Cell, Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate

STUDY = "fight"
"""Name of the folder that the runs lie in."""
EDGE, FIGHT = "edge", "fight"
PARTS = (EDGE, FIGHT, doubling.TABLES)

ErrorOf = Callable[[str], float | None]
"""Final validation error of a run by its name, infinite if it has none; None: not run."""


def edge_key(method: str, alpha: float, seed: int) -> str:
    """The name of a run at the edge."""
    return f"edge-{method}-alpha{alpha:g}-seed{seed}"


def key(cell: Cell, method: str, alpha: float, seed: int) -> str:
    """The name of a run of the fight."""
    return f"fight-{cell.name}-{method}-alpha{alpha:g}-seed{seed}"


def edge(size: Size) -> dict[str, Config]:
    """The runs at the edge: a few seeds of all methods, then the most decisive pair, then the rest.

    Method by method at each rate, so that wherever it stops there are complete cells.
    """
    few, more = size.edge_seeds[: size.first], size.edge_seeds[size.first :]
    pair = (SSGD, COMPLETE)
    return {
        edge_key(method, alpha, seed): edge_config(method, alpha, seed, size)
        for methods, seeds in ((METHODS, few), (pair, more), (METHODS, more))
        for alpha in size.alphas
        for method in methods
        for seed in seeds
    }


def fight(cell: Cell, size: Size, error: ErrorOf) -> dict[str, Config]:
    """The runs of one cell that can be named by now: all of them once all trials are done."""
    trials = {
        key(cell, method, alpha, size.tuning_seed): config(
            cell, method, alpha, size.tuning_seed, size
        )
        for method in METHODS
        for alpha in tried(cell, method, size, error)
    }
    judged = {
        key(cell, method, best, seed): config(cell, method, best, seed, size)
        for method in METHODS
        for seed in size.seeds
        if (best := chosen(cell, method, size, error)) is not None
    }
    return trials | judged


def names(size: Size, error: ErrorOf) -> list[str]:
    """The names of all runs that can be named by now."""
    cells = (name for cell in size.cells for name in fight(cell, size, error))
    return [*edge(size), *cells, *doubling.runs(size)]


def grid(cell: Cell, size: Size) -> Grid:
    """The rates that every method of a cell is tried with at first."""
    return Grid(size.grid(cell), size.further)


def error_at(cell: Cell, method: str, size: Size, error: ErrorOf) -> ErrorAt:
    """Of the trials that choose a method's rate."""
    return lambda alpha: error(key(cell, method, alpha, size.tuning_seed))


def tried(cell: Cell, method: str, size: Size, error: ErrorOf) -> tuple[float, ...]:
    """The rates of a method's trials, those to come as well."""
    return grid(cell, size).tried(error_at(cell, method, size, error))


def chosen(cell: Cell, method: str, size: Size, error: ErrorOf) -> float | None:
    """The rate with the lowest validation error; None as long as a trial is missing."""
    return grid(cell, size).chosen(error_at(cell, method, size, error))


def edge_config(method: str, alpha: float, seed: int, size: Size) -> Config:
    """The config of a run at the edge."""
    cell = Cell(size.edge_batch, 0.0)
    return _config(cell, method, alpha, seed, size, size.edge_steps, size.edge_every, 0)


def config(cell: Cell, method: str, alpha: float, seed: int, size: Size) -> Config:
    """The config of a run of the fight."""
    steps = size.steps(cell)
    every = max(1, steps // size.evaluations)
    return _config(cell, method, alpha, seed, size, steps, every, size.validation)


def _config(
    cell: Cell,
    method: str,
    alpha: float,
    seed: int,
    size: Size,
    steps: int,
    every: int,
    validation: int,
) -> Config:
    made = METHODS[method]
    return Config(
        algorithm=(made.algorithm,),
        steps=steps,
        seed=seed,
        gossip=Averaging(learners=size.learners, topology=made.topology, backend="stacked"),
        data=Data(
            dataset=size.dataset,
            inputs="unit",
            batch_size=cell.batch // size.learners,
            validation=validation,
        ),
        rate=Rate(lr=alpha, momentum=cell.momentum),
        monitoring=Monitoring(monitor="cheap", monitor_every=every),
    )
