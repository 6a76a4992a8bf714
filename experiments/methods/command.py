"""The family of methods on one task: what each sends, how long it would take, where it ends.

Trials first, equally many for every method, on data alike and on different data; then all seeds at
the trials that they choose. The part `network` (root, tc; decent-dp) measures seconds and bytes
between network namespaces, of some methods and of what other libraries have, on images and on text:
about ten minutes each.
"""

from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.common import kept
from experiments.common.command import Options, each_part, grow
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.methods import rows
from experiments.methods.network.measured import PART
from experiments.methods.network.measured import run as network
from experiments.methods.page import measured
from experiments.methods.pictures import pictures
from experiments.methods.plan import STUDY, runs
from experiments.methods.size import study
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

PARTS = (STUDY, PART)


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of methods, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = (STUDY,)
    """Which to make: the runs on the stacked backend, or what is measured between hosts."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make what is missing of a part.

    Raises:
        UserError: there is no such part, a run failed, or no hosts can be made here.
    """
    one_of(PARTS, part, "part")
    if part == PART:
        network(scale)
        return
    size, folder = study(scale), scale.runs / STUDY
    grow(
        lambda: runs(size, rows.losses(scale)),
        lambda wanted: sweep.run_all(kept.missing(wanted, rows.read(scale)), folder, jobs=jobs),
    )


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    for name, figure in pictures(measured(scale)):
        save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.methods")
    return each_part(
        options, options.parts, lambda scale, part: run(scale, part, jobs=options.jobs)
    )
