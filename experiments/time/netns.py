"""Steps are timed on 2 to 8 hosts of this machine, at several rates and delays: needs root.

python -m experiments.time.netns    about 15 minutes on 2 cores; goes on where it was stopped

A row of the table is kept as soon as it is measured. Rates are the kernel's (tbf); so would delays
be (netem), but where the kernel has none a process holds the frames, and the table says which.
"""

import os
import statistics
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import tyro

from experiments.common import hosts, tables
from experiments.common.command import guarded
from experiments.common.learners import Learner, ask, learners, module
from experiments.time.size import FULL, MEASURED, NETNS, Size
from gossip.errors import UserError
from topologies.terminal import lossy_output

PORT = 29_500
TABLE = Path(__file__).parents[1] / "results" / NETNS
TURN_SECONDS = 0.4
"""About how long the timed steps of one turn take."""
LEAST_STEPS, MOST_STEPS = 3, 25
"""Of a turn, of which the median is taken."""
SLOW, SLOW_TURNS, TURNS = 0.3, 2, 4
"""How often each variant has its turn, if a step takes so many seconds and if it takes less. The
fastest turn counts: others of this machine only make steps longer."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Time steps of DPSGD, SSGD and DistributedDataParallel between network namespaces."""

    table: Path = TABLE
    """Where the rows go; those that are there are not measured again."""


@dataclass(frozen=True)
class Cell:
    """What one measurement is of."""

    n: int
    mbits: float
    delay_ms: float
    """One way."""
    variant: str


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.time.netns")
    return guarded(lambda: run(options.table, FULL))


def run(table: Path, size: Size) -> None:
    """Measure what is missing.

    Raises:
        UserError: this machine cannot have such hosts.
    """
    if (reason := hosts.why_not()) is not None:
        raise UserError(f"no hosts can be made here: {reason}")
    rows: list[Mapping[str, object]] = list(tables.read(table))
    known = {_key(row) for row in rows}
    for n in size.hosts:
        cells = [cell for cell in _cells(size, n) if _key(asdict(cell)) not in known]
        if cells:
            with hosts.hosts(n) as made, _ranks(made) as ranks:
                for row in _measured(made, ranks, cells):
                    rows.append(row)
                    tables.write(rows, table)
                    print(row, file=sys.stderr)


def _cells(size: Size, n: int) -> Iterator[Cell]:
    for delay in size.delays_ms:
        for mbits in size.mbits:
            for variant in MEASURED:
                yield Cell(n, mbits, delay, variant)


def _key(row: Mapping[str, object]) -> tuple[float | str, ...]:
    return (*(float(str(row[name])) for name in ("n", "mbits", "delay_ms")), str(row["variant"]))


def _measured(
    made: hosts.Hosts, ranks: list[Learner], cells: list[Cell]
) -> Iterator[dict[str, object]]:
    for (mbits, delay_ms), group in groupby(cells, lambda cell: (cell.mbits, cell.delay_ms)):
        made.shape(1e6 * mbits, 1e-3 * delay_ms)
        there = list(group)
        turns = _turns(ranks, [cell.variant for cell in there])
        for cell in there:
            yield {
                **asdict(cell),
                "turns": len(turns[cell.variant]),
                "seconds": min(turns[cell.variant]),
                "slowest_turn": max(turns[cell.variant]),
                "delayed_by": "-" if not delay_ms else "user space",
                "load": os.getloadavg()[0],
            }


def _turns(ranks: list[Learner], variants: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of a step in every turn of each variant; all have their first turn before a second.

    A disturbance that lasts longer than a turn so meets one turn of several variants, and not all
    turns of one.
    """
    once = {variant: _ask(ranks, variant, 1) for variant in variants}
    found: dict[str, list[float]] = {variant: [] for variant in variants}
    for turn in range(TURNS):
        for variant in variants:
            if turn < (SLOW_TURNS if once[variant] > SLOW else TURNS):
                steps = round(TURN_SECONDS / once[variant])
                steps = max(LEAST_STEPS, min(MOST_STEPS, steps))
                found[variant].append(_ask(ranks, variant, steps))
    return found


def _ask(ranks: list[Learner], variant: str, steps: int) -> float:
    """Seconds of a step, the median over the learners."""
    return statistics.median(ask(ranks, {"variant": variant, "steps": steps}))


@contextmanager
def _ranks(made: hosts.Hosts) -> Generator[list[Learner]]:
    """A learner on each host, all connected while the network is fast."""
    made.shape(1e9, 0)
    words = module("experiments.time.rank")
    commands = [made.command(j, words) for j in range(made.n)]
    with learners(commands, hosts.address(0), PORT, hosts.INTERFACE) as started:
        yield started


if __name__ == "__main__":
    sys.exit(main())
