"""The buffers of a module while its weights are the mean model's: BatchNorm's statistics."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from gossip.comm.base import Communicator
from gossip.errors import UserError, one_of
from gossip.task.ties import distinct

POLICIES = ("average", "local", "recalibrate")
"""What `buffers=` offers: of all learners; the learner's own; measured anew on samples."""

_NORM = nn.modules.batchnorm._NormBase


def check(policy: str, loader: Iterable[Any] | None) -> None:
    """Refuse samples that nobody looks at, and none where some are needed.

    Raises:
        UserError: `loader` does not fit the policy, or there is no such policy.
    """
    one_of(POLICIES, policy, "buffers policy")
    if policy == "recalibrate" and loader is None:
        raise UserError("buffers='recalibrate' measures statistics on samples: average(loader)")
    if policy != "recalibrate" and loader is not None:
        raise UserError(
            f"average(loader) with buffers={policy!r}, which looks at no samples: leave the loader "
            "away, or wrap with buffers='recalibrate'"
        )


@contextmanager
def of_the_mean_model(
    module: nn.Module, policy: str, loader: Iterable[Any] | None, comm: Communicator
) -> Iterator[None]:
    """In this block the buffers fit the mean weights, then they are the learner's own again.

    Args:
        module: with the mean weights.
        policy: one of `POLICIES`.
        loader: gives batches to measure statistics on, the inputs first; each learner may have
            its own, as they are averaged. They come from torch's `update_bn`.
        comm: collective.
    """
    modes = [(part, part.training) for part in module.modules()]
    with unchanged(module):
        if loader is not None:
            update_bn(loader, module, next(module.parameters()).device)
            for part, mode in modes:
                part.training = mode
        if policy != "local":
            average(module, comm)
        yield


@contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """In this block the buffers of a module may change; then they are as before.

    Also where others are put in their place, by `update_bn` or by `self.mean = ...` in a forward
    pass. A graph that autograd has recorded stays valid.
    """
    own = [
        (part, name, buffer, None if buffer is None else distinct(buffer).clone())
        for part in module.modules()
        for name, buffer in part._buffers.items()
    ]
    try:
        yield
    finally:
        for part, name, buffer, before in own:
            if buffer is not None and before is not None:
                distinct(buffer.data).copy_(before)
            setattr(part, name, buffer)


@torch.no_grad()
def average(module: nn.Module, comm: Communicator) -> None:
    """Average the floating-point buffers over the learners; variances as E[x^2] - E[x]^2.

    Collective. Counters and other integers stay as they are.
    """
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    if not buffers:
        return
    means = dict(_means_of_variances(module))
    moments = [_wide(b) + _square(means.get(id(b))) for b in buffers]
    pooled = comm.mean(torch.cat([m.reshape(-1) for m in moments]).unsqueeze(0))
    averages = dict(zip(map(id, buffers), pooled.split([m.numel() for m in moments]), strict=True))
    for buffer in buffers:
        own = averages[id(buffer)]
        mean = means.get(id(buffer))
        value = own if mean is None else own - averages[id(mean)].square()
        distinct(buffer).copy_(value.view(distinct(buffer).shape))


def _means_of_variances(module: nn.Module) -> Iterator[tuple[int, Tensor]]:
    """The id of each running variance, and the mean that belongs to it."""
    for part in module.modules():
        own = dict(part.named_buffers(recurse=False))
        if isinstance(part, _NORM) and "running_var" in own:
            yield id(own["running_var"]), own["running_mean"]


def _wide(buffer: Tensor) -> Tensor:
    return distinct(buffer).double().cpu()


def _square(mean: Tensor | None) -> Tensor | float:
    return 0.0 if mean is None else _wide(mean).square()
