"""The parts of a study: data set, model, topology, optimizer and stragglers that a config names."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter, warn_explicit

import numpy as np
import torch
from torch import nn

import topologies
from gossip import stragglers
from gossip.algorithms import ALGORITHMS, ASYNCHRONOUS, AlgorithmSettings
from gossip.algorithms.pattern import Pattern
from gossip.config import Config
from gossip.data import Dataset, load
from gossip.data.dataset import are_tokens
from gossip.errors import UserError, load_object, lookup, said, suggestion
from gossip.keyvalue import parse_options
from gossip.models import MODELS, TOKEN_MODELS
from gossip.optim import OPTIMIZERS, FlatOptimizer
from gossip.optim.uncompiled import uncompiled
from gossip.stragglers import Straggler
from gossip.task import Task
from topologies.damped import damped


def straggler(config: Config) -> Straggler | None:
    """The model by which learners are slow on purpose; None: nobody is.

    Raises:
        UserError: it has no such option, or needs one.
    """
    chosen = config.reliability
    if chosen.straggler == "none" and not chosen.straggler_options:
        return None
    n = config.gossip.learners
    return stragglers.make(chosen.straggler, chosen.straggler_options, n=n, seed=config.seed)


def dtype(config: Config) -> torch.dtype:
    """The dtype of weights and gradients."""
    return {"float32": torch.float32, "float64": torch.float64}[config.model.dtype]


def dataset(config: Config) -> Dataset:
    """The data set that the config names, from the cache or the given folder.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    folder = Path(config.data.data_dir) if config.data.data_dir else None
    return load(config.data.dataset, folder)


def check_batch(task: Task, size: int) -> None:
    """Refuse batches from which BatchNorm cannot take a variance.

    Raises:
        UserError: a gradient of such a batch cannot be taken.
    """
    if not task.looks_at_batch:
        return
    inputs, labels = task.train.batch(np.zeros((1, size), dtype=np.int64))
    try:
        task.gradient(task.init(0).unsqueeze(0), inputs, labels, seeds=[0])
    # What a model does in its forward pass is its own affair.
    except Exception as error:
        raise UserError(
            f"batch_size={size}: too few samples for the model's BatchNorm ({said(error)})"
        ) from error


def check_curvature(task: Task) -> None:
    """Refuse a monitor that needs second derivatives where the model's loss has none.

    Raises:
        UserError: it has none.
    """
    try:
        task.check_curvature()
    # As above.
    except Exception as error:
        raise UserError(
            "monitor=full and lipschitz_samples need second derivatives of the loss, which this "
            f"model has none of ({said(error)}); use --monitor standard, without them"
        ) from error


def model(config: Config, dataset: Dataset) -> Callable[[], nn.Module]:
    """What builds the model for the shape of the inputs and the number of classes.

    It raises UserError itself where the model cannot be made or is no module.

    Raises:
        UserError: there is none of that name, or it takes neither these arguments nor such inputs.
    """
    chosen, name = config.model, config.model.model
    build = load_object(name, "model") if ":" in name else lookup(MODELS, name, "model")
    try:
        takes = inspect.signature(build).parameters
    except (TypeError, ValueError) as error:
        raise UserError(f"model {name!r} cannot be called: {error}") from error
    flags = {"widths": chosen.widths, "activation": chosen.activation}
    options = {k: v for k, v in flags.items() if k in takes and ":" not in name}
    if name in MODELS and name not in TOKEN_MODELS and are_tokens(dataset.train_inputs):
        raise UserError(
            f"model {name!r} takes numbers, and the inputs of {dataset.name} are token ids; use "
            f"--model {', '.join(TOKEN_MODELS[:-1])} or {TOKEN_MODELS[-1]}"
        )
    options |= _model_options(name, takes, parse_options(chosen.model_options, "model"))
    arguments = (dataset.input_shape, dataset.num_classes)
    try:
        inspect.signature(build).bind(*arguments, **options)
    except TypeError as error:
        raise UserError(
            f"model {name!r} cannot be called as (input_shape, num_classes"
            f"{''.join(f', {key}=' for key in options)}): {error}"
        ) from error

    def make() -> nn.Module:
        try:
            made = build(*arguments, **options)
        except UserError:
            raise
        # What a builder makes of a wrong option is its own affair.
        except (Exception, SystemExit) as error:
            given = f" with {' '.join(chosen.model_options)}" if chosen.model_options else ""
            raise UserError(f"model {name!r}{given} cannot be made: {said(error)}") from error
        if not isinstance(made, nn.Module):
            raise UserError(f"model {name!r} returned {type(made).__name__}, not a torch.nn.Module")
        return made

    return make


def _model_options(
    name: str, takes: Mapping[str, inspect.Parameter], given: Mapping[str, str]
) -> dict[str, object]:
    """Options of a model behind its first two arguments, as its annotations want them.

    Raises:
        UserError: an option that it does not have, or a value that is no such thing.
    """
    known = [key for key, p in list(takes.items())[2:] if p.kind is not p.VAR_KEYWORD]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    options = {}
    for key, text in given.items():
        if key not in known and not open_ended:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise UserError(
                f"model {name!r} has no option {key!r}{suggestion(key, known)}; {there}"
            )
        options[key] = literal("model", key, text)
        kind = takes[key].annotation if key in known else None
        if isinstance(kind, type) and kind in KINDS and type(options[key]) not in KINDS[kind][0]:
            raise UserError(f"model {name!r}: {key} must be {KINDS[kind][1]}, got {text!r}")
    return options


KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    bool: ((bool,), "true or false"),
}
"""Annotation -> the types of values that it admits, in words."""


def topology(config: Config, n: int) -> topologies.Topology:
    """The config's topology for n learners: all that it names, or those that are left.

    With a mixing weight omega it has (1 - omega) I + omega W(t) in the place of W(t).

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
        return damped(topologies.build(gossip.topology, n, **options), gossip.mixing_weight)
    except topologies.TopologyError as error:
        raise UserError(str(error)) from error


def topology_and_remarks(config: Config, n: int) -> tuple[topologies.Topology, list[str]]:
    """`topology`, and what is to be known of it; told once, not by every process.

    Raises:
        UserError: there is none.
    """
    with catch_warnings(record=True) as caught:
        simplefilter("always", topologies.TopologyWarning)
        made = topology(config, n)
    remarks = [w for w in caught if issubclass(w.category, topologies.TopologyWarning)]
    for other in (w for w in caught if w not in remarks):  # of the user's own function
        warn_explicit(other.message, other.category, other.filename, other.lineno)
    return made, [str(w.message) for w in remarks]


def settings(config: Config) -> AlgorithmSettings:
    """What the config says to its algorithms."""
    gossip = config.gossip
    options = parse_options(gossip.algorithm_options, "algorithm")
    return AlgorithmSettings(
        gossip.order, gossip.noise_std, gossip.noise_mode, config.seed, options
    )


def pattern(name: str, config: Config) -> Pattern:
    """What a step of an algorithm of the table computes and sends, with the config's options.

    Raises:
        UserError: there is no such algorithm, or it states no pattern.
    """
    make: Any = lookup({**ALGORITHMS, **ASYNCHRONOUS}, name, "algorithm")
    torchs = _torch_optimizer(config)
    # Without layers: what is kept of a weight is asked, and nothing trained.
    made = make(lambda: FlatOptimizer(torchs, ()), settings(config))
    if not hasattr(made, "pattern"):
        raise UserError(
            f"algorithm {name} does not say what a step sends: give it a pattern, as in "
            "gossip/algorithms/dpsgd.py"
        )
    return made.pattern


def _torch_optimizer(config: Config) -> partial[torch.optim.Optimizer]:
    """What makes the config's optimizer over parameter groups.

    Raises:
        UserError: there is none of that name, it has no such option, or the option has a flag.
    """
    rate = config.rate
    kind = lookup(OPTIMIZERS, rate.optimizer, "optimizer")
    accepted = inspect.signature(kind.make).parameters
    known = [key for key in accepted if key not in ("params", "lr", "momentum", "weight_decay")]
    options = dict(kind.defaults)
    if rate.momentum is not None:
        if "momentum" not in accepted:
            raise UserError(f"optimizer {rate.optimizer!r} has no momentum; leave --momentum away")
        options["momentum"] = rate.momentum
    if rate.weight_decay is not None:
        options["weight_decay"] = rate.weight_decay
    for key, value in parse_options(rate.optimizer_options, "optimizer").items():
        if key in ("momentum", "weight_decay"):  # methods and formulas look at the flags alone
            raise UserError(
                f"optimizer option {key}={value} has a flag: give --{key.replace('_', '-')} {value}"
            )
        if key not in known:
            raise UserError(
                f"optimizer {rate.optimizer!r} has no option {key!r}{suggestion(key, known)}; it "
                f"has {', '.join(known)}"
            )
        options[key] = literal("optimizer", key, value)
        if isinstance(accepted[key].default, bool) and not isinstance(options[key], bool):
            raise UserError(f"optimizer option {key}={value}: give true or false")
    # lr only fills the place: FlatOptimizer sets the real rate at each step.
    make = partial(kind.make, lr=1.0, **options)
    try:
        with uncompiled():
            make([nn.Parameter(torch.zeros(1))])
    except (ValueError, TypeError) as error:
        raise UserError(f"optimizer {rate.optimizer!r}: {error}") from error
    return make


def optimizer(config: Config, task: Task) -> Callable[[], FlatOptimizer]:
    """What makes the optimizer of the hosted rows, with the options that it has.

    Raises:
        UserError: there is none of that name, or it has no such option.
    """
    make, kind = _torch_optimizer(config), OPTIMIZERS[config.rate.optimizer]
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
