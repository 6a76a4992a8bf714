"""DPSGD's noise is replaced, one property at a time, to see which of them rescues training.

Every arm on every seed at each task and rate; then SSGD at the effective rates that DPSGD had, and
noise of the strength that DPSGD had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import tyro

from experiments.common import kept
from experiments.common.command import Options, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.noise import rows
from experiments.noise.page import measured
from experiments.noise.pictures import survival
from experiments.noise.plan import PARTS, STUDY, follows, needed, runs
from experiments.noise.size import study
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of noise, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """The arms with noise; SSGD at the effective rates of DPSGD, which are recorded for it; noise
    of the strength that DPSGD had, which is recorded, too."""


def run(scale: Scale, parts: Sequence[str], *, jobs: int) -> None:
    """Make the missing runs of some of PARTS, one task and rate after the other.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    for part in parts:
        one_of(dict.fromkeys(PARTS), part, "part")
    size, folder = study(scale), scale.runs / STUDY
    for cell, part in product(size.cells, parts):
        wanted = kept.missing(runs(part, cell, size, folder), rows.read(scale))
        wanted = wanted if part == "noise" else needed(wanted, folder)
        # What is followed is there before those that follow it.
        first = {key: config for key, config in wanted.items() if follows(config) is None}
        sweep.run_all(first, folder, jobs=jobs)
        sweep.run_all(wanted, folder, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    cells = [made for made in measured(scale) if made.judged]
    if cells:
        save(survival(cells), scale.results / "noise.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.noise")
    return guarded(lambda: run(options.scale(), options.parts, jobs=options.jobs))
