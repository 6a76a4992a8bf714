"""Topologies compared: n = 16 learners, nB = 2000, alpha = 1.5, inputs in [0, 1]."""

import sys

import tyro

import topologies
from experiments.common.command import Options, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale, run_config
from experiments.dpsgd.rows import load, write_csv
from experiments.dpsgd.topology_pictures import comparison
from gossip.config import Averaging, Config
from gossip.runs import sweep
from topologies.terminal import lossy_output

STUDY = "topologies"
LEARNERS = 16
ALPHA = 1.5
TOPOLOGIES = (
    "complete",
    "ring",
    "grid",
    "hypercube",  # the 4 x 4 torus is the same graph
    "exponential",
    "one-peer-exponential",
    "matching",
    "ring-shuffle",
    "star",
)


class Command(Options):
    """Make the runs of the comparison, or go on with them; experiments.publish shows them."""


def runs(scale: Scale) -> dict[str, Config]:
    """DPSGD on each topology and SSGD beside it, over seeds."""
    return {
        f"{topology or 'ssgd'}-seed{seed}": run_config(
            scale,
            Averaging(learners=LEARNERS, topology=topology or "complete"),
            algorithm="dpsgd" if topology else "ssgd",
            alpha=ALPHA,
            seed=seed,
        )
        for seed in range(scale.few_seeds)
        for topology in (*TOPOLOGIES, None)
    }


def certificates() -> dict[str, topologies.Certificate]:
    """The contraction of each topology, by name."""
    return {name: topologies.certificate(topologies.build(name, LEARNERS)) for name in TOPOLOGIES}


def publish(scale: Scale) -> None:
    """Write table and picture of the finished runs, if there are any."""
    results = load(scale, STUDY)
    if not results:
        return
    write_csv([result.row for result in results], scale.results / "topologies.csv")
    save(
        comparison(results, certificates(), scale),
        scale.results / "topologies.png",
    )


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.dpsgd.topologies")

    def command() -> None:
        scale = options.scale()
        sweep.run_all(runs(scale), scale.runs / STUDY, jobs=options.jobs)

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
