"""SSGD against DPSGD on four graphs: the rates that each survives, then each at its best rate.

The edge: twenty seeds at each of seven rates. The fight, for three batches, with momentum and
without: trials on one seed over a grid that grows until the error rises at both ends, then ten
other seeds at the rate that they choose. The tables: batch and rate doubled together, as the paper
does it, and the rate halved again at the largest batch.
"""

from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.common import kept
from experiments.common.command import Options, each_part, grow
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.fight import doubling, rows
from experiments.fight.page import measured
from experiments.fight.pictures import pictures
from experiments.fight.plan import EDGE, FIGHT, PARTS, STUDY, edge, fight
from experiments.fight.size import study
from gossip.config import Config
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the fight, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """Survival over the learning rate; each method at its best rate; the paper's recipe as the
    batch grows."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    size = study(scale)
    if part != FIGHT:
        _make(edge(size) if part == EDGE else doubling.runs(size), scale, jobs)
        return
    for cell in size.cells:
        grow(
            lambda cell=cell: fight(cell, size, rows.errors(scale)),
            lambda wanted: _make(wanted, scale, jobs),
        )


def _make(wanted: dict[str, Config], scale: Scale, jobs: int) -> None:
    left = kept.missing(wanted, rows.read(scale))
    sweep.run_all(left, scale.runs / STUDY, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write table and pictures of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    for name, figure in pictures(measured(scale)):
        save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.fight")
    return each_part(
        options, options.parts, lambda scale, part: run(scale, part, jobs=options.jobs)
    )
