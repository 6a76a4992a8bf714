"""From the parameters of an estimator to a damper, a loss and an optimizer, or one sentence."""

import copy
from collections.abc import Mapping
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any

import torch
from torch import nn

from gossip.damping import DAMPERS, ConstantBatch, Damper
from gossip.errors import UserError, lookup, said, suggestion
from gossip.task.parameters import coordinates

FIRST_BATCH = 32
"""B_0 where only a rule is given; or all samples, if they are fewer."""


def damper_of(
    batch_size: Any, options: Mapping[str, Any], max_batch_size: float | None, population: int
) -> Damper:
    """The damper that `batch_size` and `batch_size__x` describe.

    Args:
        batch_size: a number, a damper's name, class or instance.
        options: `batch_size__x`.
        max_batch_size: B_max; None: as the damper has it.
        population: N, training samples.

    Raises:
        UserError: it is none of these, an option does not exist, or it does not go with N.
    """
    options = dict(options)
    if not (max_batch_size is None or isinstance(max_batch_size, Real)):
        raise UserError(
            f"max_batch_size={max_batch_size!r}: give a number of samples, or None for all"
        )
    if max_batch_size is not None:
        options["max_batch"] = max_batch_size
    if isinstance(batch_size, str):
        batch_size = lookup(DAMPERS, batch_size, "damper")
    if isinstance(batch_size, Damper):
        found = _damper(type(batch_size), options, lambda: replace(batch_size, **options))
    elif isinstance(batch_size, type) and issubclass(batch_size, Damper):
        few = min(FIRST_BATCH, population)
        most = options.get("max_batch")
        is_less = isinstance(most, Real) and 1 <= float(most) < few
        options = {"initial": int(float(most)) if is_less else few} | options
        found = _damper(batch_size, options, lambda: batch_size(**options))
    elif isinstance(batch_size, bool) or not hasattr(batch_size, "__index__"):
        raise UserError(
            f"batch_size={batch_size!r}: give a number of samples, a damper (GeoDamp, or "
            f"GeoDamp(delay=60)) or its name, one of {', '.join(DAMPERS)}"
        )
    else:
        found = _damper(
            ConstantBatch, options, lambda: ConstantBatch(initial=batch_size, **options)
        )
    if "noise" in found.observes and found.initial < 2:
        raise UserError(
            f"{type(found).__name__} compares two parts of a batch, and a first batch of 1 has "
            "one: set batch_size__initial to at least 2"
        )
    if found.initial > population:
        raise UserError(
            f"the first batch of {found.initial} samples is more than there are, n_samples="
            f"{population}: set batch_size (or batch_size__initial) to at most that"
        )
    return found


def _damper(kind: type[Damper], options: Mapping[str, Any], make: Any) -> Damper:
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise UserError(
                f"batch_size__{name}: {kind.__name__} has no option {name!r}"
                f"{suggestion(name, known)}; there are {', '.join(known)}"
            )
    try:
        return make()
    except UserError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        given = ", ".join(f"batch_size__{name}={value!r}" for name, value in options.items())
        raise UserError(
            f"{kind.__name__} cannot be made with {given} ({said(error)}): give it numbers"
        ) from error


def made(name: str, given: Any, options: dict[str, Any], *shape: Any) -> Any:
    """A part of an estimator: a copy of an instance, or made by a class or function.

    Args:
        name: of the parameter, "module" or "loss".
        given: the instance of torch's modules, or what makes one.
        options: what it is made with, `name__x`.
        shape: what it is made with besides.

    Raises:
        UserError: an instance with options, or options that do not fit.
    """
    if isinstance(given, nn.Module):
        if options:
            raise UserError(
                f"{name} is an instance of {type(given).__name__}, and {name}__"
                f"{next(iter(options))} is of its class: give the class"
            )
        return copy.deepcopy(given)
    try:
        return given(*shape, **options)
    except TypeError as error:
        raise UserError(
            f"{name}={getattr(given, '__name__', given)!r} cannot be made ({said(error)}): "
            f"give a class, and what it is made with as {name}__x"
        ) from error


def check_module(module: Any) -> None:
    """Refuse what is no module, or one two of whose trained parameters live in the same memory.

    Raises:
        UserError: it is such.
    """
    if not isinstance(module, nn.Module):
        raise UserError(f"module makes a {type(module).__name__}: give a class of torch modules")
    _, ties = coordinates(module, f"module {type(module).__name__}")
    for tie in ties:
        if not tie.frozen:
            raise UserError(
                f"parameters {tie.of!r} and {tie.name!r} of the module live in the same memory, "
                "where an optimizer would change them twice: make them one parameter (module.b = "
                "module.a), or give each its own by .clone()"
            )


def check_optimizer(optimizer: Any) -> None:
    """Refuse an optimizer that has been made for other weights.

    Raises:
        UserError: it is not a class.
    """
    if isinstance(optimizer, torch.optim.Optimizer):
        name = type(optimizer).__name__
        raise UserError(
            f"optimizer is an instance of {name}, of weights that are not this module's: give the "
            f"class, optimizer=torch.optim.{name}, and its options as optimizer__momentum=0.9"
        )
    if not callable(optimizer):
        raise UserError(f"optimizer={optimizer!r}: give a class such as torch.optim.SGD")


def check_loss(loss: Any) -> None:
    """Refuse what does not average over samples, or what learns weights of its own.

    Raises:
        UserError: it does not.
    """
    if not isinstance(loss, nn.Module):
        raise UserError(
            f"loss makes a {type(loss).__name__}: give a class such as torch.nn.CrossEntropyLoss"
        )
    reduction = getattr(loss, "reduction", "mean")
    if reduction != "mean":
        raise UserError(
            f"the loss reduces by {reduction!r}: gradients are averages over a batch of any size, "
            "leave loss__reduction at 'mean'"
        )
    if any(p.requires_grad for p in loss.parameters()):
        raise UserError(
            f"the loss {type(loss).__name__} has weights of its own, which nobody would train: "
            "make them parameters of the module"
        )


def check_amounts(max_epochs: Any, lr: Any) -> None:
    """Refuse what is no number of epochs or no learning rate.

    Raises:
        UserError: it is not.
    """
    if not isinstance(max_epochs, Integral) or max_epochs < 0:
        raise UserError(f"max_epochs={max_epochs!r}: give a whole number of epochs, at least 0")
    if not (lr is None or (isinstance(lr, Real) and float(lr) >= 0)):
        raise UserError(
            f"lr={lr!r}: give a learning rate of at least 0, or None for the optimizer's own"
        )


def check_rates(optimizer: torch.optim.Optimizer) -> None:
    """Refuse to go on with an optimizer whose learning rate has been taken away.

    Raises:
        UserError: it has.
    """
    if any(group["lr"] is None for group in optimizer.param_groups):
        raise UserError(
            "lr=None: the optimizer is made and training goes on with it; give a learning rate, or "
            "call fit without warm_start, which begins anew at the optimizer's own"
        )


def check_split(train_split: Any) -> None:
    """Refuse what does not split a data set.

    Raises:
        UserError: it does not.
    """
    if not (train_split is None or callable(train_split)):
        raise UserError(
            f"train_split={train_split!r}: give skorch's ValidSplit({train_split!r}), or None to "
            "hold nothing out"
        )


def check_device(device: Any) -> None:
    """Refuse a device that torch does not have here.

    Raises:
        UserError: it does not.
    """
    try:
        torch.empty(0, device=torch.device(device))
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UserError(
            f"device={device!r}: torch cannot compute there ({said(error)}); use device='cpu'"
        ) from error


def check_workers(least: int, most: int, samples: int) -> None:
    """Refuse numbers of workers that cannot be.

    Raises:
        UserError: they cannot.
    """
    given = {"min_workers": least, "max_workers": most, "grads_per_worker": samples}
    for name, value in given.items():
        if not isinstance(value, Integral):
            raise UserError(f"{name}={value!r}: give a whole number")
    if not 1 <= least <= most:
        raise UserError(
            f"min_workers={least}, max_workers={most}: both are at least 1, and min_workers is not "
            "above max_workers"
        )
    if samples < 1:
        raise UserError(f"grads_per_worker={samples}: it is a number of samples, at least 1")
