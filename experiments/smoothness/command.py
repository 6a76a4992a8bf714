"""SSGD's and DPSGD's runs are measured after some steps: curvature, and the averaged loss's."""

from dataclasses import dataclass

import tyro

from experiments.common.command import Options, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.smoothness import rows
from experiments.smoothness.groups import Measured
from experiments.smoothness.measuring import measure
from experiments.smoothness.pictures import smoothness
from experiments.smoothness.plan import STUDY, runs
from experiments.smoothness.size import study
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of smoothness, or go on; experiments.publish shows them."""


def run(scale: Scale, *, jobs: int) -> None:
    """Make and measure the missing runs, rate after rate: checkpoints take 50 MB a run.

    Raises:
        UserError: a run failed.
    """
    size, folder = study(scale), scale.runs / STUDY
    wanted = rows.missing(runs(size), size, rows.read(scale))
    for alpha in dict.fromkeys(each.rate.lr for each in wanted.values()):
        some = {name: each for name, each in wanted.items() if each.rate.lr == alpha}
        sweep.run_all(some, folder, jobs=jobs)
        for name in some:
            measure(folder / name, size)


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    save(smoothness(Measured(study(scale), tuple(found))), scale.results / "smoothness.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.smoothness")
    return guarded(lambda: run(options.scale(), jobs=options.jobs))
