"""All-reduce or gossip to a target: recorded runs of both, and their seconds on any network.

python -m experiments.time.to_target    about 5 minutes on 2 cores; goes on where it was stopped

SSGD and DPSGD see the same batches from the same weights at the same learning rates; each choice
counts with the rate at which it comes to the target in the fewest steps.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean

import tyro

from experiments.common import tables
from experiments.common.command import Options, guarded
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.time.size import RUNS, study
from gossip.config import Averaging, Config, Data, Monitoring, Rate
from gossip.report.runs import Run
from gossip.runs import sweep
from topologies.terminal import lossy_output

FOLDER = "to-target"
CHOICES = {
    "SSGD": ("ssgd", "complete"),
    "DPSGD, ring": ("dpsgd", "ring"),
    "DPSGD, one-peer": ("dpsgd", "one-peer-exponential"),
}
"""Label -> algorithm and topology."""
BATCH, STEPS, EVERY = 16, 200, 5
"""Samples of a learner, steps of a run, steps between two looks at the test error."""


class Command(Options):
    """Train SSGD and DPSGD to a common target; experiments.publish keeps their errors."""


@dataclass(frozen=True)
class Point:
    """A look at the test error of a run."""

    choice: str
    n: int
    alpha: float
    seed: int
    parameters: int
    step: int
    """Steps done."""
    test_error: float


@dataclass(frozen=True)
class Reached:
    """How soon a choice comes to the target, with the rate with which it does so soonest."""

    choice: str
    n: int
    alpha: float
    parameters: int
    steps: tuple[int, ...]
    """Of each seed."""


def runs(scale: Scale) -> dict[str, Config]:
    """Every choice with every number of learners, rate and seed, by name."""
    size = study(scale)
    return {
        f"{algorithm}-{topology}-{n}-{alpha:g}-seed{seed}": Config(
            algorithm=(algorithm,),
            steps=STEPS,
            seed=seed,
            gossip=Averaging(learners=n, topology=topology),
            data=Data(dataset="digits" if scale.is_smoke else "mnist-5k", batch_size=BATCH),
            rate=Rate(lr=alpha),
            monitoring=Monitoring(monitor="cheap", monitor_every=EVERY),
        )
        for (algorithm, topology), n, alpha, seed in product(
            CHOICES.values(), size.target_learners, size.target_alphas, range(size.target_seeds)
        )
    }


def publish(scale: Scale) -> None:
    """Keep the errors of the finished runs, if there are any."""
    made = finished(scale.runs / FOLDER).values()
    if made:
        tables.write([asdict(p) for run in made for p in _points(run)], scale.results / RUNS)


def _points(run: Run) -> Iterator[Point]:
    kind = str(run.setting("algorithm")), str(run.setting("topology"))
    label = next(label for label, (name, graph) in CHOICES.items() if (name, graph) == kind)
    for step, error in zip(run.column("step"), run.column("test_error"), strict=True):
        if math.isfinite(error):
            yield Point(
                label,
                int(run.number("learners")),
                float(str(run.setting("lr"))),
                int(float(str(run.setting("seed")))),
                int(run.number("parameters")),
                min(int(step) + 1, int(run.number("steps"))),
                float(error),
            )


def read(scale: Scale) -> list[Point]:
    """What the runs have come to; nothing if there are none."""
    return tables.typed(scale.results / RUNS, Point)


def target(points: Sequence[Point]) -> float:
    """The lowest error that every choice comes to, in all seeds, with one of its rates."""
    best = _best(points)
    choices = {(choice, n) for choice, n, _ in best}
    return max(
        min(error for (choice, n, _), error in best.items() if (choice, n) == each)
        for each in choices
    )


def _best(points: Sequence[Point]) -> dict[tuple[str, int, float], float]:
    """Lowest error by choice, n and alpha: that of the worst seed."""
    by_seed: dict[tuple[str, int, float, int], float] = {}
    for p in points:
        key = p.choice, p.n, p.alpha, p.seed
        by_seed[key] = min(by_seed.get(key, math.inf), p.test_error)
    worst: dict[tuple[str, int, float], float] = {}
    for (choice, n, alpha, _), error in by_seed.items():
        worst[choice, n, alpha] = max(worst.get((choice, n, alpha), 0.0), error)
    return worst


def reached(points: Sequence[Point]) -> list[Reached]:
    """For each choice and n, the rate of the fewest steps to the target, on average over seeds."""
    goal, found = target(points), list[Reached]()
    for choice, n in dict.fromkeys((p.choice, p.n) for p in points):
        tried = []
        for alpha in sorted({p.alpha for p in points}):
            part = [p for p in points if (p.choice, p.n, p.alpha) == (choice, n, alpha)]
            seeds = sorted({p.seed for p in part})
            there = [[p.step for p in part if p.seed == s and p.test_error <= goal] for s in seeds]
            if part and all(there):
                tried.append(Reached(choice, n, alpha, part[0].parameters, tuple(map(min, there))))
        found.append(min(tried, key=lambda each: fmean(each.steps)))
    return found


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.time.to_target")

    def command() -> None:
        scale = options.scale()
        sweep.run_all(runs(scale), scale.runs / FOLDER, jobs=options.jobs)
        publish(scale)

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
