"""Which parameters of a module are trained, and which of them are one: for both front ends."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from gossip.errors import UserError
from gossip.task.ties import overlap

MIXABLE = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""What weights may be made of: numbers of which there are averages."""

MOST_DIMENSIONS = 4
"""Of parameters that are looked at for being each other's transpose."""


P = TypeVar("P", bound=Tensor)


def trained(named: Mapping[str, P], whose: str, to: str = "average") -> dict[str, P]:
    """Those of the parameters that need a gradient, each once; the frozen ones stay as they are.

    Args:
        named: parameters by name.
        whose: what the messages to the user call their owner.
        to: what there is nothing to do if there are none.

    Raises:
        UserError: there are none, or of a kind that cannot be averaged.
    """
    once: dict[int, tuple[str, P]] = {}
    for name, parameter in named.items():
        if parameter.requires_grad:
            once.setdefault(id(parameter), (name, parameter))
    chosen = dict(once.values())
    if not chosen:
        frozen = f" that needs a gradient (all {len(named)} are frozen)" if named else ""
        raise UserError(f"{whose} has no parameter{frozen}: nothing to {to}")
    for name, parameter in chosen.items():
        _refuse_unmixable(name, parameter)
    return chosen


class Tie(NamedTuple):
    """A parameter that lives in the memory of another, as after `b.data = a.data.T`."""

    name: str
    of: str
    """Name of the other, which is trained."""
    order: tuple[int, ...]
    """The dimensions of the other in the order of this one's."""
    frozen: bool
    """Whether this one asks for no gradient: it moves with the other and adds nothing to it."""

    def view(self, other: Tensor) -> Tensor:
        """This parameter, given the other."""
        own = other.permute(self.order)
        return own.detach() if self.frozen else own


def coordinates(module: nn.Module, whose: str) -> tuple[dict[str, nn.Parameter], tuple[Tie, ...]]:
    """The trained parameters, each once, and those that are another name of one of them.

    Identity is a matter of memory: a parameter that is used under two names is one, and so are
    two whose data is the same memory.

    Raises:
        UserError: as `trained`, or where two parameters share a part of their memory.
    """
    named = dict(module.named_parameters())
    chosen = trained(named, whose, to="train")
    ties = tuple(_ties(named, chosen))
    others = {tie.name for tie in ties}
    return {name: p for name, p in chosen.items() if name not in others}, ties


def _ties(named: Mapping[str, nn.Parameter], chosen: Mapping[str, nn.Parameter]) -> Iterator[Tie]:
    by_storage: dict[int, list[str]] = defaultdict(list)
    for name in (*chosen, *(name for name in named if name not in chosen)):  # trained ones first
        if named[name].numel() and not named[name].is_meta:
            by_storage[named[name].untyped_storage().data_ptr()].append(name)
    for names in by_storage.values():
        firsts: list[str] = []
        for name in names:
            tie = _tie(name, firsts, named, chosen)
            if tie is None:
                firsts.append(name)
            elif tie.of in chosen:
                yield tie


def _tie(
    name: str,
    firsts: list[str],
    named: Mapping[str, nn.Parameter],
    chosen: Mapping[str, nn.Parameter],
) -> Tie | None:
    """To which of the `firsts` the parameter is tied; None: to none of them."""
    one = named[name]
    for first in firsts:
        other = named[first]
        order = _order(other, one)
        if order is not None:
            return Tie(name, first, order, name not in chosen)
        if first in chosen and overlap(other, one):
            raise UserError(
                f"parameters {first!r} and {name!r} share a part of their memory: tie them as a "
                "whole (the same parameter, or its transpose), or give each its own by .clone()"
            )
    return None


def _order(one: Tensor, other: Tensor) -> tuple[int, ...] | None:
    """How the dimensions of `one` are to be permuted to give `other`, in the same memory."""
    if (one.dtype, one.ndim) != (other.dtype, other.ndim) or one.ndim > MOST_DIMENSIONS:
        return tuple(range(one.ndim)) if one.is_set_to(other) else None
    for order in permutations(range(one.ndim)):
        if one.detach().permute(order).is_set_to(other.detach()):
            return order
    return None


def _refuse_unmixable(name: str, parameter: Tensor) -> None:
    if isinstance(parameter, nn.parameter.UninitializedParameter):
        raise UserError(
            f"parameter {name!r} has no shape yet: run one batch through the module, then wrap it"
        )
    if parameter.is_meta:
        raise UserError(
            f"parameter {name!r} is on the meta device, without numbers: give it some "
            "(module.to_empty(device=...), then its initial values)"
        )
    if parameter.dtype not in MIXABLE:
        allowed = ", ".join(short(dtype) for dtype in MIXABLE)
        raise UserError(
            f"parameter {name!r} is {short(parameter.dtype)}, which cannot be averaged: "
            f"convert it to one of {allowed}, or freeze it with requires_grad_(False)"
        )
    if parameter.layout != torch.strided:
        raise UserError(f"parameter {name!r} is {short(parameter.layout)}: make it to_dense()")
    if not parameter.is_leaf:
        raise UserError(
            f"parameter {name!r} is computed from others (no leaf), so no optimizer changes it: "
            "give those that it is computed from"
        )
    if any(s == 0 and n > 1 for n, s in zip(parameter.shape, parameter.stride(), strict=True)):
        raise UserError(f"parameter {name!r} is expanded, its elements share memory: clone() it")


def short(kind: torch.dtype | torch.layout) -> str:
    """'float32'."""
    return str(kind).removeprefix("torch.")
