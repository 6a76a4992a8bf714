"""The DATE paper's study (You et al., SC 2019), shortened: large batches on LeNet and an LSTM.

LEGW with square-root scaling, its decay and its layer ratio against a manual schedule and against
tuned rivals; LARS's sensitivity to its rate; local Lipschitz constants; layer ratios.
"""

import os
import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.common.command import Options, grow, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.date.cost import minutes
from experiments.date.pictures import pictures
from experiments.date.plan import PARTS, STUDY, runs
from experiments.date.rows import TABLE, errors, load, write_csv
from experiments.date.size import study
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
"""Environment that lets glibc keep the memory that a step frees. It gives large blocks back to the
system, and to fault their pages in again was two thirds of a step of 8192 samples: LeNet went from
4,300 to 12,300 samples a second, the LSTM from 700 to 3,900. Nothing is computed differently."""


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the DATE study, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """Parts to run, in this order; ratios are runs of lenet, lstm-seeds needs lstm."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS: trials first, then the runs at the rates they choose.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    size, folder = study(scale), scale.runs / STUDY
    grow(
        lambda: runs(part, size, errors(scale)),
        lambda wanted: sweep.run_all(wanted, folder, jobs=jobs),
    )


def publish(scale: Scale) -> None:
    """Write table and pictures of the finished runs, if there are any."""
    results = load(scale)
    if not results:
        return
    write_csv([row for row, _ in results], scale.results / TABLE)
    for name, figure in pictures(results, study(scale)):
        save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.date")

    def command() -> None:
        scale = options.scale()
        if not scale.is_smoke:
            os.environ.update(MEMORY)  # read by the processes of the runs, when they start
        for part in options.parts:
            if not scale.is_smoke:
                made = minutes(part, study(scale))
                print(f"{part}: {made:.0f} core minutes if none is made", file=sys.stderr)
            run(scale, part, jobs=options.jobs)

    return guarded(command)
