"""From a config to the objects of a run; the one place where names become things."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import nn

import topologies
from gossip import stragglers
from gossip.algorithms import ALGORITHMS, ASYNCHRONOUS, Settings
from gossip.comm.base import Communicator
from gossip.comm.together import on_all
from gossip.compute import idle as idle_compute
from gossip.config import Config
from gossip.data import Dataset, Sampler, load, on_device, splits
from gossip.errors import UserError, load_object, lookup
from gossip.gradients import of_steps
from gossip.keyvalue import parse_options
from gossip.models import MODELS
from gossip.monitor import Monitor
from gossip.optim import OPTIMIZERS, FlatOptimizer
from gossip.rates import Rule
from gossip.recipe import budget, idle, rule, warnings
from gossip.stragglers import Straggler
from gossip.task import Gradients, Task


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

    def mixing_matrix(self, t: int) -> csr_array | None:
        """W of step t: the topology's next matrix every `mix_every` steps, None between."""
        every = self.config.gossip.mix_every
        return None if (t + 1) % every else self.topology.matrix(t // every)

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
    dataset = _dataset(config)
    train, test, validation = splits(
        dataset, config.data.inputs, _dtype(config), config.data.validation
    )
    task = Task(
        _model(config, dataset),
        on_device(train, numerics.device),
        on_device(test, numerics.device),
        dtype=_dtype(config),
        num_classes=dataset.num_classes,
        validation=None if validation is None else on_device(validation, numerics.device),
        numerics=numerics,
    )
    _check_batch(task, config.data.batch_size)
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
    length = budget(config, len(train))
    rates = rule(config.rate, length, task.layers)
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
    make_monitor()  # refuses a bad level or source now
    gradient, fallback = of_steps(config.compute, task, sampler, squares=rates.needs_norms)
    return Study(
        config,
        comm,
        dataset,
        task,
        sampler,
        topology(config, comm.n),
        rates,
        max(1, math.ceil(rates.most_steps)),
        gradient,
        make_monitor,
        (
            *idle(config.rate),
            *idle_compute(config.compute, numerics, task.layers),
            *_idle_wire(config),
            *warnings(rates),
            *fallback,
        ),
        _straggler(config),
    )


def _idle_wire(config: Config) -> list[str]:
    """A note where no algorithm sends rows that are mixed by W."""
    if config.gossip.wire == "full" or "dpsgd" in config.algorithm:
        return []
    return [f"wire has no effect with --algorithm {' '.join(config.algorithm)}: it is for dpsgd"]


def algorithm(name: str, study: Study) -> Any:
    """One of `ALGORITHMS` or `ASYNCHRONOUS` with the config's optimizer."""
    gossip = study.config.gossip
    settings = Settings(gossip.order, gossip.noise_std, gossip.noise_mode, study.config.seed)
    make = lookup({**ALGORITHMS, **ASYNCHRONOUS}, name, "algorithm")
    return make(_optimizer(study.config, study.task), settings)


def _straggler(config: Config) -> Straggler | None:
    chosen = config.reliability
    if chosen.straggler == "none" and not chosen.straggler_options:
        return None
    n = config.gossip.learners
    return stragglers.make(chosen.straggler, chosen.straggler_options, n=n, seed=config.seed)


def _dtype(config: Config) -> torch.dtype:
    return {"float32": torch.float32, "float64": torch.float64}[config.model.dtype]


def _dataset(config: Config) -> Dataset:
    folder = Path(config.data.data_dir) if config.data.data_dir else None
    return load(config.data.dataset, folder)


def _check_batch(task: Task, size: int) -> None:
    """Refuse batches from which BatchNorm cannot take a variance."""
    if not task.looks_at_batch:
        return
    inputs, labels = task.train.batch(np.zeros((1, size), dtype=np.int64))
    try:
        task.gradient(task.init(0).unsqueeze(0), inputs, labels)
    except ValueError as error:
        raise UserError(
            f"batch_size={size}: too few samples for the model's BatchNorm ({error})"
        ) from error


def _model(config: Config, dataset: Dataset) -> Callable[[], nn.Module]:
    name, model = config.model.model, config.model
    build = load_object(name, "model") if ":" in name else lookup(MODELS, name, "model")
    try:
        takes = inspect.signature(build).parameters
    except (TypeError, ValueError) as error:
        raise UserError(f"model {name!r} cannot be called: {error}") from error
    flags = {"widths": model.widths, "activation": model.activation}
    options = {k: v for k, v in flags.items() if k in takes and ":" not in name}
    options |= {
        key: literal("model", key, value)
        for key, value in parse_options(model.model_options, "model").items()
    }
    arguments = (dataset.input_shape, dataset.num_classes)
    try:
        inspect.signature(build).bind(*arguments, **options)
    except TypeError as error:
        raise UserError(
            f"model {name!r} cannot be called as (input_shape, num_classes"
            f"{''.join(f', {key}=' for key in options)}): {error}"
        ) from error
    make = partial(build, *arguments, **options)
    try:
        made = make()
    except UserError:
        raise
    # What a builder makes of a wrong option is its own affair.
    except Exception as error:
        given = f" with {' '.join(model.model_options)}" if model.model_options else ""
        raise UserError(f"model {name!r}{given} cannot be made: {error}") from error
    if not isinstance(made, nn.Module):
        raise UserError(f"model {name!r} returned {type(made).__name__}, not a torch.nn.Module")
    return make


def topology(config: Config, n: int) -> topologies.Topology:
    """The config's topology for n learners: all that it names, or those that are left.

    Raises:
        UserError: there is none.
    """
    gossip = config.gossip
    options: dict[str, Any] = parse_options(gossip.topology_options, "topology")
    if gossip.weights != "metropolis-hastings":
        options.setdefault("weights", gossip.weights)
    builder = topologies.TOPOLOGIES.get(gossip.topology)
    if ":" in gossip.topology:
        builder = load_object(gossip.topology, "topology")
    if builder is not None and "seed" in inspect.signature(builder).parameters:
        options.setdefault("seed", config.seed)
    try:
        return topologies.build(gossip.topology, n, **options)
    except topologies.TopologyError as error:
        raise UserError(str(error)) from error


def _optimizer(config: Config, task: Task) -> Callable[[], FlatOptimizer]:
    rate = config.rate
    kind = lookup(OPTIMIZERS, rate.optimizer, "optimizer")
    accepted = inspect.signature(kind.make).parameters
    options = dict(kind.defaults)
    if rate.momentum is not None:
        if "momentum" not in accepted:
            raise UserError(f"optimizer {rate.optimizer!r} has no momentum; leave --momentum away")
        options["momentum"] = rate.momentum
    if rate.weight_decay is not None:
        options["weight_decay"] = rate.weight_decay
    for key, value in parse_options(rate.optimizer_options, "optimizer").items():
        if key not in accepted or key in ("params", "lr"):
            raise UserError(
                f"optimizer {rate.optimizer!r} has no option {key!r}; it has {', '.join(accepted)}"
            )
        options[key] = literal("optimizer", key, value)
    # lr only fills the place: FlatOptimizer sets the real rate at each step.
    make = partial(kind.make, lr=1.0, **options)
    try:
        make([nn.Parameter(torch.zeros(1))])
    except (ValueError, TypeError) as error:
        raise UserError(f"optimizer {rate.optimizer!r}: {error}") from error
    return lambda: FlatOptimizer(
        make,
        task.layers,
        elementwise=kind.elementwise,
        skips=config.skips,
        jointly=config.compute.scales_loss,
    )


def literal(kind: str, key: str, value: str) -> object:
    """A number, true/false, comma-separated numbers, or else the text itself.

    Raises:
        UserError: there is no text.
    """
    if not value:
        raise UserError(f"{kind} option {key}=: give a value")
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        numbers = tuple(_number(part) for part in value.split(","))
    except ValueError:
        return value
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)
