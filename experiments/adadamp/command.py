"""The AdaDamp paper's study (Sievert and Shah, SciPy 2021), shortened: batches that grow.

Its schedules and update counts; gradient diversity; equal accuracy per epoch with fewer updates;
all dampers beside constant batch, learning-rate decay, LENA and DPSGD with equal tuning; and what
the schedules would take in seconds on the paper's networks.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.adadamp import facts, rows
from experiments.adadamp.page import measured
from experiments.adadamp.pictures import pictures
from experiments.adadamp.plan import PARTS, STUDY, runs
from experiments.adadamp.size import study
from experiments.common.command import Options, each_part
from experiments.common.figures import save
from experiments.common.scale import Scale
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the AdaDamp study, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """facts: what needs no runs; the five schedules; all dampers beside their rivals."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS: trials first, then the runs at the rates they choose.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    size, made = study(scale), None
    if part == "facts":
        facts.write(size, scale.results)
        return
    while (wanted := runs(part, size, rows.errors(scale))) != made:
        sweep.run_all(wanted, scale.runs / STUDY, jobs=jobs)
        made = wanted


def publish(scale: Scale) -> None:
    """Write the tables of the finished runs, if there are any, and the pictures of all tables."""
    results = rows.load(scale)
    if results:
        rows.publish(results, study(scale), scale.results)
    for name, figure in pictures(measured(scale)):
        save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.adadamp")
    return each_part(options, options.parts, partial(run, jobs=options.jobs))
