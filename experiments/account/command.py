"""Runs whose every part of alpha_e and Delta is measured, and runs whose spread W predicts."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.account import courses, rows
from experiments.account.pictures import account
from experiments.account.plan import PARTS, STUDY, runs
from experiments.account.size import study
from experiments.common import kept
from experiments.common.command import Options, each_part
from experiments.common.figures import save
from experiments.common.scale import Scale
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the account, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """Runs measured in full; the spread on several topologies."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    wanted = kept.missing(runs(part, study(scale)), rows.read(scale))
    sweep.run_all(wanted, scale.runs / STUDY, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write tables and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    courses.write(scale)
    if (scale.results / courses.TABLE).exists():
        figure = account(courses.read(scale.results), study(scale).alpha)
        save(figure, scale.results / "account.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.account")
    return each_part(options, options.parts, partial(run, jobs=options.jobs))
