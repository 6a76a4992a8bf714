"""A learner of several processes: its parameters are sharded, and a process has a part of each."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from torch import Tensor

from gossip.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether it is a DTensor, which `fully_shard` makes of a parameter."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def shard(tensor: Tensor) -> Tensor:
    """The numbers of a tensor that this process has, in their memory: of a plain one, itself."""
    return tensor.to_local().detach() if is_sharded(tensor) else tensor


def check_shards(named: Mapping[str, Tensor], whole: str, *, meshed: bool) -> None:
    """Refuse trained parameters that are sharded otherwise than is said.

    Args:
        named: the parameters.
        whole: what the messages call their owner.
        meshed: whether a learner is said to have several processes.

    Raises:
        UserError: of the first that does not fit.
    """
    for name, parameter in named.items():
        if not parameter.requires_grad:
            continue
        if not is_sharded(parameter):
            if meshed:
                raise UserError(
                    f"{whole} with mesh=: parameter {name!r} is not sharded, so each process of a "
                    "learner would go its own way with it: fully_shard the whole module over the "
                    "mesh's other dimension, or freeze it"
                )
        elif not meshed:
            raise UserError(
                f"{whole}: parameter {name!r} is a part of one, so a learner has several "
                'processes: give mesh=mesh["learner"], those that have the same part of each'
            )
        elif not all(placement.is_shard() for placement in parameter.placements):
            raise UserError(
                f"{whole}: parameter {name!r} is placed as {_placed(parameter)}; only parameters "
                "that are split among a learner's processes can be averaged, as fully_shard does"
            )


def sizes(named: Mapping[str, Tensor]) -> dict[str, int]:
    """How many numbers of each sharded tensor are here."""
    return {name: shard(t).numel() for name, t in named.items() if is_sharded(t)}


def _placed(tensor: Any) -> str:
    return ", ".join(map(str, tensor.placements))
