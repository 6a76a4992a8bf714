"""Decentralised and large-batch training are compared on equal terms, as neither field's papers do.

DPSGD with the learning-rate rules of large-batch training beside the synchronous methods, on the
task, samples, batches and seeds of `experiments.lena`. Every method has the same number of base
rates to try, on seed 0; the best goes through all seeds. All choices are by validation error.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.common.command import Options, each_part
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.lena.plan import STUDY, study
from experiments.lena.rows import error_of, load, write_csv
from experiments.lena.tables import Rows
from experiments.rivals.pictures import tuned
from experiments.rivals.plan import final, tuning
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

PARTS = ("tune", "seeds")


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the comparison, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """Every method at all its base rates on seed 0; the further seeds at the best."""


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    made, folder = study(scale), scale.runs / STUDY
    trials = tuning(made)
    if part == "tune":
        sweep.run_all(trials, folder, jobs=jobs)
    else:
        best = final(made, lambda key: error_of(folder / key, trials[key]))
        sweep.run_all(best, folder, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    results, made = load(scale), study(scale)
    if not results:
        return
    rows = Rows(made, {key: result.row for key, result in results.items()})
    singles = [row.key for row in rows.singles()]
    keys = dict.fromkeys([*tuning(made), *final(made, rows.error_of), *singles])
    kept = [results[key].row for key in keys if key in results]
    write_csv(kept, scale.results / "rivals.csv")
    save(tuned(rows), scale.results / "rivals.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.rivals")
    return each_part(options, options.parts, partial(run, jobs=options.jobs))
