"""make bench: what a step costs, as ratios within one run (A B A B ..., medians).

    python -m experiments.bench            all tables, about two minutes
    python -m experiments.bench --rounds 5 quicker and noisier

One thread per process. Absolute times on a shared machine drift by a factor of two or more;
ratios of interleaved rounds do not, so only they are worth comparing between machines.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import topologies
from gossip.algorithms import Gradient
from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked
from gossip.comm.start import connect
from gossip.config import Config, Data, Gossip, Model, Monitoring, Rate
from gossip.data import Dataset, from_arrays
from gossip.models import mlp
from gossip.monitor import LEVELS, Moment, Monitor
from gossip.rates import Controller
from gossip.study import algorithm, prepare

TOTAL_BATCH = 2000
STUDIES = ((5, 400), (16, 125), (64, 31), (16, 32))
"""(n, B): the DPSGD paper's, the default study's, many small batches, little work per step."""
LR = 0.1


@dataclass(frozen=True)
class Options:
    """Print ratios of interleaved timings."""

    rounds: int = 15
    """Timed rounds; each runs every variant once, in turn."""
    mpi_part: bool = False
    """Only the part that runs under mpirun (started by this program itself)."""


def medians(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each variant over interleaved rounds, after one untimed round."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for timed in range(rounds + 1):
        for name, variant in variants.items():
            start = time.perf_counter()
            variant()
            if timed:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: float(np.median(values)) for name, values in times.items()}


def table(title: str, base: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    """One line per case: milliseconds of each variant and its ratio to `base`."""
    shown = Table(title=title, title_justify="left")
    names = list(next(iter(rows.values())))
    for name in ("", *names):
        shown.add_column(name, justify="right" if name else "left")
    for case, times in rows.items():
        cells = (f"{times[name]:.2f} ms ({times[name] / times[base]:.2f}x)" for name in names)
        shown.add_row(case, *cells)
    return shown


def mnist_like() -> Dataset:
    """Random bytes in MNIST's shape: times do not depend on what the pictures show."""
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 256, (size, 28, 28), dtype=np.uint8) for size in (60_000, 10_000)]
    labels = [rng.integers(0, 10, size) for size in (60_000, 10_000)]
    return from_arrays("random", "random", (inputs[0], labels[0], inputs[1], labels[1]))


def cifar_like() -> Dataset:
    """Random bytes in CIFAR-10's shape, few of them."""
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 256, (size, 3, 32, 32), dtype=np.uint8) for size in (500, 100)]
    labels = [rng.permutation(size) % 10 for size in (500, 100)]
    return from_arrays("random", "random", (inputs[0], labels[0], inputs[1], labels[1]))


def study_of(n: int, batch: int, dataset: str = "experiments.bench:mnist_like") -> Config:
    """The default study's model for n learners."""
    return Config(
        algorithm=("dpsgd",),
        gossip=Gossip(learners=n),
        data=Data(dataset=dataset, batch_size=batch),
        rate=Rate(lr=LR),
        monitoring=Monitoring(monitor="cheap"),
    )


class Bench:
    """One step of an algorithm with everything but the data loading around it."""

    def __init__(self, config: Config, comm: Communicator) -> None:
        self.study = prepare(config, comm)
        self.comm = comm
        self.algorithm = algorithm(config.algorithm[0], self.study)
        self.state = self.algorithm.init(self.study.task.init(0), len(comm.hosted))
        self.rates = Controller(self.study.rule, comm)
        self.inputs, self.labels = self.study.task.train.batch(self.study.sampler.indices(0))
        self.t = 0

    @property
    def gradient(self) -> Gradient:
        """The gradient on the one batch of this bench."""
        squares = self.study.rule.needs_norms
        return partial(
            self.study.task.gradient, inputs=self.inputs, labels=self.labels, squares=squares
        )

    def step(self) -> None:
        """Mix, gradient, update."""
        w = self.study.topology.matrix(self.t)
        self.state, self.last = self.algorithm.step(
            self.state, self.gradient, w, self.rates.at(self.t), self.comm
        )
        self.t += 1

    def compute(self) -> None:
        """The same without neighbours."""
        gradients = self.gradient(self.state.x).values
        self.state.optimizer.step(self.state.x, gradients, LR)


Step = Callable[[], None]


def one_model(batch: int) -> tuple[torch.nn.Module, Step]:
    """A plain torch model and its SGD step on one batch."""
    model = mlp((28, 28), 10)
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    inputs, labels = torch.rand(batch, 28, 28), torch.randint(0, 10, (batch,))

    def step() -> None:
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        sgd.step()

    return model, step


def loop_over_models(n: int, batch: int) -> Step:
    """What one would write first: n modules in a Python loop and an average over the ring."""
    learners = [one_model(batch) for _ in range(n)]

    def step() -> None:
        with torch.no_grad():
            rows = [parameters_to_vector(model.parameters()) for model, _ in learners]
            mixed = [(rows[j - 1] + rows[j] + rows[(j + 1) % n]) / 3 for j in range(n)]
        for j, (model, update) in enumerate(learners):
            update()
            with torch.no_grad():
                increment = parameters_to_vector(model.parameters()) - rows[j]
                vector_to_parameters(mixed[j] + increment, model.parameters())

    return step


def stacked_steps(rounds: int) -> Table:
    """Our step, the floor and the loop."""
    rows = {}
    for n, batch in STUDIES:
        bench = Bench(study_of(n, batch), Stacked(n))
        variants = {
            "one model, n B": one_model(n * batch)[1],
            "stacked DPSGD": bench.step,
            "loop over n models": loop_over_models(n, batch),
        }
        rows[f"n={n} B={batch}"] = medians(variants, rounds)
    return table("a step, 784-50-50-10, one thread", "one model, n B", rows)


def mixing(rounds: int, n: int = 16, d: int = 42_310) -> Table:
    """W X against a copy of the same rows, which nothing can beat."""
    rows = {}
    x, target, comm = torch.randn(n, d), torch.empty(n, d), Stacked(n)
    for name in ("one-peer-exponential", "ring", "exponential", "complete"):
        w = topologies.build(name, n).matrix(0)
        variants = {
            "copy": lambda: target.copy_(x),
            "mix": lambda w=w: comm.start_mix(x, w)(),
        }
        rows[name] = medians(variants, 10 * rounds)
    return table(f"mixing, n={n}, d={d}, float32", "copy", rows)


def monitor_levels(rounds: int, n: int = 16, batch: int = 125) -> Table:
    """One call of the monitor against one step."""
    bench = Bench(study_of(n, batch), Stacked(n))
    before = bench.state
    bench.step()
    last = bench.last
    moment = Moment(
        step=0,
        lr=LR,
        x=before.x,
        points=last.points,
        gradients=last.gradients,
        mixed=last.mixed,
        x_next=bench.state.x,
        inputs=bench.inputs,
        labels=bench.labels,
    )
    monitors = {level: Monitor(bench.study.task, level=level) for level in LEVELS}
    monitors["standard, probe"] = Monitor(bench.study.task, source="probe")
    variants: dict[str, Callable[[], object]] = {"step": bench.step}
    variants |= {name: partial(monitor, moment, bench.comm) for name, monitor in monitors.items()}
    rows = {f"n={n} B={batch} N=60000": medians(variants, max(3, rounds // 5))}
    return table("one call of the monitor", "step", rows)


def rate_rules(rounds: int) -> Table:
    """An SSGD update with the rules that measure gradients against one with a constant rate."""
    rows = {}
    for model, n, batch in RATE_STUDIES:
        variants = rate_variants(model, n, batch, Stacked(n))
        rows[f"{model} n={n} B={batch}"] = medians(variants, rounds if model == "mlp" else 3)
    return table("an SSGD update by learning-rate rule, all learners in one process", PLAIN, rows)


PLAIN = "constant rate"
RATE_STUDIES = (("mlp", 16, 125), ("mlp", 1, 128), ("resnet18", 2, 8), ("resnet18", 1, 16))
"""(model, n, B); alone a learner has nothing to measure but pays for measuring."""


def rate_variants(model: str, n: int, batch: int, comm: Communicator) -> dict[str, Step]:
    """SSGD steps of one model by scaling."""
    dataset = "experiments.bench:cifar_like" if model == "resnet18" else None
    base = study_of(n, batch, dataset or "experiments.bench:mnist_like")
    variants = {}
    for name, scaling in ((PLAIN, "none"), ("AdaScale", "adascale"), ("LENA", "lena")):
        config = replace(
            base,
            algorithm=("ssgd",),
            model=Model(model=model),
            rate=Rate(lr=1e-3, momentum=0.9, scaling=scaling),
        )
        variants[name] = Bench(config, comm).step
    return variants


def mpi_part(rounds: int) -> None:
    """Under mpirun: a step with neighbours against the same without."""
    comm = connect("mpi", 2)
    rows = {"mlp, n=2 B=128": medians(rate_variants("mlp", 2, 128, comm), 10 * rounds)}
    if comm.process == 0:
        Console(width=120).print(table("an SSGD update by rule, 2 processes", PLAIN, rows))
    rows = {}
    for batch in (125, 32):
        bench = Bench(study_of(16, batch), connect("mpi", 16))
        rows[f"16 learners, B={batch}"] = medians(
            {"compute only": bench.compute, "MPI step": bench.step}, 10 * rounds
        )
    if bench.comm.process == 0:
        title = f"a step on {bench.comm.processes} processes, ring"
        Console(width=120).print(table(title, "compute only", rows))


def main() -> None:
    """Run the command."""
    options = tyro.cli(Options, prog="python -m experiments.bench")
    torch.set_num_threads(1)
    if options.mpi_part:
        mpi_part(options.rounds)
        return
    console = Console(width=120)
    for part in (stacked_steps, mixing, monitor_levels, rate_rules):
        console.print(part(options.rounds))
    command = [sys.executable, "-m", "gossip.launch", "-n", "2", "--module", "experiments.bench"]
    subprocess.run([*command, "--mpi-part", "--rounds", str(options.rounds)], check=True)


if __name__ == "__main__":
    main()
