"""The papers' figures of time, and how far the simulator is to be believed.

AdaDamp's tables, LENA's seconds, DATE's scaling and energy, stragglers from 16 to 4096 learners,
phase diagrams; predictions of what `experiments.time.netns` has measured between hosts and
`experiments.processes.stragglers` with real processes. `experiments.time.by_simgrid` compares with
another simulator.
"""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from experiments.common.command import Options, each_part
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.time import rows, to_target
from experiments.time.pictures import pictures
from experiments.time.plan import PARTS
from gossip.errors import one_of
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Simulate the parts of the study of time; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = tuple(PARTS)
    """Parts to make anew; the rows of the others stay."""


def run(scale: Scale, part: str) -> None:
    """Make the rows of one of PARTS anew.

    Raises:
        UserError: there is no such part.
    """
    one_of(PARTS, part, "part")
    others = [row for row in rows.read(scale) if row.part != part]
    kept = {name: [row for row in others if row.part == name] for name in PARTS}
    kept[part] = list(PARTS[part](scale))
    found = [row for name in PARTS for row in kept[name]]
    if found:
        rows.write(found, scale)
    print(f"{part}: {len(kept[part])} rows", file=sys.stderr)


def publish(scale: Scale) -> None:
    """Keep the errors of runs, and draw the pictures of the table, if there are any."""
    to_target.publish(scale)
    found = rows.read(scale)
    for name, figure in pictures(found):
        save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.time")
    return each_part(options, options.parts, run)
