"""The catalogue of the tables names what measures each, and in which processes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from experiments.bench import (
    cost_curve,
    engines,
    exchange,
    interference,
    methods,
    monitor,
    overlap,
    recording,
    rules,
    simulated,
    stacked,
    training,
)
from experiments.bench.measure import Meeting
from experiments.bench.rows import Row
from experiments.bench.size import Size

Measure = Callable[[Size, Meeting], Iterator[list[Row]]]


@dataclass(frozen=True)
class Table:
    """A table, by the functions that measure its rows case by case."""

    title: str
    here: Measure | None = None
    """Measures its cases in one process."""
    across: Measure | None = None
    """Measures its cases in the processes of an mpirun job."""
    jobs: tuple[int, ...] | None = None
    """The sizes of the jobs that it is measured in; None: all that there are."""

    def processes(self, size: Size) -> tuple[int, ...]:
        """The sizes of the jobs that this table is measured in."""
        if self.across is None:
            return ()
        return tuple(p for p in size.processes if self.jobs is None or p in self.jobs)


TABLES: dict[str, Table] = {
    "exchange": Table("Exchange and mixing alone, over memcpy", across=exchange.rows),
    "training": Table("A training step, MLP, SGD with momentum", across=training.rows),
    "overlap": Table("How much of the exchange is hidden", across=overlap.rows, jobs=(2,)),
    "interference": Table("Do idle Gloo threads disturb the others?", across=interference.rows),
    "stacked": Table("All learners in one process", here=stacked.rows),
    "hosted": Table("Several learners per process", across=stacked.hosted_rows, jobs=(2,)),
    "mixing": Table("Mixing in one process", here=stacked.mixing_rows),
    "methods": Table("Methods in one process, over DPSGD", here=methods.rows),
    "monitor": Table("The monitor", here=monitor.rows),
    "recording": Table("The monitor in a script", here=recording.rows),
    "rules": Table("Learning-rate rules", here=rules.rows, across=rules.rows_across, jobs=(2,)),
    "engines": Table(
        "A growing batch by Dask and over MPI", here=engines.rows, across=engines.rows, jobs=(2, 4)
    ),
    "cost_curve": Table("Learners stacked in one process", here=cost_curve.rows),
    "simulate": Table(
        "The simulator of time: steps per second that it simulates", here=simulated.rows
    ),
}
"""All tables, in the order in which they are shown."""
