"""The same steps by SimGrid and by our engine: all-reduces, gossip, overlap with the gradient.

python -m experiments.time.by_simgrid    seconds; needs Debian's python3-simgrid

Reference: Casanova et al., "Versatile, scalable, and accurate simulation of distributed
applications and platforms", JPDC 2014.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

import topologies
from experiments.common import tables
from experiments.common.command import guarded
from experiments.time.size import SIMGRID
from gossip.algorithms import Dpsgd, DpsgdAtc, Ssgd
from gossip.algorithms import pattern as phases
from gossip.errors import UserError
from gossip.simulate import collectives
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.edges import edges
from gossip.simulate.engine import simulate
from gossip.simulate.presets import uniform
from gossip.simulate.setting import Setting
from gossip.stragglers import Table
from topologies.terminal import lossy_output

INTERPRETERS = (sys.executable, "/usr/bin/python3")
"""Where simgrid may be installed: Debian has it for its own Python."""
TABLE = Path(__file__).parents[1] / "results" / SIMGRID
ACTORS = Path(__file__).with_name("simgrid_actors.py")
BANDWIDTH, LATENCY, ROW = 125e6, 1e-4, 10_080_000
"""Bytes per second, seconds, bytes: 1 Gbit/s, and rows that 2 to 16 learners divide."""
COMPUTE, STEPS = 0.1, 5
"""Seconds of a gradient, times a draw from [1, 2); and steps."""
ALGORITHMS = {"SSGD": Ssgd, "DPSGD awc": Dpsgd, "DPSGD atc": DpsgdAtc}
STAGES = {
    "ring": collectives.ring,
    "tree": collectives.tree,
    "recursive-doubling": collectives.recursive_doubling,
    "halving-doubling": collectives.halving_doubling,
}
CASES = (
    *(("SSGD", how, n) for how in STAGES for n in (4, 8, 16)),
    *(
        (name, graph, n)
        for name in ("DPSGD awc", "DPSGD atc")
        for graph in ("ring", "one-peer-exponential", "matching", "exponential")
        for n in (8, 16)
    ),
)
"""Algorithm, all-reduce or topology, learners."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Simulate steps with SimGrid and with our engine, and compare."""


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    tyro.cli(Command, args=argv, prog="python -m experiments.time.by_simgrid")
    return guarded(run)


def run() -> None:
    """Write the table.

    Raises:
        UserError: there is no SimGrid here.
    """
    if interpreter() is None:
        raise UserError("there is no SimGrid here: apt-get install python3-simgrid")
    rows = []
    for name, how, n in CASES:
        ours, theirs = seconds(name, how, n), simgrid_seconds(name, how, n)
        numbers = {"ours": ours, "simgrid": theirs, "error": ours / theirs - 1}
        rows.append({"algorithm": name, "by": how, "n": n} | numbers)
        print(rows[-1], file=sys.stderr)
    tables.write(rows, TABLE)


@cache
def interpreter() -> str | None:
    """A Python that has simgrid; None: there is none."""
    for python in INTERPRETERS:
        try:
            done = subprocess.run(
                [python, "-c", "import simgrid"], capture_output=True, check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def seconds(name: str, how: str, n: int) -> float:
    """Until the last learner has ended the last step, by our engine."""
    return float(simulate(_setting(name, how, n), STEPS).end.max())


def simgrid_seconds(name: str, how: str, n: int) -> float:
    """The same by SimGrid, from the same matrices, stages and compute times."""
    made = _setting(name, how, n)
    programs: list[list[list[Any]]] = [[] for _ in range(n)]
    for t in range(STEPS):
        for k, phase in enumerate(made.pattern):
            _extend(programs, phase, made, t, f"{t}.{k}")
    given = {"bandwidth": BANDWIDTH, "latency": LATENCY, "programs": programs}
    python = interpreter()
    assert python is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "programs.json"
        file.write_text(json.dumps(given))
        words = [python, str(ACTORS), str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _setting(name: str, how: str, n: int) -> Setting:
    graph = "ring" if name == "SSGD" else how
    draws = Table(np.random.default_rng(n).uniform(1, 2, (STEPS, n)))
    return Setting(
        pattern=ALGORITHMS[name].pattern,
        mixing=topologies.build(graph, n).matrix,
        network=uniform("simgrid", LATENCY, BANDWIDTH),
        compute=ComputeTimes(n, COMPUTE, draws),
        row_bytes=ROW,
        all_reduce=how if name == "SSGD" else "ring",
    )


def _extend(
    programs: list[list[list[Any]]], phase: phases.Phase, made: Setting, t: int, tag: str
) -> None:
    """Add a phase of step t to all programs."""
    match phase:
        case phases.LocalGradient():
            for program, c in zip(programs, made.compute.at(t), strict=True):
                program.append(["sleep", float(c)])
        case phases.Mix():
            _messages(programs, *_ends(made, t), ROW, tag)
            _wait(programs)
        case phases.Overlapped(first=phases.Mix(), second=second):
            _messages(programs, *_ends(made, t), ROW, tag)
            _extend(programs, second, made, t, tag)
            _wait(programs)
        case phases.Mean():
            _wait(programs, "barrier")
            stages = STAGES[made.all_reduce](made.n, ROW, made.network)
            for s, stage in enumerate(stages):
                for k in range(stage.times):
                    ends = stage.senders, stage.receivers
                    _messages(programs, *ends, stage.bytes, f"{tag}.{s}.{k}")
                    _wait(programs, "all")  # one after the other


def _ends(made: Setting, t: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    found = edges(made.mixing(t), ROW, made.network)
    counts = np.diff([*found.starts, len(found.senders)])
    return found.senders, np.repeat(found.receivers, counts)


def _messages(
    programs: list[list[list[Any]]],
    senders: NDArray[np.integer],
    receivers: NDArray[np.integer],
    size: float,
    tag: str,
) -> None:
    for k, j in zip(senders.tolist(), receivers.tolist(), strict=True):
        programs[k].append(["put", j, tag, size])
        programs[j].append(["get", k, tag])


def _wait(programs: list[list[list[Any]]], what: str = "wait") -> None:
    for program in programs:
        program.append([what])


if __name__ == "__main__":
    sys.exit(main())
