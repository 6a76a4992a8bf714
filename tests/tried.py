"""What a model of ours does in a trial, found out once by all tests of a process that train it.

To try a model takes two fifths of what it costs to prepare a study, and tests prepare thousands, of
some dozens of models. What a test brings along is tried anew each time.
"""

import hashlib
from collections.abc import Hashable

import torch
from torch import Tensor, nn

from gossip.task.trial import Conduct, MeanLoss, conduct

OURS = ("torch.nn.modules.", "gossip.models.")
"""Modules whose classes have one conduct each, if nothing was hung on to them."""
MOST = 64
"""Trials that are kept, with gradients of up to 50 MB each; the oldest goes."""
_found: dict[Hashable, Conduct] = {}


def conduct_once(
    model: nn.Module, inputs: Tensor, labels: Tensor, loss: MeanLoss, num_classes: int
) -> Conduct:
    """As `gossip.task.trial.conduct`."""
    if not all(map(is_plain, model.modules())):
        return conduct(model, inputs, labels, loss, num_classes)
    named = (*model.named_parameters(), *model.named_buffers())
    key = (
        str(model),
        *map(settings, model.modules()),
        *((name, told_by(tensor)) for name, tensor in named),
        *map(told_by, (inputs, labels)),
        loss,
        num_classes,
    )
    if key not in _found:
        if len(_found) == MOST:
            del _found[next(iter(_found))]
        _found[key] = conduct(model, inputs, labels, loss, num_classes)
    return _found[key]


def is_plain(module: nn.Module) -> bool:
    """Whether what it does is told by its class, `settings`, parameters and buffers."""
    hung = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        type(module).__module__.startswith(OURS)
        and not any(vars(module)[name] for name in hung)
        and not any(callable(own) or isinstance(own, Tensor) for own in public(module).values())
    )


def settings(module: nn.Module) -> Hashable:
    """What it was made with."""
    return tuple((name, repr(own)) for name, own in public(module).items())


def public(module: nn.Module) -> dict[str, object]:
    """Its own attributes but for parameters, buffers and modules."""
    return {name: own for name, own in vars(module).items() if not name.startswith("_")}


def told_by(tensor: Tensor) -> Hashable:
    """All of a tensor that a pass could look at."""
    there = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(there.view(-1).view(torch.uint8).numpy()).digest()
    kind = (tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad)
    return digest, *kind, str(tensor.device)
