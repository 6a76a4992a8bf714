"""A small transformer on bytes: how short a warm-up and how high a peak SSGD and DPSGD bear."""

from dataclasses import dataclass

import tyro

from experiments.common import kept
from experiments.common.command import Options, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.language import rows
from experiments.language.groups import Measured
from experiments.language.pictures import language
from experiments.language.plan import STUDY, runs
from experiments.language.size import study
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of language, or go on; experiments.publish shows them."""


def run(scale: Scale, *, jobs: int) -> None:
    """Make the missing runs.

    Raises:
        UserError: a run failed.
    """
    wanted = kept.missing(runs(study(scale)), rows.read(scale))
    sweep.run_all(wanted, scale.runs / STUDY, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    save(language(Measured(study(scale), tuple(found))), scale.results / "language.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.language")
    return guarded(lambda: run(options.scale(), jobs=options.jobs))
