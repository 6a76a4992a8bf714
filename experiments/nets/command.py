"""Convolutional nets on CIFAR-10 and an LSTM on telephone speech: SSGD, SSGD* and DPSGD.

For each net, SSGD's edge is sought on a seed that is not judged; there and below, all methods have
the same data, seeds and recipe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.common import kept
from experiments.common.command import Options, each_part, grow
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.nets import rows
from experiments.nets.groups import Measured
from experiments.nets.pictures import begun, nets
from experiments.nets.plan import PARTS, STUDY, runs
from experiments.nets.size import study
from gossip.config import Config
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of nets, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """SSGD and DPSGD at SSGD's edge; SSGD with noise there; one learner with a small batch."""
    nets: tuple[str, ...] = ()
    """Of these nets alone, by the beginning of their runs' names; none: of all."""


def run(scale: Scale, part: str, wanted: Sequence[str] = (), *, jobs: int) -> None:
    """Make the missing runs of one of PARTS, one net after the other.

    Args:
        scale: of the study.
        part: one of PARTS.
        wanted: names of nets; none: all.
        jobs: runs at a time.

    Raises:
        UserError: there is no such part or net, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    size = study(scale)
    tasks = {task.name: task for task in size.tasks}
    for name in wanted:
        one_of(tasks, name, "net")

    def make(named: dict[str, Config]) -> None:
        left = kept.missing(named, rows.read(scale))
        sweep.run_all(left, scale.runs / STUDY, jobs=jobs)

    for task in [tasks[name] for name in wanted or tasks]:
        grow(lambda task=task: runs(task, part, size, rows.made(scale).get), make)


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    found = rows.load(scale)
    if not found:
        return
    rows.write(found, scale.results)
    made = Measured(study(scale), tuple(found))
    if begun(made):
        save(nets(made), scale.results / "nets.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.nets")
    return each_part(
        options,
        options.parts,
        lambda scale, part: run(scale, part, options.nets, jobs=options.jobs),
    )
