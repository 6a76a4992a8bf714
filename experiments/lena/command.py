"""The study of the LENA paper (WWW 2022) on Fashion-MNIST: Tables 1 to 3, Figs. 2 to 4, 6 and 7.

Scalings and warm-ups of the learning rate for batches up to 128 times as large, SSGD, with the base
rate that is best for one learner alone. What the paper has on CIFAR with ResNets is here a small
net for many short runs; `cifar` is a small part of its own.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.common import kept
from experiments.common.command import Options, each_part, grow
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.lena import page, plan
from experiments.lena.pictures import pictures
from experiments.lena.plan import PARTS, STUDY, Task
from experiments.lena.rows import error_of, load, write_csv
from experiments.lena.tables import Rows
from experiments.lena.tuned import picture, section
from experiments.lena.tuned import plan as tuned_plan
from experiments.lena.tuned import rows as tuned_rows
from gossip.config import Config
from gossip.errors import UserError, one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

TUNED = "tuned"
ALL = (TUNED, *PARTS)


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the LENA study, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(ALL))] = ALL
    """Tables 1 and 2 at 20 epochs, every cell tuned; at 4 epochs and the single worker's base rate:
    the single worker; Tables 1 and 2 on seed 0; their further seeds; Table 3; Fig. 4; a little of
    it on CIFAR-10. The base rate of these is tuned before."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of ALL parts, and before them those that tune its base rate.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(ALL), part, "part")
    if part == TUNED:
        run_tuned(scale, jobs=jobs)
        return
    made = plan.study(scale)
    lr = tuned(scale, made.small if part == "cifar" else made.main, jobs=jobs)
    sweep.run_all(plan.part(made, part, lr), scale.runs / STUDY, jobs=jobs)


def tuned(scale: Scale, task: Task, *, jobs: int) -> float:
    """Make the runs that decide the base rate of a task; gives the base rate.

    Raises:
        UserError: one of them failed.
    """
    made, folder = plan.study(scale), scale.runs / STUDY
    grid = plan.base_grid(made, task)
    sweep.run_all(grid, folder, jobs=jobs)
    lr = plan.base_rate(made, task, lambda key: error_of(folder / key, grid[key]))
    if lr is None:
        raise UserError(f"the base rate is not tuned: not all of {', '.join(grid)} are finished")
    return lr


def run_tuned(scale: Scale, *, jobs: int) -> None:
    """Make the missing runs of the tuned tables, cell by cell.

    Raises:
        UserError: a run failed.
    """
    made, shared = tuned_plan.size(scale), tuned_plan.study(scale)

    def make(wanted: dict[str, Config]) -> None:
        left = kept.missing(wanted, tuned_rows.read(scale))
        sweep.run_all(left, scale.runs / tuned_plan.STUDY, jobs=jobs)

    for cell in made.cells:
        grow(
            lambda cell=cell: tuned_plan.runs(cell, made, shared, tuned_rows.errors(scale)),
            make,
        )


def publish(scale: Scale) -> None:
    """Write tables and pictures of the finished runs, if there are any."""
    if found := tuned_rows.load(scale):
        tuned_rows.write(found, scale)
        save(picture.tuned(section.measured(scale)), scale.results / picture.PICTURE)
    results, made = load(scale), plan.study(scale)
    if results:
        rows = Rows(made, {key: result.row for key, result in results.items()})
        keys = {key for keys in page.wanted(made, rows).values() for key in keys or ()}
        named = {key: result for key, result in results.items() if key in keys}
        write_csv([result.row for result in named.values()], scale.results / "lena.csv")
        for name, figure in pictures(rows, named):
            save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.lena")
    return each_part(options, options.parts, partial(run, jobs=options.jobs))
