"""The plan names every run: the edge; trials on a seed that is not judged, then judged seeds."""

import math
from collections.abc import Callable, Iterable

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


def tried(cell: Cell, method: str, size: Size, error: ErrorOf) -> tuple[float, ...]:
    """The grid, grown by a factor of two at an end as long as the best of it is there.

    It ends where the error rises on both sides of the best, or `size.further` rates on.
    """
    rates = size.grid(cell)
    lowest, highest = rates[0] / 2**size.further, rates[-1] * 2**size.further
    while (i := _best(cell, method, rates, size, error)) is not None:
        if i == 0 and rates[0] > lowest:
            rates = (rates[0] / 2, *rates)
        elif i == len(rates) - 1 and rates[-1] < highest:
            rates = (*rates, rates[-1] * 2)
        else:
            break
    return rates


def chosen(cell: Cell, method: str, size: Size, error: ErrorOf) -> float | None:
    """The rate with the lowest validation error; None as long as a trial is missing."""
    rates = tried(cell, method, size, error)
    best = _best(cell, method, rates, size, error)
    return None if best is None else rates[best]


def at_edge(cell: Cell, method: str, size: Size, error: ErrorOf) -> bool:
    """Whether the best rate is the least or the largest that was tried."""
    rates = tried(cell, method, size, error)
    return chosen(cell, method, size, error) in (rates[0], rates[-1])


def _best(
    cell: Cell, method: str, rates: Iterable[float], size: Size, error: ErrorOf
) -> int | None:
    """The place of the first rate with the lowest error; None as long as one is missing."""
    found = [error(key(cell, method, alpha, size.tuning_seed)) for alpha in rates]
    known = [math.inf if math.isnan(each) else each for each in found if each is not None]
    return known.index(min(known)) if len(known) == len(found) else None


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
