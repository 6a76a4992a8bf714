"""The DATE paper (You et al., SC 2019) in little: large batches on LeNet and an LSTM, MNIST.

LEGW with square-root scaling, its decay and its layer ratio against a manual schedule and against
tuned rivals; LARS's sensitivity to its rate; local Lipschitz constants; layer ratios.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from experiments.common.command import Options, guarded
from experiments.common.scale import Scale
from experiments.date import cost as date_cost
from experiments.date import page as date_page
from experiments.date import pictures as date_pictures
from experiments.date import plan as date_plan
from experiments.date import rows as date_rows
from experiments.date import size as date_size
from experiments.date.plan import PARTS, STUDY
from experiments.dpsgd.drawing import save
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
"""Let glibc keep what a step frees. It gives large blocks back to the system, and to fault their
pages in again was two thirds of a step of 8192 samples: LeNet went from 4,300 to 12,300 samples
a second, the LSTM from 700 to 3,900. Nothing is computed differently."""


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the DATE study, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """What to make, in this order; ratios are runs of lenet, lstm-seeds needs lstm."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make what is missing of one of PARTS: trials, and then what their choice leads to.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    size, made = date_size.study(scale), None
    while (runs := date_plan.runs(part, size, date_rows.errors(scale))) != made:
        sweep.run_all(runs, scale.runs / STUDY, jobs=jobs)
        made = runs


def publish(scale: Scale) -> None:
    """Table and pictures of the finished runs, if there are any."""
    results = date_rows.load(scale)
    if not results:
        return
    date_rows.write_csv([row for row, _ in results], scale.results / date_page.TABLE)
    for name, figure in date_pictures.pictures(results, date_size.study(scale)):
        save(figure, scale.results / name)


def write_page(scale: Scale) -> None:
    """The page alone, from the table that is there."""
    page(scale).write_text(date_page.text(scale), encoding="utf-8")


def page(scale: Scale) -> Path:
    """Where the page is."""
    return scale.page.with_name("date.md")


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
                minutes = date_cost.minutes(part, date_size.study(scale))
                print(f"{part}: {minutes:.0f} core minutes if none is made", file=sys.stderr)
            run(scale, part, jobs=options.jobs)

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
