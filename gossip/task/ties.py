"""Ties of parameters by their memory: one storage is one parameter, however many names it has."""

from collections.abc import Hashable, Iterator, Mapping
from itertools import product
from typing import TypeVar

import torch
from torch import Tensor

from gossip.errors import UserError

K = TypeVar("K", bound=Hashable)


def owners(named: Mapping[str, Tensor]) -> dict[str, str]:
    """Of each tensor the name of the one whose memory it lies in: its own, where it has its own.

    Tensors are tied by `decoder.weight.data = encoder.weight.data` as well as by
    `decoder.weight = encoder.weight`; the first may be a transposed view, or a part of the other.

    Raises:
        UserError: two tensors share a part of their memory, and neither holds the other.
    """
    found = {name: name for name in named}
    for names in _touching(named):
        apart: list[str] = []
        for name in sorted(names, key=lambda name: -named[name].numel()):
            holder = next((other for other in apart if _holds(named[other], named[name])), None)
            if holder is not None:
                found[name] = holder
                continue
            other = next((other for other in apart if overlap(named[other], named[name])), None)
            if other is not None:
                raise UserError(
                    f"parameters {other!r} and {name!r} share a part of their memory, which "
                    "cannot be averaged as one or as two: clone() one of them, or make one a "
                    "view of the other"
                )
            apart.append(name)
    return found


def first_shared(
    these: Mapping[str, Tensor], those: Mapping[str, Tensor]
) -> tuple[str, str] | None:
    """The first of these that has an element in common with one of those, and that one."""
    named = {(0, name): t for name, t in these.items()} | {
        (1, name): t for name, t in those.items()
    }
    found: dict[str, str] = {}
    for keys in _touching(named):
        for mine, theirs in product(keys, keys):
            if (mine[0], theirs[0]) == (0, 1) and overlap(named[mine], named[theirs]):
                found.setdefault(mine[1], theirs[1])
    return next(((name, found[name]) for name in these if name in found), None)


def _touching(named: Mapping[K, Tensor]) -> Iterator[list[K]]:
    """Groups of keys whose memory, from first to last byte, overlaps; each in the given order."""
    keys = list(named)
    spans = [(str(t.device), *_span(t), k) for k, t in enumerate(named.values())]
    group: list[int] = []
    where, end = "", 0
    for device, first, last, k in [*sorted(s for s in spans if s[1] < s[2]), ("", 0, 0, 0)]:
        if device != where or first >= end:
            if len(group) > 1:
                yield [keys[k] for k in sorted(group)]
            group, where, end = [], device, 0
        group.append(k)
        end = max(end, last)


def _span(tensor: Tensor) -> tuple[int, int]:
    """Addresses of the first byte of a tensor and of the one behind its last."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return start, start + (1 + sum((n - 1) * s for n, s in sizes)) * tensor.element_size()


def dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """The strides of this tensor if nothing else lies between its elements."""
    return torch.empty_like(tensor, device="meta").stride()


def distinct(tensor: Tensor) -> Tensor:
    """The view of a tensor that has each of its numbers once, of what is expanded the first."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether the tensors, of one device, have elements in common."""
    (first_a, last_a), (first_b, last_b) = _span(a), _span(b)
    if max(first_a, first_b) >= min(last_a, last_b):
        return False
    if (_is_dense(a) and _is_dense(b)) or a.element_size() != b.element_size():
        return True
    elements = torch.cat([_addresses(a), _addresses(b)])
    return elements.unique().numel() < elements.numel()


def _holds(whole: Tensor, part: Tensor) -> bool:
    """Whether all elements of `part` are elements of `whole`."""
    if whole.dtype != part.dtype:
        return False
    (first, last), (first_part, last_part) = _span(whole), _span(part)
    if (first, whole.shape, whole.stride()) == (first_part, part.shape, part.stride()):
        return True
    inside = first <= first_part and last_part <= last
    return inside and _is_dense(whole) and (first_part - first) % whole.element_size() == 0


def _is_dense(tensor: Tensor) -> bool:
    return tensor.stride() == dense_stride(tensor)


def _addresses(tensor: Tensor) -> Tensor:
    first, last = _span(tensor)
    every = torch.arange(first, last, tensor.element_size())
    return every.as_strided(tensor.shape, tensor.stride()).reshape(-1)
