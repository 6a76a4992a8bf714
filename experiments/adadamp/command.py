"""The AdaDamp paper's study (Sievert and Shah, SciPy 2021), shortened: batches that grow.

Its schedules and update counts; gradient diversity; equal accuracy per epoch with fewer updates;
all dampers beside constant batch, learning-rate decay, LENA and DPSGD with equal tuning; and what
the schedules would take in seconds on the paper's networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.adadamp import facts, rows, workers
from experiments.adadamp.page import measured
from experiments.adadamp.pictures import pictures
from experiments.adadamp.plan import runs
from experiments.adadamp.size import FULL, IMAGES, PARTS, Size, studies
from experiments.common import kept
from experiments.common.command import Options, each_part, grow
from experiments.common.figures import save
from experiments.common.scale import Scale
from gossip.config import Config
from gossip.errors import lookup, one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

_DATA = f"{FULL.dataset}|{IMAGES.dataset}"


COMPUTED = {"facts": facts.write, "workers": workers.write}
"""Parts that are written at once."""


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the AdaDamp study, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """facts: what is computed without runs; workers: what Dask's cost; the five schedules; all
    dampers beside their rivals."""
    data: Annotated[tuple[str, ...], tyro.conf.arg(metavar=_DATA)] = (FULL.dataset, IMAGES.dataset)
    """What is learnt: Fashion-MNIST by an MLP, all parts; CIFAR-10 by convolutions, the schedules
    alone."""


def run(scale: Scale, part: str, *, data: Sequence[str], jobs: int) -> None:
    """Make what is missing of one of PARTS, on each of the data sets that has it.

    Raises:
        UserError: there is no such part or data set, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    for name in data:
        size = lookup(studies(scale), name, "data set")
        if part in size.parts:
            _run(scale, size, part, jobs)


def _run(scale: Scale, size: Size, part: str, jobs: int) -> None:
    """Trials first, then the runs at the rates they choose."""
    if part in COMPUTED:
        COMPUTED[part](size, scale.results)
        return

    def make(wanted: dict[str, Config]) -> None:
        left = kept.missing(wanted, rows.read(scale.results, size)[0])
        sweep.run_all(left, scale.runs / size.name, jobs=jobs)

    grow(lambda: runs(part, size, rows.errors(scale, size)), make)


def publish(scale: Scale) -> None:
    """Write the tables of the finished runs, if there are any, and the pictures of all tables."""
    for size in studies(scale).values():
        results = rows.load(scale, size)
        if results:
            rows.publish(results, size, scale.results)
        for name, figure in pictures(measured(scale, size)):
            save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.adadamp")
    return each_part(options, options.parts, partial(run, data=options.data, jobs=options.jobs))
