"""A learner of several processes: a process has a part of each parameter, or a copy of it."""

import sys
from collections.abc import Collection, Mapping
from math import prod
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor, nn

from gossip.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_distributed(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether it is a DTensor, as `fully_shard` and `parallelize_module` make of a parameter."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def shard(tensor: Tensor) -> Tensor:
    """The numbers of a tensor that this process has, in their memory: of a plain one, itself."""
    return tensor.to_local().detach() if is_distributed(tensor) else tensor


def gradient_of(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The numbers of a gradient that belong to those of the parameter that are here, dense.

    What is the same on several processes may have a gradient of which each has a summand: their sum
    is taken, as an optimizer takes it, by all processes of the learner.
    """
    if is_distributed(gradient) and is_distributed(parameter):
        gradient = gradient.redistribute(placements=parameter.placements)
    return shard(gradient).to_dense()


def copies(tensor: Tensor, processes: int) -> int:
    """How many of a learner's processes have the same numbers of a tensor: 1 where it is split."""
    return processes // _parts(tensor)


def copied_first(named: Mapping[str, Tensor], processes: int) -> dict[str, Tensor]:
    """The same by name, first those of which most processes of a learner have a copy.

    What lies in front of a copy in a row of weights is then as long on all of them, so that copies
    are computed in the same places: they stay the same bit for bit.
    """
    return dict(sorted(named.items(), key=lambda item: -copies(item[1], processes)))


def check_shards(module: nn.Module, whole: str, own: Collection[int]) -> None:
    """Refuse trained parameters that a learner of several processes cannot have.

    Args:
        module: has the parameters.
        whole: what the messages call it.
        own: the processes of the learner here.

    Raises:
        UserError: of the first that does not fit.
    """
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    # Otherwise the processes of a learner are taken to have the same batches.
    has_batches_apart = _is_fully_sharded(module) or not any(map(is_distributed, trained.values()))
    for name, parameter in trained.items():
        if not is_distributed(parameter):
            if has_batches_apart:
                raise UserError(
                    f"{whole} with mesh=: parameter {name!r} is not sharded, so each process of a "
                    "learner would go its own way with it: fully_shard the whole module over the "
                    "mesh's other dimension, or freeze it"
                )
            continue
        placed = ", ".join(map(str, parameter.placements))
        if any(placement.is_partial() for placement in parameter.placements):
            raise UserError(
                f"{whole}: parameter {name!r} is placed as {placed}, each process having a summand "
                "of it, which no optimizer can step: distribute_tensor it as Shard or Replicate"
            )
        if theirs := sorted(set(parameter.device_mesh.mesh.flatten().tolist()) - set(own)):
            raise UserError(
                f"{whole}: parameter {name!r} is placed as {placed} on process {theirs[0]}, too, "
                "which mesh= says is of another learner: split the module over the mesh's other "
                'dimensions, as mesh["shard"]'
            )


def refuse_shards(named: Mapping[str, Tensor], whole: str) -> None:
    """Refuse trained parameters of which other processes have a part, where nobody said so.

    Args:
        named: the parameters.
        whole: what the message calls their owner.

    Raises:
        UserError: there is one.
    """
    for name, parameter in named.items():
        if parameter.requires_grad and is_distributed(parameter):
            raise UserError(
                f"{whole}: parameter {name!r} is a part of one, so a learner has several "
                'processes: give mesh=mesh["learner"], those that have the same part of each'
            )


def sizes(named: Mapping[str, Tensor]) -> dict[str, int]:
    """How many numbers of each distributed tensor are here."""
    return {name: shard(t).numel() for name, t in named.items() if is_distributed(t)}


def _is_fully_sharded(module: nn.Module) -> bool:
    """Whether `fully_shard` has been there: it gathers parameters for batches that differ."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and any(isinstance(m, fsdp.FSDPModule) for m in module.modules())


def _parts(tensor: Tensor) -> int:
    """Into how many parts a tensor is split; those of a small one may be empty."""
    if not is_distributed(tensor):
        return 1
    sizes = zip(tensor.device_mesh.shape, tensor.placements, strict=True)
    return prod(1 if placement.is_replicate() else size for size, placement in sizes)
