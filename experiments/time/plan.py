"""The parts of the study of time, by what makes their rows."""

from collections.abc import Callable, Iterator

from experiments.common.scale import Scale
from experiments.time import measured, papers, phases, real_runs, simulated
from experiments.time.rows import Row
from experiments.time.size import study

PARTS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "papers": lambda scale: papers.rows(study(scale)),
    "closed": lambda scale: simulated.closed(study(scale)),
    "stragglers": lambda scale: simulated.stragglers(study(scale)),
    "scaling": lambda scale: simulated.scaling(study(scale)),
    "phase": phases.phase,
    "measured": measured.rows,
    "real": real_runs.rows,
}
"""By name; `measured` and `real` predict what is in tables that other commands write."""
