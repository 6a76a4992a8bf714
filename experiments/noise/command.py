"""DPSGD's noise is replaced, one property at a time, to see which of them rescues training.

Every arm on every seed at each task and rate; then SSGD at the effective rates that DPSGD had.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.common.command import Options, each_part
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.noise import rows
from experiments.noise.page import measured
from experiments.noise.pictures import survival
from experiments.noise.plan import PARTS, STUDY, runs
from experiments.noise.size import study
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of noise, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """The arms with noise; SSGD at the effective rates of DPSGD, which are recorded for it."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    folder = scale.runs / STUDY
    wanted = runs(part, study(scale), folder)
    # What is followed is there before those that follow it.
    first = {key: config for key, config in wanted.items() if config.rate.lr_trace is None}
    sweep.run_all(first, folder, jobs=jobs)
    sweep.run_all(wanted, folder, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    cells = measured(scale)
    if any(made.judged for made in cells):
        save(survival(cells), scale.results / "noise.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.noise")
    return each_part(options, options.parts, partial(run, jobs=options.jobs))
