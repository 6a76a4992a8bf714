"""Figure 2 of the DPSGD paper (arXiv 2112.01433) on MNIST: n = 5 learners, W = J, nB = 2000.

SSGD and DPSGD over learning rates and input scalings, and SSGD* beside them. The paper has
alpha = 1 and does not say how inputs are scaled, nor how long it trains.
"""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro

from experiments.common.command import Options, each_part
from experiments.common.figures import save
from experiments.common.scale import Scale, run_config
from experiments.dpsgd import fig2_pictures, ssgd_star
from experiments.dpsgd.rows import load, write_csv
from gossip.config import Averaging, Config
from gossip.errors import one_of
from gossip.runs import sweep
from topologies.terminal import lossy_output

STUDY = "fig2"
LEARNERS = 5
ALPHAS = (1.0, 1.25, 1.5, 2.0)
ALGORITHMS = ("dpsgd", "ssgd")
INPUTS = ("unit", "standardised")
PARTS = ("unit", "noise", "standardised", "noise-at-1")


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of Figure 2's study, or go on with them; experiments.publish shows them."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(PARTS))] = PARTS
    """The grid on inputs in [0, 1], SSGD* at alpha = 1.5, the grid on standardised inputs, SSGD*
    at alpha = 1."""


def grid(scale: Scale, inputs: str) -> dict[str, Config]:
    """DPSGD and SSGD at each learning rate, over seeds.

    At the paper's alpha = 1 they go on for longer: what happens late is part of its claim.
    """
    runs = {}
    for seed in range(scale.seeds):
        for alpha in ALPHAS:
            for algorithm in ALGORITHMS:
                drawn = alpha == 1 or (algorithm == "dpsgd" and inputs == "unit")
                runs[f"{inputs}-alpha{alpha:g}-{algorithm}-seed{seed}"] = run_config(
                    scale,
                    Averaging(learners=LEARNERS, topology="complete"),
                    algorithm=algorithm,
                    alpha=alpha,
                    seed=seed,
                    steps=scale.long_steps if alpha == 1 else scale.steps,
                    inputs=inputs,
                    monitor="standard" if drawn else "cheap",
                )
    return runs


def run(scale: Scale, part: str, *, jobs: int) -> None:
    """Make the missing runs of one of PARTS.

    Raises:
        UserError: there is no such part, or a run failed.
    """
    one_of(dict.fromkeys(PARTS), part, "part")
    if part in INPUTS:
        sweep.run_all(grid(scale, part), scale.runs / STUDY, jobs=jobs)
    else:
        ssgd_star.run(scale, 1.0 if part == "noise-at-1" else 1.5, jobs=jobs)


def publish(scale: Scale) -> None:
    """Write table and pictures of the finished runs, if there are any."""
    results = load(scale, STUDY) + load(scale, ssgd_star.STUDY)
    if not results:
        return
    write_csv([result.row for result in results], scale.results / "fig2.csv")
    for name, figure in fig2_pictures.pictures(results, scale):
        save(figure, scale.results / name)


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.dpsgd.fig2")
    return each_part(options, options.parts, partial(run, jobs=options.jobs))


if __name__ == "__main__":
    sys.exit(main())
