"""The DATE paper's study (You et al., SC 2019): large batches on LeNet and LSTMs.

LEGW with square-root scaling, its decay and its layer ratio against a manual schedule and against
tuned rivals; LARS's sensitivity to its rate; local Lipschitz constants; layer ratios.
"""

import os
import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.common import kept
from experiments.common.command import Options, grow, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.date import lipschitz, rows
from experiments.date.cost import hours
from experiments.date.page import measured
from experiments.date.pictures import pictures
from experiments.date.plan import LIPSCHITZ, PARTS, STUDY, runs
from experiments.date.size import study
from gossip.config import Config
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

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = tuple(PARTS)
    """Parts to run, in this order: the local Lipschitz constant; LeNet on RMSProp; LARS's
    sensitivity; LeNet on momentum; the LSTM against Adam; the same on the sequence-to-sequence toy
    and on words; DATE's parts one by one; the LSTM's other solvers."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS: trials first, then the runs at the rates they choose.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(PARTS, part, "part")
    size = study(scale)

    def make(wanted: dict[str, Config]) -> None:
        left = kept.missing(wanted, rows.read(scale))
        sweep.run_all(left, scale.runs / STUDY, jobs=jobs)

    if part == LIPSCHITZ:
        make(lipschitz.runs(size))
    for cell in PARTS[part]:
        grow(lambda cell=cell: runs(cell, size, rows.errors(scale)), make)


def publish(scale: Scale) -> None:
    """Write table and pictures of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale)
    for name, figure in pictures(measured(scale)):
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
            if not scale.is_smoke and part in PARTS:
                count, time = hours(part, study(scale))
                print(f"{part}: {count} runs, {time:.1f} core hours in all", file=sys.stderr)
            run(scale, part, jobs=options.jobs)

    return guarded(command)
