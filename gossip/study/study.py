"""The study: all objects that the runs of one command share, made from its config."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from scipy.sparse import csr_array

import topologies
from gossip import stragglers
from gossip.algorithms import ALGORITHMS, ASYNCHRONOUS
from gossip.algorithms.pattern import sends_rows
from gossip.comm.base import Communicator
from gossip.comm.startup.together import on_all
from gossip.config import Config, Data
from gossip.config.compute import idle as idle_compute
from gossip.damping import Damper
from gossip.data import Dataset, Sampler, on_device, splits
from gossip.errors import lookup
from gossip.monitor import Monitor
from gossip.rates import Rule, follow
from gossip.stragglers import Straggler
from gossip.streams import PASS, generator
from gossip.study import damper as dampers
from gossip.study import fitting, notes, parts
from gossip.study.rate_rule import budget, idle, rule, warnings
from gossip.study.step_gradient import of_steps
from gossip.task import Gradients, Task, loss


@dataclass(frozen=True)
class Study:
    """What the algorithms of one command share: data, start, batches, topology and rate."""

    config: Config
    comm: Communicator
    dataset: Dataset
    task: Task
    sampler: Sampler
    topology: topologies.Topology
    rule: Rule
    steps: int
    """Updates at most."""
    gradient: Callable[..., Gradients]
    """`Task.gradient` as a step takes it; recorded as a CUDA graph where that pays."""
    make_monitor: Callable[[], Monitor]
    """A monitor remembers the last gradients, so each run has its own."""
    warnings: tuple[str, ...] = ()
    """What the user should know before it starts."""
    straggler: Straggler | None = None
    """Who is slow on purpose, and when."""
    damper: Damper | None = None
    """What decides the batch of each step; None: it is always the same."""

    @property
    def needs_squares(self) -> bool:
        """Whether the rate or the damper looks at the gradients of single learners."""
        return dampers.needs_squares(self.damper, self.rule)

    def mixing_matrix(self, t: int) -> csr_array | None:
        """W of step t: the topology's next matrix every `mix_every` steps, None between."""
        every = self.config.gossip.mix_every
        return None if (t + 1) % every else self.topology.matrix(t // every)

    def seeds(self, t: int) -> tuple[int, ...] | None:
        """Of what the hosted learners' models draw in step t; None: they draw nothing."""
        if not self.task.draws:
            return None
        draws = (generator(self.config.seed, PASS, j, t) for j in self.comm.hosted)
        return tuple(int(own.integers(2**63)) for own in draws)

    def delay(self, t: int) -> float:
        """Seconds that this process waits in the gradient of step t because it is to be slow."""
        if self.straggler is None:
            return 0.0
        seconds = self.config.reliability.straggler_seconds
        return stragglers.delay(self.straggler, self.comm.hosted, t, seconds)


def prepare(config: Config, comm: Communicator) -> Study:
    """Make everything a run needs.

    Args:
        config: what is wanted.
        comm: whose hosted learners are served.

    Raises:
        UserError: something in the config does not fit.
    """
    numerics = on_all(comm, config.compute.numerics)
    dataset = parts.dataset(config)
    loss.check(config.model.loss, dataset.name, are_numbers=dataset.are_numbers)
    data = config.data
    train, test, validation = splits(
        dataset, data.inputs, parts.dtype(config), data.validation, data.targets
    )
    task = Task(
        parts.model(config, dataset),
        on_device(train, numerics.device),
        on_device(test, numerics.device),
        dtype=parts.dtype(config),
        num_classes=dataset.num_classes,
        seed=config.seed,
        validation=None if validation is None else on_device(validation, numerics.device),
        numerics=numerics,
        loss=loss.loss_of(config.model.loss),
    )
    sampler = Sampler(
        len(train),
        comm.n,
        comm.hosted,
        config.data.batch_size,
        config.seed,
        partition=config.data.partition,
        replacement=config.data.replacement,
        labels=train.labels,
        concentration=config.data.concentration,
    )
    damping = dampers.damper(config, sampler)
    parts.check_batch(task, config.data.batch_size if damping is None else damping.least)
    length = budget(config, len(train))
    rates = rule(config.rate, length, task.layers)
    dampers.check(config, task, rates)
    make_monitor = partial(
        Monitor,
        task,
        level=config.monitoring.monitor,
        source=config.monitoring.monitor_source,
        probe=config.monitoring.probe,
        hessian_samples=config.monitoring.hessian_samples or None,
        lipschitz_samples=config.monitoring.lipschitz_samples,
        seed=config.seed,
    )
    monitor = make_monitor()  # refuses a bad level or source now
    if monitor.needs_curvature:
        parts.check_curvature(task)
    squares = dampers.needs_squares(damping, rates)
    one_size = damping is None and not config.damping.samples_per_worker
    gradient, fallback = of_steps(config.compute, task, sampler, squares=squares, one_size=one_size)
    steps = dampers.updates(damping, rates, config, len(train))
    topology, remarks = parts.topology_and_remarks(config, comm.n)
    return Study(
        config,
        comm,
        dataset,
        task,
        sampler,
        topology,
        rates,
        steps,
        gradient,
        make_monitor,
        (
            *idle(config.rate),
            *dampers.idle(config),
            *notes.idle(config, comm.processes),
            *idle_compute(config.compute, numerics, task.layers),
            *task.notes,
            *_idle_wire(config),
            *_idle_targets(config, dataset),
            *warnings(rates),
            *notes.endless(config, steps),
            *follow.remarks(config.rate.lr_trace),
            *fallback,
            *remarks,
        ),
        parts.straggler(config),
        damping,
    )


def _idle_wire(config: Config) -> list[str]:
    """A note where no algorithm sends rows that are mixed."""
    if config.gossip.wire == "full" or any(
        sends_rows(parts.pattern(k, config)) for k in config.algorithm
    ):
        return []
    return [
        f"wire has no effect with --algorithm {' '.join(config.algorithm)}, of which no rows are "
        "mixed in a step of all; sparseloco, powersgd, ef21 and demo send less than averages of "
        "rows"
    ]


def _idle_targets(config: Config, dataset: Dataset) -> list[str]:
    """A note where labels are classes, which nothing scales."""
    if dataset.are_numbers or config.data.targets == Data().targets:
        return []
    return [f"targets={config.data.targets} has no effect: the labels are classes"]


def algorithm(name: str, study: Study) -> Any:
    """One of `ALGORITHMS` or `ASYNCHRONOUS` with the config's optimizer.

    Raises:
        UserError: its options, the topology or the optimizer do not fit.
    """
    make = lookup({**ALGORITHMS, **ASYNCHRONOUS}, name, "algorithm")
    made = make(parts.optimizer(study.config, study.task), parts.settings(study.config))
    size = study.task.layers[-1].stop
    fitting.check(name, made, study.config, study.topology, study.rule, study.damper, size)
    return made
