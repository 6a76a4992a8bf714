"""The default study is trained with three of its processes killed on the way, and undisturbed.

python -m experiments.processes.lost [--seeds 0 1 2]    about 2 minutes a seed on 2 quiet cores

Sixteen processes train DPSGD on MNIST; a random one is killed (kill -9) at about steps 300, 700
and 1100, and the job goes on by `--on-failure continue`. Which way it does depends on the MPI: by
checkpoint on fewer processes (MPICH), or without the lost learners (Open MPI, where that works).
The same seeds are trained undisturbed, in one process. The rows of another MPI stay in the table.
"""

import os
import random
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from experiments.common import tables
from experiments.common.command import guarded
from experiments.processes.jobs import launched, mean_and_spread, processes_of
from gossip.config import Config, Monitoring
from gossip.errors import UserError
from gossip.launch import mpirun as launch
from gossip.runs.sweep import run_all
from gossip.storage import folder
from topologies.terminal import lossy_output

AT = (300, 700, 1100)
"""Steps in the trace at which a process is killed."""
FOLDER = Path("runs/experiments/lost")
TABLE = Path(__file__).parents[1] / "results" / "lost.csv"


@dataclass(frozen=True, kw_only=True)
class Command:
    """Train the default study while its processes are killed."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, each of which is trained twice: disturbed and undisturbed."""


@dataclass
class Killer:
    """Kills one random process of a run at each of some steps."""

    out: Path
    random: random.Random
    left: list[int] = field(default_factory=lambda: list(AT))
    killed: list[int] = field(default_factory=list)
    """Steps in the trace when it happened."""

    def __call__(self, step: int) -> None:
        """Kill if it is time."""
        if not self.left or step < self.left[0]:
            return
        processes = processes_of(self.out)
        if len(processes) < 2:
            return
        os.kill(self.random.choice(processes), signal.SIGKILL)
        self.left.pop(0)
        self.killed.append(step)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.processes.lost")
    return guarded(lambda: run(options))


def run(options: Command) -> None:
    """Train, print and keep the table."""
    quiet = Monitoring(monitor="cheap")
    whole = {
        f"whole-{seed}": Config(algorithm=("dpsgd",), seed=seed, monitoring=quiet)
        for seed in options.seeds
    }
    run_all(whole, FOLDER, jobs=2)
    rows = []
    for seed in options.seeds:
        rows.append(disturbed(seed))
        print(rows[-1], file=sys.stderr)
    others = [row for row in tables.read(TABLE) if row["mpi"] != rows[0]["mpi"]]
    tables.write([*others, *rows], TABLE)
    for name in ("undisturbed", "disturbed"):
        errors = [100 * row[name] for row in rows]
        print(f"test error, {name}: {mean_and_spread(errors)} %, seeds {options.seeds}")


def disturbed(seed: int) -> dict[str, Any]:
    """One run with its deaths, as a row of the table."""
    out = FOLDER / f"lost-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    killer = Killer(out, random.Random(seed))
    arguments = "--algorithm dpsgd --monitor cheap --checkpoint-every 100 --on-failure continue"
    said = launched([*arguments.split(), "--seed", str(seed)], out, killer)
    if killer.left:
        raise UserError(f"{out} ended before all processes were killed")
    summary = folder.read_summary(out)
    whole = folder.read_summary(FOLDER / f"whole-{seed}")
    return {
        "mpi": launch.kind_of(launch.find_mpirun()),
        "seed": seed,
        "killed_at": " ".join(map(str, killer.killed)),
        "restarts": said.count(" goes on from "),
        "processes_at_end": summary["processes"],
        "learners_at_end": summary["learners"],
        "resumed_at": " ".join(map(str, summary.get("resumed_at", []))),
        "disturbed": summary["test_error"],
        "undisturbed": whole["test_error"],
    }


if __name__ == "__main__":
    sys.exit(main())
